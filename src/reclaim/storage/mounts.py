"""Mounts inside a storage folder, which can give a file a second name.

The system's table of mounts includes bind mounts of the same file system, which a device number
cannot reveal. Systems without such a table have no bind mounts, either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from reclaim.errors import UnsafeFolder

TABLE = Path("/proc/self/mountinfo")

_ESCAPED = re.compile(r"\\([0-7]{3})")


class _Mount(NamedTuple):
    point: str
    device: str
    source: str
    """The path within the file system of the device."""


def check_mounts(root: Path, listed: str = "", *, inner_allowed: bool = False) -> None:
    """Refuse mounts inside a storage folder, as far as a listing of a folder in it reaches them.

    With ``inner_allowed``, direct subfolders of the root may be mounts, if no two of them share a
    file.
    """
    try:
        table = os.fsdecode(TABLE.read_bytes())
    except OSError:
        return
    real = os.path.realpath(root)
    before = f"{real.rstrip('/')}/"
    if f" {_escaped(before)}" not in table:
        return
    mounts = _parse(table)
    direct: list[_Mount] = []
    for mount in mounts:
        inside = mount.point.removeprefix(before)
        if inside == mount.point or not _overlap(inside, listed.strip("/")):
            continue
        if "/" in inside or not inner_allowed:
            raise UnsafeFolder(
                f"{mount.point!r} is a mount inside the storage {str(root)!r}",
                hint="unmount it, or mount the storage as a whole; nothing was deleted there",
            )
        direct.append(mount)
    _check_apart(real, direct, mounts)


def _check_apart(root: str, direct: Sequence[_Mount], mounts: Sequence[_Mount]) -> None:
    """Refuse mounts directly below a folder that show the same files, or files of the folder."""
    if not direct:
        return
    above = [mount for mount in mounts if _holds(mount.point, root)]
    base = max(above, key=lambda mount: len(mount.point))
    path = os.path.relpath(root, base.point)
    own = _Mount(root, base.device, os.path.normpath(os.path.join(base.source, path)))  # noqa: PTH118
    inside = [mount for mount in mounts if mount.point.rpartition("/")[0] == root.rstrip("/")]
    places = [own, *(mount for mount in inside if mount.point != root)]
    for first, second in combinations(places, 2):
        if first.device == second.device and _overlap(first.source, second.source):
            raise UnsafeFolder(
                f"{first.point!r} and {second.point!r} are mounts that show the same files",
                hint="unmount one of them; nothing was deleted there",
            )


def _holds(folder: str, path: str) -> bool:
    """Return whether a path is a folder, or inside it; "" contains everything."""
    return not folder or f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _overlap(first: str, second: str) -> bool:
    return _holds(first, second) or _holds(second, first)


def _parse(table: str) -> Sequence[_Mount]:
    """Return the mounts in a table; of several at the same place the last, which hides the
    others."""
    lines = (line.split(" ") for line in table.splitlines())
    rows = (_Mount(_plain(line[4]), line[2], _plain(line[3])) for line in lines if len(line) > 4)
    return list({mount.point: mount for mount in rows}.values())


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def _escaped(text: str) -> str:
    """Return a path with the escapes of the table."""
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", text)
