"""`POST /v1/messages`: Claude, on Anthropic's own API.

Takes log entries, gives pieces, prompts and parameters, and the same from a request body. Source of every rule: the
prompt-caching docs (platform.claude.com/docs/en/build-with-claude/prompt-caching) and `anthropic.types` 2.11.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical
from contextkit.canonical import parse as read_json
from contextkit.errors import UnreadableRequest, UsageError
from contextkit.log.entry import Entry
from contextkit.models import model_named
from contextkit.prompt.block import Block
from contextkit.prompt.breakpoints import AUTO_TTL, LOOKBACK, Plan
from contextkit.prompt.prompt import Grammar, PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.adapter import Adapter, Answering, chosen_model
from contextkit.providers.anthropic import blocks as words
from contextkit.providers.anthropic import response as answers
from contextkit.providers.anthropic.blocks import (
    PLAIN,
    TRAITS,
    TTLS,
    WIRE,
    BillingHeader,
    is_billing_header,
    lifetime,
    prompt,
    tidied,
)
from contextkit.providers.anthropic.body import BODY, api_path, head_parts, message_parts
from contextkit.providers.body_items import BodyItem, RenderedItems, render_items
from contextkit.providers.masking import Endpoint
from contextkit.providers.notices import lacking, set_by, settings_for
from contextkit.providers.parameters import BETA
from contextkit.providers.provider import Parsed, Turn, assistant_body
from contextkit.providers.rendered_blocks import Trait, expect, render_block

_MARKERS = {300: b',"cache_control":{"type":"ephemeral"}', 3600: b',"cache_control":{"type":"ephemeral","ttl":"1h"}'}
_FRAMES = {role: (b'{"role":"%b","content":[' % role.encode(), b"]}") for role in ("user", "assistant", "system")}
_RUNS = frozenset({"tool_use", "tool_result"})

GRAMMAR = Grammar(
    arrays={"tools": "tools", "system": "system", "messages": "messages"},
    merges_roles=True,
    advances=lambda before, run, opens: not (run in _RUNS and run == before),
    marker=lambda ttl: _MARKERS[ttl],
    message_tokens=3,
)


class AnthropicMessages(Adapter):
    """A Claude model behind `client.messages.create`.

    `ttl` is the lifetime of the moving breakpoints, `head_ttl` that of tools and system (never shorter); `ttl="auto"`
    writes up to a place of the planner's choice for an hour (`docs/explanation/planner.md`). `betas` are the beta features opted in
    to, sent as a header. Everything else is a parameter of the endpoint and is sent as given.

    >>> AnthropicMessages("claude-sonnet-5-5", max_tokens=4096).params["max_tokens"]
    4096
    """

    wire = WIRE
    path = "/v1/messages"
    grammar = GRAMMAR
    answering = Answering(answers.reply, lambda response: response.get("stop_reason") is not None, answers.joined)

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int,
        ttl: str = "5m",
        head_ttl: str | None = None,
        betas: Iterable[str] = (),
        **params: Json,
    ) -> None:
        long_ttl, ttl = (TTLS["1h"], "5m") if ttl == AUTO_TTL and head_ttl is None else (0, ttl)
        head_ttl = head_ttl or ttl
        if ttl not in tuple(TTLS) or head_ttl not in tuple(TTLS) or TTLS[head_ttl] < TTLS[ttl]:
            rule = "each is '5m' or '1h', and the head's may not be the shorter one; or ttl='auto' alone"
            raise UsageError(f"ttl={ttl!r}, head_ttl={head_ttl!r}: {rule}")
        names = _names(betas)
        self.headers = {BETA: ",".join(names)} if names else {}
        super().__init__(Endpoint(WIRE, chosen_model(model, "anthropic"), names), {"max_tokens": max_tokens, **params})
        _check(
            self.params, next((value.split(",") for name, value in self.headers.items() if name.lower() == BETA), ())
        )
        self.name = self.model.provider
        self._settings = settings_for(Endpoint(WIRE, self.model, self.betas))
        told = {
            "phase": words.PHASES[self.telling],
            "tools": words.LATE[self.announcing],
            "notice": words.noticed(self.noticing),
        }
        self._kinds = {**words.KINDS, "user": words.user_renderer(self.model.accepts_mid_system), **told}
        self.plan = Plan(
            head_ttl_seconds=TTLS[head_ttl],
            tail_ttl_seconds=TTLS[ttl],
            min_tokens=self.model.min_tokens,
            long_ttl_seconds=long_ttl,
        )

    def render_static_prefix(self, system: Json, tools: Json, entry: int) -> Iterator[RenderedBlock]:
        """Pieces of tools and system."""
        for definition in tools:
            yield replace(_tool(words.TOOL_FORMAT.sent(definition), self.model.name), entry=entry)
        for block in words.PARTS.blocks(system):
            yield replace(_system(block, self.model.name), entry=entry)

    def render_entry(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[RenderedBlock]:
        """Pieces of one entry; `keeps_thinking=False` where its prefix has changed and signatures no longer hold."""
        body = read_json(entry.body)
        role, blocks = self._kinds[entry.kind](body)
        extras = body.get("settings") or (set_by(body, self._settings) if entry.kind == "notice" else None)
        model = self.model.name
        for block in blocks or [None] * bool(extras):
            if keeps_thinking or block is None or not TRAITS.get(block["type"], PLAIN).is_thinking:
                yield _message(block, role, model, extras, entry.sequence)

    def prompt(self, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
        """Return what the cache sees: what edits leave, explicit breakpoints, and the automatic ones.

        Raises `UsageError` for a thread.
        """
        _check_thread(params)
        return prompt(layout, params)

    def parse(self, body: Json) -> Parsed:
        """A request body of this endpoint."""
        return parse(body)

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body."""
        parts = list(head_parts(body))
        system = words.neutral(_block(part) for part in parts if part.level == "system")
        tools = [part.value for part in parts if part.level == "tools"]
        definitions = [words.TOOL_FORMAT.definition(words.unmarked(tool)) for tool in tools]
        return system, definitions, list(_turns(body, self.model.name))


def _names(betas: object) -> tuple[str, ...]:
    """The names of beta features."""
    listed = tuple(betas) if isinstance(betas, Iterable) and not isinstance(betas, str) else (None,)
    if not all(isinstance(name, str) and name for name in listed):
        raise UsageError(
            'betas is a list of beta features, as anthropic-beta names them (["context-management-2025-06-27"])'
        )
    return tuple(str(name) for name in listed)


def _check(params: Mapping[str, Json], betas: Collection[str]) -> None:
    _check_thread(params)
    for row in lacking(params, betas):
        raise UsageError(f"{row.field} is in beta: pass betas=[{row.headers[0]!r}], which is sent as a header")


def _check_thread(params: Mapping[str, Json]) -> None:
    if params.get("thread") is not None:
        raise UsageError(
            "thread: it keeps the conversation at Anthropic, without cache_control, thinking or edits; the log keeps it here"
        )


def parse(body: Json, *, billing_header: BillingHeader = "neutral", near: Iterable[RenderedItems] = ()) -> Parsed:
    """A `/v1/messages` body: its blocks, breakpoints and parameters; `billing_header` as in `BillingHeader`, `near` as in
    `render_items`.

    Raises `UnreadableRequest` where it is not one.
    """
    fields = expect(body, dict, "body", "an object")
    model = model_named(expect(fields.get("model"), str, "model", "a valid string"), "anthropic")
    columns = PromptColumns(GRAMMAR, strips_thinking=model.strips_thinking, tool_prompt_tokens=model.tool_prompt_tokens)
    try:
        items = render_items(
            [BodyItem(part.level, part.value, path=part.path) for part in head_parts(fields)],
            expect(fields.get("messages"), list, "messages", "a valid array"),
            lambda item: _rendered(item, model.name, billing_header),
            columns,
            (model, billing_header),
            near=near,
        )
        columns = items.columns
        marks = tuple(
            Breakpoint(index, lifetime(marker), LOOKBACK)
            for index, marker in items.markers.items()
            if columns.breakpoint_offsets[index] >= 0
        )
    except UnreadableRequest as error:
        raise UnreadableRequest(api_path(error.path), error.what) from None
    params = BODY.params(fields)
    layout = PromptLayout(columns, len(columns), marks)
    return Parsed(model.name, params, layout, prompt(layout, params), items)


def _rendered(item: BodyItem, model: str, billing_header: BillingHeader) -> Iterator[RenderedBlock]:
    if item.level == "tools":
        yield _tool(item.value, model)
        return
    if item.level == "system":
        yield _system(_block(item), model, billing_header)
        return
    message, index = item.value, item.number
    parts = list(message_parts(message, index))
    role = expect(message.get("role"), str, f"messages[{index}].role", "a valid string")
    expect(_FRAMES.get(role), tuple, f"messages[{index}].role", "'user', 'assistant' or 'system'")
    extras = _settings(message)
    if message.get("content") is None and not extras:
        raise UnreadableRequest(f"messages[{index}].content", "Input should be a valid string or array")
    for part in parts:
        yield _message(_block(part), role, model, extras)
    if extras and not parts:
        yield _message(None, role, model, extras)


def _block(part: Block | BodyItem) -> Json:
    """A part as a content block: a text is a block of type text."""
    if isinstance(part.value, str):
        return {"type": "text", "text": part.value}
    expect(expect(part.value, dict, part.path, "an object").get("type"), str, f"{part.path}.type", "a valid string")
    return part.value


def _tool(tool: Mapping[str, Json], model: str) -> RenderedBlock:
    return render_block(tool, "tools", "", words.tool_trait(tool), model)


def _system(block: Mapping[str, Json], model: str, billing_header: BillingHeader = "neutral") -> RenderedBlock:
    is_outside = billing_header == "neutral" and is_billing_header(block)
    return render_block(
        tidied(block), "system", "", _OUTSIDE if is_outside else TRAITS.get(block["type"], PLAIN), model
    )


_OUTSIDE = Trait(can_hold_breakpoint=False, is_silent=True)
"""A block that is sent and is no part of the prompt."""


def _message(
    block: Mapping[str, Json] | None, role: str, model: str, extras: Json = None, entry: int = -1
) -> RenderedBlock:
    """The piece of one block, in a message that may say more than role and content.

    Of a message without any block, all of it. `entry`: the log entry it comes from.
    """
    if extras:
        return replace(_set(block, role, model, extras), entry=entry)
    trait = TRAITS.get(block["type"], PLAIN) if block else PLAIN
    is_turn = role == "user" and bool(block) and block["type"] != "tool_result"  # type: ignore[index]
    value = tidied(block or {})
    return render_block(
        value, "messages", role, trait, model, _FRAMES[role], is_turn=is_turn, entry=entry, is_parsed=entry >= 0
    )


def _settings(message: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields of a message besides role and content; `clear_at: never` and an empty `output_config` say
    nothing.
    """
    said = {key: value for key, value in message.items() if key not in ("role", "content") and value not in (None, {})}
    return {key: value for key, value in said.items() if (key, value) != ("clear_at", "never")}


def _set(block: Mapping[str, Json] | None, role: str, model: str, extras: Mapping[str, Json]) -> RenderedBlock:
    """The same where the message sets something: what it sets is part of who speaks, so that no other message joins it."""
    lead = canonical({"role": role, **extras})
    trait = Trait(can_hold_breakpoint="clear_at" not in extras, is_passing="clear_at" in extras)
    if block is None:
        return render_block(
            {"role": role, **extras, "content": []},
            "messages",
            lead.decode(),
            replace(trait, can_hold_breakpoint=False),
            model,
        )
    return render_block(tidied(block), "messages", lead.decode(), trait, model, (lead[:-1] + b',"content":[', b"]}"))


def without(parsed: Parsed, segments: Collection[int]) -> Parsed:
    """The same request, where the API leaves segments out: thinking that no longer holds, and is to be dropped."""
    return replace(parsed, prompt=prompt(parsed.layout, {"model": parsed.model, **parsed.params}, segments))


def _turns(body: Json, model: str) -> Iterator[Turn]:
    for index, message in enumerate(body["messages"]):
        extras = _settings(message)
        blocks = [_block(part) for part in message_parts(message, index)]
        if message["role"] == "assistant":
            yield Turn("assistant", _assistant(blocks, model))
            continue
        said: list[Json] = []
        for block in blocks:
            if block["type"] != "tool_result":
                said.append(block)
                continue
            yield Turn("result", words.resulted(block))
        if said or extras:
            who = {} if message["role"] == "user" else {"role": message["role"]}
            yield Turn("user", {"content": words.neutral(said), **who, **({"settings": extras} if extras else {})})


def _assistant(blocks: list[Json], model: str) -> Json:
    read = answers.reply({"type": "message", "id": "", "model": model, "content": blocks})
    return assistant_body(WIRE, model, read_json(read.native.body), read.text, read.calls)
