"""Java is ended if the run that would have needed it is over before it is up."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
from pyspark import SparkContext

from reclaim.engine.spark import java


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is started instead of Spark."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(java, "_find_spark_home", lambda: str(tmp_path))
    file = tmp_path / "bin" / "spark-submit"
    file.parent.mkdir()
    return file


def _write(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)


def _start(**settings: str) -> None:
    java.start_java(settings, output=subprocess.DEVNULL, errors=subprocess.DEVNULL)


def test_one_that_is_not_up_is_ended(script: Path) -> None:
    _write(script, "echo $$ > $(dirname $0)/begun; exec cat")
    raised: list[BaseException] = []

    def start() -> None:
        try:
            _start()
        except OSError as error:
            raised.append(error)

    starting = threading.Thread(target=start)
    starting.start()
    while not java._starting:
        assert starting.is_alive()
    [process] = java._starting
    java.end_starting()
    starting.join()
    assert process.returncode is not None
    assert [str(error) for error in raised] == ["Java ended with exit code -9 before it was up"]
    assert not java._starting


def test_one_that_ends_by_itself_is_told(script: Path) -> None:
    _write(script, "exit 3")
    with pytest.raises(OSError, match="exit code 3"):
        _start()
    assert not java._starting


def test_it_is_given_the_settings_and_a_pipe_that_ends_with_this_process(script: Path) -> None:
    _write(script, 'printf "%s\\n" "$@" > $(dirname $0)/arguments; cat; exit 4')
    raised: list[BaseException] = []

    def start() -> None:
        try:
            _start(**{"spark.app.name": "a b"})
        except OSError as error:
            raised.append(error)

    starting = threading.Thread(target=start)
    starting.start()
    while not java._starting:
        assert starting.is_alive()
    [process] = java._starting
    assert process.stdin is not None
    process.stdin.close()
    starting.join()
    assert [str(error) for error in raised] == ["Java ended with exit code 4 before it was up"]
    arguments = script.with_name("arguments").read_text().splitlines()
    assert arguments == ["--conf", "spark.app.name=a b", "pyspark-shell"]
