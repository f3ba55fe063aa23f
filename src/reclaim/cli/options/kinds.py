"""Kinds of run, as options of ``plan`` and ``gc``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.config.settings import OPTION, current
from reclaim.cli.options.limits import LimitOptions
from reclaim.cli.options.panels import KIND, LOOK_AT
from reclaim.cli.options.quarantining import QuarantineOptions
from reclaim.cli.options.rules import RuleOptions
from reclaim.cli.running import RunOptions
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.api.options import PlanArguments

HISTORY_ONLY, UNCOMMITTED, LIFECYCLE = "--history-only", "--uncommitted", "--lifecycle"

OF_KINDS = {
    "ref": (HISTORY_ONLY,),
    "branch": (UNCOMMITTED,),
    "full": (UNCOMMITTED, LIFECYCLE),
}
"""Options of specific kinds."""
RULES = {field.name for field in fields(RuleOptions)}
OF_DELETIONS = {
    *("min_age", "unsafe_allow_fraction"),
    *(
        field.name
        for group in (RunOptions, QuarantineOptions, LimitOptions)
        for field in fields(group)
    ),
}
OF_EVERY_KIND = {"out"}
TAKEN = {
    HISTORY_ONLY: OF_EVERY_KIND | RULES,
    UNCOMMITTED: OF_EVERY_KIND | OF_DELETIONS,
    LIFECYCLE: OF_EVERY_KIND | OF_DELETIONS,
}
"""Options of other groups accepted by a kind. A full collection accepts all of them."""


@dataclass(frozen=True, slots=True)
class KindOptions:
    """Kind of run, and the options specific to it."""

    history_only: Annotated[
        bool,
        typer.Option(
            HISTORY_ONLY,
            help="Only remove expired commits from the history; deletes no bytes.",
            rich_help_panel=KIND,
        ),
    ] = False
    uncommitted: Annotated[
        bool,
        typer.Option(
            UNCOMMITTED,
            help="Only uploads without a commit, from the checkpoint of the last such run.",
            rich_help_panel=KIND,
        ),
    ] = False
    lifecycle: Annotated[
        bool,
        typer.Option(
            LIFECYCLE, help="Only data matched by the stored lifecycle rules.", rich_help_panel=KIND
        ),
    ] = False
    ref: Annotated[
        list[str] | None,
        typer.Option(
            "--ref",
            metavar="REF",
            help="With --history-only: edit only the history of this ref; repeatable.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None
    branch: Annotated[
        str | None,
        typer.Option(
            metavar="BRANCH",
            help="With --uncommitted: only uploads to this branch, which may be deleted.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Ignore checkpoints and read everything again (same result, slower).",
            rich_help_panel=LOOK_AT,
        ),
    ] = False

    def read(self, *groups: Any) -> PlanArguments:
        """Return the chosen kind. Refuse options unsuitable for it."""
        from reclaim.run.requests import RunKind

        chosen = self._chosen()
        for option, kinds in OF_KINDS.items():
            if getattr(self, option) not in (None, False) and chosen not in kinds:
                raise InvalidInput(f"--{option} needs {' or '.join(kinds)}")
        for group in groups if chosen else ():
            for option in given_options(group):
                if option not in TAKEN[chosen]:
                    raise InvalidInput(f"{flag(option)} cannot be combined with {chosen}")
        return {
            "kind": RunKind(chosen.removeprefix("--") or RunKind.COLLECT).value,
            "refs": tuple(self.ref or ()),
            "branch": self.branch,
            "full": self.full,
        }

    def _chosen(self) -> str:
        """Return the option of the chosen kind; "" for a full collection."""
        kinds = {
            HISTORY_ONLY: self.history_only,
            UNCOMMITTED: self.uncommitted,
            LIFECYCLE: self.lifecycle,
        }
        chosen = [option for option, given in kinds.items() if given]
        if len(chosen) > 1:
            raise InvalidInput(f"{' and '.join(chosen)} exclude each other")
        return chosen[0] if chosen else ""


def given_options(options: Any) -> Iterator[str]:
    """Yield the options of a group given on the command line."""
    chosen = current().chosen
    for field in fields(options):
        if field.name in chosen:
            # A setting fills these as well.
            if chosen[field.name].origin == OPTION:
                yield field.name
        elif getattr(options, field.name) != field.default:
            yield field.name


def flag(option: str) -> str:
    """Return an option as it is written on the command line."""
    return "--" + option.removesuffix("_name").replace("_", "-")
