"""Write constraints.txt: the versions that a fresh install picks on every Python found."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD_TOOLS = ["editables", "setuptools", "wheel"]
HEADER = """\
# Every version that `make setup` installs. `make lock` writes this file.
# Pythons: {pythons}
"""


def pythons() -> dict[tuple[int, int], str]:
    """The newest interpreter of each minor version, oldest version first."""
    listing = subprocess.run(
        [ROOT / "scripts" / "setup.sh", "--list-pythons"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found: dict[tuple[int, int], str] = {}
    for line in listing.splitlines():
        version, path = line.split(" ", 1)
        major, minor, _ = version.split(".")
        found.setdefault((int(major), int(minor)), path)
    return dict(sorted(found.items()))


def requirements() -> list[str]:
    """Everything `.[all]` asks for, read from pyproject.toml so that nothing has to be built."""
    meta = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = meta["project"]
    extras = [
        requirement
        for name, wanted in project["optional-dependencies"].items()
        if name != "all"
        for requirement in wanted
    ]
    return [*meta["build-system"]["requires"], *BUILD_TOOLS, *project["dependencies"], *extras]


def resolve(python: str, wanted: list[str]) -> dict[str, str]:
    """Install `wanted` into a temporary venv and return what is there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--upgrade", *wanted], check=True)
        frozen = subprocess.run(
            [*pip, "list", "--format=freeze", "--exclude=pip"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    pins = frozen.lower().replace("_", "-").split()
    return dict(pin.split("==") for pin in pins)


def merge(locked: dict[tuple[int, int], dict[str, str]]) -> list[str]:
    """One line per package, or one per range of Pythons where their versions differ."""
    lines = []
    for name in sorted({name for versions in locked.values() for name in versions}):
        rows = [(python, versions[name]) for python, versions in locked.items() if name in versions]
        groups = [
            (version, [python for python, _ in rows])
            for version, rows in groupby(rows, key=lambda row: row[1])
        ]
        for index, (version, members) in enumerate(groups):
            bounds = []
            if index > 0:
                bounds.append(f'python_version >= "{members[0][0]}.{members[0][1]}"')
            if index < len(groups) - 1:
                after = groups[index + 1][1][0]
                bounds.append(f'python_version < "{after[0]}.{after[1]}"')
            marker = f" ; {' and '.join(bounds)}" if bounds else ""
            lines.append(f"{name}=={version}{marker}")
    return lines


def main() -> None:
    wanted = requirements()
    locked = {}
    for version, path in pythons().items():
        print(f"Resolving for Python {version[0]}.{version[1]} ...", file=sys.stderr)
        locked[version] = resolve(path, wanted)
    names = " ".join(f"{major}.{minor}" for major, minor in locked)
    text = HEADER.format(pythons=names) + "\n".join(merge(locked)) + "\n"
    (ROOT / "constraints.txt").write_text(text)


if __name__ == "__main__":
    main()
