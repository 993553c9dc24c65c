"""URLs of tables: what is shown and stored of one holds nothing of its user part, query and fragment."""

from __future__ import annotations

from toolkit.sources.urls import UrlError, read_url

_SECRET = "kEy7"  # stands in no seed


def fuzz(data: bytes) -> object:
    """Use one input, with secrets put where they may be."""
    text = data.decode("utf-8", "surrogateescape")
    told = None
    for one in (text, text.replace("@", f"{_SECRET}@"), f"{text}?{_SECRET}", f"{text}#{_SECRET}"):
        try:
            url = read_url(one)
        except UrlError as error:
            said = str(error)
            assert _SECRET not in said
            continue
        assert _SECRET not in url.shown + url.server + repr(url.origin), one
        if "@" not in text.partition("//")[2].partition("/")[2]:  # nor in what may be a path
            assert _SECRET not in url.key, one
        assert url.target.isascii()
        assert not set(url.target) & set(" \r\n\t\0")
        assert not set(url.host) & set(" \r\n\t\0/@?#")
        told = (url.scheme, url.is_private, url.port % 7)
    return told


def seeds() -> list[bytes]:
    """Return URLs of each form."""
    texts = [
        "http://a/x",
        "https://u:p@a.example:81/é?q=1#f",
        "http://[::1%25eth0]/",
        "http://ü/",
        "http://a\\@b/",
        "x:",
    ]
    return [text.encode() for text in texts]
