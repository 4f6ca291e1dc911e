"""A DAG file that cannot be imported for as long as `broken` exists beside the folder of the DAGs."""

import os

import pendulum

try:
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG
except ImportError:
    from airflow import DAG
    from airflow.operators.empty import EmptyOperator

if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "broken")):
    raise RuntimeError("fragile_daily was told to break")

with DAG(
    "fragile_daily",
    schedule="@daily",
    start_date=pendulum.datetime(2021, 1, 1, tz="UTC"),
    end_date=pendulum.datetime(2025, 12, 31, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=False,
):
    EmptyOperator(task_id="nothing")
