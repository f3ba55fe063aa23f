"""A bug. What is replaced must be in the module exactly once, so that no bug goes stale."""

from __future__ import annotations

from dataclasses import dataclass

QUARANTINE_MACHINE = "tests/collect/test_quarantine_machine.py"
TROUBLED_MACHINE = "tests/terminus/test_troubled_machine.py"


@dataclass(frozen=True)
class Change:
    """A change to one module."""

    module: str
    right: str
    wrong: str


@dataclass(frozen=True)
class Bug:
    """A change to one module, and the test that it must make fail.

    Where a hole is closed in several places, ``besides`` opens the others. ``sequence`` is one
    that takes a state machine through the hole: the machine must find the bug as well.
    """

    module: str
    right: str
    wrong: str
    test: str = ""
    sequence: str = ""
    machine: str = QUARANTINE_MACHINE
    besides: tuple[Change, ...] = ()
    tries: int = 1
    """How often its test may be run until it fails."""

    @property
    def tests(self) -> list[str]:
        """All that must fail; ``make test`` runs the first alone."""
        known = f"{self.machine}::test_a_known_sequence[{self.sequence}]" if self.sequence else ""
        return [test for test in (self.test, known) if test]

    @property
    def changes(self) -> tuple[Change, ...]:
        return (Change(self.module, self.right, self.wrong), *self.besides)

    def plant(self, module: str, source: str) -> str:
        for change in self.changes:
            if change.module == module:
                if source.count(change.right) != 1:
                    many = source.count(change.right)
                    raise AssertionError(f"{module} has {many} of {change.right!r}")
                source = source.replace(change.right, change.wrong)
        return source
