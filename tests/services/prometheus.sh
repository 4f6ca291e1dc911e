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

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_missing() {
  local missing=()
  command -v prometheus >/dev/null || missing+=(prometheus)
  command -v python3 >/dev/null || missing+=(python3)
  [ -z "$ALERTMANAGER" ] || command -v prometheus-alertmanager >/dev/null || missing+=(prometheus-alertmanager)
  debian_install "${missing[@]}"
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
  chooses_port "$1"
  ready "http://127.0.0.1:$(cat "$dir/$1.port")/metrics" "$1" || die "exporter $1: $(last_words "$1")"
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
  die "$name does not start: $(last_words "$name")"
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

up() {
  # A later `up` starts again what an earlier one had.
  : "${ALERTMANAGER:=$(cat "$dir/with-alertmanager" 2>/dev/null || true)}"
  install_missing
  [ -z "$ALERTMANAGER" ] || printf 'yes\n' >"$dir/with-alertmanager"
  : "${RESEND:=3s}" "${EXPORTERS:=$(cat "$dir/exporters" 2>/dev/null || echo lag)}" "${SCRAPE:=1s}" "${LOOKBACK:=5m}"
  printf '%s\n' "$EXPORTERS" >"$dir/exporters"
  watch_owner
  local name upper
  for name in $EXPORTERS; do exporter "$name"; done
  [ -z "$ALERTMANAGER" ] || alertmanager
  server
  if [ -n "$ALERTMANAGER" ]; then
    printf 'ALERTMANAGER_URL=http://127.0.0.1:%s\n' "$(cat "$dir/alertmanager.port")"
    printf 'ALERTMANAGER_PID=%s\n' "$(pid_of alertmanager)"
  fi
  printf 'PROMETHEUS_URL=http://127.0.0.1:%s\n' "$(cat "$dir/prometheus.port")"
  printf 'PROMETHEUS_PID=%s\n' "$(pid_of prometheus)"
  for name in $EXPORTERS; do
    upper=$(printf '%s' "$name" | tr '[:lower:]' '[:upper:]')
    printf '%s_URL=http://127.0.0.1:%s\n' "$upper" "$(cat "$dir/$name.port")"
    printf '%s_PID=%s\n' "$upper" "$(pid_of "$name")"
  done
}

down() {
  local name
  for name in prometheus alertmanager $(cat "$dir/exporters" 2>/dev/null); do stop "$name"; done
  rm -f "$dir/owner"
}

run "$@"
