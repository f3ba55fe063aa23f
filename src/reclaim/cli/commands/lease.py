"""``reclaim lease``: marks that a commit is in use."""

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
    """A lease, and whether it is valid."""

    valid: bool


class LeasesDocument(TypedDict):
    """The leases of a store."""

    leases: Sequence[ListedLease]


class LeasesReleased(TypedDict):
    """The leases that were released, by their ids."""

    released: Sequence[str]


def register(app: typer.Typer) -> None:
    lease = group(app, "lease", "Mark commits as in use, so that nothing they need is collected.")
    command(lease, "hold", hold)
    command(lease, "list", list_)
    command(lease, "release", release)


@dataclass(frozen=True, slots=True)
class LeasesFound:
    """The answer that lists leases, each with whether it is valid."""

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
        str, typer.Option("--for", metavar="DURATION", help="How long, such as 1h or 7d.")
    ] = "2h",
    holder: Annotated[
        str | None, typer.Option(metavar="NAME", help="The holder. Default: the login name.")
    ] = None,
) -> None:
    """Hold a commit for a while. Holding it again as the same holder makes it last longer."""
    from reclaim.policy import Duration

    duration = Duration.parse(length)
    if duration.months:
        raise InvalidInput(f"{length!r} is not an exact length", hint="use w, d, h, min and s")
    who = holder or login_name() or "unknown"
    if foreign := _foreign(place):
        if snapshot is None:
            hint = f"reclaim lease hold {place} ID"
            raise InvalidInput("the id of what to hold is missing", hint=hint)
        lease = foreign.take_lease(snapshot, holder=who, length=duration.exact)
    else:
        if snapshot is not None:
            raise InvalidInput("a commit is named as REPO/REF, in one word")
        where = parse_ref(place)
        with session.open() as catalog:
            lease = catalog.repository(where.repository).take_lease(
                where.ref, holder=who, length=duration.exact
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
        bool, typer.Option("--all", help="Every lease of the store, whoever holds it.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Give leases back before they lapse. --all asks first: others may be reading."""
    if (lease is not None) + (holder is not None) + everything != 1:
        raise InvalidInput("give one of LEASE, --holder and --all")
    with ExitStack() as opened:
        store: HoldsLeases | Repository | None = _foreign(repository)
        if store is None:
            catalog = opened.enter_context(session.open())
            store = catalog.repository(parse_repository(repository))
        if lease is not None:
            store.release_lease(lease)
            released = [lease]
        else:
            found = [held for held, _ in store.leases() if holder in (None, held.holder)]
            if everything and found:
                session.confirm(f"release {_count(len(found))} of {repository}", yes=yes)
            released = [held.id for held in found if _release(store, held.id)]
    said = f"Released the lease {lease}." if lease else f"Released {_count(len(released))}."
    session.output.answer(Done(said, LeasesReleased(released=released)))


def _release(store: HoldsLeases | Repository, lease: str) -> bool:
    """Release a lease that was there a moment ago; its holder may have been quicker."""
    try:
        store.release_lease(lease)
    except NotFound:
        return False
    return True


def _count(number: int) -> str:
    return "1 lease" if number == 1 else f"{number} leases"


def _foreign(place: str) -> HoldsLeases | None:
    """The store that is not of the catalog, if one is named."""
    if ":" not in place:
        return None
    from reclaim.stores.abilities import HoldsLeases
    from reclaim.stores.registry import find_foreign

    store = find_foreign(place)
    if store is None or isinstance(store, HoldsLeases):
        return store
    raise Refused(f"{store.kind} stores have no leases", hint="its margins protect what is in use")
