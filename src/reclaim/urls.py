"""The URLs of storages and objects: one spelling for each place.

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
_PLAIN_OBJECT = re.compile(r"(?:s3|gs|az)://[^/@]+(?:/(?!\.{1,2}(?:/|$))[^/]+)+")
"""An object's address that is spelled as ``object_url`` would spell it."""

ODD_ADDRESS = "(^|/)\\.{0,2}(/|$)|[\\x00-\\x1f\\x7f\ufffd]"
"""What makes an address odd, as a regular expression: a part that is empty, ``.`` or ``..``, a
control character, or what stands for text that cannot be read. Reclaim writes no such address, and
not every library reads it as the same key; so objects there are listed and otherwise left alone."""
_ODD = re.compile(ODD_ADDRESS)


def is_odd(address: str) -> bool:
    return _ODD.search(address) is not None


def normalize(location: str) -> str:
    """One spelling for each place: ``s3a://b//x/`` and ``s3://b/x`` are the same storage.

    Plain paths become ``file://`` URLs of the real path, so that a symbolic link does not
    give a folder a second name.
    """
    if not location.strip():
        raise InvalidInput("a storage location is empty")
    if "://" not in location:
        return _file_url(Path(location))
    parts = urlsplit(location)
    scheme = _scheme(parts.scheme)
    if scheme == "file":
        if parts.query or parts.fragment:
            raise InvalidInput(f"{location} has a '?' or '#': write %3F or %23 in a file URL")
        return _file_url(Path(unquote(parts.path)))
    if scheme != "memory" and not parts.netloc:
        raise InvalidInput(f"the storage URL {location} names no bucket")
    if parts.username or parts.password or parts.query:
        raise InvalidInput(
            f"the storage URL for {parts.hostname} carries credentials or options",
            hint="credentials come from the environment and profiles; they are never stored",
        )
    if "%" in parts.path:
        raise InvalidInput(f"the storage URL {location} has a percent sign in its path")
    path = posixpath.normpath("/" + parts.path.strip("/"))
    return f"{scheme}://{parts.netloc}{path}".rstrip("/")


def object_url(address: str) -> str:
    """One spelling for the address of an object. Keys are taken as they are, never decoded."""
    if _PLAIN_OBJECT.fullmatch(address):
        return address
    if address.startswith(("/", "file:")):
        return normalize(address)
    scheme, separator, rest = address.partition("://")
    bucket, _, key = rest.partition("/")
    if "@" in bucket:
        raise InvalidInput(
            f"an address on {bucket.rpartition('@')[2]} carries credentials",
            hint="credentials come from the environment and profiles; they are never stored",
        )
    if not separator or not bucket or not key:
        raise InvalidInput(
            f"{address!r} is not the whole address of an object",
            hint="write it with its scheme, such as s3://bucket/key or file:///folder/file",
        )
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise InvalidInput(f"the key of {address!r} has an empty, '.' or '..' part")
    return f"{_scheme(scheme)}://{bucket}/{key}"


def url_of(root: str, address: str) -> str:
    """The whole URL of an object in the storage at ``root``."""
    return f"{root.rstrip('/')}/{quote(address) if root.startswith('file:') else address}"


def split(url: str) -> tuple[str, str]:
    """An ``object_url`` as (root of its storage, address in it)."""
    if url.startswith("file://"):
        return "file:///", path_of(url).lstrip("/")
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


def path_of(url: str) -> str:
    """The path of a ``file://`` URL, as the operating system writes it."""
    return unquote(urlsplit(url).path)


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
