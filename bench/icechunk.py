"""The figures of Icechunk repositories, in one run with the library and after the session is up."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import numpy.typing as npt
import obstore
import zarr

from bench.delay import delayed
from bench.figure import Figure, Timer, rate
from bench.icechunk_repository import SPECS, LargeRepository
from reclaim.engine.tasks.parts import Place
from reclaim.policy import Policy, Rules
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.decide import KEEPS_ALL
from reclaim.run.plan.history_only import decide_history
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.sweep.removal import DELETE
from reclaim.stores.icechunk.envelope import FileType, unwrap
from reclaim.stores.icechunk.manifest_file import decode_manifest, decode_payload
from reclaim.stores.icechunk.object_ids import ID_BYTES
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from tests.support.servers import ACCESS_KEY, SECRET_KEY, seaweedfs

icechunk.set_logs_filter("error")

CHUNKS = 100_000
"""Chunks that each commit of a large repository has."""
FAR_AWAY = 0.02
"""Seconds that are added to each request."""
EVERYTHING_IS_OLD = Margins(objects=timedelta(0))


def _plan(
    location: str, spark: Any, place: Path | None = None, *, policy: Policy = KEEPS_ALL
) -> WrittenPlan:
    options = PlanOptions(policy=policy, margins=EVERYTHING_IS_OLD, allowed_fraction=1)
    if place is not None:
        place.mkdir()
        options = replace(options, place=Place(place.as_uri(), ""))
    return make_plan(IcechunkStore(location), spark, options)


def _collect(repository: Any, *, dry_run: bool) -> Any:
    return repository.garbage_collect(datetime.now(UTC) + timedelta(minutes=1), dry_run=dry_run)


def plan_chunks(runs: int = 4) -> Figure:
    """A plan of 1 M chunks, 900 k of them garbage, against the library's dry run."""
    return _chunks(runs)[0]


def apply_chunks(runs: int = 4) -> Figure:
    """Plan and apply of the same against the library's collection."""
    return _chunks(runs)[1]


@cache
def _chunks(runs: int) -> tuple[Figure, Figure]:
    from bench.collect import engine

    spark = engine()
    planned, applied, notes = [], [], []
    with tempfile.TemporaryDirectory() as name:
        whole = LargeRepository.create(
            Path(name) / "whole", SPECS[-1], chunks=CHUNKS, live=1, dead=9
        )
        for run in range(runs):
            took = _take_both(whole, Path(name), spark, ours_first=run % 2 == 1)
            planned.append(took["plan"] / took["dry"])
            applied.append((took["plan"] + took["apply"]) / took["collect"])
            notes.append(
                f"plan {took['plan']:.1f} s, dry run {took['dry']:.1f} s, "
                f"apply {took['apply']:.1f} s, collection {took['collect']:.1f} s"
            )
    target = "at most 1.5 dry runs of the library"
    return (
        Figure("plan of 1 M chunks", planned, target, lambda ratio: ratio <= 1.5, notes),
        Figure(
            "plan and apply",
            applied,
            "no slower than the library's collection",
            lambda ratio: ratio <= 1,
            notes,
        ),
    )


def _take_both(
    whole: LargeRepository, folder: Path, spark: Any, *, ours_first: bool
) -> dict[str, float]:
    """Seconds of each side, of which one deletes first: a disk is still busy with that later."""
    ours, theirs = (_copy(whole, folder / copy) for copy in ("ours", "theirs"))
    timer = Timer()
    with timer("dry"):
        _collect(theirs.open(), dry_run=True)
    with timer("plan"):
        plan = _plan(str(ours.folder), spark)

    def collect() -> int:
        with timer("collect"):
            gone = _collect(theirs.open(), dry_run=False)
        deleted: int = gone.chunks_deleted + gone.manifests_deleted
        return deleted + int(gone.snapshots_deleted + gone.transaction_logs_deleted)

    def apply() -> int:
        store = IcechunkStore(str(ours.folder))
        with timer("apply"):
            done = apply_plan(store, spark, plan.place, removal=DELETE)
        return int(done.summary()["objects"])

    counts = []
    for side in (apply, collect) if ours_first else (collect, apply):
        os.sync()
        counts.append(side())
    assert counts[0] == counts[1], counts
    for copy in (ours, theirs):
        shutil.rmtree(copy.folder)
    return timer.seconds


def _copy(whole: LargeRepository, folder: Path) -> LargeRepository:
    subprocess.run(["cp", "-a", str(whole.folder), str(folder)], check=True)
    os.sync()
    return LargeRepository(folder)


def plan_far(runs: int = 3, commits: int = 3_000) -> Figure:
    """Both plans of 3,000 commits of spec 1, 20 ms away, against the library's expire and dry run.

    Half of the commits are expired. The library expires copies, and makes the dry run with the
    repository that it has opened for that, so that it finds in memory what it has read before.
    """
    from bench.collect import engine
    from reclaim.engine.spark.session import build_session

    ratios, notes = [], []
    with (
        tempfile.TemporaryDirectory() as name,
        seaweedfs(Path(name) / "s3") as server,
        delayed(server.endpoint, FAR_AWAY) as proxy,
    ):
        bucket = server.new_bucket().removeprefix("s3://")
        made = _many_commits(Path(name) / "repository", commits)
        bound = _middle(made)
        _upload(made, server.store(bucket), "ours")
        environment = {**server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}
        with _environment(environment):
            spark = engine()
            # Of a session that was there before, the workers are told as well.
            build_session().sparkContext.environment.update(environment)
            for run in range(runs):
                theirs = f"theirs-{run}"
                _upload(made, server.store(bucket), theirs)
                ours, place = f"s3://{bucket}/ours", Path(name) / f"plan-{run}"
                timer = Timer()
                before = len(proxy.requests())
                with timer("expire-plan"):
                    rules = PlanOptions(Policy(bound))
                    edit = decide_history(IcechunkStore(ours), rules).decided.edit
                middle = len(proxy.requests())
                with timer("plan"):
                    plan = _plan(ours, spark, place, policy=Policy(bound))
                asked = proxy.requests()
                repository = _in_bucket(bucket, theirs, proxy.endpoint)
                with timer("expire"):
                    released = repository.expire_snapshots(bound.older_than)
                with timer("dry"):
                    gone = _collect(repository, dry_run=True)
                assert set(edit.unreachable) == set(released), len(released)
                assert plan.document.dead == gone.snapshots_deleted, (plan.document.dead, gone)
                for requests in (asked[before:middle], asked[middle:]):
                    assert not _twice(requests), _twice(requests)[:5]
                took = timer.seconds
                ratios.append((took["expire"] + took["dry"]) / (took["expire-plan"] + took["plan"]))
                notes.append(
                    f"expire-plan {took['expire-plan']:.1f} s, plan {took['plan']:.1f} s; "
                    f"expire {took['expire']:.1f} s, dry run {took['dry']:.1f} s; "
                    f"{middle - before} and {len(asked) - middle} requests of ours; "
                    f"load {os.getloadavg()[0]:.1f}"
                )
    return Figure(
        "both plans of 3,000 commits",
        ratios,
        "at least 5 times as fast as the library's expire and dry run",
        lambda ratio: ratio >= 5,
        notes,
    )


def _middle(folder: Path) -> Rules:
    """Rules by which half of the commits are expired."""
    storage = icechunk.local_filesystem_storage(str(folder))
    times = [info.written_at for info in icechunk.Repository.open(storage).ancestry(branch="main")]
    return Rules(older_than=sorted(times)[len(times) // 2])


def _twice(requests: Sequence[str]) -> list[str]:
    """The snapshots and manifests that were asked for more than once."""
    counts = Counter(
        request for request in requests if "/snapshots/" in request or "/manifests/" in request
    )
    return [request for request, count in counts.items() if count > 1]


def _many_commits(folder: Path, commits: int) -> Path:
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=0)
    asked: dict[str, Any] = {"spec_version": 1} if len(SPECS) > 1 else {}
    storage = icechunk.local_filesystem_storage(str(folder))
    repository = icechunk.Repository.create(storage, config=config, **asked)
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    group.create_array("a", shape=(10,), chunks=(1,), dtype="u1", compressors=None)
    session.commit("an array")
    for number in range(commits):
        session = repository.writable_session("main")
        array: Any = zarr.open_group(session.store, mode="a")["a"]
        array[number % 10] = number % 250 + 1
        session.commit(f"change {number}")
    return folder


def _upload(folder: Path, store: Any, name: str) -> None:
    files = [file for file in folder.rglob("*") if file.is_file()]

    def put(file: Path) -> None:
        obstore.put(store, f"{name}/{file.relative_to(folder)}", file.read_bytes())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, files))


def _in_bucket(bucket: str, name: str, endpoint: str) -> Any:
    storage = icechunk.s3_storage(
        bucket=bucket,
        prefix=name,
        endpoint_url=endpoint,
        allow_http=True,
        force_path_style=True,
        region="us-east-1",
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
    )
    return icechunk.Repository.open(storage)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def decode(runs: int = 7, chunks: int = CHUNKS, repeats: int = 20) -> Figure:
    """Decoding a manifest against ``np.frombuffer`` and a gather over the same bytes."""
    ratios, notes = [], []
    with tempfile.TemporaryDirectory() as name:
        made = LargeRepository.create(Path(name) / "r", SPECS[-1], chunks=chunks, live=1, dead=0)
        [file] = (made.folder / "manifests").iterdir()
        data = file.read_bytes()
    spec, payload = unwrap(data, FileType.MANIFEST, file.name)
    assert np.array_equal(_gather(payload), decode_payload(payload, spec, file.name).chunks)
    for _ in range(runs):
        # Both are a part of a second, and others are at work on most machines.
        timer = Timer(time.process_time)
        with timer("gather"):
            for _ in range(repeats):
                _gather(payload)
        with timer("decode"):
            for _ in range(repeats):
                decode_payload(payload, spec, file.name)
        with timer("whole"):
            for _ in range(repeats):
                decode_manifest(data, file.name)
        took = timer.seconds
        ratios.append(took["gather"] / took["decode"])
        count = repeats * chunks
        notes.append(
            f"decoded {rate(count, took['decode'])}, gathered {rate(count, took['gather'])}; "
            f"with decompression {rate(count, took['whole'])}"
        )
    target = "at least half the rate of a bare gather"
    return Figure("decoding of manifests", ratios, target, lambda ratio: ratio >= 0.5, notes)


def _gather(payload: bytes) -> npt.NDArray[np.uint8]:
    """The chunk ids of the only array of a manifest, and nothing checked."""
    first, count = _refs(payload)
    tables = np.frombuffer(payload, "<u4", count, first) + np.arange(first, first + 4 * count, 4)
    slots = tables - _everywhere(payload, "<i4")[tables]
    fields = tables + _everywhere(payload, "<u2")[slots + 4 + 2 * 4]
    ids: npt.NDArray[np.uint8] = _everywhere(payload, f"V{ID_BYTES}")[fields].view(np.uint8)
    return ids.reshape(count, ID_BYTES)


def _everywhere(payload: bytes, kind: str) -> npt.NDArray[Any]:
    dtype = np.dtype(kind)
    places = len(payload) - dtype.itemsize + 1
    return np.ndarray((places,), dtype, buffer=payload, strides=(1,))


def _refs(payload: bytes) -> tuple[int, int]:
    """Where the refs of the first array begin, and how many there are."""

    def target(table: int, slot: int) -> int:
        slots = table - struct.unpack_from("<i", payload, table)[0]
        at = table + struct.unpack_from("<H", payload, slots + 4 + 2 * slot)[0]
        return int(at + struct.unpack_from("<I", payload, at)[0])

    root = struct.unpack_from("<I", payload)[0]
    arrays = target(root, 1) + 4
    array = arrays + struct.unpack_from("<I", payload, arrays)[0]
    refs = target(array, 1)
    return refs + 4, struct.unpack_from("<I", payload, refs)[0]


def memory(small: int = 10, large: int = 30, chunks: int = CHUNKS) -> Figure:
    """Peak memory of the process that plans, at 1 M and at 3 M live chunks."""
    peaks: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "repository"
        made = LargeRepository.create(
            folder, SPECS[-1], chunks=chunks, live=small, dead=0, linked=True
        )
        for commits in (small, large):
            made.add_live(commits - small)
            command = [sys.executable, "-m", "bench.icechunk_peak", str(folder)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            peak, live = output.split()[-2:]
            assert int(live) >= commits * chunks, live
            peaks[commits * chunks] = float(peak)
    difference = peaks[large * chunks] - peaks[small * chunks]
    notes = [f"{count:,} live chunks: {peak:.0f} MB" for count, peak in peaks.items()]
    return Figure(
        "peak memory of a plan, growth in MB",
        [difference],
        "at most 100 MB",
        lambda growth: growth <= 100,
        notes,
    )


FIGURES: dict[str, Callable[[], Figure]] = {
    "icechunk-plan": plan_chunks,
    "icechunk-apply": apply_chunks,
    "icechunk-far": plan_far,
    "icechunk-decode": decode,
    "icechunk-memory": memory,
}
