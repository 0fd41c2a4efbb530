"""Which `Host` and `Origin` a request may carry: the protection against DNS rebinding and cross-site requests.

A web page can make the user's browser send requests to a port on loopback. With DNS rebinding its own name resolves to
127.0.0.1, so that it may read the answers as well. The browser then still sends the name of the page as `Host`: a
server on loopback refuses every name that is not its own. Used by the local provider and by the proxy; knows neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from contextkit.errors import UsageError

Headers = Iterable[tuple[bytes, bytes]]
"""Names in lower case, and values."""

_AUTHORITY = re.compile(r"(?P<name>\[[0-9a-f:.]+(?:%25?[\w.~-]+)?\]|[\w.-]+)(?::(?P<port>\d{0,5}))?", re.ASCII)
"""`host`, `host:port`, `[::1]:port`; no user, path or query."""
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?P<authority>[^/?#@\\]+)", re.ASCII)
_SIMPLE_TYPES = frozenset({"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
"""Content types that a browser sends to another site without asking that site first (Fetch standard, CORS-safelisted).
"""
_SAME_SITE = frozenset({"same-origin", "none"})
"""`Sec-Fetch-Site` of a page of this server, and of an address the user typed."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request is refused, and how to allow it."""

    status: int
    """HTTP status."""
    text: str
    """For the person who sees the error."""


class Hosts:
    """The names a server answers to: `localhost`, `127.0.0.0/8`, `[::1]`, the host it is bound to, and `allowed`.

    A server bound to all interfaces answers to every IP address as well: a page cannot rebind an address, only a name.

    >>> hosts = Hosts(allowed=["box.internal"])
    >>> hosts.refusal([(b"host", b"Box.Internal.:8089")]) is None, hosts.refusal([(b"host", b"evil.com")]).status
    (True, 403)
    """

    def __init__(self, bound: str = "127.0.0.1", allowed: Iterable[str] = ()) -> None:
        """Raises `UsageError` for an allowed host that is not one."""
        self._allowed = frozenset(map(_host_name, allowed))
        self._names = self._allowed | {"localhost", _canonical(bound)}
        self._takes_addresses = bound in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound to

    def refusal(self, headers: Headers, *, is_json_only: bool = False) -> Refused | None:
        """Why this request may not be answered, None where it may; `is_json_only` refuses what an HTML form can send.

        Depends on headers alone, so that it is decided before a body is read. A request without `Host` is an HTTP/1.0
        client's (the HTTP parser refuses it in HTTP/1.1): no browser sends one, so it is answered.
        """
        given = list(headers)
        host = _values(given, b"host")
        parts = _AUTHORITY.fullmatch(host[0].lower()) if len(host) == 1 else None
        if host and parts is None:
            return Refused(400, "send one Host header, of the form name or name:port")
        if parts is not None and not self._is_ours(parts["name"]):
            text = f"this server does not answer to the host name {host[0][:100]!r}; {_hint('that name')}"
            return Refused(403, text)
        for origin in _values(given, b"origin"):
            if not self._is_same(origin.lower(), parts):
                return Refused(
                    403, f"pages of another origin ({origin[:100]}) may not call this server; {_hint('its host name')}"
                )
        sites = _values(given, b"sec-fetch-site")
        origins = [_authority_of(origin.lower()) for origin in _values(given, b"origin")]
        is_allowed = bool(origins) and all(origin is not None and self._is_allowed(origin) for origin in origins)
        if not _SAME_SITE.issuperset(sites) and not is_allowed:
            return Refused(403, f"a page of another site may not call this server (Sec-Fetch-Site: {sites[0][:40]})")
        kinds = {value.partition(";")[0].strip().lower() for value in _values(given, b"content-type")}
        if is_json_only and kinds & _SIMPLE_TYPES:
            return Refused(
                415,
                "send the body as application/json (curl: --json DATA, or -d DATA -H 'content-type: application/json')",
            )
        return None

    def _is_ours(self, name: str) -> bool:
        address = _address(name)
        is_local = address is not None and (address.is_loopback or self._takes_addresses)
        return is_local or _canonical(name) in self._names

    def _is_same(self, origin: str, host: re.Match[str] | None) -> bool:
        """Return whether a page is one of this server's own, or of a host that was allowed by name."""
        authority = _authority_of(origin)
        if authority is None:
            return False
        is_own = host is not None and origin.startswith(("http://", "https://")) and _place(authority) == _place(host)
        return is_own or self._is_allowed(authority)

    def _is_allowed(self, authority: re.Match[str]) -> bool:
        return _canonical(authority["name"]) in self._allowed


def _place(authority: re.Match[str]) -> tuple[str, str]:
    return authority["name"].rstrip("."), authority["port"] or ""


def _authority_of(origin: str) -> re.Match[str] | None:
    found = _ORIGIN.fullmatch(origin)
    return _AUTHORITY.fullmatch(found["authority"]) if found else None


def _address(name: str) -> IPv4Address | IPv6Address | None:
    """The IP address a host is, None for a name; an IPv4 address in IPv6 form is the IPv4 address."""
    try:
        address = ip_address(name.strip("[]").replace("%25", "%"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _canonical(name: str) -> str:
    """One spelling of a host: addresses in their shortest form and without the zone, which clients leave out of `Host`."""
    address = _address(name)
    return name.lower().strip("[]").rstrip(".") if address is None else str(address).partition("%")[0]


def _host_name(name: str) -> str:
    """The host name of `--allow-host`, without its port."""
    parts = _AUTHORITY.fullmatch(name.strip().lower()) or _AUTHORITY.fullmatch(f"[{name.strip().lower()}]")
    if parts is None:
        raise UsageError(
            f"--allow-host {name!r}: give a host name as clients write it, without scheme and path (box.internal)"
        )
    return _canonical(parts["name"])


def _values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key == name]


def _hint(what: str) -> str:
    return f"if you trust it, start the server with --allow-host and {what} (LocalServer(allow_hosts=[…]))"
