"""What Claude's endpoint takes beside plain conversation: each is predicted as the local provider bills it, and opted
in to."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union, get_args

import anthropic
import pytest
from anthropic.types.anthropic_beta_param import AnthropicBetaParam
from anthropic.types.beta.beta_content_block import BetaContentBlock
from anthropic.types.beta.beta_content_block_param import BetaContentBlockParam
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming as BetaParams

from contextkit import AnthropicMessages, Context, tool
from contextkit.canonical import canonical, parse
from contextkit.errors import UsageError
from contextkit.facts.load import betas_for
from contextkit.providers.anthropic.blocks import PLACEHOLDER, edited_columns
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.notices import BLOCKS, FIELDS
from contextkit.server import LocalServer
from contextkit.server.answer import answer
from contextkit.server.endpoints.table import MESSAGES
from contextkit.server.state import Clock, State
from tests.providers import filled
from tests.providers.strict import faults

ROOT = Path(__file__).resolve().parents[2]
MODEL = "claude-opus-5"
SYSTEM = "You are careful. " * 600
CLEAR_USES = {"type": "clear_tool_uses_20250919"}
CLEAR_THINKING = {"type": "clear_thinking_20251015"}


@tool
def fetch(url: str) -> str:
    """Get a page."""
    return f"{url} " * 300


CONTEXT_MANAGEMENT, COMPACT, SUMMARIZE = (
    betas_for(field)[0] for field in ("context_management", "context_management.edits.compact_20260112", "compaction")
)


def claude(*edits: Any, model: str = MODEL, betas: Any = (CONTEXT_MANAGEMENT,), **params: Any) -> AnthropicMessages:
    managed: dict[str, Any] = {"context_management": {"edits": list(edits)}} if edits else {}
    return AnthropicMessages(model, max_tokens=4096, betas=betas, **managed, **params)


def script(n: int) -> list[Any]:
    call = {"type": "call", "name": "fetch", "arguments": {"url": "https://example.com"}}
    calling = {"parts": [{"type": "thinking", "thinking": "hm " * 40}, call]}
    return [*[calling] * n, {"parts": [{"type": "text", "text": "Done."}]}]


def run(provider: AnthropicMessages, replies: list[Any] | None = None, turns: int = 2) -> tuple[Context, list[Any]]:
    """A conversation at the local provider: what was predicted is what was billed, at every call."""
    context, said = Context(provider, system=SYSTEM, tools=[fetch], clock=lambda: 0.0), []
    with (
        LocalServer((replies or script(6)) * turns, now=0.0) as server,
        anthropic.Anthropic(base_url=server.url, api_key="any") as client,
    ):
        for _ in range(turns):
            context.user("Go on. " * 30)
            while not context.finished:
                request = context.request()
                assert faults(BetaParams, parse(request.body)) == []
                said.append(client.messages.create(**request))
                context.receive(said[-1], request)
                for call in context.calls:
                    context.result(call, call.run())
    for recorded in context.ledger:
        assert recorded.usage is not None and recorded.predicted is not None
        now = recorded.usage
        assert (recorded.predicted.fresh, recorded.predicted.read, recorded.predicted.write_5m) == (
            now.fresh,
            now.read,
            now.write_5m,
        )
    return context, said


def cost_of_reading(context: Context) -> list[int]:
    return [call.usage.read or 0 for call in context.ledger if call.usage is not None]


# ---- every block there is

OF_REPLIES = get_args(get_args(BetaContentBlock)[0])
OF_REQUESTS: Any = Union[get_args(BetaContentBlockParam)[:-1]]  # noqa: UP007 - made from a tuple


@pytest.mark.parametrize("kind", OF_REPLIES, ids=lambda kind: kind.__name__)
def test_what_a_reply_holds_is_sent_back_as_a_request_takes_it(kind: Any) -> None:
    for block in filled.variants(kind):
        said = {"type": "message", "id": "m", "model": MODEL, "content": [block], "stop_reason": "end_turn"}
        assert faults(OF_REQUESTS, parse(claude().reply(said).native.body)[0]) == []


# ---- edits


def test_an_edit_that_does_nothing_yet_keys_nothing() -> None:
    plain, edited = run(claude(betas=())), run(claude(CLEAR_USES))
    assert [call.usage for call in plain[0].ledger] == [call.usage for call in edited[0].ledger]
    assert all(reply.context_management == {"applied_edits": []} for reply in edited[1])


def test_cleared_results_shrink_the_prompt_and_cost_what_stood_behind_them() -> None:
    few = {**CLEAR_USES, "trigger": {"type": "tool_uses", "value": 4}, "keep": {"type": "tool_uses", "value": 2}}
    plain, (context, said) = run(claude(betas=()))[0], run(claude(few))
    applied = [reply.context_management["applied_edits"] for reply in said]
    assert applied[:5] == [[]] * 5 and [edit["cleared_tool_uses"] for (edit,) in applied[5:]] == [
        3,
        4,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
    ]
    last, before = (list(each.ledger)[-1].usage for each in (context, plain))
    cleared = applied[-1][0]["cleared_input_tokens"]
    assert last is not None and before is not None and before.prompt == (last.prompt or 0) + cleared
    reads = cost_of_reading(context)
    assert reads[5] < reads[4] < cost_of_reading(plain)[5]  # from the first cleared result on, all is written anew
    shadow, _ = edited_columns(context.request().layout, context.request().params)
    assert PLACEHOLDER.encode() in bytes(shadow.wire) and PLACEHOLDER.encode() not in context.request().body


def test_a_clearing_that_would_not_pay_is_not_made() -> None:
    few = {**CLEAR_USES, "trigger": {"type": "tool_uses", "value": 1}, "keep": {"type": "tool_uses", "value": 0}}
    least = {**few, "clear_at_least": {"type": "input_tokens", "value": 12_000}}
    said, kept = (run(claude(edit), turns=1)[1] for edit in (few, least))
    uses = [
        [edit["cleared_tool_uses"] for edit in reply.context_management["applied_edits"]] for reply in (*said, *kept)
    ]
    assert uses[:4] == [[], [], [2], [3]] and uses[7:10] == [[], [], []]
    assert uses[6] == uses[13] == [6]


@pytest.mark.parametrize(("more", "shown"), [({}, True), ({"clear_tool_inputs": ["fetch"]}, False)])
def test_what_is_cleared_can_be_chosen(more: Any, shown: bool) -> None:
    few = {**CLEAR_USES, "trigger": {"type": "input_tokens", "value": 10}, "keep": {"type": "tool_uses", "value": 0}}
    context = run(claude({**few, **more}), turns=1)[0]
    shadow, (told,) = edited_columns(context.request().layout, context.request().params)
    inputs = [parse(shadow.body(index))["input"] for index, kind in enumerate(shadow.runs) if kind == "tool_use"]
    assert [bool(each) for each in inputs] == [shown] * 6 and told["cleared_tool_uses"] == 6
    assert run(claude({**few, **more, "exclude_tools": ["fetch"]}), turns=1)[1][-1].context_management == {
        "applied_edits": []
    }


@pytest.mark.parametrize(("keep", "gone"), [("all", None), ({"type": "thinking_turns", "value": 1}, 2), (None, 2)])
def test_thinking_leaves_with_its_turn(keep: Any, gone: int | None) -> None:
    edit = CLEAR_THINKING if keep is None else {**CLEAR_THINKING, "keep": keep}
    context, said = run(claude(edit), script(2), turns=3)
    (*_, applied) = [reply.context_management["applied_edits"] for reply in said]
    assert [each["cleared_thinking_turns"] for each in applied] == ([] if gone is None else [gone])
    plain = run(claude(betas=()), script(2), turns=3)[0]
    last, whole = (list(each.ledger)[-1].usage for each in (context, plain))
    cleared = sum(each["cleared_input_tokens"] for each in applied)
    assert (
        last is not None
        and whole is not None
        and whole.prompt == (last.prompt or 0) + cleared
        and (cleared > 0) == (gone is not None)
    )


def test_both_edits_apply_in_the_order_given() -> None:
    few = {**CLEAR_USES, "trigger": {"type": "tool_uses", "value": 2}}
    said = run(claude(CLEAR_THINKING, few))[1]
    assert [edit["type"] for edit in said[-1].context_management["applied_edits"]] == [
        CLEAR_THINKING["type"],
        CLEAR_USES["type"],
    ]


# ---- compactions


def test_what_a_compaction_stands_for_leaves_the_prompt_and_not_the_array() -> None:
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
    words = {"parts": [{"type": "text", "text": "word " * 18_000}]}
    context, said = run(claude(edit, betas=(COMPACT,), model="claude-opus-5-5"), [words], turns=4)
    kinds = [[block.type for block in reply.content] for reply in said]
    assert kinds == [["text"], ["text"], ["compaction", "text"], ["text"]]  # the third request is above the trigger
    prompts = [call.usage.prompt or 0 for call in context.ledger if call.usage is not None]
    assert prompts[2] > 50_000 > prompts[3] and cost_of_reading(context)[3] > 0  # the head is still there
    assert context.request().body.count(b'"role":"assistant"') == 4 and context.stop == "done"


def test_a_compaction_that_failed_is_nothing() -> None:
    said: list[Any] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [{"type": "compaction", "content": None}, {"type": "text", "text": "Gone."}]},
        {"role": "user", "content": "On."},
    ]
    whole = copy.deepcopy(said)
    whole[1]["content"].pop(0)
    with_it, without = (
        PARSERS["anthropic_messages"]({"model": MODEL, "max_tokens": 9, "messages": each}).prompt
        for each in (said, whole)
    )
    assert with_it.digests[-1] == without.digests[-1] and with_it.n_tokens == without.n_tokens


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_compaction_that_was_asked_for_opens_an_epoch(is_streamed: bool) -> None:
    context = Context(claude(betas=(SUMMARIZE,)), system=SYSTEM)
    script = [{"parts": [{"type": "text", "text": text}]} for text in ("Gone.", "They went.", "Yes.")]
    with LocalServer(script) as server, anthropic.Anthropic(base_url=server.url, api_key="any") as client:
        context.user("Go. " * 400)
        context.receive(client.messages.create(**context.request()))
        request = context.request(compaction={"type": "summarize"})
        if is_streamed:
            for _ in context.stream(request.stream(client)):
                pass
        else:
            assert str(client.messages.create(**request).stop_reason) == "compaction"
            context.receive(request.send(client), request)
        context.user("And now?")
        first, second = context.request()["messages"]
        if is_streamed:
            assert first["content"][0]["content"] == "They went." and first["content"][0]["type"] == "compaction"
        assert first["role"] == "assistant" and second["role"] == "user"
        request = context.request()
        context.receive(request.send(client), request)
    assert (request.predicted.prompt or 0) < 2_000 + len(SYSTEM) / 3 and context.log[-1].kind == "assistant"


def test_the_pass_that_compacts_is_in_the_bill() -> None:
    counters = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "input_tokens": 10, "output_tokens": 5}
    passed = {"type": "compaction", **counters, "input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 50}
    usage = claude().usage({"usage": {**counters, "iterations": [passed, {"type": "message", **counters}]}})
    assert (usage.fresh, usage.read, usage.output) == (110, 50, 12)


# ---- tools that are searched for, and tools that run at Anthropic

LATE = {"name": "price", "description": "The price. " * 40, "input_schema": {"type": "object"}, "defer_loading": True}
SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
FOUND: list[Any] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_regex", "input": {"pattern": "price"}},
    {
        "type": "tool_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "price"}],
        },
    },
]


def searched(tools: Any, *blocks: Any, marked: bool = False) -> Any:
    head = [{"type": "text", "text": SYSTEM, **({"cache_control": {"type": "ephemeral"}} if marked else {})}]
    said = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": list(blocks)},
        {"role": "user", "content": "On."},
    ]
    return {"model": MODEL, "max_tokens": 9, "system": head, "tools": tools, "messages": said}


def test_a_deferred_tool_enters_the_prompt_where_it_is_found() -> None:
    bare, late, other = ([SEARCH, *more] for more in ([], [LATE], [{**LATE, "description": "Another."}]))
    read = PARSERS["anthropic_messages"]
    heads = [read(searched(tools, {"type": "text", "text": "hm"})).prompt for tools in (bare, late)]
    assert heads[0].digests[-1] == heads[1].digests[-1] and heads[0].n_tokens == heads[1].n_tokens
    nothing, price, another = (read(searched(tools, *FOUND)).prompt for tools in (bare, late, other))
    assert (
        price.n_tokens - nothing.n_tokens > 100 and len({each.digests[-1] for each in (nothing, price, another)}) == 3
    )
    assert price.digests[price.n - 3] == another.digests[another.n - 3]  # up to the reference all is the same


def test_what_a_server_tool_gave_is_marked_where_anything_is() -> None:
    read = PARSERS["anthropic_messages"]
    place = 5  # two tools, the system prompt, the user's words, the call
    assert read(searched([SEARCH, LATE], *FOUND)).prompt.breakpoints == ()
    marks = read(searched([SEARCH, LATE], *FOUND, marked=True)).prompt.breakpoints
    assert [(mark.segment, mark.ttl_seconds) for mark in marks] == [(2, 300), (place, 300)]
    assert status(searched([SEARCH, LATE], *FOUND, marked=True)) == 200


def status(body: Any, betas: str = "", version: str = "2026-10-21", expected: int = 200) -> int:
    headers = {"authorization": "any", "anthropic-version": version, "anthropic-beta": betas}
    outcome = answer(State(Clock(0.0, is_frozen=True), None, None), MESSAGES, headers, canonical(body))
    assert outcome.status == expected, outcome.chunks[0][:300]
    return outcome.status


# ---- what invalidates what

PLAIN: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 9,
    "system": "s",
    "messages": [{"role": "user", "content": "Go."}],
}
FORMAT = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
SKILL = {"id": "c", "skills": [{"type": "anthropic", "skill_id": "xlsx"}]}
KEYED: list[tuple[str, dict[str, Any], int]] = [
    ("another model", {"model": "claude-opus-5-5"}, 0),
    ("geo", {"inference_geo": "us"}, 0),
    ("fast", {"speed": "fast"}, 1),
    ("skills", {"container": SKILL}, 1),
    (
        "cited",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "search_result",
                            "source": "s",
                            "title": "t",
                            "content": [{"type": "text", "text": "x"}],
                            "citations": {"enabled": True},
                        }
                    ],
                }
            ]
        },
        1,
    ),
    ("effort", {"output_config": {"effort": "low"}}, 2),
    ("format", {"output_config": FORMAT}, 2),
    ("budget", {"output_config": {"task_budget": {"type": "tokens", "total": 9}}}, 2),
    ("thinking", {"thinking": {"type": "adaptive"}}, 2),
    ("choice", {"tool_choice": {"type": "none"}}, 2),
    ("the default effort", {"output_config": {"effort": "high"}}, 3),
    ("a container", {"container": "container_1"}, 3),
    ("the same container by id", {"container": {"id": "container_1"}}, 3),
    ("edits", {"context_management": {"edits": [CLEAR_USES]}}, 3),
    ("a fallback", {"fallbacks": "default"}, 3),
    ("a server of tools", {"mcp_servers": [{"type": "url", "url": "https://e.org", "name": "e"}]}, 3),
    ("standard speed", {"speed": "standard"}, 3),
]


def test_a_parameter_costs_the_levels_it_costs() -> None:
    for name, change, level in KEYED:
        one, other = (PARSERS["anthropic_messages"](body).prompt.namespaces for body in (PLAIN, {**PLAIN, **change}))
        equal = [mine == theirs for mine, theirs in zip(one, other, strict=True)]
        assert equal == [place < level for place in range(3)], name


def test_how_thinking_is_shown_and_checked_costs_nothing() -> None:
    adaptive = {"type": "adaptive"}
    shown = {"type": "adaptive", "display": "omitted", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    one, other = (
        PARSERS["anthropic_messages"]({**PLAIN, "thinking": each}).prompt.namespaces for each in (adaptive, shown)
    )
    assert one == other


# ---- what is in beta

USING: dict[str, Any] = {
    "context_management.edits.compact_20260112": {"context_management": {"edits": [{"type": "compact_20260112"}]}},
    "context_management.edits.clear_*": {"context_management": {"edits": [CLEAR_USES]}},
    "context_management": {"context_management": {}},
    "compaction": {"compaction": {"type": "summarize"}},
    "mcp_servers": {"mcp_servers": [{"type": "url", "url": "https://e.org", "name": "e"}]},
    "fallbacks": {"fallbacks": "default"},
    "fallback_credit_token": {"fallback_credit_token": {"token": "t"}},
    "billing_policy": {"billing_policy": {"type": "billing_policy", "bill_to": "self"}},
    "thread": {"thread": {"type": "create"}},
    "thinking.block_binding": {"thinking": {"type": "adaptive", "block_binding": {}}},
    "thinking.display: updates": {"thinking": {"type": "adaptive", "display": "updates"}},
    "output_config.task_budget": {"output_config": {"task_budget": {"type": "tokens", "total": 20_000}}},
}


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: row.field)
def test_a_field_in_beta_needs_its_header_here_and_there(row: Any) -> None:
    params = USING[row.field]
    assert row.holds(params)
    needed = "cannot|thread|" + "|".join(each.headers[0] for each in FIELDS if each.holds(params))
    with pytest.raises(UsageError, match=needed):
        claude(betas=(), **params)
    status({**PLAIN, **params}, expected=400)
    if row.field != "thread":
        for header in row.headers:
            others = [each.headers[0] for each in FIELDS if each.holds(params) and not set(each.headers) & {header}]
            status({**PLAIN, **params}, ",".join([header, *others]))
            claude(betas=(header, *others), **params)


def test_every_header_is_one_the_sdk_knows() -> None:
    known = {name for choice in get_args(AnthropicBetaParam) for name in get_args(choice)}
    named = {header for row in FIELDS for header in row.headers} | {
        header for headers in BLOCKS.values() for header in headers
    }
    assert named <= known


def test_threads_are_refused_and_it_is_said_why() -> None:
    with pytest.raises(UsageError, match="the log keeps it here"):
        claude(thread={"type": "create"})
    context = Context(claude())
    context.user("Go.")
    with pytest.raises(UsageError, match="the log keeps it here"):
        context.request(thread={"type": "create"})
    status({**PLAIN, "thread": {"type": "create"}}, "message-threads-2026-08-12", expected=400)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("thinking second", {"context_management": {"edits": [CLEAR_USES, CLEAR_THINKING]}}, CONTEXT_MANAGEMENT),
    ("twice", {"context_management": {"edits": [CLEAR_USES, CLEAR_USES]}}, CONTEXT_MANAGEMENT),
    ("unknown", {"context_management": {"edits": [{"type": "clear_all"}]}}, CONTEXT_MANAGEMENT),
    ("no object", {"context_management": {"edits": ["x"]}}, CONTEXT_MANAGEMENT),
    (
        "no number",
        {"context_management": {"edits": [{**CLEAR_USES, "keep": {"type": "tool_uses"}}]}},
        CONTEXT_MANAGEMENT,
    ),
    (
        "too early",
        {
            "context_management": {
                "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 9}}]
            }
        },
        COMPACT,
    ),
    (
        "both",
        {"compaction": {"type": "summarize"}, "context_management": {"edits": [CLEAR_USES]}},
        f"{SUMMARIZE},{CONTEXT_MANAGEMENT}",
    ),
    (
        "misplaced",
        {
            "messages": [
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": [{"type": "compaction", "content": "x", "signature": "s"}]},
                {"role": "user", "content": "On."},
            ]
        },
        SUMMARIZE,
    ),
]


@pytest.mark.parametrize(("name", "change", "betas"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_makes_no_sense_is_refused(name: str, change: Any, betas: str) -> None:
    status({**PLAIN, **change}, betas, expected=400)


SCREEN = {"name": "computer", "display_height_px": 9, "display_width_px": 9}
FIELDS_OF_BLOCK: dict[str, dict[str, Any]] = {
    "mcp_tool_use": {"id": "t", "name": "f", "server_name": "files", "input": {}},
    "mcp_tool_listing": {"mcp_server_name": "files", "tools": []},
    "mcp_toolset": {"mcp_server_name": "files"},
    "advisor_tool_result": {"tool_use_id": "t", "content": {"type": "advisor_result", "text": "Go on."}},
    "advisor_20260301": {"name": "advisor", "model": "claude-opus-5"},
    "fallback": {"from": {"model": "claude-opus-5"}, "to": {"model": "claude-sonnet-5"}},
}
"""Type of block → its required fields."""


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_in_beta_needs_its_header(kind: str) -> None:
    is_tool = kind in ("mcp_toolset", "advisor_20260301") or kind.startswith("computer")
    block = {"type": kind, **FIELDS_OF_BLOCK.get(kind, SCREEN if kind.startswith("computer") else {"tool_use_id": "t"})}
    said = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": "On."},
    ]
    change: Any = {"tools": [block]} if is_tool else {"messages": said}
    status({**PLAIN, **change}, expected=400)
    for header in BLOCKS[kind]:
        status({**PLAIN, **change}, header)


# ---- thinking that no longer holds


def test_thinking_that_no_longer_holds_is_dropped_where_that_is_asked_for() -> None:
    thought = {"parts": [{"type": "thinking", "thinking": "hm " * 50}, {"type": "text", "text": "one"}]}
    binding = "thinking-binding-controls-2026-08-01"
    asked: Any = {
        "model": "claude-opus-5-5",
        "max_tokens": 99,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": "Go."}],
    }
    adaptive: Any = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    with LocalServer([thought] * 4) as server, anthropic.Anthropic(base_url=server.url, api_key="any") as client:
        reply = client.messages.create(**asked)
        said = [block.to_dict() for block in reply.content]
        asked["messages"] += [{"role": "assistant", "content": said}, {"role": "user", "content": "On."}]
        asked["messages"][0]["content"] = "Went."
        with pytest.raises(anthropic.BadRequestError, match=r"messages\.1\.content\.0"):
            client.messages.create(**asked)
        dropped = client.beta.messages.create(**asked, thinking=adaptive, betas=[binding])
        row = dropped.input_transformations[0]
        assert (row.type, row.path, row.reason) == (
            "thinking_dropped",
            "messages.1.content.0",
            "prefix_binding_mismatch",
        )
        without = copy.deepcopy(asked)
        without["messages"][1]["content"].pop(0)
        bare = client.beta.messages.create(**without, thinking=adaptive, betas=[binding])
        assert bare.input_transformations == [] and bare.usage.input_tokens == dropped.usage.input_tokens


# ---- the clients of other platforms

HERE = "claude-opus-5-5"
CLIENTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "bedrock": (
        "anthropic.claude-opus-5-5",
        lambda url: anthropic.AnthropicBedrock(api_key="any", aws_region="eu-west-1", base_url=url),
    ),
    "mantle": (
        "anthropic.claude-opus-5-5",
        lambda url: anthropic.AnthropicBedrockMantle(
            api_key="any", aws_region="eu-west-1", base_url=f"{url}/anthropic"
        ),
    ),
    "vertex": (
        HERE,
        lambda url: anthropic.AnthropicVertex(region="eu", project_id="p", access_token="any", base_url=f"{url}/v1"),
    ),
    "foundry": (HERE, lambda url: anthropic.AnthropicFoundry(api_key="any", base_url=f"{url}/anthropic")),
    "aws": (
        HERE,
        lambda url: anthropic.AnthropicAWS(api_key="any", aws_region="eu-west-1", workspace_id="w", base_url=url),
    ),
    "google_cloud": (
        HERE,
        lambda url: anthropic.AnthropicGoogleCloud(token_provider=lambda: "any", workspace_id="w", base_url=url),
    ),
}
REWRITES = ("bedrock", "vertex")
PLATFORMS = {
    "AnthropicBedrock",
    "AnthropicBedrockMantle",
    "AnthropicVertex",
    "AnthropicFoundry",
    "AnthropicAWS",
    "AnthropicGoogleCloud",
}


def test_every_client_of_the_sdk_is_tried_here_and_on_the_page() -> None:
    made = {
        name for name in dir(anthropic) if name.startswith("Anthropic") and hasattr(getattr(anthropic, name), "post")
    }
    page = (ROOT / "docs" / "guides" / "claude.md").read_text(encoding="utf-8")
    assert made - {"Anthropic"} == PLATFORMS and len(CLIENTS) == len(PLATFORMS)
    assert all(f"`{name}`" in page for name in PLATFORMS)


@pytest.mark.parametrize("name", CLIENTS)
def test_every_platform_is_sent_the_same_conversation_counted_as_it_is_billed(name: str) -> None:
    if name == "bedrock":
        pytest.importorskip(
            "botocore", reason="the SDK reads Bedrock's streams with botocore: pip install contextkit-sdk[bedrock]"
        )
    model, made = CLIENTS[name]
    context = Context(claude(CLEAR_USES, model=model), system=SYSTEM, clock=lambda: 0.0)
    with (
        LocalServer([{"parts": [{"type": "text", "text": "Gone."}]}] * 4, now=0.0) as server,
        made(server.url) as client,
    ):
        for is_streamed in (False, True, False):
            context.user("Go.")
            request = context.request()
            counted(name, client, request)
            if is_streamed:
                with client.messages.create(**request, stream=True) as events:
                    for _ in context.stream(events):
                        pass
            else:
                context.receive(client.messages.create(**request), request)
        context.user("Go.")
        if name in REWRITES:
            with pytest.raises(UsageError, match=r"use its typed method with \*\*request"):
                context.request().send(client)
        else:  # prepared bytes go where a client leaves them alone
            context.receive(context.request().send(client))
            assert context.finished
    billed = [call.usage for call in context.ledger]
    assert [usage.prompt for usage in billed if usage] == [
        each.predicted.prompt for each in context.ledger if each.predicted
    ]
    assert all(usage is not None and (usage.read or 0) > 2_000 for usage in billed[1:]) and context.last_text == "Gone."


def counted(name: str, client: Any, request: Any) -> None:
    asked = {key: value for key, value in request.items() if key not in ("max_tokens", "extra_headers", "extra_body")}
    edited = {"context_management": request.params["context_management"]}
    if name == "bedrock":
        with pytest.raises(anthropic.AnthropicError, match="not supported in Bedrock"):
            client.messages.count_tokens(**asked)
        return
    assert client.messages.count_tokens(**asked).input_tokens == request.predicted.prompt
    managed = client.beta.messages.count_tokens(**asked, **edited, betas=[CONTEXT_MANAGEMENT])
    assert managed.context_management.original_input_tokens == request.predicted.prompt


ABROAD = [
    ("bedrock", {"cache_control": {"type": "ephemeral"}}, "cache_control: not supported on Amazon Bedrock"),
    ("bedrock", {"diagnostics": {"previous_message_id": None}}, "diagnostics: not supported on Amazon Bedrock"),
    ("vertex", {"diagnostics": {"previous_message_id": None}}, "diagnostics: not supported on Google Cloud"),
]


@pytest.mark.parametrize(("name", "change", "words"), ABROAD)
def test_what_a_platform_does_not_take_is_said(name: str, change: Any, words: str) -> None:
    model, made = CLIENTS[name]
    asked = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Go."}]}
    with LocalServer() as server, made(server.url) as client, pytest.raises(anthropic.BadRequestError, match=words):
        client.messages.create(**asked, **change)


# ---- the page


def table() -> str:
    """Fields in beta, as the page has them."""
    rows = "".join(f"| `{row.field}` | {', '.join(f'`{header}`' for header in row.headers)} |\n" for row in FIELDS)
    return f"| field | header, one of |\n|---|---|\n{rows}"


def test_the_page_lists_every_field_in_beta() -> None:
    page = (ROOT / "docs" / "reference" / "providers.md").read_text(encoding="utf-8")
    assert f"<!-- betas -->\n{table()}<!-- end -->" in page


def test_the_example_is_billed_as_it_predicts(example: Callable[[str], str]) -> None:
    lines = [line for line in example("claude").splitlines() if "results cleared" in line]
    assert len(lines) == 7 and lines[-1].startswith("5 results cleared")
    assert all(
        line.split(", ", 1)[1].split(" tokens")[0] == line.split("cache, ")[1].split(" billed")[0] for line in lines
    )
