"""Planting a bug in modules that are loaded: the functions that it changes get other code.

What a module does as it is loaded was done without the bug, so a bug in that cannot be planted
here: a constant, a field of a class, the default of a parameter.
"""

from __future__ import annotations

import gc
import inspect
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType

from tests.planted.bug import Bug

Place = tuple[str, str, int]
"""Where a function stands: the file, its name and its first line."""


class NotSwappable(Exception):
    """More than functions would have to be exchanged."""


class Functions:
    """The functions of all modules below a folder that are loaded by now."""

    def __init__(self, folder: Path) -> None:
        self._at: defaultdict[Place, list[FunctionType]] = defaultdict(list)
        for found in gc.get_objects():
            if type(found) is FunctionType and found.__code__.co_filename.startswith(str(folder)):
                self._at[_place(found.__code__)].append(found)

    def plant(self, bug: Bug) -> None:
        """Exchange the code of what a bug changes. A failure leaves some of it exchanged."""
        for module in {change.module for change in bug.changes}:
            spec = find_spec(module)
            assert spec is not None
            assert spec.origin is not None
            source = Path(spec.origin).read_text()
            right = compile(source, spec.origin, "exec", dont_inherit=True)
            wrong = compile(bug.plant(module, source), spec.origin, "exec", dont_inherit=True)
            self._exchange(right, wrong)

    def _exchange(self, right: CodeType, wrong: CodeType) -> None:
        """Exchange what was defined by code that has run, as that of a module or a class."""
        if _told(right) != _told(wrong):
            raise NotSwappable(f"{right.co_qualname} in {right.co_filename} has run already")
        for old, new in zip(_inner(right), _inner(wrong), strict=True):
            if not _is_function(old):
                self._exchange(old, new)
            elif not _same(old, new):
                if _place(old) not in self._at:
                    raise NotSwappable(f"there is no {old.co_qualname} in {old.co_filename}")
                self._give(old, new)

    def _give(self, old: CodeType, new: CodeType) -> None:
        for function in self._at.get(_place(old), ()):
            if not _same(function.__code__, old):
                raise NotSwappable(f"another function stands where {old.co_qualname} does")
            try:
                function.__code__ = new
            except ValueError as error:
                raise NotSwappable(str(error)) from error
        # Those inside of it that were made already, as by a decorator, stay with their old code.
        inner = [*_inner(old)], [*_inner(new)]
        if any(_place(code) in self._at for code in inner[0]):
            if [code.co_name for code in inner[0]] != [code.co_name for code in inner[1]]:
                raise NotSwappable(f"{old.co_qualname} defines other functions")
            for old_inner, new_inner in zip(*inner, strict=True):
                self._give(old_inner, new_inner)


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def _same(old: CodeType, new: CodeType) -> bool:
    """Whether two do the same, on whatever lines they stand."""
    inner, other = [*_inner(old)], [*_inner(new)]
    return _told(old) == _told(new) and len(inner) == len(other) and all(map(_same, inner, other))


def _told(code: CodeType) -> tuple[object, ...]:
    """What code does, without what is defined in it, and without its lines."""
    return (
        code.co_code,
        code.co_names,
        (code.co_varnames, code.co_freevars, code.co_cellvars),
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        (code.co_flags, code.co_exceptiontable),
        [_constant(code, constant) for constant in code.co_consts],
    )


def _constant(code: CodeType, constant: object) -> object:
    if isinstance(constant, CodeType):
        return (constant.co_qualname,)
    # A class is told its line.
    is_line = not _is_function(code) and type(constant) is int and constant == code.co_firstlineno
    return ("line",) if is_line else (type(constant), repr(constant))
