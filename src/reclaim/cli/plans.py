"""Plans on the command line: where they are, what is asked of them, how they look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import typer

from reclaim.cli.ages import parse_age
from reclaim.cli.backups import BackupsOption, collect_backups
from reclaim.cli.describe import instant, objects, percent, size, snapshots
from reclaim.cli.missing import MissingOption, allow_missing
from reclaim.cli.output import Block, Table
from reclaim.cli.settings import BY_KEY, OPTION, current
from reclaim.errors import AlreadyExists, InvalidInput, NotFound
from reclaim.stores.registry import name_of, schemes
from reclaim.urls import normalize, path_of, split

if TYPE_CHECKING:
    import pyarrow as pa

    from reclaim.cli.plan_history import PlanHistory
    from reclaim.cli.rules import RuleOptions
    from reclaim.engine.base import Objects
    from reclaim.engine.tasks.parts import Part, Place
    from reclaim.run.plan import PlanOptions
    from reclaim.run.plan_file import (
        Counts,
        File,
        Group,
        HistoryChange,
        Lifecycle,
        PlanDocument,
        TooYoung,
        Uncommitted,
    )
    from reclaim.storage import Storage
    from reclaim.stores.base import Store
    from reclaim.stores.observation import Margins

PlanArgument = Annotated[
    str, typer.Argument(metavar="PLAN", help="The plan's folder or URL.", show_default=False)
]
STORE = (
    "A repository (a deleted one by its uid), or another store as SCHEME:LOCATION: "
    + ", ".join(f"{scheme}:PATH" for scheme in schemes())
    + "."
)

STORED = "stored"
"""The source of a policy that was stored with the store."""
ROWS = 15
"""How many rows people are shown of a long table; ``--json`` has them all."""


MinAgeOption = Annotated[
    str, typer.Option(metavar="AGE", help="Younger objects stay, whatever they are.")
]
OutOption = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="An empty folder or URL for the plan. Default: in the store.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """Options of a plan, beside the rules."""

    min_age: MinAgeOption = "24h"
    inventory: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="A listing in Parquet (key, size, last_modified), instead of listing.",
            show_default=False,
        ),
    ] = None
    out: OutOption = None
    unsafe_allow_fraction: Annotated[
        float | None,
        typer.Option(
            "--unsafe-allow-fraction",
            metavar="F",
            min=0.0,
            max=1.0,
            help="Let a plan take more than 0.9 of all objects.",
            show_default=False,
        ),
    ] = None

    unsafe_allow_missing_layers: MissingOption = False
    old_backups: BackupsOption = False

    def read(self, rules: RuleOptions) -> Callable[[Store], PlanOptions]:
        """The options of a plan for a store; what does not depend on the store is checked now."""
        from reclaim.run.plan import MOST, PlanOptions
        from reclaim.run.stored_policy import choose_policy, find_stored
        from reclaim.stores.observation import Margins

        given = rules.read()
        named = current().chosen["min_age"].where or "--min-age"
        margins = Margins(objects=parse_age(named, self.min_age))
        by_option = current().chosen["min_age"].origin == OPTION
        fraction = self.unsafe_allow_fraction

        def options(store: Store) -> PlanOptions:
            allow_missing(store, asked=self.unsafe_allow_missing_layers)
            collect_backups(store, asked=self.old_backups)
            stored = find_stored(store) if given is None else None
            chosen = choose_policy(given, stored)
            return PlanOptions(
                policy=chosen.policy,
                policy_source=chosen.source,
                margins=margins if by_option else _safe_margins(margins, store),
                place=None if self.out is None else _empty_place(self.out, store),
                inventory=None if self.inventory is None else _inventory(self.inventory, store),
                inventory_name=self.inventory,
                allowed_fraction=MOST if fraction is None else fraction,
                delete_expired_tags=rules.delete_expired_tags,
                delete_expired_branches=rules.delete_expired_branches,
            )

        return options


def _safe_margins(margins: Margins, store: Store) -> Margins:
    """Margins of a setting, which speaks for all stores.

    Where others write without leases the margin alone protects, and only an option shortens it.
    """
    if not store.quarantine_by_default:
        return margins
    shortest = parse_age("min_age", str(BY_KEY["min_age"].default))
    return replace(margins, objects=max(margins.objects, shortest))


def find_plan(location: str) -> tuple[Place, PlanDocument]:
    """The plan in a folder or at a URL, to apply it: it has to be where it was written."""
    from reclaim.run.plan_file import find

    storage = _open_plan(location)
    with _no_plan(location):
        return find(storage, location)


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan to look at, wherever it lies now."""

    place: Place
    """Where it was written."""
    document: PlanDocument
    here: Place
    """Where it was found."""

    @property
    def moved_to(self) -> Place | None:
        """Where it lies now, if that is not where it was written."""
        return None if str(self.here) == str(self.place) else self.here

    def has(self, file: File) -> bool:
        from reclaim.engine.tasks.parts import open_storage

        try:
            open_storage(self.here.url).head(self._part(file).address)
        except NotFound:
            return False
        return True

    def read(self, file: File, columns: Sequence[str]) -> pa.Table:
        """The rows of one of its files, which must be as it was written."""
        from reclaim.engine.tasks.parts import open_storage, read_part

        return read_part(open_storage(self.here.url), self._part(file), columns)

    def _part(self, file: File) -> Part:
        """A file of it as it is named from here."""
        return replace(file.part, address=file.address.removeprefix(self.place.prefix))


def find_plan_anywhere(location: str) -> FoundPlan:
    """The plan in a folder or at a URL, to look at: it may have been copied or moved there."""
    from reclaim.engine.tasks.parts import Place
    from reclaim.run.plan_file import read

    storage = _open_plan(location)
    here = Place(storage.url, "")
    with _no_plan(location):
        document = read(storage, here)
    return FoundPlan(Place(document.place.url, document.place.prefix), document, here)


def _open_plan(location: str) -> Storage:
    from reclaim.run.plan_file import FILE
    from reclaim.storage import ObjectStorage

    with _no_plan(location):
        return ObjectStorage.open(normalize(location.rstrip("/").removesuffix("/" + FILE)))


@contextmanager
def _no_plan(location: str) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise NotFound(
            f"there is no plan at {location}", hint="make one with `reclaim plan`"
        ) from error


def store_option(kind: str, uid: str) -> str:
    """How commands that take a run or a plan name a store that is not of the catalog."""
    return "" if kind == "catalog" else f" --store {name_of(kind, '', uid)}"


def shown(place: Place) -> str:
    """A place as people and shells name it."""
    text = str(place)
    return path_of(text) if text.startswith("file://") else text


def _empty_place(location: str, store: Store) -> Place:
    from reclaim.engine.tasks.parts import Place
    from reclaim.storage import ObjectStorage

    url = normalize(location)
    if f"{url}/".startswith(str(Place(store.storage.url, store.format.prefix)) + "/"):
        raise InvalidInput(f"{location} lies inside the store", hint="name a place outside it")
    storage = ObjectStorage.open(url, create=True)
    if next(storage.list(), None) is not None:
        raise AlreadyExists(f"{location} is not empty", hint="name a new place for the plan")
    return Place(storage.url, "")


def _inventory(location: str, store: Store) -> Objects:
    from reclaim.engine.tasks.inventory import find_inventory
    from reclaim.storage import ObjectStorage

    root, address = split(normalize(location))
    return find_inventory(ObjectStorage.open(root), address, store.format)


@dataclass(frozen=True, slots=True)
class Summary:
    """The answer that shows a plan."""

    place: Place
    plan: PlanDocument
    not_recorded: str | None = None
    """Why the store could not record a plan that was made just now."""
    moved_to: Place | None = None
    """Where it lies now, of a plan that was copied or moved."""
    commits: PlanHistory | None = None
    """What becomes of each snapshot, where that is shown."""

    def document(self) -> Mapping[str, Any]:
        return {
            "plan": shown(self.moved_to or self.place),
            "moved_from": None if self.moved_to is None else shown(self.place),
            "not_recorded": self.not_recorded,
            **self.plan.model_dump(mode="json"),
            "commits": None if self.commits is None else self.commits.document(),
        }

    def view(self) -> Iterator[Block]:
        plan, where = self.plan, shown(self.place)
        name = f"{plan.store.name} (deleted)" if plan.store.deleted else plan.store.name
        yield f"Plan {plan.run} for {name}, made {instant(plan.started_at)} UTC"
        if self.moved_to is not None:
            yield f"  in {shown(self.moved_to)}; written to {where}, and applied only there"
        else:
            yield f"  in {where}"
        if plan.uncommitted is not None:
            yield from _looked_at(plan.uncommitted)
        if plan.lifecycle is not None:
            yield from _by_rules(plan.lifecycle)
        whole = plan.uncommitted is None and not (plan.lifecycle and plan.lifecycle.base)
        looked_at = "" if whole else " that were looked at,"
        part = percent(plan.candidate_bytes, plan.bytes)
        yield (
            f"Of {objects(plan.objects)} ({size(plan.bytes)}){looked_at} {plan.candidates} would "
            f"go ({size(plan.candidate_bytes)}): {part} of the bytes, "
            f"{percent(plan.candidates, plan.objects)} of the objects."
        )
        if plan.too_young:
            yield f"{too_young(plan.too_young, plan.store.noun)}."
        if plan.going:
            yield from self._going()
        yield "\nWhat stays, and why:"
        yield _table("reason", _sums(plan.staying, _why), len(plan.staying))
        yield "\nHistory:"
        yield from self._history()
        yield "\nChecked:"
        yield _counts(plan.expected, plan.read, plan.store.noun)
        if plan.inventory:
            yield f"The objects were taken from the inventory {plan.inventory}."
        yield plan.promise
        for warning in plan.warnings:
            yield f"Note: {warning}."
        yield ""
        yield f"Digest: {plan.digest}"
        if self.not_recorded:
            yield (
                f"Note: the store did not record the plan ({self.not_recorded}). Apply it with "
                "--digest, or every object is compared with all live data again."
            )
        here = shown(self.moved_to or self.place)
        if plan.candidates or plan.dead or plan.edits_history:
            shows = f" To see each object: reclaim show {here} --objects" * bool(plan.candidates)
            yield f"Nothing was changed.{shows}"
            store = store_option(plan.store.kind, plan.store.uid)
            digest = f" --digest {plan.digest}" if self.not_recorded else ""
            yield f"{self._apply_to()}: reclaim apply {where}{store}{digest}"
        elif (
            plan.uncommitted is not None and plan.uncommitted.partitions is not None
        ) or plan.lifecycle is not None:
            yield "Nothing was changed, and nothing would go."
            yield f"To let the next run start from here: reclaim apply {where}"
        elif plan.too_young:
            yield "Nothing was changed, and nothing would go yet. Plan it again then."
        else:
            yield "Nothing was changed, and nothing would go: there is no need to apply it."

    def _apply_to(self) -> str:
        """What an apply is for, in a few words."""
        plan = self.plan
        edit = "edit the history" if plan.edits_history else ""
        takes = ""
        if plan.candidates or plan.dead:
            asked = current()["quarantine"]
            moves = plan.store.quarantines if asked is None else asked
            takes = "move them to quarantine" if moves else "delete them"
        return f"To {' and '.join(filter(None, (edit, takes)))}"

    def _going(self) -> Iterator[Block]:
        plan = self.plan
        yield "\nWhy:"
        yield _table("reason", _sums(plan.going, lambda group: group.reason))
        yield "\nWhat:"
        yield _table("kind", _sums(plan.going, lambda group: group.kind))
        data = [group for group in plan.going if group.branch or group.prefix]
        if data:
            yield "\nWhere, by the branch it was uploaded to and the folder of its path:"
            yield _table("branch and folder", _sums(data, _where))
        yield "\nHow old:"
        yield _table("age", sorted(_sums(plan.going, lambda group: group.age), key=_by_age))
        yield "\nThe largest:"
        rows = [(size(item.bytes), item.path or item.address) for item in plan.largest[:ROWS]]
        yield Table(("bytes", "path"), rows, frozenset({"bytes"}))

    def _history(self) -> Iterator[Block]:
        plan = self.plan
        if plan.policy_source == STORED:
            yield f"The policy that is stored with {plan.store.name} was used:"
        for line in plan.policy:
            yield f"Policy: {line}."
        unreached = plan.dead - plan.expired
        noun = plan.store.noun
        held = plan.history.held if plan.history else 0
        expired = plan.expired + held
        yield (
            f"{snapshots(plan.live, noun)} stay, on {plan.refs} {_plural('ref', plan.refs)} and "
            f"{plan.leases} {_plural('lease', plan.leases)}. {snapshots(expired, noun)} "
            f"{'expires' if expired == 1 else 'expire'} under the policy; "
            f"{unreached} {'was' if unreached == 1 else 'were'} already unreachable."
        )
        if plan.history and plan.edits_history:
            yield _edit(plan.history, noun)
        if plan.deleted_refs:
            yield f"Refs that go with their {plan.store.noun}s: {', '.join(plan.deleted_refs)}."
        if self.commits is not None:
            yield from self.commits.view()


def _looked_at(how: Uncommitted) -> Iterator[Block]:
    """How a run on uncommitted data went about it."""
    kind = "An" if how.mode == "optimized" else "A"
    of = "" if how.branch is None else f" of the branch {how.branch}"
    yield f"{kind} {how.mode} run{of}: {how.why}."
    looked_up = f" and looked up {objects(how.objects_looked_up)}" * bool(how.objects_looked_up)
    yield (
        f"It listed {objects(how.objects_listed)} in {how.partitions_listed} "
        f"{_plural('partition', how.partitions_listed)}{looked_up}, and read {how.ranges_read} "
        f"{_plural('range', how.ranges_read)} ({size(how.bytes_read)} in all). "
        f"{objects(how.objects_known)} are known."
    )


def _by_rules(how: Lifecycle) -> Iterator[Block]:
    """How lifecycle rules were judged."""
    kind = "An" if how.mode == "incremental" else "A"
    rules = len({rule.rule_id for rule in how.rules})
    yield (
        f"{kind} {how.mode} run of {rules} lifecycle {_plural('rule', rules)}, as of {how.today}: "
        f"{how.why}."
    )
    yield (
        f"It read {how.metaranges_read} {_plural('metarange', how.metaranges_read)} and "
        f"{how.ranges_read} {_plural('range', how.ranges_read)} ({size(how.bytes_read)} in all). "
        f"{objects(how.held_count)} that rules match {_stay(how.held_count)} because something "
        "holds them (--held lists them)."
    )


def too_young(young: TooYoung, noun: str) -> str:
    """What may go later, and when; times are in UTC."""
    parts = []
    if young.objects:
        parts.append(f"{objects(young.objects)} ({size(young.bytes)})")
    if young.snapshots:
        parts.append(snapshots(young.snapshots, noun))
    one = young.objects + young.snapshots == 1
    said = (
        f"{' and '.join(parts)} that nothing refers to {'is' if one else 'are'} too young, and may "
        f"go from {instant(young.first_at)} UTC"
    )
    if young.first_at == young.all_at:
        return said
    return f"{said} on, all of them from {instant(young.all_at)} UTC"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _stay(count: int) -> str:
    return "stays" if count == 1 else "stay"


def _edit(change: HistoryChange, noun: str) -> str:
    """The edit of the history that a plan makes."""
    gets = "gets" if change.reparented == 1 else "get"
    leaves = "leaves" if change.released == 1 else "leave"
    held = ""
    if change.held:
        held = (
            f" Of these {change.held} {_stay(change.held)} for now, held by a lease or by a run "
            "that can be undone."
        )
    return (
        f"The history is edited: {snapshots(change.reparented, noun)} {gets} other parents, and "
        f"{snapshots(change.released, noun)} {leaves} it.{held}"
    )


Sum = tuple[str, int, int]
"""Name of the group, its objects, its bytes."""


def _sums(groups: list[Group], key: Callable[[Group], str]) -> list[Sum]:
    """Groups added up by a key, the largest first."""
    sums: dict[str, tuple[int, int]] = {}
    for group in groups:
        count, total = sums.get(key(group), (0, 0))
        sums[key(group)] = count + group.objects, total + group.bytes
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
    return [(name, count, total) for name, (count, total) in ordered]


def _table(head: str, sums: list[Sum], most: int = ROWS) -> Table:
    rows = [(name, str(count), size(total)) for name, count, total in sums[:most]]
    if len(sums) > most:
        rest = sums[most:]
        total = sum(row[2] for row in rest)
        rows.append((f"({len(rest)} others)", str(sum(row[1] for row in rest)), size(total)))
    return Table((head, "objects", "bytes"), rows, frozenset({"objects", "bytes"}), True)


def _why(group: Group) -> str:
    return f"{group.kind}: {group.reason}" if group.kind else group.reason


def _where(group: Group) -> str:
    return f"{unquote(group.branch) or '-'}  {group.prefix or '(path unknown)'}"


def _by_age(row: Sum) -> int:
    """Ages are words with a number of days in them."""
    return 0 if row[0].startswith("under") else int("".join(filter(str.isdigit, row[0])) or 0)


def _counts(expected: Counts, read: Counts, noun: str) -> Table:
    names = {
        "snapshots": f"{noun}s",
        "containers": f"containers of {noun}s that stay",
        "entries": "entries in those",
        "held": "staged or pending addresses",
    }
    rows = [
        (text, str(getattr(expected, name)), str(getattr(read, name)))
        for name, text in names.items()
    ]
    return Table(("", "expected", "read"), rows, frozenset({"expected", "read"}), True)
