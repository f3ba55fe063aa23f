"""Count the functions and files that a plan, its apply and a lifecycle run pass through.

Usage: .venv/bin/python scripts/walk.py

Each walk is a run on a small repository with the local engine, in this process.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import reclaim
from reclaim.catalog import Catalog
from reclaim.engine.local.engine import LocalEngine
from reclaim.policy import Policy, Rules
from reclaim.policy.lifecycle import read_lifecycle
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.gc import collect
from reclaim.run.lifecycle.rules import store_lifecycle
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.run.requests import RunKind, RunRequest
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.stores import registry
from reclaim.stores.observation import Margins

RULES = '{"logs": {"prefix": "logs/", "days": 1}}'
SOURCE = str(Path(reclaim.__file__).parent)
T = TypeVar("T")


class Walk:
    """The functions of the package that were called while the walk was open."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(SOURCE):
            self.functions.add((file, frame.f_code.co_qualname))

    def __enter__(self) -> Walk:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def files(self) -> set[str]:
        """The files with a function that was called; module bodies do not count."""
        return {file for file, name in self.functions if name != "<module>"}


def prepare(catalog: Catalog) -> None:
    """A repository with a few commits, and objects that nothing refers to any more."""
    repository = catalog.create_repository("sales")
    main = repository.branch("main")
    for number in range(4):
        main.put(f"logs/{number}", b"data")
        main.commit(str(number))
    main.put("passing", b"data")
    main.reset()


def walk(name: str, run: Callable[[], T]) -> T:
    """Print how many functions and files a run passes through."""
    with Walk() as walked:
        result = run()
    lines = sum(len(Path(file).read_text().splitlines()) for file in walked.files)
    print(
        f"{name:15} {len(walked.functions):5} functions {len(walked.files):4} files"
        f" {lines:6} lines in these"
    )
    return result


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Catalog.init(folder).close()
        with Catalog.open(folder) as catalog:
            prepare(catalog)
        with Catalog.open(folder) as catalog:
            store, engine = registry.find(catalog, "sales"), LocalEngine()
            options = PlanOptions(
                Policy(Rules(keep_last=1)),
                margins=Margins(objects=timedelta(0)),
                allowed_fraction=1.0,
            )
            plan = walk("plan", lambda: make_plan(store, engine, options))
            moved = MoveToQuarantine()
            walk("apply", lambda: apply_plan(store, engine, plan.place, removal=moved))
            store_lifecycle(store, RULES, read_lifecycle(RULES), set_by="walk")
            bounds = PlanOptions(margins=options.margins, allowed_fraction=1.0)
            request = RunRequest(RunKind.LIFECYCLE)
            walk("gc --lifecycle", lambda: collect(store, engine, bounds, request))


if __name__ == "__main__":
    main()
