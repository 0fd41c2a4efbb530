"""HTTP archives (HAR 1.2) of mitmproxy's `hardump` and of browsers: the calls of models in them.

Takes a source, gives one call for each entry that is a call of a model, with the body that was sent. Other entries
are passed over. Bodies may be base64, packed with gzip, deflate or zstd, or event streams run together. Headers,
cookies and query strings are not kept: of the headers only the names of session and agent are read. Where a fault names
a line, that
is the entry's number in the archive. An archive that was cut, or is larger than memory, is read entry by entry.
"""

from __future__ import annotations

import gzip
import re
import zlib
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from contextkit.errors import MissingExtra
from contextkit.importers.answers import amazon_events, answer_of
from contextkit.importers.billed import host_in
from contextkit.importers.format import first_line
from contextkit.importers.pairing import Body, Pair, Pairs, body_of
from contextkit.importers.source import Source, load_json
from contextkit.importers.transcript import plausible
from contextkit.ledger.calls import Record
from contextkit.providers.client_names import names_in_headers
from contextkit.providers.response_facts import ResponseFacts

PIECE = 4 << 20
"""Bytes read at once of a larger one: an entry that a piece ends inside is looked through twice."""
MOST_AT_ONCE = 16 << 20
"""Bytes; a larger archive is cut into its entries as it comes."""
_ENDPOINTS = re.compile(
    r"/(?:messages|chat/completions|responses|completions)/?$|:(?:stream)?generateContent$|/converse(?:-stream)?$"
    r"|/invoke(?:-with-response-stream)?$|:(?:stream)?rawPredict$",
    re.IGNORECASE,
)
"""Where models are called, by the end of the path."""
_BEFORE_FIRST = ("blocked", "dns", "connect", "send", "wait")
"""What passes before the first byte; `ssl` is part of `connect` (HAR 1.2, timings)."""


def is_har(head: bytes) -> bool:
    """Return whether a file that starts like this is an HTTP archive.

    >>> is_har(b'{"log": {"version": "1.2", "creator": {}, "entries": []}}'), is_har(b'{"log": "started"}')
    (True, False)
    """
    return _LOG.match(head.lstrip(b"\xef\xbb\xbf \t\r\n")) is not None and b'"contextkit_ledger"' not in first_line(
        head
    )


_LOG = re.compile(rb'\{\s*"log"\s*:\s*\{\s*"(?:version|creator|browser|pages|entries|comment)"')


def read(source: Source) -> Iterator[Record]:
    """The calls of models in an archive, in its order."""
    pairs = Pairs(source)
    for number, entry in enumerate(_entries(source), 1):
        pair = _call_of(pairs, number, entry) if isinstance(entry, dict) else None
        if pair:
            yield from pairs.records(pair)
    pairs.finish()


def _call_of(pairs: Pairs, number: int, entry: dict[str, Any]) -> Pair | None:
    request, response = _table(entry, "request"), _table(entry, "response")
    url = str(request.get("url") or "").split("?")[0].split("#")[0]
    if not _ENDPOINTS.search(url) or str(request.get("method", "POST")).upper() != "POST":
        return None
    headers = _headers(request)
    sent = _sent(pairs, number, _table(request, "postData"), headers)
    answer = _answer(pairs.source, number, response)
    if sent is None and (answer is None or not answer.counts):
        return None
    pair = Pair(number, sent, answer, url=url, in_headers=names_in_headers(headers.items(), host_in(url)))
    pair.at, pair.first_byte_at, pair.ended_at = _times(entry)
    status = response.get("status")
    pair.error = (
        "aborted"
        if not status or status == -1
        else f"http_{status}"
        if isinstance(status, int) and status >= 400
        else None
    )
    return pair


def _table(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    """Only looked at, never kept."""
    listed = message.get("headers")
    pairs = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return {str(one.get("name")).lower(): str(one.get("value")) for one in pairs}


def _times(entry: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    at, took = plausible(entry.get("startedDateTime")), entry.get("time")
    timings = _table(entry, "timings")
    if at is None:
        return None, None, None
    waited = [
        timings[name] for name in _BEFORE_FIRST if isinstance(timings.get(name), int | float) and timings[name] > 0
    ]
    first = at + sum(waited) / 1000 if isinstance(timings.get("wait"), int | float) and timings["wait"] >= 0 else None
    return at, first, at + took / 1000 if isinstance(took, int | float) and took > 0 else None


# Bodies
# -------------------------------------------------------------------------------------------------------------------


def _sent(pairs: Pairs, number: int, posted: Mapping[str, Any], headers: Mapping[str, str]) -> Body | None:
    """What was posted; its text, or base64 of what was packed (`encoding` is mitmproxy's and Chromium's addition)."""
    text = posted.get("text")
    if not isinstance(text, str) or not text:
        return None
    raw = _bytes(text, str(posted.get("encoding") or ""))
    body = body_of(_plain(raw, headers.get("content-encoding", "")), pairs.bodies) if raw is not None else None
    if body is None:
        pairs.source.fault(
            number, "a request body that is no call of a model, or cannot be unpacked; its prompt is unknown"
        )
    return body


def _answer(source: Source, number: int, response: Mapping[str, Any]) -> ResponseFacts | None:
    content = _table(response, "content")
    text = content.get("text")
    if not isinstance(text, str) or not text:
        return None
    if content.get("encoding") == "base64" or "amazon.eventstream" in str(content.get("mimeType")):
        raw = _bytes(text, str(content.get("encoding") or ""))
        raw = None if raw is None else _plain(raw, _headers(response).get("content-encoding", ""))
        if raw is None:
            source.fault(number, "a response body that cannot be unpacked; its bill is unknown")
            return None
        if "amazon.eventstream" in str(content.get("mimeType")):
            return answer_of(list(amazon_events(raw)))
        text = raw.decode("utf-8", "replace")
    answer = answer_of(text)
    if answer is not None and "event-stream" in str(content.get("mimeType")):
        answer.is_stream = True
    return answer


def _bytes(text: str, encoding: str) -> bytes | None:
    if encoding != "base64":
        return text.encode("utf-8", "surrogatepass")
    try:
        return b64decode(text)
    except (NotBase64, ValueError):
        return None


def _plain(raw: bytes, encoding: str) -> bytes:
    """`raw` unpacked.

    A body that was unpacked by whoever wrote the archive keeps its header, so its bytes are looked at too.
    """
    packer = next((packer for magic, packer in _PACKED if raw.startswith(magic)), None)
    if packer is None and encoding == "deflate":
        packer = _inflated
    try:
        return packer(raw) if packer else raw
    except (OSError, EOFError, zlib.error):
        return _what_came(raw) if raw.startswith(b"\x1f\x8b") else raw


def _what_came(raw: bytes) -> bytes:
    """A gzip stream that was cut, as far as it goes."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        return unpacker.decompress(raw)
    except zlib.error:
        return raw


def _inflated(raw: bytes) -> bytes:
    try:
        return zlib.decompress(raw)
    except zlib.error:
        return zlib.decompress(raw, -15)


def _zstd(raw: bytes) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("reading what zstd packed", "zstd") from None
    return zstandard.ZstdDecompressor().decompressobj().decompress(raw)


_PACKED: tuple[tuple[bytes, Callable[[bytes], bytes]], ...] = (
    (b"\x1f\x8b", gzip.decompress),
    (b"\x28\xb5\x2f\xfd", _zstd),
    (b"\x78\x9c", zlib.decompress),
    (b"\x78\x01", zlib.decompress),
)
"""(first bytes, how it is unpacked)."""

# Entries
# ------------------------------------------------------------------------------------------------------------------


def _entries(source: Source) -> Iterator[Any]:
    """Each entry; one that cannot be read, and what an archive that was cut ends with, is a fault."""
    chunks = source.chunks(PIECE)
    start = bytearray()
    for chunk in chunks:
        start += chunk
        if len(start) > MOST_AT_ONCE:
            yield from _cut(source, start, chunks)
            return
    try:
        if start.startswith(b"\xef\xbb\xbf"):
            del start[:3]
        entries = load_json(start)["log"]["entries"]
        yield from entries if isinstance(entries, list) else []
    except (orjson.JSONDecodeError, KeyError, TypeError):
        yield from _cut(source, start, iter(()))


_ARRAY = re.compile(rb'"entries"\s*:\s*\[')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\]]', re.DOTALL)


def _cut(source: Source, held: bytearray, chunks: Iterator[bytes]) -> Iterator[Any]:
    """The entries of an archive as they come, found by their braces."""
    opening = _ARRAY.search(held)
    if opening is None:
        source.fault(0, "no entries in it")
        return
    del held[: opening.end()]
    number = 0
    while True:
        end, entry = _next_entry(held)
        if entry is None:
            end = _end_of_entry(held)
        if end > 0:
            number += 1
            try:
                yield load_json(held[held.index(b"{") : end]) if entry is None else entry
            except orjson.JSONDecodeError:
                source.fault(number, "no JSON; passed over")
            del held[:end]
        elif end < 0:
            return
        elif not _more(held, chunks):
            source.fault(number + 1, "the archive was cut here; every entry before it is whole")
            return


def _more(held: bytearray, chunks: Iterator[bytes]) -> bool:
    """Read on, as much again as is held: an entry that takes many chunks is not looked through for each."""
    wanted = 2 * len(held)
    for chunk in chunks:
        held += chunk
        if len(held) >= wanted:
            return True
    return len(held) * 2 > wanted


def _next_entry(held: bytearray) -> tuple[int, dict[str, Any] | None]:
    """Where the first object ends and what it says, found by how the one behind it begins.

    Nothing where it is not found so.

    Objects of one list begin with one key. A quote inside a string is escaped, so what begins like that is no text.
    """
    opening = _OPENING.match(held)
    behind = held.find(opening[1], opening.end()) if opening else -1
    if not opening or behind < 0:
        return 0, None
    try:
        entry = load_json(held[opening.start(1) : behind].rstrip(b", \t\r\n"))
    except orjson.JSONDecodeError:
        return 0, None
    return (behind, entry) if isinstance(entry, dict) else (0, None)


_OPENING = re.compile(rb'[,\s]*(\{\s*"[^"\\]*")')


def _end_of_entry(held: bytearray) -> int:
    """Where the first object ends; 0 where that has not come yet, -1 where the array ends before one begins."""
    depth = 0
    for token in _TOKEN.finditer(held):
        kind = token[0]
        if kind == b"{":
            depth += 1
        elif kind == b"}":
            depth -= 1
            if not depth:
                return token.end()
        elif kind == b"]" and not depth:
            return -1
        elif kind == b'"':
            return 0  # a string that has not ended yet
    return 0
