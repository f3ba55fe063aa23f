"""The sample tree of the design document on expiration, as the library writes it."""

from __future__ import annotations

from datetime import datetime

from tests.icechunk.repositories import FIRST, WrittenRepository

EXPIRED = range(1, 8)
"""The snapshots that are older than the bound, the first one excepted."""


class SampleTree:
    """Fifteen snapshots, by the numbers that the design document gives them."""

    def __init__(self, written: WrittenRepository) -> None:
        self.written = written
        self.ids = {0: FIRST}
        repository = written.repository
        self._write(1, 2)
        written.branch("develop", self.ids[2])
        self._write(3, branch="develop")
        repository.create_tag("tag1", self.ids[3])
        self._write(4, 5)
        repository.create_tag("tag2", self.ids[5])
        self._write(6, branch="develop")
        written.branch("test", self.ids[6])
        self._write(7, branch="test")
        written.branch("qa", self.ids[7])
        self._write(8, branch="qa")
        self._write(9, branch="test")
        self._write(10, 11, branch="develop")
        self._write(12, 13, 14)
        written.age()

    def _write(self, *numbers: int, branch: str = "main") -> None:
        for number in numbers:
            self.ids[number] = self.written.write(number, branch=branch)

    @property
    def bound(self) -> datetime:
        """The time of the oldest snapshot that is not expired."""
        ancestry = self.written.reopened().repository.ancestry(snapshot_id=self.ids[8])
        bound: datetime = next(info.written_at for info in ancestry)
        return bound

    def number(self, id: str) -> int:
        return next(number for number, known in self.ids.items() if known == id)

    def lines(self) -> dict[str, list[int]]:
        """What each branch and tag reaches, as the library shows it."""
        repository = self.written.reopened().repository
        refs = {name: {"branch": name} for name in repository.list_branches()}
        refs |= {name: {"tag": name} for name in repository.list_tags()}
        return {
            name: [self.number(info.id) for info in repository.ancestry(**ref)]
            for name, ref in refs.items()
        }

    def files(self) -> set[int]:
        """The snapshots that are there."""
        return set(map(self.number, self.written.names("snapshots")))
