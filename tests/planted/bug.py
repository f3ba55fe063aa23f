"""A planted bug. Its anchor must be in the module exactly once, so that no bug goes stale."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

QUARANTINE_MACHINE = "tests/collect/quarantine/test_quarantine_machine.py"
TROUBLED_MACHINE = "tests/terminus/test_troubled_machine.py"


@dataclass(frozen=True)
class Change:
    """A change to one module: ``wrong`` text in place of the right one, or a call left out.

    ``drops`` names the function and the call, as "Planning.run: check_clock", so that the anchor
    holds whatever the arguments are.
    """

    module: str
    right: str = ""
    wrong: str = ""
    drops: str = ""

    def plant(self, source: str) -> str:
        if self.drops:
            return without_call(source, self.drops)
        if source.count(self.right) != 1:
            raise AssertionError(f"{self.module} has {source.count(self.right)} of {self.right!r}")
        return source.replace(self.right, self.wrong)


@dataclass(frozen=True)
class Bug:
    """A change to one module, and the test that it must make fail.

    Where a hole is closed in several places, ``besides`` opens the others. ``sequence`` is one
    that takes a state machine through the hole: the machine must find the bug as well.
    """

    module: str
    right: str = ""
    wrong: str = ""
    drops: str = ""
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
        return (Change(self.module, self.right, self.wrong, self.drops), *self.besides)

    def plant(self, module: str, source: str) -> str:
        for change in self.changes:
            if change.module == module:
                source = change.plant(source)
        return source


def without_call(source: str, anchor: str) -> str:
    """Source in which a function makes a call no more; every line keeps its number."""
    function, called = anchor.split(": ")
    calls = {
        call.lineno: call
        for name, defined in _functions(ast.parse(source), "")
        if name == function
        for call in ast.walk(defined)
        if isinstance(call, ast.Expr) and _name_of_call(call) == called
    }
    if len(calls) != 1:
        raise AssertionError(f"{function} calls {called} {len(calls)} times, and not once")
    (call,) = calls.values()
    assert call.end_lineno is not None
    lines = source.splitlines(keepends=True)
    first, last = call.lineno - 1, call.end_lineno
    blank = ["\n"] * (last - first - 1)
    return "".join([*lines[:first], " " * call.col_offset + "pass\n", *blank, *lines[last:]])


def _functions(node: ast.AST, path: str) -> Iterator[tuple[str, ast.AST]]:
    """Every function with its qualified name."""
    for child in ast.iter_child_nodes(node):
        below = path
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            below = f"{path}.{child.name}".lstrip(".")
        if isinstance(child, ast.FunctionDef):
            yield below, child
        yield from _functions(child, below)


def _name_of_call(statement: ast.Expr) -> str | None:
    if not isinstance(statement.value, ast.Call):
        return None
    match statement.value.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return None
