from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.sources.urls import UrlError, address_fault, is_url, origin_in, read_url


@pytest.mark.parametrize(
    ("text", "key", "shown", "target"),
    [
        ("http://a.example/x/y.jpg", "http://a.example/x/y.jpg", "http://a.example/x/y.jpg", "/x/y.jpg"),
        ("HTTPS://A.Example", "https://a.example/", "https://a.example/", "/"),
        ("https://a.example:443/x#part", "https://a.example/x", "https://a.example/x", "/x"),
        ("http://a.example:81/é b", None, None, None),
        ("http://a.example:81/é%20b", "http://a.example:81/é%20b", "http://a.example:81/é%20b", "/%C3%A9%20b"),
        ("http://a.example/x?sig=s%3D1&b=?", "http://a.example/x", "http://a.example", "/x?sig=s%3D1&b=?"),
        ("http://me:secret@a.example/x", "http://a.example/x", "http://a.example", "/x"),
        ("http://me:1/secret@a.example/x", "http://me:1/secret@a.example/x", "http://me:1", "/secret@a.example/x"),
        ("http://a.example/@me/x", "http://a.example/@me/x", "http://a.example", "/@me/x"),
        ("http://@a.example/x", "http://a.example/x", "http://a.example", "/x"),
        ("http://[2001:DB8::1]:80/x", "http://[2001:db8::1]/x", "http://[2001:db8::1]/x", "/x"),
        ("http://münchen.example/x", "http://xn--mnchen-3ya.example/x", "http://xn--mnchen-3ya.example/x", "/x"),
    ],
)
def test_parts(text: str, key: str | None, shown: str, target: str) -> None:
    assert is_url(text)
    if key is None:
        with pytest.raises(UrlError, match="space or control"):
            read_url(text)
        return
    url = read_url(text)
    assert (url.key, url.shown, url.target) == (key, shown, target)
    assert "secret" not in url.shown


@pytest.mark.parametrize(
    "text",
    [
        "http://",
        "http:///x",
        "http://a:99999/",
        "http://a:b/",
        "http://[::1/",
        "ftp://a/x",
        "http://\udc80@a/",
        "http://a/\udc80",
        "http://\udc80/",
        "x",
        "http://" + "a" * 70 + ".é/",
    ],
)
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(UrlError):
        read_url(text)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_private_addresses(address: str) -> None:
    assert address_fault("a.example", address, {"b.example"}) is not None
    assert address_fault("a.example", address, {"a.example"}) is None


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses(address: str) -> None:
    assert address_fault("a.example", address, ()) is None


@given(st.text(max_size=30))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    for one in (text, f"http://{text}", f"http://a{text}", f"https://user:secret@{text}"):
        with contextlib.suppress(UrlError):
            url = read_url(one)
            assert url.target.isascii()
            assert url.target.startswith("/")
            assert url.host.isascii()
            assert "secret" not in url.shown + url.key or "secret" in text


@pytest.mark.parametrize(
    ("text", "origin"),
    {
        "x S3+y://me:secret@Host:1/x?secret": "s3+y://host",
        "secret 1.http://a://b": "http://a",
        "://a 1://b c://d": "c://d",
        "http://[secret": "http://",
        "a:/b": None,
        "1://a": None,
        "": None,
    }.items(),
)
def test_an_origin_in_a_text(text: str, origin: str | None) -> None:
    assert origin_in(text) == origin


@pytest.mark.parametrize("text", ["a" * 1_000_000, "1://" * 250_000, "a" * 1_000_000 + " ://"])
def test_a_long_text_takes_no_long_time(text: str) -> None:
    # Half an hour, if each letter is where a search begins again.
    assert origin_in(text) is None
