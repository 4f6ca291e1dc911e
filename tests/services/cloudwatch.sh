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

version=5.2.5
cache=${BACKFILL_CLOUDWATCH_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/backfill-tests}
venv=$cache/moto-$version

die() {
  printf 'cloudwatch.sh: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_missing() {
  [ ! -e "$venv/done" ] || return 0
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    command -v apt-get >/dev/null || die "install these first: python3-venv"
    as_root true || die "needs root or passwordless sudo to install: python3-venv"
    {
      as_root apt-get -o DPkg::Lock::Timeout=180 update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive \
          apt-get -o DPkg::Lock::Timeout=180 install -y -qq --no-install-recommends python3-venv
    } >&2 || die "could not install: python3-venv"
  fi
  mkdir -p "$cache"
  (
    flock 9
    [ ! -e "$venv/done" ] || exit 0
    rm -rf "$venv"
    # What moto's server needs for CloudWatch; its extra `server` brings what all other services need, too.
    python3 -m venv "$venv" >&2 &&
      "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "moto[cloudwatch]==$version" \
        "flask==3.1.3" "flask-cors==6.0.5" >&2 || die "pip could not install moto $version"
    touch "$venv/done"
  ) 9>"$cache/moto.lock"
}

# Pid files hold the pid and the start time, so that a later process with the same pid is left alone.
started_at() { # PID: nothing for one that has ended, also if nobody has collected it yet
  local state start
  read -r state start < <(ps -o stat= -o lstart= -p "$1" 2>/dev/null) || return 0
  [ "${state#Z}" != "$state" ] || printf '%s\n' "$start"
}

alive() {
  local pid start
  [ -s "$dir/moto.pid" ] || return 1
  { read -r pid && read -r start; } <"$dir/moto.pid" 2>/dev/null || return 1
  [ -n "$start" ] && [ "$(started_at "$pid")" = "$start" ]
}

start() { # PORT
  local pid
  # Nothing of ours gets out: the emulator has no business with anybody.
  nohup env -u AWS_PROFILE AWS_ACCESS_KEY_ID=emulator AWS_SECRET_ACCESS_KEY=emulator "$venv/bin/python" \
    -m moto.server -H 127.0.0.1 -p "$1" >>"$dir/moto.log" 2>&1 </dev/null &
  pid=$!
  printf '%s\n%s\n' "$pid" "$(started_at "$pid")" >"$dir/moto.pid"
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

listens() { # PORT
  local tries=0
  until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
    alive || return 1
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || return 1
    sleep 0.05
  done
}

watch_owner() { # PID
  [ ! -e "$dir/owner" ] || return 0
  local start
  start=$(started_at "$1")
  [ -n "$start" ] || die "there is no process $1"
  printf '%s\n' "$1" >"$dir/owner"
  (
    while [ -e "$dir/owner" ] && [ "$(started_at "$1")" = "$start" ]; do sleep 0.5; done
    [ ! -e "$dir/owner" ] || { down; rm -rf "$dir"; }
  ) >/dev/null 2>&1 </dev/null &
}

up() {
  install_missing
  [ -z "${OWNER:-}" ] || watch_owner "$OWNER"
  local attempt
  # Between finding a free port and using it somebody else may take it.
  for attempt in 1 2 3; do
    ! alive || break
    free_port >"$dir/port"
    start "$(cat "$dir/port")"
    listens "$(cat "$dir/port")" || true
  done
  alive || die "the emulator does not start: $(tail -n 3 "$dir/moto.log")"
  printf 'CLOUDWATCH_URL=http://127.0.0.1:%s\nCLOUDWATCH_PID=%s\n' "$(cat "$dir/port")" "$(head -n 1 "$dir/moto.pid")"
}

down() {
  local pid tries=0
  if alive; then
    pid=$(head -n 1 "$dir/moto.pid")
    kill "$pid" 2>/dev/null || true
    while alive && [ $tries -lt 50 ]; do
      sleep 0.1
      tries=$((tries + 1))
    done
    ! alive || kill -9 "$pid" 2>/dev/null || true
  fi
  rm -f "$dir/moto.pid" "$dir/owner"
}

[ $# = 2 ] || { sed -n '5,6p' "$0" | cut -c 3- >&2; exit 2; }
case $1 in
  up) mkdir -p "$2" ;;
  down) [ -d "$2" ] || exit 0 ;;
  *) die "up DIR or down DIR" ;;
esac
dir=$(cd "$2" && pwd)
"$1"
