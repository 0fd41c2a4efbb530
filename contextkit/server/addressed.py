"""Requests whose model stands in the path, and contents that are made by a call of their own: Bedrock's, Google's and
Gemini's endpoints.

Takes a path and a body, gives the body as `answer.py` understands it: the model in it, whether it is streamed, and what
a content holds that it names. Knows no sockets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import ContextKitError, NotSerialisable
from contextkit.models import model_named
from contextkit.providers.anthropic.rendering import COUNTED, INVOKE, MANTLE, PREDICT
from contextkit.providers.codec import Codec
from contextkit.providers.gemini.generate import parse as parsed_content
from contextkit.providers.gemini.parts import camel_cased
from contextkit.providers.gemini.validation import CREATED, authenticated, invalid, shape
from contextkit.providers.validation import MOST_LEVELS, ReceivedRequest, Refusal, first, is_nested_deeper
from contextkit.server.answer import CONVERSE, GENERATE, Call, Outcome, admit, answered, count_tokens, refused
from contextkit.server.state import State

_TTL = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_DEFAULT_SECONDS = 3600.0
_LAST_SECOND = 253_402_300_799.0
"""End of the year 9999: a test may move the clock further than dates go."""
_OF_HEAD = ("systemInstruction", "tools", "toolConfig")


@dataclass(frozen=True, slots=True)
class CachedContent:
    """One content."""

    body: Mapping[str, Json]
    """What it holds."""
    field: Mapping[str, Json]
    """Its name, how many segments it holds, and their digest."""
    n_tokens: int
    """Its size."""
    expires_at: float
    """It can be named before this moment."""


def converse(state: State, headers: Mapping[str, str], raw: bytes, model: str, *, is_stream: bool) -> Outcome | Call:
    """`POST /model/{modelId}/converse` and `/converse-stream`."""
    return admit(state, CONVERSE, headers, _addressed(CONVERSE, raw, model, is_stream))


def generate(state: State, headers: Mapping[str, str], raw: bytes, model: str, *, is_stream: bool) -> Outcome | Call:
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`."""
    fields = _fields(raw)
    whole = _addressed(GENERATE, canonical(camel_cased(fields)) if fields else raw, model, is_stream)
    with state.lock:
        body = _with_content(state, whole)
    return refused(state, GENERATE, body) if isinstance(body, Refusal) else admit(state, GENERATE, headers, body)


def invoke(state: State, headers: Mapping[str, str], raw: bytes, model: str, *, is_stream: bool) -> Outcome | Call:
    """`POST /model/{modelId}/invoke` and `/invoke-with-response-stream`: Claude's own body on Bedrock."""
    return _claude(state, INVOKE, headers, raw, model, is_stream)


def predict(state: State, headers: Mapping[str, str], raw: bytes, model: str, *, is_stream: bool) -> Outcome | Call:
    """`POST …/publishers/anthropic/models/{model}:rawPredict` and `:streamRawPredict`: the same on Google Cloud, and
    counting.
    """
    if model == "count-tokens":
        return count_tokens(state, COUNTED, COUNTED.opted_in(headers, _fields(raw)), raw)
    return _claude(state, PREDICT, headers, raw, model, is_stream)


def below(state: State, codec: Codec, headers: Mapping[str, str], raw: bytes) -> Outcome | Call:
    """`POST /anthropic/v1/messages`: Foundry as the Claude API is, Bedrock by the names its models have there."""
    return admit(state, MANTLE if _is_mantle(raw) else codec, headers, raw)


def counted_below(state: State, codec: Codec, headers: Mapping[str, str], raw: bytes) -> Outcome:
    """`POST /anthropic/v1/messages/count_tokens`: the same, counted."""
    return count_tokens(
        state, replace(MANTLE, request_checks=codec.request_checks) if _is_mantle(raw) else codec, headers, raw
    )


def _is_mantle(raw: bytes) -> bool:
    return model_named(str(_fields(raw).get(MANTLE.model_field))).provider == MANTLE.provider


def _claude(
    state: State, codec: Codec, headers: Mapping[str, str], raw: bytes, model: str, is_stream: bool
) -> Outcome | Call:
    body = _fields(raw)
    whole = canonical(codec.addressed(body, model, is_stream=is_stream)) if body else raw
    return admit(state, codec, codec.opted_in(headers, body), whole)


def create(state: State, headers: Mapping[str, str], raw: bytes) -> Outcome:
    """`POST /v1beta/cachedContents`."""
    try:
        fields = parse(raw)
    except NotSerialisable as fault:
        return refused(state, GENERATE, invalid("body", str(fault)))
    if not isinstance(fields, dict) or is_nested_deeper(fields, MOST_LEVELS):
        return refused(
            state, GENERATE, invalid("body", f"expected an object, nested no deeper than {MOST_LEVELS} levels")
        )
    body = camel_cased(fields)
    received = ReceivedRequest(headers, body, is_strict=state.is_strict)
    refusal = first(check for check in (authenticated(received), shape(received, CREATED)))
    with state.lock:
        made = refusal or _create(state, body)
        if isinstance(made, Refusal):
            return refused(state, GENERATE, made)
        return answered(state, GENERATE, _resource(state, made))


def content(state: State, headers: Mapping[str, str], method: str, name: str, raw: bytes) -> Outcome:
    """`GET`, `PATCH` and `DELETE /v1beta/cachedContents/{name}`."""
    with state.lock:
        cached = _live_content(state, name)
        if isinstance(cached, Refusal):
            return refused(state, GENERATE, cached)
        if method == "DELETE":
            del state.contents[name]
            return answered(state, GENERATE, {})
        if method == "PATCH":
            ttl_seconds = _lifetime(camel_cased(_fields(raw)))
            if isinstance(ttl_seconds, Refusal):
                return refused(state, GENERATE, ttl_seconds)
            cached = CachedContent(cached.body, cached.field, cached.n_tokens, state.clock.now() + ttl_seconds)
            state.contents[name] = cached
        return answered(state, GENERATE, _resource(state, cached))


def _fields(raw: bytes) -> dict[str, Json]:
    """The object in `raw`, an empty one where there is none: what is no request is refused by whoever reads its fields."""
    try:
        body = parse(raw or b"{}")
    except NotSerialisable:
        return {}
    return body if isinstance(body, dict) and not is_nested_deeper(body, MOST_LEVELS) else {}


def _addressed(codec: Codec, raw: bytes, model: str, is_stream: bool) -> bytes:
    """The body with what the path says; unchanged where it is no object, or names a stream itself."""
    try:
        body = parse(raw)
    except NotSerialisable:
        return raw
    if not isinstance(body, dict) or "stream" in body:
        return raw
    return canonical(codec.addressed(body, model, is_stream=is_stream))


def _with_content(state: State, raw: bytes) -> bytes | Refusal:
    """The body with what the content holds that it names."""
    body = _fields(raw)
    name = body.get("cachedContent")
    if not isinstance(name, str):
        return raw if name is None else invalid("cachedContent", "expected a name")
    stored = _live_content(state, name)
    if isinstance(stored, Refusal):
        return stored
    if beside := [field for field in _OF_HEAD if field in body]:
        return invalid(
            "cachedContent", f"CachedContent can not be used with GenerateContent request setting {', '.join(beside)}"
        )
    if stored.body["model"] != body.get("model"):
        return invalid("model", "Model used by GenerateContent request and CachedContent has to be the same.")
    contents = [*(stored.body.get("contents") or []), *(body.get("contents") or [])]
    head = {field: stored.body[field] for field in _OF_HEAD if field in stored.body}
    return canonical({**body, **head, "contents": contents, "cachedContent": stored.field})


def _live_content(state: State, name: str) -> CachedContent | Refusal:
    stored = state.contents.get(name)
    gone = Refusal(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")
    return stored if isinstance(stored, CachedContent) and stored.expires_at > state.clock.now() else gone


def _create(state: State, body: dict[str, Json]) -> CachedContent | Refusal:
    ttl_seconds, model = _lifetime(body), str(body.get("model")).removeprefix("models/")
    if isinstance(ttl_seconds, Refusal):
        return ttl_seconds
    held = {
        **{name: value for name, value in body.items() if name not in ("ttl", "expireTime", "displayName")},
        "model": model,
    }
    try:
        row, prompt = model_named(model), parsed_content({**held, "contents": held.get("contents") or []}).prompt
    except ContextKitError as fault:
        return invalid("body", str(fault))
    if prompt.n_tokens < row.min_tokens or not prompt.n:
        return invalid(
            "contents", f"Cached content is too small: {prompt.n_tokens} tokens, the minimum is {row.min_tokens}"
        )
    name = f"cachedContents/{state.number('content'):012d}"
    field = {"name": name, "segments": prompt.n, "digest": prompt.digests[prompt.n - 1].hex()}
    state.contents[name] = CachedContent(held, field, prompt.n_tokens, state.clock.now() + ttl_seconds)
    return CachedContent(held, field, prompt.n_tokens, state.clock.now() + ttl_seconds)


def _lifetime(body: Mapping[str, Json]) -> float | Refusal:
    seconds = _TTL.fullmatch(str(body.get("ttl", f"{_DEFAULT_SECONDS}s")))
    return float(seconds[1]) if seconds else invalid("ttl", "expected seconds, as in 300s")


def _resource(state: State, stored: CachedContent) -> Json:
    """A `CachedContent`, without what it holds."""
    times = (min(at, _LAST_SECOND) for at in (state.clock.now(), stored.expires_at))
    now, ends = (datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z") for at in times)
    return {
        "name": stored.field["name"],
        "model": f"models/{stored.body['model']}",
        "createTime": now,
        "updateTime": now,
        "expireTime": ends,
        "usageMetadata": {"totalTokenCount": stored.n_tokens},
    }
