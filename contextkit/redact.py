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
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from contextkit.facts.load import built_in_table

Span = tuple[int, int]
"""Start and end of bytes to cover."""

MIN_CREDENTIAL_BYTES = 8
"""Shorter credentials (`any`, `EMPTY`) are not searched for: they are words of the prompt."""
_MAX_REGISTERED = 32
_MAX_DEPTH = 2
"""Layers of base64 that are looked into."""
_MAX_ROUNDS = 3
"""How often escapes are undone: JSON in JSON, twice percent-encoded URLs."""
_MARGIN_BYTES = 4096
"""How far from an escape a text is read again after it was undone."""
_DATA_BYTES = 2048
"""Longer runs of base64 are data: keys are looked for inside it, not in its own characters."""
_CONTEXT_BYTES = 48
"""How far before a run of digits a word may stand that calls it a secret."""
_MAX_VALUE_BYTES = 1 << 16
_MAX_PACKED_BYTES, _MAX_PACKED = 1 << 20, 64
"""Of compressed data no more is looked at, and no more parts of a file."""


def redact(body: bytes, credentials: Iterable[str] = ()) -> bytes:
    """`body` with every secret covered, byte for byte as long.

    `credentials`, and those registered, are searched for literally.

    >>> redact(b'{"text":"my key is AKIAIOSFODNN7EXAMPLE, keep it"}')
    b'{"text":"my key is AKIA****************, keep it"}'
    >>> redact(rb'{"text":"sk\\u002dant-' + b'x7' * 20 + b'"}') == rb'{"text":"sk\\u002d' + b'*' * 44 + b'"}'
    True
    """
    return _covered(body, _spans(body, _searched(credentials)))


def redact_text(text: str, credentials: Iterable[str] = ()) -> str:
    """`redact` for text."""
    return redact(text.encode("utf-8", "surrogateescape"), credentials).decode("utf-8", "surrogateescape")


def redact_path(path: str, credentials: Iterable[str] = ()) -> str:
    """`redact_text` for the path of a URL, where a long run of letters and digits is covered, too: a key has no name
    there.

    >>> redact_path("/bot/" + "4f" * 16 + "/v1/messages")
    '/bot/********************************/v1/messages'
    """
    head, *endpoint = re.split(r"(?=/[A-Za-z_:-]{0,40}\Z)", path)
    raw = redact_text(head, credentials).encode("utf-8", "surrogateescape")
    return _covered(raw, _in_rows("path", raw, raw)).decode("utf-8", "surrogateescape") + "".join(endpoint)


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
        if _row_of(name, "name", "header") or _SCHEMES.match(value):
            values.update(_in_header(name.lower(), value.decode("latin-1")))
    for pair in target.partition(b"?")[2].split(b"&"):
        name, _, value = pair.partition(b"=")
        if _row_of(unquote_to_bytes(name), "name", "header", "parameter"):
            values |= {value.decode("latin-1"), unquote_to_bytes(value).decode("utf-8", "surrogateescape")}
    return tuple(sorted(sorted(one for one in values if len(one) >= MIN_CREDENTIAL_BYTES), key=len, reverse=True))


_SCHEMES = re.compile(rb"\s*(?:bearer|basic|token|apikey) +\S", re.IGNORECASE)
"""A header's value that says itself that it is a credential, whatever the header is called."""


def _in_header(name: bytes, value: str) -> list[str]:
    """The credentials in the value of a header."""
    if b"cookie" in name:
        return re.findall(r'=\s*"?([^;"]+)', value if name == b"cookie" else value.partition(";")[0])
    parts = re.findall(r'(?:Signature|Credential|signature|response|nonce|username|token)="?([^",\s]+)', value)
    parts = parts or [value.strip().partition(" ")[2].strip() or value.strip()]
    if basic := re.match(r"(?i)\s*basic +([A-Za-z0-9+/_-]+)", value):
        decoded = _from_base64(basic[1].encode()).decode("utf-8", "replace")
        parts += [decoded, decoded.partition(":")[2]]
    return parts


# The table
# ----------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A row of the table, compiled."""

    sign: bytes
    pattern: re.Pattern[bytes]
    value: re.Pattern[bytes]
    behind: re.Pattern[bytes]


@lru_cache(maxsize=1)
def _table() -> dict[str, list[_Row]]:
    """The rows, by where their secrets stand."""
    file = built_in_table("redact.toml")
    table = defaultdict[str, list[_Row]](list)
    for row in file["secrets"]:
        pattern, value = row["pattern"], row.get("value", ".*")
        begin = re.sub(r"[^\w/-].*", "", pattern)
        if row["where"] in ("name", "variable", "parameter", "header"):
            pattern = rf"(?:{pattern})\Z"
        elif row["where"] == "key" and begin:  # a literal comes first: `re` finds it fast
            pattern = f"{begin}(?<![A-Za-z0-9]{begin}){pattern[len(begin) :]}"
        parts = pattern, file["looks"].get(value, rf"(?:{value})\Z"), row.get("behind", "")
        sign = row.get("sign", begin).encode()
        table[row["where"]].append(_Row(sign, *(re.compile(part.encode(), re.DOTALL) for part in parts)))
    return table


@lru_cache(maxsize=4096)
def _row_of(name: bytes, *places: str) -> _Row | None:
    """The row that says that a field of this name holds a secret in one of these places."""
    word = re.sub(rb"[_.\-]", b"", name.lower())
    return next((row for place in places for row in _table()[place] if row.pattern.search(word)), None)


def _in_rows(
    where: str, searched: bytes, text: bytes, at: Callable[[Span], Span] = lambda span: span
) -> Iterator[Span]:
    """Matches of rows in `searched`, which is part of `text` or the same in lower case; `at` says where it stands."""
    for row in _table()[where]:
        for match in row.pattern.finditer(searched) if row.sign in searched else ():
            start, end = at(match.span(match.lastindex or 0))
            before = text[max(0, start - _CONTEXT_BYTES) : start].lower()
            is_secret = row.value.match(text[start:end]) and not _PLACEHOLDER.fullmatch(text, start, end)
            if is_secret and row.behind.search(before):
                yield start, end


# Covering, and views of a text
# ----------------------------------------------------------------------------------------------------


def _searched(credentials: Iterable[str]) -> Iterable[bytes]:
    """What to search for: the credentials, and what all base64 has in common in which they stand, wherever they begin
    in it.
    """
    forms: list[bytes] = []
    for credential in (*credentials, *_registered):
        as_json = [json.dumps(credential, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
        value, *written = (form.encode("utf-8", "surrogateescape") for form in (credential, *as_json))
        if len(value) < MIN_CREDENTIAL_BYTES:
            continue
        forms += (value, *written)
        for shift, first in ((0, 0), (1, 2), (2, 3)):
            whole = b64encode(b"\0" * shift + value)[first : 8 * (shift + len(value)) // 6]
            forms += (whole, whole.translate(_TO_URL_SAFE))
    return dict.fromkeys(forms)


def _covered(body: bytes, spans: Iterable[Span]) -> bytes:
    covered = bytearray(body)
    for start, end in spans:
        covered[start:end] = b"*" * (end - start)
    return bytes(covered)


class _View:
    """Pieces of a text, joined; each with the offset in the text at which it begins."""

    def __init__(self, pieces: list[tuple[int, bytes]]) -> None:
        self.text = b"".join(piece for _, piece in pieces)
        self._origins = [origin for origin, _ in pieces]
        self._starts = list(accumulate((len(piece) for _, piece in pieces), initial=0))[:-1]

    def at(self, span: Span) -> Span:
        """Where a span stands in the text."""
        first, last = (bisect_right(self._starts, offset) - 1 for offset in span)
        return (
            self._origins[first] + span[0] - self._starts[first],
            self._origins[last] + span[1] - self._starts[last],
        )


def _spans(raw: bytes, secrets: Iterable[bytes], depth: int = 0, rounds: int = _MAX_ROUNDS) -> Iterator[Span]:
    """What to cover in `raw`: secrets in it as it is, and in it with its escapes undone."""
    yield from _matches(raw, secrets, depth)
    pieces, at = list[tuple[int, bytes]](), 0
    for index, piece in enumerate(_ESCAPE.split(raw) if rounds else ()):
        end = at + len(piece)
        if len(piece) > 2 * _MARGIN_BYTES:  # what is far from escapes was read before
            pieces += (
                (at, piece[:_MARGIN_BYTES]),
                (at + _MARGIN_BYTES, _GAP),
                (end - _MARGIN_BYTES, piece[-_MARGIN_BYTES:]),
            )
        else:
            pieces.append((at, _unescaped(piece) if index % 2 else piece))
        at = end
    if len(pieces) > 2:
        view = _View(pieces)
        yield from map(view.at, _spans(view.text, secrets, depth, rounds - 1))


_GAP = b',"\n'
"""Ends every pattern and every quoted value."""
_ESCAPE = re.compile(
    rb"(\\(?<!\\\\)\\*+(?:u00[2-7][0-9a-fA-F]|x[2-7][0-9a-fA-F]|/|(?:u001[bB]|x1[bB]|033|e)\[[0-9;]{0,20}[A-Za-z])"
    rb"|\x1b\[[0-9;]{0,20}[A-Za-z]|%[2-7][0-9a-fA-F]|&(?:\#[0-9]{2,5}|\#[xX][0-9a-fA-F]{1,4}|[A-Za-z]{2,8});)"
)
"""Escapes of printable ASCII, with the backslashes of JSON in JSON, and color codes."""


def _unescaped(escape: bytes) -> bytes:
    if escape.startswith(b"&"):
        return html.unescape(escape.decode()).encode("utf-8", "replace")
    if b"[" in escape:
        return b""
    return b"/" if escape.endswith(b"/") else bytes([int(escape[-2:], 16)])


def _matches(text: bytes, secrets: Iterable[bytes], depth: int) -> Iterator[Span]:
    """Secrets in one view."""
    for secret in secrets:
        for match in re.finditer(re.escape(secret), text):
            yield _behind_escape(text, match.start()), match.end()
    lower = text.lower()
    yield from _in_fields(text, lower)
    yield from _in_rows("text", lower, text)
    pieces: list[tuple[int, bytes]] = []
    for run in _RUN.finditer(text):
        start, end = _behind_escape(text, run.start()), run.end()
        if end - start >= _DATA_BYTES and (data := _DATA.match(text, start)):
            yield from _in_encoded(text, *data.span(), secrets, depth)
            start = data.end()
        pieces.append((start, text[start:end] + b" "))
    runs = _View(pieces)
    yield from map(runs.at, _in_base64(runs.text, secrets, depth))
    yield from _in_rows("key", runs.text, text, runs.at)


def _behind_escape(text: bytes, start: int) -> int:
    """Return `start`, or the end of the JSON escape whose letters begin there."""
    escape = _ESCAPE_REST.match(text, start) if text[start - 1 : start] == b"\\" else None
    return start if escape is None else escape.end()


_RUN = re.compile(rb"[A-Za-z0-9_.+/=~:\-]{16,}")
"""Characters that keys are made of: prose has few long runs of them."""
_ESCAPE_REST = re.compile(rb"u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbfv]")

# Fields
# ----------------------------------------------------------------------------------------------------------------

_BEFORE = re.compile(
    rb"""
    (?: (?P<option> (?:(?<![\w-])|(?<=\\[nrt]))--? | (?:\b|\\[nrt])(?:ENV|ARG|setenv|export|set(?:[ ]-\w{1,8}){1,3})[ \t]+(?=[A-Z0-9_]*\Z)
        | (?:define|putenv|[sS]et\w{0,20}|[aA]dd\w{0,20})\(\\*["'] )
      | (?P<parameter> [?&;\#] ) | (?P<tag> <(?:[\w-]{1,20}:)? ) )?
    (?: (?<=\\)[nrtbfv] | (?<!\\) | (?![nrtbfv]) ) (?P<name> (?:\w[\w.-]*+)?+ ) \Z""",
    re.VERBOSE,
)
"""What stands before the stem of a name."""
_AFTER = rb"""
    (?P<rest> [\w.-]{0,60}+ )
    (?: \\*["']?\]? \s{0,8} (?: => | := | [:=] ) \s{0,8}                              # name: value, "name": "value"
      | \\*["']?,? (?:\s|\\+[nrt]){0,8}+ \\*["']? value \\*["']? \s{0,8} [:=] \s{0,8}  # "name", "value": "value"
      | [ \t]{0,40} (?: \| | </(?:t[dh]|key)>\s{0,8}<(?:t[dh]|string)[^<>]{0,200}> ) [ \t]{0,40}         # a row of a table
      | (?P<tag> (?:\s[^<>]{0,200}+)? > )
      | (?P<option> [ \t]++ | \\*["'],\s{0,8} (?=\\*["']) ) )                         # --name value, "--name", "value"
    """
_VALUE = re.compile(
    rb"""
    (?P<q> \\*+ )" (?:SCHEME)* (?P<quoted> (?: [^"\\] | \\++[^"\\] | (?P=q)\\(?P=q)["\\] )*+ ) (?: (?P=q)" | \\*+ \Z )
    | \\*+' (?:SCHEME)* (?P<single> [^'"\n\\]*+ ) \\*+'
    | (?P<scheme> (?:SCHEME)* ) (?P<word> [^\s"'\\,;&<>(){}\[\]`|]{1,2048}+ )
    """.replace(b"SCHEME", rb"(?i:(?:bearer|basic|token|apikey|ssws)[ ]+|key=|token=)"),
    re.VERBOSE,
)
"""A text in quotes, or a word. In JSON that is itself a JSON string, a quote has 1, 3, 7 … backslashes; one with more is
part of the text, and with fewer it ends a string further out: structure of the JSON around a value is never covered.
"""
_OBJECT = re.compile(rb"\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+")
_SCHEMA_VALUE = re.compile(rb"\"(?:default|const|enum|examples?)\\*\"\s{0,8}:\s{0,8}(?=\\*\"|\[)")
_LIST = re.compile(rb"\[[^\[\]]*+")
_MEMBER = re.compile(rb"(\\*+)\"(?P<quoted>[^\"\\\s,]{4,}+)\1\"")
_PLACEHOLDER = re.compile(
    rb"[$#]\{[^}]*\}|\$[\w.:]+|<[^>]*>|\{\{.*\}\}|%\w+%|\[[^\]]*\]|\*+|x+|(?:[A-Za-z_]+\.)+[A-Za-z_]+|[A-Z]*_[A-Z_]*"
    rb"|\s*\+\s?\w[\w.]*[)},\s].*|any|none|null|local|empty|dummy|test|true|false|REDACTED|your\W.*"
    rb"|(?:flag|option|argument|parameter|value|field|header|token|instead|from|with|when|that|which|must|should|will|can)s?",
    re.DOTALL,
)
"""What stands for a value: a variable, an attribute, code behind the end of a quoted name; words that say that there is
none, and those that follow an option in prose."""
_LOOKS_RANDOM = re.compile(rb"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z]).{8}", re.DOTALL)


@lru_cache(maxsize=1)
def _field() -> re.Pattern[bytes]:
    """A name from the stem on by which the table finds it, and what stands between it and its value."""
    stems = {row.sign: 0 for place in ("name", "variable", "parameter") for row in _table()[place]}
    return re.compile(b"(?:%s)%s" % (b"|".join(stems), _AFTER), re.VERBOSE)


def _in_fields(text: bytes, lower: bytes) -> Iterator[Span]:
    """Values of fields with the name of a secret. A word is one where it is sure that a value stands there or where it
    looks like a key: prose and code name secrets, too.
    """
    for field in _field().finditer(lower):
        before = _BEFORE.search(text, max(0, field.start() - 60), field.start())
        if before is None or (field.lastgroup != "rest" and not before[field.lastgroup or 0]):
            continue
        name = before["name"] + text[field.start() : field.end("rest")]
        is_assigned = text[field.end("rest") : field.end()] == b"="
        is_parameter = is_assigned and before["parameter"] is not None
        row = _row_of(name, "name", *["variable"] * name.isupper(), *["parameter"] * is_parameter)
        for value in _values(text, field.end()) if row else ():
            start, end = value.span(value.lastgroup or 0)
            is_secret = end > start
            if value.lastgroup == "word":
                is_sure = is_assigned and (is_parameter or name.isupper() or text[end : end + 1] in (b"&", b";"))
                is_sure = is_sure or value["scheme"] or any(before.group("option", "tag"))
                is_secret = end - start >= 4 if is_sure else _LOOKS_RANDOM.match(text, start, end) is not None
            if is_secret and row and row.value.match(text[start:end]) and not _PLACEHOLDER.fullmatch(text, start, end):
                yield start, end


def _values(text: bytes, at: int) -> Iterator[re.Match[bytes]]:
    """The value at `at`; of a JSON schema its default and examples, of a list its members."""
    end = at + _MAX_VALUE_BYTES
    if schema := _OBJECT.match(text, at, end):
        for value in _SCHEMA_VALUE.finditer(text, *schema.span()):
            yield from _values(text, value.end())
    elif members := _LIST.match(text, at, end):
        yield from _MEMBER.finditer(text, *members.span())
    elif plain := _VALUE.match(text, at, end):
        yield plain


# Inside base64 and compressed data
# ------------------------------------------------------------------------------------------------------------

_ALPHABETS = re.compile(rb"[A-Za-z0-9_-]{24,}"), re.compile(rb"[A-Za-z0-9+/]{24,}")
_DATA = re.compile(rb"[A-Za-z0-9+/_-]{2048,}={0,2}")
_TO_STANDARD, _TO_URL_SAFE = bytes.maketrans(b"-_", b"+/"), bytes.maketrans(b"+/", b"-_")
_ASCII_GROUPS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"
"""First characters of the groups of four that three bytes of ASCII are written with: the first byte is below 128."""
_NOT_PRINTABLE = bytes([*range(9), *range(14, 32), *range(127, 256)])
_GROUPS_BEFORE = 2
"""Groups of four at the beginning of a run that may belong to something else: `/v1/`."""
_PACKED = re.compile(rb"\A(?=\x1f\x8b)|(?:zTXt|iTXt)[^\0]{1,79}\0(?:\0|\x01\0[^\0]{0,79}\0[^\0]{0,79}\0)")
"""What comes before compressed data: in a gzip file nothing, in a chunk of a PNG its keyword."""


def _in_base64(joined: bytes, secrets: Iterable[bytes], depth: int) -> Iterator[Span]:
    """Secrets in what short runs of either alphabet decode to.

    One may begin with characters that belong to something else: all four offsets are tried.
    """
    for start, end in {run.span() for each in _ALPHABETS for run in each.finditer(joined)}:
        for first in range(start, start + 4):
            groups = joined[first + 4 * _GROUPS_BEFORE : end : 4]
            if len(groups.translate(None, _ASCII_GROUPS)) * 10 <= len(groups) or joined.startswith(b"H4sI", first):
                yield from _in_encoded(joined, first, end, secrets, depth)


def _in_encoded(text: bytes, start: int, end: int, secrets: Iterable[bytes], depth: int) -> Iterator[Span]:
    """Secrets in what the base64 from `start` to `end` decodes to, a text or a file whose metadata is text."""
    data = _from_base64(text[start:end])
    body = data[3 * _GROUPS_BEFORE :]
    is_text = len(body.translate(None, _NOT_PRINTABLE)) >= len(body) * 0.9
    if depth < _MAX_DEPTH and (is_text or end - start >= _DATA_BYTES or _PACKED.match(data)):
        for low, high in (*_spans(data, secrets, depth + 1), *_in_packed(data, secrets, depth + 1)):
            yield start + low * 4 // 3, min(start - (-high * 4 // 3), end)


def _from_base64(value: bytes) -> bytes:
    value = value.rstrip(b"=").translate(_TO_STANDARD)
    return b64decode(value[: len(value) - (len(value) % 4 == 1)] + b"==")


def _in_packed(data: bytes, secrets: Iterable[bytes], depth: int) -> Iterator[Span]:
    """Compressed parts of a file that hold secrets, each as a whole."""
    for match in islice(_PACKED.finditer(data), _MAX_PACKED):
        packed, engine = data[match.end() : match.end() + _MAX_PACKED_BYTES], zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            text = engine.decompress(packed, _MAX_PACKED_BYTES)
        except zlib.error:  # not compressed, or damaged: nobody can read it
            continue
        if any(_spans(text, secrets, depth)):
            yield match.end(), match.end() + len(packed) - len(engine.unused_data)
