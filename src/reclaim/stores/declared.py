"""Classes that declare abilities by inheriting from them."""

from __future__ import annotations

from typing import Self

from reclaim.errors import Refused


class Declared:
    """A class with declared abilities; no instances while a declared method is missing."""

    def __new__(cls, *_args: object, **_options: object) -> Self:
        check_complete(cls)
        return super().__new__(cls)


def check_complete(declared: type) -> None:
    """Refuse a class with missing methods of its declared abilities."""
    lacking = {
        name: next(base.__name__ for base in declared.__mro__ if name in vars(base))
        for name in sorted(getattr(declared, "__abstractmethods__", ()))
    }
    if lacking:
        names = ", ".join(f"{name} of {base}" for name, base in lacking.items())
        raise Refused(
            f"{declared.__name__} declares more than it implements; missing: {names}",
            hint="nothing was changed; correct the classes of the store",
        )
