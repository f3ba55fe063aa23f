"""Places on the command line: ``REPO``, ``REPO/REF`` and ``REPO/REF/PATH``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from reclaim.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from reclaim.catalog import RefPath, RefReader


def parse(text: str) -> RefPath:
    """Any place."""
    from reclaim.catalog import RefPath

    return RefPath.parse(text)


def parse_repository(text: str) -> str:
    """Parse a place of a whole repository."""
    place = parse(text)
    if place.ref or place.path:
        raise InvalidInput(f"{text!r} is not a repository", hint="write REPO alone")
    return place.repository


def parse_ref(text: str) -> RefPath:
    """Parse an existing ref, or the name of a new ref."""
    place = _with_ref(text, "REPO/REF")
    if place.path:
        raise InvalidInput(
            f"{text!r} names a path; expected a ref",
            hint="write REPO/REF; a slash inside a ref is written %2F",
        )
    return place


def parse_ref_name(text: str) -> str:
    """Parse a ref without its repository. A slash in it may be written ``%2F``."""
    return text.replace("%2F", "/").replace("%2f", "/")


def parse_object(text: str) -> RefPath:
    """Parse the place of an object. The catalog validates the path."""
    return _with_ref(text, "REPO/REF/PATH")


def parse_folder(text: str) -> RefPath:
    """Parse the place of a folder; an empty path is the whole ref."""
    place = _with_ref(text, "REPO/REF/FOLDER")
    if not place.path or place.path.endswith("/"):
        return place
    return replace(place, path=place.path + "/")


def _with_ref(text: str, form: str) -> RefPath:
    place = parse(text)
    if not place.ref:
        raise InvalidInput(f"{text!r} names no ref", hint=f"write {form}")
    return place


@contextmanager
def single(reader: RefReader, path: str) -> Iterator[None]:
    """Suggest -r if the path of an object is a folder."""
    try:
        yield
    except NotFound as error:
        if not path.strip("/") or not reader.list(path.rstrip("/") + "/", limit=1).entries:
            raise
        raise InvalidInput(
            f"{path!r} is a folder on {reader.ref}", hint="add -r for everything below it"
        ) from error


def below(reader: RefReader, folder: str) -> list[str]:
    """Return the paths of all objects below a folder, relative to it. Refuse an empty folder."""
    paths = [entry.path.removeprefix(folder) for entry in reader.entries(folder)]
    if not paths:
        raise nothing_below(reader, folder)
    return paths


def nothing_below(reader: RefReader, folder: str) -> NotFound:
    location = f"below {folder!r} on {reader.ref}" if folder else f"on {reader.ref}"
    return NotFound(f"there is no object {location}", hint="list objects with `reclaim ls`")


def refuse_nesting(source: RefPath, target: RefPath) -> None:
    """Refuse a copy or move between a folder and a folder inside it."""
    if (source.repository, source.ref) == (target.repository, target.ref) and (
        source.path.startswith(target.path) or target.path.startswith(source.path)
    ):
        raise InvalidInput(
            f"{source.path!r} and {target.path!r} lie inside each other",
            hint="choose separate folders",
        )
