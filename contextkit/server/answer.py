"""One request, from its bytes to the bytes that answer it; no sockets.

read → check → parse → lease → next script → publish → end → one call in the ledger. What is billed comes from the
reference cache over what was parsed from the bytes, and from nothing else.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import ContextKitError, NotSerialisable, UnknownModel, UnreadableRequest, trace_of
from contextkit.ledger.calls import ModelCall
from contextkit.prompt.normal_form import normal
from contextkit.server.billing import Books, ReplySize
from contextkit.server.endpoints.codec import Codec, ResponseData
from contextkit.server.endpoints.diagnostics import Fingerprint
from contextkit.server.endpoints.notices import HEADER, field_notices, is_retired, of_model
from contextkit.server.endpoints.openai_stored import Stored
from contextkit.server.endpoints.signatures import places_in
from contextkit.server.endpoints.validation import (
    MOST_LEVELS,
    ParsedRequest,
    ReceivedRequest,
    Refusal,
    first,
    is_nested_deeper,
)
from contextkit.server.scripted import Cut, ErrorEvent, Part, ReplyScript
from contextkit.server.state import State
from contextkit.terminal import sanitize


@dataclass(frozen=True, slots=True)
class Outcome:
    """What goes back."""

    status: int
    """HTTP status; 0 where the connection closes before there is one."""
    headers: tuple[tuple[str, str], ...]
    """Headers, length aside."""
    chunks: tuple[bytes, ...]
    """The body."""
    length: int | None
    """Length announced for the body, None for a stream."""
    is_whole: bool
    """Whether the body ends; else the connection closes behind `chunks`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was let in."""

    state: State
    codec: Codec
    request: ParsedRequest
    script: ReplyScript
    parts: tuple[Part, ...]
    """Parts of the script, ids and signatures filled in."""
    id: str
    number: int
    at: float
    books: Books
    cache: PrefixCache[Any]
    cache_prompt: Any
    """What the cache was asked with."""
    lease: Lease

    @property
    def wait_seconds(self) -> float:
        """Real seconds until its response begins."""
        return self.script.wait_seconds


def answer(state: State, codec: Codec, headers: Mapping[str, str], raw: bytes) -> Outcome:
    """The response to a request with body `raw`, in the provider's words.

    Raises only what the callable that replies raises.
    """
    call = admit(state, codec, headers, raw)
    return call if isinstance(call, Outcome) else serve(call)


def admit(state: State, codec: Codec, headers: Mapping[str, str], raw: bytes) -> Outcome | Call:
    """A request begins: refused, or let in, billed and waiting for its response to begin (`Call.wait_seconds`)."""
    codec = state.books(codec).adapted(codec)
    with state.lock:
        request = _read_request(state, codec, headers, raw)
        if isinstance(request, Refusal):
            return refused(state, codec, request)
        body, ending = request.received.body, codec.prewarm_ending(request.received.body)
        script = ReplyScript.model_validate({"stop": ending}) if ending else state.replies.next(request.parsed, body)
        refusal, fault = codec.endings_as_errors.get(script.ending), script.fault
        if fault and fault.kind == "status":
            refusal = replace(codec.error(fault.status, fault.message, fault.type), retry_after=fault.retry_after)
        if refusal:
            _record(state, codec, request, error=refusal.type)
            return _warning(refused(state, codec, refusal), request)
        return _begin(state, codec, request, script)


def serve(call: Call, *, is_gone: bool = False) -> Outcome:
    """Its response begins, and is given; `is_gone`: nobody waits for it any more, so it never begins."""
    with call.state.lock:
        fault = call.script.fault
        if is_gone or (fault and fault.kind == "never"):
            usage = call.books.dropped(call.cache, call.lease, call.at)
            _record(call.state, call.codec, call.request, error="aborted", call=call, usage=usage)
            return Outcome(0, (), (), None, False)
        return _warning(_response(call), call.request)


def _warning(outcome: Outcome, request: ParsedRequest) -> Outcome:
    """The outcome with a header for each thing that was accepted on an assumption."""
    return replace(outcome, headers=(*outcome.headers, *((HEADER, notice.text) for notice in request.notices)))


def count_tokens(state: State, codec: Codec, headers: Mapping[str, str], raw: bytes) -> Outcome:
    """The size of a prompt."""
    with state.lock:
        request = _read_request(state, codec, headers, raw)
        if isinstance(request, Refusal):
            return refused(state, codec, request)
        return _warning(answered(state, codec, codec.render_count(request)), request)


def answered(state: State, codec: Codec, value: Json) -> Outcome:
    """JSON with status 200."""
    return _json(state, codec, 200, value)


def refused(state: State, codec: Codec, refusal: Refusal) -> Outcome:
    """An error in the provider's words."""
    wait = () if refusal.retry_after is None else (("retry-after", f"{refusal.retry_after:g}"),)
    return _json(state, codec, refusal.status, codec.render_error(refusal), *wait)


def failed(state: State, codec: Codec, fault: Exception) -> Outcome:
    """A mistake in our own code, or in the callable that replies: logged with its trace, answered with a 500 that no
    SDK retries.
    """
    logging.getLogger("contextkit.server").error("request failed: %s", sanitize(trace_of(fault)))
    what = str(fault) if isinstance(fault, ContextKitError) else type(fault).__name__
    refusal = codec.error(500, f"the local server could not answer: {what}; its log has the trace")
    return _json(state, codec, 500, codec.render_error(refusal), ("x-should-retry", "false"))


def _json(state: State, codec: Codec, status: int, value: Json, *headers: tuple[str, str]) -> Outcome:
    body = canonical(value)
    return Outcome(
        status, (*_headers(state, codec), ("content-type", "application/json"), *headers), (body,), len(body), True
    )


def _headers(state: State, codec: Codec) -> tuple[tuple[str, str], ...]:
    return ((codec.request_id_header, f"req_{state.number('request'):024d}"),)


# Understanding
# -----------------------------------------------------------------------------------------------------------------------


def read_body(codec: Codec, raw: bytes) -> dict[str, Json] | Refusal:
    """Parse the body of a request: a JSON object that is not nested too deeply, or its refusal."""
    try:
        body = parse(raw)
    except NotSerialisable as fault:
        return codec.error(400, f"The request body is not valid JSON: {fault}")
    if not isinstance(body, dict):
        return codec.error(400, "The request body must be a JSON object.")
    if is_nested_deeper(body, MOST_LEVELS):
        return codec.error(400, f"The request body is nested deeper than {MOST_LEVELS} levels.")
    return body


def _read_request(state: State, codec: Codec, headers: Mapping[str, str], raw: bytes) -> ParsedRequest | Refusal:
    """The request, or the first thing that is wrong with it."""
    body = read_body(codec, raw)
    if isinstance(body, Refusal):
        return missing_key(codec, headers) or body
    received = ReceivedRequest(headers, body, is_strict=state.is_strict)
    if codec.resolve_stored:  # who asks, and with which fields, is looked at before
        refusal = first(check(received) for check in codec.request_checks[:2])
        resolved = refusal or codec.resolve_stored(_stored(state, codec, received), received)
        if isinstance(resolved, Refusal):
            return resolved
        received = resolved
    found = first(check(received) for check in codec.request_checks) or _parsed(state, codec, received)
    if isinstance(found, Refusal):
        return found
    notices = codec.header_notices(headers)
    if codec.declared_fields is not None:
        of_body = field_notices(codec.name, body, codec.declared_fields)
        notices = (*of_body, *of_model(codec.name, found.model, state.clock.now()), *notices)
    state.notices.give(notices)
    return replace(found, notices=notices)


def missing_key(codec: Codec, headers: Mapping[str, str]) -> Refusal | None:
    """Refuse a request without a key, whatever its body; None if it has one."""
    return first(check(ReceivedRequest(headers, {})) for check in codec.request_checks[:1])


def _stored(state: State, codec: Codec, received: ReceivedRequest) -> Stored:
    return state.stored(received.headers.get(codec.workspace_header, ""))


def _parsed(state: State, codec: Codec, received: ReceivedRequest) -> ParsedRequest | Refusal:
    try:
        model, parsed = state.books(codec).parse_request(codec, received)
        if state.is_strict and is_retired(model, state.clock.now()):
            raise UnknownModel(f"{model.name} is retired")
    except UnknownModel:
        return codec.refuse_unknown_model(received.body[codec.model_field])
    except UnreadableRequest as fault:
        return codec.refuse_unreadable(fault)
    layout = parsed.layout
    places = tuple(places_in(layout)) if model.binds_thinking else ()
    request = ParsedRequest(
        received, parsed, model, places, bool(layout.n) and layout.columns.body(layout.n - 1) in state.paused
    )
    refusal, gone = first(check(request) for check in codec.prompt_checks), state.signatures.failing(places)
    if refusal or not gone or codec.refuse_moved_thinking is None:
        return refusal or request
    return codec.drop_moved_thinking(request, gone) or codec.refuse_moved_thinking(received.body, gone[0])


# Serving
# -----------------------------------------------------------------------------------------------------------------------------


def _begin(state: State, codec: Codec, request: ParsedRequest, script: ReplyScript) -> Call:
    now, number = state.clock.now(), state.number(codec.response_id_prefix)
    books = state.books(codec)
    cache, cache_prompt = books.cache(codec, request), books.cache_prompt(codec, request)
    parts = tuple(_named(state, codec, part) for part in script.parts)
    name, lease = f"{codec.response_id_prefix}_{number:024d}", cache.begin(cache_prompt, now)
    return Call(state, codec, request, script, parts, name, number, now, books, cache, cache_prompt, lease)


def _named(state: State, codec: Codec, part: Part) -> Part:
    """The part with the id or signature it left out."""
    if part.type == "call" and part.id is None:
        return part.model_copy(update={"id": f"{codec.call_id_prefix}_{state.number('call'):024d}"})
    if part.type == "thinking":
        text = f"{state.number('signature')} {part.thinking}".encode("utf-8", "surrogatepass")
        if part.signature is None:
            proof = base64.b64encode(blake2b(text, digest_size=48).digest()).decode()
            return part.model_copy(update={"signature": proof})
    return part


def _response(call: Call) -> Outcome:
    """The response as it should be; with a fault, a part of it, then nothing or an error."""
    codec, fault = call.codec, call.script.fault
    is_streamed = codec.is_streamed(call.request.received.body)
    if isinstance(fault, ErrorEvent):
        response = _response_data(call, call.parts[: fault.after_parts], fault.type)
        refusal = codec.error(codec.status_by_error_type.get(fault.type, 500), fault.message, fault.type)
        if is_streamed:
            return _streamed(call, response, codec.render_error_event(refusal))
        return refused(call.state, codec, refusal)
    if isinstance(fault, Cut):
        response = _response_data(call, call.parts[: fault.after_parts], "cut")
        if is_streamed:
            return replace(_streamed(call, response, b""), is_whole=False)
        whole = answered(call.state, codec, codec.render_response(response))
        return replace(whole, chunks=(whole.chunks[0][: len(whole.chunks[0]) // 2],), is_whole=False)
    response = _response_data(call, call.parts, None)
    _remember(call, response)
    if is_streamed:
        return _streamed(call, response, None)
    return answered(call.state, codec, codec.render_response(response))


def _streamed(call: Call, response: ResponseData, instead: bytes | None) -> Outcome:
    """The events of what was spoken; `instead` stands where the end would."""
    stream = call.codec.render_stream(response)
    headers = (
        *_headers(call.state, call.codec),
        ("content-type", call.codec.stream_media_type),
        ("cache-control", "no-cache"),
    )
    return Outcome(200, headers, (stream.head, *stream.parts, stream.tail if instead is None else instead), None, True)


def _response_data(call: Call, parts: tuple[Part, ...], error: str | None) -> ResponseData:
    """The response begins, and ends `seconds` later with `parts` said: publish, bill, record."""
    state, request, script = call.state, call.request, call.script
    began = state.clock.now()
    call.cache.publish(call.lease, began)
    reply_size = call.books.reply_size(call.codec, request, parts)
    output = reply_size.n_tokens if script.output_tokens is None or error else script.output_tokens
    state.clock.advance(script.seconds)
    usage = call.books.ended(call.cache, call.lease, reply_size, output, state.clock.now())
    now = Fingerprint(request.model.name, request.parsed.params, request.parsed.prompt)
    diagnosis = call.codec.diagnose(state.fingerprints, now, usage.read or 0)
    if call.codec.is_comparable(request.received.body):
        state.fingerprints.keep(call.id, now)
    _record(
        state,
        call.codec,
        request,
        error=error,
        call=call,
        reply_size=reply_size,
        usage=usage,
        ended_at=state.clock.now(),
        first_byte_at=began,
    )
    thought, billed = min(reply_size.n_thinking, output), call.books.billed(call.lease)
    told = call.codec.response_extras(request)
    return ResponseData(
        call.id,
        call.number,
        int(call.at),
        request.received.body,
        parts,
        script.ending,
        usage,
        thought,
        diagnosis,
        billed,
        told,
    )


def _remember(call: Call, response: ResponseData) -> None:
    """Store what a later request is checked against."""
    blocks = call.codec.render_content(response.parts)
    if call.request.model.binds_thinking and any(part.type == "thinking" for part in response.parts):
        call.state.signatures.issue(call.request.places, blocks)
    if response.ending == "paused" and blocks:
        call.state.paused.add(canonical(normal(blocks[-1])))
    call.codec.store_response(_stored(call.state, call.codec, call.request.received), call.request, response)


def _record(
    state: State,
    codec: Codec,
    request: ParsedRequest,
    *,
    error: str | None,
    call: Call | None = None,
    reply_size: ReplySize | None = None,
    usage: Usage | None = None,
    ended_at: float | None = None,
    first_byte_at: float | None = None,
) -> None:
    """Append one call to the ledger: digests and sizes, no text."""
    made_up = f"attempt_{state.number('attempt'):024d}" if call is None else call.id
    received = request.received
    session, lane = state.conversations.place(received.body, request.parsed, made_up, received.headers)
    sent = call.books.recorded(f"{session}/{lane}", request, call.cache_prompt, reply_size) if call else None
    at, provider = call.at if call else state.clock.now(), state.books(codec).provider(codec, request.model)
    recorded = ModelCall(
        id=made_up,
        session=session,
        lane=lane,
        at=at,
        first_byte_at=first_byte_at,
        ended_at=ended_at,
        provider=provider,
        model=request.model.name,
        prompt=sent,
        usage=usage,
        error=error,
    )
    state.ledger.append(recorded)
