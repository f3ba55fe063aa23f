"""A bug. What is replaced must be in the module exactly once, so that no bug goes stale."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """A change to one module, and the test that it must make fail."""

    module: str
    right: str
    wrong: str
    test: str

    def plant(self, source: str) -> str:
        if source.count(self.right) != 1:
            raise AssertionError(f"{self.module} has {source.count(self.right)} of {self.right!r}")
        return source.replace(self.right, self.wrong)
