"""Policies: rules by ref."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import translate
from typing import Any

from reclaim.errors import InvalidInput
from reclaim.model import Ref, RefKind, instant_text
from reclaim.policy.duration import Duration

PERIODS = ("hourly", "daily", "weekly", "monthly", "yearly")


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the history of a ref. A snapshot stays if any rule keeps it.

    ``older_than`` and ``keep_within`` apply to all ancestors of the ref, the first relative to now
    or a fixed instant, the second relative to the ref's tip. Counting rules apply to its
    first-parent chain.
    """

    older_than: Duration | datetime | None = None
    keep_within: Duration | None = None
    keep_last: int | None = None
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    keep_monthly: int | None = None
    keep_yearly: int | None = None
    keep_merge_bases: bool = False

    @property
    def empty(self) -> bool:
        """Whether no rule can expire a snapshot, so everything stays.

        ``keep_merge_bases`` alone cannot: it only adds to the snapshots kept by other rules.
        """
        return self.older_than is None and self.keep_within is None and not any(self.counts())

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield the counting rules in use, as the name of a period (or ``last``) and a number."""
        for period in ("last", *PERIODS):
            count: int | None = getattr(self, f"keep_{period}")
            if count is not None:
                yield period, count

    def cutoff(self, now: datetime) -> datetime | None:
        """Instant before which snapshots are too old."""
        if isinstance(self.older_than, Duration):
            return self.older_than.before(now)
        return self.older_than

    def sentences(self) -> Iterator[str]:
        """Yield each rule about single snapshots, in the words of the policy."""
        if self.older_than is not None:
            yield f"older_than {_words(self.older_than)}"
        if self.keep_within is not None:
            yield f"keep_within {self.keep_within}"
        for period, count in self.counts():
            yield f"keep_{period} {count}"

    def all_sentences(self) -> Iterator[str]:
        """Yield every rule in the words of the policy, including ``keep_merge_bases``."""
        yield from self.sentences()
        if self.keep_merge_bases:
            yield "keep_merge_bases"


@dataclass(frozen=True, slots=True)
class Match:
    """Refs to which rules apply: a glob on the name, in which ``*`` also matches ``/``."""

    glob: str
    kind: RefKind | None = None
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", re.compile(translate(self.glob)))

    def __call__(self, ref: Ref) -> bool:
        return self.kind in (None, ref.kind) and self.pattern.match(ref.name) is not None


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """A retention policy: rules for all refs, or rules by ref.

        Policy(keep_last=10, keep_daily=30)
        Policy(older_than="90d", keep_merge_bases=True)
        Policy.parse(Path("policy.yaml").read_text())

    A commit stays when any rule keeps it. A policy without rules keeps every commit. Of rules by
    ref the first match applies and no others, else the default.
    """

    default: Rules
    matches: tuple[tuple[Match, Rules], ...]

    def __init__(
        self,
        default: Rules | None = None,
        matches: tuple[tuple[Match, Rules], ...] = (),
        *,
        older_than: Duration | timedelta | datetime | str | None = None,
        keep_within: Duration | timedelta | str | None = None,
        keep_last: int | None = None,
        keep_hourly: int | None = None,
        keep_daily: int | None = None,
        keep_weekly: int | None = None,
        keep_monthly: int | None = None,
        keep_yearly: int | None = None,
        keep_merge_bases: bool = False,
    ) -> None:
        given = {
            "older_than": older_than,
            "keep_within": keep_within,
            "keep_last": keep_last,
            "keep_hourly": keep_hourly,
            "keep_daily": keep_daily,
            "keep_weekly": keep_weekly,
            "keep_monthly": keep_monthly,
            "keep_yearly": keep_yearly,
            "keep_merge_bases": keep_merge_bases or None,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if given:
            from reclaim.policy.parse import parse_rules

            if default is not None:
                raise InvalidInput("pass either a default or its rules as keywords, not both")
            default = parse_rules(given)
        object.__setattr__(self, "default", default or Rules())
        object.__setattr__(self, "matches", matches)

    @classmethod
    def parse(cls, document: str | Mapping[str, Any]) -> Policy:
        """Parse the text of a policy file, in YAML or JSON, or its content: a ``default`` and a
        list of ``rules`` by ref."""
        from reclaim.policy.parse import parse_policy, read_policy

        return read_policy(document) if isinstance(document, str) else parse_policy(document)

    @property
    def empty(self) -> bool:
        """Whether the policy can never expire a snapshot, whatever the refs."""
        return self.default.empty and all(rules.empty for _, rules in self.matches)

    def rules(self, ref: Ref) -> Rules:
        number = self.entry(ref)
        return self.matches[number][1] if number < len(self.matches) else self.default

    def entry(self, ref: Ref) -> int:
        """Number of the first match, or of the default, which comes last."""
        for number, (match, _) in enumerate(self.matches):
            if match(ref):
                return number
        return len(self.matches)


def second_text(instant: datetime) -> str:
    """Readable instant, to the second."""
    return instant_text(instant.replace(microsecond=0))


def _words(age: Duration | datetime) -> str:
    return instant_text(age) if isinstance(age, datetime) else str(age)
