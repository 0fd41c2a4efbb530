"""Gemini's `generateContent`: Google's models behind `client.models.generate_content` of google-genai.

A body is what the API takes, `model` among its fields. Source of every rule:
https://ai.google.dev/gemini-api/docs/caching and `google.genai.types` 3.4. Every prefix is cached automatically;
segments of the content that a request names are left out of its body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical
from contextkit.canonical import parse as read_json
from contextkit.errors import UsageError
from contextkit.models import Model
from contextkit.prompt.breakpoints import Plan
from contextkit.prompt.prompt import Grammar, PromptColumns, PromptLayout
from contextkit.providers.adapter import Answering, chosen_model
from contextkit.providers.gemini import parts
from contextkit.providers.gemini import response as reply
from contextkit.providers.gemini.parts import WIRE, CachedContent, cached_content, quoted
from contextkit.providers.keyed_blocks import RESULT, Place, Speaker, Words, listed, understood
from contextkit.providers.provider import Block, Parsed, Trait, expect

_FRAMES = {role: (b'{"role":"%b","parts":[' % role.encode(), b"]}") for role in ("user", "model")}
_DECLARED = (b'{"functionDeclarations":[', b"]}")
_SEGMENTS = ("tools", "systemInstruction", "contents")


def _opened(columns: PromptColumns, n: int, params: bytes) -> tuple[bytes, int]:
    """Render the fields; where they name a content, the first message after it too."""
    held, fields = 0, params
    if b'"cachedContent":' in params:
        values = read_json(params)
        held = n_held(columns, n, values.get("cachedContent"))
        fields = canonical({**values, "cachedContent": _name(values.get("cachedContent"))})
        if held and "toolConfig" in values:
            raise UsageError(
                "toolConfig: a request that names a cached content must not say it; leave it out, or leave cached_content out"
            )
    opening = fields[:-1] + (b"," if n and len(fields) > 2 else b"")
    return (opening + b'"contents":[' + _FRAMES[columns.roles[held]][0], columns.bodies[held]) if held else (opening, 0)


def n_held(columns: PromptColumns, n: int, content: Json) -> int:
    """The number of the first `n` segments that a content holds.

    Raises `UsageError` where it is not the beginning of this conversation.
    """
    is_ours = isinstance(content, Mapping)
    held = 0 if content is None else int(content["segments"]) if is_ours else min(columns.level_ends[1], n)
    if held and (
        held >= n or not columns.roles[held] or (is_ours and columns.digests[held - 1].hex() != content["digest"])
    ):
        raise UsageError(
            f"{_name(content)} does not hold the beginning of this conversation: close it, and go on without or store another"
        )
    return held


def _name(content: Json) -> Json:
    return content["name"] if isinstance(content, Mapping) else content


GRAMMAR = Grammar(
    arrays={"tools": "tools", "system": "systemInstruction", "messages": "contents"},
    merges_roles=True,
    advances=lambda before, run, opens: True,
    marker=lambda ttl: b"",
    message_tokens=3,
    brackets={"systemInstruction": (b'"systemInstruction":{"parts":[', b"]}")},
    opened=_opened,
    content_field="parts",
)


def _placed(level: Any, role: str, block: Block) -> Place:
    if level == "tools":
        is_function = role == "functions" or "name" in block
        return Place(
            level, "functions" if is_function else next(iter(block)), block, _DECLARED if is_function else (b"", b"")
        )
    return Place(level, role, parts.normalize_part(block), _FRAMES[role] if role else (b"", b""))


def _places(fields: Mapping[str, Json]) -> Iterator[Place]:
    for index, tool in enumerate(listed(fields.get("tools"), "tools")):
        for declaration in listed(tool.get("functionDeclarations"), f"tools[{index}].functionDeclarations"):
            yield _placed("tools", "functions", declaration)
        yield from (_placed("tools", "", {key: value}) for key, value in tool.items() if key != "functionDeclarations")
    system = expect(fields.get("systemInstruction") or {}, dict, "systemInstruction", "an object")
    for block in listed(system.get("parts"), "systemInstruction.parts"):
        yield _placed("system", "", block)
    for index, content in enumerate(listed(fields.get("contents"), "contents")):
        role = content.get("role") or "user"
        expect(
            _FRAMES.get(role) if isinstance(role, str) else None, tuple, f"contents[{index}].role", "'user' or 'model'"
        )
        for block in listed(content.get("parts"), f"contents[{index}].parts"):
            yield _placed("messages", role, block)


def _keyed(params: Mapping[str, Json]) -> Mapping[str, Json]:
    return {
        **{name: value for name, value in params.items() if name != "generationConfig"},
        **(params.get("generationConfig") or {}),
    }


def _trait(place: Place, model: Model) -> Trait:
    return Trait(
        RESULT if "functionResponse" in place.block else "",
        can_hold_breakpoint=False,
        is_thinking=bool(place.block.get("thought")),
    )


def _params(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if name not in _SEGMENTS}


def _naming(prompt: Prompt, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
    """A breakpoint where a named content ends."""
    held = n_held(layout.columns, layout.n, params.get("cachedContent"))
    return replace(prompt, breakpoints=(Breakpoint(held - 1, 0),)) if held else prompt


WORDS = Words(
    WIRE,
    GRAMMAR,
    "gemini",
    "model",
    "model",
    parts.PARTS,
    parts.render_call,
    parts.parse_call,
    parts.text_in,
    parts.render_result,
    parts.parse_result,
    parts.TOOLS,
    _placed,
    _places,
    _params,
    _keyed,
    _trait,
    parts.camel_cased,
    seen=_naming,
    provider="google",
)


class Gemini(Speaker):
    """A model of Google's behind `client.models.generate_content`, where `client = genai.Client()`.

    `max_tokens` is sent as `generationConfig.maxOutputTokens`; everything else is a field of the API and is sent
    unchanged. Prefixes are cached automatically. `cached_content` is the name of a content that holds this
    conversation's tools and system prompt, or `"auto"`: then `open` makes one where it pays, and `close` deletes it.

    >>> Gemini("gemini-3.8-flash", max_tokens=4096).params["generationConfig"]
    {'maxOutputTokens': 4096}
    """

    words, wire, name, grammar = WORDS, WIRE, "google", GRAMMAR
    answering = Answering(partial(reply.reply, WORDS), reply.is_complete, reply.usage, reply.joined, "usageMetadata")

    def __init__(
        self, model: str, *, max_tokens: int | None = None, cached_content: str | None = None, **params: Json
    ) -> None:
        limit = {} if max_tokens is None else {"maxOutputTokens": max_tokens}
        config = {"generationConfig": {**limit, **(params.pop("generationConfig", None) or {})}} if limit else {}
        named = {} if cached_content in (None, "auto") else {"cachedContent": cached_content}
        row = chosen_model(model, "google")
        super().__init__(
            row,
            f"/v1beta/models/{model}:generateContent",
            {**config, **params, **named},
            Plan(has_head=False, has_tail=False),
        )
        self._is_auto = cached_content == "auto"
        self.content: CachedContent | None = None
        """Content that `open` stored."""

    def open(
        self,
        client: Any,
        layout: PromptLayout,
        reads: float | None = None,
        ttl_seconds: float = 3600,
        n_segments: int | None = None,
    ) -> CachedContent | None:
        """Store the beginning of a conversation and name it in later requests.

        None where `reads` in that time do not pay for it.

        Raises `UsageError` where `cached_content` is not `"auto"`, and as `cached_content`.
        """
        if not self._is_auto or self.content is not None:
            raise UsageError('open() is for Gemini(…, cached_content="auto"), once: close() it first to store another')
        n = layout.columns.level_ends[1] if n_segments is None else n_segments
        pays = quoted(layout, self.model.name, ttl_seconds, n).reads_to_pay
        if reads is not None and (pays is None or reads < pays):
            return None
        self.content = cached_content(client, layout, self.model.name, ttl_seconds=ttl_seconds, n_segments=n)
        self.params = {**self.params, "cachedContent": self.content.field}
        return self.content

    def close(self) -> None:
        """Delete the content that `open` stored, and continue without it."""
        if self.content is not None:
            self.content.close()
            self.content, self.params = (
                None,
                {name: value for name, value in self.params.items() if name != "cachedContent"},
            )


def parse(body: Json) -> Parsed:
    """Parse a body into its segments and parameters; raises as `understood`. Segments of the content that it names are not
    in it.
    """
    return understood(WORDS, body)
