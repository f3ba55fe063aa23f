"""Labels and versions are read strictly: half a label is not no label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.errors import Corrupt, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.stores.terminus.labels import (
    SYSTEM,
    Label,
    decode_name,
    encode_name,
    file_name,
    format_label,
    missing_system,
    parse_label,
)
from reclaim.stores.terminus.version import check_version

ID = SnapshotId("0123456789abcdef0123456789abcdef01234567")
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("admin|db", "admin%7cdb"),
        ("terminusdb:///system/data", "terminusdb%3a%2f%2f%2fsystem%2fdata"),
        ("http://terminusdb.com/schema/ref", "http%3a%2f%2fterminusdb.com%2fschema%2fref"),
        ("a b+c%d", "a%20b%2bc%25d"),
        ("ü", "%c3%bc"),
    ],
)
def test_names_as_a_server_writes_them(name: str, encoded: str) -> None:
    assert encode_name(name) == encoded
    assert decode_name(encoded) == name


@pytest.mark.parametrize(
    ("encoded", "name"), [("a+b", "a b"), ("A%7CB", "A|B"), ("plain", "plain")]
)
def test_other_spellings_are_read(encoded: str, name: str) -> None:
    assert decode_name(encoded) == name


@pytest.mark.parametrize("encoded", ["", "%", "a%7", "a%zz", "%ff"])
def test_names_that_are_not_encoded(encoded: str) -> None:
    with pytest.raises(Corrupt, match="the name of the label"):
        decode_name(encoded)


@given(names, st.integers(0, 2**64 - 1), st.booleans())
def test_what_was_written_is_read(name: str, version: int, empty: bool) -> None:
    label = Label(name, version, None if empty else ID)
    assert parse_label(file_name(name), format_label(label)) == label


@pytest.mark.parametrize("layer", [ID, None])
def test_a_cut_label_is_never_read(layer: SnapshotId | None) -> None:
    data = format_label(Label("a", 12, layer))
    for end in range(len(data)):
        with pytest.raises(Corrupt, match="the label a cannot be read"):
            parse_label("a.label", data[:end])


@pytest.mark.parametrize(
    "data",
    [
        b"1\n\n\n",
        b"\n\n",
        b"x\n\n",
        b"-1\n\n",
        b"1\r\n\r\n",
        b" 1\n\n",
        f"1\n{ID}\n{ID}\n".encode(),
        f"1\n{ID.upper()}\n".encode(),
        f"1\n{ID}0\n".encode(),
        f"14\n\n{ID[3:]}\n".encode(),
    ],
)
def test_what_does_not_parse_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="the label a cannot be read"):
        parse_label("a.label", data)


def test_only_label_files_hold_labels() -> None:
    with pytest.raises(Corrupt, match="not the name of a label"):
        parse_label("a.txt", b"1\n\n")


def test_missing_system_labels_are_named() -> None:
    labels = [Label(name, 1, ID) for name in SYSTEM]
    assert missing_system(labels) == []
    assert missing_system(labels[1:]) == [SYSTEM[0]]
    assert missing_system([*labels[1:], Label(SYSTEM[0], 0, None)]) == [SYSTEM[0]]


def test_versions() -> None:
    assert check_version(b"2")
    assert not check_version(None)
    for other in (b"", b"1", b"3", b"22"):
        with pytest.raises(UnknownVersion):
            check_version(other)
