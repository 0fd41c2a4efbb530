"""Requests whose model stands in the path, and Gemini's cached contents: endpoints of Bedrock, Google Cloud and Gemini.

Takes a path and a body, gives the body as `answer.py` reads it, with the model and the stream of the path. Knows no
sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from contextkit.canonical import Json, canonical
from contextkit.models import model_named
from contextkit.providers.gemini.parts import camel_cased
from contextkit.server.answer import Call, Outcome, admit, answered, count_tokens, missing_key, read_body, refused
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.table import CONVERSE, COUNTED, GENERATE, INVOKE, MANTLE, PREDICT
from contextkit.server.endpoints.validation import ReceivedRequest, Refusal
from contextkit.server.state import State


def converse(state: State, headers: Mapping[str, str], raw: bytes, model: str, *, is_stream: bool) -> Outcome | Call:
    """`POST /model/{modelId}/converse` and `/converse-stream`."""
    fields = _object_in(raw)
    body = raw if fields is None else canonical(_with_path(CONVERSE, fields, model, is_stream))
    return admit(state, CONVERSE, headers, body)


def generate(state: State, headers: Mapping[str, str], raw: bytes, model: str, *, is_stream: bool) -> Outcome | Call:
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`."""
    fields = _object_in(raw)
    if fields is None:
        return admit(state, GENERATE, headers, raw)
    body = _with_path(GENERATE, camel_cased(fields), model, is_stream)
    with state.lock:
        resolved = state.contents.resolved(body, state.clock.now())
    if isinstance(resolved, Refusal):
        return refused(state, GENERATE, missing_key(GENERATE, headers) or resolved)
    return admit(state, GENERATE, headers, canonical(resolved))


def invoke(state: State, headers: Mapping[str, str], raw: bytes, model: str, *, is_stream: bool) -> Outcome | Call:
    """`POST /model/{modelId}/invoke` and `/invoke-with-response-stream`: Claude's own body on Bedrock."""
    return _claude(state, INVOKE, headers, raw, model, is_stream)


def predict(state: State, headers: Mapping[str, str], raw: bytes, model: str, *, is_stream: bool) -> Outcome | Call:
    """`POST …/publishers/anthropic/models/{model}:rawPredict` and `:streamRawPredict`: the same on Google Cloud, and
    counting.
    """
    if model == "count-tokens":
        return count_tokens(state, COUNTED, COUNTED.opted_in(headers, _object_in(raw) or {}), raw)
    return _claude(state, PREDICT, headers, raw, model, is_stream)


def below(state: State, codec: Codec, headers: Mapping[str, str], raw: bytes) -> Outcome | Call:
    """`POST /anthropic/v1/messages`: Foundry as the Claude API is, Bedrock by the names its models have there."""
    return admit(state, MANTLE if _is_mantle(raw) else codec, headers, raw)


def counted_below(state: State, codec: Codec, headers: Mapping[str, str], raw: bytes) -> Outcome:
    """`POST /anthropic/v1/messages/count_tokens`: the same, counted."""
    codec = replace(MANTLE, request_checks=codec.request_checks) if _is_mantle(raw) else codec
    return count_tokens(state, codec, headers, raw)


def _is_mantle(raw: bytes) -> bool:
    fields = _object_in(raw) or {}
    return model_named(str(fields.get(MANTLE.model_field))).provider == MANTLE.provider


def _claude(
    state: State, codec: Codec, headers: Mapping[str, str], raw: bytes, model: str, is_stream: bool
) -> Outcome | Call:
    fields = _object_in(raw)
    if fields is None:
        return admit(state, codec, headers, raw)
    body = canonical(codec.addressed(fields, model, is_stream=is_stream))
    return admit(state, codec, codec.opted_in(headers, fields), body)


def create_content(state: State, headers: Mapping[str, str], raw: bytes) -> Outcome:
    """`POST /v1beta/cachedContents`."""
    fields = read_body(GENERATE, raw)
    if isinstance(fields, Refusal):
        return refused(state, GENERATE, missing_key(GENERATE, headers) or fields)
    received = ReceivedRequest(headers, fields, is_strict=state.is_strict)
    with state.lock:
        return _resource(state, state.contents.create(received, state.clock.now()))


def content(state: State, method: str, name: str, raw: bytes) -> Outcome:
    """`GET`, `PATCH` and `DELETE /v1beta/cachedContents/{name}`."""
    with state.lock:
        now, contents = state.clock.now(), state.contents
        if method == "PATCH":
            return _resource(state, contents.extend(name, _object_in(raw) or {}, now))
        return _resource(state, contents.delete(name, now) if method == "DELETE" else contents.get(name, now))


def _resource(state: State, value: Json | Refusal) -> Outcome:
    return refused(state, GENERATE, value) if isinstance(value, Refusal) else answered(state, GENERATE, value)


def _object_in(raw: bytes) -> dict[str, Json] | None:
    """The JSON object in `raw`; None where there is none, or one nested too deeply: `admit` refuses such a body."""
    body = read_body(GENERATE, raw)
    return None if isinstance(body, Refusal) else body


def _with_path(codec: Codec, fields: dict[str, Json], model: str, is_stream: bool) -> dict[str, Json]:
    """A body with the model and the stream that its path names; unchanged where the body names a stream itself, which
    is refused.
    """
    return fields if "stream" in fields else codec.addressed(fields, model, is_stream=is_stream)
