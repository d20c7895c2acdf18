"""An HTTP server of the tests that answers ranges, counts requests and makes faults."""

from __future__ import annotations

import contextlib
import http.server
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class WebObject:
    """A file of the server; ``changed`` is its Last-Modified."""

    data: bytes
    etag: str | None = '"v1"'
    changed: str | None = "Mon, 02 Nov 2026 10:00:00 GMT"


@dataclass
class Request:
    """A request that the server got."""

    method: str
    path: str
    headers: dict[str, str]

    @property
    def range(self) -> tuple[int, int] | None:
        """First byte, and byte after the last one."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return None if found is None else (int(found[1]), int(found[2]) + 1)


@dataclass
class WebServer:
    """Files by their path, with queries; and faults, each for one GET of a range.

    A fault is a status; ``"reset"``; ``"stall"``; ``("short", n)``, which ends the body after n
    bytes; or a function of the handler. Ranges with bytes from ``lost_from`` on are answered by the
    status 503. With a ``code`` of S3, all requests are answered by the
    status 400 and this code. ``answering`` is called with the handler
    of each request, and returns whether it has answered.
    """

    port: int
    files: dict[str, WebObject] = field(default_factory=dict)
    faults: list[Any] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    lost_from: int | None = None
    delay: float = 0.0
    has_ranges: bool = True
    has_head: bool = True
    code: str = ""
    answering: Callable[[Any], bool] = lambda _: False
    address: str = "127.0.0.1"
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, path: str, data: bytes, **fields: Any) -> str:
        """Add a file, and return its URL."""
        self.files[path] = WebObject(data, **fields)
        return self.url(path)

    def url(self, path: str) -> str:
        """Return the URL of a path."""
        return f"http://{self.address}:{self.port}{path}"

    def gets(self) -> list[Request]:
        """Return the requests for ranges of more than the first byte."""
        return [r for r in self.requests if r.range is not None and r.range != (0, 1)]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        server = self.server.state
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers)
        with server.lock:
            server.requests.append(request)
            is_range = request.range not in {None, (0, 1)}
            fault = server.faults.pop(0) if server.faults and is_range else None
            if (
                server.lost_from is not None
                and request.range
                and request.range[1] > server.lost_from
            ):
                fault = 503
        time.sleep(server.delay)
        if server.answering(self):
            pass
        elif server.code:
            self._send_code(server.code)
        elif callable(fault):
            fault(self)
        elif isinstance(fault, int):
            self.status(fault)
        elif fault == "reset":
            self._hang_up()
        elif fault == "stall":
            time.sleep(30)
        else:
            self._send_file(request, fault[1] if fault else None)

    def _send_file(self, request: Request, most: int | None) -> None:
        found = self.server.state.files.get(self.path)
        refusal = self._refusal(request, found)
        if found is None or refusal is not None:
            self.status(refusal or 404)
            return
        size = len(found.data)
        begin, end = 0, size
        is_part = request.range is not None and self.server.state.has_ranges
        if request.range is not None and is_part:
            begin, end = request.range[0], min(size, request.range[1])
        self.send_response(206 if is_part else 200)
        if is_part:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - begin))
        if found.etag is not None:
            self.send_header("ETag", found.etag)
        if found.changed is not None:
            self.send_header("Last-Modified", found.changed)
        self.end_headers()
        if self.command == "GET":
            body = found.data[begin:end]
            self.wfile.write(body if most is None else body[:most])
        if most is not None:
            self._hang_up()

    def _refusal(self, request: Request, found: WebObject | None) -> int | None:
        """Return the status of a request that is not answered by a file."""
        if found is None:
            return 404
        if self.command == "HEAD" and not self.server.state.has_head:
            return 403
        if request.headers.get("if-match") not in {None, found.etag}:
            return 412
        begin = (request.range or (0, 0))[0] if self.server.state.has_ranges else 0
        return 416 if request.range is not None and begin >= len(found.data) else None

    def status(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_code(self, code: str) -> None:
        body = f"<Error><Code>{code}</Code></Error>".encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class _Server(http.server.ThreadingHTTPServer):
    state: WebServer
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        """Bind without looking up the name of the address, which may take 10 seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name = "localhost"
        self.server_port = self.socket.getsockname()[1]

    def handle_error(self, *_: Any) -> None: ...


@contextlib.contextmanager
def web_server(address: str = "127.0.0.1") -> Iterator[WebServer]:
    """Run a server on loopback."""
    state = WebServer(0, address=address)
    server = _Server((address, 0), _Handler)
    server.state = state
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
