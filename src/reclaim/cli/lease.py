"""``reclaim lease``: marks that a commit is in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.command import command, group
from reclaim.cli.describe import SHORT, instant
from reclaim.cli.output import Block, Done, Table
from reclaim.cli.places import parse_ref, parse_repository
from reclaim.cli.repo import RepositoryArgument
from reclaim.cli.session import Session, login_name

if TYPE_CHECKING:
    from reclaim.model import Lease


def register(app: typer.Typer) -> None:
    lease = group(app, "lease", "Mark commits as in use, so that nothing they need is collected.")
    command(lease, "hold", hold)
    command(lease, "list", list_)
    command(lease, "release", release)


@dataclass(frozen=True, slots=True)
class LeasesFound:
    """The answer that lists leases, each with whether it is valid."""

    found: Sequence[tuple[Lease, bool]]

    def document(self) -> Mapping[str, Any]:
        return {"leases": [_document(lease) | {"valid": valid} for lease, valid in self.found]}

    def view(self) -> Iterable[Block]:
        rows = (
            (
                lease.id,
                lease.snapshot[:SHORT],
                instant(lease.refreshed_at + lease.length),
                "valid" if valid else "lapsed",
                lease.holder,
            )
            for lease, valid in self.found
        )
        return [Table(("lease", "commit", "until (UTC)", "", "holder"), rows)]


def _document(lease: Lease) -> dict[str, Any]:
    return {
        "id": lease.id,
        "commit": lease.snapshot,
        "holder": lease.holder,
        "refreshed_at": lease.refreshed_at,
        "until": lease.refreshed_at + lease.length,
    }


def hold(
    session: Session,
    place: Annotated[str, typer.Argument(metavar="REPO/REF", help="What.", show_default=False)],
    length: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long, such as 1h or 7d.")
    ] = "2h",
    holder: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who. Default: the login name.")
    ] = None,
) -> None:
    """Hold a commit for a while. Holding it again as the same holder makes it last longer."""
    from reclaim.errors import InvalidInput
    from reclaim.policy import Duration

    where = parse_ref(place)
    duration = Duration.parse(length)
    if duration.months:
        raise InvalidInput(f"{length!r} is not an exact length", hint="use w, d, h, min and s")
    with session.open() as catalog:
        lease = catalog.repository(where.repository).take_lease(
            where.ref, holder=holder or login_name() or "unknown", length=duration.rest
        )
    until = instant(lease.refreshed_at + lease.length)
    session.output.answer(
        Done(
            f"Holding {lease.snapshot[:SHORT]} until {until} UTC. Lease {lease.id}.",
            _document(lease),
        )
    )


def list_(session: Session, repository: RepositoryArgument) -> None:
    """List the leases of a repository."""
    with session.open() as catalog:
        found = catalog.repository(parse_repository(repository)).leases()
    session.output.answer(LeasesFound(found))


def release(
    session: Session,
    repository: RepositoryArgument,
    lease: Annotated[str, typer.Argument(metavar="LEASE", help="Its id.", show_default=False)],
) -> None:
    """Give a lease back before it lapses."""
    with session.open() as catalog:
        catalog.repository(parse_repository(repository)).release_lease(lease)
    session.output.answer(Done(f"Released the lease {lease}.", {"released": lease}))
