"""A plugin for pytest that plants the bug named in ``RECLAIM_PLANTED`` as the module is loaded."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tests.planted import (
    claiming,
    collecting,
    copies,
    deciding,
    declaring,
    edits,
    ends,
    excluding,
    filesystem,
    icechunk,
    kinds,
    library,
    lifecycle,
    marking,
    naming,
    pipelines,
    policies,
    protecting,
    quarantine,
    reaping,
    records,
    roots,
    rounds,
    schedules,
    settings,
    settling,
    terminus,
    trusting,
    uncommitted,
    undoing,
)
from tests.planted.bug import Bug

VARIABLE = "RECLAIM_PLANTED"
FAMILIES = (
    claiming.BUGS,
    collecting.BUGS,
    copies.BUGS,
    deciding.BUGS,
    declaring.BUGS,
    edits.BUGS,
    ends.BUGS,
    excluding.BUGS,
    filesystem.BUGS,
    icechunk.BUGS,
    kinds.BUGS,
    library.BUGS,
    lifecycle.BUGS,
    marking.BUGS,
    naming.BUGS,
    pipelines.BUGS,
    policies.BUGS,
    protecting.BUGS,
    quarantine.BUGS,
    reaping.BUGS,
    records.BUGS,
    roots.BUGS,
    rounds.BUGS,
    schedules.BUGS,
    settings.BUGS,
    settling.BUGS,
    terminus.BUGS,
    trusting.BUGS,
    uncommitted.BUGS,
    undoing.BUGS,
)
BUGS = {name: bug for family in FAMILIES for name, bug in family.items()}
FIRST = frozenset(next(iter(family)) for family in FAMILIES)
"""A bug of each family: ``make test`` plants these."""


class _Loader(SourceFileLoader):
    """Loads a module with the bug in it, past every cache of compiled code."""

    def __init__(self, name: str, path: str, bug: Bug) -> None:
        super().__init__(name, path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType | None:
        planted = self._bug.plant(fullname, self.get_source(fullname) or "")
        return self.source_to_code(planted, self.path)


class _Finder:
    """Finds the modules that have the bug."""

    def __init__(self, bug: Bug) -> None:
        self._bug = bug

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in {change.module for change in self._bug.changes}:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin, self._bug)
        return importlib.util.spec_from_file_location(fullname, spec.origin, loader=loader)


if VARIABLE in os.environ:
    _bug = BUGS[os.environ[VARIABLE]]
    assert not [change for change in _bug.changes if change.module in sys.modules]
    sys.meta_path.insert(0, _Finder(_bug))
