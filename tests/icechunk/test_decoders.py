"""The decoders against the real library: each file says what the library says of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import icechunk
import numpy as np
import pytest

from reclaim.errors import Corrupt, UnknownVersion
from reclaim.model import RefKind
from reclaim.stores.icechunk.envelope import HEADER_BYTES, FileType, unwrap
from reclaim.stores.icechunk.manifest_file import Manifest, decode_manifest
from reclaim.stores.icechunk.object_ids import is_id, name, names
from reclaim.stores.icechunk.ref_files import decode_ref, find_refs
from reclaim.stores.icechunk.repo_file import Availability, RepoFile, decode_repo
from reclaim.stores.icechunk.snapshot_file import SnapshotFile, decode_snapshot
from tests.icechunk.later_version import with_fields
from tests.icechunk.repositories import FIRST, NEWEST_SPEC, WrittenRepository

spec_2 = pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")


def snapshot(written: WrittenRepository, id: str) -> SnapshotFile:
    return decode_snapshot(written.data("snapshots", id), id)


def manifest(written: WrittenRepository, id: str) -> Manifest:
    return decode_manifest(written.data("manifests", id), id)


def repo(written: WrittenRepository) -> RepoFile:
    return decode_repo((written.folder / "repo").read_bytes(), "repo")


def manifests_of(written: WrittenRepository, id: str) -> list[str]:
    ids: list[str] = names(snapshot(written, id).manifests.ids).to_pylist()
    return ids


def chunks_of(written: WrittenRepository, id: str) -> set[str]:
    return {
        chunk
        for one in manifests_of(written, id)
        for chunk in names(manifest(written, one).chunks).to_pylist()
    }


# Snapshots


def test_a_snapshot(written: WrittenRepository, spec: int) -> None:
    first = written.write(1)
    second = written.write(2)
    with written.session() as group:
        group.require_group("deep/down")
    empty = written.tip()
    told = {info.id: info for info in written.repository.ancestry(branch="main")}
    for id, above in {FIRST: None, first: FIRST, second: first, empty: second}.items():
        decoded = snapshot(written, id)
        assert (decoded.id, decoded.spec) == (id, spec)
        assert (decoded.written_at, decoded.message) == (told[id].written_at, told[id].message)
        # In spec 2 the parent is in ``repo`` alone.
        assert decoded.parent == (above if spec == 1 else None)
        listed = written.manifests(id)
        assert sorted(
            zip(
                manifests_of(written, id),
                decoded.manifests.sizes.tolist(),
                decoded.manifests.refs.tolist(),
                strict=True,
            )
        ) == sorted(listed)
    assert snapshot(written, FIRST).nodes == 0
    assert snapshot(written, empty).nodes == 4


def test_many_manifests(tmp_path: Path, spec: int) -> None:
    """Manifests that are split, of many arrays: all of them are listed."""
    splitting = icechunk.ManifestSplittingConfig.from_dict(
        {icechunk.ManifestSplitCondition.AnyArray(): {icechunk.ManifestSplitDimCondition.Any(): 3}}
    )
    written = WrittenRepository.create(
        tmp_path / "repository",
        spec,
        icechunk.RepositoryConfig(
            inline_chunk_threshold_bytes=0,
            manifest=icechunk.ManifestConfig(splitting=splitting),
        ),
    )
    with written.session() as group:
        for number in range(5):
            made = group.create_array(f"a{number}", shape=(20,), chunks=(2,), dtype="i4")
            made[...] = number + 1
    tip = written.tip()
    assert set(manifests_of(written, tip)) == written.names("manifests")
    assert len(manifests_of(written, tip)) == 20
    assert chunks_of(written, tip) == written.names("chunks")


# Manifests


def test_chunks_of_a_manifest(written: WrittenRepository) -> None:
    ids = [written.write(value, chunks=50) for value in (1, 2)]
    everything = [chunks_of(written, id) for id in ids]
    assert [len(chunks) for chunks in everything] == [50, 50]
    assert set().union(*everything) == written.names("chunks")
    assert all(map(is_id, written.names("chunks")))
    for id, _, refs in written.manifests(ids[1]):
        assert manifest(written, id).refs == refs == 50


def test_inline_and_virtual_refs_are_no_objects(tmp_path: Path, spec: int) -> None:
    elsewhere = f"file://{tmp_path}/elsewhere/"
    store = icechunk.local_filesystem_store(elsewhere)
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=64)
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(elsewhere, store))
    written = WrittenRepository.create(tmp_path / "repository", spec, config)
    generator = np.random.default_rng(1)
    with written.session() as group:
        native = group.create_array("native", shape=(2000,), chunks=(500,), dtype="i4")
        native[...] = generator.integers(0, 2**30, 2000)
        group.create_array("inline", shape=(6,), chunks=(2,), dtype="i4")[...] = range(1, 7)
        group.create_array("virtual", shape=(4,), chunks=(2,), dtype="i4")
        for number in range(2):
            key = f"virtual/c/{number}"
            group.store.set_virtual_ref(key, f"{elsewhere}data", offset=0, length=8)
    decoded = [manifest(written, one) for one in manifests_of(written, written.tip())]
    assert sum(one.inline for one in decoded) == 3
    assert sum(one.virtual for one in decoded) == 2
    assert sum(one.refs for one in decoded) == 9
    assert chunks_of(written, written.tip()) == written.names("chunks")
    assert len(written.names("chunks")) == 4


# Refs


def test_files_of_refs(written: WrittenRepository, spec: int) -> None:
    if spec != 1:
        pytest.skip("spec 2 has them in repo")
    tip = written.write(1)
    written.branch("side", FIRST)
    written.repository.create_tag("v1", tip)
    written.repository.create_tag("gone", tip)
    written.repository.delete_tag("gone")
    written.branch("gone", tip)
    written.repository.delete_branch("gone")
    folder = written.folder / "refs"
    listed = [str(file.relative_to(written.folder)) for file in folder.rglob("*") if file.is_file()]
    found = find_refs(listed, "refs")
    named = {
        ref: decode_ref((written.folder / address).read_bytes(), address)
        for ref, address in found.files.items()
    }
    assert named == {
        (RefKind.BRANCH, "main"): tip,
        (RefKind.BRANCH, "side"): FIRST,
        (RefKind.TAG, "v1"): tip,
    }
    assert found.deleted_tags == {"gone"}


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("refs/note.x/ref.json", id="kind"),
        pytest.param("refs/branch./ref.json", id="no name"),
        pytest.param("refs/branch.x/other.json", id="file"),
        pytest.param("refs/branch.x", id="no file"),
        pytest.param("refs/branch.x/y/ref.json", id="deeper"),
    ],
)
def test_an_unknown_ref_is_refused(address: str) -> None:
    with pytest.raises(Corrupt, match="neither a branch nor a tag"):
        find_refs([address], "refs")


def test_the_mark_of_a_deleted_tag_hides_no_branch() -> None:
    listed = ["refs/branch.x/ref.json", "refs/branch.x/ref.json.deleted"]
    assert set(find_refs(listed, "refs").files) == {(RefKind.BRANCH, "x")}


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'{"snapshot": 3}', b'{"snapshot":"abc"}', b'{"snapshot":"1CECHNKREP0F1'],
)
def test_a_ref_that_names_nothing_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt, match="does not name a snapshot"):
        decode_ref(data, "refs/branch.x/ref.json")


# The file ``repo``


@spec_2
def test_the_repo_file(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    first, second = written.write(1), written.write(2)
    written.branch("side", first)
    dead = written.write(3, branch="side")
    written.repository.reset_branch("side", first)
    written.repository.create_tag("v1", second)
    written.repository.create_tag("gone", second)
    written.repository.delete_tag("gone")
    decoded = repo(written)
    told = written.repository.inspect_repo_info()
    assert [
        {
            "id": one.id,
            **({"parent_id": one.parent} if one.parent else {}),
            "flushed_at": one.written_at,
            "message": one.message,
        }
        for one in decoded.snapshots
    ] == [
        {key: value for key, value in one.items() if key != "metadata"}
        | {"flushed_at": datetime.fromisoformat(one["flushed_at"])}
        for one in told["snapshots"]
    ]
    assert dead in {one.id for one in decoded.snapshots}
    assert decoded.branches == told["branches"] == {"main": second, "side": first}
    assert (decoded.tags, decoded.deleted_tags) == ({"v1": second}, ("gone",))
    assert decoded.availability is Availability.ONLINE
    assert [(one.updated_at, one.backup) for one in decoded.updates] == [
        (one.updated_at, one.backup_path) for one in written.repository.ops_log()
    ]
    assert {one.backup for one in decoded.updates[1:]} <= written.names("overwritten")
    assert decoded.updates[0].backup is None


@spec_2
def test_the_updates_before_those_in_repo(tmp_path: Path) -> None:
    written = WrittenRepository.create(
        tmp_path / "repository", 2, icechunk.RepositoryConfig(num_updates_per_repo_info_file=3)
    )
    for number in range(6):
        written.repository.create_branch(f"b{number}", FIRST)
    told = [one.updated_at for one in written.repository.ops_log()]
    found = []
    file: str | None = "repo"
    while file:
        decoded = decode_repo((written.folder / file).read_bytes(), file)
        found += [one.updated_at for one in decoded.updates]
        file = decoded.before_updates and f"overwritten/{decoded.before_updates}"
    assert sorted(found, reverse=True) == found
    assert found == told


@spec_2
def test_logs_of_pruned_ancestors(tmp_path: Path) -> None:
    """After an expiration a snapshot needs the logs of the ancestors that it lost."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    ids = [written.write(value) for value in range(5)]
    times = {info.id: info.written_at for info in written.repository.ancestry(branch="main")}
    written.repository.expire_snapshots(times[ids[3]])
    by_id = {one.id: one for one in repo(written).snapshots}
    assert by_id[ids[3]].parent == FIRST
    assert set(by_id[ids[3]].pruned) == set(ids[:3])
    assert by_id[ids[4]].pruned == ()
    # To expire is to take out of ``repo``: nobody can refer to them from then on.
    assert by_id.keys() == {FIRST, *ids[3:]}
    written.repository.garbage_collect(datetime.now(UTC))
    assert {one.id for one in repo(written).snapshots} == {FIRST, *ids[3:]}
    # The library keeps them, and collects the snapshots themselves.
    assert written.names("transactions") == {FIRST, *ids}
    assert written.names("snapshots") == {FIRST, *ids[3:]}


@spec_2
def test_the_status(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    read_only = icechunk.RepoStatus(
        icechunk.RepoAvailability.read_only, limited_availability_reason="maintenance"
    )
    written.repository.set_status(read_only)
    decoded = repo(written)
    assert (decoded.availability, decoded.reason) == (Availability.READ_ONLY, "maintenance")


# What is not as it must be


def _files(written: WrittenRepository) -> dict[str, tuple[FileType, bytes]]:
    tip = written.tip()
    [one] = manifests_of(written, tip)
    found = {
        "snapshot": (FileType.SNAPSHOT, written.data("snapshots", tip)),
        "manifest": (FileType.MANIFEST, written.data("manifests", one)),
    }
    if (written.folder / "repo").exists():
        found["repo"] = (FileType.REPO, (written.folder / "repo").read_bytes())
    return found


DECODERS: Mapping[str, Callable[[bytes, str], object]] = {
    "snapshot": decode_snapshot,
    "manifest": decode_manifest,
    "repo": decode_repo,
}


def told(decoded: object) -> object:
    """What a file says, to be compared."""
    if isinstance(decoded, SnapshotFile):
        parts = (decoded.manifests.ids, decoded.manifests.sizes, decoded.manifests.refs)
        return decoded.id, decoded.parent, *(part.tolist() for part in parts)
    if isinstance(decoded, Manifest):
        return decoded.id, decoded.chunks.tolist()
    return decoded


def test_headers(written: WrittenRepository) -> None:
    written.write(1)
    for kind, (type, data) in _files(written).items():
        decode = DECODERS[kind]
        for at, value, error in (
            (0, 0, Corrupt),
            (36, 3, UnknownVersion),
            (36, 0, UnknownVersion),
            (37, 9, Corrupt),
            (38, 2, UnknownVersion),
        ):
            changed = bytearray(data)
            changed[at] = value
            with pytest.raises(error, match="the name"):
                decode(bytes(changed), "the name")
        for length in (0, 20, HEADER_BYTES, HEADER_BYTES + 10, len(data) - 1):
            with pytest.raises(Corrupt, match="the name"):
                decode(data[:length], "the name")
        spec, payload = unwrap(data, type, kind)
        plain = data[:38] + b"\0" + payload
        assert unwrap(plain, type, kind) == (spec, payload)


def test_damaged_payloads_are_errors_of_ours(written: WrittenRepository) -> None:
    """Whatever a payload is, it is decoded or is an error that keeps data; nothing else comes."""
    written.write(1)
    generator = random.Random(5)
    refused = 0
    for kind, (type, data) in _files(written).items():
        _, payload = unwrap(data, type, kind)
        head = data[:38] + b"\0"
        for _ in range(150):
            changed = bytearray(payload)
            for _ in range(generator.randint(1, 4)):
                changed[generator.randrange(len(changed))] = generator.randrange(256)
            try:
                DECODERS[kind](head + bytes(changed), kind)
            except (Corrupt, UnknownVersion):
                refused += 1
        for length in range(0, len(payload), 7):
            try:
                short = DECODERS[kind](head + payload[:length], kind)
            except (Corrupt, UnknownVersion):
                refused += 1
            else:
                # At the end are texts that nobody reads.
                assert told(short) == told(DECODERS[kind](data, kind))
    assert refused > 200


def test_later_versions_are_refused(written: WrittenRepository) -> None:
    """A field that is not known may hold what is needed; an empty reserved one holds nothing."""
    written.write(1)
    reserved = {"snapshot": 8, "manifest": 4, "repo": 12}
    for kind, (type, data) in _files(written).items():
        decode, slot = DECODERS[kind], reserved[kind]
        assert told(decode(with_fields(data, type, {}), kind)) == told(decode(data, kind))
        empty = with_fields(data, type, {slot: b""})
        assert told(decode(empty, kind)) == told(decode(data, kind))
        with pytest.raises(UnknownVersion, match="reserved"):
            decode(with_fields(data, type, {slot: b"more"}), kind)
        with pytest.raises(UnknownVersion, match="unknown field"):
            decode(with_fields(data, type, {slot + 1: b""}), kind)


@spec_2
def test_feature_flags(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    for flag in written.repository.feature_flags():
        written.repository.set_feature_flag(flag.name, False)
        # Those that the installed library knows do not change what is needed.
        repo(written)
    # A list of one number; how long it is would count numbers, not bytes.
    data = with_fields((written.folder / "repo").read_bytes(), FileType.REPO, {10: b"\x63"})
    with pytest.raises(UnknownVersion, match="feature flags"):
        decode_repo(data, "repo")


def test_names_of_ids() -> None:
    """Against arithmetic on whole numbers."""
    generator = np.random.default_rng(3)
    ids = generator.integers(0, 256, (200, 12), dtype=np.uint8)
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    expected = []
    for row in ids:
        number = int.from_bytes(row.tobytes(), "big") << 4
        letters = [alphabet[(number >> shift) & 31] for shift in range(95, -1, -5)]
        expected.append("chunks/" + "".join(letters))
    assert names(ids, "chunks/").to_pylist() == expected
    assert names(ids[:0]).to_pylist() == []
    assert [f"chunks/{name(row.tobytes())}" for row in ids] == expected
    assert name(bytes.fromhex("0b1cc8d6787580f0e33a6534")) == FIRST
