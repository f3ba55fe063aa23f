"""The audit of pinned versions: what it says and when it fails, against a server of our own."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from scripts import audit

PINS = "# Pythons: 3.13\none==1.0\ntwo==2.0 ; python_version < '3.12'\ntwo==2.1\n"


@contextmanager
def server(body: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives one answer, and what it was asked."""
    asked: list[bytes] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}", asked
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    file = tmp_path / "constraints.txt"
    file.write_text(PINS, encoding="utf-8")
    return file


def test_a_finding_is_loud_and_fails_only_where_that_is_wanted(
    pins: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"results": [{}, {"vulns": [{"id": "PYSEC-1"}, {"id": "PYSEC-2"}]}, {}]}
    with server(json.dumps(found).encode()) as (url, asked):
        assert audit.main(pins, url=url) == 0
        assert audit.main(pins, url=url, mode="strict") == 1
    said = capsys.readouterr().out
    assert "WARNING: 1 pinned versions have known vulnerabilities" in said
    assert "two==2.0: PYSEC-1, PYSEC-2" in said
    names = [(one["package"]["name"], one["version"]) for one in json.loads(asked[0])["queries"]]
    assert names == [("one", "1.0"), ("two", "2.0"), ("two", "2.1")]


def test_nothing_found(pins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server(b'{"results": [{}, {}, {}]}') as (url, _):
        assert audit.main(pins, url=url, mode="strict") == 0
    assert "No known vulnerabilities in 3 pinned versions" in capsys.readouterr().out


@pytest.mark.parametrize("body", [b"", b"<html>sign in</html>", b'{"results": []}', b"[]"])
def test_an_answer_that_is_none(
    pins: Path, capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    with server(body) as (url, _):
        assert audit.main(pins, url=url, mode="strict") == 0
    assert "could not be checked" in capsys.readouterr().out


def test_without_a_network(pins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(pins, url="http://127.0.0.1:1", mode="strict") == 0
    assert "could not be checked" in capsys.readouterr().out


def test_a_server_that_never_answers(pins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert audit.main(pins, url=url, seconds=0.05) == 0
    assert "no answer in 0.05 s" in capsys.readouterr().out


def test_it_can_be_left_out(pins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(pins, mode="off", url="http://127.0.0.1:1") == 0
    assert "AUDIT=off" in capsys.readouterr().out
