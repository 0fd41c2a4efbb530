r"""Redaction: covers secrets in recorded text with as many `*` as they have bytes, so that every byte offset stays
true.

What a secret is stands in `facts/redact.toml`. This module is the engine that reads a text with that table, and covers:

1. the credentials of the connection that the text passed over (`credentials_of`), wherever they stand;
2. values of named fields: `"x-api-key": "…"`, `password=…`, `?key=…`, `--token …`, `<password>…</password>`;
3. texts that introduce a secret: `Bearer …`, `curl -u …`, a private key in PEM;
4. keys that say themselves what they are, and runs of digits that the words before them call a secret.

It looks at the text as it is, then with its escapes undone (JSON `\u002d` and `\/`, percent-encoding, HTML references,
color codes, also twice encoded), then inside base64 and compressed data. Matches are mapped back to the original bytes.

Whether a byte is covered depends on what precedes it and on the run of characters it belongs to, never on what comes
later: two prompts that share a prefix share it after redaction, and equal secrets give equal bytes. Time grows linearly
with the text.
"""

from __future__ import annotations

import html
import json
import re
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from contextkit.facts.load import built_in_table

Span = tuple[int, int]
"""Start and end of bytes to cover."""

MIN_CREDENTIAL_BYTES = 8
"""Shorter credentials (`any`, `EMPTY`) are not searched for: they are words of the prompt."""
_MAX_REGISTERED = 32
_DEPTH = 2
"""Layers of base64 that are looked into."""
_ROUNDS = 3
"""How often escapes are undone: JSON in JSON, twice percent-encoded URLs."""
_DATA_BYTES = 2048
"""Longer runs of base64 are data: keys are looked for inside it, not in its own characters."""
_CONTEXT_BYTES = 48
"""How far before a run of digits a word may stand that calls it a secret."""
_MAX_VALUE_BYTES = 1 << 16
_MAX_INFLATED_BYTES = 1 << 22
"""Of compressed data no more is looked at."""


def redact(body: bytes, credentials: Iterable[str] = ()) -> bytes:
    """`body` with every secret covered, byte for byte as long.

    `credentials`, and those registered, are searched for literally.

    >>> redact(b'{"text":"my key is AKIAIOSFODNN7EXAMPLE, keep it"}')
    b'{"text":"my key is AKIA****************, keep it"}'
    >>> redact(rb'{"text":"sk\\u002dant-' + b'x7' * 20 + b'"}') == rb'{"text":"sk\\u002d' + b'*' * 44 + b'"}'
    True
    """
    return _covered(body, _spans(body, _searched(credentials), 0))


def redact_text(text: str, credentials: Iterable[str] = ()) -> str:
    """`redact` for text."""
    return redact(text.encode("utf-8", "surrogateescape"), credentials).decode("utf-8", "surrogateescape")


def redact_path(path: str, credentials: Iterable[str] = ()) -> str:
    """`redact_text` for the path of a URL, where a long run of letters and digits is covered, too: a key has no name
    there.

    >>> redact_path("/bot/" + "4f" * 16 + "/v1/messages")
    '/bot/********************************/v1/messages'
    """
    head, slash, endpoint = path.rpartition("/")
    if not re.fullmatch(r"[A-Za-z_:-]{0,40}", endpoint):
        head, slash, endpoint = path, "", ""
    raw = head.encode("utf-8", "surrogateescape")
    runs = [match.span() for match in re.finditer(rb"[A-Za-z0-9]{32,}", raw) if _LOOKS["mixed"].match(match[0])]
    return _covered(raw, _spans(raw, _searched(credentials), 0) + runs).decode("utf-8", "surrogateescape") + (
        slash + endpoint
    )


_registered: tuple[str, ...] = ()


def register_credentials(credentials: Iterable[str]) -> None:
    """Cover these from now on in whatever this process redacts: a client's own key, wherever a recording or a finding
    quotes it.

    They stay in memory only. The latest 32 are covered.
    """
    global _registered  # noqa: PLW0603 - one tuple, replaced as a whole: threads see the one or the other
    new = tuple(one for one in credentials if one not in _registered)
    if new:
        _registered = (*new, *_registered)[:_MAX_REGISTERED]


def credentials_of(headers: Iterable[tuple[bytes, bytes]], target: bytes = b"") -> tuple[str, ...]:
    """The credentials in the headers and in the query of a request (or in the headers of its response), longest first.

    >>> credentials_of([(b"Authorization", b"Bearer abcdefgh"), (b"Content-Length", b"12345678")], b"/v1?key=ijklmnop")
    ('abcdefgh', 'ijklmnop')
    """
    values: set[str] = set()
    for name, value in headers:
        if _row_of(name, ("name", "header")) or _SCHEME.match(value.lstrip()):
            values.update(_in_header(name.lower().decode("latin-1"), value.decode("latin-1").strip()))
    for pair in target.partition(b"?")[2].split(b"&"):
        name, _, value = pair.partition(b"=")
        if _row_of(unquote_to_bytes(name), ("name", "header", "parameter")):
            values |= {value.decode("latin-1"), unquote_to_bytes(value).decode("utf-8", "surrogateescape")}
    return tuple(sorted((one for one in values if len(one) >= MIN_CREDENTIAL_BYTES), key=lambda one: (-len(one), one)))


def _in_header(name: str, value: str) -> Iterator[str]:
    """Credentials in the value of a header."""
    scheme, blank, rest = value.partition(" ")
    if "cookie" in name:
        pairs = value.split(";")[: 1 if name == "set-cookie" else None]
        yield from (pair.partition("=")[2].strip().strip('"') for pair in pairs)
    elif not blank:
        yield value
    elif scheme.lower() != "basic" and re.search(r",|=.", rest):  # AWS4-HMAC-SHA256, Digest
        yield from re.findall(r'(?:Signature|Credential|signature|response|nonce|username|token)="?([^",\s]+)', rest)
    else:
        yield rest.strip()
        if scheme.lower() == "basic" and re.fullmatch(r"[A-Za-z0-9+/_-]+=*", rest.strip()):
            decoded = _from_base64(rest.strip().encode()).decode("utf-8", "replace")
            yield from (decoded, decoded.partition(":")[2])


# The table
# ----------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A row of the table, compiled."""

    sign: bytes
    pattern: re.Pattern[bytes]
    value: re.Pattern[bytes]
    behind: re.Pattern[bytes]


_LOOKS = {
    "": re.compile(rb""),
    "mixed": re.compile(rb"(?=[^0-9]*[0-9])[^A-Za-z]*[A-Za-z]"),
    "random": re.compile(rb"(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])[^A-Z]*[A-Z]"),
}
"""Word of the table → what a value looks like: letters and digits; digits and letters of both cases."""


@lru_cache(maxsize=1)
def _table() -> dict[str, list[_Row]]:
    """The rows, by where their secrets stand."""
    table = defaultdict[str, list[_Row]](list)
    for row in built_in_table("redact.toml")["secrets"]:
        where, pattern, value = row["where"], row["pattern"], row.get("value", "")
        begin = re.match(r"[\w/-]*", pattern)[0]  # type: ignore[index]  # at least nothing
        if where == "key" and begin:  # the engine of `re` is fast where a pattern begins with a literal
            pattern = f"{begin}(?<![A-Za-z0-9]{begin}){pattern[len(begin) :]}"  # no letter or digit precedes it
        elif where not in ("text", "key"):
            pattern = rf"(?:{pattern})\Z"
        parts = pattern, rf"(?:{value})\Z", row.get("behind", "")
        compiled, looks, behind = (re.compile(part.encode(), re.DOTALL) for part in parts)
        table[where].append(_Row(row.get("sign", begin).encode(), compiled, _LOOKS.get(value, looks), behind))
    return table


@lru_cache(maxsize=4096)
def _row_of(name: bytes, places: tuple[str, ...]) -> _Row | None:
    """The row that says that a field of this name holds a secret in one of these places."""
    word = re.sub(rb"[_.\-]", b"", name.lower())
    return next((row for place in places for row in _table()[place] if row.pattern.search(word)), None)


# Covering, and views of a text
# ----------------------------------------------------------------------------------------------------


def _searched(credentials: Iterable[str]) -> tuple[bytes, ...]:
    """What to search for: the credentials, and what all base64 has in common in which they stand, wherever they begin
    in it.
    """
    forms: dict[bytes, None] = {}
    for credential in (*credentials, *_registered):
        value = credential.encode("utf-8", "surrogateescape")
        if len(value) < MIN_CREDENTIAL_BYTES:
            continue
        for is_ascii in (True, False):  # as it stands in JSON
            written = json.dumps(credential, ensure_ascii=is_ascii)[1:-1]
            forms |= dict.fromkeys([value, written.encode("utf-8", "surrogateescape")])
        for shift, first in ((0, 0), (1, 2), (2, 3)):
            whole = b64encode(b"\0" * shift + value)[first : 8 * (shift + len(value)) // 6]
            forms |= dict.fromkeys([whole, whole.translate(_TO_URL_SAFE)])
    return tuple(forms)


def _covered(body: bytes, spans: Iterable[Span]) -> bytes:
    covered = None
    for start, end in spans:
        covered = bytearray(body) if covered is None else covered
        covered[start:end] = b"*" * (end - start)
    return body if covered is None else bytes(covered)


class _View:
    """Pieces of a text, joined, and where each came from."""

    def __init__(self, pieces: list[bytes], origins: list[int]) -> None:
        self.text = b"".join(pieces)
        self._starts = list(accumulate(map(len, pieces[:-1]), initial=0))
        self._origins = origins

    def at(self, span: Span) -> Span:
        """Where a span stands in the original."""
        indices = [bisect_right(self._starts, offset) - 1 for offset in span]
        start, end = (
            self._origins[index] + offset - self._starts[index] for index, offset in zip(indices, span, strict=True)
        )
        return start, end


def _spans(raw: bytes, secrets: tuple[bytes, ...], depth: int) -> list[Span]:
    """What to cover in `raw`, found in every view of it."""
    spans = list(_matches(raw, secrets, depth))
    views: list[_View] = []
    for _ in range(_ROUNDS):
        whole = _ESCAPE.split(views[0].text if views else raw)
        if len(whole) == 1:
            break
        pieces, origins, at = list[bytes](), list[int](), 0
        for index, piece in enumerate(whole):
            at += len(piece)
            if len(piece) > 2 * _MARGIN_BYTES:  # of long ones, the neighborhoods of the escapes: the rest was read before
                pieces += (piece[:_MARGIN_BYTES], _GAP + piece[-_MARGIN_BYTES:])
                origins += (at - len(piece), at - _MARGIN_BYTES - len(_GAP))
            else:
                pieces.append(_unescaped(piece) if index % 2 else piece)
                origins.append(at - len(piece))
        views.insert(0, _View(pieces, origins))
        for span in _matches(views[0].text, secrets, depth):
            for view in views:
                span = view.at(span)
            spans.append(span)
    return spans


_MARGIN_BYTES = 4096
_GAP = b'"\n'
"""Ends every pattern and every quoted value."""
_ESCAPE = re.compile(
    rb"(\\(?<!\\\\)\\*+(?:u00[2-7][0-9a-fA-F]|x[2-7][0-9a-fA-F]|/|(?:u001[bB]|x1[bB]|033|e)\[[0-9;]{0,20}[A-Za-z])"
    rb"|\x1b\[[0-9;]{0,20}[A-Za-z]|%[2-7][0-9a-fA-F]|&(?:\#[0-9]{2,5}|\#[xX][0-9a-fA-F]{1,4}|[A-Za-z]{2,8});)"
)
"""Escapes of printable ASCII, with the backslashes of JSON in JSON, and color codes."""


@lru_cache(maxsize=4096)
def _unescaped(escape: bytes) -> bytes:
    if escape.startswith(b"&"):
        return html.unescape(escape.decode()).encode("utf-8", "replace")
    if b"[" in escape:
        return b""
    return b"/" if escape.endswith(b"/") else bytes([int(escape[-2:], 16)])


# One view
# -----------------------------------------------------------------------------------------------------------------


def _matches(text: bytes, secrets: tuple[bytes, ...], depth: int) -> Iterator[Span]:
    """Secrets in one view."""
    for secret in secrets:
        yield from (match.span() for match in re.finditer(re.escape(secret), text))
    lower = text.lower()
    yield from _in_fields(text, lower)
    yield from _in_rows(_table()["text"], lower, text)
    pieces, origins = list[bytes](), list[int]()
    for run in _RUN.finditer(text):
        escape = _ESCAPE_REST.match(text, run.start()) if text[run.start() - 1 : run.start()] == b"\\" else None
        start, end = escape.end() if escape else run.start(), run.end()
        if end - start >= _DATA_BYTES and depth < _DEPTH and (data := _DATA.match(text, start)):
            yield from _re_encoded(_in_file(_from_base64(data[0]), secrets, depth + 1), *data.span())
            start = data.end()
        pieces.append(text[start:end] + b" ")
        origins.append(start)
    runs = _View(pieces, origins)
    yield from map(runs.at, _in_base64(runs.text, secrets, depth))
    for row in _table()["key"]:
        for start, end in map(runs.at, _in_rows([row], runs.text, runs.text)):
            if row.behind.search(lower[max(0, start - _CONTEXT_BYTES) : start]):
                yield start, end


def _in_rows(rows: list[_Row], searched: bytes, text: bytes) -> Iterator[Span]:
    """Matches of rows in `text` or the same in lower case."""
    for row in rows:
        if row.sign in searched:
            spans = (match.span(match.lastindex or 0) for match in row.pattern.finditer(searched))
            yield from (span for span in spans if row.value.match(text[slice(*span)]))


_RUN = re.compile(rb"[A-Za-z0-9_.+/=~:\-]{16,}")
"""Characters that keys are made of: prose has few long runs of them."""
_ESCAPE_REST = re.compile(rb"u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbfv]")

# Fields
# ----------------------------------------------------------------------------------------------------------------

_AFTER_NAME = rb"""
    (?P<rest> [\w.\-]{0,60}+ )
    (?: \\*["']?\]? \s{0,8} (?: => | := | [:=] ) \s{0,8}                              # name: value, "name": "value"
      | \\*["']?,? (?:\s|\\+[nrt]){0,8}+ \\*["']? value \\*["']? \s{0,8} [:=] \s{0,8}  # "name", "value": "value"
      | [ \t]{0,40} (?: \| | </t[dh]>\s{0,8}<t[dh][^<>]{0,200}> ) [ \t]{0,40}         # a row of a table
      | (?P<tag> (?:\s[^<>]{0,200}+)? > )
      | (?P<option> [ \t]++ | \\*["'],\s{0,8} (?=\\*["']) )                           # --name value, "--name", "value"
    )"""
_COMMAND = re.compile(rb"(?:\b|\\[nrt])(?:ENV|ARG|setenv|export|set(?: -\w{1,8}){1,3})[ \t]+\Z")
_NAME_BYTES = bytes(range(48, 58)) + bytes(range(65, 91)) + bytes(range(97, 123)) + b"_.-"
_QUOTE = re.compile(rb"\\*[\"']")
_WORD = re.compile(rb"[^\s\"'\\,;&<>(){}\[\]`|]+")
_SCHEME = re.compile(rb"(?:(?:bearer|basic|token|apikey|ssws) +|(?:key|token)=)+(?=\S)", re.IGNORECASE)
_OBJECT = re.compile(rb"\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+")
_LIST = re.compile(rb"\[[^\[\]]*+")
_SCHEMA_VALUE = re.compile(rb"\"(?:default|const|enum|examples?)\\*\"\s{0,8}:\s{0,8}")
_PLACEHOLDER = re.compile(
    rb"\$\{[^}]*\}|\$[\w.:]+|<[^>]*>|\{\{.*\}\}|%\w+%|\*+|[A-Za-z_]+(?:\.[A-Za-z_]+)+|[A-Z]*_[A-Z_]*"
    rb"|(?:flag|option|argument|parameter|value|field|header|instead|from|with|when|that|which|must|should|will|can)s?",
    re.DOTALL,
)
"""What stands for a value: a variable, an attribute of an object; and words that follow an option in prose."""


@lru_cache(maxsize=1)
def _field() -> re.Pattern[bytes]:
    """A name from the stem on by which the table finds it, and what stands between it and its value."""
    rows = [row for place in ("name", "variable", "parameter") for row in _table()[place]]
    stems = b"|".join(dict.fromkeys(row.sign for row in rows))
    return re.compile(b"(?:%s)%s" % (stems, _AFTER_NAME), re.VERBOSE)


def _in_fields(text: bytes, lower: bytes) -> Iterator[Span]:
    """Values of fields with the name of a secret."""
    for field in _field().finditer(lower):
        before = text[max(0, field.start() - 60) : field.start()]
        start = field.start() - len(before) + len(before.rstrip(_NAME_BYTES))
        if text[start - 1 : start] == b"\\" and _ESCAPE_REST.match(text, start):
            start += 1
        name, separator, end = text[start : field.end("rest")], text[field.end("rest") : field.end()], field.end()
        is_command = _COMMAND.search(text[max(0, start - 24) : start]) is not None and name.isupper()
        is_option = name.startswith(b"-") or is_command
        is_parameter = start > 0 and text[start - 1] in b"?&;#"
        places = ["name", *["variable"] * name.isupper(), *["parameter"] * is_parameter]
        row = _row_of(name, tuple(places))
        if row is None or (field["option"] and not is_option) or (field["tag"] and text[start - 1] not in b"<:"):
            continue
        is_assigned = is_option or is_parameter or (separator == b"=" and name.isupper()) or field["tag"]
        if object_ := _OBJECT.match(text, end, end + _MAX_VALUE_BYTES):  # a JSON schema
            values = [value.end() for value in _SCHEMA_VALUE.finditer(text, *object_.span())]
            spans = [span for value in values for span in _strings(text, value)]
        else:
            spans = list(_strings(text, end)) or list(_words(text, end, is_assigned=bool(is_assigned)))
        for span in spans:
            value = text[slice(*span)]
            if value and row.value.match(value) and not _PLACEHOLDER.fullmatch(value):
                yield span


def _words(text: bytes, at: int, *, is_assigned: bool) -> Iterator[Span]:
    """The word at `at`, if it is sure that a value stands there or if it looks like a key: prose and code name
    secrets, too.
    """
    scheme = _SCHEME.match(text, at)
    if word := _WORD.match(text, scheme.end() if scheme else at):
        is_joined = text[at - 1] == 0x3D and text[word.end() : word.end() + 1] in (b"&", b";")
        is_sure = is_assigned or is_joined or scheme
        if len(word[0]) >= 4 if is_sure else len(word[0]) >= 8 and _LOOKS["mixed"].match(word[0]):
            yield word.span()


def _strings(text: bytes, at: int) -> Iterator[Span]:
    """The quoted text that begins at `at`, or those of the list that does and look like keys."""
    if members := _LIST.match(text, at, at + _MAX_VALUE_BYTES):
        while quote := _QUOTE.search(text, at, members.end()):
            start, end = _in_quotes(text, quote)
            at = end + len(quote[0])
            if end - start >= 8 and _LOOKS["mixed"].match(text[start:end]) and b" " not in text[start:end]:
                yield start, end
    elif quote := _QUOTE.match(text, at):
        start, end = _in_quotes(text, quote)
        scheme = _SCHEME.match(text, start, end)
        yield scheme.end() if scheme else start, end


def _in_quotes(text: bytes, quote: re.Match[bytes]) -> Span:
    """The text behind a quote, empty if it has no end: structure of the JSON around it is never covered.

    A quote inside JSON that is itself a JSON string is written with 1, 3, 7 … backslashes; with more it is inside the
    value, with fewer it ends a string further out.
    """
    start, depth = quote.end(), len(quote[0]) - 1
    for mark in _ENDS[quote[0][-1:]].finditer(text, start, start + _MAX_VALUE_BYTES):
        excess = len(mark[1]) - depth
        if excess < 0 or mark[2] != quote[0][-1:]:
            break
        if excess % (2 * (depth + 1)) == 0:
            return start, mark.end() - len(quote[0])
    return start, start


_ENDS = {b'"': re.compile(rb"(\\*+)(\")"), b"'": re.compile(rb"(\\*+)(['\"\n]|(?<=\\)n)")}
"""Quote → what may end the text behind it."""

# Inside base64 and compressed data
# ------------------------------------------------------------------------------------------------------------

_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}")
_ALPHABETS = re.compile(rb"[A-Za-z0-9_-]{24,}"), re.compile(rb"[A-Za-z0-9+/]{24,}")
_DATA = re.compile(rb"[A-Za-z0-9+/_-]{2048,}={0,2}")
_TO_STANDARD, _TO_URL_SAFE = bytes.maketrans(b"-_", b"+/"), bytes.maketrans(b"+/", b"-_")
_ASCII_GROUPS = bytes(range(65, 91)) + b"abcdef"
"""First characters of the groups of four that three bytes of ASCII are written with: the first byte is below 128."""
_NOT_PRINTABLE = bytes([*range(9), *range(14, 32), *range(127, 256)])
_GROUPS_BEFORE = 2
"""Groups of four at the beginning of a run that may belong to something else: `/v1/`."""
_PNG, _GZIP = b"\x89PNG\r\n\x1a\n", b"\x1f\x8b"


def _from_base64(value: bytes) -> bytes:
    value = value.rstrip(b"=").translate(_TO_STANDARD)
    if len(value) % 4 == 1:
        value = value[:-1]
    return b64decode(value + b"=" * (-len(value) % 4))


def _in_base64(joined: bytes, secrets: tuple[bytes, ...], depth: int) -> Iterator[Span]:
    """Secrets in what short runs decode to.

    One may begin with characters that belong to something else: all four offsets are tried. A path's `/` and a name's
    `-` are characters of one alphabet: what is left of a run in each is tried, too.
    """
    for run in _BASE64.finditer(joined) if depth < _DEPTH else ():
        if run[0].islower() or run[0].isupper():  # hexadecimal digits, names
            continue
        parts = {run.span(), *(part.span() for each in _ALPHABETS for part in each.finditer(joined, *run.span()))}
        for start, end in ((first + offset, end) for first, end in parts for offset in range(4)):
            groups = joined[start + 4 * _GROUPS_BEFORE : end : 4]
            if len(groups.translate(None, _ASCII_GROUPS)) * 10 > len(groups) and not joined.startswith(b"H4sI", start):
                continue
            data = _from_base64(joined[start:end])
            tail = data[3 * _GROUPS_BEFORE :]
            if len(tail.translate(None, _NOT_PRINTABLE)) >= len(tail) * 0.9 or data.startswith(_GZIP):
                yield from _re_encoded(_in_file(data, secrets, depth + 1), start, end)


def _re_encoded(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """Where the bytes of decoded spans stand in the base64 from `start` to `end`."""
    for low, high in spans:
        yield start + low * 4 // 3, min(start - (-high * 4 // 3), end)


def _in_file(data: bytes, secrets: tuple[bytes, ...], depth: int) -> list[Span]:
    """Secrets in a text or in another file, whose metadata is text; a compressed part is covered as a whole."""
    parts = [(0, 0, len(data))] if data.startswith(_GZIP) else list(_png_texts(data))
    return _spans(data, secrets, depth) + [
        (start, end) for start, packed, end in parts if _spans(_inflated(data[packed:end]), secrets, depth)
    ]


def _png_texts(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Of each chunk of compressed text in a PNG: where it starts, where what is compressed starts, where it ends."""
    at = len(_PNG) if data.startswith(_PNG) else len(data)
    while at + 12 <= len(data):
        start, end = at + 8, at + 8 + int.from_bytes(data[at : at + 4])
        keyword = re.compile(rb"[^\0]*\0(?:\0|\1\0[^\0]*\0[^\0]*\0)").match(data, start, min(end, len(data)))
        if data[at + 4 : start] in (b"zTXt", b"iTXt") and keyword:
            yield start, keyword.end(), min(end, len(data))
        at = end + 4


def _inflated(packed: bytes) -> bytes:
    """What is compressed, as far as it is sound."""
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(packed, _MAX_INFLATED_BYTES)
    except zlib.error:
        return b""
