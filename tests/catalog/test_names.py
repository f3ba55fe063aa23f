"""Names, paths, prefixes and places: tables of what is taken and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reclaim.catalog.names import (
    MAX_PATH_BYTES,
    RefPath,
    after_prefix,
    check_path,
    check_prefix,
    check_ref_name,
    check_repository_name,
)
from reclaim.errors import InvalidInput, InvalidName, InvalidPath

SCALARS = st.characters(exclude_categories=["Cs"])
VISIBLE = st.characters(exclude_categories=["Cs"], exclude_characters="/\x7f", min_codepoint=0x20)
PARTS = st.text(VISIBLE, min_size=1, max_size=6).filter(lambda part: part not in (".", ".."))
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
LAST = "\U0010ffff"


@pytest.mark.parametrize("name", ["ab", "a0", "0a", "sales.2026", "a-b_c", "a..b", "x" * 63])
def test_a_repository_may_have_this_name(name: str) -> None:
    assert check_repository_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "a", "Sales", ".a", "-a", "_a", "a/b", "a b", "a\n", "ab\n", "ä1", "x" * 64, "a\x00"],
)
def test_a_repository_may_not_have_this_name(name: str) -> None:
    with pytest.raises(InvalidName, match="is not a valid repository name") as caught:
        check_repository_name(name)
    assert caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "main",
        "_",
        "feature/one",
        "a/b/c",
        "Release-1.0",
        "v1.0.0",
        "a-",
        "x" * 200,
        "abcdef0",
        "0" * 31,
        "0" * 33,
        "A" * 32,
    ],
)
def test_a_ref_may_have_this_name(name: str) -> None:
    assert check_ref_name(name, "branch") == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".hidden",
        "a/.hidden",
        "a/../b",
        "-a",
        "/a",
        "a/",
        "a//b",
        "a.",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "a%2Fb",
        "a\n",
        "ä",
        "\ud800",
        "a\x00",
        "x" * 201,
    ],
)
def test_a_ref_may_not_have_this_name(name: str) -> None:
    with pytest.raises(InvalidName, match="is not a valid tag name") as caught:
        check_ref_name(name, "tag")
    assert caught.value.hint


def test_a_ref_may_not_read_like_a_commit_id() -> None:
    with pytest.raises(InvalidName, match="looks like a commit id"):
        check_ref_name("0123456789abcdef" * 2, "branch")


GOOD_PATHS = [
    "a",
    "a/b/c.parquet",
    "...",
    "a/.../b",
    ".hidden",
    "a/..b/b..",
    "with space",
    " ",
    "a\\b",
    "C:\\x",
    "100%/a#b?c&d=e",
    "*",
    "~",
    "-",
    "_reclaim/meta/x",
    "repos/x",
    "é",
    "e\u0301",
    "日本語/テスト",
    "\U0001f600",
    "\ufeff",
    "\u202e",
    "\ue000",
    "\uffff",
    "\xa0",
    "\x80",
    "x" * MAX_PATH_BYTES,
    "é" * (MAX_PATH_BYTES // 2),
    "\U0001f600" * (MAX_PATH_BYTES // 4),
]


@pytest.mark.parametrize("path", GOOD_PATHS)
def test_a_path_may_look_like_this(path: str) -> None:
    assert check_path(path) == path


BAD_PATHS = [
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    "//",
    ".",
    "..",
    "./a",
    "../a",
    "a/./b",
    "a/../b",
    "a/.",
    "a/..",
    "a\x00",
    "a\nb",
    "\x01",
    "\x1f",
    "a\x7f",
    "\ud800",
    "a\udfff",
    "\ud83d\ude00",
    "x" * (MAX_PATH_BYTES + 1),
    "é" * (MAX_PATH_BYTES // 2) + "x",
    "\U0001f600" * (MAX_PATH_BYTES // 4) + "x",
    "a/" * 600 + "a",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_may_not_look_like_this(path: str) -> None:
    with pytest.raises(InvalidPath) as caught:
        check_path(path)
    # The message goes to terminals and logs as it is.
    assert caught.value.message.isprintable()
    assert len(caught.value.message.encode()) < 3 * MAX_PATH_BYTES


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b/", ".hid", "日本/"])
def test_a_prefix_may_look_like_this(prefix: str) -> None:
    assert check_prefix(prefix) == prefix


@pytest.mark.parametrize(
    "prefix", ["/", "/a", "a//", "//", "../", "a/../b", "a\x00", "\ud800", LAST]
)
def test_a_prefix_may_not_look_like_this(prefix: str) -> None:
    with pytest.raises(InvalidPath):
        check_prefix(prefix)


@given(PATHS)
@example("a/.hidden")
@example("..b")
def test_every_beginning_of_a_path_is_a_prefix(path: str) -> None:
    assume(len(path.encode()) <= MAX_PATH_BYTES)
    check_path(path)
    for cut in range(len(path) + 1):
        assert check_prefix(path[:cut]) == path[:cut]


@given(prefix=st.text(SCALARS, max_size=4), rest=st.text(SCALARS, max_size=4))
@example(prefix="\ud7ff", rest="")
@example(prefix="a" + LAST, rest=LAST)
@example(prefix=LAST, rest="")
def test_all_texts_with_a_prefix_sort_below_what_comes_after_it(prefix: str, rest: str) -> None:
    after = after_prefix(prefix)
    text = prefix + rest
    assert prefix <= text
    if after is None:
        assert set(prefix) <= {LAST}
    else:
        assert text < after
        assert text.encode() < after.encode()


@given(prefix=st.text(SCALARS, max_size=3), text=st.text(SCALARS, max_size=5))
@example(prefix="\ud7ff", text="\ue000")
@example(prefix="a", text="b")
@example(prefix="a" + LAST, text="b")
def test_no_text_from_there_on_has_the_prefix(prefix: str, text: str) -> None:
    after = after_prefix(prefix)
    assume(after is not None)
    assert after is not None
    for candidate in (text, after + text, after):
        if candidate >= after:
            assert not candidate.startswith(prefix)
        elif candidate >= prefix:
            assert candidate.startswith(prefix)
        assert (candidate >= after) == (candidate.encode() >= after.encode())


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("sales", RefPath("sales")),
        ("sales/", RefPath("sales")),
        ("sales/main", RefPath("sales", "main")),
        ("sales/main/", RefPath("sales", "main")),
        ("sales/main/a/b.csv", RefPath("sales", "main", "a/b.csv")),
        ("sales/feature%2Fone/a", RefPath("sales", "feature/one", "a")),
        ("sales/main/a%2Fb", RefPath("sales", "main", "a%2Fb")),
        ("sales/main~2/a", RefPath("sales", "main~2", "a")),
        ("sales/main/a//b", RefPath("sales", "main", "a//b")),
        ("sales//a", RefPath("sales", "", "a")),
    ],
)
def test_a_place_is_split_into_repository_ref_and_path(text: str, place: RefPath) -> None:
    assert RefPath.parse(text) == place


@pytest.mark.parametrize("text", ["", "/", "/main/a"])
def test_a_place_needs_a_repository(text: str) -> None:
    with pytest.raises(InvalidInput, match="has no repository"):
        RefPath.parse(text)
