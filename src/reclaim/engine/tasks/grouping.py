"""Sums of objects by branch and folder, for a bounded number of folders.

A *where* is a group of objects, such as a branch, and a folder of the logical path. Tasks count by
folder. A task with too many of a kind closes folders: everything below a closed folder counts as
directly in it, in this and all other tasks, so a folder's number is never partial. The driver
merges the remaining folders upwards until few enough are left to read.
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
"""Levels of folders counted separately."""
COUNTED = 1_000
"""Wheres of a kind counted separately, in a task and on the way to the driver."""
TOGETHER = 5_000
"""Groups processed individually."""
SHOWN = 50
"""Wheres of a kind shown in a plan."""

GROUPS = ["kind", "reason", "belongs_to", "folder", "age"]

TOP = "/"
"""The folder of paths without a folder."""
UNKNOWN = ""
"""The folder of objects with unknown paths."""
OTHERS = "(others)"
"""The branch of objects counted together for many branches."""


def folders_of(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the folder of each path; ``UNKNOWN`` for null."""
    folder = _cut(paths, DEPTH)
    folder = pc.if_else(pc.equal(folder, ""), TOP, folder)
    return pc.fill_null(folder, UNKNOWN)


def _shortened(folders: pa.ChunkedArray, depth: int) -> pa.ChunkedArray:
    """Return folders cut to a number of levels; ``UNKNOWN`` stays."""
    if depth:
        return _cut(folders, depth)
    return pc.if_else(pc.equal(folders, UNKNOWN), UNKNOWN, TOP)


def _cut(paths: pa.ChunkedArray, depth: int) -> pa.ChunkedArray:
    return pc.replace_substring_regex(paths, f"^((?:[^/]*/){{0,{depth}}}).*$", "\\1")


def parent_of(where: Where) -> Where | None:
    """Return the parent folder; above the top of a branch is the top of all branches."""
    branch, folder = where
    if folder not in (TOP, UNKNOWN):
        parent = folder[:-1].rpartition("/")[0]
        return branch, f"{parent}/" if parent else TOP
    return None if branch == OTHERS else (OTHERS, folder)


def with_parents(where: Where) -> Iterator[Where]:
    """Yield a folder and its parents, innermost first."""
    at: Where | None = where
    while at is not None:
        yield at
        at = parent_of(at)


@dataclass(slots=True)
class Places:
    """Sums by (kind, reason, branch, folder, age), for a bounded number of folders of each kind."""

    tally: GroupSums = field(default_factory=dict)
    closed: dict[str, set[Where]] = field(default_factory=dict)
    """By kind, the folders below which all counts are combined."""

    def add(self, tally: GroupSums, closed: Iterable[tuple[str, Where]] = ()) -> None:
        """Add counts and closed folders of another task."""
        for kind, where in closed:
            self.closed.setdefault(kind, set()).add(where)
        for group, sums in tally.items():
            _add(self.tally, group, sums)
        self._fold()

    def add_rows(self, rows: pa.Table) -> None:
        """Add objects, by their ``GROUPS`` columns and size."""
        counted = rows.group_by(GROUPS).aggregate([("size", "sum"), ("size", "count")])
        closed: set[tuple[str, Where]] = set()
        depth = pc.max(pc.count_substring(counted.column("folder"), "/")).as_py()
        # In columns, while there are too many to process individually.
        while counted.num_rows > TOGETHER and depth:
            depth -= 1
            cut = _shortened(counted.column("folder"), depth)
            changed = counted.filter(pc.not_equal(cut, counted.column("folder")))
            at = counted.column_names.index("folder")
            counted = counted.set_column(at, "folder", cut)
            names = changed.set_column(at, "folder", _shortened(changed.column("folder"), depth))
            each = names.group_by(["kind", "belongs_to", "folder"]).aggregate([])
            columns = (each.column(name).to_pylist() for name in ("kind", "belongs_to", "folder"))
            closed |= {
                (kind, (branch, folder)) for kind, branch, folder in zip(*columns, strict=True)
            }
            sums = [("size_sum", "sum"), ("size_count", "sum")]
            counted = counted.group_by(GROUPS).aggregate(sums)
            counted = counted.rename_columns(
                {"size_sum_sum": "size_sum", "size_count_sum": "size_count"}
            )
        groups = zip(*(counted.column(name).to_pylist() for name in GROUPS), strict=True)
        sizes, counts = (counted.column(name).to_pylist() for name in ("size_sum", "size_count"))
        self.add(dict(zip(groups, zip(counts, sizes, strict=True), strict=True)), closed)

    def listed(self) -> list[tuple[str, Where]]:
        """Return all closed folders, with their kinds."""
        return sorted((kind, where) for kind, folders in self.closed.items() for where in folders)

    def _fold(self) -> None:
        """Close folders until each kind has few enough."""
        if not self.closed and len(self.tally) <= COUNTED:
            return
        wheres: dict[str, set[Where]] = {}
        for kind, _, branch, folder, _ in self.tally:
            wheres.setdefault(kind, set()).add((branch, folder))
        merged: dict[tuple[str, Where], Where] = {}
        for kind, of_kind in wheres.items():
            closed = self.closed.get(kind, set())
            if not closed and len(of_kind) <= COUNTED:
                continue
            targets = {where: _outermost(where, closed) for where in of_kind}
            while len(left := set(targets.values())) > COUNTED:
                closed |= _fullest(left, len(left) - COUNTED)
                targets = {where: _outermost(where, closed) for where in of_kind}
            self.closed[kind] = {where for where in closed if _outermost(where, closed) == where}
            merged |= {(kind, where): target for where, target in targets.items()}
        if merged:
            self.tally = _moved(self.tally, merged)


def limit_folders(tally: GroupSums, most: int = SHOWN) -> GroupSums:
    """Return the same sums with a bounded number of folders of each kind; smaller folders are
    merged.

    A folder is merged with its siblings into the parent, smallest first. If hardly any would be
    left, the largest siblings stay.
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
    """Return the folder each folder is counted in, if there are too many."""
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
    """Return the mergeable parent whose folders are smallest on average, and these folders."""
    inner = {parent for where in left for parent in with_parents(where) if parent != where}
    families: dict[Where, list[Where]] = {}
    for where in left:
        parent = parent_of(where)
        if where not in inner and parent is not None:
            families.setdefault(parent, []).append(where)
    sums = {parent: sum(left[where] for where in children) for parent, children in families.items()}
    parent = min(
        families, key=lambda candidate: (sums[candidate] / len(families[candidate]), candidate)
    )
    return parent, families[parent]


def _outermost(where: Where, closed: Collection[Where]) -> Where:
    """Return the outermost closed parent of a folder, or the folder itself."""
    target = where
    for parent in with_parents(where):
        if parent in closed:
            target = parent
    return target


def _fullest(wheres: Collection[Where], excess: int) -> set[Where]:
    """Return the folders with the most direct subfolders, enough of them to remove some."""
    parents = (parent_of(where) for where in wheres)
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
