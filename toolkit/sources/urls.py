"""URLs in tables: what of one may be shown and stored, and which addresses its host may have. Fetches nothing.

What stands before the host of a URL, and behind its path, may be a secret: it is sent to that host, and goes nowhere
else.
"""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import quote, unquote_to_bytes, urlsplit

__all__ = ["Url", "UrlError", "address_fault", "is_url", "origin_in", "read_url"]

_URL = re.compile(r"https?://", re.IGNORECASE)
_NOT_FIRST = "0123456789+.-"  # of a scheme
_SCHEME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + _NOT_FIRST
_SAFE = "/%:@!$&'()*+,;=~-._"  # what needs no escape in a path
_CONTROLS = re.compile(r"[\x00-\x20\x7f]")
_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class UrlError(ValueError):
    """Why a text is no URL that can be fetched; it can be shown."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL to fetch.

    Attributes:
        scheme: "http" or "https".
        host: In ASCII and lower case, without brackets.
        port: Where the host listens.
        path: As it is written, with a slash at least.
        target: What is asked for: path and query, escaped.
        authorization: What a user part comes to in a request's header, or None.
        is_private: It has a query or a user part, or looks so: of such, messages have no more than `shown`.
    """

    scheme: str
    host: str
    port: int
    path: str
    target: str = field(repr=False)
    authorization: str | None = field(repr=False)
    is_private: bool

    @property
    def origin(self) -> tuple[str, str, int]:
        """What a redirect must not leave."""
        return self.scheme, self.host, self.port

    @property
    def server(self) -> str:
        """The host as it stands in a URL, with a port that isn't the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def key(self) -> str:
        """The key of the sample that it is: without query, user part and fragment."""
        return f"{self.scheme}://{self.server}{self.path}"

    @property
    def shown(self) -> str:
        """The URL for messages: scheme and host, and the path where nothing else was there."""
        return f"{self.scheme}://{self.server}" if self.is_private else self.key


def is_url(text: str) -> bool:
    """Tell whether a text begins as a URL that can be fetched does."""
    return _URL.match(text) is not None


def origin_in(text: str) -> str | None:
    """Return scheme and host of the first URL in a text, of whatever scheme; None where there is none.

    What stands before and behind them may be a secret. In one pass: a regular expression looks again from every letter.
    """
    start = 0
    for before in text.split("://")[:-1]:
        scheme = before[len(before.rstrip(_SCHEME)) :].lstrip(_NOT_FIRST)
        start += len(before)
        if scheme:
            try:
                host = urlsplit(text[start - len(scheme) :]).hostname
            except ValueError:
                host = None
            return f"{scheme.lower()}://{host or ''}"
        start += len("://")
    return None


def read_url(text: str) -> Url:
    """Return the parts of an http or https URL.

    Raises:
        UrlError: It is none, or can't be asked for.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UrlError("it is no URL that can be read") from error
    if parts.scheme not in _PORTS or not host:
        raise UrlError("it is no URL that can be read")
    if _CONTROLS.search(text):
        raise UrlError("the URL holds a space or control character")
    try:
        host = host.encode("ascii" if host.isascii() else "idna").decode()
        target = quote(parts.path or "/", safe=_SAFE)
        target += f"?{quote(parts.query, safe=_SAFE + '?')}" if parts.query else ""
        authorization = None
        if parts.username is not None:
            told = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
            authorization = f"Basic {b64encode(told).decode()}"
    except UnicodeError as error:
        raise UrlError("the URL holds text that can't be sent") from error
    return Url(
        scheme=parts.scheme,
        host=host.lower(),
        port=_PORTS[parts.scheme] if port is None else port,
        path=parts.path or "/",
        target=target,
        authorization=authorization,
        is_private="?" in text or "@" in text,  # wherever: a password with a slash in it begins a path
    )


def address_fault(host: str, address: str, named: Collection[str]) -> str | None:
    """Tell why no connection is made to an address of a host, or None.

    Args:
        host: The host, as Url has it.
        address: An IP address that it has.
        named: Hosts that may have any address, since the user names them.
    """
    if host in named:
        return None
    found = ipaddress.ip_address(address.partition("%")[0])
    if all(_is_public(one) for one in _inner(found)):
        return None
    return f"{host} has the address {address}, which is a private one; name the host with --fetch-hosts if it is meant"


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _inner(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return an address, or the IPv4 addresses that one of version 6 stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    inside = [one for one in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if one is not None]
    return [*inside] or [address]
