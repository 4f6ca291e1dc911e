# What the start scripts of this folder share: they source it, have the functions `up` and `down`, and end with `run "$@"`.
# Of each part the folder `dir` holds NAME.pid, NAME.log and NAME.port.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/backfill-tests

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Some packages would start a server of their own. The file is how Debian is told not to.
debian_install() { # PACKAGE..
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "install these first: $*"
  as_root true || die "needs root or passwordless sudo to install: $*"
  mkdir -p "$cache"
  (
    # Two at a time would take each other's file away.
    flock 9
    policy=/usr/sbin/policy-rc.d made=""
    if [ ! -e $policy ]; then
      printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
      as_root chmod 755 $policy
      made=yes
    fi
    failed=""
    {
      as_root apt-get -o DPkg::Lock::Timeout=180 update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive \
          apt-get -o DPkg::Lock::Timeout=180 install -y -qq --no-install-recommends "$@"
    } >&2 || failed=yes
    [ -z "$made" ] || as_root rm -f $policy
    [ -z "$failed" ]
  ) 9>"$cache/apt.lock" || die "could not install: $*"
}

# A virtual environment with Python packages, made once; whoever comes second waits for the first.
python_install() { # VENV PACKAGE..
  local venv=$1
  shift
  [ ! -e "$venv/done" ] || return 0
  mkdir -p "${venv%/*}"
  (
    flock 9
    [ ! -e "$venv/done" ] || exit 0
    python3 -c 'import ensurepip, venv' 2>/dev/null || debian_install python3-venv
    rm -rf "$venv"
    python3 -m venv "$venv" >&2 &&
      "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2 || die "pip could not install $*"
    touch "$venv/done"
  ) 9>"$venv.lock"
}

# Pid files hold the pid and the start time, so that a later process with the same pid is left alone.
started_at() { # PID: nothing for one that has ended, also if nobody has collected it yet
  local state start
  read -r state start < <(ps -o stat= -o lstart= -p "$1" 2>/dev/null) || return 0
  [ "${state#Z}" != "$state" ] || printf '%s\n' "$start"
}

alive() { # NAME
  local pid start
  [ -s "$dir/$1.pid" ] || return 1
  { read -r pid && read -r start; } <"$dir/$1.pid" 2>/dev/null || return 1
  [ -n "$start" ] && [ "$(started_at "$pid")" = "$start" ]
}

pid_of() { # NAME
  head -n 1 "$dir/$1.pid"
}

last_words() { # NAME
  tail -n 3 "$dir/$1.log"
}

start() { # NAME COMMAND..
  local name=$1 pid
  shift
  nohup "$@" >>"$dir/$name.log" 2>&1 </dev/null &
  pid=$!
  printf '%s\n%s\n' "$pid" "$(started_at "$pid")" >"$dir/$name.pid"
}

stop() { # NAME: it has 10 s to end by itself
  local pid tries=0
  if alive "$1"; then
    pid=$(pid_of "$1")
    kill "$pid" 2>/dev/null || true
    while alive "$1" && [ $tries -lt 100 ]; do
      sleep 0.1
      tries=$((tries + 1))
    done
    ! alive "$1" || kill -9 "$pid" 2>/dev/null || true
  fi
  rm -f "$dir/$1.pid"
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

listens() { # NAME PORT SECONDS: until it listens, or is gone, or that long
  local tries=0
  until (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do
    alive "$1" || return 1
    tries=$((tries + 1))
    [ $tries -lt $(($3 * 20)) ] || return 1
    sleep 0.05
  done
}

# A part that chooses its port itself and writes it into NAME.port.
chooses_port() { # NAME
  local tries=0
  until [ -s "$dir/$1.port" ]; do
    [ $tries -lt 600 ] && alive "$1" || die "$1 does not start: $(last_words "$1")"
    tries=$((tries + 1))
    sleep 0.05
  done
}

# FUNCTION starts NAME on a port, the one that it had before if that is still free. Between finding a free port and using
# it somebody else may take it.
on_a_port() { # NAME FUNCTION
  ! alive "$1" || return 0
  local attempt
  for attempt in 1 2 3 4 5; do
    if [ $attempt != 1 ] || [ ! -s "$dir/$1.port" ]; then free_port >"$dir/$1.port"; fi
    "$2" "$(cat "$dir/$1.port")"
    ! listens "$1" "$(cat "$dir/$1.port")" 60 || return 0
    stop "$1"
  done
  die "$1 does not start: $(last_words "$1")"
}

# When the process OWNER ends, everything stops and the folder is removed.
watch_owner() {
  [ -n "${OWNER:-}" ] && [ ! -e "$dir/owner" ] || return 0
  local start
  start=$(started_at "$OWNER")
  [ -n "$start" ] || die "there is no process $OWNER"
  printf '%s\n' "$OWNER" >"$dir/owner"
  (
    while [ -e "$dir/owner" ] && [ "$(started_at "$OWNER")" = "$start" ]; do sleep 0.5; done
    [ ! -e "$dir/owner" ] || { down; rm -rf "$dir"; }
  ) >/dev/null 2>&1 </dev/null &
}

# The command line `up DIR` or `down DIR`, for which the script has functions of that name; what else it gave `down`
# goes there.
run() { # COMMAND DIR [PART]
  case ${1:-} in
    up) [ $# = 2 ] || die "up DIR" && mkdir -p "$2" ;;
    down) [ $# -ge 2 ] || die "down DIR" && [ -d "$2" ] || exit 0 ;;
    *) die "up DIR or down DIR" ;;
  esac
  local command=$1
  dir=$(cd "$2" && pwd)
  shift 2
  "$command" "$@"
}
