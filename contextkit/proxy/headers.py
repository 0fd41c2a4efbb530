"""Headers on their way through: all of them, but those that speak of one connection only.

Takes and gives lists of (name, value), names as they were spelled. Source: RFC 9110, section 7.6.1.
"""

from __future__ import annotations

from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Of one connection, whatever `Connection` names besides."""
_OF_THE_REQUEST = frozenset({b"host", b"expect"})
"""Said anew: the host is another one, and who expects `100 Continue` got it from us."""


def passed_on(headers: Iterable[tuple[bytes, bytes]], without: frozenset[bytes] = frozenset()) -> Headers:
    """What is for the other end.

    Of two ways to say how long a body is, chunks win, and both must not go on together (RFC 9112, 6.1).

    >>> passed_on([(b"X-Key", b"k"), (b"Connection", b"close, X-Hop"), (b"X-Hop", b"1")])
    [(b'X-Key', b'k')]
    >>> passed_on([(b"Content-Length", b"9"), (b"Transfer-Encoding", b"chunked")])
    []
    """
    kept = list(headers)
    without |= {b"content-length"} if value_of(kept, b"transfer-encoding") else set()
    named = {name.strip().lower() for key, value in kept if key.lower() == b"connection" for name in value.split(b",")}
    left_out = HOP_BY_HOP | without | named
    return [(name, value) for name, value in kept if name.lower() not in left_out]


def for_provider(headers: Iterable[tuple[bytes, bytes]], host: bytes, length: int | None = None) -> Headers:
    """A request's headers; `length` where its body is another one than the client's. A chunked body stays chunked."""
    kept = list(headers)
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in kept)
    is_upgrade = value_of(kept, b"upgrade")
    rest = passed_on(kept, _OF_THE_REQUEST)
    if length is not None:
        rest = [(name, b"%d" % length if name.lower() == b"content-length" else value) for name, value in rest]
    framing = [(b"Transfer-Encoding", b"chunked")] if is_chunked else []
    switch = [(b"Connection", b"Upgrade"), (b"Upgrade", is_upgrade)] if is_upgrade else []
    return [(b"Host", host), *rest, *framing, *switch]


def encoding_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """`Content-Encoding`, of several lines as one list; empty for none.

    >>> encoding_of([(b"Content-Encoding", b"gzip"), (b"content-encoding", b"br")])
    'gzip, br'
    """
    return ", ".join(value.decode("latin-1").strip() for key, value in headers if key.lower() == b"content-encoding")


def value_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """The first value under a lower-case name, empty where there is none."""
    return next((value for key, value in headers if key.lower() == name), b"")
