"""The rules of retention as options, the same for every command that takes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.policy import Policy


def _count(period: str) -> Any:
    units = "days" if period == "daily" else f"{period.removesuffix('ly')}s"
    what = "The last N commits."
    if period != "last":
        what = f"The newest commit in each of the last N {units} that have one."
    return typer.Option(f"--keep-{period}", metavar="N", min=1, help=what, show_default=False)


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The rules, as options or in a file, and whether refs at expired commits go."""

    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="A duration (30d) or an instant.", show_default=False),
    ] = None
    keep_within: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="All commits within this time before a tip.", show_default=False
        ),
    ] = None
    keep_last: Annotated[int | None, _count("last")] = None
    keep_hourly: Annotated[int | None, _count("hourly")] = None
    keep_daily: Annotated[int | None, _count("daily")] = None
    keep_weekly: Annotated[int | None, _count("weekly")] = None
    keep_monthly: Annotated[int | None, _count("monthly")] = None
    keep_yearly: Annotated[int | None, _count("yearly")] = None
    keep_merge_bases: Annotated[
        bool, typer.Option("--keep-merge-bases", help="Keep merge bases with the default branch.")
    ] = False
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rules by ref, in YAML or JSON.", show_default=False),
    ] = None
    delete_expired_tags: Annotated[
        bool, typer.Option("--delete-expired-tags", help="Delete tags at expired commits.")
    ] = False
    delete_expired_branches: Annotated[
        bool, typer.Option("--delete-expired-branches", help="Delete branches at expired commits.")
    ] = False

    def read(self) -> Policy:
        """The policy that was asked for; without any rule it keeps everything."""
        from reclaim.policy import from_options, read_policy
        from reclaim.policy.parse import MOST_CHARACTERS

        options = asdict(self)
        file = options.pop("policy")
        for name in ("delete_expired_tags", "delete_expired_branches"):
            del options[name]
        options["keep_merge_bases"] = self.keep_merge_bases or None
        if file is None:
            return from_options(**options)
        if any(value is not None for value in options.values()):
            raise InvalidInput(
                "rules are given both in a file and as options",
                hint="write all of them in the file",
            )
        try:
            with file.open(encoding="utf-8") as text:
                return read_policy(text.read(MOST_CHARACTERS + 1), source=str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read the policy {file}: {error}") from error
