#!/usr/bin/env bash
# An emulator of CloudWatch, the Python package moto, on a free loopback port. It keeps what is put into it in memory,
# and takes any signature.
#
#   cloudwatch.sh up DIR      starts it if it does not run, prints NAME=VALUE lines when it answers
#   cloudwatch.sh down DIR    stops what `up` started
#
# Lines: CLOUDWATCH_URL, CLOUDWATCH_PID.
#
#   OWNER=PID                    when that process ends, everything stops and DIR is removed
#   BACKFILL_CLOUDWATCH_CACHE=   where the Python package is kept, else in the user's cache folder
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
version=5.2.5
cache=${BACKFILL_CLOUDWATCH_CACHE:-$cache}
venv=$cache/moto-$version

# Nothing of ours gets out: the emulator has no business with anybody.
moto() { # PORT
  start moto env -u AWS_PROFILE AWS_ACCESS_KEY_ID=emulator AWS_SECRET_ACCESS_KEY=emulator "$venv/bin/python" \
    -m moto.server -H 127.0.0.1 -p "$1"
}

up() {
  # What moto's server needs for CloudWatch; its extra `server` brings what all other services need, too.
  python_install "$venv" "moto[cloudwatch]==$version" "flask==3.1.3" "flask-cors==6.0.5"
  watch_owner
  on_a_port moto moto
  printf 'CLOUDWATCH_URL=http://127.0.0.1:%s\nCLOUDWATCH_PID=%s\n' "$(cat "$dir/moto.port")" "$(pid_of moto)"
}

down() {
  stop moto
  rm -f "$dir/owner"
}

run "$@"
