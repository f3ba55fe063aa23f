"""The kind of run, as options of ``plan`` and ``gc``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.config.settings import OPTION, current
from reclaim.cli.options.panels import KIND, LOOK_AT
from reclaim.cli.options.plan_options import PlanningOptions
from reclaim.cli.options.rules import RuleOptions
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.run.gc import RunRequest

UNCOMMITTED, LIFECYCLE = "--uncommitted", "--lifecycle"

OF_KINDS = {
    "branch": (UNCOMMITTED,),
    "full": (UNCOMMITTED, LIFECYCLE),
}
"""Options that go only with some kinds."""
OF_PARTS = {"min_age", "out", "unsafe_allow_fraction"}
"""Options of a plan that go with ``--uncommitted`` and ``--lifecycle`` as well."""


@dataclass(frozen=True, slots=True)
class KindOptions:
    """The kind of run, and the options that only this kind has."""

    uncommitted: Annotated[
        bool,
        typer.Option(
            UNCOMMITTED,
            help="Only what was uploaded and is in no commit, from the checkpoint of the last such "
            "run.",
            rich_help_panel=KIND,
        ),
    ] = False
    lifecycle: Annotated[
        bool,
        typer.Option(
            LIFECYCLE, help="Only what the stored lifecycle rules match.", rich_help_panel=KIND
        ),
    ] = False
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

    def read(self, rules: RuleOptions, planning: PlanningOptions) -> RunRequest:
        """The kind that was asked for; refuses options that do not go with this kind."""
        from reclaim.run.gc import RunKind, RunRequest

        chosen = self._chosen()
        for option, kinds in OF_KINDS.items():
            if getattr(self, option) not in (None, False) and chosen not in kinds:
                raise InvalidInput(f"--{option} goes only with {' or '.join(kinds)}")
        if not chosen:
            return RunRequest()
        given = [*given_options(rules), *given_options(planning)]
        for option in given:
            if option not in OF_PARTS:
                raise InvalidInput(f"{flag(option)} does not go with {chosen}")
        return RunRequest(RunKind(chosen.removeprefix("--")), branch=self.branch, full=self.full)

    def rules(self, rules: RuleOptions) -> RuleOptions:
        """The retention rules of this kind: a kind without such rules ignores a stored policy."""
        return RuleOptions(no_policy=True) if self._chosen() else rules

    def _chosen(self) -> str:
        """The option of the kind; "" for a collection of everything."""
        named = {UNCOMMITTED: self.uncommitted, LIFECYCLE: self.lifecycle}
        chosen = [option for option, asked in named.items() if asked]
        if len(chosen) > 1:
            raise InvalidInput(f"{' and '.join(chosen)} exclude each other")
        return chosen[0] if chosen else ""


def given_options(options: Any) -> Iterator[str]:
    """The names of the options in a group that the command line gives."""
    chosen = current().chosen
    for field in fields(options):
        if field.name in chosen:
            # A setting fills these as well.
            if chosen[field.name].origin == OPTION:
                yield field.name
        elif getattr(options, field.name) != field.default:
            yield field.name


def flag(option: str) -> str:
    """The name of an option on the command line."""
    return "--" + option.replace("_", "-")
