"""Every night: collect by the policies of all repositories into quarantine, then purge.

Copy this file into Airflow's folder of DAGs. The workers need the command ``reclaim``, Java, and
the variables RECLAIM_CATALOG and those with the credentials of the storage. What each run did is
the answer of its task: an XCom with the JSON document that the command printed.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.sdk import dag, task

NEEDS_A_PERSON = {2, 3, 6, 8, 9}
"""Exit codes for which another try cannot help: a wrong call, a refusal, missing data."""


def run(*arguments: str) -> dict[str, Any]:
    """The answer of a command; where it fails, whether to try again follows from its exit code."""
    done = subprocess.run(
        ["reclaim", *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=False
    )
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    if done.returncode in NEEDS_A_PERSON:
        raise AirflowFailException(f"exit code {done.returncode}: {done.stdout}")
    if done.returncode:
        raise AirflowException(f"exit code {done.returncode}: {done.stdout}")
    return answer


@dag(
    schedule="30 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    # What was interrupted is finished by running it again.
    default_args={"retries": 2, "retry_delay": timedelta(minutes=15)},
    tags=["storage"],
)
def reclaim_nightly() -> None:
    @task
    def collect() -> dict[str, Any]:
        return run("gc", "--all", "--quarantine", "--keep", "14d")

    # Also after a collection that failed: what is past its time does not wait for it.
    @task(trigger_rule="all_done")
    def purge() -> dict[str, Any]:
        return run("purge", "--yes")

    collect() >> purge()


reclaim_nightly()
