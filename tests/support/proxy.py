"""An HTTP proxy that has faults: it answers 503, or cuts the connection, when it is told to."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Fault(Enum):
    """The fault of a request."""

    NONE = auto()
    SLOW_DOWN = auto()
    """It is answered with 503 and does not reach the server."""
    CUT_BEFORE = auto()
    """The connection ends before it reaches the server."""
    CUT_AFTER = auto()
    """The server does what it asks, and the answer is lost."""


Plan = Callable[[int, str, str], Fault]
"""(number of the request, method, path) → what happens to it."""


class Proxy:
    """A running proxy."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        self.plan: Plan = lambda number, method, path: Fault.NONE  # noqa: ARG005
        self.requests = 0
        self.faults = 0
        self._lock = threading.Lock()

    def next_fault(self, method: str, path: str) -> Fault:
        with self._lock:
            self.requests += 1
            fault = self.plan(self.requests, method, path)
            self.faults += fault is not Fault.NONE
            return fault


@contextmanager
def proxy(target: str) -> Iterator[Proxy]:
    """Run a proxy in front of an HTTP server, on a free port of 127.0.0.1."""
    upstream = urlsplit(target).netloc

    class Handler(BaseHTTPRequestHandler):
        def do_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = running.next_fault(self.command, self.path)
            self.close_connection = True
            if fault is Fault.CUT_BEFORE:
                return
            if fault is Fault.SLOW_DOWN:
                self.send_response(503, "Slow Down")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection(upstream, timeout=60)
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            if fault is Fault.CUT_AFTER:
                return
            self.send_response(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                    self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running = Proxy(server)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
