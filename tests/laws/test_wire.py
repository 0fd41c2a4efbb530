"""Law 8: what is rendered is read back as the same prompt, and what was read is rendered as the same body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest
from anthropic.types.beta.beta_tool_union_param import BetaToolUnionParam
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context
from contextkit.canonical import canonical, parse
from contextkit.errors import UnreadableRequest
from contextkit.prompt.normal_form import VERBATIM, normal
from contextkit.providers.endpoints import PARSERS
from tests.laws.conversations import ARGUMENTS, BREAKING, PNG, SAYING, TEXT, TOOLS, Conversation, operations
from tests.laws.every_block import ROWS
from tests.laws.wires import PROVIDERS, TRIED
from tests.providers.filled_params import variants

Json = Any
laws = settings.get_profile("laws")
every_wire = pytest.mark.parametrize("name", TRIED)


@every_wire
@given(st.data())
@laws
def test_what_is_rendered_is_read_back(name: str, data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING, *BREAKING)))
    for sent in conversation.sent:
        request, parsed = sent.request, PARSERS[sent.request.wire](parse(sent.body))
        n = request.layout.n
        assert parsed.model == request.model.name and dict(parsed.params) == dict(request.params)
        assert list(parsed.prompt.digests) == list(request.prompt.digests[:n])
        assert list(parsed.prompt.ends_tokens) == list(request.prompt.ends_tokens[:n])
        assert list(parsed.prompt.positions) == list(request.prompt.positions[:n])
        assert parsed.prompt.breakpoints == request.prompt.breakpoints
        assert (parsed.prompt.namespaces, parsed.prompt.level_ends, parsed.prompt.n) == (
            request.prompt.namespaces,
            request.prompt.level_ends,
            n,
        )
        assert parsed.layout.body(canonical(dict(parsed.params))) == sent.body


@every_wire
@given(st.data())
@laws
def test_a_context_is_adopted_from_its_own_request(name: str, data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING, *BREAKING)))
    body = conversation.context.request().body
    other = Context.from_messages(PROVIDERS[name](), parse(body))
    assert _unmarked(name, other.request().body) == _unmarked(name, body)


def _unmarked(name: str, body: bytes) -> list[bytes]:
    """Marks may move: the adopted conversation knows of no request before."""
    parsed = PARSERS[PROVIDERS[name]().wire](parse(body))
    return [*parsed.prompt.digests, bytes(parsed.layout.columns.wire)]


# ---- bodies nobody of us wrote, on Anthropic's wire

MARKER = st.sampled_from(
    [
        {},
        {},
        {"cache_control": {"type": "ephemeral"}},
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"cache_control": None},
    ]
)


def shuffled(block: dict[str, Json], marker: dict[str, Json], order: Any) -> dict[str, Json]:
    """The same block, its keys in another order, maybe marked."""
    items = [*block.items(), *marker.items()]
    order.shuffle(items)
    return dict(items)


def blocks(*known: dict[str, Json]) -> st.SearchStrategy[dict[str, Json]]:
    texts = TEXT.map(lambda text: {"type": "text", "text": text})
    return st.builds(shuffled, texts | st.sampled_from(known), MARKER, st.randoms(use_true_random=False))


EVERY = [block for blocks in ROWS["anthropic_messages"].blocks().values() for block in blocks]
"""Blocks of every type the SDK's requests may hold, stable and beta: the least, everything, and every choice of every
field."""
PAIRED = frozenset({"tool_use", "tool_result"})
ALONE = [block for block in EVERY if block["type"] not in PAIRED]
"""Those that need no partner in another message."""
SAID = blocks(
    *ALONE,
    {"type": "text", "text": "cited", "citations": None},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.png"}},
    {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
        "title": "t",
        "context": "c",
        "citations": {"enabled": True},
    },
    {
        "type": "document",
        "source": {
            "type": "content",
            "content": [{"type": "text", "text": "inside", "cache_control": {"type": "ephemeral"}}],
        },
    },
    {
        "type": "search_result",
        "source": "https://e.org",
        "title": "t",
        "content": [{"type": "text", "text": "found"}],
        "citations": {"enabled": False},
    },
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "not_known_yet", "fields": [1, 2.5, None, {"b": 1, "a": 2}], "input": {"b": 1, "a": None}},
)
REPLIED = blocks(
    *ALONE,
    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "eA=="},
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srv_1",
        "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e"}],
    },
)
TOLD = st.one_of(
    st.just({}),
    st.just({"content": ""}),
    st.just({"content": []}),
    st.just({"content": None}),
    TEXT.map(lambda text: {"content": text}),
    st.lists(SAID, min_size=1, max_size=2).map(lambda content: {"content": content}),
)
TOOL = st.sampled_from(
    [
        {
            "name": "search",
            "description": "Search.",
            "input_schema": {"type": "object", "properties": {"b": {}, "a": {}}},
        },
        {"input_schema": {"type": "object"}, "name": "bare"},
        {
            "name": "strict",
            "description": "d",
            "strict": True,
            "input_schema": {"type": "object"},
            "cache_control": {"type": "ephemeral"},
        },
        {"type": "custom", "name": "typed", "description": "d", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"type": "bash_20250124", "name": "bash"},
        {"name": "late", "description": "d", "input_schema": {"type": "object"}, "defer_loading": True},
        *(tool for kind in get_args(BetaToolUnionParam) for tool in variants(kind)),
    ]
)


@st.composite
def bodies(draw: st.DrawFn) -> Json:
    """A request body as some loop may have built it."""
    content = TEXT | st.lists(SAID, min_size=1, max_size=3)
    messages: list[Json] = [{"role": "user", "content": draw(content)}]
    for turn in range(draw(st.integers(0, 4))):
        n_calls = draw(st.integers(0, 3))
        calls = [
            {"type": "tool_use", "id": f"toolu_{turn}_{i}", "name": "search", "input": draw(ARGUMENTS)}
            for i in range(n_calls)
        ]
        replied = draw(st.lists(REPLIED, min_size=0 if calls else 1, max_size=3))
        messages.append(
            {"role": "assistant", "content": draw(TEXT) if not calls and draw(st.booleans()) else [*replied, *calls]}
        )
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call["id"],
                **draw(TOLD),
                **draw(st.sampled_from([{}, {"is_error": True}, {"is_error": False}])),
            }
            for call in calls
        ]
        more = [] if calls and draw(st.booleans()) else draw(st.lists(SAID, min_size=1, max_size=2))
        messages += (
            [{"role": "user", "content": results + more}]
            if draw(st.booleans())
            else [{"role": "user", "content": [b]} for b in results + more]
        )
    tools = draw(
        st.lists(
            TOOL,
            unique_by=lambda tool: str(tool.get("name", tool.get("mcp_server_name", tool.get("type")))),
            max_size=4,
        )
    )
    system = draw(
        st.sampled_from(
            [
                {},
                {"system": ""},
                {"system": "Be brief."},
                {"system": []},
                {
                    "system": [
                        {"text": "a", "type": "text", "cache_control": {"type": "ephemeral"}},
                        {"type": "text", "text": "b"},
                    ]
                },
            ]
        )
    )
    return {
        "model": "claude-sonnet-5-5",
        "max_tokens": 9,
        **system,
        "messages": messages,
        **({"tools": tools} if tools else {}),
    }


@given(bodies())
@laws
def test_a_loops_own_body_is_adopted_as_it_is(body: Json) -> None:
    context = Context.from_messages(AnthropicMessages("claude-sonnet-5-5", max_tokens=9), body)
    assert _reduced(parse(context.request().body)) == _reduced(body)


@given(bodies())
@laws
def test_what_was_parsed_is_rendered_in_normal_form(body: Json) -> None:
    rendered_as_parsed(body)


def rendered_as_parsed(body: Json) -> None:
    parsed = PARSERS["anthropic_messages"](body)
    rendered = parse(parsed.layout.body(canonical(dict(parsed.params))))
    assert _reduced(rendered) == _reduced(body)
    again = PARSERS["anthropic_messages"](rendered)
    assert again.prompt.digests == parsed.prompt.digests and again.prompt.breakpoints == parsed.prompt.breakpoints
    assert again.layout.body(canonical(dict(again.params))) == parsed.layout.body(canonical(dict(parsed.params)))


def _reduced(body: Json) -> bytes:
    """The normal form, written here a second time: one spelling of what means the same, markers out, one message a
    speaker."""
    messages: list[Json] = []
    for message in body["messages"]:
        content = message["content"]
        listed = [
            _plain(block) for block in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
        ]
        if messages and messages[-1]["role"] == message["role"]:
            messages[-1]["content"] += listed
        else:
            messages.append({"role": message["role"], "content": listed})
    system = body.get("system") or []
    return canonical(
        {
            "tools": [_plain(tool) for tool in body.get("tools") or []],
            "messages": messages,
            "system": [
                _plain(block) for block in ([{"type": "text", "text": system}] if isinstance(system, str) else system)
            ],
        }
    )


def _plain(block: Mapping[str, Json]) -> Json:
    plain: dict[str, Json] = _said(normal(block))
    if plain.get("type") == "tool_result":
        content = plain.pop("content", None)
        told = [{"type": "text", "text": content}] if isinstance(content, str) and content else content
        plain = {
            **plain,
            **({"content": [{k: v for k, v in part.items() if v is not None} for part in told]} if told else {}),
        }
        plain = {
            key: plain[key]
            for key in sorted(plain, key=lambda key: (key != "type", key))
            if key != "is_error" or plain[key]
        }
    return plain


def _said(value: Json) -> Json:
    """Without nulls, which say nothing, outside of what a model or an author wrote."""
    if isinstance(value, dict):
        return {key: inner if key in VERBATIM else _said(inner) for key, inner in value.items() if inner is not None}
    return list(map(_said, value)) if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        ([], "body"),
        ({}, "model"),
        ({"model": 3}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [3]}, "messages.0"),
        ({"messages": [{"content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages.0.content.0.type"),
        ({"tools": [3]}, "tools.0"),
        ({"tools": "x"}, "tools"),
        ({"system": 3}, "system"),
        ({"system": [{"text": "x"}]}, "system.0.type"),
        ({"cache_control": "ephemeral"}, "cache_control"),
        (
            {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "2h"}}]},
            "cache_control.ttl",
        ),
        (
            {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ["5m"]}}]},
            "cache_control.ttl",
        ),
        ({"system": [{"type": "text", "text": "x", "cache_control": True}]}, "cache_control"),
    ],
)
def test_what_is_no_request_is_said_to_be_none_and_where(broken: Json, path: str) -> None:
    whole = {"model": "claude-sonnet-5-5", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    body = {**whole, **broken} if broken else broken
    with pytest.raises(UnreadableRequest) as caught:
        PARSERS["anthropic_messages"](body)
    assert caught.value.path == path


def test_adopted_functions_run_the_tools_the_body_declares() -> None:
    body = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "x"}}],
            },
        ],
        "tools": [{"name": "search", "description": "As declared.", "input_schema": TOOLS[0]["parameters"]}],
    }

    def search(query: str) -> str:
        """As written now."""
        return f"found {query}"

    context = Context.from_messages(AnthropicMessages("claude-sonnet-5-5", max_tokens=9), body, tools=[search])
    (call,) = context.calls
    context.result(call, call.run())
    assert b"found x" in context.request().body and b"As declared." in context.request().body


def test_a_system_message_between_others_stays_one() -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "now"},
        {"role": "system", "content": "Be brief."},
    ]
    body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": messages}
    assert _reduced(
        parse(Context.from_messages(AnthropicMessages("claude-sonnet-5-5", max_tokens=9), body).request().body)
    ) == _reduced(body)
