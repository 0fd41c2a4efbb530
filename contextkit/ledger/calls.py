"""Model calls and remarks, and their lines in a ledger: `encode` gives the JSON of a record, `decode` reads it back.

In a ledger, a line ends with its place: `"sequence"`, how many rows stand before it; `"prev"`, the `"sum"` of the row
before; and `"sum"`, the first 16 hex digits of the SHA-256 of all bytes before that field. Each sum therefore covers
every row before it. Lines of older versions have a sum and no place, or neither, and are read without.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from orjson import JSONDecodeError, loads

from contextkit.cache.prompt import Breakpoint
from contextkit.cache.usage import NO_COUNT, Usage, natural
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import LogCorrupt, NewerFormat, NotSerialisable

VERSION = 2
"""Of the format of ledgers; stands in the first line. Rows of version 1 have no place."""
HEADER = b'{"contextkit_ledger":%d}\n' % VERSION
REROUTED = "upstream "
"""What a remark on a setting begins with where an aggregator moved to another host: `upstream alpha → beta`."""
OTHER_PROJECT = "project "
"""The same where the address names another project of a cloud, whose caches are apart: `project alpha → beta`."""
INFERRED_LANE = "conversation "
"""What the name of a lane begins with that nobody recorded: a reader told it from others by what its prompts say."""


def lane_name(agent: str, number: int) -> str:
    """The lane of conversation `number`, from 1, of an agent in its session; the main agent has no name.

    >>> lane_name("", 1), lane_name("", 2), lane_name("reviewer", 1), lane_name("reviewer", 2)
    ('main', 'conversation 2', 'reviewer', 'reviewer 2')
    """
    if number == 1:
        return agent or "main"
    return f"{agent} {number}" if agent else f"{INFERRED_LANE}{number}"


@dataclass(frozen=True, slots=True)
class Outline:
    """A prompt without its text, written as a difference to the call before it in the same lane: O(turn) to store."""

    keep: int
    """How many leading segments are those of the call before."""
    namespaces: tuple[str, str, str]
    """Hex; what besides the segments must be equal at tools, system, messages."""
    level_ends: tuple[int, int]
    """Segments in tools; in tools and system."""
    digests: tuple[str, ...]
    """Hex running digests of the segments after `keep`."""
    ends_tokens: tuple[int, ...]
    """Token ends of the segments after `keep`."""
    positions: tuple[int, ...]
    """Lookback positions of the segments after `keep`."""
    entries: tuple[int, ...]
    """Log sequence of the segments after `keep`, -1 for none."""
    breakpoints: tuple[Breakpoint, ...]
    """Where it might be written."""
    epoch: int = 0
    """How many declared breaks came before it."""
    base: str = ""
    """The first hex digits of the running digest of the last kept segment, by which a reader tells that it has the
    right ones; empty where none is kept, and in rows of older versions."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """A recorded request body, verbatim."""

    request: bytes
    """The JSON that was sent."""


@dataclass(frozen=True, slots=True)
class BlockIds:
    """A prompt as block hashes."""

    size: int
    """Tokens in a block."""
    ids: tuple[int, ...]
    """One id a block, from the front."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A prompt as token ids, written as a difference to what the call before it in the same lane left: O(turn) to
    store.
    """

    keep: int
    """How many leading tokens are those of the call before, what it generated included."""
    ids: tuple[int, ...]
    """The prompt's token ids after `keep`."""
    generated: tuple[int, ...]
    """What the engine generated, token by token, where that is known."""
    space: str = ""
    """Hex; stands for the salt that keeps its prefixes apart from those of others; empty for none."""
    is_read_skipped: bool = False
    """Whether it asked to read nothing from the cache."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a model with its response: when it was, who was asked, what was sent and billed."""

    id: str
    """The provider's id of the response, or ours where none came."""
    session: str = ""
    """The conversation it belongs to."""
    lane: str = "main"
    """`main`, or the branch or sub-agent inside the session: calls of a lane extend one another."""
    at: float = 0.0
    """When the request started, seconds since 1970."""
    first_byte_at: float | None = None
    """When the response began, None if unknown or never."""
    ended_at: float | None = None
    """When it was complete, None if unknown or never."""
    provider: str = ""
    """`anthropic`, `openai`, …: the id prices are looked up under."""
    model: str = ""
    """The model that was asked."""
    prompt: Outline | Bodies | BlockIds | Tokens | None = None
    """What was sent, as far as it is known."""
    usage: Usage | None = None
    """What was billed, None where nobody said."""
    predicted: Usage | None = None
    """What the reference cache expected."""
    error: str | None = None
    """Why it did not end well: `aborted`, `cut`, `overloaded_error`, …; None when it did."""
    billed_usd: float | None = None
    """Dollars that the provider, the gateway it was bought from, or the program that recorded it says it cost; None where
    nobody said."""
    output_estimate: int | None = None
    """Generated tokens by the reply's visible text, where the bill's `output` is partial; None elsewhere."""
    computed_usd: float | None = None
    """List price of the call, computed when its recording was anonymized; None where the names of provider and model still
    tell it."""
    account: str = ""
    """Stands for the API key it was sent with, whose cache others do not share; empty where nobody said."""
    host: str = ""
    """The host that was asked (`api.anthropic.com`); empty where nobody said."""

    @property
    def is_refused(self) -> bool:
        """Return whether the provider answered with an error and no bill: such a call costs nothing.

        A named error that came within a response, behind its first byte, is no refusal.
        """
        if self.error is None or self.usage is not None or self.billed_usd is not None:
            return False
        if _ERROR_STATUS.match(self.error):
            return True
        return self.first_byte_at is None and _ERROR_NAME.fullmatch(self.error) is not None


_ERROR_STATUS = re.compile(r"(?:http_)?[45][0-9][0-9]\b")
"""Begins the error of a call that was answered with that status: `529 overloaded_error`, `http_529`."""
_ERROR_NAME = re.compile(
    r"(?!.*(?:abort|cancel|time_?out|timed_out))(?:refused|[a-z]+(?:_[a-z]+)+|[A-Z]+(?:_[A-Z]+)*|[A-Za-z]+Exception)"
)
"""A provider's name of an error: `overloaded_error`, `rate_limit_exceeded`, `RESOURCE_EXHAUSTED`, `ThrottlingException`; not
`cut`, `aborted`, or an error of a client."""


RemarkKind = Literal[
    "verdict",
    "project",
    "title",
    "program",
    "agent",
    "caller",
    "repair",
    "compaction",
    "setting",
    "turn",
    "event",
    "sum",
    "passed",
    "charge",
]
"""verdict: the provider's own diagnosis of a call (`system_changed`); project: where a conversation was held; title:
what its program calls it; program: which agent program held it (`Claude Code`); agent: who a lane is; caller:
`file:line` of the code that sent a call; repair: what a proxy changed in a request before passing it on; compaction:
what rewrote the history since the call before in the lane; setting: a request setting that is another one than that
call's (`effort low → high`); turn: the call is the first behind a prompt of the user's, and how many tokens of
reasoning the turn before it wrote (`3857`); event: what the client wrote between the call and the one before it in its
lane, by its name in `facts/observed.toml` (`slash command: /review`); sum: what each row of a lane adds up, where rows
are no calls, as between two scrapes of an engine's counters; passed: what went through a proxy and is no model call it
knows, in sizes only; charge: what a budget was charged for a call whose bill does not say all of it (`5012 tokens,
0.0375 usd`)."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One fact about a call, a lane or a session."""

    kind: RemarkKind
    """What it says."""
    about: str
    """Id of the call (verdict, caller, repair, compaction, setting, turn, event, charge), the session (project,
    title, program), `session/lane` (agent, sum), or the run of the proxy (passed)."""
    text: str
    """In as few words as it has: `system_changed`, `prompts.py:41`, `researcher`."""


Record = ModelCall | Remark
"""What a line of a ledger holds."""


def encode(record: Record) -> bytes:
    """`record` as JSON, without a place in a ledger; see `Chain.add`.

    Raises `NotSerialisable` for a name that has no UTF-8 form or a time that is not finite.
    """
    if isinstance(record, Remark):
        return canonical({"remark": record.kind, "about": record.about, "text": record.text})
    return _encode_call(record)


GENESIS = b"0" * 16
"""What stands for the sum of the row before the first."""
_PLACE = re.compile(rb',"sequence":(0|[1-9][0-9]*),"prev":"([0-9a-f]{16})","sum":"([0-9a-f]{16})"\}\r?\n?\Z')
PLACE_BYTES = 160
"""A place is no longer than this."""


class Place(NamedTuple):
    """Where a row stands in its ledger."""

    sequence: int
    """Rows before it."""
    prev: bytes
    """The sum of the row before."""
    sum: bytes
    """The sum of this row, 16 hex digits."""


def place_of(line: bytes) -> Place | None:
    """The place that a line states; None for a line of an older version."""
    found = _PLACE.search(line[-PLACE_BYTES:])
    return None if found is None else Place(int(found[1]), found[2], found[3])


class Chain(NamedTuple):
    """The end of a ledger: what the place of its next row follows from."""

    n: int = 0
    """Rows so far."""
    sum: bytes = GENESIS
    """The sum of the last row that has a place."""

    def add(self, *rows: bytes) -> tuple[bytes, Chain]:
        """The lines of rows that `encode` gave, newlines included, and the end of the ledger behind them."""
        n, last, lines = *self, []
        for row in rows:
            covered = b'%b,"sequence":%d,"prev":"%b"' % (row[:-1], n, last)
            n, last = n + 1, checksum(covered)
            lines.append(b'%b,"sum":"%b"}\n' % (covered, last))
        return b"".join(lines), Chain(n, last)


def _encode_call(call: ModelCall) -> bytes:
    row = _fields(call)
    row["prompt"] = _maybe(_write_prompt, call.prompt)
    row["usage"] = _maybe(Usage.to_json, call.usage)
    row["predicted"] = _maybe(Usage.to_json, call.predicted)
    for name in (*_LATER_NUMBERS, *_LATER_NAMES):
        if not row[name] and row[name] != 0:
            del row[name]
    return canonical(row)


_LATER_NUMBERS = ("billed_usd", "output_estimate", "computed_usd")
_LATER_NAMES = ("account", "host")
"""Fields that older versions do not know; written where they say something."""


def decode(line: bytes) -> Record:
    """The call or the remark of a line.

    Raises `LogCorrupt` for what is not a line of ours, or was changed since it was written, and `NewerFormat` for one
    that was not changed and says what this version does not know; the caller says which line.
    """
    is_whole = has_sum(line)
    if is_whole:
        _check_sum(line.rstrip(b"\r\n"))
    try:
        row = parse(line) if _LONG in line.translate(_DIGITS) else loads(line)
        if not is_whole and "prev" in row:
            raise LogCorrupt("its checksum is not at its end")
        record = Remark(row["remark"], row["about"], row["text"]) if "remark" in row else _call(row)
        if not is_whole:
            _check_values(record)
    except JSONDecodeError as error:
        what = f"NotSerialisable: line {error.lineno} column {error.colno}: not JSON ({error.msg})"
    except (NotSerialisable, KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
    else:
        return record
    if is_whole:
        raise NewerFormat(f"a newer contextkit wrote it, and this one cannot read it ({what}): upgrade contextkit")
    raise LogCorrupt(f"not a call ({what})")


_SUM_START = b',"sum":"'
_END_BYTES = len(_SUM_START) + 16 + len(b'"}')


def has_sum(line: bytes) -> bool:
    """Return whether a line states its sum."""
    return line.rstrip(b"\r\n")[-_END_BYTES:].startswith(_SUM_START)


def checksum(row: bytes) -> bytes:
    """What stands in the field `sum` of a row, `row` being the bytes before that field."""
    return sha256(row).hexdigest()[:16].encode()


def _check_sum(line: bytes) -> None:
    if line[-_END_BYTES:] != b'%b%b"}' % (_SUM_START, checksum(line[:-_END_BYTES])):
        raise LogCorrupt("its checksum is not that of its content")


def _check_values(record: Record) -> None:
    """Raises `TypeError` or `ValueError` where a field holds what none is written with: for rows without a checksum."""
    if isinstance(record, Remark):
        _check_types((record.kind, record.about, record.text), str)
        return
    names = (record.id, record.session, record.lane, record.provider, record.model)
    texts = (*names, record.account, record.host, record.error or "")
    _check_types(texts, str)
    numbers = (record.first_byte_at, record.ended_at, *(getattr(record, name) for name in _LATER_NUMBERS))
    _check_types([record.at, *(number for number in numbers if number is not None)], int, float)
    for usage in (record.usage, record.predicted):
        if usage is not None:
            _check_types((usage.estimated,), bool)
            _check_types((usage.service_tier, *(text for pair in usage.qualities for text in pair)), str)
            counts = (usage.fresh, usage.read, usage.output, *(tokens for _, tokens in usage.writes or ()))
            if any(count is not None and natural(count) is None for count in counts):
                raise ValueError(NO_COUNT)
    prompt = record.prompt
    if isinstance(prompt, Outline):
        columns = (prompt.ends_tokens, prompt.positions, prompt.entries)
        if {len(prompt.digests)} != set(map(len, columns)):
            raise ValueError("an outline with more of one column than of another")
        _check_types((*prompt.namespaces, *prompt.digests, prompt.base), str)
        marks = [(mark.segment, mark.ttl_seconds, mark.lookback) for mark in prompt.breakpoints]
        _check_types([number for column in (*columns, *marks, (prompt.epoch,)) for number in column], int)
    elif isinstance(prompt, BlockIds):
        _check_types((prompt.size, *prompt.ids), int)
    elif isinstance(prompt, Tokens):
        _check_types((prompt.keep, *prompt.ids, *prompt.generated), int)
        _check_types((prompt.space,), str)


def _check_types(values: Iterable[Any], *kinds: type) -> None:
    for value in values:
        if type(value) not in kinds:
            raise TypeError(f"a value of type {type(value).__name__}, not {kinds[-1].__name__}")
        if isinstance(value, int | float) and not abs(value) < 2**64:  # larger ones are no time, size, count or id
            raise ValueError("a number that is out of range")


_DIGITS, _LONG = bytes(ord("0") if chr(byte).isdecimal() and byte < 128 else ord(" ") for byte in range(256)), b"0" * 19
"""Only an integer of so many digits may be read inexactly: a line without one need not be looked through for it."""


def _call(row: Json) -> ModelCall:
    prompt, usage, predicted = row["prompt"], row["usage"], row["predicted"]
    return ModelCall(
        row["id"],
        row["session"],
        row["lane"],
        row["at"],
        row["first_byte_at"],
        row["ended_at"],
        row["provider"],
        row["model"],
        None if prompt is None else _READERS[prompt["kind"]](prompt),
        None if usage is None else Usage.from_json(usage, row["provider"]),
        None if predicted is None else Usage.from_json(predicted, row["provider"]),
        row["error"],
        *map(row.get, _LATER_NUMBERS),
        *(row.get(name, "") for name in _LATER_NAMES),
    )


def _fields(value: Any) -> dict[str, Json]:
    return {name: getattr(value, name) for name in value.__slots__}


def _maybe(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _write_outline(outline: Outline) -> dict[str, Json]:
    row = {"kind": "outline", **_fields(outline), "breakpoints": [_fields(mark) for mark in outline.breakpoints]}
    if not outline.base:
        del row["base"]
    return row


def _read_outline(row: Json) -> Outline:
    first, second = row["level_ends"]
    tools, system, messages = row["namespaces"]
    if not all(type(number) is int and number >= 0 for number in (row["keep"], first, second)):
        raise ValueError("an outline counts segments")
    return Outline(
        keep=row["keep"],
        namespaces=(tools, system, messages),
        level_ends=(first, second),
        digests=tuple(row["digests"]),
        ends_tokens=tuple(row["ends_tokens"]),
        positions=tuple(row["positions"]),
        entries=tuple(row["entries"]),
        breakpoints=tuple(Breakpoint(**mark) for mark in row["breakpoints"]),
        epoch=row["epoch"],
        base=row.get("base", ""),
    )


def _write_bodies(bodies: Bodies) -> dict[str, Json]:
    """Readable where it can be; a body that is not UTF-8 was sent too, so it is kept as well."""
    try:
        return {"kind": "bodies", "request": bodies.request.decode("utf-8")}
    except UnicodeDecodeError:
        return {"kind": "bodies", "request_base64": b64encode(bodies.request).decode()}


def _read_bodies(row: Json) -> Bodies:
    return Bodies(
        row["request"].encode("utf-8") if "request" in row else b64decode(row["request_base64"], validate=True)
    )


def _write_blocks(blocks: BlockIds) -> dict[str, Json]:
    return {"kind": "blocks", "size": blocks.size, "ids": blocks.ids}


def _read_blocks(row: Json) -> BlockIds:
    return BlockIds(row["size"], tuple(row["ids"]))


def _write_tokens(tokens: Tokens) -> dict[str, Json]:
    return {"kind": "tokens", **_fields(tokens)}


def _read_tokens(row: Json) -> Tokens:
    return Tokens(row["keep"], tuple(row["ids"]), tuple(row["generated"]), row["space"], row["is_read_skipped"])


Recorded = Outline | Bodies | BlockIds | Tokens
"""What a prompt may be recorded as."""
_WRITERS: dict[type, Callable[[Any], dict[str, Json]]] = {
    Outline: _write_outline,
    Bodies: _write_bodies,
    BlockIds: _write_blocks,
    Tokens: _write_tokens,
}
_READERS: dict[str, Callable[[Json], Recorded]] = {
    "outline": _read_outline,
    "bodies": _read_bodies,
    "blocks": _read_blocks,
    "tokens": _read_tokens,
}


def _write_prompt(prompt: Recorded) -> dict[str, Json]:
    return _WRITERS[type(prompt)](prompt)
