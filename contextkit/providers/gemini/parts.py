"""Gemini's parts: renders neutral parts, calls, results and tools, and parses them back; and stored contents.

Field names are those of `google.genai.types` 3.4, as on the wire. Projected: the system prompt is text only; media of a
type that a call of this API does not take is text; a result's text stands under `output`, or `error`, its media beside
it.

A `CachedContent` is the beginning of a conversation stored at Google: made by a call of its own, named by later requests,
billed by the hour until it is closed. Source of every rule: https://ai.google.dev/gemini-api/docs/caching and
`google.genai.types` 3.4 (CreateCachedContentConfig).
"""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from contextkit.canonical import Json, parse
from contextkit.economics.lifetime import Storage, storage
from contextkit.errors import UsageError
from contextkit.models import model_named
from contextkit.prices import cost_usd
from contextkit.prompt.normal_form import normal
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.keyed_blocks import FREE, RAW, standard, text, unpacked
from contextkit.providers.neutral import UNNAMED, JsonObject, Parts, Tools, verbatim
from contextkit.providers.provider import ReplyCall
from contextkit.terminal import sanitize

WIRE = "gemini"
_BY_ENDING = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "pdf": "application/pdf",
}


def camel_cased(value: Json) -> Json:
    """A body or a response with the wire's field names: Google accepts names with underscores too, and its SDK writes
    both.

    >>> camel_cased({"inline_data": {"mime_type": "image/png"}, "args": {"file_name": "a"}})
    {'inlineData': {'mimeType': 'image/png'}, 'args': {'file_name': 'a'}}
    """
    if isinstance(value, dict):
        named = ((_UNDERSCORED.sub(lambda match: match[1].upper(), key), item) for key, item in value.items())
        return {key: item if key in FREE else camel_cased(item) for key, item in named}
    return [camel_cased(item) for item in value] if isinstance(value, list) else value


_UNDERSCORED = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")


def _media(part: JsonObject) -> Json:
    if "url" in part:
        media_type = _BY_ENDING.get(part["url"].partition("?")[0].rpartition(".")[2].lower())
        return {"fileData": {"fileUri": part["url"], **({"mimeType": media_type} if media_type else {})}}
    if part["media_type"] == "text/plain":
        return text(f"{part['title']}\n\n{part['data']}" if "title" in part else part["data"])
    return {"inlineData": {"data": part["data"], "mimeType": part["media_type"]}}


def _candidates(block: JsonObject) -> list[Json]:
    data, file = block.get("inlineData") or {}, block.get("fileData") or {}
    media = {"media_type": data.get("mimeType", ""), "data": data.get("data", "")}
    if file:
        media = {"url": file.get("fileUri", "")}
    is_image = str(data.get("mimeType", file.get("mimeType"))).startswith("image/")
    kinds = ("image", "document") if is_image else ("document", "image")
    return [{"type": kind, **media} for kind in kinds] if data or file else []


PARTS = Parts(WIRE, text, dict.fromkeys(("image", "document"), _media), _candidates)


def render_call(name: str, tool: str, arguments: Json) -> Json:
    """A call as a part."""
    return {"functionCall": {"args": arguments, **_id(name), "name": tool}}


def _id(name: str) -> dict[str, Json]:
    """The id, where the call came with one."""
    return {} if name.startswith(UNNAMED) else {"id": name}


def parse_call(block: JsonObject, index: int) -> ReplyCall | None:
    """The call a part makes; this API may leave its id out."""
    made = block.get("functionCall")
    return ReplyCall(made.get("id") or f"{UNNAMED}{index}", made["name"], made.get("args") or {}) if made else None


def render_result(body: JsonObject) -> Json:
    """Render the result of a tool as a part."""
    content = body["content"]
    if len(content) == 1 and content[0].get("wire") == WIRE:
        native = content[0].get("block")
        if native and "functionResponse" in native:
            return native
    parts = PARTS.blocks(content)
    texts = [part["text"] for part in parts if part.keys() == {"text"}]
    media = [part for part in parts if part.keys() != {"text"}]
    response = {"error" if body["is_error"] else "output": texts[0] if len(texts) == 1 else texts}
    beside, name = {"parts": media} if media else {}, body["name"] or body["call_id"]
    return {"functionResponse": {**_id(body["call_id"]), "name": name, **beside, "response": response}}


def parse_result(block: JsonObject, calls: list[ReplyCall]) -> Json:
    """A part that answers a call, as the body of a result: by id, or as the first open call of that name, which is
    removed from `calls`.
    """
    inside = block.get("functionResponse")
    if not inside:
        return None
    fitting = (
        call for call in calls if call.id == inside.get("id") or ("id" not in inside and call.name == inside["name"])
    )
    answered = next(fitting, None)
    calls[:] = [open_call for open_call in calls if open_call is not answered]
    response = inside.get("response") or {}
    key = next(iter(response), "output")
    texts = [response[key]] if isinstance(response.get(key), str) else response.get(key)
    content = [
        {"type": "text", "text": one} for one in (texts if isinstance(texts, list) else ()) if isinstance(one, str)
    ]
    name = answered.id if answered else str(inside.get("id", f"{UNNAMED}0"))
    content += map(PARTS.part, inside.get("parts") or [])
    body = {"call_id": name, "name": inside["name"], "content": content, "is_error": key == "error"}
    is_whole = normal(render_result(body)) == normal(block)
    return body if is_whole else {**body, "content": [verbatim(WIRE, block)]}


_HOLDING_RAW = frozenset({"inlineData", "thoughtSignature", "functionResponse"})


def normalize_part(block: JsonObject) -> JsonObject:
    """Normalize a part: base64 in the standard alphabet, no nulls."""
    plain = {key: value for key, value in block.items() if value is not None}
    if not _HOLDING_RAW & block.keys():
        return plain
    tidy: JsonObject = standard(plain, RAW[WIRE])
    return tidy


TOOLS = Tools(
    WIRE,
    lambda name, description, schema: {"name": name, "description": description, "parametersJsonSchema": schema},
    lambda block: (block.get("name"), block.get("description"), block.get("parametersJsonSchema")),
)


def text_in(block: JsonObject) -> str:
    """The text of a part; empty for a thought."""
    return "" if block.get("thought") else str(block.get("text", ""))


STORAGE_USD: Mapping[str, float] = {"gemini-3.8-flash": 0.5, "gemini-3.7-flash": 0.5, "gemini-3.6-flash": 0.5}
"""Model → dollars for a million tokens and an hour (PyPI genai-prices 0.2.3, comments of these rows)."""
MOST_USD = 4.5
"""The highest of these prices (https://ai.google.dev/gemini-api/docs/pricing): assumed for a model without a price."""
IMPLICIT_ONLY = ("gemini-4-argon",)
"""Models that accept no cached content (caching guide)."""


class CachedContent:
    """One stored content. Close it, or use it in a `with`: storage is billed until then, and one that is never
    closed warns.
    """

    def __init__(self, client: Any, name: str, layout: PromptLayout, n_segments: int, storage: Storage) -> None:
        self.name = name
        """As requests name it, `cachedContents/…`."""
        self.n_segments = n_segments
        """Segments of the conversation that it holds."""
        self.digest = layout.columns.digests[n_segments - 1].hex()
        """Digest of these segments: a conversation with another beginning cannot use it."""
        self.storage = storage
        """Its size, what it costs, and how many reads pay for it."""
        self._client = client
        self._forgotten = weakref.finalize(self, _warn, name, storage.kept_usd)

    @property
    def field(self) -> Json:
        """Value of the `cachedContent` parameter."""
        return {"name": self.name, "segments": self.n_segments, "digest": self.digest}

    def extend(self, ttl_seconds: float) -> None:
        """Give it a new lifetime from now; reading does not lengthen it."""
        self._client.caches.update(name=self.name, config={"ttl": f"{ttl_seconds:g}s"})

    def close(self) -> None:
        """Delete it.

        Closing again does nothing. An exception of the SDK is raised, and the content stays open then.
        """
        if self._forgotten.alive:
            self._client.caches.delete(name=self.name)
            self._forgotten.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        storage, pays = self.storage, self.storage.reads_to_pay
        worth = "its price is not known" if pays is None else f"pays from {pays:.1f} reads on"
        size = f"{storage.n_tokens:,} tokens for {storage.ttl_seconds / 3600:.3g} h"
        return f"{self.name}: {size}, ${storage.kept_usd:.4f} of storage, {worth}"


def cached_content(
    client: Any,
    layout: PromptLayout,
    model: str,
    *,
    ttl_seconds: float = 3600,
    n_segments: int | None = None,
    usd_per_mtok_hour: float | None = None,
) -> CachedContent:
    """Store the first `n_segments` of a conversation: tools and system, or, with a number, messages behind them too.

    Raises `UsageError` where that is too small, no whole number of messages, or a model takes none.
    """
    columns, n = layout.columns, layout.columns.level_ends[1] if n_segments is None else n_segments
    expected = quoted(layout, model, ttl_seconds, n, usd_per_mtok_hour)
    if model in IMPLICIT_ONLY:
        raise UsageError(f"{model} takes no cached content: what it caches, it caches unasked")
    if n >= layout.n or not columns.roles[n]:
        raise UsageError(f"a content ends where a message ends, before the last: {n} segments of {layout.n} do not")
    if expected.n_tokens < model_named(model).min_tokens:
        least = model_named(model).min_tokens
        raise UsageError(
            f"{expected.n_tokens} tokens are too few: {model} takes contents of {least} on; send it as it is"
        )
    held = unpacked(parse(PromptLayout(columns, n).body(b"{}")), RAW[WIRE])
    made = client.caches.create(model=model, config={**held, "ttl": f"{ttl_seconds:g}s"})
    counted = getattr(made.usage_metadata, "total_token_count", None) or expected.n_tokens
    return CachedContent(client, made.name, layout, n, _storage(model, counted, ttl_seconds, usd_per_mtok_hour))


def quoted(
    layout: PromptLayout, model: str, ttl_seconds: float, n_segments: int, usd_per_mtok_hour: float | None = None
) -> Storage:
    """The cost of storing the first `n_segments`, by the estimated count of tokens."""
    n_tokens = layout.columns.ends_tokens[n_segments - 1] if n_segments else 0
    return _storage(model, n_tokens, ttl_seconds, usd_per_mtok_hour)


def _storage(model: str, n_tokens: int, ttl_seconds: float, usd: float | None) -> Storage:
    per_hour = STORAGE_USD.get(model, MOST_USD) if usd is None else usd
    return storage(n_tokens, ttl_seconds, per_hour, lambda usage: cost_usd("google", model, usage))


def _warn(name: str, storage_usd: float) -> None:
    text = f"{name} was not closed: Google stores it, and bills it (${storage_usd:.4f}), until it expires"
    warnings.warn(sanitize(text), ResourceWarning, stacklevel=2)
