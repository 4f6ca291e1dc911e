#!/usr/bin/env bash
# A real Burrow on a free loopback port, with what it needs: a ZooKeeper, and a cluster of one mock broker with consumer
# groups that commit what they are told (burrow_feeder.py).
#
#   burrow.sh up DIR           starts what does not run, prints NAME=VALUE lines when Burrow answers
#   burrow.sh down DIR [PART]  stops what `up` started, or one part: burrow, feeder, zookeeper
#
# Lines: BURROW_URL, BURROW_CLUSTER, FEEDER_URL (what it takes is in burrow_feeder.py), and BURROW_PID, FEEDER_PID,
# ZOOKEEPER_PID. The broker lives inside of the feeder: when that ends, the cluster is gone.
#
#   OWNER=PID                when that process ends, everything stops and DIR is removed
#   BACKFILL_BURROW_CACHE=   where the Python package is kept, else in the user's cache folder
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=2.16.1
cache=${BACKFILL_BURROW_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/backfill-tests}
venv=$cache/confluent-kafka-$version
cluster=local

die() {
  printf 'burrow.sh: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

debian_install() {
  local missing=() policy=/usr/sbin/policy-rc.d made="" failed=""
  command -v Burrow >/dev/null || missing+=(burrow)
  [ -e /usr/share/java/zookeeper.jar ] || missing+=(zookeeper)
  # The headless one, before ZooKeeper's package asks for any.
  command -v java >/dev/null || missing+=(default-jre-headless)
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "install these first: ${missing[*]}"
  as_root true || die "needs root or passwordless sudo to install: ${missing[*]}"
  # Burrow's package would start a server of its own. This file is how Debian is told not to.
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod 755 $policy
    made=yes
  fi
  {
    as_root apt-get -o DPkg::Lock::Timeout=180 update -qq &&
      as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -o DPkg::Lock::Timeout=180 install -y -qq --no-install-recommends "${missing[@]}"
  } >&2 || failed=yes
  [ -z "$made" ] || as_root rm -f $policy
  [ -z "$failed" ] || die "could not install: ${missing[*]}"
}

python_install() {
  [ ! -e "$venv/done" ] || return 0
  rm -rf "$venv"
  python3 -m venv "$venv" >&2 &&
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
      "confluent-kafka==$version" >&2 || die "pip could not install confluent-kafka $version"
  touch "$venv/done"
}

# Whoever comes second waits for the first.
install_missing() {
  mkdir -p "$cache"
  (
    flock 9
    debian_install
    python_install
  ) 9>"$cache/burrow.lock"
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

start() { # NAME COMMAND..
  local name=$1 pid
  shift
  nohup "$@" >>"$dir/$name.log" 2>&1 </dev/null &
  pid=$!
  printf '%s\n%s\n' "$pid" "$(started_at "$pid")" >"$dir/$name.pid"
}

stop() { # NAME
  local pid tries=0
  if alive "$1"; then
    pid=$(head -n 1 "$dir/$1.pid")
    kill "$pid" 2>/dev/null || true
    while alive "$1" && [ $tries -lt 50 ]; do
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

listens() { # PORT NAME SECONDS
  local tries=0
  until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
    alive "$2" || return 1
    tries=$((tries + 1))
    [ $tries -lt $(($3 * 20)) ] || return 1
    sleep 0.05
  done
}

# Between finding a free port and using it somebody else may take it.
on_a_free_port() { # NAME FUNCTION: the function starts NAME on the port in DIR/NAME.port
  local attempt
  for attempt in 1 2 3; do
    free_port >"$dir/$1.port"
    "$2" "$(cat "$dir/$1.port")"
    ! listens "$(cat "$dir/$1.port")" "$1" 60 || return 0
    stop "$1"
  done
  die "$1 does not start: $(tail -n 3 "$dir/$1.log")"
}

# Debian's class path names what ZooKeeper needs and also what only its console needs.
class_path() {
  local jar
  printf '%s' "$dir"
  for jar in zookeeper zookeeper-jute slf4j-api slf4j-log4j12 log4j-1.2 netty-all netty-buffer netty-codec netty-common \
    netty-handler netty-resolver netty-transport netty-transport-native-epoll netty-transport-native-unix-common \
    commons-cli metrics-core snappy-java jackson-annotations jackson-core jackson-databind; do
    [ ! -e "/usr/share/java/$jar.jar" ] || printf ':/usr/share/java/%s.jar' "$jar"
  done
}

zookeeper() { # PORT
  mkdir -p "$dir/zookeeper"
  printf '%s\n' "tickTime=2000" "dataDir=$dir/zookeeper" "clientPortAddress=127.0.0.1" "clientPort=$1" \
    "admin.enableServer=false" >"$dir/zoo.cfg"
  printf '%s\n' "log4j.rootLogger=WARN, out" "log4j.appender.out=org.apache.log4j.ConsoleAppender" \
    "log4j.appender.out.layout=org.apache.log4j.SimpleLayout" >"$dir/log4j.properties"
  start zookeeper java -Xmx64m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dzookeeper.jmx.log4j.disable=true \
    -cp "$(class_path)" org.apache.zookeeper.server.ZooKeeperServerMain "$dir/zoo.cfg"
}

feeder() {
  rm -f "$dir/feeder.port"
  start feeder "$venv/bin/python" "$here/burrow_feeder.py" "$dir/feeder.port"
  local tries=0
  until [ -s "$dir/feeder.port" ]; do
    [ $tries -lt 600 ] && alive feeder || die "the mock broker does not start: $(tail -n 3 "$dir/feeder.log")"
    tries=$((tries + 1))
    sleep 0.05
  done
}

# Looks at the brokers every second, remembers five commits, and keeps no verdict for longer than a second: all of it
# quicker than in earnest, so that tests need not wait.
burrow() { # PORT
  local brokers
  brokers=$(sed -n 2p "$dir/feeder.port")
  mkdir -p "$dir/burrow"
  cat >"$dir/burrow/burrow.toml" <<EOT
[general]
pidfile="$dir/burrow/burrow.lock"
[logging]
level="warn"
[zookeeper]
servers=["127.0.0.1:$(cat "$dir/zookeeper.port")"]
timeout=6
root-path="/burrow"
[client-profile.test]
client-id="burrow"
kafka-version="0.11.0"
[cluster.$cluster]
class-name="kafka"
servers=["$brokers"]
client-profile="test"
topic-refresh=1
offset-refresh=1
[consumer.$cluster]
class-name="kafka"
cluster="$cluster"
servers=["$brokers"]
client-profile="test"
offsets-topic="commits"
[httpserver.default]
address="127.0.0.1:$1"
[storage.default]
class-name="inmemory"
workers=2
intervals=5
expire-group=604800
min-distance=0
[evaluator.default]
class-name="caching"
expire-cache=1
EOT
  start burrow Burrow --config-dir "$dir/burrow"
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
  # A new broker has another address, which Burrow reads when it starts.
  alive feeder || { stop burrow; feeder; }
  alive zookeeper || on_a_free_port zookeeper zookeeper
  alive burrow || on_a_free_port burrow burrow
  printf 'BURROW_URL=http://127.0.0.1:%s\nBURROW_CLUSTER=%s\n' "$(cat "$dir/burrow.port")" "$cluster"
  printf 'FEEDER_URL=http://127.0.0.1:%s\n' "$(sed -n 1p "$dir/feeder.port")"
  local name
  for name in burrow feeder zookeeper; do
    printf '%s_PID=%s\n' "${name^^}" "$(head -n 1 "$dir/$name.pid")"
  done
}

down() { # [PART]
  if [ $# = 1 ]; then
    stop "$1"
    return
  fi
  local name
  for name in burrow zookeeper feeder; do stop "$name"; done
  rm -f "$dir/owner"
}

[ $# = 2 ] || [ "$#-${1:-}" = 3-down ] || { sed -n '5,6p' "$0" | cut -c 3- >&2; exit 2; }
case $1 in
  up) mkdir -p "$2" ;;
  down) [ -d "$2" ] || exit 0 ;;
  *) die "up DIR or down DIR [PART]" ;;
esac
command=$1
dir=$(cd "$2" && pwd)
shift 2
"$command" "$@"
