"""Ranges and metaranges: their hash, their files, and where one ends and the next begins."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from reclaim.catalog import Branch, Import, Repository
from reclaim.catalog.content import range_writer, ranges
from reclaim.catalog.content.entries import COLUMNS
from reclaim.catalog.content.range_writer import reusable_from
from reclaim.catalog.content.ranges import ENTRIES, RANGES, RangeInfo, digest
from reclaim.catalog.content.tree import ContainerReader, Tree, entries_of
from reclaim.catalog.staging.partitions import Partition
from reclaim.errors import Corrupt, UnknownVersion
from reclaim.storage import ObjectStorage

Values = tuple[str, str, int, int, str, str, str]

WORDS = st.text("aé\U0001f600", max_size=3)
ROWS = st.lists(
    st.tuples(WORDS, WORDS, st.integers(0, 9), st.integers(0, 1 << 50), WORDS, WORDS, st.just("")),
    max_size=6,
)


def table_of(rows: Sequence[Values]) -> pa.Table:
    return ranges.from_columns(zip(*rows, strict=True) if rows else [[]] * len(COLUMNS))


def values(path: str, address: str = "s3://out/x") -> Values:
    return (path, address, 1, 1_000_000, "", "", "")


def info_of(rows: pa.Table) -> RangeInfo:
    paths = rows.column("path").to_pylist()
    return RangeInfo("r", digest(rows), paths[0], paths[-1], len(paths), 1)


@given(ROWS, st.lists(st.integers(0, 6)))
def test_the_hash_does_not_depend_on_chunks(rows: list[Values], cuts: list[int]) -> None:
    whole = table_of(rows)
    at = sorted(min(cut, len(rows)) for cut in cuts)
    bounds = zip([0, *at], [*at, len(rows)], strict=True)
    pieces = pa.concat_tables([whole.slice(low, high - low) for low, high in bounds])
    assert pieces.to_pydict() == whole.to_pydict()
    assert digest(pieces) == digest(whole) == digest(pieces.combine_chunks())


@given(ROWS, ROWS, ROWS)
def test_the_hash_does_not_depend_on_what_a_slice_leaves_out(
    before: list[Values], rows: list[Values], after: list[Values]
) -> None:
    cut = table_of([*before, *rows, *after]).slice(len(before), len(rows))
    assert digest(cut) == digest(table_of(rows))


@given(ROWS, ROWS)
@example([values("ab"), values("c")], [values("a"), values("bc")])
@example([values("a", "bc")], [values("ab", "c")])
@example([values("a")], [values("a", "s3://out/y")])
@example([values("a")], [values("a"), values("a")])
def test_other_rows_have_another_hash(left: list[Values], right: list[Values]) -> None:
    assert (digest(table_of(left)) == digest(table_of(right))) == (left == right)


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_counts_in_the_hash(column: str) -> None:
    row = dict(zip(COLUMNS, ("p", "a", 1, 1, "c", "t", "m"), strict=True))
    other = row | {column: 2 if isinstance(row[column], int) else "z"}
    tables = [ranges.from_columns([[v] for v in r.values()]) for r in (row, other)]
    assert digest(tables[0]) != digest(tables[1])


@given(ROWS.filter(bool))
def test_a_range_reads_back_as_it_was_written(rows: list[Values]) -> None:
    table = table_of(sorted(rows))
    read = ranges.decode_range(ranges.encode_range(table), info_of(table))
    assert read.equals(table)
    assert digest(read) == digest(table)
    assert [entry.path for entry in entries_of(read)] == sorted(row[0] for row in rows)


def test_a_metarange_reads_back_as_it_was_written() -> None:
    listed = [RangeInfo("x/é", "d1", "a", "b", 2, 7), RangeInfo("y", "d2", "c", "\U0001f600", 1, 0)]
    name, data = ranges.encode_metarange(listed)
    assert ranges.decode_metarange(data, f"repos/r/_reclaim/meta/p/{name}-u") == listed
    assert name == ranges.encode_metarange(listed)[0]
    for other in (replace(listed[0], address="z"), replace(listed[0], count=3)):
        assert name != ranges.encode_metarange([other, listed[1]])[0]


def test_a_range_is_plain_parquet() -> None:
    """Spark, DuckDB and people read it."""
    read = pq.read_table(io.BytesIO(ranges.encode_range(table_of([values("a"), values("b")]))))
    assert read.schema.names == list(COLUMNS)
    assert read.column("path").to_pylist() == ["a", "b"]


RANGE = table_of([values("a"), values("b")])
LISTED = [RangeInfo("r", "d", "a", "b", 2, 2)]
NAME, METARANGE = ranges.encode_metarange(LISTED)
ADDRESS = f"repos/r/_reclaim/meta/p/{NAME}-u"


def parquet(table: pa.Table, metadata: Mapping[bytes, bytes] | None) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("keep", [0, 1, 4, 100, -1, -8])
def test_a_truncated_container_is_corrupt(keep: int) -> None:
    with pytest.raises(Corrupt, match="the container r cannot be read"):
        ranges.decode_range(ranges.encode_range(RANGE)[:keep], info_of(RANGE))
    with pytest.raises(Corrupt, match=f"the container {ADDRESS} cannot be read"):
        ranges.decode_metarange(METARANGE[:keep], ADDRESS)


def flipped(data: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(len(data)):
        yield at, data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :]


def test_a_damaged_range_never_shows_other_rows() -> None:
    """A wrong address would make the collector take a live object for garbage."""
    for at, broken in flipped(ranges.encode_range(RANGE)):
        try:
            read = ranges.decode_range(broken, info_of(RANGE))
        except (Corrupt, UnknownVersion):
            continue
        assert read.equals(RANGE), f"byte {at} changed the rows unnoticed"


def test_a_damaged_metarange_never_lists_other_ranges() -> None:
    for at, broken in flipped(METARANGE):
        try:
            read = ranges.decode_metarange(broken, ADDRESS)
        except (Corrupt, UnknownVersion):
            continue
        assert read == LISTED, f"byte {at} changed the list unnoticed"


def test_a_container_of_another_kind_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="is not a range"):
        ranges.decode_range(METARANGE, info_of(RANGE))
    with pytest.raises(Corrupt, match="is not a metarange"):
        ranges.decode_metarange(ranges.encode_range(RANGE), ADDRESS)
    with pytest.raises(Corrupt, match="is not a range"):
        ranges.decode_range(parquet(RANGE, None), info_of(RANGE))
    with pytest.raises(Corrupt, match="cannot be read"):
        ranges.decode_range(b"garbage" * 100, info_of(RANGE))


def test_a_container_of_an_unknown_version_is_refused() -> None:
    later = parquet(RANGE, {b"reclaim.format": b"range/2"})
    with pytest.raises(UnknownVersion, match="has format range/2; this Reclaim reads range/1"):
        ranges.decode_range(later, info_of(RANGE))


def test_a_container_with_other_columns_is_corrupt() -> None:
    fewer = parquet(RANGE.drop_columns(["metadata"]), ENTRIES.metadata)
    with pytest.raises(Corrupt, match="does not have the columns"):
        ranges.decode_range(fewer, info_of(RANGE))
    assert RANGES.metadata != ENTRIES.metadata


def test_a_range_with_other_rows_than_listed_is_corrupt() -> None:
    others = [[values("a")], [values("a"), values("c")], [values("a"), values("b", "s3://out/y")]]
    for rows in others:
        with pytest.raises(Corrupt):
            ranges.decode_range(ranges.encode_range(table_of(rows)), info_of(RANGE))
    with pytest.raises(Corrupt):
        ranges.decode_metarange(METARANGE, ADDRESS.replace(NAME, "0" * 32))


def test_a_missing_container_is_corrupt(repo: Repository, main: Branch) -> None:
    main.put("a", b"1")
    main.commit("first")
    fresh = ContainerReader(repo._workspace.storage)
    metarange = repo.commit("main").metarange
    (listed,) = fresh.tree(metarange).ranges
    repo._workspace.storage.delete(listed.address)
    with pytest.raises(Corrupt, match="is missing"):
        fresh.tree(metarange).get("a")
    repo._workspace.storage.delete(metarange)
    with pytest.raises(Corrupt, match="is missing"):
        ContainerReader(repo._workspace.storage).tree(metarange)


# Cutting. A tree is rewritten in memory, with ranges of about three rows.

ALPHABET = [f"{a}/{b}" for a in "abc" for b in "0123456789é\U0001f600"]
PATHS = st.sampled_from(ALPHABET)
CHANGES = st.dictionaries(PATHS, st.sampled_from([None, "s3://out/x", "s3://out/y"]), max_size=12)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 3)
    for module in (ranges, range_writer):
        monkeypatch.setattr(module, "MAX_ROWS", 5)
    monkeypatch.setattr(range_writer, "BATCH", 4)


class Forest:
    """Trees in a storage in memory."""

    def __init__(self) -> None:
        self.storage = ObjectStorage("memory://", MemoryStore())
        self.containers = ContainerReader(self.storage)
        self.partition = Partition("repo", "partition", 0, 0, 0)

    def grow(self, base: Tree, changes: Mapping[str, str | None]) -> Tree:
        rows = [(*values(path)[:1], a, *values(path)[2:]) for path, a in sorted(changes.items())]
        infos, address = range_writer.rewrite(
            base,
            rows,
            storage=self.storage,
            partition=self.partition,
            reusable=reusable_from([base]),
        )
        tree = self.containers.tree(address)
        assert tree.ranges == infos
        return tree

    def empty(self) -> Tree:
        return self.containers.tree("")

    def files(self) -> set[str]:
        return {stored.address for stored in self.storage.list()}


def contents(tree: Tree) -> dict[str, str]:
    return {entry.path: entry.address for entry in tree.entries()}


def applied(steps: Sequence[Mapping[str, str | None]]) -> dict[str, str]:
    entries: dict[str, str | None] = {}
    for step in steps:
        entries |= step
    return {path: address for path, address in sorted(entries.items()) if address}


def neighbours(tree: Tree) -> Iterator[tuple[RangeInfo, RangeInfo]]:
    return zip(tree.ranges, tree.ranges[1:], strict=False)


@pytest.mark.usefixtures("small")
@settings(max_examples=50)
@given(st.lists(CHANGES, max_size=6))
def test_the_same_entries_are_cut_the_same_whatever_came_before(
    steps: list[dict[str, str | None]],
) -> None:
    forest = Forest()
    tree = forest.empty()
    for step in steps:
        tree = forest.grow(tree, step)
    expected = applied(steps)
    assert contents(tree) == expected
    at_once = Forest()
    whole = at_once.grow(at_once.empty(), expected)
    assert [info.digest for info in tree.ranges] == [info.digest for info in whole.ranges]
    assert [astuple(info)[1:] for info in tree.ranges] == [
        astuple(info)[1:] for info in whole.ranges
    ]


@pytest.mark.usefixtures("small")
@settings(max_examples=50)
@given(st.lists(CHANGES, min_size=1, max_size=4))
def test_ranges_are_sorted_bounded_and_honest(steps: list[dict[str, str | None]]) -> None:
    forest = Forest()
    tree = forest.empty()
    for step in steps:
        tree = forest.grow(tree, step)
    for info in tree.ranges:
        rows = tree.rows(info)
        paths = rows.column("path").to_pylist()
        assert paths == sorted(set(paths))
        assert (info.min_path, info.max_path, info.count) == (paths[0], paths[-1], len(paths))
        assert info.size == sum(rows.column("size").to_pylist())
        assert info.digest == digest(rows)
        assert 1 <= info.count <= 5
        assert not any(ranges.ends_range(path) for path in paths[:-1])
    for left, right in neighbours(tree):
        assert left.max_path < right.min_path
        assert left.count == 5 or ranges.ends_range(left.max_path)


@pytest.mark.usefixtures("small")
@settings(max_examples=50)
@given(st.dictionaries(PATHS, st.just("s3://out/x"), min_size=1), CHANGES)
def test_unchanged_ranges_keep_their_address(
    first: dict[str, str | None], change: dict[str, str | None]
) -> None:
    forest = Forest()
    base = forest.grow(forest.empty(), first)
    files = forest.files()
    tree = forest.grow(base, change)
    before = {info.digest: info.address for info in base.ranges}
    for info in tree.ranges:
        assert info.address == before.get(info.digest, info.address)
    fresh = {info.address for info in tree.ranges} - files
    assert fresh == {info.address for info in tree.ranges if info.digest not in before}
    # Nothing is written that is not used: the new ranges and one metarange.
    assert len(forest.files() - files) == len(fresh) + 1


def test_a_range_of_a_tree_that_is_no_parent_is_written_again() -> None:
    forest = Forest()
    first = forest.grow(forest.empty(), {"a": "s3://out/x"})
    second = forest.grow(forest.empty(), {"a": "s3://out/x"})
    assert first.ranges[0].digest == second.ranges[0].digest
    assert first.ranges[0].address != second.ranges[0].address


def test_a_tree_can_lose_all_its_entries_and_get_others() -> None:
    forest = Forest()
    tree = forest.grow(forest.empty(), {"a": "s3://out/x"})
    bare = forest.grow(tree, {"a": None})
    assert bare.ranges == []
    assert list(bare.entries()) == []
    assert contents(forest.grow(bare, {"b": "s3://out/y"})) == {"b": "s3://out/y"}


def test_paths_are_cut_near_the_target() -> None:
    rows = [f"day={day:03d}/part-{part:04d}" for day in range(100) for part in range(1_000)]
    ends = sum(ranges.ends_range(path) for path in rows)
    expected = len(rows) / ranges.TARGET_ROWS
    assert expected / 2 < ends < expected * 2


def test_a_commit_of_few_changes_writes_few_ranges(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 32)
    main.stage_many(Import(f"{n:04d}", f"s3://out/{n}", 1) for n in range(2_000))
    main.commit("many")
    tree = repo._workspace.containers.tree
    before = tree(repo.commit("main").metarange).ranges
    assert len(before) > 20
    main.delete("0000")
    main.stage_many([Import("1000", "s3://out/other", 1), Import("9999", "s3://out/new", 1)])
    main.commit("few")
    after = tree(repo.commit("main").metarange).ranges
    assert 1 <= len({info.address for info in after} - {info.address for info in before}) <= 6
    main.commit("empty", allow_empty=True)
    assert repo.commit("main").metarange == repo.commit("main~1").metarange


def test_the_lengths_in_a_digest_are_those_that_arrow_counts() -> None:
    whole = pa.array(["a", "", "bcd", "é", "x" * 300])
    for array in (whole, whole[1:3], whole[:0], whole[5:], pa.array([], pa.string())):
        assert bytes(ranges._lengths(array)) == pc.binary_length(array).to_numpy().tobytes()
