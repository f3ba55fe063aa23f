"""Completion in shells: names of repositories, refs, runs and plans for arguments and options.

A shell waits for the answer: only the database is read, and an error gives no names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from reclaim.cli.options.run_names import LATEST
from reclaim.ids import short

if TYPE_CHECKING:
    from reclaim.catalog.completion import CatalogNames

Complete = Callable[[typer.Context, str], Sequence[str]]


def completion_of(metavar: str | None) -> Complete | None:
    """Return the completion for values with this metavar."""
    if metavar is None:
        return None
    if metavar.startswith(("REPO/", "REPO[/")):
        return _completing(_branches if "BRANCH" in metavar else _places)
    names = _BY_METAVAR.get(metavar)
    return None if names is None else _completing(names)


_Names = Callable[["CatalogNames", typer.Context, str], Iterable[str]]


def _completing(names: _Names) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> Sequence[str]:
        with suppress(Exception):
            from reclaim.catalog.completion import CatalogNames

            with CatalogNames.open(_location(ctx)) as opened:
                return [name for name in names(opened, ctx, incomplete) if _is_plain(name)]
        return []

    return complete


def _location(ctx: typer.Context) -> str:
    """Return the catalog named on the command line so far, or in a setting."""
    from reclaim.cli.config.settings import find_settings

    context: Any = ctx
    while context is not None:
        if location := context.params.get("catalog"):
            return str(location)
        context = context.parent
    return str(find_settings({})["catalog"])


def _is_plain(name: str) -> bool:
    """Whether shells read a name as a single word."""
    return not set(name) & set(" \t\n\"'\\$`")


def _repositories(names: CatalogNames, _: typer.Context, start: str) -> Iterable[str]:
    return names.repositories(start)


def _places(names: CatalogNames, _: typer.Context, start: str) -> Iterable[str]:
    return _refs(names, start, lambda *of: [*names.branches(*of), *names.tags(*of)])


def _branches(names: CatalogNames, _: typer.Context, start: str) -> Iterable[str]:
    return _refs(names, start, names.branches)


def _refs(
    names: CatalogNames, start: str, refs: Callable[[str, str], Sequence[str]]
) -> Iterable[str]:
    repository, slash, ref = start.partition("/")
    if not slash:
        matching = names.repositories(repository)
        if len(matching) != 1:
            # Without a ref: a shell adds no space as long as there are several.
            return [f"{name}/" for name in matching]
        [repository] = matching
    if "/" in ref:
        return []
    written = (name.replace("/", "%2F") for name in refs(repository, ref.replace("%2F", "/")))
    return [f"{repository}/{name}" for name in written]


def _ref_of_repository(names: CatalogNames, ctx: typer.Context, start: str) -> Iterable[str]:
    repository = str(ctx.params["repository"])
    return [*names.branches(repository, start), *names.tags(repository, start)]


def _runs(names: CatalogNames, _: typer.Context, start: str) -> Iterable[str]:
    return _ids(names.runs(start), start)


def _plans(names: CatalogNames, _: typer.Context, start: str) -> Iterable[str]:
    return _ids(names.plans(start), start)


def _ids(ids: Sequence[str], start: str) -> Iterable[str]:
    if ids and LATEST.startswith(start):
        yield LATEST
    yield from (run if len(start) > len(short(run)) else short(run) for run in ids)


_BY_METAVAR: dict[str, _Names] = {
    "REPO": _repositories,
    "STORE": _repositories,
    "REF": _ref_of_repository,
    "RUN": _runs,
    "PLAN": _plans,
}
