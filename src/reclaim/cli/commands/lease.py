"""``reclaim lease``: leases on commits in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.cli.command import YesOption, command, group
from reclaim.cli.commands.repo import RepositoryArgument
from reclaim.cli.options.places import parse_ref, parse_repository
from reclaim.cli.session import Session, login_name
from reclaim.cli.views.describe import instant
from reclaim.cli.views.output import Block, Done, Table
from reclaim.errors import InvalidInput, NotFound, Refused
from reclaim.ids import SHORT

if TYPE_CHECKING:
    from reclaim.catalog import Repository
    from reclaim.model import Lease
    from reclaim.stores.abilities import HoldsLeases


class LeaseDocument(TypedDict):
    """A lease on a commit, or on a snapshot of another store."""

    id: str
    commit: str
    holder: str
    refreshed_at: datetime
    until: datetime


class ListedLease(LeaseDocument):
    """A lease, and its validity."""

    valid: bool


class LeasesDocument(TypedDict):
    """The leases of a store."""

    leases: Sequence[ListedLease]


class LeasesReleased(TypedDict):
    """Ids of the released leases."""

    released: Sequence[str]


def register(app: typer.Typer) -> None:
    lease = group(app, "lease", "Mark commits as in use, to protect their objects.")
    command(lease, "hold", hold)
    command(lease, "list", list_)
    command(lease, "release", release)


@dataclass(frozen=True, slots=True)
class LeasesFound:
    """Answer that lists leases and their validity."""

    leases: Sequence[tuple[Lease, bool]]
    noun: str

    def document(self) -> LeasesDocument:
        return {"leases": [{**_document(lease), "valid": valid} for lease, valid in self.leases]}

    def view(self) -> Iterable[Block]:
        rows = (
            (
                lease.id,
                lease.snapshot[:SHORT],
                instant(lease.refreshed_at + lease.length),
                "valid" if valid else "lapsed",
                lease.holder,
            )
            for lease, valid in self.leases
        )
        return [Table(("lease", self.noun, "until (UTC)", "", "holder"), rows)]


def _document(lease: Lease) -> LeaseDocument:
    return {
        "id": lease.id,
        "commit": lease.snapshot,
        "holder": lease.holder,
        "refreshed_at": lease.refreshed_at,
        "until": lease.refreshed_at + lease.length,
    }


def hold(
    session: Session,
    place: Annotated[
        str,
        typer.Argument(
            metavar="REPO/REF",
            help="A commit; or another store as SCHEME:LOCATION, with an id.",
            show_default=False,
        ),
    ],
    snapshot: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="A layer or snapshot of another store.", show_default=False
        ),
    ] = None,
    length: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="Duration, such as 1h or 7d.")
    ] = "2h",
    holder: Annotated[
        str | None, typer.Option(metavar="NAME", help="The holder. Default: the login name.")
    ] = None,
) -> None:
    """Take a lease on a commit. The same holder can extend it by another hold."""
    from reclaim.policy import Duration

    duration = Duration.parse(length)
    if duration.months:
        raise InvalidInput(f"{length!r} is not an exact length", hint="use w, d, h, min and s")
    holder_name = holder or login_name() or "unknown"
    if foreign := _foreign(place):
        if snapshot is None:
            hint = f"reclaim lease hold {place} ID"
            raise InvalidInput("the id of the snapshot is missing", hint=hint)
        lease = foreign.take_lease(snapshot, holder=holder_name, length=duration.exact)
    else:
        if snapshot is not None:
            raise InvalidInput("write the commit as REPO/REF")
        ref_place = parse_ref(place)
        with session.open() as catalog:
            lease = catalog.repository(ref_place.repository).take_lease(
                ref_place.ref, holder=holder_name, length=duration.exact
            )
    until = instant(lease.refreshed_at + lease.length)
    session.output.answer(
        Done(
            f"Holding {lease.snapshot[:SHORT]} until {until} UTC. Lease {lease.id}.",
            _document(lease),
        )
    )


def list_(session: Session, repository: RepositoryArgument) -> None:
    """List the leases of a store."""
    if foreign := _foreign(repository):
        leases, noun = foreign.leases(), foreign.noun
    else:
        with session.open() as catalog:
            leases, noun = catalog.repository(parse_repository(repository)).leases(), "commit"
    session.output.answer(LeasesFound(leases, noun))


def release(
    session: Session,
    repository: RepositoryArgument,
    lease: Annotated[
        str | None, typer.Argument(metavar="LEASE", help="The lease's id.", show_default=False)
    ] = None,
    holder: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Every lease of this holder.", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every lease of the store, of all holders.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Release leases early. --all asks first: others may be reading."""
    if (lease is not None) + (holder is not None) + everything != 1:
        raise InvalidInput("give either LEASE, --holder or --all")
    with ExitStack() as opened:
        store: HoldsLeases | Repository | None = _foreign(repository)
        if store is None:
            catalog = opened.enter_context(session.open())
            store = catalog.repository(parse_repository(repository))
        if lease is not None:
            store.release_lease(lease)
            released = [lease]
        else:
            matching = [held for held, _ in store.leases() if holder in (None, held.holder)]
            if everything and matching:
                session.confirm(f"release {_count(len(matching))} of {repository}", yes=yes)
            released = [held.id for held in matching if _release(store, held.id)]
    sentence = f"Released the lease {lease}." if lease else f"Released {_count(len(released))}."
    session.output.answer(Done(sentence, LeasesReleased(released=released)))


def _release(store: HoldsLeases | Repository, lease: str) -> bool:
    """Release a listed lease. Return false if its holder has just released it."""
    try:
        store.release_lease(lease)
    except NotFound:
        return False
    return True


def _count(number: int) -> str:
    return "1 lease" if number == 1 else f"{number} leases"


def _foreign(place: str) -> HoldsLeases | None:
    """Return a named store outside the catalog; otherwise None."""
    if ":" not in place:
        return None
    from reclaim.stores.abilities import HoldsLeases
    from reclaim.stores.registry import find_foreign

    store = find_foreign(place)
    if store is None or isinstance(store, HoldsLeases):
        return store
    raise Refused(
        f"{store.kind} stores have no leases", hint="the minimum age protects data in use"
    )
