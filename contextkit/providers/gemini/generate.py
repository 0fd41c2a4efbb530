"""Gemini's `generateContent`: Google's models behind `client.models.generate_content` of google-genai.

A body is what the API takes, `model` among its fields. Source of every rule:
https://ai.google.dev/gemini-api/docs/caching and `google.genai.types` 3.4. Every prefix is cached automatically;
segments of the content that a request names are left out of its body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical
from contextkit.canonical import parse as read_json
from contextkit.errors import UnreadableRequest, UsageError
from contextkit.models import Model
from contextkit.prompt.block import Block
from contextkit.prompt.breakpoints import Plan
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.adapter import Answering, chosen_model
from contextkit.providers.body_items import RenderedItems
from contextkit.providers.gemini import parts
from contextkit.providers.gemini import response as reply
from contextkit.providers.gemini.body import BODY, DECLARATIONS, head_parts, message_parts
from contextkit.providers.gemini.parts import WIRE, CachedContent, cached_content, quoted
from contextkit.providers.keyed_blocks import RESULT, KeyedAdapter, KeyedFormat, objects_in, parse_body
from contextkit.providers.neutral import JsonObject
from contextkit.providers.provider import Parsed
from contextkit.providers.rendered_blocks import Trait, expect, render_block

_FRAMES = {role: (b'{"role":"%b","parts":[' % role.encode(), b"]}") for role in ("user", "model")}
_DECLARED = (b'{"functionDeclarations":[', b"]}")
_FUNCTIONS = "functions"
"""Role of functions among the tools."""


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


def _body_parts(fields: Mapping[str, Json]) -> Iterator[Block]:
    """The parts of a body, checked."""
    objects_in(fields.get("tools"), "tools")
    expect(fields.get("systemInstruction") or {}, dict, "systemInstruction", "an object")
    for part in head_parts(fields):
        yield _checked(part)
    for index, content in enumerate(objects_in(fields.get("contents"), "contents")):
        role = content.get("role") or "user"
        if not isinstance(role, str) or role not in _FRAMES:
            raise UnreadableRequest(f"contents[{index}].role", "Input should be 'user' or 'model'")
        for part in message_parts(content, index):
            yield _checked(part)


def _checked(part: Block) -> Block:
    if not isinstance(part.value, dict) or not part.value:
        raise UnreadableRequest(part.path, "Input should be an object that is not empty")
    return replace(part, role=_FUNCTIONS) if part.field in DECLARATIONS else part


def _render(level: Level, role: str, block: JsonObject, model: Model) -> RenderedBlock:
    """Functions stand together in one tool; every other tool is one of its own."""
    if level == "tools":
        is_function = role == _FUNCTIONS or "name" in block
        role, frame = (_FUNCTIONS, _DECLARED) if is_function else (next(iter(block)), (b"", b""))
    else:
        block = parts.normalize_part(block)
        frame = _FRAMES[role] if role else (b"", b"")
    is_result = "functionResponse" in block
    trait = Trait(RESULT if is_result else "", can_hold_breakpoint=False, is_thinking=bool(block.get("thought")))
    return render_block(block, level, role, trait, model.name, frame, is_turn=role == "user" and not is_result)


def _keyed_params(params: Mapping[str, Json]) -> Mapping[str, Json]:
    rest = {**params}
    config = rest.pop("generationConfig", None) or {}
    return {**rest, **config}


def _with_named_content(prompt: Prompt, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
    """A breakpoint where a named content ends."""
    held = n_held(layout.columns, layout.n, params.get("cachedContent"))
    return replace(prompt, breakpoints=(Breakpoint(held - 1, 0),)) if held else prompt


FORMAT = KeyedFormat(
    wire=WIRE,
    provider="google",
    grammar=GRAMMAR,
    keying="gemini",
    model_field="model",
    model_role="model",
    parts=parts.PARTS,
    tools=parts.TOOLS,
    render_call=parts.render_call,
    parse_call=parts.parse_call,
    text_of=parts.text_in,
    render_result=parts.render_result,
    parse_result=parts.parse_result,
    body_parts=_body_parts,
    render=_render,
    params=BODY.params,
    keyed_params=_keyed_params,
    normalize_block=parts.normalize_part,
    normalize_body=parts.camel_cased,
    adjust_prompt=_with_named_content,
)


class Gemini(KeyedAdapter):
    """A model of Google's behind `client.models.generate_content`, where `client = genai.Client()`.

    `max_tokens` is sent as `generationConfig.maxOutputTokens`; everything else is a field of the API and is sent
    unchanged. Prefixes are cached automatically. `cached_content` is the name of a content that holds this
    conversation's tools and system prompt, or `"auto"`: then `open` makes one where it pays, and `close` deletes it.

    >>> Gemini("gemini-3.8-flash", max_tokens=4096).params["generationConfig"]
    {'maxOutputTokens': 4096}
    """

    format, wire, name, grammar = FORMAT, WIRE, "google", GRAMMAR
    answering = Answering(partial(reply.reply, FORMAT), reply.is_complete, reply.joined, "usageMetadata")

    def __init__(
        self, model: str, *, max_tokens: int | None = None, cached_content: str | None = None, **params: Json
    ) -> None:
        """Raises `UsageError` for `ttl`: no request to Gemini asks for a lifetime."""
        if "ttl" in params:
            raise UsageError(
                f"ttl={params['ttl']!r}: Gemini takes no breakpoints and keeps what it can by itself, so no lifetime can be "
                'asked for; leave ttl out, or store the static prefix: Gemini(…, cached_content="auto"), then '
                "open(client, layout, ttl_seconds=…)"
            )
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


def parse(body: Json, *, near: Iterable[RenderedItems] = ()) -> Parsed:
    """Parse a body into its segments and parameters; raises as `parse_body`. Segments of the content that it names are not
    in it.
    """
    return parse_body(FORMAT, body, near)
