"""A web server on loopback that answers each path as a test says, well or badly; over TLS too."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from waiting import PATIENCE

__all__ = ["CERTIFICATE", "Answer", "Web", "plain"]

CERTIFICATE = Path(__file__).with_name("localhost.pem")
Answer = Callable[[socket.socket, "Asked"], None]


@dataclass
class Asked:
    """What a request was: its target, and its headers in lower case."""

    target: str
    headers: dict[str, str]


@dataclass
class Web:
    """Answers requests in threads until it is closed; `asked` are those that came."""

    answers: dict[str, bytes | Answer]
    tls: bool = False
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Web:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for one in self._connections:  # some systems let a sender wait when nobody reads any more
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)

    def url(self, path: str, host: str = "localhost") -> str:
        return f"http{'s' if self.tls else ''}://{host}:{self.port}{path}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _answer(self, connection: socket.socket) -> None:
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            try:
                connection = context.wrap_socket(connection, server_side=True)
            except OSError:
                return
        with connection:
            connection.settimeout(PATIENCE)
            head = b""
            try:
                while b"\r\n\r\n" not in head:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    head += piece
                first, *lines = head.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                asked = Asked(first.split(" ")[1], headers)
                self.asked.append(asked)
                answer = self.answers.get(asked.target, plain(b"", status="404 Not Found"))
                if callable(answer):
                    answer(connection, asked)
                else:
                    connection.sendall(answer)
            except OSError:
                return


def plain(body: bytes, *, status: str = "200 OK", length: int | None = None, **headers: str) -> bytes:
    """An answer with a body; `length` is what it claims to have."""
    said = {"Content-Length": str(len(body) if length is None else length), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in said.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body
