"""A shell whose ``reclaim`` is answered by this process, so that no example waits for Python."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, chdir
from pathlib import Path
from unittest.mock import patch

Main = Callable[[list[str]], int]

_CLIENT = """\
#!{python} -ISB
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
socket.send_fds(server, [json.dumps([os.getcwd(), sys.argv[1:]]).encode()], [0, 1, 2])
sys.exit(int(server.recv(16)))
"""
_LONGEST_REQUEST = 65_536


class Shell:
    """Runs scripts in a folder, as on a terminal that shows stdout and stderr together."""

    def __init__(self, folder: Path, main: Main) -> None:
        self._folder, self._main = folder, main
        self._commands = folder.parent / "commands"
        self._commands.mkdir()
        path = str(self._commands / "socket")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(path)
        self._server.listen()
        self._server.settimeout(0.02)
        client = self._commands / "reclaim"
        client.write_text(_CLIENT.format(python=sys.executable, path=path))
        client.chmod(0o755)

    def run(self, script: str) -> str:
        """What a script prints. Each of its commands may fail."""
        output = self._commands / "output"
        variables = os.environ | {"PATH": f"{self._commands}:{os.environ['PATH']}"}
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self._folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            while process.poll() is None:
                try:
                    connection, _ = self._server.accept()
                except TimeoutError:
                    continue
                with connection:
                    self._answer(connection)
        return output.read_text()

    def close(self) -> None:
        self._server.close()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        request, files, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, 3)
        folder, arguments = json.loads(request)
        before = sys.stdin, sys.stdout, sys.stderr
        with ExitStack() as stack:
            # Progress, which is for stderr on a terminal, is another story.
            kinds: tuple[type[io.TextIOWrapper], ...] = (
                io.TextIOWrapper,
                _Terminal,
                io.TextIOWrapper,
            )
            streams = [
                stack.enter_context(kind(_open(file, mode), encoding="utf-8", write_through=True))
                for kind, file, mode in zip(kinds, files, ("rb", "wb", "wb"), strict=True)
            ]
            stack.enter_context(chdir(folder))
            # A slow machine would have a line of progress a minute.
            stack.enter_context(patch.dict(os.environ, RECLAIM_QUIET="1"))
            sys.stdin, sys.stdout, sys.stderr = streams
            try:
                code = self._main(arguments)
            finally:
                sys.stdin, sys.stdout, sys.stderr = before
        connection.send(str(code).encode())


def _open(file: int, mode: str) -> io.BufferedReader | io.BufferedWriter:
    raw = io.FileIO(file, mode)
    return io.BufferedReader(raw) if raw.readable() else io.BufferedWriter(raw)


class _Terminal(io.TextIOWrapper):
    """A stream that a person is looking at."""

    def isatty(self) -> bool:
        return True
