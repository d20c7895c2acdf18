"""A TCP proxy that adds latency and faults."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue


class Proxy:
    """Forwards connections to a port of this machine.

    Args:
        target: The port.

    Attributes:
        port: Port of the proxy.
        latency: Seconds by which answers arrive later. The rate stays the same.
        requests: First line of each request.
        most_bytes: Number of bytes of answers after which a connection is reset; None for all.
            It is set back by each reset.
        most_sent: The same for requests.
        is_broken: Whether every connection is reset at once.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.latency = 0.0
        self.requests: list[str] = []
        self.most_bytes: int | None = None
        self.most_sent: int | None = None
        self.is_broken = False
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        self._listener.close()
        for each in list(self._sockets):
            _hang_up(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets |= {client, server}
                for work in (self._send_requests, self._send_answers):
                    threading.Thread(target=work, args=(client, server), daemon=True).start()

    def _send_requests(self, client: socket.socket, server: socket.socket) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while (data := client.recv(1 << 16)) and not self.is_broken:
                sent += len(data)
                if self.most_sent is not None and sent > self.most_sent:
                    self.most_sent = None
                    break
                self.requests += [
                    line.decode("latin-1")
                    for line in data.split(b"\r\n")
                    if line.endswith(b" HTTP/1.1")
                ]
                server.sendall(data)
        _hang_up(client)
        _hang_up(server)

    def _send_answers(self, client: socket.socket, server: socket.socket) -> None:
        arrived: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        reader = threading.Thread(target=_receive, args=(server, arrived), daemon=True)
        reader.start()
        sent = 0
        with contextlib.suppress(OSError):
            while data := _next(arrived, self.latency):
                most = self.most_bytes
                if most is not None and sent + len(data) > most:
                    client.sendall(data[: max(0, most - sent)])
                    self.most_bytes = None
                    break
                client.sendall(data)
                sent += len(data)
        _hang_up(client)
        _hang_up(server)


def _receive(server: socket.socket, arrived: SimpleQueue[tuple[float, bytes]]) -> None:
    """Put what arrives into a queue, with the time; and nothing at the end."""
    with contextlib.suppress(OSError):
        while data := server.recv(1 << 18):
            arrived.put((time.monotonic(), data))
    arrived.put((0.0, b""))


def _next(arrived: SimpleQueue[tuple[float, bytes]], latency: float) -> bytes:
    when, data = arrived.get()
    time.sleep(max(0.0, when + latency - time.monotonic()))
    return data


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextlib.contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """Run a proxy to a port."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
