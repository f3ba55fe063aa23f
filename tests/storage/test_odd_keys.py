"""Keys that obstore cannot list, from a server that gives what a bucket of other writers holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import pytest

from reclaim.storage import ObjectStorage
from reclaim.urls import is_odd

pytestmark = pytest.mark.fast

KEYS = (
    *("root/p/a", "root/p/a//b", "root/p/./c", "root/p/../d", "root/p//e", "root/p/nl\nx"),
    *("root/p/in\nside/f", "root/p/plain/g", "root/p/z", "root/q", "root/p/marker/"),
)
PAGE = 2


def answer(query: dict[str, list[str]]) -> str:
    """A page of a listing, as S3 gives it."""
    asked = {name: values[0] for name, values in query.items()}
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    after = asked.get("continuation-token") or asked.get("start-after", "")
    found: dict[str, bool] = {}
    for key in sorted(KEYS):
        if key.startswith(prefix):
            head, slash, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            found[prefix + head + slash if slash else key] = bool(slash)
    names = [name for name in found if name > after]
    page = names[:PAGE]
    encoded = "<EncodingType>url</EncodingType>" if asked.get("encoding-type") else ""

    def shown(name: str) -> str:
        return quote(name) if encoded else name.replace("\n", "&#10;")

    rows = "".join(
        f"<CommonPrefixes><Prefix>{shown(name)}</Prefix></CommonPrefixes>"
        if found[name]
        else f"<Contents><Key>{shown(name)}</Key><Size>3</Size><ETag>e</ETag>"
        "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
        for name in page
    )
    more = len(names) > PAGE
    token = f"<NextContinuationToken>{shown(page[-1])}</NextContinuationToken>" if more else ""
    return (
        f"<ListBucketResult><Name>b</Name><Prefix>{shown(prefix)}</Prefix>{encoded}"
        f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{PAGE}</MaxKeys>"
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}</ListBucketResult>"
    )


class _Bucket(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = answer(parse_qs(urlsplit(self.path).query, keep_blank_values=True)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStorage]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    # It remembers the keys to a storage for as long as the process lives.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    yield ObjectStorage.open(f"s3://bucket-{uuid4().hex}/root")
    server.shutdown()
    server.server_close()


def test_every_key_is_listed_once(storage: ObjectStorage) -> None:
    expected = sorted(key.removeprefix("root/") for key in KEYS if key != "root/q")
    assert sorted(stored.address for stored in storage.list("p")) == expected
    listed = [row for batch in storage.batches("p") for row in batch.to_pylist()]
    assert sorted(row["address"] for row in listed) == expected
    assert {row["size"] for row in listed} == {3}


def test_folders_that_are_odd_can_be_listed_too(storage: ObjectStorage) -> None:
    folders, objects = storage.folders("p")
    assert sorted(folders) == sorted(
        ["p//", "p/./", "p/../", "p/a", "p/in\nside/", "p/marker", "p/plain"]
    )
    assert {stored.address for stored in objects} == {"p/a", "p/nl\nx", "p/z"}
    inside = {folder: [one.address for one in storage.list(folder)] for folder in folders}
    assert inside["p//"] == ["p//e"]
    assert inside["p/in\nside/"] == ["p/in\nside/f"]
    assert inside["p/a"] == ["p/a//b"]
    assert inside["p/plain"] == ["p/plain/g"]
    assert storage.folders("p/a") == (["p/a//"], [])


def test_what_is_odd() -> None:
    odd = ["", "a//b", "a/", "/a", "./a", "a/..", "a/./b", "a\nb", "\x00", "a\x7f", "\ufffd"]
    assert [address for address in odd if not is_odd(address)] == []
    plain = ["a", ".a", "a.", "...", "a/.b", "a b", "ü", "%2F", "a#1", "~"]
    assert [address for address in plain if is_odd(address)] == []
