"""The rules of retention as options, the same for every command that takes them."""

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
    units = "days" if period == "daily" else f"{period.removesuffix('ly')}s"
    what = "The last N commits."
    if period != "last":
        what = f"The newest commit in each of the last N {units} that have one."
    return typer.Option(
        f"--keep-{period}",
        metavar="N",
        min=1,
        help=what,
        show_default=False,
        rich_help_panel=KEEP,
    )


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """The rules, as options, for all refs alike."""

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
        """The rules that were given, by their names in a policy."""
        values = {field.name: getattr(self, field.name) for field in fields(KeepOptions)}
        return {name: value for name, value in values.items() if value not in (None, False)}

    def policy_with(self, file: str | None) -> tuple[str, Policy] | None:
        """The policy of a file, with its text, or of the options; None if neither was given."""
        from reclaim.api.options import check_past
        from reclaim.policy import from_options
        from reclaim.policy.stored import text_of

        given = self.given()
        if file is None:
            if not given:
                return None
            policy = from_options(**given)
            check_past(policy)
            return text_of(policy), policy
        if given:
            raise InvalidInput(
                "rules are given both in a file and as options",
                hint="write all of them in the file",
            )
        text, policy = read_policy_file(file)
        check_past(policy)
        return text, policy


@dataclass(frozen=True, slots=True)
class RuleOptions(KeepOptions):
    """The rules, as options or in a file, and whether refs at expired commits go."""

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
            help="Use no rules, whatever policy is stored with the store.",
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
        """The policy that was asked for; None leaves it to the one that is stored."""
        from reclaim.policy import Policy

        given = self.policy_with(self.policy)
        if not self.no_policy:
            return None if given is None else given[1]
        if given is not None:
            raise InvalidInput("--no-policy cannot be combined with rules")
        return Policy()


def read_policy_file(file: str) -> tuple[str, Policy]:
    """The text of a file or of standard input, and the policy in it."""
    from reclaim.policy import read_policy

    text, source = read_text(file, "the policy")
    return text, read_policy(text, source=source)


def read_text(file: str, what: str) -> tuple[str, str]:
    """The text of a file or of standard input, and what to call that in messages."""
    from reclaim.policy.document import MOST_CHARACTERS

    source = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            text = sys.stdin.read(MOST_CHARACTERS + 1)
        else:
            with Path(file).open(encoding="utf-8") as opened:
                text = opened.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {what} {source}: {error}") from error
    return text, source
