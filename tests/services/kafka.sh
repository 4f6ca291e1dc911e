#!/usr/bin/env bash
# A real broker that speaks Kafka's protocol, on free loopback ports, with a plain listener, one that demands a login
# over TLS and one that demands a certificate.
#
#   kafka.sh up DIR      starts what does not run, prints NAME=VALUE lines
#   kafka.sh down DIR    stops what `up` started, by its pids
#
# Lines: KAFKA_BROKERS, KAFKA_SASL_BROKERS and KAFKA_MTLS_BROKERS (host:port each), KAFKA_PID, KAFKA_USER and
# KAFKA_PASSWORD for the second, KAFKA_CLIENT_CERT and KAFKA_CLIENT_KEY for the third, KAFKA_CA for both, KAFKA_OTHER_CA
# (an authority that nobody should trust), KAFKA_KIND (apache or noida).
# A part that died is started again by `up`, on its old port and with its old data.
#
# The broker is that of the Python package noida-db; it has no TLS and no logins, so kafka_front.py stands before it.
# With KAFKA_HOME it is Apache Kafka (3.5 or later) of that folder, with listeners of its own; it needs a Java.
#
#   OWNER=PID         when that process ends, everything stops and DIR is removed
#   KAFKA_HOME=       the folder of an Apache Kafka
#   BACKFILL_KAFKA_CACHE=   where the installed broker is kept, else in the user's cache folder
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
version=0.2.3
sha256=40a2fb15567e3d344e7483df62bb439e7d64ac6fb232f4f223554aed58204f82
cache=${BACKFILL_KAFKA_CACHE:-$cache}
user=etl
password=etl-s3cret

install_missing() {
  local missing=()
  command -v python3 >/dev/null || missing+=(python3)
  command -v openssl >/dev/null || missing+=(openssl)
  # Not for the broker: the tests ask it what the offsets are.
  command -v kcat >/dev/null || missing+=(kcat)
  [ -n "${KAFKA_HOME:-}" ] || python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
  debian_install "${missing[@]}"
}

# The wheel is taken only with this very digest.
install_noida() {
  noida=$cache/noida-db-$version/noida_db/noida-db
  [ ! -x "$noida" ] || return 0
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "the package is pinned for Linux on x86_64 only; set KAFKA_HOME"
  mkdir -p "$cache"
  (
    flock 9
    [ ! -x "$noida" ] || exit 0
    fresh=$(mktemp -d "$cache/noida.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    printf 'noida-db==%s --hash=sha256:%s\n' "$version" "$sha256" >"$fresh/pins.txt"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
      --target "$fresh/package" -r "$fresh/pins.txt" >&2 || die "pip could not install noida-db $version"
    chmod 755 "$fresh/package/noida_db/noida-db"
    rm -rf "$cache/noida-db-$version"
    mv "$fresh/package" "$cache/noida-db-$version"
  ) 9>"$cache/noida.lock"
}

# An authority, certificates by it for the broker and a client, and an authority that has nothing to do with them.
certificates() {
  [ ! -s "$dir/tls/done" ] || return 0
  mkdir -p "$dir/tls"
  (
    cd "$dir/tls"
    exec >openssl.log 2>&1
    set -x
    new="-newkey rsa:2048 -nodes"
    openssl req -x509 $new -keyout ca.key -out ca.pem -days 2 -subj "/O=Backfill Tests/CN=Kafka Root"
    openssl req -x509 $new -keyout other.key -out other.pem -days 2 -subj "/CN=Another Root"
    printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\n' >names
    for who in broker client; do
      openssl req $new -keyout $who.key -out $who.csr -subj "/CN=$who"
      openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out $who.pem
    done
    # Apache Kafka wants key and chain in one file.
    cat broker.key broker.pem ca.pem >broker.both.pem
    echo done >done
  ) || die "openssl: $(tail -n 5 "$dir/tls/openssl.log")"
}

# --- The Python package's broker and its fronts ----------------------------------------------------------------------

front() { # NAME MODE..
  local name=$1
  shift
  alive "$name" || start "$name" python3 "$here/kafka_front.py" "$(cat "$dir/broker.port")" "$dir/$name.port" \
    "$dir/$name.seen" "$dir/tls/broker.pem" "$dir/tls/broker.key" "$@"
  chooses_port "$name"
  listens "$name" "$(cat "$dir/$name.port")" 10 || die "$name: $(last_words "$name")"
}

noida() { # PORT
  start broker "$noida" start --data-dir "$dir/data" --host 127.0.0.1 --only kafka --kafka-port "$1"
}

noida_up() {
  install_noida
  on_a_port broker noida
  front sasl sasl "$user" "$password"
  front mtls mtls "$dir/tls/ca.pem"
}

# --- Apache Kafka ----------------------------------------------------------------------------------------------------

apache_settings() {
  local plain sasl mtls controller
  plain=$(cat "$dir/broker.port") sasl=$(cat "$dir/sasl.port") mtls=$(cat "$dir/mtls.port")
  controller=$(cat "$dir/controller.port")
  cat <<EOT
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listeners=PLAIN://127.0.0.1:$plain,SASL://127.0.0.1:$sasl,MTLS://127.0.0.1:$mtls,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAIN://127.0.0.1:$plain,SASL://127.0.0.1:$sasl,MTLS://127.0.0.1:$mtls
listener.security.protocol.map=PLAIN:PLAINTEXT,SASL:SASL_SSL,MTLS:SSL,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
ssl.keystore.type=PEM
ssl.keystore.location=$dir/tls/broker.both.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/tls/ca.pem
listener.name.mtls.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_$user="$password";
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
EOT
}

apache_up() {
  ! alive broker || return 0
  [ -x "$KAFKA_HOME/bin/kafka-server-start.sh" ] || die "there is no Apache Kafka in $KAFKA_HOME"
  local name
  # Its scripts would log into their own folder, and take a gigabyte.
  export LOG_DIR="$dir/kafka-logs" KAFKA_HEAP_OPTS="-Xms128m -Xmx512m"
  for name in broker sasl mtls controller; do
    [ -s "$dir/$name.port" ] || free_port >"$dir/$name.port"
  done
  apache_settings >"$dir/server.properties"
  if [ ! -e "$dir/data/meta.properties" ]; then
    "$KAFKA_HOME/bin/kafka-storage.sh" format -t "$("$KAFKA_HOME/bin/kafka-storage.sh" random-uuid)" \
      -c "$dir/server.properties" \
      --add-scram "SCRAM-SHA-256=[name=$user,password=$password]" \
      --add-scram "SCRAM-SHA-512=[name=$user,password=$password]" >"$dir/format.log" 2>&1 ||
      die "kafka-storage.sh: $(tail -n 5 "$dir/format.log")"
  fi
  start broker "$KAFKA_HOME/bin/kafka-server-start.sh" "$dir/server.properties"
  for name in broker sasl mtls; do
    listens broker "$(cat "$dir/$name.port")" 120 || die "Kafka does not start: $(last_words broker)"
  done
}

# --- Both ------------------------------------------------------------------------------------------------------------

up() {
  install_missing
  watch_owner
  certificates
  if [ -n "${KAFKA_HOME:-}" ]; then apache_up; else noida_up; fi
  printf 'KAFKA_KIND=%s\n' "$([ -n "${KAFKA_HOME:-}" ] && echo apache || echo noida)"
  printf 'KAFKA_BROKERS=127.0.0.1:%s\n' "$(cat "$dir/broker.port")"
  printf 'KAFKA_SASL_BROKERS=127.0.0.1:%s\n' "$(cat "$dir/sasl.port")"
  printf 'KAFKA_MTLS_BROKERS=127.0.0.1:%s\n' "$(cat "$dir/mtls.port")"
  printf 'KAFKA_PID=%s\n' "$(pid_of broker)"
  printf 'KAFKA_USER=%s\nKAFKA_PASSWORD=%s\n' "$user" "$password"
  printf 'KAFKA_CA=%s\nKAFKA_OTHER_CA=%s\n' "$dir/tls/ca.pem" "$dir/tls/other.pem"
  printf 'KAFKA_CLIENT_CERT=%s\nKAFKA_CLIENT_KEY=%s\n' "$dir/tls/client.pem" "$dir/tls/client.key"
}

down() {
  local name
  for name in sasl mtls broker; do stop "$name"; done
  rm -f "$dir/owner"
}

run "$@"
