"""Retention rules as options, shared by all commands that take them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.options.panels import KEEP
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.policy import Policy

STANDARD_INPUT = "-"


def _count(period: str) -> Any:
    unit = "day" if period == "daily" else period.removesuffix("ly")
    description = "The last N commits."
    if period != "last":
        description = f"The newest commit of each {unit}, for the last N {unit}s with commits."
    return typer.Option(
        f"--keep-{period}",
        metavar="N",
        min=1,
        help=description,
        show_default=False,
        rich_help_panel=KEEP,
    )


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """Retention rules for all refs, as options."""

    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Expire commits older than AGE: a duration (30d) or an instant.",
            show_default=False,
            rich_help_panel=KEEP,
        ),
    ] = None
    keep_within: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="All commits within this time before a tip.",
            show_default=False,
            rich_help_panel=KEEP,
        ),
    ] = None
    keep_last: Annotated[int | None, _count("last")] = None
    keep_hourly: Annotated[int | None, _count("hourly")] = None
    keep_daily: Annotated[int | None, _count("daily")] = None
    keep_weekly: Annotated[int | None, _count("weekly")] = None
    keep_monthly: Annotated[int | None, _count("monthly")] = None
    keep_yearly: Annotated[int | None, _count("yearly")] = None
    keep_merge_bases: Annotated[
        bool,
        typer.Option(
            "--keep-merge-bases",
            help="Keep merge bases with the default branch.",
            rich_help_panel=KEEP,
        ),
    ] = False

    def given(self) -> dict[str, Any]:
        """Return the given rules, by their names in a policy."""
        values = {field.name: getattr(self, field.name) for field in fields(KeepOptions)}
        return {name: value for name, value in values.items() if value not in (None, False)}

    def policy_with(self, file: str | None) -> tuple[str, Policy] | None:
        """Return the policy of a file or of the options, with its text; None without either."""
        from reclaim.api.options import check_past
        from reclaim.policy import from_options
        from reclaim.policy.stored import text_of

        rules = self.given()
        if file is None:
            if not rules:
                return None
            policy = from_options(**rules)
            check_past(policy)
            return text_of(policy), policy
        if rules:
            raise InvalidInput(
                "rules cannot be given both in a file and as options",
                hint="write all of them in the file",
            )
        text, policy = read_policy_file(file)
        check_past(policy)
        return text, policy


@dataclass(frozen=True, slots=True)
class RuleOptions(KeepOptions):
    """Retention rules as options or in a file, and the handling of refs at expired commits."""

    policy: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Rules by ref, in YAML or JSON; - for standard input.",
            show_default=False,
            rich_help_panel=KEEP,
        ),
    ] = None
    no_policy: Annotated[
        bool,
        typer.Option(
            "--no-policy",
            help="Use no rules: ignore the stored policy.",
            rich_help_panel=KEEP,
        ),
    ] = False
    delete_expired_tags: Annotated[
        bool,
        typer.Option(
            "--delete-expired-tags",
            help="Delete tags at expired commits.",
            rich_help_panel=KEEP,
        ),
    ] = False
    delete_expired_branches: Annotated[
        bool,
        typer.Option(
            "--delete-expired-branches",
            help="Delete branches at expired commits.",
            rich_help_panel=KEEP,
        ),
    ] = False

    def read(self) -> Policy | None:
        """Return the given policy; None means the stored policy."""
        from reclaim.policy import Policy

        source = self.policy_with(self.policy)
        if not self.no_policy:
            return None if source is None else source[1]
        if source is not None:
            raise InvalidInput("--no-policy cannot be combined with rules")
        return Policy()


def read_policy_file(file: str) -> tuple[str, Policy]:
    """Read a policy from a file or standard input. Return its text as well."""
    from reclaim.policy import read_policy

    text, source = read_text(file, "the policy")
    return text, read_policy(text, source=source)


def read_text(file: str, noun: str) -> tuple[str, str]:
    """Read a file or standard input. Return the text and the name of the source for messages."""
    from reclaim.policy.document import MOST_CHARACTERS

    source = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            text = sys.stdin.read(MOST_CHARACTERS + 1)
        else:
            with Path(file).open(encoding="utf-8") as opened:
                text = opened.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {noun} {source}: {error}") from error
    return text, source
