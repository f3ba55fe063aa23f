"""Addresses in the storage. Everything of a repository is below ``repos/<repo_uid>/``."""

from __future__ import annotations

import hashlib
import re

from reclaim.ids import new_uid

ROOT = "repos/"
MARKER = "_reclaim_root.json"
"""Object at the root of a storage, naming its catalog."""
HOME = "_reclaim_home.json"
"""Object next to it, naming the database that may collect there."""
PARTITION = "[0-9a-f]{14}_[0-9a-f]{32}"
"""Regular expression for the name of a partition."""
LONGEST_SEGMENT = 200
"""File systems allow 255 bytes, and some storages append to a name while writing."""

_UNSAFE = re.compile(r"[^a-z0-9._-]")
_CUT_ESCAPE = re.compile(r"%[0-9A-F]?$")


def is_partition(name: str) -> bool:
    """Whether a folder has the name of a partition."""
    return re.fullmatch(PARTITION, name) is not None


def repository(repo_uid: str) -> str:
    return f"{ROOT}{repo_uid}/"


def new_object(repo_uid: str, branch: str, partition: str, number: int) -> str:
    """New address for the bytes of an entry; the branch is a single percent-encoded segment.

    The last part starts with a number growing within the partition, so a database sorting by
    address adds new addresses in a single place.
    """
    name = f"{number:08x}{new_uid()[8:]}"
    return f"{repository(repo_uid)}branches/{segment(branch)}/{partition}/{name}"


def segment(branch: str) -> str:
    """Name of a branch's folder, distinct for each branch on every file system.

    Capital letters are percent-encoded too, because some file systems ignore case. A name too long
    for a folder is cut and ends in a hash.
    """
    encoded = _UNSAFE.sub(_escape, branch)
    if len(encoded) <= LONGEST_SEGMENT:
        return encoded
    digest = hashlib.sha256(branch.encode()).hexdigest()
    # Names encoded in full never contain a tilde. Escapes are not split.
    return f"{_CUT_ESCAPE.sub('', encoded[: LONGEST_SEGMENT - 65])}~{digest}"


def _escape(character: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in character[0].encode())


def new_container(repo_uid: str, partition: str, digest: str) -> str:
    """New address for a range or metarange with this hash of its rows."""
    return f"{repository(repo_uid)}_reclaim/meta/{partition}/{digest}-{new_uid()}"


def digest_of(container: str) -> str:
    """Hash in the name of a container."""
    return container.rsplit("/", 1)[-1].partition("-")[0]


def epochs(repo_uid: str) -> str:
    return f"{repository(repo_uid)}_reclaim/epoch/"


def epoch(repo_uid: str, number: int) -> str:
    return f"{epochs(repo_uid)}{number:020d}"


def run(repo_uid: str, run_id: str) -> str:
    """Folder of a run."""
    return f"{repository(repo_uid)}_reclaim/runs/{run_id}/"


def is_external(address: str) -> bool:
    """Whether an address is a full URL outside ``repos/``; such objects are never collected."""
    return "://" in address
