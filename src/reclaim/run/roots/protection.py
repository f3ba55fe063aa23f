"""Protection: objects kept by the setting ``protect``, and the protected list of a store.

An object stays if it ever had a path matched by a glob. Paths of committed objects are recorded
only in containers, and the run that keeps an object deletes the dead containers. So before the
first container is deleted, a run writes the matched addresses and paths to Parquet files in
``_reclaim/protected/``. A manifest has the names and hashes of all such files; the run record, in
the store, has the hash of the manifest. Every later plan reads these files.

A modified or missing file stops every plan, because protected objects would be deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict, ValidationError

from reclaim.engine import pipelines
from reclaim.engine.answers import NO_CONTAINERS, ContainerFiles
from reclaim.engine.base import Engine
from reclaim.engine.incremental import CopyRequest
from reclaim.engine.requests import ExpandRequest
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_hashed
from reclaim.engine.tasks.shielding import Matches, MatchRequest, MergeRequest, ShieldRequest
from reclaim.errors import IncompleteRead, NotFound, PlanRefused
from reclaim.ids import new_uid
from reclaim.model import SnapshotId
from reclaim.run.plan.dead_snapshots import dead_containers
from reclaim.run.plan.plan_document import File, PlanDocument
from reclaim.run.roots.request import RootRequest, holding
from reclaim.run_record import Phase, ProtectedMemory, RunRecord
from reclaim.storage import Storage
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation

FOLDER = "_reclaim/protected"
MANIFEST = "protected.json"
FORMAT = 1
MAX_PARTS = 32
"""Maximum number of separate files; more are merged into a list without duplicate paths."""
GENERATION, ADDRESS = "generation", "address"


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    files: list[File]


@dataclass(frozen=True, slots=True)
class Memory:
    """Remembered paths with addresses, as ``PATHS``, in the store's own storage."""

    generation: int = 0
    """Incremented with each new version of the list."""
    manifest: str = ""
    """Address of the manifest; "" if there is none."""
    parts: Sequence[Part] = ()

    def addresses(self) -> Sequence[str]:
        """Addresses of all files."""
        return [self.manifest, *(part.address for part in self.parts)] if self.manifest else ()


@dataclass(frozen=True, slots=True)
class Protection:
    """Protected objects found by a plan."""

    shields: Sequence[Part] = ()
    """Addresses with the numbers of globs, for judging."""
    matches: Matches = field(default_factory=Matches)
    """Paths listed by dead containers, to be remembered before their deletion."""


NO_PROTECTION = Protection()


def find_memory(store: Store, storage: Storage) -> Memory:
    """Read the newest memory of a store. Refuse an unreadable memory."""
    runs = store.runs()
    if damaged := [run.id for run in runs if run.phase is Phase.UNREADABLE]:
        raise PlanRefused(
            f"the record of run {damaged[0]} is damaged, and may name objects kept by `protect`",
            hint="nothing was planned; restore the database from a backup, or unset `protect` "
            "permanently: objects kept only by `protect` are then deleted",
        )
    _check_known(store, storage, runs)
    newest = _newest(runs)
    generation, address = newest.generation, newest.address
    if not address:
        return Memory(generation)
    try:
        data = storage.get(address)
        if hashlib.sha256(data).hexdigest() != newest.sha256:
            raise _damaged(address)
        files = _Manifest.model_validate_json(data).files
    except (NotFound, ValidationError) as error:
        raise _damaged(address) from error
    return Memory(generation, address, [file.part for file in files])


def _check_known(store: Store, storage: Storage, runs: Sequence[RunRecord]) -> None:
    """Refuse if a run unknown to the store has left a memory: the store's records are too old."""
    folder = f"{store.format.prefix}{FOLDER}/"
    known = {run.id for run in runs}
    for stored in storage.list(folder):
        run = stored.address.removeprefix(folder).partition("/")[0]
        if run not in known:
            raise PlanRefused(
                f"{folder}{run}/ lists objects kept by `protect`, but {store.name} has no record "
                "of the run: its records are older",
                hint="nothing was planned or deleted; restore newer records, or unset `protect` "
                "permanently: objects kept only by `protect` are then deleted",
            )


def _newest(runs: Sequence[RunRecord]) -> ProtectedMemory:
    """Newest memory in the run records.

    The memory dropped by an undone run is still valid.
    """
    memories = [
        run.protected
        for run in runs
        if run.protected is not None and (run.phase is not Phase.UNDONE or run.protected.address)
    ]
    return max(memories, key=lambda memory: memory.generation, default=ProtectedMemory(0))


def _damaged(address: str) -> PlanRefused:
    return PlanRefused(
        f"{address}, the list of objects kept by `protect`, is missing or was changed",
        hint="nothing was planned or deleted; restore it from a backup, or unset `protect` "
        "permanently: objects kept only by `protect` are then deleted",
    )


def find_protection(
    store: Store,
    engine: Engine,
    seen: Observation,
    containers: ContainerFiles,
    *,
    place: Place,
    work: Place,
    opener: Opener,
    listed: Matches | None = None,
) -> Protection:
    """Find the objects protected by the globs of a store, by all known paths.

    ``listed`` has the entries of dead containers, if already read. Dead containers are read before
    the memory: paths of containers deleted meanwhile are in the memory by then.
    """
    globs = seen.protect
    if not globs:
        return NO_PROTECTION
    matches = Matches()
    if listed is not None:
        if listed.parts:
            matches = pipelines.match(
                engine, MatchRequest(store.format, (), globs, place, listed.parts)
            )
        matches = replace(matches, unread=listed.unread)
    elif containers.dead:
        matches = pipelines.match(
            engine, MatchRequest(store.format, containers.parts, globs, place)
        )
    if matches.containers != containers.dead:
        raise IncompleteRead(
            f"{containers.dead} containers of removed {store.noun}s were expected in the search "
            f"for protected paths, but {matches.containers} were read",
            hint="nothing was planned; run it again, and look at the storage if it repeats",
            expected=containers.dead,
            read=matches.containers,
        )
    memory = find_memory(store, opener(store.storage.url))
    request = ShieldRequest(
        globs,
        matches.parts,
        store.storage.url,
        memory.parts,
        seen.protected_paths,
        work.below("shields"),
    )
    try:
        return Protection(pipelines.shield(engine, request), matches)
    except PlanRefused as error:
        damaged = [part.address for part in memory.parts if part.address in error.message]
        if damaged:
            raise _damaged(damaged[0]) from error
        raise


def hold_memory(seen: Observation, request: RootRequest) -> Observation:
    """Add the files of the memory to the held addresses.

    Without globs the files are unneeded; the next apply drops the memory.
    """
    if not seen.protect:
        return seen
    addresses = find_memory(request.store, request.storage).addresses()
    if not addresses:
        return seen
    return holding(seen, [request.write("protected", addresses)])


def hold_protected(
    seen: Observation,
    store: Store,
    engine: Engine,
    unplanned: Collection[SnapshotId],
    *,
    own: Place,
    opener: Opener,
) -> Observation:
    """Add objects protected since the plan.

    They are protected by paths in the ``unplanned`` snapshots, created and deleted since the plan,
    or in a newer memory. ``own`` is a folder in the storage of the plan.
    """
    if not seen.protect or store.deleted:
        return seen
    containers = NO_CONTAINERS
    named = dead_containers(seen, unplanned)
    if named.num_rows:
        request = ExpandRequest(store.format, named, own.below("unplanned"))
        containers = pipelines.expand(engine, request)
    protection = find_protection(
        store, engine, seen, containers, place=own.below("protected"), work=own, opener=opener
    )
    if protection.matches.unread:
        raise PlanRefused(
            f"{protection.matches.unread} containers of {store.noun}s created and deleted since "
            "the plan cannot be read, and may list objects kept by `protect`",
            hint="nothing was deleted; make a new plan",
        )
    storage = opener(own.url)
    held = []
    for number, part in enumerate(protection.shields):
        rows = read_part(storage, part, ["address"])
        held.append(write_hashed(storage, own.at(f"protected-{number}"), rows))
    return holding(seen, held)


def remember(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    seen: Observation,
    *,
    opener: Opener,
) -> ProtectedMemory | None:
    """Remember the protected paths found by a plan, before its containers are deleted.

    Return the entry for the run record; None if the memory is unchanged. ``place`` is the folder of
    the plan. Call under the lock.
    """
    storage = opener(store.storage.url)
    if store.deleted:
        return None
    if not seen.protect:
        # Without globs, the memory is dropped.
        newest = _newest(store.runs())
        return ProtectedMemory(newest.generation + 1) if newest.address else None
    if not planned.protected:
        return None
    memory = find_memory(store, storage)
    # A run may be applied more than once, and its earlier memory stays valid.
    folder = f"{store.format.prefix}{FOLDER}/{planned.run}/{new_uid()}/"
    own = Place(store.storage.url, folder)
    planned_files = [file.part for file in planned.protected]
    parts = [
        *memory.parts,
        *pipelines.copy(engine, CopyRequest(planned_files, place.url, own)).parts,
    ]
    if len(parts) > MAX_PARTS:
        parts = list(pipelines.merge(engine, MergeRequest(seen.protect, parts, own.below("all"))))
    body = _Manifest(files=[File.of(part) for part in parts]).model_dump(mode="json")
    data = json.dumps(body, indent=2).encode()
    address = own.at(MANIFEST)
    storage.put(address, data)
    storage.flush([*(part.address for part in parts), address])
    return ProtectedMemory(memory.generation + 1, address, hashlib.sha256(data).hexdigest())
