"""Where a session is made, and what is said when none can be."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reclaim.engine.spark import session
from reclaim.engine.spark.session import (
    LOG_VARIABLE,
    MASTER_VARIABLE,
    REMOTE_VARIABLE,
    SETTINGS,
    build_session,
)
from reclaim.errors import Unavailable
from tests.support.cluster import QUICK_JAVA


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens, and nothing will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (MASTER_VARIABLE, REMOTE_VARIABLE, "http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_session_has_our_settings(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in SETTINGS} == dict(SETTINGS)


def test_workers_are_forked_from_a_process_that_has_loaded_what_they_need(
    spark: SparkSession,
) -> None:
    def parent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            command = psutil.Process(os.getppid()).cmdline()
            held = {"command": [" ".join(command)], "frozen": [gc.get_freeze_count()]}
            yield pa.record_batch(held)

    (row,) = spark.range(1).mapInArrow(parent, "command string, frozen bigint").collect()
    assert row.command.endswith("-m reclaim.engine.spark.daemon pyspark.worker")
    # What it was born with it does not search for garbage after each task.
    assert row.frozen > 10_000


def test_a_second_session_is_the_first(spark: SparkSession) -> None:
    assert build_session(master="local[2]") is spark


def test_a_spark_that_is_too_old_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "OLDEST", (99, 1))
    with pytest.raises(Unavailable, match=r"needs Spark 99\.1 or newer; .* on Spark 4\.\d"):
        build_session()


def test_a_master_that_is_given_goes_before_a_server_in_the_environment(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, nobody: str
) -> None:
    monkeypatch.setenv(REMOTE_VARIABLE, f"sc://{nobody}")
    assert build_session(master="local[2]") is spark


@pytest.mark.parametrize("variable", [REMOTE_VARIABLE, MASTER_VARIABLE])
def test_a_server_that_does_not_answer_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, nobody: str, variable: str
) -> None:
    url = f"{'sc' if variable == REMOTE_VARIABLE else 'spark'}://{nobody}"
    monkeypatch.setenv(variable, url)
    with pytest.raises(Unavailable, match="no server answers there") as caught:
        build_session()
    assert url in caught.value.message
    assert caught.value.hint


def test_a_token_is_not_repeated(monkeypatch: pytest.MonkeyPatch, nobody: str) -> None:
    monkeypatch.setenv(REMOTE_VARIABLE, f"sc://{nobody}/;use_ssl=true;token=hunter2")
    with pytest.raises(Unavailable, match="no server answers there") as caught:
        build_session()
    assert "hunter2" not in caught.value.message


def test_a_log_file_is_for_its_owner_alone(
    monkeypatch: pytest.MonkeyPatch, nobody: str, tmp_path: Path
) -> None:
    log = tmp_path / "java.log"
    monkeypatch.setenv(LOG_VARIABLE, str(log))
    monkeypatch.setenv(REMOTE_VARIABLE, f"sc://{nobody}")
    with pytest.raises(Unavailable):
        build_session()
    assert log.stat().st_mode & 0o777 == 0o600


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="not installed on this machine") as caught:
        build_session(master="local[1]")
    assert "Java 17" in str(caught.value.hint)


def test_java_home_must_have_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match="none in JAVA_HOME"):
        build_session(master="local[1]")


SUBMITTED = """
from reclaim.engine.spark.session import build_session
session = build_session()
print("master", session.conf.get("spark.master"))
session.stop()
"""


def test_spark_submit_decides_where_its_program_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SUBMITTED, encoding="utf-8")
    here = str(Path(sys.executable).parent)
    done = subprocess.run(
        [
            f"{here}/spark-submit",
            "--master",
            "local[1]",
            "--conf",
            "spark.ui.enabled=false",
            program,
        ],
        cwd=tmp_path,
        # It looks for itself through the first Python on the path.
        env=os.environ
        | {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "JAVA_TOOL_OPTIONS": QUICK_JAVA},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "master local[1]" in done.stdout, done.stderr[-2000:]
    assert {path.name for path in tmp_path.iterdir()} <= {"program.py", "spark-warehouse"}
