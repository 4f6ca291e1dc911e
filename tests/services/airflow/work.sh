# The work of one task of one day, told by its environment (dags.py). A run's conf has a say:
#
#   sleep   seconds of work
#   exit    the code to end with
#   force   true: the bad day goes well
#
# 14 March of any year is a bad day of events_daily: its load is killed, as if out of memory, until a file of the
# day's name (2021-03-14) is in the folder `repaired`. The first try of retry_daily fails.
# Whatever begins to work leaves a line in `ledger`, so that a test can count without asking the server.
set -euo pipefail
cd "$(dirname "$0")/.."

printf '%s\t%s\t%s\t%s\t%s\n' "$WORK_DAG" "$WORK_DAY" "$WORK_TASK" "$WORK_TRY" "$WORK_RUN" >>ledger
printf '%s of %s, try %s\n' "$WORK_TASK" "$WORK_DAY" "$WORK_TRY"
sleep "$WORK_SECONDS"

if [ "$WORK_EXIT" != 0 ]; then
  printf 'ending with %s, as the conf says\n' "$WORK_EXIT" >&2
  exit "$WORK_EXIT"
fi
case $WORK_DAG/$WORK_TASK/$WORK_DAY in
  events_daily/load/*-03-14)
    if [ ! -e "repaired/$WORK_DAY" ] && [ "$WORK_FORCE" != True ]; then
      printf 'Killed\n' >&2
      exit 137
    fi
    ;;
  retry_daily/*)
    if [ "$WORK_TRY" = 1 ]; then
      printf 'the source does not answer\n' >&2
      exit 1
    fi
    ;;
esac
printf 'rows written: %s\n' $((10#${WORK_DAY//-/} % 9973))
