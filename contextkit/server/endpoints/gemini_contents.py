"""Cached contents of the local provider: the beginning of a conversation, stored by a call of its own and named by later
requests.

Takes bodies of `cachedContents` calls, gives the resources that answer them; takes a generateContent body that names a
content, gives it with what that content holds. Field names: google.genai.types 3.4 (CachedContent,
CreateCachedContentConfig); rules: https://ai.google.dev/gemini-api/docs/caching. Knows no socket.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from contextkit.canonical import Json
from contextkit.errors import ContextKitError
from contextkit.models import model_named
from contextkit.providers.gemini.generate import parse
from contextkit.providers.gemini.parts import camel_cased
from contextkit.server.endpoints.gemini_validation import CREATED, authenticated, invalid, shape
from contextkit.server.endpoints.validation import ReceivedRequest, Refusal, first

_TTL = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_DEFAULT_TTL_SECONDS = 3600.0
_LAST_SECOND = 253_402_300_799.0
"""End of the year 9999: a test may move the clock beyond the last date there is."""
_STATIC_FIELDS = ("systemInstruction", "tools", "toolConfig")
"""Fields that a content holds and that a request naming one may not repeat."""
_SETTINGS = ("ttl", "expireTime", "displayName")
"""Fields of a content that are no part of its prompt."""


@dataclass(frozen=True, slots=True)
class _Content:
    body: Mapping[str, Json]
    """Fields of its prompt."""
    reference: Mapping[str, Json]
    """Its name, how many blocks it holds, and their digest."""
    n_tokens: int
    expires_at: float
    """Seconds since 1970; it can be named before this moment."""


class StoredContents:
    """The cached contents of one server. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._contents: dict[str, _Content] = {}
        self._n_created = 0

    def create(self, received: ReceivedRequest, now: float) -> Json | Refusal:
        """Store a content; gives its resource."""
        body = camel_cased(received.body)
        received = replace(received, body=body)
        refusal = first([authenticated(received), shape(received, CREATED)])
        if refusal:
            return refusal
        ttl_seconds = _ttl_seconds(body)
        if isinstance(ttl_seconds, Refusal):
            return ttl_seconds
        model = str(body["model"]).removeprefix("models/")
        fields = {name: value for name, value in body.items() if name not in _SETTINGS}
        fields["model"] = model
        try:
            row = model_named(model)
            prompt = parse({**fields, "contents": fields.get("contents") or []}).prompt
        except ContextKitError as error:
            return invalid("body", str(error))
        if prompt.n_tokens < row.min_tokens or not prompt.n:
            return invalid(
                "contents", f"Cached content is too small: {prompt.n_tokens} tokens, the minimum is {row.min_tokens}"
            )
        self._n_created += 1
        name = f"cachedContents/{self._n_created:012d}"
        reference = {"name": name, "segments": prompt.n, "digest": prompt.digests[prompt.n - 1].hex()}
        content = _Content(fields, reference, prompt.n_tokens, now + ttl_seconds)
        self._contents[name] = content
        return _resource(content, now)

    def get(self, name: str, now: float) -> Json | Refusal:
        """The resource of a content."""
        content = self._live(name, now)
        return content if isinstance(content, Refusal) else _resource(content, now)

    def extend(self, name: str, body: Mapping[str, Json], now: float) -> Json | Refusal:
        """Give a content a new lifetime from now."""
        content = self._live(name, now)
        if isinstance(content, Refusal):
            return content
        ttl_seconds = _ttl_seconds(camel_cased(body))
        if isinstance(ttl_seconds, Refusal):
            return ttl_seconds
        self._contents[name] = replace(content, expires_at=now + ttl_seconds)
        return _resource(self._contents[name], now)

    def delete(self, name: str, now: float) -> Json | Refusal:
        """Forget a content."""
        content = self._live(name, now)
        if isinstance(content, Refusal):
            return content
        del self._contents[name]
        return {}

    def resolved(self, body: Mapping[str, Json], now: float) -> Mapping[str, Json] | Refusal:
        """A request body with what the content holds that it names; the same body where it names none."""
        name = body.get("cachedContent")
        if name is None:
            return body
        if not isinstance(name, str):
            return invalid("cachedContent", "expected a name")
        content = self._live(name, now)
        if isinstance(content, Refusal):
            return content
        repeated = [field for field in _STATIC_FIELDS if field in body]
        if repeated:
            message = f"CachedContent can not be used with GenerateContent request setting {', '.join(repeated)}"
            return invalid("cachedContent", message)
        if content.body["model"] != body.get("model"):
            return invalid("model", "Model used by GenerateContent request and CachedContent has to be the same.")
        static = {field: content.body[field] for field in _STATIC_FIELDS if field in content.body}
        contents = [*(content.body.get("contents") or []), *(body.get("contents") or [])]
        return {**body, **static, "contents": contents, "cachedContent": content.reference}

    def _live(self, name: str, now: float) -> _Content | Refusal:
        content = self._contents.get(name)
        if content is not None and content.expires_at > now:
            return content
        return Refusal(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")


def _ttl_seconds(body: Mapping[str, Json]) -> float | Refusal:
    match = _TTL.fullmatch(str(body.get("ttl", f"{_DEFAULT_TTL_SECONDS}s")))
    return float(match[1]) if match else invalid("ttl", "expected seconds, as in 300s")


def _resource(content: _Content, now: float) -> Json:
    """A `CachedContent`, without what it holds."""
    return {
        "name": content.reference["name"],
        "model": f"models/{content.body['model']}",
        "createTime": _date(now),
        "updateTime": _date(now),
        "expireTime": _date(content.expires_at),
        "usageMetadata": {"totalTokenCount": content.n_tokens},
    }


def _date(at: float) -> str:
    return datetime.fromtimestamp(min(at, _LAST_SECOND), UTC).isoformat().replace("+00:00", "Z")
