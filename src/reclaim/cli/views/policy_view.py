"""View of a policy, and of the commits it keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypedDict, cast

from reclaim.cli.views.describe import expired, instant, snapshots
from reclaim.cli.views.documents import DecisionDocument, HolderDocument
from reclaim.cli.views.output import Block, Table
from reclaim.cli.views.snapshot_rows import (
    SnapshotRow,
    going_view,
    kept_view,
    snapshot_rows,
    snapshot_table,
)

if TYPE_CHECKING:
    from reclaim.model import Ref
    from reclaim.policy import Policy, StoredPolicy
    from reclaim.run.plan.policy_explained import EntryExplained, PolicyExplained
    from reclaim.stores.base import Store

STORED: Final = "stored"
"""Source of a stored policy."""
REFS_SHOWN = 5
"""Number of refs of an entry shown by name."""


class RuleCount(TypedDict):
    """A rule, and the number of commits it keeps."""

    rule: str
    kept: int


class PolicyEntryDocument(TypedDict):
    """An entry of a policy, with its refs and the commits it keeps."""

    entry: str
    refs: Sequence[str]
    rules: Sequence[RuleCount]
    commits: int
    kept: int


class ExplanationDocument(TypedDict):
    """A policy, with its decision on each commit."""

    repository: str
    ref: str | None
    policy_source: Literal["given", "stored"]
    set_at: datetime | None
    set_by: str | None
    entries: Sequence[PolicyEntryDocument]
    commits: int
    kept: int
    expired: int
    """Commits kept by no rule. Some stay: see `held_by`."""
    held_by: Sequence[HolderDocument]
    """Holders of expired commits, the largest first."""
    decisions: Sequence[DecisionDocument]


def policy_words(policy: Policy) -> Iterator[str]:
    """Describe each entry of a policy in a line."""
    from reclaim.run.plan.policy_explained import entry_name

    rules = [*(rules for _, rules in policy.matches), policy.default]
    for number, of_entry in enumerate(rules):
        words = [*of_entry.sentences()]
        if of_entry.keep_merge_bases and "keep_merge_bases" not in words:
            words.append("keep_merge_bases")
        sentence = ", ".join(words) if not of_entry.empty else "everything stays"
        yield f"  {entry_name(number, policy)}: {sentence}"


def unmatched_in(policy: Policy, store: Store) -> tuple[str, ...]:
    """Describe the rules of a policy that match no ref of a store."""
    from reclaim.policy import unmatched_sentences
    from reclaim.stores.abilities import ShowsHistory

    if not policy.matches or not isinstance(store, ShowsHistory):
        return ()
    refs = store.current_history().refs
    return tuple(f"{sentence} of {store.name}" for sentence in unmatched_sentences(policy, refs))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Answer that explains a policy, for all refs or a single ref."""

    repository: str
    noun: str
    stored: StoredPolicy | None
    explained: PolicyExplained
    refs: Sequence[Ref]
    ref: str | None
    everything: bool
    all_reasons: bool

    def document(self) -> ExplanationDocument:
        rows = list(self._rows())
        return {
            "repository": self.repository,
            "ref": self.ref,
            "policy_source": "given" if self.stored is None else STORED,
            "set_at": None if self.stored is None else self.stored.set_at,
            "set_by": None if self.stored is None else self.stored.set_by,
            "entries": [
                {
                    "entry": entry.name,
                    "refs": [ref.name for ref in entry.refs],
                    "rules": [{"rule": rule.sentence, "kept": rule.kept} for rule in entry.rules],
                    "commits": entry.reached,
                    "kept": entry.kept,
                }
                for entry in self.explained.entries
            ],
            "commits": len(rows),
            "kept": self.explained.kept,
            "expired": self.explained.expired.snapshots,
            "held_by": [
                cast(HolderDocument, holder.record()) for holder in self.explained.expired.held_by
            ],
            "decisions": [row.document() for row in rows],
        }

    def view(self) -> Iterator[Block]:
        if self.stored is not None:
            by = f" by {self.stored.set_by}" if self.stored.set_by else ""
            yield (f"Policy of {self.repository}, stored {instant(self.stored.set_at)} UTC{by}")
        else:
            yield f"The given policy, on {self.repository}"
        for entry in self.explained.entries:
            yield from self._entry(entry)
        yield ""
        count, counted = len(self.explained.decisions), self.explained.expired
        if self.ref is None:
            yield f"Today the rules keep {self.explained.kept} of {snapshots(count, self.noun)}."
        else:
            own = sum(entry.kept for entry in self.explained.entries)
            yield (
                f"Of {snapshots(count, self.noun)} that {self.ref} reaches, its rules keep {own} "
                f"today, and other refs keep {self.explained.kept - own} of the others."
            )
        yield expired(counted.snapshots, counted.held_by, self.noun)
        yield from self._listed()

    def _entry(self, entry: EntryExplained) -> Iterator[Block]:
        yield f"\n{entry.name}"
        if not entry.refs:
            yield "  decides for no ref"
            return
        names = [f"{ref.kind} {ref.name}" for ref in entry.refs[:REFS_SHOWN]]
        more = len(entry.refs) - REFS_SHOWN
        yield f"  for {', '.join(names)}" + (f" and {more} more" if more > 0 else "")
        if entry.keeps_all:
            yield f"  no rule: all {snapshots(entry.reached, self.noun)} stay"
            return
        rows = [(str(rule.kept), rule.sentence) for rule in entry.rules]
        rows.append((str(entry.kept), f"in all, of {snapshots(entry.reached, self.noun)}"))
        yield Table(("kept", "rule"), rows, frozenset({"kept"}))

    def _listed(self) -> Iterator[Block]:
        released = self.explained.released
        rows = list(self._rows())
        going = [row for row in rows if row.id in released]
        yield from going_view(
            going,
            len(going),
            self.noun,
            everything=self.everything,
            all_reasons=self.all_reasons,
        )
        staying = [row for row in rows if row.id not in released]
        if self.everything:
            yield from snapshot_table(
                staying, len(staying), self.noun, all_reasons=self.all_reasons
            )
        else:
            yield from kept_view(Counter(row.reasons[0] for row in staying), self.noun)

    def _rows(self) -> Iterator[SnapshotRow]:
        explained = self.explained
        return snapshot_rows(explained.decisions, explained.snapshots, self.refs)
