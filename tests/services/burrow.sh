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

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
version=2.16.1
cache=${BACKFILL_BURROW_CACHE:-$cache}
venv=$cache/confluent-kafka-$version
cluster=local

install_missing() {
  local missing=()
  command -v Burrow >/dev/null || missing+=(burrow)
  [ -e /usr/share/java/zookeeper.jar ] || missing+=(zookeeper)
  # The headless one, before ZooKeeper's package asks for any.
  command -v java >/dev/null || missing+=(default-jre-headless)
  # Whoever comes second waits for the first, and finds it done.
  debian_install "${missing[@]}"
  python_install "$venv" --only-binary :all: "confluent-kafka==$version"
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
  chooses_port feeder
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

up() {
  install_missing
  watch_owner
  # A new broker has another address, which Burrow reads when it starts.
  alive feeder || { stop burrow; feeder; }
  on_a_port zookeeper zookeeper
  on_a_port burrow burrow
  printf 'BURROW_URL=http://127.0.0.1:%s\nBURROW_CLUSTER=%s\n' "$(cat "$dir/burrow.port")" "$cluster"
  printf 'FEEDER_URL=http://127.0.0.1:%s\n' "$(sed -n 1p "$dir/feeder.port")"
  local name
  for name in burrow feeder zookeeper; do
    printf '%s_PID=%s\n' "${name^^}" "$(pid_of "$name")"
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

run "$@"
