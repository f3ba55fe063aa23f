"""The URLs of storages and objects: a single spelling for each place, without secrets.

Nothing is opened here, and no key is ever decoded: only ``file://`` URLs are percent-encoded.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from reclaim.errors import InvalidInput

_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "abfss": "abfs"}
_SCHEMES = ("file", "s3", "gs", "az", "abfs", "memory")
_MISTYPED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""The beginning of a URL; a single letter is a drive."""
_PLAIN_OBJECT = re.compile(r"(?:s3|gs|az)://[^/@:]+(?:/(?!\.{1,2}(?:/|$))[^/]+)+")
"""An object's address in the spelling of ``object_url``."""

HIDDEN = "***"
_SERVER = r"(?:\[[\w:.%]+\]|[^:\[\]]*)(?::\d*)?"
_SERVERS = re.compile(rf"{_SERVER}(?:,{_SERVER})*")
_PLAIN_OPTIONS = (
    "sslmode",
    "host",
    "port",
    "user",
    "dbname",
    "connect_timeout",
    "application_name",
)
ODD_ADDRESS = "(^|/)\\.{0,2}(/|$)|[\\x00-\\x1f\\x7f\ufffd]"
"""An odd address, as a regular expression: it has a part that is empty, ``.`` or ``..``, a control
character, or the replacement for unreadable text. Reclaim writes no such address, and libraries may
read it as different keys; so objects there are listed and otherwise left alone."""
_ODD = re.compile(ODD_ADDRESS)
_MISWRITTEN = re.compile(r"[\\\x00-\x1f\x7f]")


def is_odd(address: str) -> bool:
    return _ODD.search(address) is not None


def normalize(location: str) -> str:
    """Return the single spelling of a place: ``s3a://b//x/`` and ``s3://b/x`` are the same storage.

    Plain paths become ``file://`` URLs of the real path, so a symbolic link does not give a folder
    a second name.
    """
    if not location.strip():
        raise InvalidInput("a storage location is empty")
    if "://" not in location:
        check_path(location)
        return _file_url(Path(location))
    try:
        parts = urlsplit(location)
    except ValueError:
        raise InvalidInput(f"{redacted(location)} is not a URL") from None
    scheme = _scheme(parts.scheme)
    if scheme == "file":
        if parts.query or parts.fragment:
            raise InvalidInput(
                f"{redacted(location)} has a '?' or '#': write %3F or %23 in a file URL"
            )
        return _file_url(Path(unquote(parts.path)))
    if scheme != "memory" and not parts.netloc:
        raise InvalidInput(f"the storage URL {redacted(location)} names no bucket")
    bucket = parts.netloc.rpartition("@")[2] if scheme == "abfs" else parts.netloc
    # A secret may have an unescaped slash, and only its user name and a colon are before it.
    if parts.password or parts.query or "@" in bucket or ":" in parts.netloc:
        raise InvalidInput(
            f"the storage URL {redacted(location)} carries credentials or options",
            hint="credentials come from the environment and profiles; they are never stored",
        )
    if "%" in parts.path:
        raise InvalidInput(f"the storage URL {redacted(location)} has a percent sign in its path")
    check_characters(location)
    path = posixpath.normpath("/" + parts.path.strip("/"))
    return f"{scheme}://{parts.netloc}{path}".rstrip("/")


def check_characters(url: str) -> None:
    """Refuse the URL of a bucket with characters a storage may rewrite.

    SeaweedFS, for example, stores a backslash as a slash: a listing by the given prefix finds
    nothing.
    """
    if _MISWRITTEN.search(url) and not url.lower().startswith("file:"):
        raise InvalidInput(
            f"the storage URL {redacted(url)!r} has a backslash or a control character",
            hint="use a prefix without them; not every storage keeps such keys as they are given",
        )


def check_path(location: str) -> None:
    """Refuse mistyped URLs: a mistyped scheme would become a folder."""
    if _MISTYPED.match(location):
        raise InvalidInput(
            f"{redacted(location)} is neither a URL nor a plain path",
            hint="a URL has :// after its scheme, as in s3://bucket/prefix; a folder with a colon "
            "in its name is written ./name:of",
        )


def object_url(address: str) -> str:
    """Return the single spelling of an object's address. Keys are taken as they are, never
    decoded."""
    if _PLAIN_OBJECT.fullmatch(address):
        return address
    if address.startswith(("/", "file:")):
        return normalize(address)
    scheme, separator, location = address.partition("://")
    bucket, _, key = location.partition("/")
    if "@" in bucket or ":" in bucket:
        raise InvalidInput(
            f"the address {redacted(address)} carries credentials",
            hint="credentials come from the environment and profiles; they are never stored",
        )
    if not separator or not bucket or not key:
        raise InvalidInput(
            f"{address!r} is not the complete address of an object",
            hint="write it with its scheme, such as s3://bucket/key or file:///folder/file",
        )
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise InvalidInput(f"the key of {address!r} has an empty, '.' or '..' part")
    return f"{_scheme(scheme)}://{bucket}/{key}"


def url_of(root: str, address: str) -> str:
    """Return the whole URL of an object in the storage at ``root``."""
    return f"{root.rstrip('/')}/{quote(address) if root.startswith('file:') else address}"


def split(url: str) -> tuple[str, str]:
    """Split an ``object_url`` into (root of its storage, address in it)."""
    if url.startswith("file://"):
        return "file:///", path_of(url).lstrip("/")
    scheme, _, location = url.partition("://")
    bucket, _, key = location.partition("/")
    return f"{scheme}://{bucket}", key


def path_of(url: str) -> str:
    """Return the path of a ``file://`` URL, as the operating system writes it."""
    return unquote(urlsplit(url).path)


def redacted(url: str) -> str:
    """Return a URL of a database, a storage or a server without its secrets.

    It need not be valid: an unescaped password is hidden with everything possibly belonging to it,
    which may hide the host.
    """
    scheme, separator, location = url.partition("://")
    if not separator:
        looks_secret = "@" in url and not url.startswith(("/", ".", "~"))
        return f"{scheme.partition(':')[0]}:{HIDDEN}" if looks_secret else url
    if scheme.lower() in ("file", "sqlite", "memory"):
        return url
    if scheme.lower() == "sc":
        location, parameters, _ = location.partition(";")
        return f"sc://{_without_user(location)}{';' + HIDDEN if parameters else ''}"
    if _SCHEME_ALIASES.get(scheme.lower(), scheme.lower()) in _SCHEMES:
        location, options, _ = location.partition("?")
        if not re.fullmatch(r"(?:[\w-]+@)?[^:@/]*", location.partition("/")[0]):
            location = _without_user(location)
        return f"{scheme}://{location}{'?' + HIDDEN if options else ''}"
    return f"{scheme}://{_database(location)}"


def scrubbed(text: str, url: str) -> str:
    """Remove the secrets of a URL from a foreign text about it."""
    text = text.replace(url, redacted(url))
    secrets = re.findall(r"[;&?]\s*(?!use_ssl\b)\w+=([^;&]+)", url)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _database(location: str) -> str:
    before, query, options = location.partition("?")
    if "@" in options:
        # Part of a password or of an option; unknown which.
        return HIDDEN
    place = _without_user(before)
    if not query:
        return place
    shown = []
    for option in options.split("&"):
        name, equals, _ = option.partition("=")
        hidden = f"{name}={HIDDEN}" if equals and name.isidentifier() else HIDDEN
        shown.append(option if name in _PLAIN_OPTIONS else hidden)
    return f"{place}?{'&'.join(shown)}"


def _without_user(location: str) -> str:
    """Return the text after the last ``@``, after the user if distinguishable from a password."""
    before, at, place = location.rpartition("@")
    if not _SERVERS.fullmatch(place.partition("/")[0]):
        place = HIDDEN
    user, colon, _ = before.partition(":")
    if not re.fullmatch(r"[\w.-]*", user):
        user = HIDDEN
    return f"{user}:{HIDDEN}@{place}" if at and colon else f"{user}{at}{place}"


def _scheme(written: str) -> str:
    scheme = _SCHEME_ALIASES.get(written.lower(), written.lower())
    if scheme not in _SCHEMES:
        raise InvalidInput(
            f"there is no storage of the kind {written!r}",
            hint=f"use one of {', '.join(_SCHEMES)}",
        )
    return scheme


def _file_url(path: Path) -> str:
    return path.expanduser().resolve().as_uri()
