"""``reclaim lifecycle``: rules to delete data by age, and their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

import typer

from reclaim.cli.command import command, group
from reclaim.cli.options.rules import read_text
from reclaim.cli.session import Session, login_name
from reclaim.cli.views.describe import instant, objects
from reclaim.cli.views.documents import RulesRemoved
from reclaim.cli.views.output import Block, Done, Table
from reclaim.run_record import Phase
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.policy.lifecycle import LifecycleRule, StoredLifecycle
    from reclaim.run.lifecycle.rules import LifecycleRun

StoreArgument = Annotated[
    str, typer.Argument(metavar="REPO", help="A repository.", show_default=False)
]


class LifecycleRuleDocument(TypedDict):
    """A rule, as in a file."""

    prefix: str
    days: NotRequired[int]
    enabled: bool
    branch_days: NotRequired[Mapping[str, int]]


class LifecycleRulesDocument(TypedDict):
    """The stored rules."""

    repository: str
    rules: Mapping[str, LifecycleRuleDocument]
    """Rules by their ids, as in a file."""
    text: str
    """Original text."""
    set_at: datetime
    set_by: str
    warnings: Sequence[str]


class LifecycleRunDocument(TypedDict):
    """A run of lifecycle rules."""

    id: str
    state: Phase
    started_at: datetime
    today: str
    """Day in UTC for the ages of data."""
    mode: str
    """full, or incremental if the run started from a checkpoint."""
    rules: Sequence[str]
    """Ids of the enabled rules."""
    objects: int
    bytes: int
    dropped: int
    failed: int
    held: int
    """Addresses matched by a rule and held by a reference."""
    plan: str | None
    until: datetime | None


class LifecycleRunsDocument(TypedDict):
    """Runs of lifecycle rules, the newest first."""

    repository: str
    runs: Sequence[LifecycleRunDocument]


def register(app: typer.Typer) -> None:
    lifecycle = group(app, "lifecycle", "Delete data by age, per path prefix and branch.")
    command(lifecycle, "set", set_)
    command(lifecycle, "get", get)
    command(lifecycle, "unset", unset)
    command(lifecycle, "history", history)


def set_(
    session: Session,
    repository: StoreArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The rules by their ids, in JSON or YAML; - for standard input, the default.",
            show_default=False,
        ),
    ] = "-",
) -> None:
    """Store lifecycle rules, replacing the present ones."""
    from reclaim.policy.lifecycle import read_lifecycle
    from reclaim.run.lifecycle.rules import find_notes, store_lifecycle

    text, source = read_text(file, "the lifecycle rules")
    policy = read_lifecycle(text, source=source)
    with session.stores(repository) as [store]:
        stored = store_lifecycle(store, text, policy, set_by=login_name())
        notes = find_notes(store, policy)
    session.output.answer(RulesAnswer(store.name, stored, tuple(notes), stored_now=True))


def get(session: Session, repository: StoreArgument) -> None:
    """Print the stored lifecycle rules in their original text."""
    from reclaim.run.lifecycle.rules import find_lifecycle

    with session.stores(repository) as [store]:
        stored = find_lifecycle(store)
    session.output.answer(RulesAnswer(store.name, stored))


def unset(session: Session, repository: StoreArgument) -> None:
    """Remove the stored rules, readable or not."""
    from reclaim.run.lifecycle.rules import keeping_lifecycle, nothing_stored

    with session.stores(repository) as [store]:
        keeping = keeping_lifecycle(store)
        if keeping.stored_lifecycle() is None:
            raise nothing_stored(store)
        keeping.store_lifecycle(None)
    sentence = f"Removed the lifecycle rules of {store.name}. Deleted data is not restored."
    session.output.answer(Done(sentence, RulesRemoved(repository=store.name, removed=True)))


def history(session: Session, repository: StoreArgument) -> None:
    """List the runs of lifecycle rules, newest first."""
    from reclaim.run.lifecycle.rules import find_runs

    with session.stores(repository) as [store]:
        runs = find_runs(store)
    session.output.answer(HistoryAnswer(store.name, runs))


@dataclass(frozen=True, slots=True)
class RulesAnswer:
    """Answer that shows the stored rules, or confirms new rules."""

    repository: str
    stored: StoredLifecycle
    notes: tuple[str, ...] = ()
    stored_now: bool = False

    def document(self) -> LifecycleRulesDocument:
        from reclaim.policy.lifecycle import lifecycle_document

        return {
            "repository": self.repository,
            "rules": lifecycle_document(self.stored.policy),
            "text": self.stored.text,
            "set_at": self.stored.set_at,
            "set_by": self.stored.set_by,
            "warnings": list(self.notes),
        }

    def view(self) -> Iterator[Block]:
        if not self.stored_now:
            # The original text can be edited and set again.
            yield self.stored.text.removesuffix("\n")
            return
        when = instant(self.stored.set_at)
        yield f"Stored the lifecycle rules of {self.repository} at {when} UTC:"
        yield from map(rule_words, self.stored.policy.rules)
        for note in self.notes:
            yield f"Note: {note}."
        yield f"To see the matching data: reclaim plan {self.repository} --lifecycle"


def rule_words(rule: LifecycleRule) -> str:
    """Describe a rule in a line."""
    scope = f"below {rule.prefix}" if rule.prefix else "everything"
    days = [f"{_days(count)} on {branch}" for branch, count in rule.branch_days.items()]
    if rule.days is not None:
        days.append(_days(rule.days) + (" on every other branch" if days else ""))
    off = "" if rule.enabled else " (disabled)"
    return f"  {rule.id}: {scope} after {', '.join(days)}{off}"


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """Answer that lists runs of lifecycle rules."""

    repository: str
    runs: Sequence[LifecycleRun]

    def document(self) -> LifecycleRunsDocument:
        return {
            "repository": self.repository,
            "runs": [
                {
                    "id": entry.run.id,
                    "state": entry.run.phase,
                    "started_at": entry.run.started_at,
                    "today": entry.today,
                    "mode": entry.mode,
                    "rules": list(entry.rules),
                    "objects": entry.run.counts.objects,
                    "bytes": entry.run.counts.bytes,
                    "dropped": entry.run.counts.dropped,
                    "failed": entry.run.counts.failed,
                    "held": entry.held,
                    "plan": entry.run.place or None,
                    "until": entry.run.quarantine.until if entry.run.quarantine else None,
                }
                for entry in self.runs
            ],
        }

    def view(self) -> Iterator[Block]:
        if not self.runs:
            yield f"No run of lifecycle rules has deleted data of {self.repository} yet."
            return
        rows = (
            (
                entry.run.id,
                entry.run.phase,
                entry.today,
                ", ".join(entry.rules),
                self._what(entry),
                str(entry.held),
            )
            for entry in self.runs
        )
        yield Table(("run", "state", "day", "rules", "took", "held"), rows, frozenset({"held"}))

    def _what(self, entry: LifecycleRun) -> str:
        counts = entry.run.counts
        return f"{objects(counts.objects)} ({size(counts.bytes)})"
