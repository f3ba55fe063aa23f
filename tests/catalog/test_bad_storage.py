"""What people meet when a storage is missing, out of reach or full."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest
from obstore.store import from_url

import reclaim
from reclaim.catalog import Branch, Catalog, Repository
from reclaim.errors import Corrupt, NotFound, StorageUnavailable
from tests.conftest import Backend

SECRET = "hunter2"


def test_a_storage_folder_that_is_gone_is_not_found(embedded: Backend) -> None:
    embedded.init().create_repository("sales").branch("main").put("a", b"1")
    embedded.close()
    folder = Path(embedded.location) / "objects"
    folder.rename(folder.with_name("away"))
    with pytest.raises(NotFound, match=r"the storage folder .* does not exist"):
        Catalog.open(embedded.location)
    assert not folder.exists()
    folder.with_name("away").rename(folder)
    with Catalog.open(embedded.location, clock=embedded.clock) as catalog:
        assert catalog.repository("sales").branch("main").get("a") == b"1"


def test_bytes_that_are_missing_are_corrupt(repo: Repository, main: Branch) -> None:
    entry = main.put("a", b"1")
    repo._workspace.storage.delete(entry.address)
    reads: list[Callable[[], object]] = [
        lambda: main.get("a"),
        lambda: list(main.stream("a")),
        lambda: repo.create_branch("b").copy("a", "c", source_ref="main"),
    ]
    for read in reads:
        with pytest.raises(Corrupt, match="the bytes of a are missing"):
            read()


def test_an_unreachable_storage_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"ENDPOINT_URL": "http://127.0.0.1:1", "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    for name, value in (keys | {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": SECRET}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    once = {"max_retries": 1}
    monkeypatch.setattr("reclaim.storage.objects.from_url", partial(from_url, retry_config=once))
    with pytest.raises(StorageUnavailable) as error:
        Catalog.init(tmp_path, storage="s3://bucket/place")
    assert SECRET not in json.dumps(error.value.body())
    assert "reachable" in (error.value.hint or "")
    with pytest.raises(NotFound, match="contains no catalog"):
        Catalog.open(tmp_path)


FULL = """
    import os, subprocess, sys
    from pathlib import Path
    from reclaim.catalog import Catalog
    from reclaim.errors import OutOfSpace

    place, full = Path(sys.argv[1]), sys.argv[2]
    tiny = place / "tiny"
    tiny.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", tiny], check=True)

    location, storage = place / "db", tiny / "objects"
    if full == "database":
        location, storage = tiny / "db", place / "objects"
    big = place / "big"
    big.write_bytes(os.urandom(3_000_000))

    def files():
        return {file for file in storage.rglob("*") if file.is_file()}

    with Catalog.init(location, storage=str(storage)) as catalog:
        repo = catalog.create_repository("sales")
        main = repo.branch("main")
        main.put("first", b"first")
        main.commit("first")
        before = files()
        if full == "storage":
            for data in (big.read_bytes(), big):
                try:
                    main.put("big", data)
                except OutOfSpace as error:
                    assert "no object is half written" in error.hint, error.hint
                else:
                    raise AssertionError("3 MB went into 1.5 MB")
                assert files() == before, files() - before
                assert not main.exists("big")
        filler = tiny / "filler"
        with filler.open("wb") as hole:
            try:
                while True:
                    hole.write(bytes(4096))
                    hole.flush()
            except OSError as error:
                assert error.errno == 28, error
        done = []
        try:
            for n in range(300):
                main.put(f"more/{n:03d}", b"x" * 20_000, metadata={"k": "v" * 2_000})
                done.append(f"more/{n:03d}")
        except OutOfSpace as error:
            print("said", error.message)
        else:
            raise AssertionError("the disk is not full")
        assert main.get("first") == b"first"
        assert [entry.path for entry in main.entries("more")] == done
        try:
            main.put("again", b"x" * 20_000, metadata={"k": "v" * 20_000})
            main.commit("again")
        except OutOfSpace:
            pass
        assert [entry.path for entry in repo.at("main~0").entries()][:1] == ["first"]
        filler.unlink()
        main.put("last", b"last")
        main.commit("last")
    with Catalog.open(location) as catalog:
        main = catalog.repository("sales").branch("main")
        assert main.get("first") == b"first"
        assert main.get("last") == b"last"
        for path in done:
            assert main.get(path) == b"x" * 20_000
    print("fine")
"""


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0,
    reason="this machine does not let us mount a small disk",
)
@pytest.mark.parametrize("full", ["storage", "database"])
def test_a_full_disk_loses_nothing_and_works_again_when_there_is_space(
    tmp_path: Path, full: str
) -> None:
    script = tmp_path / "full.py"
    script.write_text(dedent(FULL))
    source = str(Path(reclaim.__file__).parents[1])
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, script, tmp_path, full],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PYTHONPATH": source, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
    )
    assert (done.returncode, done.stdout[-5:]) == (0, "fine\n"), done.stderr[-2000:]
