"""Rules for names and paths, and the syntax of locations on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from reclaim.errors import InvalidInput, InvalidName, InvalidPath

MAX_PATH_BYTES = 1024

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9._-]{1,62}")
_REF = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9_-])?")
_COMMIT_LIKE = re.compile(r"[0-9a-f]{32}")
# The last Unicode character has no successor, which the end of a prefix's range needs.
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff\U0010ffff]")
# Most paths match this pattern and need no further checks.
_PLAIN_PATH = re.compile(r"[\w=+-][\w.=+-]*(?:/[\w=+-][\w.=+-]*)*", re.ASCII)
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_LONGEST_SEGMENT = 200


def check_repository_name(name: str) -> str:
    """Allow lower-case letters, digits, dots, dashes and underscores; 2 to 63 characters."""
    if not _REPOSITORY.fullmatch(name):
        raise InvalidName(
            f"{name!r} is not a valid repository name",
            hint="use 2 to 63 of a-z, 0-9, '.', '-' and '_', starting with a letter or digit",
        )
    return name


def check_no_uid(name: str) -> str:
    """Refuse a name with the form of a repository's uid, which identifies deleted repositories."""
    if _COMMIT_LIKE.fullmatch(name):
        raise InvalidName(
            f"{name!r} looks like the uid of a repository",
            hint="choose a name other than 32 hexadecimal digits",
        )
    return name


def check_ref_name(name: str, kind: str) -> str:
    """Allow letters, digits, dots, dashes, underscores and slashes, but no commit id."""
    if not _REF.fullmatch(name) or any(not part or part[0] == "." for part in name.split("/")):
        raise InvalidName(
            f"{name!r} is not a valid {kind} name",
            hint="use up to 200 of A-Z, a-z, 0-9, '.', '-', '_' and '/'; no part may be empty "
            "or start with '.'",
        )
    if len(quote(name, safe="")) > _LONGEST_SEGMENT:
        raise InvalidName(f"{name[:40]!r}… is too long for a {kind} name")
    if _COMMIT_LIKE.fullmatch(name):
        raise InvalidName(
            f"{name!r} is not a valid {kind} name: it looks like a commit id",
            hint="add another letter to the name",
        )
    return name


def check_path(path: str) -> str:
    """Allow a relative path with `/` between its parts; it is stored unchanged."""
    if len(path) <= MAX_PATH_BYTES // 4 and _PLAIN_PATH.fullmatch(path):
        return path
    if not path:
        raise InvalidPath(
            "the path is empty", hint="pass the path of an object, such as data/part-0.parquet"
        )
    if len(path) > MAX_PATH_BYTES // 4 and len(path.encode("utf-8", "replace")) > MAX_PATH_BYTES:
        raise InvalidPath(f"the path {path[:40]!r}… is longer than {MAX_PATH_BYTES} bytes")
    if _CONTROL.search(path):
        raise InvalidPath(f"the path {path!r} contains control characters or invalid Unicode")
    if path[0] == "/" or path[-1] == "/" or "//" in path:
        raise InvalidPath(
            f"the path {path!r} starts or ends with '/', or contains '//'",
            hint="use a single '/' between parts",
        )
    if "." in path and any(part in (".", "..") for part in path.split("/")):
        raise InvalidPath(
            f"the path {path!r} contains a '.' or '..' part", hint="use the full path"
        )
    return path


def check_prefix(prefix: str) -> str:
    """Allow the prefix of a path: empty, or ending anywhere, also with '/'."""
    folder, slash, last_part = prefix.rpartition("/")
    if slash:
        check_path(folder)
    if last_part and last_part not in (".", ".."):
        # Dots alone can start a name.
        check_path(last_part)
    return prefix


def check_text(*texts: str) -> None:
    """Refuse user-supplied text that some database or file cannot store."""
    for text in texts:
        if text and _UNSTORABLE.search(text):
            raise InvalidInput(f"the text {text[:40]!r} contains NUL or invalid Unicode")


def after_prefix(prefix: str) -> str | None:
    """Return the smallest text greater than every text with this prefix; None if there is none."""
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
    """``REPO/REF/PATH`` as users write it; ref and path are optional."""

    repository: str
    ref: str = ""
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> RefPath:
        """Split a location. Slashes in a ref are written as ``%2F``."""
        repository, _, location = text.partition("/")
        if not repository:
            raise InvalidInput(f"{text!r} has no repository", hint="use REPO/REF/PATH")
        ref, _, path = location.partition("/")
        return cls(repository, unquote(ref), path)
