"""A proxy that adds a delay to each request, in a process of its own.

Whatever a client sends is passed on so much later, in order; answers come back at once. So every
request takes as much longer as to a server that is far away, however many are sent at once. What
was asked for is written down, so that one can see what was asked for twice.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO
from urllib.parse import urlsplit

REQUEST = re.compile(rb"(?:GET|HEAD|PUT|POST|DELETE) \S+ HTTP/1\.1\r\n")


@dataclass(frozen=True, slots=True)
class Delayed:
    """A proxy that is at work."""

    endpoint: str
    log: Path

    def requests(self) -> list[str]:
        """What was asked for so far, a method and a path each."""
        return self.log.read_text().splitlines()


@contextmanager
def delayed(endpoint: str, seconds: float) -> Iterator[Delayed]:
    """A proxy in front of an endpoint."""
    target = urlsplit(endpoint)
    with NamedTemporaryFile() as log:
        command = [sys.executable, "-m", "bench.delay", f"{target.hostname}:{target.port}"]
        process = subprocess.Popen(
            [*command, str(seconds), log.name], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield Delayed(f"http://127.0.0.1:{port}", Path(log.name))
        finally:
            process.terminate()
            process.wait()


class _Server(asyncio.Protocol):
    """The way back: what the server says goes to the client at once."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._client.close()


class _Client(asyncio.Protocol):
    """The way there: each piece that a client sends goes to the server so much later.

    Nobody who measures sends more at once than fits into memory, so that no one is slowed down.
    """

    def __init__(self, host: str, port: int, seconds: float, log: BinaryIO) -> None:
        self._address = (host, port)
        self._seconds = seconds
        self._log = log
        self._on_the_way: deque[bytes] = deque()
        self._waiting: list[bytes] = []
        self._server: asyncio.Transport | None = None
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._client = transport
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            server, _ = await loop.create_connection(lambda: _Server(self._client), *self._address)
        except OSError:
            self._client.close()
            return
        self._server = server
        for data in self._waiting:
            server.write(data)
        if self._ended:
            server.close()

    def data_received(self, data: bytes) -> None:
        if requested := REQUEST.match(data):
            self._log.write(requested.group().removesuffix(b" HTTP/1.1\r\n") + b"\n")
        self._on_the_way.append(data)
        asyncio.get_running_loop().call_later(self._seconds, self._pass_on)

    def _pass_on(self) -> None:
        data = self._on_the_way.popleft()
        if self._server is None:
            self._waiting.append(data)
        else:
            self._server.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._ended = True
        if self._server is not None:
            self._server.close()


async def _serve(host: str, port: int, seconds: float, log: Path) -> None:
    loop = asyncio.get_running_loop()
    with log.open("ab", buffering=0) as requests:
        server = await loop.create_server(
            lambda: _Client(host, port, seconds, requests), "127.0.0.1", 0
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    name, number = sys.argv[1].split(":")
    asyncio.run(_serve(name, int(number), float(sys.argv[2]), Path(sys.argv[3])))
