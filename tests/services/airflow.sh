#!/usr/bin/env bash
# A real Airflow 3 or Airflow 2 on PostgreSQL, on a free loopback port.
#
#   airflow.sh up 3|2 DIR        starts what does not run, prints NAME=VALUE lines when all of it works
#   airflow.sh down DIR [PART]   stops what `up` started, or one part: api, scheduler, processor, triggerer, db
#   airflow.sh status DIR        a line for each part: pid, start, memory; exit code 1 if none runs
#   airflow.sh install 3|2       only what `up` needs, for later
#   airflow.sh seed DIR DAG FIRST DAYS   as many days of ended runs from that day on, without any work: copies of the
#                                DAG's last good run, which has to be there; every fiftieth failed
#
# A folder holds one server. A part that died is started again by `up`, on the old port and with the old data.
# The users are `admin` and `viewer`, whose passwords are their names. What the DAGs do is in airflow/dags.py and
# airflow/work.sh. Below DIR, for tests to use:
#
#   repaired/2021-03-14   a file of this name ends the badness of that day
#   broken                while this file exists, fragile_daily cannot be imported
#   ledger                DAG, day, task, try and run of all work that ever began, one line each
#   secret                what tokens are signed with; another one counts from the next start of all parts
#
# Settings, kept in DIR for the next `up`:
#
#   SLOTS=4           tasks at a time
#   TRIGGERER=        not empty: a triggerer, too, without which deferred tasks wait for ever
#   INTERVALS=        not empty: in Airflow 3, too, a day's run covers the day
#   PREFIX=           a path below which the server lives, such as /team
#   TOKEN_SECONDS=    how long a token lives (Airflow 3; else a day)
#
#   OWNER=PID         when that process ends, everything stops and DIR is removed
#   PATIENCE=240      seconds until a start counts as failed
#   BACKFILL_AIRFLOW_CACHE=   where installed Airflows are kept, else in the user's cache folder
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/airflow
cache=${BACKFILL_AIRFLOW_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/backfill-tests}
settings="SLOTS TRIGGERER INTERVALS PREFIX TOKEN_SECONDS"

die() {
  printf 'airflow.sh: %s\n' "$*" >&2
  exit 1
}

# --- What is needed --------------------------------------------------------------------------------------------------

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

debian_install() { # PACKAGE..
  command -v apt-get >/dev/null || die "install these first: $*"
  as_root true || die "needs root or passwordless sudo to install: $*"
  # PostgreSQL's package would make a database and start it. These files are how Debian is told not to.
  local policy=/usr/sbin/policy-rc.d clusters=/etc/postgresql-common/createcluster.conf made="" failed=""
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod 755 $policy
    made=yes
  fi
  if [ ! -e $clusters ]; then
    as_root mkdir -p "${clusters%/*}"
    printf 'create_main_cluster = false\n' | as_root tee $clusters >/dev/null
  fi
  {
    as_root apt-get -o DPkg::Lock::Timeout=180 update -qq &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=180 \
        -o Dpkg::Options::=--force-confold install -y -qq --no-install-recommends "$@"
  } >&2 || failed=yes
  [ -z "$made" ] || as_root rm -f $policy
  [ -z "$failed" ] || die "could not install: $*"
}

# Debian keeps the server's programs out of the way. The newest is the last.
find_postgres() { # sets pg_bin
  local place program
  pg_bin=""
  for place in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V) "$(dirname "$(command -v initdb || echo /-/-)")"; do
    for program in initdb postgres pg_isready psql; do [ -x "$place/$program" ] || continue 2; done
    pg_bin=$place
  done
  [ -n "$pg_bin" ]
}

find_python() { # prints the first interpreter on which this Airflow runs and that can make environments
  local newest=13 python
  [ "$version" = 3 ] || newest=12
  for python in python3.11 python3.12 python3.13 python3; do
    # It names itself: what is found may be a program that only looks for the real one.
    "$python" -c '
import ensurepip, sys, venv
if not (3, 11) <= sys.version_info[:2] <= (3, int(sys.argv[1])): sys.exit(1)
print(sys.executable)' $newest 2>/dev/null && return 0
  done
  return 1
}

# Prints what to call. pip brings it if it is not there.
find_uv() {
  ! uv --version >/dev/null 2>&1 || { echo uv && return; }
  local own=$cache/uv
  "$own/bin/uv" --version >/dev/null 2>&1 || {
    python3 -m venv "$own" || { debian_install python3-venv && python3 -m venv "$own"; }
    "$own/bin/python" -m pip install -q uv==0.13.9
  } >&2 || return 1
  echo "$own/bin/uv"
}

# With uv this takes seconds, with pip a minute or two. uv also gets a Python where there is none that will do.
install_airflow() {
  local pins=$here/airflow-$version.txt python uv
  ! cmp -s "$pins" "$venv/pins.txt" || return 0
  printf 'airflow.sh: installing %s\n' "$(grep -m 1 '^apache-airflow==' "$pins")" >&2
  rm -rf "$venv"
  python=$(find_python) || true
  uv=$(find_uv) || [ -n "$python" ] || die "needs uv, or a Python on which Airflow $version runs"
  if [ -n "$uv" ]; then
    "$uv" venv -q --python "${python:-3.12}" "$venv"
    "$uv" pip install -q --no-deps --compile-bytecode --python "$venv/bin/python" -r "$pins"
  else
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install -q --no-deps -r "$pins"
  fi >&2
  cp "$pins" "$venv/pins.txt"
}

install() {
  venv=$cache/airflow-$version
  mkdir -p "$cache"
  # Whoever comes second waits for the first. Not below a condition, where a command that fails would go unnoticed.
  (
    flock 9
    find_postgres || debian_install postgresql
    install_airflow
  ) 9>"$cache/lock"
  find_postgres || die "there are no PostgreSQL programs"
}

# --- Processes -------------------------------------------------------------------------------------------------------

# Pid files hold the pid and the start time, so that a later process with the same pid is left alone.
started_at() { # PID: nothing for one that has ended, also if nobody has collected it yet
  local state start
  read -r state start < <(ps -o stat= -o lstart= -p "$1" 2>/dev/null) || return 0
  [ "${state#Z}" != "$state" ] || printf '%s\n' "$start"
}

pid_of() { # PART
  head -n 1 "$dir/$1.pid"
}

alive() { # PART
  local pid start
  [ -s "$dir/$1.pid" ] || return 1
  { read -r pid && read -r start; } <"$dir/$1.pid" 2>/dev/null || return 1
  [ -n "$start" ] && [ "$(started_at "$pid")" = "$start" ]
}

# Each part and what descends from it carry this in their environment. Workers outlive a scheduler that was killed, and
# the shell of a task is in a session of its own.
mark() { # PART
  printf 'BACKFILL_AIRFLOW=%s/%s' "$dir" "$1"
}

family() { # PART: the pids of all of it
  local file
  while read -r file; do
    file=${file#/proc/}
    printf '%s\n' "${file%/environ}"
  done < <(grep -slzxF "$(mark "$1")" /proc/[0-9]*/environ)
}

start() { # PART COMMAND..
  local part=$1 pid
  shift
  (cd / && exec setsid env "$(mark "$part")" "$@") >>"$dir/log/$part.log" 2>&1 </dev/null 9>&- &
  pid=$!
  printf '%s\n%s\n' "$pid" "$(started_at "$pid")" >"$dir/$part.pid"
}

signal() { # SIGNAL PART: its first process
  ! alive "$2" || kill "-$1" "$(pid_of "$2")" 2>/dev/null || true
}

any_alive() { # PART..
  local part
  for part; do ! alive "$part" || return 0; done
  return 1
}

patiently() { # TENTHS COMMAND..: until the command fails or the time is over
  local tries=$1
  shift
  while "$@" && [ "$tries" -gt 0 ]; do
    sleep 0.1
    tries=$((tries - 1))
  done
}

any_family() { # PART..
  local part
  for part; do [ -z "$(family "$part")" ] || return 0; done
  return 1
}

# The first process of a part ends its own in order, if it gets the time. What is left has no say.
stop() { # PART..
  local part pid
  for part; do signal "$([ "$part" = db ] && echo INT || echo TERM)" "$part"; done
  patiently 50 any_alive "$@"
  for part; do
    for pid in $(family "$part"); do kill "$pid" 2>/dev/null || true; done
  done
  patiently 20 any_family "$@"
  for part; do
    for pid in $(family "$part"); do kill -9 "$pid" 2>/dev/null || true; done
    rm -f "$dir/$part.pid"
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
  ) >/dev/null 2>&1 </dev/null 9>&- &
}

# --- The database ----------------------------------------------------------------------------------------------------

# PostgreSQL does not run as root.
as_database() {
  if [ "$(id -u)" = 0 ]; then
    set -- setpriv --reuid postgres --regid "$(id -g postgres)" --clear-groups -- "$@"
  fi
  (cd / && exec "$@")
}

database_up() {
  alive db && "$pg_bin/pg_isready" -q -h "$dir/socket" && return 0
  stop db
  # The kernel takes no longer names for sockets than 107 bytes.
  [ ${#dir} -le 80 ] || die "the name of the folder is too long: $dir"
  mkdir -p "$dir/data" "$dir/socket"
  chmod 700 "$dir/data" "$dir/socket"
  if [ "$(id -u)" = 0 ]; then
    chown postgres "$dir/data" "$dir/socket"
    chmod o+x "$dir"
    as_database test -x "$dir" || die "the user postgres has to come through to $dir: chmod o+x what is above it"
  fi
  [ -s "$dir/data/PG_VERSION" ] ||
    as_database "$pg_bin/initdb" -D "$dir/data" -U airflow -A trust -E UTF8 --no-locale --no-sync \
      >"$dir/log/initdb.log" 2>&1 || die "no database: $(tail -n 3 "$dir/log/initdb.log")"
  # Nothing here has to outlive the machine. Nobody reaches it but through the socket's folder.
  local command=("$pg_bin/postgres" -D "$dir/data" -k "$dir/socket" -c listen_addresses= -c timezone=UTC
    -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=64MB)
  [ "$(id -u)" != 0 ] ||
    command=(setpriv --reuid postgres --regid "$(id -g postgres)" --clear-groups -- "${command[@]}")
  start db "${command[@]}"
  local tries=0
  until "$pg_bin/pg_isready" -q -h "$dir/socket"; do
    [ $tries -lt 300 ] && alive db || die "the database does not start: $(tail -n 3 "$dir/log/db.log")"
    tries=$((tries + 1))
    sleep 0.1
  done
}

# --- Airflow ---------------------------------------------------------------------------------------------------------

# Ports that the kernel gives to connections are left out: such a port may be taken at any time.
free_port() {
  "$venv/bin/python" - <<'PY'
import random, socket
for _ in range(1000):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port := random.randrange(20000, 32000)))
        except OSError:
            continue
        print(port)
        break
PY
}

url() {
  printf 'http://127.0.0.1:%s%s' "$(cat "$dir/port")" "$PREFIX"
}

# What Airflow 2 and 3 are told. The program's name for a process would lie where its environment is read.
common_environment() {
  unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
  export PATH=$venv/bin:$PATH SPT_NOENV=1 PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore NO_COLOR=1
  export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
  export AIRFLOW_HOME=$dir/home
  export AIRFLOW__CORE__DAGS_FOLDER=$dir/dags
  export AIRFLOW__CORE__LOAD_EXAMPLES=False
  export AIRFLOW__CORE__EXECUTOR=LocalExecutor
  export AIRFLOW__CORE__PARALLELISM=$SLOTS
  export AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="postgresql+psycopg2://airflow@/postgres?host=$dir/socket"
  export AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False
}

environment_of_3() {
  export AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC="postgresql+asyncpg://airflow@/postgres?host=$dir/socket"
  export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=admin:admin,viewer:viewer
  export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=$dir/home/passwords.json
  # Tasks report over the same server.
  AIRFLOW__CORE__EXECUTION_API_SERVER_URL=$(url)/execution/
  AIRFLOW__API__BASE_URL=$(url)
  AIRFLOW__API__PORT=$(cat "$dir/port")
  AIRFLOW__API_AUTH__JWT_SECRET=$(cat "$dir/secret")
  export AIRFLOW__CORE__EXECUTION_API_SERVER_URL AIRFLOW__API__BASE_URL AIRFLOW__API__PORT AIRFLOW__API_AUTH__JWT_SECRET
  export AIRFLOW__API__SECRET_KEY=$AIRFLOW__API_AUTH__JWT_SECRET
  export AIRFLOW__API__HOST=127.0.0.1
  export AIRFLOW__API__WORKERS=1
  # Else a token would be good for some seconds after its end.
  [ -z "$TOKEN_SECONDS" ] ||
    export AIRFLOW__API_AUTH__JWT_EXPIRATION_TIME="$TOKEN_SECONDS" AIRFLOW__API_AUTH__JWT_LEEWAY=0
  [ -z "$INTERVALS" ] || export AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS=True
  export AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL=10
  export AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL=10
  export AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES=1
  printf '{"admin": "admin", "viewer": "viewer"}\n' >"$dir/home/passwords.json"
}

environment_of_2() {
  export AIRFLOW__CORE__FERNET_KEY=
  export AIRFLOW__API__AUTH_BACKENDS=airflow.api.auth.backend.basic_auth
  AIRFLOW__WEBSERVER__BASE_URL=$(url)
  AIRFLOW__WEBSERVER__WEB_SERVER_PORT=$(cat "$dir/port")
  AIRFLOW__WEBSERVER__SECRET_KEY=$(cat "$dir/secret")
  export AIRFLOW__WEBSERVER__BASE_URL AIRFLOW__WEBSERVER__WEB_SERVER_PORT AIRFLOW__WEBSERVER__SECRET_KEY
  export AIRFLOW__WEBSERVER__WEB_SERVER_HOST=127.0.0.1
  export AIRFLOW__WEBSERVER__WORKERS=1
  export AIRFLOW__SCHEDULER__MIN_FILE_PROCESS_INTERVAL=10
  export AIRFLOW__SCHEDULER__PARSING_PROCESSES=1
}

prepare() {
  [ ! -e "$dir/prepared" ] || return 0
  {
    printf 'db migrate\npools set backfill_pool 2 "What backfills may take"\n'
    [ "$version" = 3 ] ||
      printf 'users create -u admin -p admin -r Admin -f An -l Admin -e admin@example.invalid\n'
  } | "$venv/bin/python" "$here/prepare.py" >"$dir/log/prepare.log" 2>&1 9>&- ||
    die "the database cannot be prepared: $(tail -n 3 "$dir/log/prepare.log")"
  touch "$dir/prepared"
}

parts_of() { # VERSION: all that it may have but the database
  if [ "$1" = 3 ]; then echo api scheduler processor triggerer; else echo api scheduler triggerer; fi
}

start_missing() {
  local part words
  for part in $(parts_of "$version"); do
    case $version-$part in
      3-api) words=api-server ;;
      2-api) words=webserver ;;
      ?-scheduler) words="scheduler --skip-serve-logs" ;;
      3-processor) words=dag-processor ;;
      ?-triggerer)
        [ -n "$TRIGGERER" ] || continue
        words="triggerer --skip-serve-logs"
        ;;
    esac
    alive "$part" && continue
    stop "$part"
    rm -f "$dir/home/"*.pid
    # shellcheck disable=SC2086 # several words
    start "$part" "$venv/bin/python" -m airflow $words
  done
}

settled() {
  local part pids=() code=0
  for part in $(parts_of "$version"); do
    [ ! -e "$dir/$part.pid" ] || pids+=("$(pid_of "$part")")
  done
  # In the background, so that a signal to us counts at once.
  "$venv/bin/python" "$here/settle.py" "$version" "$(url)" "${PATIENCE:-240}" "${pids[@]}" 9>&- &
  wait $! || code=$?
  return $code
}

airflow_up() {
  local attempt
  # Between finding a free port and using it somebody else may take it.
  for attempt in 1 2 3; do
    [ -s "$dir/port" ] || free_port >"$dir/port"
    common_environment
    "environment_of_$version"
    prepare
    start_missing
    settled && return 0
    tail -n 40 "$dir/log/api.log" | grep -qi 'address already in use' || break
    # shellcheck disable=SC2046 # several words
    stop $(parts_of "$version")
    rm -f "$dir/port"
  done
  die "Airflow $version does not start, see the ends of its logs:
$(tail -n 5 "$dir"/log/*.log)"
}

# --- The commands ----------------------------------------------------------------------------------------------------

remember_settings() {
  local name
  for name in $settings; do
    # Also a setting that is there and empty is one.
    [ -z "${!name+set}" ] || printf '%s' "${!name}" >"$dir/settings/$name"
    [ -e "$dir/settings/$name" ] || printf '%s' "$([ "$name" != SLOTS ] || echo 4)" >"$dir/settings/$name"
    printf -v "$name" '%s' "$(cat "$dir/settings/$name")"
  done
}

up() {
  install
  mkdir -p "$dir/log" "$dir/home" "$dir/dags" "$dir/repaired" "$dir/settings"
  exec 9>"$dir/lock"
  flock 9
  [ "$(cat "$dir/version" 2>/dev/null || echo "$version")" = "$version" ] || die "the other Airflow lives in $dir"
  printf '%s\n' "$version" >"$dir/version"
  remember_settings
  trap '[ $? = 0 ] || down' EXIT
  trap 'exit 143' INT TERM HUP
  [ -z "${OWNER:-}" ] || watch_owner "$OWNER"
  [ -s "$dir/secret" ] || od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' >"$dir/secret"
  cp -u "$here/dags.py" "$here/fragile.py" "$here/work.sh" "$dir/dags/"
  database_up
  airflow_up
  describe
}

describe() {
  local part
  printf 'version=%s\n' "$(sed -n 's/^apache-airflow==//p' "$venv/pins.txt")"
  printf 'url=%s\nuser=admin\npassword=admin\nviewer=viewer\nviewer_password=viewer\ndir=%s\n' "$(url)" "$dir"
  printf 'database=postgresql://airflow@/postgres?host=%s\n' "$dir/socket"
  for part in $(parts_of "$version") db; do
    ! alive "$part" || printf '%s_pid=%s\n' "$part" "$(pid_of "$part")"
  done
}

down() { # [PART]
  if [ -n "${1:-}" ]; then
    [[ " $(parts_of 3) db " = *" $1 "* ]] || usage
    stop "$1"
    return 0
  fi
  # shellcheck disable=SC2046 # several words
  stop $(parts_of 3)
  stop db
  rm -f "$dir/owner"
}

seed() { # DAG FIRST DAYS
  find_postgres && alive db || die "no database runs in $dir"
  # The columns are those of the server's version, whatever they are. Names that a table does not have do not count.
  "$pg_bin/psql" -qX -v ON_ERROR_STOP=1 -h "$dir/socket" -U airflow -d postgres \
    -v dag="$1" -v first="$2" -v days="$3" <<'SQL'
begin;
create temporary table model as
  select run_id, to_jsonb(r) as run from dag_run r
  where dag_id = :'dag' and state = 'success' and exists (
    select from task_instance t where t.dag_id = r.dag_id and t.run_id = r.run_id)
  order by id desc limit 1;
-- Fails if there is no model.
select 1 / count(*) from model \g /dev/null
create temporary table day as
  select 'seed__' || to_char(at, 'YYYY-MM-DD') as run_id, at,
    case when n % 50 = 0 then 'failed' else 'success' end as state
  from generate_series(1, :days) n, lateral (select (:'first'::date + n - 1)::timestamp at time zone 'UTC' as at) as d;
insert into dag_run
  select r.* from model, day, lateral jsonb_populate_record(null::dag_run, run || jsonb_build_object(
    'id', nextval(pg_get_serial_sequence('dag_run', 'id')), 'run_id', day.run_id, 'state', state,
    'logical_date', at, 'execution_date', at, 'data_interval_start', at, 'data_interval_end', at + interval '1 day',
    'run_after', at + interval '1 day', 'updated_at', now())) r
  on conflict do nothing;
insert into task_instance
  select t.* from model, day, task_instance m, lateral jsonb_populate_record(null::task_instance, to_jsonb(m) ||
    jsonb_build_object('id', gen_random_uuid(), 'run_id', day.run_id, 'state', day.state, 'updated_at', now())) t
  where m.dag_id = :'dag' and m.run_id = model.run_id and exists (
    select from dag_run r where r.dag_id = m.dag_id and r.run_id = day.run_id)
  on conflict do nothing;
commit;
SQL
}

status() {
  local part pid pids kib none=1
  for part in $(parts_of 3) db; do
    [ -e "$dir/$part.pid" ] || continue
    if ! alive "$part"; then
      printf '%s ended\n' "$part"
      continue
    fi
    none=0
    pids=$(family "$part") kib=0
    # PostgreSQL's children write over their environment.
    [ "$part" != db ] || pids+=" "$(ps -o pid= --ppid "$pids")
    for pid in $pids; do
      # Shared pages count in parts, so that the sum is what the server costs.
      kib=$((kib + $(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup" 2>/dev/null || echo 0)))
    done
    printf '%s pid=%s since="%s" processes=%s memory=%sMiB\n' "$part" "$(pid_of "$part")" \
      "$(sed -n 2p "$dir/$part.pid")" "$(wc -w <<<"$pids")" $((kib / 1024))
  done
  return $none
}

usage() {
  sed -n '4,9p' "${BASH_SOURCE[0]}" | cut -c 3- >&2
  exit 2
}

command=${1:-}
case $command-$# in
  up-3 | install-2)
    version=$2
    [[ $version = [23] ]] || usage
    ;;
  down-2 | down-3 | status-2 | seed-5) ;;
  *) usage ;;
esac
# A developer's own Airflow is not meant.
unset "${!AIRFLOW_@}"
case $command in
  install)
    install
    exit
    ;;
  up)
    mkdir -p "$3"
    dir=$(cd "$3" && pwd -P)
    up
    ;;
  *)
    [ -d "$2" ] || exit "$([ "$command" = down ]; echo $?)"
    dir=$(cd "$2" && pwd -P)
    shift 2
    "$command" "$@"
    ;;
esac
