"""Fetch what URLs name, over HTTP: bounded in bytes and seconds, tried again where that may help.

Never leaves the origin of a URL by a redirect, and connects to public addresses only, unless the user named the host:
a table is written by others, and must not make this machine ask its own neighbours. A host is looked up once, and
connections go to the addresses that were checked then. Proxies of the environment aren't used.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import urljoin

from toolkit.sources.base import PIECE_BYTES, too_large
from toolkit.sources.urls import Url, UrlError, address_fault, read_url
from toolkit.version import __version__

__all__ = ["FetchError", "Fetcher"]

_CONNECT_SECONDS = 20.0
_STILL_SECONDS = 30.0  # without a byte
_WHOLE_SECONDS = 600.0  # of one try
_TRIES = 4
_WAIT_SECONDS = 0.5  # before the second try; twice as long before each further one
_LONGEST_WAIT_SECONDS = 30.0
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_READ_BYTES = 256 * 1024
_AT_A_TIME = 16


class FetchError(ValueError):
    """Why nothing was fetched: without the URL, in words that can be shown."""


class _AgainError(FetchError):
    """What another try may mend. `wait`: how many seconds the server asks for."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _LargeError(FetchError):
    """There are more bytes than may be taken now."""


class Fetcher:
    """Fetches for one reader of a source. Its methods may be called from any thread."""

    def __init__(
        self,
        named_hosts: Collection[str],
        most: int,
        *,
        still_seconds: float = _STILL_SECONDS,
        whole_seconds: float = _WHOLE_SECONDS,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        """Take what bounds it.

        Args:
            named_hosts: Hosts whose address may be a private one.
            most: Bytes of one value at the most.
            still_seconds: How long a server may send nothing.
            whole_seconds: How long a try may take.
            sleep: What waits so many seconds between tries, in the place of one that close() wakes.
        """
        self._named = frozenset(host.lower() for host in named_hosts)
        self._most = most
        self._still = still_seconds
        self._whole = whole_seconds
        self._closed = threading.Event()
        self._sleep = self._closed.wait if sleep is None else sleep
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._context: ssl.SSLContext | None = None
        self._addresses: dict[tuple[str, int], list[str]] = {}

    def fetch(self, url: Url) -> bytes:
        """Return what the URL names.

        Raises:
            FetchError: It can't be had, or is larger than a value may be.
        """
        return self._tried(url, self._most)

    def fetch_all(self, urls: Sequence[Url]) -> Iterator[bytes | FetchError]:
        """Yield what each URL names, or why there is nothing, in order; some are fetched ahead at the same time.

        Of what is fetched ahead, each takes no more than a piece: something larger is fetched when it is its turn.
        """
        ahead = min(self._most, PIECE_BYTES)
        waiting: deque[Future[bytes]] = deque()
        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="toolkit-fetch") as threads:
            try:
                started = 0
                for url in urls:
                    while started < len(urls) and len(waiting) < _AT_A_TIME:
                        waiting.append(threads.submit(self._tried, urls[started], ahead))
                        started += 1
                    yield self._outcome(url, waiting.popleft())
            finally:
                if waiting:  # the caller wants no more
                    self.close()

    def close(self) -> None:
        """End what is being fetched; nothing can be fetched any more."""
        self._closed.set()
        with self._lock:
            for one in self._sockets:
                _cut(one)

    def _outcome(self, url: Url, future: Future[bytes]) -> bytes | FetchError:
        try:
            try:
                return future.result()
            except _LargeError:
                return self.fetch(url)
        except FetchError as fault:
            return fault

    def _tried(self, url: Url, most: int) -> bytes:
        for number in range(_TRIES):
            if self._closed.is_set():
                raise FetchError("nobody waits for it any more")
            try:
                return self._once(url, most)
            except _AgainError as fault:
                if number == _TRIES - 1:
                    raise FetchError(f"{fault}, {_TRIES} times") from fault
                self._sleep(min(max(_WAIT_SECONDS * 2**number, fault.wait), _LONGEST_WAIT_SECONDS))
        raise AssertionError

    def _once(self, url: Url, most: int) -> bytes:
        """Make one request, and those that redirects lead to."""
        for _ in range(_MOST_REDIRECTS + 1):
            found = self._request(url, most)
            if not isinstance(found, Url):
                return found
            url = found
        raise FetchError(f"more than {_MOST_REDIRECTS} redirects")

    def _request(self, url: Url, most: int) -> bytes | Url:
        made = self._connected(url)
        expired = threading.Event()

        def give_up() -> None:
            expired.set()
            _cut(made)

        # The timeout of a socket is for each byte: a slow server could take for ever.
        timer = threading.Timer(self._whole, give_up)
        timer.daemon = True
        with self._lock:
            self._sockets.add(made)
            if self._closed.is_set():  # since _tried() looked
                _cut(made)
        try:
            timer.start()
            found = self._answer(self._over(made, url), url, most)
            if expired.is_set() or self._closed.is_set():  # what has no length ends where it was cut
                raise _AgainError("the answer was cut short")
            return found
        except (OSError, http.client.HTTPException, _AgainError) as error:
            if expired.is_set():
                raise _AgainError(f"it took longer than {self._whole:g} s") from error
            raise error if isinstance(error, _AgainError) else _AgainError(_said(error)) from error
        finally:
            timer.cancel()
            with self._lock:
                self._sockets.discard(made)
            made.close()

    def _over(self, made: socket.socket, url: Url) -> http.client.HTTPConnection:
        """Return an HTTP connection over a socket that is connected. Raises FetchError."""
        connection: http.client.HTTPConnection
        if isinstance(made, ssl.SSLSocket):
            try:
                made.do_handshake()
            except ssl.SSLCertVerificationError as error:
                raise FetchError(f"the certificate of {url.host} isn't trusted: {error.verify_message}") from error
            connection = http.client.HTTPSConnection(url.host, url.port)
        else:
            connection = http.client.HTTPConnection(url.host, url.port)
        connection.sock = made  # it connects no more by itself
        return connection

    def _answer(self, connection: http.client.HTTPConnection, url: Url, most: int) -> bytes | Url:
        headers = {
            "User-Agent": f"toolkit/{__version__}",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        if url.authorization is not None:
            headers["Authorization"] = url.authorization
        connection.request("GET", url.target, headers=headers)
        with connection.getresponse() as response:
            if response.status in _REDIRECTS:
                return _redirected(url, response.headers.get("Location"))
            if response.status in _TRY_AGAIN:
                wait = response.headers.get("Retry-After", "")
                raise _AgainError(_status(response), float(wait) if wait.isascii() and wait.isdigit() else 0.0)
            if response.status != 200:
                raise FetchError(_status(response))
            encoding = response.headers.get("Content-Encoding", "identity").lower()
            if encoding != "identity":
                raise FetchError("it was sent compressed, which wasn't asked for")
            return _body(response, most, self._most)

    def _connected(self, url: Url) -> socket.socket:
        """Return a socket that is connected to a URL's host; over TLS it has yet to shake hands."""
        fault = ""
        for address in self._looked_up(url):
            try:
                made = socket.create_connection((address, url.port), min(_CONNECT_SECONDS, self._still))
            except OSError as error:
                fault = _said(error)
                continue
            made.settimeout(self._still)
            if url.scheme == "http":
                return made
            return self._tls().wrap_socket(made, server_hostname=url.host, do_handshake_on_connect=False)
        raise _AgainError(f"no connection to {url.host}: {fault}")

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context()
            return self._context

    def _looked_up(self, url: Url) -> list[str]:
        """Return the addresses of a URL's host, the same for as long as this lives."""
        place = (url.host, url.port)
        with self._lock:
            if place in self._addresses:
                return self._addresses[place]
        try:
            found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise _AgainError(f"the host {url.host} isn't known: {_said(error)}") from error
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        for address in addresses:
            fault = address_fault(url.host, address, self._named)
            if fault is not None:
                raise FetchError(fault)
        with self._lock:
            return self._addresses.setdefault(place, addresses)


def _redirected(url: Url, location: str | None) -> Url:
    """Return where a redirect leads. Raises FetchError: to another origin, or nowhere."""
    try:
        # What came as Latin-1 may have been UTF-8, and is neither where it is right.
        to = read_url(urljoin(f"{url.scheme}://{url.server}{url.target}", (location or "").strip()))
    except (UrlError, ValueError) as error:
        raise FetchError("it redirects to something that is no URL") from error
    if not location:
        raise FetchError("it redirects to nowhere")
    if to.origin != url.origin:
        raise FetchError(f"it redirects to another origin, {to.scheme}://{to.server}: give the URL that is meant")
    return replace(to, authorization=to.authorization or url.authorization, is_private=True)


def _body(response: http.client.HTTPResponse, most: int, allowed: int) -> bytes:
    length = response.length  # None where the server doesn't say it
    if length is not None and length > most:
        raise (_LargeError if most < allowed and length <= allowed else FetchError)(too_large(length, allowed))
    # Memory for no more than came, whatever was claimed.
    made = bytearray()
    left = _READ_BYTES if length is None else length
    while left and (piece := response.read1(min(left, _READ_BYTES))):
        made += piece
        left -= 0 if length is None else len(piece)
        if len(made) > most:
            raise (_LargeError if most < allowed else FetchError)(
                f"it is larger than a value may be ({allowed} bytes); --max-value-bytes says how many"
            )
    if length is not None and len(made) < length:
        raise _AgainError(f"the answer was cut short: {len(made)} of {length} bytes came")
    return bytes(made)


def _cut(made: socket.socket) -> None:
    """End a connection, also for who waits for its bytes."""
    with contextlib.suppress(OSError):
        made.shutdown(socket.SHUT_RDWR)


def _status(response: http.client.HTTPResponse) -> str:
    reason = http.client.responses.get(response.status, "")
    return f"the server answered {response.status} {reason}".rstrip()


def _said(error: BaseException) -> str:
    """Return what went wrong, without what a server put into it."""
    if isinstance(error, TimeoutError):
        return "the server took too long"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut short"
    if isinstance(error, http.client.HTTPException):
        return "the answer isn't HTTP"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or type(error).__name__}"
    strerror = getattr(error, "strerror", None)
    return str(strerror) if strerror else type(error).__name__
