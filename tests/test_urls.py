"""URLs as they may be shown: no part of a secret, however badly it is written."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest

from reclaim.catalog import Catalog
from reclaim.errors import InvalidInput, ReclaimError
from reclaim.storage import ObjectStorage
from reclaim.urls import normalize, object_url, redacted, scrubbed

PIECES = ("hqn", "tqr", "wqo")
"""A secret is made of these, with something odd in between."""

ODD = [f"hqn{one}tqr{other}wqo" for one in "@/:?#;&=% [" for other in "@/:x"]


def assert_hidden(text: str) -> None:
    assert not any(piece in text for piece in PIECES), text


@pytest.mark.parametrize("secret", ODD)
@pytest.mark.parametrize(
    "form",
    [
        "postgresql://reader:{}@db.example:5432/sales",
        "postgresql+psycopg://reader:{}@[::1]:5432/sales",
        "postgresql://reader:{}@db.example/sales?sslmode=require",
        "postgresql://db.example/sales?user=reader&password={}",
        "postgres:reader:{}@db.example/sales",
        "mysql://reader:{}@db.example/sales",
        "s3://AKIA:{}@bucket/prefix",
        "s3a://AKIA:{}@bucket",
        "abfs://box:{}@account.dfs.core.windows.net/x",
        "az://box/prefix?sv=2024&sig={}",
        "sc://spark.example:15002/;token={}",
        "sc://spark.example:15002/;use_ssl=true;token={};user_id=me",
        "sc://reader:{}@spark.example:15002",
    ],
)
def test_no_part_of_a_secret_is_shown(form: str, secret: str) -> None:
    assert_hidden(redacted(form.format(secret)))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://reader:x@db.example:5432/sales", "postgresql://reader:***@db.example:5432/sales"),
        ("postgresql://db.example/sales", "postgresql://db.example/sales"),
        ("postgresql://a:1,b:2/sales?sslmode=require&password=x", "postgresql://a:1,b:2/sales?sslmode=require&password=***"),
        ("postgresql://u:p@ss/w@db/sales", "postgresql://u:***@db/sales"),
        ("postgresql://u:hunter/sales", "postgresql://***"),
        ("sc://spark.example:15002/;token=x", "sc://spark.example:15002/;***"),
        ("spark://one:7077,two:7077", "spark://one:7077,two:7077"),
        ("local[*]", "local[*]"),
        ("s3://bucket/key@2:3", "s3://bucket/key@2:3"),
        ("abfs://box@account.dfs.core.windows.net/x", "abfs://box@account.dfs.core.windows.net/x"),
        ("sqlite:////srv/a@b/catalog.db", "sqlite:////srv/a@b/catalog.db"),
        ("/srv/a@b", "/srv/a@b"),
    ],
)  # fmt: skip
def test_the_rest_is_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_what_others_say_is_scrubbed() -> None:
    url = "sc://spark.example:15002/;use_ssl=true;token=hunter;user_id=me"
    said = scrubbed(f"cannot parse {url}: bad token hunter, use_ssl is true", url)
    assert said == "cannot parse sc://spark.example:15002/;***: bad token ***, use_ssl is true"


@pytest.mark.parametrize("secret", ODD)
def test_a_database_that_cannot_be_reached_does_not_repeat_it(secret: str) -> None:
    with pytest.raises(ReclaimError) as caught:
        Catalog.open(f"postgresql://reader:{secret}@127.0.0.1:1/sales")
    assert_hidden(caught.value.message)


@pytest.mark.parametrize("secret", ODD)
def test_a_storage_with_a_secret_is_refused(secret: str) -> None:
    for read in (normalize, object_url):
        with pytest.raises(ReclaimError) as caught:
            read(f"s3://AKIA:{secret}@bucket/key")
        assert_hidden(caught.value.message)


@pytest.mark.parametrize(
    "location", ["s3:/bucket", "s3:bucket/prefix", "S3A:/b", "file:/data", "gs:b", "postgresql:/x"]
)
def test_a_mistyped_scheme_is_no_folder(location: str) -> None:
    with pytest.raises(InvalidInput, match="neither a URL nor a plain path"):
        normalize(location)


@pytest.mark.parametrize("location", ["./s3:bucket", "data/a:b", "C:/data"])
def test_a_folder_may_have_a_colon(location: str) -> None:
    assert normalize(location).startswith("file://")


def test_a_catalog_with_a_mistyped_scheme_is_no_folder(tmp_path: Path) -> None:
    with chdir(tmp_path), pytest.raises(InvalidInput, match="neither a URL nor a plain path"):
        Catalog.init("postgresql:/user@host/database")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "az", "memory"])
@pytest.mark.parametrize("character", ["\\", "\n", "\t", "\x00", "\x7f"])
def test_a_prefix_that_a_storage_may_write_in_another_way(
    tmp_path: Path, scheme: str, character: str
) -> None:
    url = f"{scheme}://bucket/back{character}slash"
    for opened in (
        lambda: normalize(url),
        lambda: Catalog.init(str(tmp_path / "catalog"), storage=url),
        lambda: ObjectStorage.open(url),
    ):
        with pytest.raises(InvalidInput, match="has a backslash or a control character") as caught:
            opened()
        assert caught.value.hint
    assert not list(tmp_path.rglob("*.db"))


def test_a_folder_may_have_a_backslash(tmp_path: Path) -> None:
    folder = tmp_path / "back\\slash"
    ObjectStorage.open(normalize(str(folder)), create=True).put("x", b"x")
    assert (folder / "x").is_file()
