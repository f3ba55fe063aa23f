"""Protection: what the setting ``protect`` keeps, and the memory of it.

An object stays that ever had a path which a glob matches. Of what was committed, only containers
tell paths, and the run that keeps an object takes the dead containers. So before the first of them
goes, a run writes down what it found: addresses and paths, as Parquet below
``_reclaim/protected/``. A manifest names all such files with their hashes, and the record of the
run, in the store, has the manifest's. Every later plan reads them.

A list that is not as its run recorded it stops every plan: without it something would go.
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
MOST_PARTS = 32
"""Most files that are kept apart; of more, one list is made, in which each path is once."""
GENERATION, ADDRESS = "generation", "address"


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    files: list[File]


@dataclass(frozen=True, slots=True)
class Memory:
    """The paths that runs remembered: with addresses, as ``PATHS``, in the store's own storage."""

    generation: int = 0
    """Each memory has one more than that which it was made from."""
    manifest: str = ""
    """Its address; "" if there is none."""
    parts: Sequence[Part] = ()

    def addresses(self) -> Sequence[str]:
        """Every file of it."""
        return [self.manifest, *(part.address for part in self.parts)] if self.manifest else ()


@dataclass(frozen=True, slots=True)
class Protection:
    """The objects that a plan found to be protected."""

    shields: Sequence[Part] = ()
    """Addresses with the numbers of globs, for judging."""
    matches: Matches = field(default_factory=Matches)
    """The paths that dead containers told: to be remembered before they go."""


NO_PROTECTION = Protection()


def find_memory(store: Store, storage: Storage) -> Memory:
    """The newest memory of a store; refused if it cannot be read."""
    runs = store.runs()
    if damaged := [run.id for run in runs if run.phase is Phase.UNREADABLE]:
        raise PlanRefused(
            f"the record of run {damaged[0]} is damaged, and may name what `protect` keeps",
            hint="nothing was planned; restore the database from a backup, or unset `protect` "
            "for good: what only it keeps goes then",
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
    """Refuse where a run has remembered something that the store has no record of: its records are
    older than that."""
    folder = f"{store.format.prefix}{FOLDER}/"
    known = {run.id for run in runs}
    for stored in storage.list(folder):
        run = stored.address.removeprefix(folder).partition("/")[0]
        if run not in known:
            raise PlanRefused(
                f"{folder}{run}/ has what `protect` keeps, of a run that {store.name} has no "
                "record of: its records are older",
                hint="nothing was planned or deleted; restore newer records, or unset `protect` "
                "for good: what only it keeps goes then",
            )


def _newest(runs: Sequence[RunRecord]) -> ProtectedMemory:
    """The newest memory that records name.

    A run that gave the memory up and was undone has not given it up.
    """
    noted = [
        run.protected
        for run in runs
        if run.protected is not None and (run.phase is not Phase.UNDONE or run.protected.address)
    ]
    return max(noted, key=lambda memory: memory.generation, default=ProtectedMemory(0))


def _damaged(address: str) -> PlanRefused:
    return PlanRefused(
        f"{address}, which names what the setting `protect` keeps, is missing or was changed",
        hint="nothing was planned or deleted; restore it from a backup, or unset `protect` for "
        "good: what only it keeps goes then",
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
    """The objects that the globs of a store protect, by every path that anything tells.

    ``listed`` has what dead containers list, where that was read before. Dead containers are read
    before the memory is: what another run takes meanwhile, it has remembered by then.
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
            f"{containers.dead} containers of removed {store.noun}s were to be asked for protected "
            f"paths, and {matches.containers} were",
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
        lost = [part.address for part in memory.parts if part.address in error.message]
        if lost:
            raise _damaged(lost[0]) from error
        raise


def hold_memory(seen: Observation, request: RootRequest) -> Observation:
    """An observation that also holds the files of the memory.

    Without globs nobody needs them; a run that is applied then gives the memory up.
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
    """An observation that also holds objects which became protected since the plan.

    They are protected by paths in the ``unplanned`` snapshots, which came and went since, or
    remembered by other runs by now. ``own`` is a folder in the storage of the plan.
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
            f"{protection.matches.unread} containers of {store.noun}s that came and went since the "
            "plan was made cannot be read, and may list what `protect` keeps",
            hint="nothing was deleted; plan it again",
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
    """Remember what a plan found to be protected, before its containers go.

    Returns the part for the record of the run; None if the memory stays as it is. ``place`` is
    where the plan is. To be called under the lock.
    """
    storage = opener(store.storage.url)
    if store.deleted:
        return None
    if not seen.protect:
        # What was kept by globs that are gone is forgotten with them.
        newest = _newest(store.runs())
        return ProtectedMemory(newest.generation + 1) if newest.address else None
    if not planned.protected:
        return None
    memory = find_memory(store, storage)
    # A run may be applied more than once, and what it remembered before still counts.
    folder = f"{store.format.prefix}{FOLDER}/{planned.run}/{new_uid()}/"
    own = Place(store.storage.url, folder)
    found = [file.part for file in planned.protected]
    parts = [*memory.parts, *pipelines.copy(engine, CopyRequest(found, place.url, own)).parts]
    if len(parts) > MOST_PARTS:
        parts = list(pipelines.merge(engine, MergeRequest(seen.protect, parts, own.below("all"))))
    body = _Manifest(files=[File.of(part) for part in parts]).model_dump(mode="json")
    data = json.dumps(body, indent=2).encode()
    address = own.at(MANIFEST)
    storage.put(address, data)
    storage.flush([*(part.address for part in parts), address])
    return ProtectedMemory(memory.generation + 1, address, hashlib.sha256(data).hexdigest())
