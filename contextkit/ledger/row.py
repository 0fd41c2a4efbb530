"""One exchange, or one remark, as one line of JSON, and back, exactly.

Takes a row, gives the bytes of its line without the newline; and the other way. Knows nothing of files.

The last field of a line is `"sum"`: the first 16 hex digits of the SHA-256 of all bytes before it. A line without it,
as older versions wrote them, is read unchecked.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from orjson import JSONDecodeError, loads

from contextkit.cache.prompt import Breakpoint
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import LogCorrupt, NotSerialisable
from contextkit.ledger.exchange import BlockIds, Bodies, Exchange, Outline, Remark, Tokens

Record = Exchange | Remark
"""What a line of a ledger holds."""


def encode(record: Record) -> bytes:
    """The line of `record`, without its newline.

    Raises `NotSerialisable` for a name that has no UTF-8 form or a time that is not finite.
    """
    if isinstance(record, Remark):
        row = canonical({"remark": record.kind, "about": record.about, "text": record.text})[:-1]
    else:
        row = _encode_exchange(record)[:-1]
    return row + _SUM % checksum(row)


def _encode_exchange(exchange: Exchange) -> bytes:
    row = _fields(exchange)
    row["prompt"] = _maybe(_write_prompt, exchange.prompt)
    row["usage"] = _maybe(_write_usage, exchange.usage)
    row["predicted"] = _maybe(_write_usage, exchange.predicted)
    return canonical(row)


def decode(line: bytes) -> Record:
    """The exchange or the remark of a line.

    Raises `LogCorrupt` for what is not a line of ours, or was changed since it was written; the caller says which one.
    """
    _check_sum(line.rstrip(b"\r\n"))
    try:
        row = parse(line) if _LONG in line.translate(_DIGITS) else loads(line)
        return Remark(row["remark"], row["about"], row["text"]) if "remark" in row else _exchange(row)
    except JSONDecodeError as error:
        raise LogCorrupt(
            f"not an exchange (NotSerialisable: line {error.lineno} column {error.colno}: not JSON ({error.msg}))"
        ) from None
    except (NotSerialisable, KeyError, TypeError, ValueError, AttributeError) as error:
        raise LogCorrupt(f"not an exchange ({type(error).__name__}: {error})") from None


_SUM = b',"sum":"%b"}'
_SUM_BYTES = 16
_END_BYTES = len(_SUM % (b"0" * _SUM_BYTES))


def checksum(row: bytes) -> bytes:
    """What stands in the field `sum` of a row, `row` being the bytes before that field."""
    return sha256(row).hexdigest()[:_SUM_BYTES].encode()


def _check_sum(line: bytes) -> None:
    row, end = line[:-_END_BYTES], line[-_END_BYTES:]
    if end.startswith(_SUM[:8]) and end != _SUM % checksum(row):
        raise LogCorrupt("its checksum is not that of its content")


_DIGITS, _LONG = bytes(ord("0") if chr(byte).isdecimal() and byte < 128 else ord(" ") for byte in range(256)), b"0" * 19
"""Only an integer of so many digits may be read inexactly: a line without one need not be looked through for it."""


def _exchange(row: Json) -> Exchange:
    prompt, usage, predicted = row["prompt"], row["usage"], row["predicted"]
    return Exchange(
        row["id"],
        row["session"],
        row["lane"],
        row["at"],
        row["first_byte_at"],
        row["ended_at"],
        row["provider"],
        row["model"],
        None if prompt is None else _READERS[prompt["kind"]](prompt),
        None if usage is None else _read_usage(usage),
        None if predicted is None else _read_usage(predicted),
        row["error"],
    )


def _fields(value: Any) -> dict[str, Json]:
    return {name: getattr(value, name) for name in value.__slots__}


def _maybe(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _write_usage(usage: Usage) -> dict[str, Json]:
    """Without the service tier where it is the standard one: readers of before it know no such key."""
    row = _fields(usage)
    if not usage.service_tier:
        del row["service_tier"]
    return row


def _read_usage(row: Json) -> Usage:
    """A key of a later version is passed over."""
    try:
        return Usage(**row)
    except TypeError:
        if not isinstance(row, dict):
            raise
        return Usage(**{name: value for name, value in row.items() if name in Usage.__slots__})


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
