"""A proxy that adds a delay to each request, in a process of its own.

Whatever a client sends is passed on so much later, in order; answers come back at once. So every
request takes as much longer as to a server that is far away, however many are sent at once.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

READ_AT_ONCE = 1 << 16


@contextmanager
def delayed(endpoint: str, seconds: float) -> Iterator[str]:
    """The endpoint of a proxy in front of another one."""
    target = urlsplit(endpoint)
    command = [sys.executable, "-m", "bench.delay", f"{target.hostname}:{target.port}"]
    process = subprocess.Popen([*command, str(seconds)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()


async def _serve(host: str, port: int, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection(host, port)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(_pass_on(reader, requests, seconds))
                ways.create_task(_pass_on(answers, writer, 0.0))
        except* OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _pass_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float
) -> None:
    """Pass everything on, each piece so long after it came."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def send() -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                target.close()
                return
            target.write(data)
            await target.drain()

    sender = asyncio.create_task(send())
    while data := await source.read(READ_AT_ONCE):
        waiting.put_nowait((loop.time() + seconds, data))
    waiting.put_nowait((loop.time() + seconds, b""))
    await sender


if __name__ == "__main__":
    name, number = sys.argv[1].split(":")
    asyncio.run(_serve(name, int(number), float(sys.argv[2])))
