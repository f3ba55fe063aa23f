"""Groups of objects by where they are: folders of paths, as deep as a bounded number allows.

A *where* is what objects belong to, such as a branch, and a folder of the logical path. Tasks count
by folder. One that finds too many of a kind closes folders: all that is below a closed one counts
as being in it, here and in every other task, so that no number of a folder is only a part of it.
What is left, the driver merges into the folders above until few enough are left to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

GroupSums = dict[tuple[str, ...], tuple[int, int]]
"""Group → (objects, bytes)."""
Where = tuple[str, str]
"""A branch and a folder."""

DEPTH = 8
"""How many levels of folders are told apart."""
COUNTED = 1_000
"""How many wheres of a kind are counted apart, in a task and on the way to the driver."""
TOGETHER = 5_000
"""How many groups of some rows are looked at one by one."""
SHOWN = 50
"""How many of a kind a plan has."""

GROUPS = ["kind", "reason", "belongs_to", "folder", "age"]

TOP = "/"
"""The folder of what lies in none."""
UNKNOWN = ""
"""The folder of objects whose path is not known."""
OTHERS = "(others)"
"""The branch of what is counted together for many branches."""


def folders_of(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """The folder of each path; ``UNKNOWN`` for null."""
    folder = _cut(paths, DEPTH)
    folder = pc.if_else(pc.equal(folder, ""), TOP, folder)
    return pc.fill_null(folder, UNKNOWN)


def _shortened(folders: pa.ChunkedArray, depth: int) -> pa.ChunkedArray:
    """Folders of at most so many levels; what is unknown stays so."""
    if depth:
        return _cut(folders, depth)
    return pc.if_else(pc.equal(folders, UNKNOWN), UNKNOWN, TOP)


def _cut(paths: pa.ChunkedArray, depth: int) -> pa.ChunkedArray:
    return pc.replace_substring_regex(paths, f"^((?:[^/]*/){{0,{depth}}}).*$", "\\1")


def above(where: Where) -> Where | None:
    """The folder that a folder is in; above the top of a branch is that of all branches."""
    branch, folder = where
    if folder not in (TOP, UNKNOWN):
        parent = folder[:-1].rpartition("/")[0]
        return branch, f"{parent}/" if parent else TOP
    return None if branch == OTHERS else (OTHERS, folder)


def line_of(where: Where) -> Iterator[Where]:
    """A folder and all that it is in, from the innermost on."""
    at: Where | None = where
    while at is not None:
        yield at
        at = above(at)


@dataclass(slots=True)
class Places:
    """Sums by (kind, reason, branch, folder, age), for a bounded number of folders of each kind."""

    tally: GroupSums = field(default_factory=dict)
    closed: dict[str, set[Where]] = field(default_factory=dict)
    """By kind, the folders below which nothing is told apart."""

    def add(self, tally: GroupSums, closed: Iterable[tuple[str, Where]] = ()) -> None:
        """Add what was counted elsewhere, and what was closed there."""
        for kind, where in closed:
            self.closed.setdefault(kind, set()).add(where)
        for group, sums in tally.items():
            _add(self.tally, group, sums)
        self._fold()

    def add_rows(self, rows: pa.Table) -> None:
        """Add objects, by their columns of the names in ``GROUPS`` and their size."""
        counted = rows.group_by(GROUPS).aggregate([("size", "sum"), ("size", "count")])
        closed: set[tuple[str, Where]] = set()
        depth = pc.max(pc.count_substring(counted.column("folder"), "/")).as_py()
        # In columns, as long as there are too many to be looked at one by one.
        while counted.num_rows > TOGETHER and depth:
            depth -= 1
            cut = _shortened(counted.column("folder"), depth)
            changed = counted.filter(pc.not_equal(cut, counted.column("folder")))
            at = counted.column_names.index("folder")
            counted = counted.set_column(at, "folder", cut)
            names = changed.set_column(at, "folder", _shortened(changed.column("folder"), depth))
            each = names.group_by(["kind", "belongs_to", "folder"]).aggregate([])
            columns = (each.column(name).to_pylist() for name in ("kind", "belongs_to", "folder"))
            closed |= {(kind, (branch, one)) for kind, branch, one in zip(*columns, strict=True)}
            sums = [("size_sum", "sum"), ("size_count", "sum")]
            counted = counted.group_by(GROUPS).aggregate(sums)
            counted = counted.rename_columns(
                {"size_sum_sum": "size_sum", "size_count_sum": "size_count"}
            )
        groups = zip(*(counted.column(name).to_pylist() for name in GROUPS), strict=True)
        sizes, counts = (counted.column(name).to_pylist() for name in ("size_sum", "size_count"))
        self.add(dict(zip(groups, zip(counts, sizes, strict=True), strict=True)), closed)

    def listed(self) -> list[tuple[str, Where]]:
        """All closed folders, with their kinds."""
        return sorted((kind, where) for kind, some in self.closed.items() for where in some)

    def _fold(self) -> None:
        """Close folders until few enough are left of each kind."""
        if not self.closed and len(self.tally) <= COUNTED:
            return
        wheres: dict[str, set[Where]] = {}
        for kind, _, branch, folder, _ in self.tally:
            wheres.setdefault(kind, set()).add((branch, folder))
        merged: dict[tuple[str, Where], Where] = {}
        for kind, some in wheres.items():
            closed = self.closed.get(kind, set())
            if not closed and len(some) <= COUNTED:
                continue
            targets = {where: _outermost(where, closed) for where in some}
            while len(left := set(targets.values())) > COUNTED:
                closed |= _fullest(left, len(left) - COUNTED)
                targets = {where: _outermost(where, closed) for where in some}
            self.closed[kind] = {where for where in closed if _outermost(where, closed) == where}
            merged |= {(kind, where): target for where, target in targets.items()}
        if merged:
            self.tally = _moved(self.tally, merged)


def few(tally: GroupSums, most: int = SHOWN) -> GroupSums:
    """The same sums, with at most so many folders of each kind; the smaller ones are merged.

    A folder is merged with its neighbours into the one above, the smallest first. Where that would
    leave hardly any, the largest of the neighbours stay.
    """
    sizes: dict[str, dict[Where, int]] = {}
    for (kind, _, branch, folder, _), (_, size) in tally.items():
        of_kind = sizes.setdefault(kind, {})
        of_kind[branch, folder] = of_kind.get((branch, folder), 0) + size
    merged: dict[tuple[str, Where], Where] = {}
    for kind, of_kind in sizes.items():
        targets = _merged(of_kind, most)
        merged |= {(kind, where): target for where, target in targets.items()}
    return _moved(tally, merged) if merged else tally


def _merged(sizes: dict[Where, int], most: int) -> dict[Where, Where]:
    """Where each of too many folders is counted."""
    left = dict(sizes)
    moved: dict[Where, Where] = {}
    while len(left) > most:
        parent, children = _smallest_family(left)
        keep = most - (len(left) - len(children)) - 1 if _leaves_little(left, children, most) else 0
        going = sorted(children, key=lambda where: (left[where], where))[: len(children) - keep]
        for where in going:
            left[parent] = left.get(parent, 0) + left.pop(where)
            moved[where] = parent
    return {where: _last(where, moved) for where in sizes}


def _leaves_little(left: Collection[Where], children: Collection[Where], most: int) -> bool:
    return len(left) - len(children) + 1 < most // 2


def _last(where: Where, moved: dict[Where, Where]) -> Where:
    while where in moved:
        where = moved[where]
    return where


def _smallest_family(left: dict[Where, int]) -> tuple[Where, list[Where]]:
    """The folder whose own folders are the smallest on average, of those that can be merged."""
    inner = {parent for where in left for parent in line_of(where) if parent != where}
    families: dict[Where, list[Where]] = {}
    for where in left:
        parent = above(where)
        if where not in inner and parent is not None:
            families.setdefault(parent, []).append(where)
    sums = {parent: sum(left[one] for one in some) for parent, some in families.items()}
    parent = min(families, key=lambda one: (sums[one] / len(families[one]), one))
    return parent, families[parent]


def _outermost(where: Where, closed: Collection[Where]) -> Where:
    """The outermost closed folder that a folder is in, or itself."""
    target = where
    for parent in line_of(where):
        if parent in closed:
            target = parent
    return target


def _fullest(wheres: Collection[Where], excess: int) -> set[Where]:
    """The folders with the most folders directly in them, as many as it takes to lose some."""
    parents = (above(where) for where in wheres)
    counts = Counter(parent for parent in parents if parent is not None)
    fullest: set[Where] = set()
    for parent in sorted(counts, key=lambda parent: (-counts[parent], parent)):
        if excess <= 0:
            break
        fullest.add(parent)
        excess -= max(1, counts[parent] - 1)
    return fullest


def _moved(tally: GroupSums, merged: dict[tuple[str, Where], Where]) -> GroupSums:
    moved: GroupSums = {}
    for (kind, reason, branch, folder, age), sums in tally.items():
        target = merged.get((kind, (branch, folder)), (branch, folder))
        _add(moved, (kind, reason, *target, age), sums)
    return moved


def _add(tally: GroupSums, group: tuple[str, ...], sums: tuple[int, int]) -> None:
    objects, size = tally.get(group, (0, 0))
    tally[group] = objects + sums[0], size + sums[1]
