from __future__ import annotations

import http.client
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from sources.web import CERTIFICATE, Asked, Web, plain
from waiting import PATIENCE

from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.fetch import Fetcher, FetchError
from toolkit.sources.urls import read_url

MOST = 1 << 20


@pytest.fixture
def web() -> Iterator[Web]:
    with Web({}) as made:
        yield made


class Slept(list[float]):
    """What a fetcher sleeps with: it doesn't."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def fetcher(*, most: int = MOST, hosts: tuple[str, ...] = ("localhost",), **options: Any) -> Fetcher:
    return Fetcher(hosts, most, **{"sleep": Slept(), **options})


def fetch(web: Web, path: str = "/x", **options: Any) -> bytes:
    return fetcher(**options).fetch(read_url(web.url(path)))


def fault(web: Web, path: str = "/x", **options: Any) -> str:
    with pytest.raises(FetchError) as raised:
        fetch(web, path, **options)
    return str(raised.value)


def test_what_is_there_comes(web: Web) -> None:
    body = bytes(range(256)) * 3000
    web.answers["/a%20b/%C3%A9?q=1&r=a%2Fb"] = plain(body)
    assert fetcher().fetch(read_url(web.url("/a%20b/é?q=1&r=a%2Fb#part"))) == body
    (asked,) = web.asked
    assert asked.headers["host"] == f"localhost:{web.port}"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["user-agent"].startswith("toolkit/")
    assert "authorization" not in asked.headers
    web.answers["/x"] = plain(b"")
    assert fetch(web) == b""


def test_a_user_part_is_sent_as_what_it_is(web: Web) -> None:
    web.answers["/x"] = plain(b"1")
    assert fetcher().fetch(read_url(f"http://me:p%40ss@localhost:{web.port}/x")) == b"1"
    assert web.asked[0].headers["authorization"] == "Basic bWU6cEBzcw=="


def test_chunks_and_answers_without_a_length(web: Web) -> None:
    web.answers["/chunks"] = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    )
    web.answers["/none"] = b"HTTP/1.0 200 OK\r\n\r\nto the end"
    assert fetch(web, "/chunks") == b"abcde"
    assert fetch(web, "/none") == b"to the end"


def test_a_connection_that_stays_open_is_not_waited_for(web: Web) -> None:
    done = threading.Event()

    def keep(connection: socket.socket, _: Asked) -> None:
        connection.sendall(plain(b"all of it"))
        done.wait(PATIENCE)

    web.answers["/x"] = keep
    assert fetch(web) == b"all of it"
    done.set()


@pytest.mark.parametrize(
    "status", ["404 Not Found", "403 Forbidden", "401 Unauthorized", "206 Partial Content", "204 No"]
)
def test_other_answers_are_faults_at_once(web: Web, status: str) -> None:
    web.answers["/x"] = plain(b"words of the server", status=status)
    known = http.client.responses[int(status[:3])]
    assert fault(web) == f"the server answered {status[:3]} {known}"
    assert len(web.asked) == 1


def test_what_may_pass_is_tried_again(web: Web) -> None:
    slept = Slept()

    def later(connection: socket.socket, _: Asked) -> None:
        if len(web.asked) < 3:
            connection.sendall(
                plain(b"", status="503 Service Unavailable", Retry_After="7" if len(web.asked) == 1 else "soon")
            )
        else:
            connection.sendall(plain(b"at last"))

    web.answers["/x"] = later
    assert fetch(web, sleep=slept) == b"at last"
    assert slept == [7, 1]
    web.asked.clear()
    web.answers["/x"] = plain(b"", status="500 Internal Server Error", Retry_After="9999999999999999999")
    assert fault(web) == "the server answered 500 Internal Server Error, 4 times"
    assert len(web.asked) == 4


def test_a_server_that_is_not_there_is_tried_again(web: Web) -> None:
    slept = Slept()
    with socket.socket() as deaf:  # has the port, so that nobody else gets it, and doesn't listen
        deaf.bind(("127.0.0.1", 0))
        url = read_url(f"http://127.0.0.1:{deaf.getsockname()[1]}/x")
        with pytest.raises(FetchError, match=r"^no connection to 127\.0\.0\.1: Connection refused, 4 times$"):
            fetcher(hosts=("127.0.0.1",), sleep=slept).fetch(url)
    assert slept == [0.5, 1, 2]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (plain(b"half", length=9), "the answer was cut short: 4 of 9 bytes came, 4 times"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", "the answer was cut short, 4 times"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc", "the answer was cut short, 4 times"),
        (b"SSH-2.0-server\r\n", "the answer isn't HTTP, 4 times"),
        (b"", "the answer isn't HTTP, 4 times"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n", "the answer isn't HTTP, 4 times"),
        (plain(b"x", Content_Encoding="gzip"), "it was sent compressed, which wasn't asked for"),
    ],
)
def test_bad_answers(web: Web, answer: bytes, said: str) -> None:
    web.answers["/x"] = answer
    assert fault(web) == said


def test_a_wrong_length_bounds_what_is_read(web: Web) -> None:
    web.answers["/x"] = plain(b"more than it says", length=4)
    assert fetch(web) == b"more"


def test_what_is_too_large_is_not_read(web: Web) -> None:
    web.answers["/claimed"] = plain(b"", length=1 << 50)
    assert fault(web, "/claimed") == (
        f"{1 << 50} bytes are more than a value may have ({MOST}); --max-value-bytes says how many"
    )

    def endless(connection: socket.socket, _: Asked) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(bytes(1 << 16))

    web.answers["/endless"] = endless
    tracemalloc.start()
    try:
        assert (
            fault(web, "/endless")
            == "it is larger than a value may be (1048576 bytes); --max-value-bytes says how many"
        )
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_silence_and_dripping_end(web: Web) -> None:
    done = threading.Event()

    def silent(connection: socket.socket, _: Asked) -> None:
        done.wait(PATIENCE)

    def drip(head: bytes) -> Any:
        def answer(connection: socket.socket, _: Asked) -> None:
            connection.sendall(head)
            while not done.wait(0.02):
                connection.sendall(b"x")

        return answer

    web.answers |= {
        "/silent": silent,
        "/body": drip(b"HTTP/1.1 200 OK\r\n\r\n"),
        "/head": drip(b"HTTP/1.1 200 OK\r\nx: "),
    }
    assert fault(web, "/silent", still_seconds=0.1) == "the server took too long, 4 times"
    for path in ("/body", "/head"):
        assert fault(web, path, whole_seconds=0.15) == "it took longer than 0.15 s, 4 times"
    done.set()


def test_https_needs_a_certificate_that_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    with Web({"/x": plain(b"over TLS")}, tls=True) as web:
        said = fault(web)
        assert said.startswith("the certificate of localhost isn't trusted: self")
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert fetch(web) == b"over TLS"
        with pytest.raises(FetchError, match=r"^the certificate of 127\.0\.0\.1 isn't trusted: "):
            fetcher(hosts=("127.0.0.1",)).fetch(read_url(web.url("/x", "127.0.0.1")))


def test_a_handshake_without_end_ends(web: Web) -> None:
    with pytest.raises(FetchError, match=r"^it took longer than 0\.1 s, 4 times$"):
        fetcher(whole_seconds=0.1).fetch(read_url(web.url("/x").replace("http:", "https:")))


# --- where it goes ---


def test_redirects_stay_with_the_origin(web: Web) -> None:
    web.answers["/x"] = plain(b"", status="301 Moved Permanently", Location="y?token=secret")
    web.answers["/y?token=secret"] = plain(b"", status="307 Temporary Redirect", Location=web.url("/dir/../z"))
    web.answers["/z"] = plain(b"there")
    web.answers["/dir/../z"] = plain(b"there")
    assert fetch(web) == b"there"


@pytest.mark.parametrize(
    "location", ["http://other.example/x", "https://localhost/x", "http://localhost:1/x", "//evil.example/?s=secret"]
)
def test_redirects_elsewhere_are_refused(web: Web, location: str) -> None:
    web.answers["/x"] = plain(b"", status="302 Found", Location=location)
    said = fault(web)
    assert said.startswith("it redirects to another origin, http")
    assert "secret" not in said
    assert len(web.asked) == 1


@pytest.mark.parametrize("location", [None, "", "file:///etc/passwd", "gopher://localhost/", "http://["])
def test_redirects_to_no_url_are_refused(web: Web, location: str | None) -> None:
    web.answers["/x"] = plain(b"", status="302 Found", **({} if location is None else {"Location": location}))
    assert fault(web).startswith("it redirects to ")


def test_redirects_without_end_are_refused(web: Web) -> None:
    web.answers["/x"] = plain(b"", status="302 Found", Location="/x")
    assert fault(web) == "more than 5 redirects"
    assert len(web.asked) == 6


def test_private_addresses_are_refused_unless_named(web: Web) -> None:
    web.answers["/x"] = plain(b"internal")
    for host in ("localhost", "127.0.0.1", "[::ffff:127.0.0.1]"):
        with pytest.raises(FetchError, match="which is a private one; name the host with --fetch-hosts"):
            fetcher(hosts=("elsewhere",)).fetch(read_url(web.url("/x", host)))
    assert web.asked == []
    assert fetcher(hosts=("127.0.0.1",)).fetch(read_url(web.url("/x", "127.0.0.1"))) == b"internal"


def test_a_host_is_looked_up_once(web: Web) -> None:
    """What answers with a public address first and a private one later (DNS rebinding) is connected to neither way."""
    web.answers["/x"] = plain(b"1")
    asked = []

    def lookup(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        address = host if host != "localhost" else "127.0.0.1" if asked.count(host) == 1 else "10.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    with mock.patch("socket.getaddrinfo", lookup):
        one = fetcher()
        assert [one.fetch(read_url(web.url("/x"))) for _ in range(3)] == [b"1"] * 3
    assert [host for host in asked if host == "localhost"] == ["localhost"]


def test_a_name_with_one_private_address_is_refused() -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("93.184.216.34", "169.254.169.254")]
    with mock.patch("socket.getaddrinfo", return_value=found), pytest.raises(FetchError, match=r"169\.254\.169\.254"):
        fetcher().fetch(read_url("http://images.example/x"))


def test_a_host_that_is_not_known() -> None:
    def lookup(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with (
        mock.patch("socket.getaddrinfo", lookup),
        pytest.raises(FetchError, match=r"^the host nowhere.example isn't known"),
    ):
        fetcher().fetch(read_url("http://nowhere.example/x"))


# --- many ---


def test_many_come_in_order(web: Web) -> None:
    paths = [f"/{i}" for i in range(60)]
    web.answers |= {path: plain(path.encode()) for path in paths if path != "/7"}
    found = list(fetcher().fetch_all([read_url(web.url(path)) for path in paths]))
    assert [one for one in found if isinstance(one, bytes)] == [path.encode() for path in paths if path != "/7"]
    assert str(found[7]) == "the server answered 404 Not Found"


def test_large_ones_wait_for_their_turn(web: Web) -> None:
    large = bytes(PIECE_BYTES + 1)
    web.answers |= {"/small": plain(b"s"), "/large": plain(large), "/open": b"HTTP/1.0 200 OK\r\n\r\n" + large}
    urls = [read_url(web.url(path)) for path in ("/large", "/small", "/open", "/large")]
    found = list(fetcher(most=8 << 20).fetch_all(urls))
    assert [len(one) if isinstance(one, bytes) else one for one in found] == [len(large), 1, len(large), len(large)]
    assert isinstance(next(fetcher(most=PIECE_BYTES).fetch_all(urls)), FetchError)


def test_who_wants_no_more_waits_for_nothing(web: Web) -> None:
    done = threading.Event()

    def silent(connection: socket.socket, _: Asked) -> None:
        done.wait(PATIENCE)

    web.answers |= {"/x": plain(b"1"), "/silent": silent}
    one = fetcher()
    found = one.fetch_all([read_url(web.url(path)) for path in ("/x", *["/silent"] * 20)])
    assert next(found) == b"1"
    found.close()  # type: ignore[attr-defined]
    with pytest.raises(FetchError, match="nobody waits"):
        one.fetch(read_url(web.url("/x")))
    done.set()
