"""Listing: prefixes, delimiters, pages, and staged changes over committed ones."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reclaim.catalog import Branch, Import, RefReader, Repository
from reclaim.catalog.content import range_writer, ranges
from reclaim.catalog.staging import tokens
from reclaim.errors import InvalidInput, InvalidPath
from tests.support.soak import MORE

_numbers = count()

# One of each length in UTF-8, and one on each side of the surrogates: UTF-16 sorts these otherwise.
WIDE = ["a", "z", "~", "\x80", "é", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010fffd"]


def stage(branch: Branch, paths: Iterable[str], content: str = "x") -> None:
    """Stage entries that point outside, so that no bytes are needed."""
    branch.stage_many([Import(path, f"s3://outside/{content}", 1) for path in paths])


def seal(repo: Repository, branch: str = "main") -> None:
    """What a commit that crashed half-way leaves behind."""
    repo._workspace.database.transact(
        lambda connection: tokens.seal(
            connection, tokens.lock_branch(connection, repo.uid, branch), "partition"
        )
    )


def names(reader: RefReader, prefix: str = "") -> list[str]:
    return [entry.path for entry in reader.entries(prefix)]


def pages(
    reader: RefReader, prefix: str = "", *, delimiter: str = "", limit: int
) -> tuple[list[str], list[str]]:
    """The whole listing, taken in pages."""
    paths: list[str] = []
    prefixes: list[str] = []
    after = ""
    for _ in range(500):
        page = reader.list(prefix, delimiter=delimiter, after=after, limit=limit)
        assert len(page.entries) + len(page.prefixes) <= limit
        paths += [entry.path for entry in page.entries]
        prefixes += page.prefixes
        if not page.after:
            return paths, prefixes
        assert page.after > after
        assert len(page.entries) + len(page.prefixes) == limit
        after = page.after
    raise AssertionError("the listing does not end")


def expected(paths: Iterable[str], prefix: str, delimiter: str = "") -> tuple[list[str], list[str]]:
    """What a listing is, said plainly."""
    shown: list[str] = []
    rolled: set[str] = set()
    for path in sorted(paths):
        if path.startswith(prefix):
            head, found, _ = path[len(prefix) :].partition(delimiter or "\0")
            if found:
                rolled.add(prefix + head + delimiter)
            else:
                shown.append(path)
    return shown, sorted(rolled)


TREE = ["a", "a/1", "a/2", "a/b/3", "a/b/4", "a0", "b/5", "b/c/d/6", "c", "é/7"]


@pytest.mark.parametrize("committed", [False, True])
def test_a_listing_shows_what_has_the_prefix(main: Branch, committed: bool) -> None:
    stage(main, reversed(TREE))
    if committed:
        main.commit("all")
    for prefix in ["", "a", "a/", "a/b", "a/b/", "b/c/d/6", "é", "x", "a/b/3/"]:
        assert names(main, prefix) == [path for path in TREE if path.startswith(prefix)]


@pytest.mark.parametrize("committed", [False, True])
def test_everything_below_a_delimiter_is_one_common_prefix(main: Branch, committed: bool) -> None:
    stage(main, TREE)
    if committed:
        main.commit("all")
    page = main.list(delimiter="/")
    assert [entry.path for entry in page.entries] == ["a", "a0", "c"]
    assert page.prefixes == ["a/", "b/", "é/"]
    assert page.after == ""
    page = main.list("a/", delimiter="/")
    assert [entry.path for entry in page.entries] == ["a/1", "a/2"]
    assert page.prefixes == ["a/b/"]
    assert main.list("b", delimiter="/").prefixes == ["b/"]
    assert main.list("b/c", delimiter="/").prefixes == ["b/c/"]


def test_every_page_size_gives_the_same_whole(main: Branch) -> None:
    stage(main, TREE[::2])
    main.commit("half")
    stage(main, TREE[1::2])
    for prefix in ("", "a", "a/", "b/"):
        for delimiter in ("", "/", "1", "/b/", "b/"):
            whole = expected(TREE, prefix, delimiter)
            for limit in (1, 2, 3, len(TREE)):
                assert pages(main, prefix, delimiter=delimiter, limit=limit) == whole


def test_a_path_that_ends_like_a_common_prefix_is_not_taken_for_one(main: Branch) -> None:
    paths = ["xabc", "xabcd", "xabce", "xabx"]
    stage(main, paths)
    for limit in (1, 2, 100):
        assert pages(main, "xab", delimiter="bc", limit=limit) == (paths, [])


def test_a_range_may_end_just_behind_the_prefix(main: Branch) -> None:
    stage(main, ["a/1", "a0"])
    main.commit("both in one range")
    assert names(main, "a/") == ["a/1"]
    assert pages(main, "a/", delimiter="/", limit=1) == (["a/1"], [])


def test_the_last_page_may_be_full(main: Branch) -> None:
    stage(main, ["a", "b"])
    page = main.list(limit=2)
    assert (len(page.entries), page.after) == (2, "")


def test_an_empty_branch_lists_nothing(main: Branch) -> None:
    page = main.list(delimiter="/")
    assert (page.entries, page.prefixes, page.after) == ([], [], "")
    assert names(main) == []


def test_a_listing_goes_on_after_any_text(main: Branch) -> None:
    stage(main, ["a", "ab", "b", "c/1", "c/2", "d"])
    for after, left in [
        ("a", ["ab", "b", "c/1", "c/2", "d"]),
        ("aa", ["ab", "b", "c/1", "c/2", "d"]),
        ("c/1", ["c/2", "d"]),
        ("x", []),
    ]:
        assert [entry.path for entry in main.list(after=after).entries] == left
    page = main.list(delimiter="/", after="c/")
    assert ([entry.path for entry in page.entries], page.prefixes) == (["d"], [])


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_needs_room(main: Branch, limit: int) -> None:
    with pytest.raises(InvalidInput, match="must be at least 1"):
        main.list(limit=limit)


def test_a_wrong_prefix_is_refused(main: Branch) -> None:
    with pytest.raises(InvalidPath):
        main.list("/a")
    with pytest.raises(InvalidPath):
        names(main, "a//b")


def test_staged_changes_are_seen_over_committed_ones(repo: Repository, main: Branch) -> None:
    stage(main, ["a", "b", "c"], "old")
    first = main.commit("old")
    stage(main, ["b", "bb"], "new")
    main.delete("c")
    shown = {entry.path: entry.address[-3:] for entry in main.entries()}
    assert shown == {"a": "old", "b": "new", "bb": "new"}
    assert names(repo.at(first.id)) == ["a", "b", "c"]
    assert names(repo.at("main~0")) == ["a", "b", "c"]
    main.commit("new")
    assert {entry.path: entry.address[-3:] for entry in main.entries()} == shown
    assert names(repo.at(first.id)) == ["a", "b", "c"]


def test_sealed_changes_are_seen_between_open_and_committed_ones(
    repo: Repository, main: Branch
) -> None:
    stage(main, ["a", "b", "c", "d"], "committed")
    main.commit("first")
    stage(main, ["b", "e", "f"], "sealed-1")
    main.delete("c")
    seal(repo)
    stage(main, ["c", "e"], "sealed-2")
    main.delete("f")
    seal(repo)
    stage(main, ["e"], "open")
    main.delete("d")
    shown = {entry.path: entry.address.rpartition("/")[2] for entry in main.entries()}
    assert shown == {"a": "committed", "b": "sealed-1", "c": "sealed-2", "e": "open"}
    assert {path: main.stat(path).address.rpartition("/")[2] for path in shown} == shown
    assert not main.exists("f")
    assert pages(main, limit=1) == (list(shown), [])
    main.commit("all of it")
    assert {entry.path: entry.address.rpartition("/")[2] for entry in main.entries()} == shown


def test_a_common_prefix_with_only_deleted_entries_is_not_shown(
    repo: Repository, main: Branch
) -> None:
    stage(main, ["a/1", "a/2", "b/1", "c/1", "d"])
    main.commit("first")
    stage(main, ["e/1"])
    seal(repo)
    main.delete_many(["a/1", "a/2", "b/1", "e/1"])
    stage(main, ["b/2"])
    for limit in (1, 2, 100):
        assert pages(main, delimiter="/", limit=limit) == (["d"], ["b/", "c/"])
        assert pages(main, "a/", delimiter="/", limit=limit) == ([], [])


@pytest.mark.parametrize("committed", [False, True])
def test_paths_are_in_the_order_of_their_code_points(main: Branch, committed: bool) -> None:
    paths = [one + two for one in WIDE for two in ["", *WIDE]]
    stage(main, reversed(paths))
    if committed:
        main.commit("wide")
    assert names(main) == sorted(paths) == sorted(paths, key=str.encode)
    assert pages(main, limit=7) == (sorted(paths), [])
    for prefix in WIDE:
        assert names(main, prefix) == sorted(prefix + two for two in ["", *WIDE])
    for delimiter in WIDE[:-1]:
        assert pages(main, delimiter=delimiter, limit=40) == expected(paths, "", delimiter)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many ranges of very few rows."""
    monkeypatch.setattr(ranges, "TARGET_ROWS", 3)
    for module in (ranges, range_writer):
        monkeypatch.setattr(module, "MAX_ROWS", 6)


PARTS = st.sampled_from(["a", "b", "é", "\U0001f600", "\uffff", "-"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
STEPS = st.lists(
    st.tuples(
        st.dictionaries(PATHS, st.sampled_from([None, "x", "y"]), max_size=8),
        st.sampled_from(["stage", "seal", "commit"]),
    ),
    max_size=5,
)


def play(
    repo: Repository, steps: list[tuple[dict[str, str | None], str]]
) -> tuple[Branch, dict[str, str]]:
    """Do the steps on a fresh branch, and the same on a plain dict."""
    branch = repo.create_branch(f"b{next(_numbers)}", "main")
    model: dict[str, str] = {}
    for changes, then in steps:
        added = {path: content for path, content in changes.items() if content}
        gone = [path for path in changes if path in model and path not in added]
        branch.stage_many([Import(path, f"s3://outside/{c}", 1) for path, c in added.items()])
        branch.delete_many(gone)
        model = {path: c for path, c in (model | added).items() if path not in gone}
        if then == "seal":
            seal(repo, branch.name)
        elif then == "commit":
            branch.commit("step", allow_empty=True)
    return branch, model


@pytest.mark.usefixtures("small")
@settings(max_examples=15 * MORE)
@given(
    steps=STEPS,
    prefix=st.one_of(st.just(""), PATHS, PATHS.map(lambda path: path + "/")),
    delimiter=st.sampled_from(["", "/"]),
    limit=st.integers(1, 4),
)
@example(
    steps=[({"a/a": "x", "a/b": "x", "a": "x"}, "commit"), ({"a/a": None}, "stage")],
    prefix="",
    delimiter="/",
    limit=1,
)
def test_a_listing_is_what_a_dict_would_say(
    repo: Repository,
    steps: list[tuple[dict[str, str | None], str]],
    prefix: str,
    delimiter: str,
    limit: int,
) -> None:
    branch, model = play(repo, steps)
    shown = {entry.path: entry.address.removeprefix("s3://outside/") for entry in branch.entries()}
    assert shown == model
    assert list(shown) == sorted(model)
    assert pages(branch, prefix, delimiter=delimiter, limit=limit) == expected(
        model, prefix, delimiter
    )
    for path in {path for changes, _ in steps for path in changes}:
        assert branch.exists(path) == (path in model)


def ranges_read(repo: Repository) -> int:
    return repo._workspace.containers.ranges_read


def test_reading_a_prefix_reads_only_its_ranges(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 8)
    monkeypatch.setattr(repo._workspace.containers._ranges, "_most", 0)
    paths = [f"{one}/{n:03d}" for one in "abcde" for n in range(60)]
    stage(main, paths)
    main.commit("many")
    infos = repo._workspace.containers.tree(repo.commit("main").metarange).ranges
    assert len(infos) > 20

    def needed(low: str, high: str) -> int:
        return sum(info.max_path >= low and info.min_path < high for info in infos)

    for prefix, high in [("c/", "c0"), ("c/01", "c/02"), ("c/059", "c/05:")]:
        before = ranges_read(repo)
        assert names(main, prefix) == [path for path in paths if path.startswith(prefix)]
        assert ranges_read(repo) - before == needed(prefix, high)

    before = ranges_read(repo)
    main.stat("c/030")
    assert ranges_read(repo) - before == 1
    before = ranges_read(repo)
    assert not main.exists("zzz")
    assert ranges_read(repo) == before
    # What is rolled up is skipped, not read: at most a range for each of five prefixes.
    before = ranges_read(repo)
    assert main.list(delimiter="/").prefixes == ["a/", "b/", "c/", "d/", "e/"]
    assert ranges_read(repo) - before <= 6
