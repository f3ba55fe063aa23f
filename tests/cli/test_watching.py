"""Progress and logs on stderr: how much, in which form, and for whom."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from reclaim.cli.options.verbosity import CURRENT, Verbosity
from reclaim.cli.progress.logs import logging_to_stderr
from reclaim.cli.progress.watching import LogLines, MinuteLines, watching
from reclaim.progress.watch import Nothing, Watch
from reclaim.run.record.stages import Stage, Stages
from tests.cli.conftest import CommandLine
from tests.cli.test_gauge import SetMeter

NOW = ("--min-age", "0s", "--unsafe-allow-fraction", "1")


@pytest.fixture(autouse=True)
def verbosity() -> Iterator[None]:
    """Commands in this process leave theirs set."""
    token = CURRENT.set(Verbosity())
    yield
    CURRENT.reset(token)


def test_a_line_says_when_in_utc_and_how_far() -> None:
    stream = io.StringIO()
    watch, meter = Watch(MinuteLines(stream)), SetMeter()
    watch.measure(meter)
    watch.tick()
    stage = Stage("plan", "r1", "objects", 40)
    watch.begin(stage)
    meter.counted = {"objects": 10}
    watch.tick()
    watch.end(stage)
    watch.tick()
    watch.close()
    assert meter.closed
    [line] = stream.getvalue().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ plan: 10 of 40 objects.*", line)


def test_spark_may_start_inside_a_stage() -> None:
    """The stage goes on where it was, with the meter that there is by then."""
    stream = io.StringIO()
    watch, meter = Watch(MinuteLines(stream)), SetMeter()
    outer, inner = Stage("list", "r1", "objects"), Stage("start Spark")
    meter.counted = {"objects": 5}
    watch.begin(outer)
    watch.begin(inner)
    watch.tick()
    watch.measure(meter)
    watch.end(inner)
    meter.counted = {"objects": 12}
    watch.tick()
    # It fails: nobody says that it ended, and the next one of the run begins.
    watch.begin(following := Stage("observe", "r1"))
    watch.end(following)
    watch.tick()
    watch.close()
    first, second = (line.partition(" ")[2] for line in stream.getvalue().splitlines())
    assert first.startswith("start Spark: at work for ")
    assert second.startswith("list: 7 objects")


def test_a_store_that_is_done_is_told_once_a_run_takes_long() -> None:
    stream = io.StringIO()
    watch = Watch(MinuteLines(stream))
    watch.tell("sales: nothing to collect")
    assert stream.getvalue() == ""
    watch.begin(Stage("list", "r1"))
    watch.tick()
    watch.tell("zoo: nothing \x1b to collect")
    watch.close()
    _, told = stream.getvalue().splitlines()
    assert told.partition(" ")[2] == "zoo: nothing \\x1b to collect"


def test_a_log_has_a_line_for_each_store(cli: CommandLine, plain: None) -> None:
    cli.ok("repo", "create", "zoo")
    done = cli("gc", "--all", *NOW, "-v")
    told = [line for line in done.err.splitlines() if "nothing to collect" in line]
    assert [line.partition(" INFO reclaim.run ")[2] for line in told] == [
        "sales: nothing to collect",
        "zoo: nothing to collect",
    ]
    assert "nothing to collect" not in cli("gc", "--all", *NOW).err


def test_elsewhere_than_on_a_terminal_there_are_lines() -> None:
    with watching() as watch:
        assert type(watch._face) is MinuteLines
        assert watch._face.every == 60


@pytest.mark.parametrize(
    ("asked", "face"),
    [(Verbosity(quiet=True), Nothing), (Verbosity(level="info"), LogLines)],
)
def test_quiet_and_logged(asked: Verbosity, face: type) -> None:
    CURRENT.set(asked)
    with watching() as watch:
        assert type(watch._face) is face


def test_a_log_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(Verbosity(level="info", format="json")):
        watch, meter = Watch(LogLines()), SetMeter()
        watch.measure(meter)
        with Stages("r1", watch).stage("plan", unit="objects", total=4) as planning:
            meter.counted = {"objects": 3}
            watch.tick()
            planning.facts["candidates"] = 2
        logging.getLogger("reclaim.lock").warning("lost %s", "it")
        watch.close()
    on_the_way, ended, other = map(json.loads, capsys.readouterr().err.splitlines())
    assert on_the_way["done"] == 3
    assert on_the_way["total"] == 4
    assert (ended["run"], ended["stage"], ended["candidates"]) == ("r1", "plan", 2)
    assert (other["level"], other["logger"], other["message"]) == (
        "warning",
        "reclaim.lock",
        "lost it",
    )
    for line in (on_the_way, ended, other):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


def test_a_log_of_a_command(cli: CommandLine, plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ok("put", "-", "sales/main/a", stdin=b"x")
    text = cli("plan", "sales", *NOW, "-v").err.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ reclaim", line) for line in text)
    coded = cli("plan", "sales", *NOW, "-v", "--log-format", "json").err.splitlines()
    assert [json.loads(line)["stage"] for line in coded] == [
        re.findall("stage=([a-z]+)", line)[0] for line in text
    ]
    monkeypatch.setenv("RECLAIM_LOG_FORMAT", "json")
    assert json.loads(cli("plan", "sales", *NOW, "-v").err.splitlines()[0])
    assert cli("-q", "plan", "sales", *NOW).err == ""


@pytest.mark.parametrize(
    ("variable", "value"), [("RECLAIM_LOG", "loud"), ("RECLAIM_LOG_FORMAT", "xml")]
)
@pytest.mark.parametrize("command", [("ls", "sales/main"), ("repo", "list")])
def test_an_unknown_variable_is_an_error_of_every_command(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    variable: str,
    value: str,
) -> None:
    cli.ok(*command)
    monkeypatch.setenv(variable, value)
    assert variable in cli.fails("invalid_input", 2, *command)["message"]


def test_an_unknown_format_and_a_contradiction(cli: CommandLine) -> None:
    cli.fails("invalid_input", 2, "repo", "list", "--log-format", "xml")
    cli.fails("invalid_input", 2, "repo", "list", "-q", "-v")
