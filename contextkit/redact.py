r"""Redaction: covers secrets in recorded text with as many `*` as they have bytes, so that every byte offset stays
true.

Applied in this order, and the union is covered:

1. the credentials of the connection that the text passed over (`credentials_of`), wherever they stand;
2. values of fields with key-like names: `"x-api-key": "…"`, `password=…`, `?key=…`, `AWS_SECRET_ACCESS_KEY=…`;
3. patterns: keys of well-known services, JSON web tokens, `Bearer` and `Basic` credentials, passwords in URLs, private
   keys in PEM, and
   runs of hexadecimal or base64 digits behind a word such as "secret".

All three look at the text as it is, then with its escapes undone (JSON `\u002d` and `\/`, percent-encoding, HTML
references, also twice encoded), then inside base64. Matches are mapped back to the original bytes.

Whether a byte is covered depends on what precedes it and on the run of characters it belongs to, never on what comes
later: two prompts that share a prefix share it after redaction, and equal secrets give equal bytes.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

Span = tuple[int, int]
"""Start and end of bytes to cover."""

MIN_CREDENTIAL_BYTES = 8
"""Shorter credentials (`any`, `EMPTY`) are not searched for: they are words of the prompt."""
_DEPTH = 2
"""Layers of base64 that are looked into."""
_ROUNDS = 3
"""How often escapes are undone: JSON in JSON, twice percent-encoded URLs."""


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
    head, slash, last = path.rpartition("/")
    if not _ENDPOINT.fullmatch(last):
        head, slash, last = path, "", ""
    raw = head.encode("utf-8", "surrogateescape")
    spans = [
        *_spans(raw, _searched(credentials), 0),
        *(match.span() for match in _RANDOM.finditer(raw) if _is_mixed(match[0])),
    ]
    return _covered(raw, spans).decode("utf-8", "surrogateescape") + slash + last


_ENDPOINT = re.compile(r"[A-Za-z_:-]{0,40}")
"""The last part of a path that says what is asked for: `messages`."""


def _searched(credentials: Iterable[str]) -> tuple[bytes, ...]:
    """What to search for: the credentials, and what all base64 has in common in which they stand, wherever they begin
    in it.
    """
    written_forms: dict[bytes, None] = {}
    for credential in (*credentials, *_registered):
        value = credential.encode("utf-8", "surrogateescape")
        if len(value) < MIN_CREDENTIAL_BYTES:
            continue
        written_forms[value] = None
        for is_ascii in (True, False):  # as it stands in JSON
            written = json.dumps(credential, ensure_ascii=is_ascii)[1:-1]
            written_forms[written.encode("utf-8", "surrogateescape")] = None
        for shift, first in ((0, 0), (1, 2), (2, 3)):
            whole = b64encode(b"\0" * shift + value)[first : 8 * (shift + len(value)) // 6]
            written_forms[whole] = written_forms[whole.translate(_TO_URL_SAFE)] = None
    return tuple(written_forms)


_RANDOM = re.compile(rb"(?<![A-Za-z0-9])[A-Za-z0-9]{32,}(?![A-Za-z0-9])")


def _is_mixed(value: bytes) -> bool:
    """Whether it has digits and letters."""
    return _HAS_DIGIT.search(value) is not None and (_HAS_LOWER.search(value) or _HAS_UPPER.search(value)) is not None


def _covered(body: bytes, spans: Iterable[Span]) -> bytes:
    covered = None
    for start, end in spans:
        covered = bytearray(body) if covered is None else covered
        first = min(start + _n_of_escape(body, start), end)
        covered[first:end] = b"*" * (end - first)
    return body if covered is None else bytes(covered)


def _n_of_escape(text: bytes, start: int) -> int:
    r"""How many bytes from `start` on belong to a JSON escape that began before: 1 of `\n`, 5 of `\u002d`.

    They stay: JSON stays JSON.
    """
    if not start or text[start - 1] != 0x5C or text[start] not in _LENGTHS:
        return 0
    return _LENGTHS[text[start]]


_LENGTHS = {**dict.fromkeys(b"nrtbfv", 1), 0x75: 5, 0x78: 3}
"""First letter of an escape, behind its backslash, and how many it has."""


def _spans(raw: bytes, secrets: tuple[bytes, ...], depth: int) -> list[Span]:
    """What to cover in `raw`, found in every view of it."""
    spans = list(_matches(raw, secrets, depth))
    view = _unescaped(raw)
    to_raw: list[_View] = []
    for _ in range(_ROUNDS):
        if view is None:
            break
        to_raw.append(view)
        spans.extend(_in_original(span, to_raw) for span in _matches(view.text, secrets, depth))
        view = _unescaped(view.text)
    return spans


def _in_original(span: Span, views: list[_View]) -> Span:
    """Where a span of the last view stands in the original."""
    start, end = span
    for view in reversed(views):
        start, end = view.at(start), view.at(end)
    return start, end


_MAX_REGISTERED = 32
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


# Views: escapes undone
# ----------------------------------------------------------------------------------------------------


class _View(NamedTuple):
    """A text with its escapes undone, and where each of its bytes came from."""

    text: bytes
    """The neighborhoods of the escapes, `_GAP` between them: the rest of the original is what it was."""
    starts: list[int]
    """Offsets in `text` from which on the distance to the original is constant."""
    origins: list[int]
    """The original's offset at each of them."""

    def at(self, offset: int) -> int:
        """The original's offset of a byte of `text`."""
        index = bisect_right(self.starts, offset) - 1
        return self.origins[index] + offset - self.starts[index]


_GAP = b'"\n'
"""Ends every pattern and every quoted value."""
_MARGIN_BYTES = 256
_RUN_BEFORE = re.compile(rb"[A-Za-z0-9_.+/=~:\-]*\Z")
_RUN_AFTER = re.compile(rb"[A-Za-z0-9_.+/=~:\-]*")
_MAX_MARGIN_BYTES = 4096


def _hexadecimal(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)])


def _decimal(match: re.Match[bytes]) -> bytes:
    return bytes([number]) if 32 <= (number := int(match[1])) < 127 else b""


_NAMED = {b"amp": b"&", b"quot": b'"', b"lt": b"<", b"gt": b">", b"apos": b"'"}
_ESCAPES: tuple[tuple[re.Pattern[bytes], Callable[[re.Match[bytes]], bytes]], ...] = (
    (re.compile(rb"\\u00([2-7][0-9a-fA-F])"), _hexadecimal),
    (re.compile(rb"\\x([2-7][0-9a-fA-F])"), _hexadecimal),
    (re.compile(rb"\\(/)"), lambda found: found[1]),
    (re.compile(rb"%([2-7][0-9a-fA-F])"), _hexadecimal),
    (re.compile(rb"&#0{0,4}([0-9]{2,3});"), _decimal),
    (re.compile(rb"&#[xX]0{0,4}([2-7][0-9a-fA-F]);"), _hexadecimal),
    (re.compile(rb"&(amp|quot|lt|gt|apos);"), lambda found: _NAMED[found[1]]),
)
"""Escapes of printable ASCII, each beginning with a literal that the regex engine finds fast."""


def _unescaped(raw: bytes) -> _View | None:
    """`raw` with its escapes undone once, None if it has none.

    Backslashes in front of a JSON escape belong to it: JSON in JSON.
    """
    escapes = [
        (one.start(), one.end(), char)
        for pattern, char_of in _ESCAPES
        for one in pattern.finditer(raw)
        if (char := char_of(one))
    ]
    if not escapes:
        return None
    escapes.sort()
    pieces, starts, origins, length, last = list[bytes](), list[int](), list[int](), 0, 0
    window_end = -1
    for at, end, char in escapes:
        start = at
        while start > last and raw[start] == 0x5C and raw[start - 1] == 0x5C:
            start -= 1
        if start < last:
            continue
        if start > window_end:
            if pieces:
                pieces += (raw[last:window_end], _GAP)
                length += window_end - last + len(_GAP)
            last = _window_start(raw, start, max(0, window_end))
            starts.append(length)
            origins.append(last)
        pieces += (raw[last:start], char)
        length += start - last + 1
        starts.append(length)
        origins.append(end)
        last = end
        window_end = max(window_end, _window_end(raw, end))
    pieces.append(raw[last:window_end])
    return _View(b"".join(pieces), starts, origins)


def _window_start(raw: bytes, start: int, least: int) -> int:
    """Where the neighborhood of an escape begins: a margin before the run of characters that it stands in."""
    run = _RUN_BEFORE.search(raw, max(least, start - _MAX_MARGIN_BYTES), start)
    return max(least, (run.start() if run else start) - _MARGIN_BYTES)


def _window_end(raw: bytes, end: int) -> int:
    run = _RUN_AFTER.match(raw, end, end + _MAX_MARGIN_BYTES)
    return min(len(raw), (run.end() if run else end) + _MARGIN_BYTES)


# One view
# -----------------------------------------------------------------------------------------------------------------


def _matches(text: bytes, secrets: tuple[bytes, ...], depth: int) -> Iterator[Span]:
    """Secrets in one view."""
    for value in secrets:
        yield from _everywhere(text, value)
    lower = text.lower()
    yield from _named_values(text, lower)
    yield from _schemes(text, lower)
    yield from _url_passwords(text)
    if b"PRIVATE KEY" in text:
        yield from (match.span(1) for match in _PEM.finditer(text))
    yield from _in_runs(text, lower, secrets, depth)


def _everywhere(text: bytes, value: bytes) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + len(value))


def _hits(text: bytes, stem: bytes) -> Iterator[int]:
    at = text.find(stem)
    while at >= 0:
        yield at
        at = text.find(stem, at + len(stem))


_PEM = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----((?:(?!-----END)(?:\\.|[^\"\\]))+)")

# 2. Fields with key-like names
# ---------------------------------------------------------------------------------------------

_ALWAYS = (
    b"secret",
    b"password",
    b"passwd",
    b"passphrase",
    b"pwd",
    b"authorization",
    b"cookie",
    b"credentials",
    b"credential",
    b"passcode",
)
_KEYS = (
    b"api",
    b"secret",
    b"access",
    b"private",
    b"account",
    b"shared",
    b"subscription",
    b"signing",
    b"encryption",
    b"master",
    b"auth",
    b"service",
    b"storage",
    b"host",
    b"function",
    b"admin",
    b"client",
    b"consumer",
    b"goog",
    b"app",
    b"application",
    b"deploy",
    b"license",
    b"ssh",
    b"openai",
    b"anthropic",
    b"azure",
    b"webhook",
    b"rsa",
)
"""Words before `key` that make it a secret: none of them is before the key of a cache, a row or a request."""
_TOKENS = (
    b"access",
    b"refresh",
    b"id",
    b"auth",
    b"authorization",
    b"oauth",
    b"session",
    b"security",
    b"bearer",
    b"api",
    b"bot",
    b"csrf",
    b"xsrf",
    b"personal",
    b"secret",
    b"device",
    b"sas",
    b"github",
    b"gitlab",
    b"slack",
    b"npm",
    b"hf",
    b"vault",
    b"private",
    b"deploy",
    b"job",
    b"service",
    b"app",
    b"registry",
    b"pypi",
    b"login",
    b"jwt",
    b"user",
    b"gh",
    b"x",
)
_STEMS = (b"key", b"token", b"secret", b"pass", b"pwd", b"authorization", b"cookie", b"credential")
_ASSIGNED = re.compile(
    rb"(?:key|token|secret|pass(?:word|wd|phrase|code)|pwd|authorization|cookie|credentials?)"
    rb"(?:\\*[\"']?\]?\s{0,8}(?:[:=]|=>|:=|,\s{0,8}\\*[\"']value\\*[\"']\s{0,8}:)\s{0,8}|(?P<option>\s+))"
)
_BEFORE = re.compile(rb"[a-z0-9_.\-]*\Z")
_QUOTE = re.compile(rb"\\*[\"']")
_WORD = re.compile(rb"[^\s\"'\\,;&<>(){}\[\]`|]+")
_SCHEME = re.compile(rb"(?:bearer|basic|token|apikey) +", re.IGNORECASE)
_PLACEHOLDER = re.compile(rb"\$\{[^}]*\}|\$\w+|<[^>]*>|\{\{.*\}\}|%\w+%|\*+", re.DOTALL)
_ATTRIBUTE = re.compile(rb"[A-Za-z_]+(?:\.[A-Za-z_]+)+")
_MAX_VALUE_BYTES = 1 << 16


def _named_values(text: bytes, lower: bytes) -> Iterator[Span]:
    for stem in _STEMS:
        for at in _hits(lower, stem):
            assigned = _ASSIGNED.match(lower, at)
            if assigned is None:
                continue
            before = _BEFORE.search(lower[max(0, at - 40) : at])
            n_before = len(before[0]) if before else 0
            start = at - n_before
            name = lower[start : assigned.end()]
            if start and lower[start - 1] == 0x5C:  # the letter of an escape such as \n is not part of the name
                name, start = name[1:], start + 1
            word = _BARE.sub(b"", _NAME.match(name)[0])  # type: ignore[index]  # it matches the empty name, too
            is_query = start > 0 and text[start - 1 : start] in (b"?", b"&", b";")
            is_option = assigned["option"] is not None
            if is_option and text[max(0, start - 2) : start] != b"--" and not name.startswith(b"--"):
                continue
            yield from _value(
                text, assigned.end(), word, text[start : start + len(name)], is_query=is_query, is_option=is_option
            )


_NAME = re.compile(rb"[a-z0-9_.\-]*")
_BARE = re.compile(rb"[_.\-]")


def _is_key_like(word: bytes) -> bool:
    """Whether a name, in lower case and without separators, is that of a secret."""
    if word.endswith(b"key"):
        return word[:-3].endswith(_KEYS)
    if word.endswith(b"token"):
        return word[:-5].endswith(_TOKENS)
    return word.endswith(_ALWAYS)


def _value(text: bytes, at: int, word: bytes, name: bytes, *, is_query: bool, is_option: bool) -> Iterator[Span]:
    """The value of a field that begins at `at`."""
    is_named = _is_key_like(word)
    quote = _QUOTE.match(text, at)
    if quote is not None:
        end = _end_of_quoted(text, quote)
        start = quote.end()
        scheme = _SCHEME.match(text, start, end)
        start = scheme.end() if scheme else start
        value = text[start:end]
        is_secret = is_named or (word == b"token" and len(value) >= 16 and _is_mixed(value) and b" " not in value)
        if is_secret and value and not _PLACEHOLDER.fullmatch(value):
            yield start, end
        return
    scheme = _SCHEME.match(text, at)
    match = _WORD.match(text, scheme.end() if scheme else at)
    if match is None or _PLACEHOLDER.fullmatch(match[0]):
        return
    value = match[0]
    is_variable = name[: len(word)].isupper() and name.endswith(b"=") and b" " not in name
    if is_query:
        is_secret = len(value) >= 6 and (is_named or word in (b"key", b"token"))
    elif is_variable:
        is_secret = len(value) >= 4 and (is_named or word.endswith((b"key", b"token"))) and not value.startswith(b"$")
    else:
        is_joined = not is_option and name.endswith(b"=") and text[match.end() : match.end() + 1] in (b"&", b";")
        is_joined = is_joined and not _ATTRIBUTE.fullmatch(value)
        is_secret = is_named and (
            scheme is not None or is_option or is_joined or (len(value) >= 8 and _is_mixed(value))
        )
    if is_secret:
        yield match.span()


def _end_of_quoted(text: bytes, quote: re.Match[bytes]) -> int:
    """The end of a quoted value, its start if it has none: structure of the JSON around it is never covered.

    A quote inside JSON that is itself a JSON string is written with 1, 3, 7 … backslashes; with more it is inside the
    value, with fewer it ends a string further out.
    """
    depth, start = len(quote[0]) - 1, quote.end()
    if quote[0].endswith(b"'"):
        end = text.find(quote[0], start, start + _MAX_VALUE_BYTES)
        value = text[start:end] if end >= 0 else b'"'
        return start if b'"' in value or b"\n" in value or b"\\n" in value else end
    at = start
    while (at := text.find(b'"', at, start + _MAX_VALUE_BYTES)) >= 0:
        n_backslashes = at - len(text[start:at].rstrip(b"\\")) - start
        if n_backslashes < depth:
            return start
        if (n_backslashes - depth) % (2 * (depth + 1)) == 0:
            return at - depth
        at += 1
    return start


# 3. Schemes and URLs
# ------------------------------------------------------------------------------------------------------

_BEARER = re.compile(rb"bearer(?:[ \t]+|%20|\+)([A-Za-z0-9._~+/=-]{12,})", re.IGNORECASE)
_BASIC = re.compile(rb"basic[ \t]+([A-Za-z0-9+/_-]{6,}={0,2})", re.IGNORECASE)
_USERINFO = re.compile(rb"([^\s/?#@\"'<>\\:]*)(?::([^\s/?#@\"'<>\\]+))?@")
_SIGNATURE = re.compile(rb"(?<=[?&])(?:x-(?:amz|goog)-)?sig(?:nature)?=([^&\s\"'<>\\#]{6,})", re.IGNORECASE)


def _schemes(text: bytes, lower: bytes) -> Iterator[Span]:
    for at in _hits(lower, b"bearer"):
        if match := _BEARER.match(text, at):
            yield match.span(1)
    for at in _hits(lower, b"basic"):
        match = _BASIC.match(text, at)
        if match and b":" in (decoded := _from_base64(match[1])) and _is_printable(decoded):
            yield match.span(1)
    for at in _hits(lower, b"sig"):
        match = _SIGNATURE.match(text, at) or (_SIGNATURE.match(text, at - 6) if at >= 6 else None)
        match = match or (_SIGNATURE.match(text, at - 7) if at >= 7 else None)
        if match:
            yield match.span(1)


def _url_passwords(text: bytes) -> Iterator[Span]:
    for at in _hits(text, b"://"):
        match = _USERINFO.match(text, at + 3, at + 3 + 4096)
        if match is None:
            continue
        if match[2]:
            yield match.span(2)
        if len(match[1]) >= 16 and _is_mixed(match[1]):  # a token in place of a user's name
            yield match.span(1)


# 3. Patterns in long runs
# -------------------------------------------------------------------------------------------------

_MIN_RUN = 16
_DATA_BYTES = 2048
"""Longer runs of base64 are data: patterns are looked for inside it, not in its own letters."""
_RUN_CLASS = bytes(
    0x61 if chr(byte) in "_.+/=~:-" or (byte < 128 and chr(byte).isalnum()) else 0x20 for byte in range(256)
)


def _in_runs(text: bytes, lower: bytes, secrets: tuple[bytes, ...], depth: int) -> Iterator[Span]:
    """Secrets in runs of characters that keys are made of: found fast, as prose has few long ones."""
    starts, offsets, pieces, length = list[int](), list[int](), list[bytes](), 0
    for at, end in _runs(text):
        start = at
        if end - start >= _DATA_BYTES and (data := _DATA.match(text, start, end)):
            yield from _in_data(text, *data.span(), secrets, depth)
            start = data.end()
        starts.append(start)
        offsets.append(length)
        pieces.append(text[start:end])
        length += end - start + 1
    joined = b" ".join(pieces)

    def origin(offset: int) -> int:
        index = bisect_right(offsets, offset) - 1
        return starts[index] + offset - offsets[index]

    for first, last in (*_keys(joined), *_in_base64(joined, secrets, depth)):
        start = origin(first)
        yield start, start + last - first
    for match in _CONTEXTUAL.finditer(joined):
        start = origin(match.start())
        if _is_behind_a_name(lower[max(0, start - _CONTEXT_BYTES) : start], match[0]):
            yield start, start + len(match[0])


def _keys(joined: bytes) -> Iterator[Span]:
    """Matches of the patterns."""
    for match in _PATTERN.finditer(joined):
        yield match.span(match.lastindex or 0)
    for sign, pattern in _SHAPES:
        if sign in joined:
            yield from (match.span(1) for match in pattern.finditer(joined))


def _runs(text: bytes) -> Iterator[Span]:
    classes = text.translate(_RUN_CLASS)
    run, find = b"a" * _MIN_RUN, classes.find
    start = find(run)
    while start >= 0:
        end = find(b" ", start + _MIN_RUN)
        end = len(text) if end < 0 else end
        # in JSON text the first word of a line follows the letter of \n, which is not part of it
        yield min(start + _n_of_escape(text, start), end), end
        start = find(run, end)


_CONTEXT_BYTES = 48
_CONTEXTUAL = re.compile(
    rb"(?<![A-Za-z0-9+/])(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}|[A-Za-z0-9+/]{40}|[A-Za-z0-9+/]{86}==|[A-Za-z0-9]{84})"
    rb"(?![A-Za-z0-9+/=])"
)
_SAYS_SECRET = re.compile(
    rb"secret|(?<![a-z])token\b|passw|credential|azure|subscription|api[ _.-]?key|app[ _.-]?key|auth|[^a-z]key\b|_key|aws"
)
_SAYS_OTHER = re.compile(rb"cache|digest|sha1|sha256|sha-|hash|md5|commit|etag|checksum|tokens")


def _is_behind_a_name(before: bytes, value: bytes) -> bool:
    """Whether the text before a run of digits says that it is a key, and nothing says that it is a hash."""
    is_hexadecimal = _HEXADECIMAL.fullmatch(value) is not None
    if not is_hexadecimal and not (_HAS_UPPER.search(value) and _HAS_LOWER.search(value) and _HAS_DIGIT.search(value)):
        return False
    return _SAYS_SECRET.search(before) is not None and _SAYS_OTHER.search(before) is None


_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]+")
_HAS_UPPER, _HAS_LOWER, _HAS_DIGIT = re.compile(rb"[A-Z]"), re.compile(rb"[a-z]"), re.compile(rb"[0-9]")

_W, _A, _X = r"[A-Za-z0-9_-]", r"[A-Za-z0-9]", r"[0-9a-fA-F]"
PATTERNS: tuple[tuple[str, str], ...] = (
    # models
    ("sk-", f"({_W}{{16,}})"),  # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse, LiteLLM, …
    ("hf_", f"({_A}{{16,}})"),
    ("gsk_", f"({_A}{{16,}})"),
    ("xai-", f"({_W}{{16,}})"),
    ("r8_", f"({_A}{{20,}})"),
    ("pplx-", f"({_A}{{16,}})"),
    ("fw_", f"({_A}{{16,}})"),
    ("nvapi-", f"({_W}{{20,}})"),
    ("csk-", f"({_A}{{20,}})"),
    ("tgp_v1_", f"({_W}{{20,}})"),
    ("jina_", f"({_A}{{20,}})"),
    ("pa-", f"({_W}{{40,}})"),
    ("tvly-", f"({_W}{{16,}})"),
    ("lsv2_", f"((?:pt|sk)_{_A}{{16,}}(?:_{_A}+)?)"),
    ("ABSK", r"([A-Za-z0-9+/=]{40,})"),
    ("bedrock-api-key-", r"([A-Za-z0-9+/=]{20,})"),
    ("fc-", f"({_X}{{32}})"),
    ("e2b_", f"({_X}{{20,}})"),
    ("co_", f"({_A}{{32,}})"),
    # clouds
    ("AKIA", r"([0-9A-Z]{16})(?![A-Za-z0-9])"),
    ("ASIA", r"([0-9A-Z]{16})(?![A-Za-z0-9])"),
    ("AIza", f"({_W}{{35}})"),
    ("ya29.", f"({_W}{{16,}}(?:\\.{_W}+)*)"),
    ("1//0", f"({_W}{{24,}})"),
    ("GOCSPX-", f"({_W}{{20,}})"),
    ("AQ.", f"({_W}{{30,}})"),
    ("dop_v1_", f"({_X}{{32,}})"),
    ("doo_v1_", f"({_X}{{32,}})"),
    ("dor_v1_", f"({_X}{{32,}})"),
    ("dapi", f"({_X}{{32}}(?:-\\d+)?)"),
    ("hvs.", f"({_W}{{20,}})"),
    ("hvb.", f"({_W}{{20,}})"),
    ("dp.pt.", f"({_A}{{30,}})"),
    ("dp.st.", f"({_W}+\\.?{_A}{{20,}})"),
    ("tskey-", f"({_W}{{16,}})"),
    ("sbp_", f"({_X}{{32,}})"),
    ("sb_secret_", f"({_W}{{16,}})"),
    ("vcp_", f"({_A}{{16,}})"),
    ("vck_", f"({_A}{{16,}})"),
    ("vca_", f"({_A}{{16,}})"),
    ("pul-", f"({_X}{{40}})"),
    ("FlyV1", r"(?: |_)([A-Za-z0-9+/=_,-]{40,})"),
    ("nfp_", f"({_A}{{30,}})"),
    ("HRKU-", f"({_W}{{30,}})"),
    ("cfut_", f"({_W}{{30,}})"),
    # code and packages
    ("ghp_", f"({_A}{{20,}})"),
    ("gho_", f"({_A}{{20,}})"),
    ("ghu_", f"({_A}{{20,}})"),
    ("ghs_", f"({_W}{{20,}})"),
    ("ghr_", f"({_A}{{20,}})"),
    ("github_pat_", r"([A-Za-z0-9_]{20,})"),
    ("npm_", f"({_A}{{20,}})"),
    ("pypi-", f"({_W}{{16,}})"),
    ("glpat-", r"([\w.-]{16,})"),
    ("gldt-", f"({_W}{{16,}})"),
    ("glrt-", r"([\w.-]{16,})"),
    ("glptt-", f"({_W}{{16,}})"),
    ("glcbt-", f"({_W}{{16,}})"),
    ("glagent-", f"({_W}{{16,}})"),
    ("glsoat-", f"({_W}{{16,}})"),
    ("glft-", f"({_W}{{16,}})"),
    ("gloas-", f"({_W}{{16,}})"),
    ("dckr_pat_", f"({_W}{{16,}})"),
    ("rubygems_", f"({_X}{{32,}})"),
    ("ATATT3", r"([\w=-]{40,})"),
    ("ATCTT3", r"([\w=-]{40,})"),
    ("sqp_", f"({_X}{{32,}})"),
    ("CCIPAT_", f"({_W}{{20,}})"),
    ("bkua_", f"({_X}{{32,}})"),
    # payment, mail, chat, work
    ("sk_live_", f"({_A}{{10,}})"),
    ("sk_test_", f"({_A}{{10,}})"),
    ("rk_live_", f"({_A}{{10,}})"),
    ("rk_test_", f"({_A}{{10,}})"),
    ("whsec_", r"([A-Za-z0-9+/=]{16,})"),
    ("SG.", f"({_W}{{16,}}\\.{_W}{{16,}})"),
    ("key-", f"({_X}{{32}})(?![A-Za-z0-9])"),
    ("SK", f"({_X}{{32}})(?![A-Za-z0-9])"),
    ("xox", r"[abeoprs]-([A-Za-z0-9-]{10,})"),
    ("xapp-", r"([A-Za-z0-9-]{10,})"),
    ("lin_api_", f"({_A}{{20,}})"),
    ("ntn_", f"({_A}{{20,}})"),
    ("secret_", f"({_A}{{32,}})"),
    ("shpat_", f"({_X}{{32}})"),
    ("shpca_", f"({_X}{{32}})"),
    ("shppa_", f"({_X}{{32}})"),
    ("shpss_", f"({_X}{{32}})"),
    ("sq0", r"(?:atp|csp|idp)-([A-Za-z0-9_-]{20,})"),
    ("EAAA", f"({_W}{{40,}})"),
    ("EAAC", f"({_W}{{40,}})"),
    ("figd_", f"({_W}{{20,}})"),
    ("PMAK-", f"({_W}{{30,}})"),
    ("NRAK-", f"({_A}{{20,}})"),
    ("sntrys_", r"([\w=+/-]{20,})"),
    ("sntryu_", f"({_X}{{32,}})"),
    ("glc_", r"([A-Za-z0-9+/=]{20,})"),
    ("glsa_", r"([A-Za-z0-9_]{20,})"),
    ("re_", f"({_A}{{8}}_{_A}{{16,}})"),
    ("patt", f"({_A}{{14}}\\.{_X}{{64}})"),
    ("pat", f"({_A}{{14}}\\.{_X}{{64}})"),
    ("phc_", f"({_A}{{30,}})"),
    ("phx_", f"({_A}{{30,}})"),
    ("AGE-SECRET-KEY-1", r"([A-Z0-9]{40,})"),
    ("hooks.slack.com/services/", r"([A-Za-z0-9/]{20,})"),
    ("discord.com/api/webhooks/", r"(\d+/[\w-]{20,})"),
    ("discordapp.com/api/webhooks/", r"(\d+/[\w-]{20,})"),
    # tokens of no vendor
    ("eyJ", f"({_W}{{8,}}\\.{_W}{{2,}}(?:\\.{_W}*)*)"),
)
"""How a key begins, and the rest of it as a regular expression: what its group matches is covered, the beginning stays
readable."""
_SHAPES: tuple[tuple[bytes, re.Pattern[bytes]], ...] = (
    (b":AA", re.compile(rf"(?<![0-9])\d{{8,10}}:({_W}{{35}})(?!{_W})".encode())),  # Telegram
    (b".atlasv1.", re.compile(rf"({_A}{{14}}\.atlasv1\.{_W}{{40,}})".encode())),  # Terraform
    (b"JQQJ9", re.compile(rf"({_A}{{52}}JQQJ9{_A}{{26,28}})".encode())),  # Azure, from 2024 on
    (b".", re.compile(rf"(?<!{_W})([MNO]{_W}{{22,27}}\.{_W}{{6}}\.{_W}{{27,}})".encode())),  # Discord
)
"""Keys that do not begin in one way: what stands in every one, and the pattern."""


def _combined() -> re.Pattern[bytes]:
    """One pattern of all, by first letter: a branch is entered only where its letter stands.

    No letter or digit precedes a key.
    """
    by_letter: dict[str, list[str]] = defaultdict(list)
    for beginning, rest in sorted(PATTERNS, key=lambda pair: -len(pair[0])):
        by_letter[beginning[0]].append(re.escape(beginning[1:]) + rest)
    branches = [f"{re.escape(letter)}(?:{'|'.join(rests)})" for letter, rests in by_letter.items()]
    text_of = "".join(by_letter)
    return re.compile(f"(?<![A-Za-z0-9])(?=[{text_of}])(?:{'|'.join(branches)})".encode())


_PATTERN = _combined()

# Inside base64
# ------------------------------------------------------------------------------------------------------------

_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}")
_URL_SAFE_BASE64, _STANDARD_BASE64 = re.compile(rb"[A-Za-z0-9_-]{24,}"), re.compile(rb"[A-Za-z0-9+/]{24,}")
_DATA = re.compile(rb"[A-Za-z0-9+/_-]{2048,}={0,2}")
_FIRST_OF_ASCII = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"
"""First letters of the groups of four that three bytes of ASCII are written with: the first byte is below 128."""
_URL_SAFE, _TO_URL_SAFE = bytes.maketrans(b"-_", b"+/"), bytes.maketrans(b"+/", b"-_")
_NOT_PRINTABLE = bytes([*range(9), *range(14, 32), *range(127, 256)])


def _from_base64(value: bytes) -> bytes:
    value = value.rstrip(b"=").translate(_URL_SAFE)
    if len(value) % 4 == 1:
        value = value[:-1]
    return b64decode(value + b"=" * (-len(value) % 4))


def _is_printable(decoded: bytes) -> bool:
    return len(decoded.translate(None, _NOT_PRINTABLE)) >= len(decoded) * 0.9


def _in_base64(joined: bytes, secrets: tuple[bytes, ...], depth: int) -> Iterator[Span]:
    """Secrets in what short runs decode to.

    One may begin with letters that belong to something else: all four offsets are tried.
    """
    if depth >= _DEPTH:
        return
    for start, end in _base64_runs(joined):
        text_of = joined[start:end]
        for offset in range(4):
            groups = text_of[offset + 4 * _GROUPS_BEFORE :: 4]
            if len(groups.translate(None, _FIRST_OF_ASCII)) * 10 > len(groups):
                continue
            decoded = _from_base64(text_of[offset:])
            if _is_printable(decoded[3 * _GROUPS_BEFORE :]):
                yield from _re_encoded(_spans(decoded, secrets, depth + 1), start + offset, end)


_GROUPS_BEFORE = 2
"""Groups of four letters at the beginning of a run that may belong to something else: `/v1/`."""


def _base64_runs(joined: bytes) -> Iterator[Span]:
    """Runs of either alphabet of base64, and what is left of them in each: a path's `/` and a name's `-` are letters of
    one of them.
    """
    for run in _BASE64.finditer(joined):
        text_of = run[0]
        if text_of.islower() or text_of.isupper():  # hexadecimal digits, names
            continue
        yield run.span()
        if b"/" in text_of:
            yield from (piece.span() for piece in _URL_SAFE_BASE64.finditer(joined, *run.span()))
        if b"-" in text_of or b"_" in text_of:
            yield from (piece.span() for piece in _STANDARD_BASE64.finditer(joined, *run.span()))


def _in_data(text: bytes, start: int, end: int, secrets: tuple[bytes, ...], depth: int) -> Iterator[Span]:
    """Secrets in what a long run decodes to: a file."""
    if depth >= _DEPTH:
        return
    decoded = _from_base64(text[start:end])
    spans = _spans(decoded, secrets, depth + 1) if _is_printable(decoded) else _in_binary(decoded, secrets)
    yield from _re_encoded(spans, start, end)


def _re_encoded(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """Where the bytes of decoded spans stand in the base64 that begins at `start`."""
    for low, high in spans:
        yield start + low * 4 // 3, min(start - (-high * 4 // 3), end)


def _in_binary(data: bytes, secrets: tuple[bytes, ...]) -> Iterator[Span]:
    """Secrets in an image or another file: metadata is text."""
    for value in secrets:
        yield from _everywhere(data, value)
    yield from _in_runs(data, data.lower(), secrets, _DEPTH)


# 1. The credentials of a connection
# ---------------------------------------------------------------------------------------

_AUTH_SCHEME = re.compile(rb"\s*(?:bearer|basic|token|apikey) +\S", re.IGNORECASE)
"""A header's value that says itself that it is a credential, whatever the header is called."""
_CREDENTIAL_ENDS = (b"token", b"signature", b"auth", b"authentication", b"jwt", b"assertion", b"litellmkey")
_NO_CREDENTIALS = (b"tokens", b"idempotencykey", b"websocketkey", b"cachekey")
_PARTS = re.compile(r'(?:Signature|Credential|signature|response|nonce|username)="?([^",\s]+)')
_QUERY_NAMES = frozenset({b"key", b"sig", b"code"})


def credentials_of(headers: Iterable[tuple[bytes, bytes]], target: bytes = b"") -> tuple[str, ...]:
    """The credentials in the headers and in the query of a request (or in the headers of its response), longest first.

    >>> credentials_of([(b"Authorization", b"Bearer abcdefgh"), (b"Content-Length", b"12345678")], b"/v1?key=ijklmnop")
    ('abcdefgh', 'ijklmnop')
    """
    names: dict[str, None] = {}
    for raw_name, raw_value in headers:
        name = raw_name.lower()
        if _is_credential(name) or _AUTH_SCHEME.match(raw_value):
            names.update(dict.fromkeys(_in_header(name.decode("latin-1"), raw_value.decode("latin-1").strip())))
    for pair in target.partition(b"?")[2].split(b"&"):
        key, _, value = pair.partition(b"=")
        parameter = unquote_to_bytes(key).lower()
        if parameter in _QUERY_NAMES or _is_credential(parameter):
            names.update(
                dict.fromkeys([value.decode("latin-1"), unquote_to_bytes(value).decode("utf-8", "surrogateescape")])
            )
    return tuple(
        sorted((value for value in names if len(value) >= MIN_CREDENTIAL_BYTES), key=lambda value: (-len(value), value))
    )


def _is_credential(name: bytes) -> bool:
    """Whether a header or a query's parameter of this name, in lower case, holds a credential.

    Identifiers of sessions, requests and cache entries are none: a body repeats them, and they must stay distinct.
    """
    word = _BARE.sub(b"", name)
    is_named = _is_key_like(word) or word.endswith(_CREDENTIAL_ENDS) or b"authorization" in word
    return is_named and not word.endswith(_NO_CREDENTIALS)


def _in_header(name: str, value: str) -> Iterator[str]:
    if "cookie" in name:
        pairs = value.split(";")[:1] if name == "set-cookie" else value.split(";")
        yield from (pair.partition("=")[2].strip().strip('"') for pair in pairs)
        return
    scheme, blank, rest = value.partition(" ")
    if not blank:
        yield value
        return
    rest = rest.strip()
    if scheme.lower() == "basic":
        decoded = (
            _from_base64(rest.encode("latin-1", "replace")).decode("utf-8", "replace")
            if _BASE64_TEXT.fullmatch(rest)
            else ""
        )
        yield from (rest, decoded, decoded.partition(":")[2])
    elif "," in rest or "=" in rest.rstrip("="):
        yield from _PARTS.findall(rest)  # AWS4-HMAC-SHA256, Digest
    else:
        yield rest


_BASE64_TEXT = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
