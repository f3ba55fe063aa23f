"""A plan: the objects to delete, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import pyarrow as pa

from reclaim.api.options import (
    ApplyArguments,
    allow_missing,
    check_names,
    limits_of,
    refuse_unknown,
    removal_for,
)
from reclaim.engine.tasks.parts import Place
from reclaim.errors import InvalidInput
from reclaim.globs import check_globs
from reclaim.ids import short
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.finished_plan import finish_without_apply
from reclaim.run.apply.trust import check_digest
from reclaim.run.plan.plan_document import Group, PlanDocument
from reclaim.run.plan.plan_location import LocatedPlan, find_plan_anywhere
from reclaim.run.sweep.removal import DELETE
from reclaim.stores.registry import check_planned
from reclaim.text import size
from reclaim.urls import path_of

if TYPE_CHECKING:
    from reclaim.api.run import Run
    from reclaim.api.store import OpenStore

COLUMNS = ("address", "path", "size", "kind", "belongs_to", "last_modified", "reason")


class Total(NamedTuple):
    """A number of objects and their bytes."""

    objects: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The figures of a plan."""

    objects: int
    """Number of objects to delete."""
    bytes: int
    all_objects: int
    """Number of objects the plan looked at."""
    all_bytes: int
    by_reason: Mapping[str, Total]
    """Objects to delete, by reason."""
    kept_by_reason: Mapping[str, Total]
    """Objects to keep, by reason."""
    expired: int
    """Commits not kept by the policy."""
    dead: int
    """Unreachable commits."""
    warnings: Sequence[str]

    @classmethod
    def of(cls, document: PlanDocument) -> PlanSummary:
        return cls(
            document.candidates,
            document.candidate_bytes,
            document.objects,
            document.bytes,
            _by_reason(document.going),
            _by_reason(document.staying),
            document.expired,
            document.dead,
            tuple(document.warnings),
        )


class Plan:
    """A plan of a store. Nothing is deleted until ``apply`` is called."""

    def __init__(
        self,
        located: LocatedPlan,
        store: OpenStore | None = None,
        *,
        not_recorded: str | None = None,
    ) -> None:
        self._located = located
        self._store = store
        self.not_recorded = not_recorded
        """Why the store could not record the digest of the plan; None if it did."""

    def __repr__(self) -> str:
        figures = self.summary
        return (
            f"<Plan {short(self.run_id)} of {self.document.store.name}: "
            f"{figures.objects:,} objects, {size(figures.bytes)}>"
        )

    @property
    def run_id(self) -> str:
        """Id of the run, for the plan and its apply."""
        return self.document.run

    @property
    def place(self) -> Place:
        return self._located.place

    @property
    def location(self) -> str:
        """The folder or URL of the plan."""
        text = str(self._located.moved_to or self.place)
        return path_of(text) if text.startswith("file://") else text

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan, for ``apply(digest=...)`` in another process."""
        return self.document.digest

    @property
    def document(self) -> PlanDocument:
        """The plan without the lists of objects and commits."""
        return self._located.document

    @property
    def located(self) -> LocatedPlan:
        return self._located

    @cached_property
    def summary(self) -> PlanSummary:
        return PlanSummary.of(self.document)

    def objects(self) -> pa.Table:
        """Return every object to delete: address, path, size, kind, branch, last_modified and
        reason. ``iter_objects`` needs less memory."""
        tables = list(self.iter_objects())
        return pa.concat_tables(tables) if tables else _EMPTY.empty_table()

    def iter_objects(self) -> Iterator[pa.Table]:
        """Iterate over the objects to delete, a file of the plan at a time."""
        for file in self.document.files:
            table = self._located.read(file, COLUMNS)
            yield table.rename_columns({"belongs_to": "branch"}).cast(_EMPTY)

    def commits(self) -> pa.Table:
        """Return every commit or snapshot with its parents, its verdict and the reasons."""
        return self._located.read(self.document.snapshots, _COMMIT_COLUMNS)

    def apply(
        self,
        *,
        digest: str | None = None,
        exclude: Sequence[str] = (),
        unsafe_allow_missing_layers: bool = False,
        before_change: Callable[[], object] | None = None,
        **options: Unpack[ApplyArguments],
    ) -> Run:
        """Delete the objects of the plan, or move them to quarantine, except objects referenced
        again. Safe to run again.

        Objects with a path or address matching ``exclude`` stay. ``digest`` refuses any other plan.
        ``before_change`` is called after the checks of the request and before the apply, which
        checks again. An error in it changes nothing.
        """
        from reclaim.api.run import Run

        opened, document = self._bound(), self.document
        store = opened.store
        named = document.store
        check_planned(store, kind=named.kind, name=named.name, uid=named.uid)
        if self._located.moved_to is not None:
            raise InvalidInput(
                f"the plan was moved to {self.location}",
                hint=f"apply it where it was written: {self.place}",
            )
        refuse_unknown(options, ApplyArguments)
        asked = None if digest is None else check_digest(digest)
        globs, limits = check_globs(check_names(exclude, "exclude")), limits_of(options)
        edits_only = document.history_only is not None
        if edits_only:
            refuse_deletions(options, exclude)
        limits.check(document, hint="nothing was changed; review the plan, or allow more")
        allow_missing(store, asked=unsafe_allow_missing_layers)
        removal = DELETE if edits_only else removal_for(store, options)
        settled = finish_without_apply(
            store, self.place, document, digest=asked, removal=removal, exclude=globs
        )
        if settled is not None:
            return Run.of(opened, document.run, settled.applied, settled=settled)
        if before_change is not None:
            before_change()
        with opened.work.begin(local=edits_only) as (engine, watch):
            applied = apply_plan(
                store,
                engine,
                self.place,
                planned=document,
                digest=asked,
                removal=removal,
                exclude=globs,
                limits=limits,
                watcher=watch,
            )
        return Run.of(opened, document.run, applied)

    def _bound(self) -> OpenStore:
        if self._store is None:
            named = self.document.store
            raise InvalidInput(
                "a plan that was opened by itself can be read, and not applied",
                hint=f"open it with the store: open_store({named.name!r}).open_plan(...)",
            )
        return self._store


def open_plan(location: str) -> Plan:
    """Open a plan to read it, in a folder or at a URL. It may have been copied there."""
    return Plan(find_plan_anywhere(location))


_EMPTY = pa.schema(
    [
        ("address", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("kind", pa.string()),
        ("branch", pa.string()),
        ("last_modified", pa.timestamp("us", tz="UTC")),
        ("reason", pa.string()),
    ]
)
_COMMIT_COLUMNS = (
    *("id", "written_at", "message", "parents", "new_parents"),
    *("expired", "released", "refs", "verdict", "reasons"),
)


def _by_reason(groups: Sequence[Group]) -> Mapping[str, Total]:
    totals: dict[str, Total] = {}
    for group in groups:
        before = totals.get(group.reason, Total())
        totals[group.reason] = Total(before.objects + group.objects, before.bytes + group.bytes)
    return dict(sorted(totals.items(), key=lambda row: -row[1].bytes))


def refuse_deletions(options: ApplyArguments, exclude: Sequence[str] = ()) -> None:
    """Refuse options of deletions with a plan without any."""
    given: dict[str, Any] = {**options, "exclude": list(exclude)}
    for name, value in given.items():
        if value is not None and value is not False and value != []:
            raise InvalidInput(f"{name} does not go with a history-only plan")
