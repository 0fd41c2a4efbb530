"""One request, from its bytes to the bytes that answer it; no sockets.

read → check → parse → lease → next script → publish → end → one exchange in the ledger. What is billed comes from the
reference cache over what was parsed from the bytes, and from nothing else.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from traceback import format_tb
from typing import TYPE_CHECKING, Any, cast

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import ContextKitError, NotSerialisable, UnknownModel, UnreadableRequest
from contextkit.ledger.calls import Exchange
from contextkit.models import Model
from contextkit.prompt.normal_form import normal
from contextkit.providers.anthropic import rendering as anthropic_messages
from contextkit.providers.anthropic.validation import EARLY_COUNT
from contextkit.providers.bedrock import rendering as bedrock_converse
from contextkit.providers.codec import Answer, Wire
from contextkit.providers.diagnostics import Fingerprint
from contextkit.providers.gemini import rendering as gemini
from contextkit.providers.openai import chat_rendering as openai_chat
from contextkit.providers.openai import responses_rendering as openai_responses
from contextkit.providers.openai.stored import Stored
from contextkit.providers.scripted import Part, ReplyScript
from contextkit.providers.validation import (
    HEADER,
    MOST_LEVELS,
    Asked,
    Notice,
    Refusal,
    Sent,
    first,
    is_nested_deeper,
    is_retired,
    of_model,
    places_in,
    unknown_fields,
)
from contextkit.server.billing import Books, Said
from contextkit.server.state import State
from contextkit.terminal import sanitize

if TYPE_CHECKING:
    from contextkit.providers.scripted import ErrorEvent

MESSAGES, CHAT, RESPONSES, COMPACT = (
    anthropic_messages.WIRE,
    openai_chat.WIRE,
    openai_responses.WIRE,
    openai_responses.COMPACT_WIRE,
)
CONVERSE, GENERATE = bedrock_converse.WIRE, gemini.WIRE
COUNT = replace(MESSAGES, early=EARLY_COUNT)
"""`/v1/messages/count_tokens`."""


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
    wire: Wire
    asked: Asked
    script: ReplyScript
    parts: tuple[Part, ...]
    """Parts of the script, ids and signatures filled in."""
    id: str
    number: int
    at: float
    books: Books
    cache: PrefixCache[Any]
    seen: Any
    """What the cache was asked with."""
    lease: Lease

    @property
    def wait_seconds(self) -> float:
        """Real seconds until its response begins."""
        return self.script.wait_seconds


def answer(state: State, wire: Wire, headers: Mapping[str, str], raw: bytes) -> Outcome:
    """The response to a request with body `raw`, in the provider's words.

    Raises only what the callable that replies raises.
    """
    call = admit(state, wire, headers, raw)
    return call if isinstance(call, Outcome) else serve(call)


def admit(state: State, wire: Wire, headers: Mapping[str, str], raw: bytes) -> Outcome | Call:
    """A request begins: refused, or let in, billed and waiting for its response to begin (`Call.wait_seconds`)."""
    wire = state.books(wire).spoken(wire)
    with state.lock:
        asked = _understood(state, wire, headers, raw)
        if isinstance(asked, Refusal):
            return refused(state, wire, asked)
        script = _script(state, wire, asked)
        refusal = _instead(wire, script)
        if refusal:
            _record(state, wire, asked, error=refusal.type)
            return _warning(refused(state, wire, refusal), asked)
        return _begun(state, wire, asked, script)


def serve(call: Call, *, is_gone: bool = False) -> Outcome:
    """Its response begins, and is given; `is_gone`: nobody waits for it any more, so it never begins."""
    with call.state.lock:
        kind = call.script.fault.kind if call.script.fault else "none"
        return _never(call) if is_gone else _warning(_ENDINGS[kind](call), call.asked)


def _warning(outcome: Outcome, asked: Asked) -> Outcome:
    """The outcome with a header for each thing that was accepted on an assumption."""
    return replace(outcome, headers=(*outcome.headers, *((HEADER, notice.text) for notice in asked.notices)))


def count_tokens(state: State, wire: Wire, headers: Mapping[str, str], raw: bytes) -> Outcome:
    """The size of a prompt, as Anthropic's `count_tokens` tells it."""
    with state.lock:
        asked = _understood(state, wire, headers, raw)
        if isinstance(asked, Refusal):
            return refused(state, wire, asked)
        return _warning(
            answered(state, wire, {"input_tokens": asked.parsed.prompt.n_tokens, **_unedited(asked)}), asked
        )


def _unedited(asked: Asked) -> dict[str, Json]:
    """What a prompt counted before it was edited
    (anthropic/types/beta/beta_count_tokens_context_management_response.py).
    """
    layout = asked.parsed.layout
    whole = {"original_input_tokens": layout.columns.ends_tokens[layout.n - 1] if layout.n else 0}
    return {"context_management": whole} if asked.sent.body.get("context_management") else {}


def answered(state: State, wire: Wire, value: Json) -> Outcome:
    """JSON with status 200."""
    return _json(state, wire, 200, value)


def refused(state: State, wire: Wire, refusal: Refusal) -> Outcome:
    """An error in the provider's words."""
    wait = () if refusal.retry_after is None else (("retry-after", f"{refusal.retry_after:g}"),)
    return _json(state, wire, refusal.status, wire.error(refusal), *wait)


def failed(state: State, wire: Wire, fault: Exception) -> Outcome:
    """A mistake in our own code, or in the callable that replies: logged with its trace, answered with a 500 that no
    SDK retries.
    """
    logging.getLogger("contextkit.server").error("request failed: %s", sanitize(trace_of(fault)))
    what = str(fault) if isinstance(fault, ContextKitError) else type(fault).__name__
    refusal = wire.fault(500, None, f"the local server could not answer: {what}; its log has the trace")
    return _json(state, wire, 500, wire.error(refusal), ("x-should-retry", "false"))


def trace_of(fault: BaseException) -> str:
    """Where a fault came from, without its text, which may quote a prompt or a header.

    An error of ours says what it says.

    >>> trace_of(KeyError("what the user said"))
    'KeyError'
    """
    kind, frames = type(fault).__name__, "".join(format_tb(fault.__traceback__))
    what = f"{kind}: {fault}" if isinstance(fault, ContextKitError) else kind
    return f"{what}\n{frames}".rstrip()


def _json(state: State, wire: Wire, status: int, value: Json, *headers: tuple[str, str]) -> Outcome:
    body = canonical(value)
    return Outcome(
        status, (*_headers(state, wire), ("content-type", "application/json"), *headers), (body,), len(body), True
    )


def _headers(state: State, wire: Wire) -> tuple[tuple[str, str], ...]:
    return ((wire.id_header, f"req_{state.number('request'):024d}"),)


# Understanding
# -----------------------------------------------------------------------------------------------------------------------


def _understood(state: State, wire: Wire, headers: Mapping[str, str], raw: bytes) -> Asked | Refusal:
    """The request, or the first thing that is wrong with it."""
    try:
        body = parse(raw)
    except NotSerialisable as fault:
        keyless = first(check(Sent(headers, {})) for check in wire.early[:1])
        return keyless or wire.fault(400, None, f"The request body is not valid JSON: {fault}")
    if not isinstance(body, dict):
        return wire.fault(400, None, "The request body must be a JSON object.")
    if is_nested_deeper(body, MOST_LEVELS):
        return wire.fault(400, None, f"The request body is nested deeper than {MOST_LEVELS} levels.")
    sent = _resolved(state, wire, Sent(headers, body, is_strict=state.is_strict))
    found = (
        sent if isinstance(sent, Refusal) else first(check(sent) for check in wire.early) or _parsed(state, wire, sent)
    )
    if isinstance(found, Refusal):
        return found
    notices = _notices(state, wire, body, found.model)
    state.notices.give(notices)
    return replace(found, notices=notices)


def _notices(state: State, wire: Wire, body: Mapping[str, Json], model: Model) -> tuple[Notice, ...]:
    """What of the request is accepted on an assumption.

    Nothing where an engine answers, which takes any field and any model.
    """
    if wire.fields is None:
        return ()
    return (*unknown_fields(wire.name, body, wire.fields), *of_model(wire.name, model, state.clock.now()))


def _resolved(state: State, wire: Wire, sent: Sent) -> Sent | Refusal:
    """The request with what is kept of its conversation; who asks, and with which fields, is looked at before."""
    if wire.resolved is None:
        return sent
    return first(check(sent) for check in wire.early[:2]) or wire.resolved(_stored(state, wire, sent), sent)


def _stored(state: State, wire: Wire, sent: Sent) -> Stored:
    return state.stored(sent.headers.get(wire.workspace, ""))


def _parsed(state: State, wire: Wire, sent: Sent) -> Asked | Refusal:
    try:
        model, parsed = state.books(wire).understood(wire, sent)
        if state.is_strict and is_retired(model, state.clock.now()):
            raise UnknownModel(f"{model.name} is retired")
    except UnknownModel as fault:
        return wire.unknown_model(sent.body[wire.model_field], fault)
    except UnreadableRequest as fault:
        return wire.unreadable(fault)
    layout = parsed.layout
    places = tuple(places_in(layout)) if model.binds_thinking else ()
    asked = Asked(sent, parsed, model, places, bool(layout.n) and layout.columns.body(layout.n - 1) in state.paused)
    refusal, gone = first(check(asked) for check in wire.late), state.signatures.failing(places)
    if refusal or not gone or wire.moved is None:
        return refusal or asked
    return wire.dropped(asked, gone) or wire.moved(sent.body, gone[0])


def _script(state: State, wire: Wire, asked: Asked) -> ReplyScript:
    ending = wire.silent(asked.sent.body)
    return ReplyScript.model_validate({"stop": ending}) if ending else state.replies.next(asked.parsed, asked.sent.body)


def _instead(wire: Wire, script: ReplyScript) -> Refusal | None:
    """The error a script asks for in place of a response."""
    fault = script.fault
    if fault and fault.kind == "status":
        return replace(wire.fault(fault.status, fault.type, fault.message), retry_after=fault.retry_after)
    return wire.impossible.get(script.ending)


# Serving
# -----------------------------------------------------------------------------------------------------------------------------


def _begun(state: State, wire: Wire, asked: Asked, script: ReplyScript) -> Call:
    now, number = state.clock.now(), state.number(wire.id_prefix)
    books = state.books(wire)
    cache, seen = books.cache(wire, asked), books.seen(wire, asked)
    parts = tuple(_named(state, wire, part) for part in script.parts)
    name, lease = f"{wire.id_prefix}_{number:024d}", cache.begin(seen, now)
    return Call(state, wire, asked, script, parts, name, number, now, books, cache, seen, lease)


def _named(state: State, wire: Wire, part: Part) -> Part:
    """The part with the id or signature it left out."""
    return _NAMES[part.type](state, wire, part)


def _signed(state: State, wire: Wire, part: Any) -> Part:
    proof = blake2b(
        f"{state.number('signature')} {part.thinking}".encode("utf-8", "surrogatepass"), digest_size=48
    ).digest()
    signed: Part = (
        part if part.signature is not None else part.model_copy(update={"signature": base64.b64encode(proof).decode()})
    )
    return signed


def _identified(state: State, wire: Wire, part: Any) -> Part:
    prefix = "toolu" if wire.family == "anthropic" else "call"
    called: Part = (
        part if part.id is not None else part.model_copy(update={"id": f"{prefix}_{state.number('call'):024d}"})
    )
    return called


_NAMES: dict[str, Callable[[State, Wire, Any], Part]] = {
    "text": lambda state, wire, part: part,
    "thinking": _signed,
    "call": _identified,
}


def _never(call: Call) -> Outcome:
    """Billed, never readable, never answered."""
    usage = call.books.dropped(call.cache, call.lease, call.at)
    _record(call.state, call.wire, call.asked, error="aborted", call=call, usage=usage)
    return Outcome(0, (), (), None, False)


def _completed(call: Call) -> Outcome:
    """The response as it should be."""
    spoken = _spoken(call, call.parts, None)
    _remember(call, spoken)
    return (
        _streamed(call, spoken, None)
        if call.asked.sent.body.get("stream")
        else answered(call.state, call.wire, call.wire.whole(spoken))
    )


def _cut(call: Call) -> Outcome:
    """A part of the response, then nothing."""
    spoken = _spoken(call, call.parts[: _n_parts(call)], "cut")
    if call.asked.sent.body.get("stream"):
        return replace(_streamed(call, spoken, b""), is_whole=False)
    whole = answered(call.state, call.wire, call.wire.whole(spoken))
    return replace(whole, chunks=(whole.chunks[0][: len(whole.chunks[0]) // 2],), is_whole=False)


def _broken(call: Call) -> Outcome:
    """A part of the response, then an error."""
    fault = cast("ErrorEvent", call.script.fault)
    spoken = _spoken(call, call.parts[: _n_parts(call)], fault.type)
    refusal = call.wire.fault(call.wire.statuses.get(fault.type, 500), fault.type, fault.message)
    is_streamed = call.asked.sent.body.get("stream")
    return (
        _streamed(call, spoken, call.wire.error_event(refusal))
        if is_streamed
        else refused(call.state, call.wire, refusal)
    )


_ENDINGS: dict[str, Callable[[Call], Outcome]] = {
    "none": _completed,
    "never": _never,
    "cut": _cut,
    "error_event": _broken,
}


def _n_parts(call: Call) -> int:
    after: int = getattr(call.script.fault, "after_parts", len(call.parts))
    return after


def _streamed(call: Call, spoken: Answer, instead: bytes | None) -> Outcome:
    """The events of what was spoken; `instead` stands where the end would."""
    stream = call.wire.stream(spoken)
    headers = (*_headers(call.state, call.wire), ("content-type", call.wire.stream_type), ("cache-control", "no-cache"))
    return Outcome(200, headers, (stream.head, *stream.parts, stream.tail if instead is None else instead), None, True)


def _spoken(call: Call, parts: tuple[Part, ...], error: str | None) -> Answer:
    """The response begins, and ends `seconds` later with `parts` said: publish, bill, record."""
    state, asked, script = call.state, call.asked, call.script
    began = state.clock.now()
    call.cache.publish(call.lease, began)
    said = call.books.said(call.wire, asked, parts)
    output = said.n_tokens if script.output_tokens is None or error else script.output_tokens
    state.clock.advance(script.seconds)
    usage = call.books.ended(call.cache, call.lease, said, output, state.clock.now())
    now = Fingerprint(asked.model.name, asked.parsed.params, asked.parsed.prompt)
    diagnosis = call.wire.diagnose(state.fingerprints, now, usage.read or 0)
    if call.wire.is_remembered(asked.sent.body):
        state.fingerprints.keep(call.id, now)
    _record(
        state,
        call.wire,
        asked,
        error=error,
        call=call,
        said=said,
        usage=usage,
        ended_at=state.clock.now(),
        first_byte_at=began,
    )
    thought, billed = min(said.n_thinking, output), call.books.billed(call.lease)
    told = call.wire.told(asked)
    return Answer(
        call.id,
        call.number,
        int(call.at),
        asked.sent.body,
        parts,
        script.ending,
        usage,
        thought,
        diagnosis,
        billed,
        told,
    )


def _remember(call: Call, spoken: Answer) -> None:
    """What a later request is checked against."""
    blocks = call.wire.content(spoken.parts)
    if call.asked.model.binds_thinking and any(part.type == "thinking" for part in spoken.parts):
        call.state.signatures.issue(call.asked.places, blocks)
    if spoken.stop == "paused" and blocks:
        call.state.paused.add(canonical(normal(blocks[-1])))
    call.wire.kept(_stored(call.state, call.wire, call.asked.sent), call.asked, spoken)


def _record(
    state: State,
    wire: Wire,
    asked: Asked,
    *,
    error: str | None,
    call: Call | None = None,
    said: Said | None = None,
    usage: Usage | None = None,
    ended_at: float | None = None,
    first_byte_at: float | None = None,
) -> None:
    """One exchange: digests and sizes, no text. Conversations are told apart by their first message."""
    layout, prompt = asked.parsed.layout, asked.parsed.prompt
    start = prompt.level_ends[1]
    session = blake2b(layout.columns.body(start), digest_size=8).hexdigest() if start < layout.n else "empty"
    sent = call.books.recorded(session, asked, call.seen, said) if call else None
    at, provider = call.at if call else state.clock.now(), state.books(wire).provider(wire, asked.model)
    made_up = f"attempt_{state.number('attempt'):024d}" if call is None else call.id
    exchange = Exchange(
        made_up, session, "main", at, first_byte_at, ended_at, provider, asked.model.name, sent, usage, None, error
    )
    state.ledger.append(exchange)
