"""``reclaim purge``: delete quarantined objects for good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

import typer

from reclaim.cli.command import YesOption, command
from reclaim.cli.options.ages import parse_age
from reclaim.cli.options.missing_layers import MissingOption
from reclaim.cli.options.panels import LOOK_AT
from reclaim.cli.options.run_names import LATEST, find_id
from reclaim.cli.options.store_names import STORE
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.describe import objects
from reclaim.cli.views.documents import Id
from reclaim.cli.views.failure import Failure
from reclaim.cli.views.output import Block
from reclaim.errors import InvalidInput, NotFound, Partial, Refused
from reclaim.ids import short
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.api.run import Run
    from reclaim.api.store import OpenStore
    from reclaim.run.purge.purge import Purged


def register(app: typer.Typer) -> None:
    command(app, "purge", purge)


def purge(
    session: Session,
    running: RunOptions,
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help=STORE + " Default: all of them.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Purge anything quarantined longer than this, ignoring --keep.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Purge only this run, ignoring its --keep: its id, the start of the id, or "
            "`latest`, which excludes --yes.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None,
    unsafe_allow_missing_layers: MissingOption = False,
    yes: YesOption = False,
) -> None:
    """Delete quarantined objects for good, after their --keep time."""
    from reclaim.api.options import allow_missing

    if run is not None and older_than is not None:
        raise InvalidInput("--run and --older-than exclude each other")
    if run == LATEST and yes:
        raise Refused(
            "--run latest needs confirmation: another run may be the latest by now",
            hint="give the run's id; see `reclaim runs`",
        )
    age = None if older_than is None else parse_age("--older-than", older_than)
    done: list[tuple[str, Purged]] = []
    left: list[tuple[str, Exception]] = []
    work = running.work()
    with session.open_stores(store, work) as stores:
        if run is not None:
            named = _run_of(find_id([opened.store for opened in stores], run), stores)
            due: Sequence[tuple[OpenStore, Sequence[Run]]] = [(named.store, [named])]
        else:
            due = [(opened, runs) for opened in stores if (runs := opened.due(older_than=age))]
        if due:
            count = sum(len(runs) for _, runs in due)
            target = "1 run" if count == 1 else f"{count} runs"
            if run is not None:
                target = f"run {short(due[0][1][0].id)} of {due[0][0].name}"
            for opened, _ in due:
                allow_missing(opened.store, asked=unsafe_allow_missing_layers)
            session.confirm(f"delete the quarantined objects of {target} for good", yes=yes)
            with work.begin():
                for opened, ending in due:
                    try:
                        if run is not None:
                            purged = ending[0].purge(
                                unsafe_allow_missing_layers=unsafe_allow_missing_layers
                            )
                        else:
                            purged = opened.purge(
                                older_than=age,
                                unsafe_allow_missing_layers=unsafe_allow_missing_layers,
                            )
                    except Exception as error:
                        # An error in a store does not stop the others.
                        if len(due) == 1:
                            raise
                        left.append((opened.name, error))
                        continue
                    if purged is not None:
                        done.append((opened.name, purged))
    if left:
        raise _together(left, done)
    session.output.answer(PurgeAnswer(done))


def _run_of(run_id: str, stores: Iterable[OpenStore]) -> Run:
    """Return the run of an id. Refuse a run without a quarantine."""
    from reclaim.api.run import Run

    for opened in stores:
        record = opened.store.find_run(run_id)
        if record is None:
            continue
        if record.quarantine is None:
            raise Refused(
                f"run {run_id} ({record.kind}, {record.phase}) has nothing in quarantine",
                hint="see `reclaim runs`",
            )
        return Run(opened, record)
    raise NotFound(
        f"there is no run {run_id}",
        hint="see `reclaim runs`; name the store if it is outside the catalog",
    )


def _together(left: Sequence[tuple[str, Exception]], done: Sequence[tuple[str, Purged]]) -> Partial:
    """Combine the errors of all stores, and the results of the others."""
    failures = {name: Failure.of(error) for name, error in left}
    sentences = [f"{name}: {failure.message}" for name, failure in failures.items()]
    sentences += [f"{name}: purged {len(purged.runs)} runs" for name, purged in done]
    hints = dict.fromkeys(failure.hint for failure in failures.values() if failure.hint)
    stores: dict[str, Any] = {
        name: {"kind": failure.kind} | (failure.details or {}) for name, failure in failures.items()
    }
    stores |= {name: purged.summary() for name, purged in done}
    return Partial("; ".join(sentences), hint="; ".join(hints), stores=stores)


class StorePurged(TypedDict):
    """A store, and the counts of its purge."""

    store: str
    run: Id
    runs: Sequence[Id]
    """Purged runs."""
    objects: int
    bytes: int
    rescued: int
    """Restored objects, because they are referenced again."""
    failed: int
    collected: int
    skipped: Sequence[str]


class PurgeDocument(TypedDict):
    """Stores with purged objects."""

    stores: Sequence[StorePurged]


@dataclass(frozen=True, slots=True)
class PurgeAnswer:
    """Answer with purged objects by store."""

    done: Sequence[tuple[str, Purged]]

    def document(self) -> PurgeDocument:
        return {
            "stores": [
                cast(StorePurged, {"store": name, "run": purged.run, **purged.summary()})
                for name, purged in self.done
            ]
        }

    def view(self) -> Iterator[Block]:
        if not self.done:
            yield "No quarantined objects are due."
        for name, purged in self.done:
            summary = purged.summary()
            amount = f"{objects(summary['objects'])} ({size(summary['bytes'])})"
            runs = "1 run" if len(purged.runs) == 1 else f"{len(purged.runs)} runs"
            yield f"{name}: deleted {amount} from the quarantine of {runs}, for good."
            if summary["rescued"]:
                yield f"Restored {objects(summary['rescued'])}: referenced again."
