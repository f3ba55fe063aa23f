"""Mounts inside a storage folder, under which a file can have a second name.

The system's table of mounts has those too that are of the same file system (bind mounts), which no
number of a folder tells apart. Where there is no such table, there are no such mounts either.
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
    """Refuse mounts inside a storage folder, as far as a listing of a folder in it meets them.

    With ``inner_allowed`` the folders directly below the root may be mounts, if no two of them
    have a file in common.
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
        if inside == mount.point or not _meet(inside, listed.strip("/")):
            continue
        if "/" in inside or not inner_allowed:
            raise UnsafeFolder(
                f"{mount.point!r} is a mount inside the storage {str(root)!r}",
                hint="unmount it, or mount the storage as a whole; nothing was deleted there",
            )
        direct.append(mount)
    _check_apart(real, direct, mounts)


def _check_apart(root: str, direct: Sequence[_Mount], mounts: Sequence[_Mount]) -> None:
    """Refuse mounts directly below a folder that show the same files, or those of the folder."""
    if not direct:
        return
    base = max((one for one in mounts if _holds(one.point, root)), key=lambda one: len(one.point))
    rest = os.path.relpath(root, base.point)
    own = _Mount(root, base.device, os.path.normpath(os.path.join(base.source, rest)))  # noqa: PTH118
    inside = [mount for mount in mounts if mount.point.rpartition("/")[0] == root.rstrip("/")]
    places = [own, *(mount for mount in inside if mount.point != root)]
    for one, other in combinations(places, 2):
        if one.device == other.device and _meet(one.source, other.source):
            raise UnsafeFolder(
                f"{one.point!r} and {other.point!r} are mounts that show the same files",
                hint="unmount one of them; nothing was deleted there",
            )


def _holds(folder: str, path: str) -> bool:
    """Whether a path is a folder, or lies inside it; "" holds all."""
    return not folder or f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _meet(one: str, other: str) -> bool:
    return _holds(one, other) or _holds(other, one)


def _parse(table: str) -> Sequence[_Mount]:
    """The mounts in a table; of those at one place the last, which hides the others."""
    lines = (line.split(" ") for line in table.splitlines())
    found = (_Mount(_plain(line[4]), line[2], _plain(line[3])) for line in lines if len(line) > 4)
    return list({mount.point: mount for mount in found}.values())


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


def _escaped(text: str) -> str:
    """A path as the table writes it."""
    return re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", text)
