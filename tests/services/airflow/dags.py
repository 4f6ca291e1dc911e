"""The DAGs that tests drive. The file loads in Airflow 2.11 and in Airflow 3.

None of them makes a run by itself: all end in the past. What a run may carry in its conf, and what the work does with
it, is in work.sh.
"""

import logging
import os
from datetime import timedelta

import pendulum

try:
    from airflow.providers.standard.operators.bash import BashOperator
    from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
    from airflow.sdk import DAG, task
except ImportError:
    from airflow import DAG
    from airflow.decorators import task
    from airflow.operators.bash import BashOperator
    from airflow.sensors.date_time import DateTimeSensorAsync

try:
    from airflow.sdk import CronPartitionTimetable
except ImportError:
    CronPartitionTimetable = None

HERE = os.path.dirname(os.path.abspath(__file__))
# The day in the DAG's own zone. `ds` would be the one in UTC, and a run without a date has none.
DAY = "{{ (dag_run.logical_date or dag_run.run_after).astimezone(dag.timezone).strftime('%Y-%m-%d') }}"


def dag(name, schedule="@daily", zone="UTC", **more):
    return DAG(
        name,
        schedule=schedule,
        start_date=pendulum.datetime(2021, 1, 1, tz=zone),
        end_date=pendulum.datetime(2025, 12, 31, tz=zone),
        catchup=False,
        max_active_runs=16,
        is_paused_upon_creation=False,
        **more,
    )


def work(name, seconds=0.5, day=DAY, **more):
    """A task of a script, which learns from its environment what to do."""
    conf = "{{ (dag_run.conf or {}).get('%s', '%s') }}"
    return BashOperator(
        task_id=name,
        # The blank keeps Airflow from reading the command as the name of a template.
        bash_command="exec bash '%s/work.sh' " % HERE,
        append_env=True,
        env={
            "WORK_DAG": "{{ dag.dag_id }}",
            "WORK_TASK": name,
            "WORK_DAY": day,
            "WORK_RUN": "{{ run_id }}",
            "WORK_TRY": "{{ ti.try_number }}",
            "WORK_SECONDS": conf % ("sleep", seconds),
            "WORK_EXIT": conf % ("exit", 0),
            "WORK_FORCE": conf % ("force", ""),
        },
        retries=more.pop("retries", 0),
        **more,
    )


with dag("events_daily"):
    work("load") >> work("publish", seconds=0)

with dag("pooled_daily"):
    work("load", pool="backfill_pool")

with dag("retry_daily"):
    work("flaky", retries=2, retry_delay=timedelta(seconds=2))

with dag("newyork_daily", zone="America/New_York"):
    work("load")

# For what is stopped half way: each task takes ten minutes.
with dag("long_daily"):
    work("load", seconds=600) >> work("publish", seconds=600)

with dag("ondemand", schedule=None):
    work("load")

# By way of the logger: what a task prints reaches its log on another way, and on a busy machine not always.
with dag("mapped_daily"):
    log = logging.getLogger("airflow.task")

    @task
    def shards():
        return ["eu", "us", "asia"]

    @task
    def load(shard):
        log.info("rows of %s", shard)
        return len(shard)

    @task
    def publish(rows):
        log.info("rows in all: %s", sum(rows))

    publish(load.expand(shard=shards()))

# Its task waits in the triggerer, which runs only if asked for: without one it stays deferred.
with dag("deferred_daily"):
    DateTimeSensorAsync(
        task_id="wait",
        target_time="{{ macros.datetime.now(macros.dateutil.tz.UTC)"
        " + macros.timedelta(seconds=(dag_run.conf or {}).get('sleep', 5)) }}",
    )

# Its runs have a partition key and no logical date.
if CronPartitionTimetable:
    with dag("partitioned_daily", schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d")):
        work("load", day="{{ dag_run.partition_key }}")
