"""``reclaim doctor``: checks before a garbage collection, with hints for repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, cast

import typer

from reclaim.cli.command import YesOption, command
from reclaim.cli.config.settings import SPARK, current
from reclaim.cli.options.panels import LOOK_AT, REPAIR
from reclaim.cli.options.places import parse_repository
from reclaim.cli.progress.transfers import Advance, progress
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views import exits
from reclaim.cli.views.output import Block, Done
from reclaim.errors import InvalidInput, ReclaimError
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.stores.findings import Finding


def register(app: typer.Typer) -> None:
    command(app, "doctor", doctor)


def doctor(
    session: Session,
    running: RunOptions,
    store: Annotated[
        str | None,
        typer.Argument(
            metavar="STORE", help="Another store, as SCHEME:LOCATION. Default: the catalog."
        ),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also check the data of every live commit.",
            rich_help_panel=LOOK_AT,
        ),
    ] = False,
    read_bytes: Annotated[
        bool,
        typer.Option(
            "--bytes",
            help="With --deep: read all live data and compare its SHA-256.",
            rich_help_panel=LOOK_AT,
        ),
    ] = False,
    spark: Annotated[
        bool,
        typer.Option("--spark", help="Also start Spark and run a job.", rich_help_panel=LOOK_AT),
    ] = False,
    adopt_partitions: Annotated[
        str | None,
        typer.Option(
            "--adopt-partitions",
            metavar="REPO",
            help="Register partitions known only to the storage as closed, and make this "
            "database the collector of the storage.",
            show_default=False,
            rich_help_panel=REPAIR,
        ),
    ] = None,
    abort_uploads: Annotated[
        str | None,
        typer.Option(
            "--abort-uploads",
            metavar="REPO",
            help="Abort unfinished multipart uploads older than 24 hours.",
            show_default=False,
            rich_help_panel=REPAIR,
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Check database, storage, clock, Java, and live objects.

    Example: reclaim doctor --deep

    Leftovers of runs are reported too.

    The exit code is 0 without a problem, otherwise the exit code of a run: 8 if live objects are
    missing or damaged, 5 if storage or database cannot be used, 6 if a run would be refused.
    """
    from reclaim.stores.registry import is_foreign

    if adopt_partitions is not None:
        _adopt(session, parse_repository(adopt_partitions), yes=yes)
        return
    if abort_uploads is not None:
        _abort_uploads(session, parse_repository(abort_uploads), yes=yes)
        return
    if read_bytes and not deep:
        raise InvalidInput("--bytes needs --deep: it reads all live data", hint="add --deep")
    if store is not None and not is_foreign(store):
        raise _not_alone(store)
    with progress("Reading") if read_bytes else nullcontext() as advance:
        answer = DoctorAnswer(
            _findings(session, running, store, deep=deep, spark=spark, advance=advance)
        )
        session.output.answer(answer)
    if code := exits.worst(finding.exit_code for finding in answer.seen):
        raise typer.Exit(code)


def _not_alone(store: str) -> InvalidInput:
    return InvalidInput(
        f"doctor examines all repositories of the catalog together, not {store!r} alone",
        hint="run `reclaim doctor` without a name; a store outside the catalog is named "
        "SCHEME:LOCATION",
    )


def _findings(
    session: Session,
    running: RunOptions,
    store: str | None,
    *,
    deep: bool,
    spark: bool,
    advance: Advance | None,
) -> Iterator[Finding]:
    from reclaim.clock import SystemClock
    from reclaim.run.doctor.doctor import examine, examine_machine, examine_store
    from reclaim.stores.findings import failed
    from reclaim.stores.registry import find_foreign

    if current().engine() == SPARK:
        yield from examine_machine()
    if spark:
        yield _spark(running)
    try:
        if store is not None:
            foreign = find_foreign(store)
            assert foreign is not None
            yield from examine_store(foreign, deep=deep, advance=advance)
            return
        with session.open() as catalog:
            yield from examine(catalog, SystemClock(), deep=deep, advance=advance)
    except ReclaimError as error:
        yield failed("catalog", error)


def _spark(running: RunOptions) -> Finding:
    from reclaim.run.doctor.environment import started
    from reclaim.stores.findings import Finding, Level, failed

    try:
        spark, java = started(running.spark())
    except ReclaimError as error:
        return failed("spark", error)
    return Finding(Level.OK, "spark", f"Spark {spark} runs a job, on Java {java}")


def _adopt(session: Session, name: str, *, yes: bool) -> None:
    from reclaim.ids import new_uid
    from reclaim.stores.abilities import HeldGuards, KeepsGuards
    from reclaim.stores.registry import find

    with session.open() as catalog:
        store = find(catalog, name)
        assert isinstance(store, KeepsGuards)
        unknown = list(store.unknown_guards())
        if not session.output.for_programs:
            session.output.answer(Done("\n".join(["Known only to the storage:", *unknown])))
        session.confirm(
            f"make {catalog.database_name} the database that may collect in {catalog.storage_url}, "
            f"and register {len(unknown)} partitions of {name} as closed, so that "
            "objects in them unknown to this database are collected",
            yes=yes,
        )
        with store.lock(new_uid()) as held:
            assert isinstance(held, HeldGuards)
            held.adopt(unknown)
    session.output.answer(
        Done(
            f"Registered {len(unknown)} partitions of {name}. {catalog.database_name} is the "
            "database that may collect.",
            PartitionsAdopted(repository=name, adopted=unknown),
        )
    )


def _abort_uploads(session: Session, name: str, *, yes: bool) -> None:
    from reclaim.stores.abilities import KeepsGuards
    from reclaim.stores.registry import find

    with session.open() as catalog:
        store = find(catalog, name)
        assert isinstance(store, KeepsGuards)
        uploads = store.old_uploads()
        total = size(sum(upload.size for upload in uploads))
        if uploads:
            session.confirm(f"abort {len(uploads)} unfinished uploads ({total})", yes=yes)
        freed = store.abort_uploads(uploads)
    sentence = f"Aborted {len(uploads)} unfinished uploads of {name} ({total})."
    session.output.answer(
        Done(sentence, UploadsAborted(repository=name, uploads=len(uploads), bytes=freed))
    )


class FindingDocument(TypedDict):
    """Result of a check, with a hint."""

    level: Literal["ok", "not checked", "warning", "problem"]
    check: str
    sentence: str
    hint: str
    repository: str
    exit_code: int
    """Exit code of a run with this finding."""


class DoctorDocument(TypedDict):
    """All findings."""

    healthy: bool
    findings: Sequence[FindingDocument]


class PartitionsAdopted(TypedDict):
    """With --adopt-partitions."""

    repository: str
    adopted: Sequence[str]


class UploadsAborted(TypedDict):
    """With --abort-uploads."""

    repository: str
    uploads: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DoctorAnswer:
    """Answer with a line for each finding, as soon as it is known."""

    findings: Iterator[Finding]
    seen: list[Finding] = field(default_factory=list)

    def document(self) -> DoctorDocument:
        findings = [cast(FindingDocument, asdict(finding)) for finding in self._each()]
        healthy = not any(finding.exit_code for finding in self.seen)
        return {"healthy": healthy, "findings": findings}

    def view(self) -> Iterator[Block]:
        for finding in self._each():
            where = f"{finding.repository}: " if finding.repository else ""
            yield f"{finding.level:<12} {where}{finding.check}: {finding.sentence}"
            if finding.hint:
                yield f"{'':<12} {finding.hint}"
        problems = sum(finding.level == "problem" for finding in self.seen)
        warnings = sum(finding.level == "warning" for finding in self.seen)
        yield f"Problems: {problems}, warnings: {warnings}."

    def _each(self) -> Iterator[Finding]:
        for finding in self.findings:
            self.seen.append(finding)
            yield finding
