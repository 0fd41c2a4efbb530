"""OpenRouter's generation records (`GET /api/v1/generation?id=…`) and the responses it sends, as JSON, a JSON array, or
one a line.

Takes a source, gives bills without prompts. Tokens are the native ones, which are billed; `tokens_prompt` is counted in
another tokenizer. `provider_name` is the host that answered: where it changes inside a session, that is remarked as a
changed setting, since no cache goes along. A generation record says what was read and not what was written. Field
names: OpenRouter's `get-generation` page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from contextkit.cache.usage import natural
from contextkit.errors import UnreadableLog
from contextkit.importers.answers import answer_of
from contextkit.importers.format import first_line
from contextkit.importers.pairing import Pair, Pairs
from contextkit.importers.source import Source, load_json
from contextkit.importers.transcript import parsed, plausible
from contextkit.ledger.calls import Record
from contextkit.providers.response_facts import ResponseFacts

NAME = "openrouter"


def is_openrouter(head: bytes) -> bool:
    """Return whether a file that starts like this holds OpenRouter's own records, none with a request beside it.

    >>> is_openrouter(b'{"data":{"id":"gen-1","native_tokens_prompt":3}}'), is_openrouter(b'{"request":{},"response":{"id":"gen-1"}}')
    (True, False)
    """
    line = first_line(head)
    if line[:1] not in (b"{", b"[") or b'"request"' in line or b'"contextkit_ledger"' in line:
        return False
    is_response = b'"gen-' in head and b'"provider"' in head and b'"usage"' in head
    return b'"native_tokens_prompt"' in head or b'"native_tokens_completion"' in head or is_response


def read(source: Source) -> Iterator[Record]:
    """The calls of a file in its order."""
    pairs = Pairs(source)
    for number, value in _values(source):
        pair = call_of(number, value)
        if pair:
            yield from pairs.records(pair)
        else:
            source.fault(number, "neither a generation record nor a response; passed over")
    pairs.finish()


def call_of(number: int, record: dict[str, Any]) -> Pair | None:
    """A generation record, or a response that OpenRouter sent; None for anything else."""
    data = record.get("data")
    said: dict[str, Any] = data if isinstance(data, dict) else record
    answer = answer_of(said)
    if answer is None or not answer.counts:
        return None
    pair = Pair(number, answer=answer, provider=NAME, model=answer.model, session=answer.session)
    return (
        _of_generation(pair, said, answer)
        if "native_tokens_prompt" in said or "native_tokens_completion" in said
        else pair
    )


def _of_generation(pair: Pair, said: dict[str, Any], answer: ResponseFacts) -> Pair:
    """What a generation record says beside its counts: times in milliseconds, and whether it was cancelled."""
    pair.at = plausible(said.get("created_at"))
    took = max((natural(said.get(name)) or 0 for name in ("latency", "generation_time")), default=0)
    pair.ended_at = pair.at + took / 1000 if pair.at is not None and took else None
    pair.error = "aborted" if said.get("cancelled") else None
    answer.has_ended = True
    return pair


def _values(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects, one a line, or all that one JSON value holds."""
    line = first_line(source.head)
    try:
        is_by_line = isinstance(load_json(line), dict)
    except orjson.JSONDecodeError:
        is_by_line = line.startswith(b"{") and line.rstrip() != b"{"
    if is_by_line:
        yield from (
            (number, record) for number, raw in source.lines() if (record := parsed(source, number, raw)) is not None
        )
        return
    try:
        value = load_json(source.whole())
    except orjson.JSONDecodeError as error:
        raise UnreadableLog(f"{source.name}: no JSON from line {error.lineno} on; give the whole export") from None
    held = value.get("data") if isinstance(value, dict) and isinstance(value.get("data"), list) else value
    yield from (
        (number, one)
        for number, one in enumerate(held if isinstance(held, list) else [held], 1)
        if isinstance(one, dict)
    )
