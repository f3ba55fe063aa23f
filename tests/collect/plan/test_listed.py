"""A listing without half of what is live is of another place, or objects are lost: refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from reclaim.engine.tasks import sampling
from reclaim.engine.tasks.sampling import Sample, count_sampled
from reclaim.errors import IncompleteRead
from reclaim.model import StoredObject
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.checkpoints import Mode
from reclaim.storage import Storage
from reclaim.testing import StorageWrapper
from tests.collect.helpers.refusing import refused
from tests.collect.helpers.world import World, bury
from tests.collect.plan.test_inventory import inventory, listed
from tests.lifecycle.ruled import plan_rules


class Hiding(StorageWrapper):
    """A storage that lists some of its objects nowhere; whoever knows a name can read it."""

    def __init__(self, inner: Storage, hidden: Callable[[str], bool]) -> None:
        super().__init__(inner)
        self._hidden = hidden

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        for stored in super().list(prefix, after=after, until=until):
            if not self._hidden(stored.address):
                yield stored

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        for batch in super().batches(prefix, after=after, until=until):
            seen = [not self._hidden(name) for name in batch.column("address").to_pylist()]
            yield batch.filter(pa.array(seen, pa.bool_()))


def is_ours(address: str) -> bool:
    return "/branches/" in address or "/meta/" in address


def write(world: World, files: int) -> Sequence[str]:
    """A commit of some files; what it needs, sorted."""
    main = world.repo.branch("main")
    for number in range(files):
        main.put(f"{number}", b"x")
    main.commit("some")
    return sorted(world.needed())


RUNS: dict[str, Callable[[World, Storage], WrittenPlan]] = {
    "gc": lambda world, storage: world.plan(storage=storage),
    "clean": lambda world, storage: world.uncommitted(Mode.FULL, storage=storage),
    "optimized": lambda world, storage: world.uncommitted(Mode.INCREMENTAL, storage=storage),
    "branch": lambda world, storage: world.uncommitted(branch="main", storage=storage),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("files", [1, 300])
def test_an_empty_listing(local: World, run: str, files: int) -> None:
    world = local
    write(world, 1)
    world.apply(world.uncommitted(Mode.FULL))
    world.clock.advance(hours=1)
    main = world.repo.branch("main")
    for number in range(files):
        main.put(f"new/{number}", b"x")
    main.commit("more")
    world.clock.advance(hours=1)
    with refused(world, IncompleteRead, 6):
        RUNS[run](world, Hiding(world.storage, is_ours))
    RUNS[run](world, world.storage)


@pytest.mark.parametrize("more", [0, 1])
def test_half_of_what_is_live_has_to_be_listed(world: World, more: int) -> None:
    needed = write(world, 10)
    hidden = frozenset(needed[: len(needed) // 2 + more])
    world.age()
    storage = Hiding(world.storage, hidden.__contains__)
    if more:
        with refused(world, IncompleteRead, 6):
            world.plan(storage=storage)
    else:
        world.plan(storage=storage)


@pytest.mark.parametrize("more", [0, 1])
def test_an_inventory_with_half_of_what_is_live(local: World, more: int) -> None:
    needed = write(local, 10)
    hidden = frozenset(needed[: len(needed) // 2 + more])
    local.age()
    given = inventory(local, [one for one in listed(local) if one.address not in hidden])
    if more:
        with refused(local, IncompleteRead, 6):
            local.plan(inventory=given)
    else:
        local.plan(inventory=given)


def test_objects_that_are_lost_are_named(world: World) -> None:
    needed = write(world, 10)
    data = [address for address in needed if "/branches/" in address]
    world.age()
    for address in data[1:]:
        world.storage.delete(address)
    left = f"has {len(needed) - 9} of {len(needed)} live objects"
    with pytest.raises(IncompleteRead, match=left) as caught:
        world.plan()
    assert f"9 are not in the storage either, such as {data[1]}" in caught.value.message


def test_what_is_written_while_it_is_listed_need_not_be_listed(local: World) -> None:
    world = local
    write(world, 3)
    world.age()
    done: list[str] = []

    def commit(step: str) -> None:
        if step.startswith("list") and not done:
            done.append(step)
            other = world.other().branch("main")
            for number in range(50):
                other.put(f"new/{number}", b"x")
            other.commit("meanwhile")

    assert world.plan(step=commit).document.candidates == 0
    assert done
    # Nor what is younger than an inventory.
    given = inventory(world, listed(world))
    world.age()
    main = world.repo.branch("main")
    for number in range(100):
        main.put(f"later/{number}", b"x")
    main.commit("later")
    world.clock.advance(hours=1)
    assert world.plan(inventory=given).document.candidates == 0


def test_nothing_needs_to_be_listed_where_nothing_is_live(local: World) -> None:
    main = local.repo.branch("main")
    main.put("a", b"x")
    main.reset()
    local.age()
    assert local.plan(storage=Hiding(local.storage, is_ours)).document.candidates == 0


def test_what_lifecycle_rules_took_is_not_missing(local: World) -> None:
    needed = write(local, 40)
    local.age()
    local.apply(plan_rules(local, {"all": {"prefix": "", "days": 1}}))
    assert 2 * len(local.there() & set(needed)) < len(needed)
    local.age()
    local.plan()
    local.uncommitted(Mode.FULL)


def test_what_lies_elsewhere_is_not_looked_for(local: World, tmp_path: Path) -> None:
    main = local.repo.branch("main")
    for number in range(20):
        file = tmp_path / f"{number}"
        file.write_bytes(b"x")
        main.stage(f"{number}", str(file))
    main.put("own", b"x")
    main.commit("one")
    local.age()
    local.plan()


def test_a_dead_past_need_not_be_there(world: World) -> None:
    bury(world)
    world.apply(world.plan())
    world.age()
    world.plan()


def keys_of(addresses: Sequence[str]) -> sampling.Keys:
    return np.array([hash(address) & (1 << 64) - 1 for address in addresses], np.uint64)


def test_a_sample_does_not_depend_on_who_chose_it() -> None:
    addresses = [f"store/{number}" for number in range(5_000)]
    foreign = [f"other/{number}" for number in range(5_000)]
    within = partial(sampling.below, "store/")
    whole = Sample()
    everything = [*addresses, *foreign]
    whole.add(pa.chunked_array([everything]), keys_of(everything), within)
    samples = []
    for first in range(7):
        sample = Sample()
        for start in range(0, 5_000, 1_000):
            part = everything[first::7][start : start + 1_000]
            sample.add(pa.chunked_array([pa.array(part, pa.string())]), keys_of(part), within)
        samples.append(sample.encode())
    assert Sample.of(samples) == whole
    assert len(whole.addresses) == sampling.SIZE
    assert set(whole.addresses.values()) <= set(addresses)
    assert count_sampled(keys_of(addresses), whole.keys) == sampling.SIZE
    some = addresses[::2]
    assert count_sampled(keys_of(some), whole.keys) == len(
        set(some) & set(whole.addresses.values())
    )
