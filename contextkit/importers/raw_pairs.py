"""Request and response bodies as a program logged them: one JSON object a line, `{"request": …, "response": …}`.

Takes a source, gives one call a line, with the body that was sent, so that a miss has its exact place. Bodies of
Anthropic Messages, OpenAI Chat and Responses, Gemini generateContent, DeepSeek, Bedrock Converse, OpenRouter and any
compatible host, in one file or several. A response may be JSON, a list of the events it was streamed
in, or the text of the stream; a body may be JSON or its text, alone or in an envelope `{"url", "body"}`. A line that is
only a request is a prompt without a bill; one that is only a response, a bill without a prompt. A response that stands
there twice is counted once. Headers are read for the names of session and agent and for nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from contextkit.importers import openrouter
from contextkit.importers.answers import answer_of
from contextkit.importers.format import by_line, first_line
from contextkit.importers.growing import GrowingBodies
from contextkit.importers.pairing import Body, Pair, Pairs, body_of
from contextkit.importers.source import Source, load_json
from contextkit.importers.transcript import moment, parsed, plausible
from contextkit.ledger.calls import Record
from contextkit.providers.client_names import NO_NAMES, SESSION_NAMES, ClientNames, names_in_headers
from contextkit.providers.endpoints import endpoint_of
from contextkit.providers.openai.body import is_interactions_body
from contextkit.providers.response_facts import error_type

REQUESTS = ("request", "req", "request_body", "requestBody", "input_body", "request_json")
RESPONSES = (
    "response",
    "resp",
    "response_body",
    "responseBody",
    "output_body",
    "response_json",
    "completion",
    "result",
)
"""Names under which programs log the two bodies."""
_BODIES = ("body", "json", "content", "data", "text", "payload")
_URLS = ("url", "endpoint", "base_url", "api_base", "host", "path")
_STARTS = (
    "at",
    "timestamp",
    "started_at",
    "start_time",
    "startTime",
    "startedAt",
    "ts",
    "time",
    "created",
    "created_at",
    "request_time",
)
_ENDS = ("ended_at", "end_time", "endTime", "endedAt", "completed_at", "finished_at", "response_time")
_FIRSTS = ("first_byte", "first_byte_at", "first_token_at", "completion_start_time", "completionStartTime")
_TTFTS = (
    ("ttft", 1.0),
    ("ttft_s", 1.0),
    ("ttft_ms", 1e3),
    ("time_to_first_token", 1.0),
    ("time_to_first_token_ms", 1e3),
)
_TOOK = (
    ("latency_ms", 1e3),
    ("duration_ms", 1e3),
    ("elapsed_ms", 1e3),
    ("latency_s", 1.0),
    ("duration_s", 1.0),
    ("elapsed", 1.0),
    ("duration", 1.0),
    ("latency", 1.0),
)
"""(field, its units in a second)."""
_IDS = ("id", "request_id", "requestId", "call_id")
_BODY_MARKERS = (
    b'"usage"',
    b'"usageMetadata"',
    b'"messages"',
    b'"contents"',
    b'"input"',
    b'"system"',
    b'"systemInstruction"',
    b'"instructions"',
    b'"tools"',
    b"message_start",
    b'"choices"',
    b'"candidates"',
)


def is_raw_pairs(head: bytes) -> bool:
    """Return whether a file that starts like this holds bodies, by the names of its first line.

    Asked after every format with names of its own.

    >>> is_raw_pairs(b'{"request":{"model":"m","messages":[]},"response":{}}'), is_raw_pairs(b'{"model":"m","messages":[]}')
    (True, True)
    >>> is_raw_pairs(b'{"type":"session","id":"a"}'), is_raw_pairs(b'{"log":{"entries":[]}}')
    (False, False)
    """
    line = first_line(head)
    if not line.startswith(b"{") or b'"contextkit_ledger"' in line:
        return False
    try:
        record = load_json(line)
    except orjson.JSONDecodeError:  # longer than the head, or truncated
        return any(b'"%s"' % name.encode() in line[:4096] for name in (*REQUESTS, *RESPONSES)) and any(
            name in line for name in _BODY_MARKERS
        )
    return isinstance(record, dict) and _is_pair(record)


def _is_pair(record: dict[str, Any]) -> bool:
    if any(name in record for name in ("log", "resourceSpans", "traceId")):
        return False
    request, response = _named(record, REQUESTS), _named(record, RESPONSES)
    if (request is not None and body_of(_body(request))) or _is_interaction(record):
        return True
    if response is not None and (answer := answer_of(_body(response))):
        return bool(answer.counts)
    return _is_bare(record) or _is_response(record)


class PairLines:
    """Reads the pairs of a log line by line."""

    def __init__(self, source: Source) -> None:
        self.source, self.pairs = source, Pairs(source)

    def hear(self, number: int, line: bytes) -> Iterable[Record]:
        """Read the next line; gives its call."""
        record = _record(self.source, number, line, self.pairs.bodies)
        call = _recorded_call(number, record) if record is not None else None
        if call:
            return self.pairs.records(call)
        if record is not None and _is_interaction(record):
            self.source.fault(number, "a call of Gemini's Interactions API, a format that is not read; passed over")
        elif record is not None and not record.get("error"):
            self.source.fault(number, "neither a request nor a response of a model; passed over")
        return ()

    def waiting(self) -> Iterable[Record]:
        """Nothing is held back."""
        return ()

    def finish(self) -> None:
        """Report what concerns the file as a whole."""
        self.pairs.finish()


read = by_line(PairLines)


_OPENING, _CLOSING, _BEFORE = re.compile(rb'"request":( ?)\{'), b'"response":', 1024
"""Text before a request and after it, and the number of bytes in which the first is searched."""


def _record(source: Source, number: int, line: bytes, bodies: GrowingBodies) -> dict[str, Any] | None:
    """Parse the object of a line, with its request as the original bytes where they can be located without parsing
    twice.
    """
    opening = _OPENING.search(line, 0, _BEFORE)
    # nothing else is open before it, so both names are of one object, and what stands between them is one value
    if opening and line.count(b"{", 0, opening.start()) == 1 and line.count(b"[", 0, opening.start()) == 0:
        for look in (line.rfind, line.find):
            end = look(_CLOSING, opening.end())
            try:
                rest, raw = (
                    load_json(line[: opening.start()] + line[end:]),
                    line[opening.end() - 1 : line.rfind(b"}", 0, end) + 1],
                )
                fields = bodies.parsed(raw)
            except orjson.JSONDecodeError:
                continue  # the name stands inside one of the bodies too, or nowhere
            if "request" not in rest and endpoint_of(fields, ""):
                return {"request": Body(fields, _compact(bodies, fields) if opening[1] else raw), **rest}
    return parsed(source, number, line)


def _compact(bodies: GrowingBodies, fields: dict[str, Any]) -> bytes | None:
    """The bytes that were sent, of a body that was logged with added blanks."""
    try:
        return bodies.compact(fields)
    except TypeError:
        return None


def _recorded_call(number: int, record: dict[str, Any]) -> Pair | None:
    request, response = _named(record, REQUESTS), _named(record, RESPONSES)
    if request is None and response is None:
        request, response = (
            (record, None) if _is_bare(record) else (None, record) if _is_response(record) else (None, None)
        )
    answer = answer_of(_body(response))
    body = request if isinstance(request, Body) else body_of(_body(request))
    if body or (answer and answer.counts and request is None):
        return _placed(number, record, request, response, Pair(number, body, answer))
    return openrouter.call_of(number, record) if isinstance(record.get("data"), dict) else None


def _placed(number: int, record: dict[str, Any], request: Any, response: Any, call: Pair) -> Pair:
    """Fill `call` with the fields beside the bodies."""
    envelopes = [one for one in (record, request, response) if isinstance(one, dict)]
    beside = [one for one in envelopes if call.body is None or one is not call.body.fields or one is record]
    call.url = next((text for one in beside if (text := _text(one, _URLS))), "")
    call.provider = _text(record, ("provider", "custom_llm_provider", "vendor"))
    call.model = _text(record, ("model", "model_id", "modelId"))
    call.id = _text(record, _IDS) if record is not request else ""
    call.session = next((text for one in beside if (text := _text(one, SESSION_NAMES))), "")
    call.in_headers = next((names for one in beside if (names := _names_in_headers(one)) is not NO_NAMES), NO_NAMES)
    call.lane = _text(record, ("lane", "agent", "agent_id"))
    call.at, call.first_byte_at, call.ended_at = _times(record)
    call.error = error_type(record) or "error" if record.get("error") else _status(record, response)
    return call


def _named(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _body(value: Any) -> Any:
    """A body without its envelope, if it has one."""
    if isinstance(value, dict) and not _is_request(value) and not _is_response(value):
        body = _named(value, _BODIES)
        return value if body is None else body
    return value


def _is_request(value: Any) -> bool:
    return isinstance(value, dict) and "choices" not in value and "usage" not in value and endpoint_of(value, "") != ""


def _is_interaction(record: dict[str, Any]) -> bool:
    """Return whether a line holds a request of Gemini's Interactions API."""
    request = _named(record, REQUESTS)
    body = record if request is None else _body(request)
    return isinstance(body, dict) and is_interactions_body(body)


def _is_bare(record: dict[str, Any]) -> bool:
    """Return whether a line is a request and nothing else: it names its model, or is of an endpoint whose path does."""
    endpoint = endpoint_of(record, "") if _is_request(record) else ""
    return endpoint != "" and ("model" in record or endpoint in ("gemini", "bedrock_converse"))


def _is_response(value: Any) -> bool:
    return isinstance(value, dict) and any(
        isinstance(value.get(name), dict | list) for name in ("usage", "usageMetadata", "choices")
    )


def _text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), "")


def _names_in_headers(fields: Mapping[str, Any]) -> ClientNames:
    """The names that a request has in its headers; no other header is read."""
    headers = fields.get("headers") or fields.get("request_headers")
    if not isinstance(headers, dict):
        return NO_NAMES
    return names_in_headers((str(name), value) for name, value in headers.items() if isinstance(value, str))


def _times(record: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    """Start, first byte and end, as far as the record has them; a missing start or end is derived from the duration."""
    at, ended, first = (_moment(record, names) for names in (_STARTS, _ENDS, _FIRSTS))
    took, ttft = (_seconds(record, names) for names in (_TOOK, _TTFTS))
    if at is None and ended is not None and took is not None:
        at = ended - took
    if ended is None and at is not None and took is not None:
        ended = at + took
    if first is None and at is not None and ttft is not None:
        first = at + ttft
    return at, first, ended


def _moment(record: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        if name in record:
            seconds = plausible(record[name])
            if seconds is not None:
                return seconds
    return None


def _seconds(record: Mapping[str, Any], names: tuple[tuple[str, float], ...]) -> float | None:
    moments = ((moment(record[name]), unit) for name, unit in names if isinstance(record.get(name), int | float))
    return next((value / unit for value, unit in moments if value is not None), None)


def _status(record: Mapping[str, Any], response: Any) -> str | None:
    """The HTTP status of a refused call as an error type."""
    inside = response if isinstance(response, dict) else {}
    codes = (one.get(name) for one in (record, inside) for name in ("status", "status_code", "statusCode"))
    return next((f"http_{code}" for code in codes if isinstance(code, int) and code >= 400), None)
