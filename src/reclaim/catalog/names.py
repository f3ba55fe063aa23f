"""Rules for names and paths, and how a place is written on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from reclaim.errors import InvalidInput, InvalidName, InvalidPath

MAX_PATH_BYTES = 1024

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9._-]{1,62}")
_REF = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9_-])?")
_COMMIT_LIKE = re.compile(r"[0-9a-f]{32}")
# The last character there is has no successor, which the end of a prefix's range would need.
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff\U0010ffff]")
# Most paths look like this, and need none of the closer looks.
_PLAIN_PATH = re.compile(r"[\w=+-][\w.=+-]*(?:/[\w=+-][\w.=+-]*)*", re.ASCII)
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_LONGEST_SEGMENT = 200


def check_repository_name(name: str) -> str:
    """Lower-case letters, digits, dots, dashes and underscores; 2 to 63 of them."""
    if not _REPOSITORY.fullmatch(name):
        raise InvalidName(
            f"{name!r} cannot name a repository",
            hint="use 2 to 63 of a-z, 0-9, '.', '-' and '_', starting with a letter or digit",
        )
    return name


def check_no_uid(name: str) -> str:
    """Refuse what reads as the uid of a repository, by which a deleted one is named."""
    if _COMMIT_LIKE.fullmatch(name):
        raise InvalidName(
            f"{name!r} reads like the uid of a repository",
            hint="choose a name that is not made of 32 hexadecimal digits",
        )
    return name


def check_ref_name(name: str, kind: str) -> str:
    """Letters, digits, dots, dashes, underscores and slashes; nothing that reads as a commit id."""
    if not _REF.fullmatch(name) or any(not part or part[0] == "." for part in name.split("/")):
        raise InvalidName(
            f"{name!r} cannot name a {kind}",
            hint="use up to 200 of A-Z, a-z, 0-9, '.', '-', '_' and '/'; no part may be empty "
            "or start with '.'",
        )
    if len(quote(name, safe="")) > _LONGEST_SEGMENT:
        raise InvalidName(f"{name[:40]!r}… is too long to name a {kind}")
    if _COMMIT_LIKE.fullmatch(name):
        raise InvalidName(
            f"{name!r} cannot name a {kind}: it reads like a commit id",
            hint="choose a name with another letter in it",
        )
    return name


def check_path(path: str) -> str:
    """A relative path with `/` between its parts; it is stored as it is, never normalised."""
    if len(path) <= MAX_PATH_BYTES // 4 and _PLAIN_PATH.fullmatch(path):
        return path
    if not path:
        raise InvalidPath("the path is empty", hint="name an object, such as data/part-0.parquet")
    if len(path) > MAX_PATH_BYTES // 4 and len(path.encode("utf-8", "replace")) > MAX_PATH_BYTES:
        raise InvalidPath(f"the path {path[:40]!r}… is longer than {MAX_PATH_BYTES} bytes")
    if _CONTROL.search(path):
        raise InvalidPath(f"the path {path!r} has control characters or is not valid Unicode")
    if path[0] == "/" or path[-1] == "/" or "//" in path:
        raise InvalidPath(
            f"the path {path!r} starts or ends with '/', or has '//' in it",
            hint="write each part once, with a single '/' between parts",
        )
    if "." in path and any(part in (".", "..") for part in path.split("/")):
        raise InvalidPath(f"the path {path!r} has a '.' or '..' part", hint="write the whole path")
    return path


def check_prefix(prefix: str) -> str:
    """A prefix of paths: like a path, but it may be empty or end anywhere, also with '/'."""
    folder, slash, rest = prefix.rpartition("/")
    if slash:
        check_path(folder)
    if rest and rest not in (".", ".."):
        # Dots alone may be the start of a name.
        check_path(rest)
    return prefix


def check_text(*texts: str) -> None:
    """Text that people give along: anything that every database and file can hold."""
    for text in texts:
        if text and _UNSTORABLE.search(text):
            raise InvalidInput(f"the text {text[:40]!r} has a NUL or is not valid Unicode")


def after_prefix(prefix: str) -> str | None:
    """The least text that is greater than every text with this prefix; None when there is none."""
    while prefix:
        following = ord(prefix[-1]) + 1
        if 0xD800 <= following <= 0xDFFF:
            following = 0xE000
        if following <= 0x10FFFF:
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return None


@dataclass(frozen=True, slots=True)
class RefPath:
    """``REPO/REF/PATH`` as people write it; ref and path may be missing."""

    repository: str
    ref: str = ""
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> RefPath:
        """Split a place. A ref with a slash in it is written with ``%2F``."""
        repository, _, rest = text.partition("/")
        if not repository:
            raise InvalidInput(f"{text!r} names no repository", hint="write REPO/REF/PATH")
        ref, _, path = rest.partition("/")
        return cls(repository, unquote(ref), path)
