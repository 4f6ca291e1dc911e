#!/usr/bin/env bash
# A real Prometheus and lag exporters to script, on free loopback ports; where asked for also a real Alertmanager.
#
#   prometheus.sh up DIR      starts what does not run, prints NAME=VALUE lines
#   prometheus.sh down DIR    stops what `up` started, by its pids
#
# Lines: PROMETHEUS_URL, PROMETHEUS_PID, and for each exporter NAME_URL and NAME_PID in upper case.
# A part that died is started again by `up`, on its old port and with its old data.
#
#   EXPORTERS="lag"   names of the exporters; each is a job of that name (lag_exporter.py says how to script one)
#   SCRAPE=1s         time between scrapes
#   LOOKBACK=5m       how long a series without new samples stays visible
#   OWNER=PID         when that process ends, everything stops and DIR is removed
#   ALERTMANAGER=yes  also an Alertmanager, to which Prometheus sends the alerts of `rules` below: lines
#                     ALERTMANAGER_URL and ALERTMANAGER_PID
#   PAST=FILE         samples with times of the past, OpenMetrics, that the server has from its first start on
#   RESEND=3s         how often an alert that fires is sent again; it lives four times as long
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
  printf 'prometheus.sh: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_missing() {
  local missing=()
  command -v prometheus >/dev/null || missing+=(prometheus)
  command -v python3 >/dev/null || missing+=(python3)
  [ -z "$ALERTMANAGER" ] || command -v prometheus-alertmanager >/dev/null || missing+=(prometheus-alertmanager)
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "install these first: ${missing[*]}"
  as_root true || die "needs root or passwordless sudo to install: ${missing[*]}"
  # The package would start a server of its own; this file is how Debian is told not to.
  local policy=/usr/sbin/policy-rc.d made="" failed=""
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

ready() { # URL NAME: until the url answers, 20 s, or the process is gone
  local tries=0
  until python3 - "$1" <<'PY' 2>/dev/null; do
import sys, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=2).read()
PY
    alive "$2" || return 1
    tries=$((tries + 1))
    [ $tries -lt 200 ] || return 1
    sleep 0.1
  done
}

exporter() { # NAME
  if ! alive "$1"; then
    start "$1" python3 "$here/lag_exporter.py" "$dir/$1.prom" "$dir/$1.port"
  fi
  local tries=0
  until [ -s "$dir/$1.port" ]; do
    [ $tries -lt 200 ] && alive "$1" || die "exporter $1 does not start: $(tail -n 3 "$dir/$1.log")"
    tries=$((tries + 1))
    sleep 0.05
  done
  ready "http://127.0.0.1:$(cat "$dir/$1.port")/metrics" "$1" || die "exporter $1: $(tail -n 3 "$dir/$1.log")"
}

# The lag of a consumer group above 1000 fires at once; while its broker is down only that does; the watchdog always.
rules() {
  cat <<'YAML'
groups:
  - name: lag
    rules:
      - alert: HighConsumerLag
        expr: sum by (job, consumergroup, topic) (kafka_consumergroup_lag) > 1000
        for: 0s
        labels: {severity: page}
        annotations: {summary: "{{ $labels.consumergroup }} is {{ $value }} messages behind on {{ $labels.topic }}"}
      - alert: BrokerDown
        expr: broker_down == 1
        for: 0s
      - alert: Watchdog
        expr: vector(1)
        for: 0s
YAML
}

routes() {
  cat <<'YAML'
route: {receiver: nobody, group_wait: 1s, group_interval: 1s}
receivers: [{name: nobody}]
inhibit_rules:
  - {source_matchers: ["alertname = BrokerDown"], target_matchers: ["alertname = HighConsumerLag"], equal: [job]}
YAML
}

configuration() {
  printf 'global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\n' "$SCRAPE" "$SCRAPE" "$SCRAPE"
  if [ -n "$ALERTMANAGER" ]; then
    printf 'rule_files: [rules.yml]\n'
    printf 'alerting: {alertmanagers: [{static_configs: [{targets: ["127.0.0.1:%s"]}]}]}\n' \
      "$(cat "$dir/alertmanager.port")"
  fi
  printf 'scrape_configs:\n'
  local name
  for name in $EXPORTERS; do
    printf '  - {job_name: %s, static_configs: [{targets: ["127.0.0.1:%s"]}]}\n' "$name" "$(cat "$dir/$name.port")"
  done
}

# Between finding a free port and using it somebody else may take it. COMMAND gets the port as its last word.
on_free_port() { # NAME COMMAND..
  local name=$1 attempt port
  shift
  for attempt in 1 2 3 4 5; do
    if [ "$attempt" != 1 ] || [ ! -s "$dir/$name.port" ]; then free_port >"$dir/$name.port"; fi
    port=$(cat "$dir/$name.port")
    start "$name" "$@$port"
    ready "http://127.0.0.1:$port/-/ready" "$name" && return 0
    stop "$name"
  done
  die "$name does not start: $(tail -n 3 "$dir/$name.log")"
}

alertmanager() {
  alive alertmanager && return 0
  routes >"$dir/alertmanager.yml"
  on_free_port alertmanager prometheus-alertmanager --config.file="$dir/alertmanager.yml" \
    --storage.path="$dir/alerts" --cluster.listen-address= --log.level=warn --web.listen-address=127.0.0.1:
}

server() {
  alive prometheus && return 0
  if [ -n "${PAST:-}" ] && [ ! -e "$dir/data" ]; then
    promtool tsdb create-blocks-from openmetrics "$PAST" "$dir/data" >&2
  fi
  rules >"$dir/rules.yml"
  configuration >"$dir/prometheus.yml"
  on_free_port prometheus prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" \
    --query.lookback-delta="$LOOKBACK" --rules.alert.resend-delay="$RESEND" --log.level=warn \
    --web.listen-address=127.0.0.1:
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
  # A later `up` starts again what an earlier one had.
  : "${ALERTMANAGER:=$(cat "$dir/with-alertmanager" 2>/dev/null || true)}"
  install_missing
  [ -z "$ALERTMANAGER" ] || printf 'yes\n' >"$dir/with-alertmanager"
  : "${RESEND:=3s}" "${EXPORTERS:=$(cat "$dir/exporters" 2>/dev/null || echo lag)}" "${SCRAPE:=1s}" "${LOOKBACK:=5m}"
  printf '%s\n' "$EXPORTERS" >"$dir/exporters"
  [ -z "${OWNER:-}" ] || watch_owner "$OWNER"
  local name upper
  for name in $EXPORTERS; do exporter "$name"; done
  [ -z "$ALERTMANAGER" ] || alertmanager
  server
  if [ -n "$ALERTMANAGER" ]; then
    printf 'ALERTMANAGER_URL=http://127.0.0.1:%s\n' "$(cat "$dir/alertmanager.port")"
    printf 'ALERTMANAGER_PID=%s\n' "$(head -n 1 "$dir/alertmanager.pid")"
  fi
  printf 'PROMETHEUS_URL=http://127.0.0.1:%s\n' "$(cat "$dir/prometheus.port")"
  printf 'PROMETHEUS_PID=%s\n' "$(head -n 1 "$dir/prometheus.pid")"
  for name in $EXPORTERS; do
    upper=$(printf '%s' "$name" | tr '[:lower:]' '[:upper:]')
    printf '%s_URL=http://127.0.0.1:%s\n' "$upper" "$(cat "$dir/$name.port")"
    printf '%s_PID=%s\n' "$upper" "$(head -n 1 "$dir/$name.pid")"
  done
}

down() {
  local name
  for name in prometheus alertmanager $(cat "$dir/exporters" 2>/dev/null); do stop "$name"; done
  rm -f "$dir/owner"
}

[ $# = 2 ] || { sed -n '4,5p' "$0" | cut -c 3- >&2; exit 2; }
case $1 in
  up) mkdir -p "$2" ;;
  down) [ -d "$2" ] || exit 0 ;;
  *) die "up DIR or down DIR" ;;
esac
dir=$(cd "$2" && pwd)
"$1"
