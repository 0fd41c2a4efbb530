"""Where OpenAI's cache may break: message endings, explicit marks, lifetimes; and what else keys a prefix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.prompt import Breakpoint
from contextkit.canonical import canonical
from contextkit.canonical import parse as read_json
from contextkit.errors import UnreadableRequest
from contextkit.facts import load
from contextkit.models import AssumedModelWarning
from contextkit.prompt.breakpoints import plan
from contextkit.prompt.prompt import PromptColumns, PromptLayout
from contextkit.providers.openai.chat import OpenAIChat
from contextkit.providers.openai.chat import parse as parse_chat
from contextkit.providers.openai.responses import OpenAIResponses
from contextkit.providers.openai.responses import parse as parse_responses
from tests.providers.speech import entry

MODEL = "gpt-6.1-sol"
HEAD = {"role": "developer", "content": "Be brief."}
ASK = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "ho"}
CALLS = {
    "role": "assistant",
    "tool_calls": [{"id": c, "type": "function", "function": {"name": "f", "arguments": "{}"}} for c in "ab"],
}
GAVE = [{"role": "tool", "tool_call_id": c, "content": c} for c in "ab"]


def marked(text: str = "a", **more: Any) -> Any:
    return {"type": "text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit", **more}}


def marks(*messages: Any, model: str = MODEL, **params: Any) -> list[tuple[int, int, int, bool]]:
    """(segment, lifetime, lookback, written) of each breakpoint the cache sees."""
    prompt = parse_chat({"model": model, "messages": list(messages), **params}).prompt
    return [(mark.segment, mark.ttl_seconds, mark.lookback, mark.is_written) for mark in prompt.breakpoints]


HEAD_KEPT = (0, 1800, 1, True)
ENDINGS = [
    ([HEAD], [(0, 1800, 21, True)]),
    ([ASK], [(0, 1800, 21, True)]),
    ([SAID], []),
    ([HEAD, ASK], [HEAD_KEPT, (1, 1800, 21, True)]),
    ([HEAD, ASK, SAID], [HEAD_KEPT, (1, 1800, 21, True)]),
    ([HEAD, ASK, CALLS, *GAVE], [HEAD_KEPT, (4, 1800, 21, True)]),
    ([HEAD, ASK, CALLS, *GAVE, SAID], [HEAD_KEPT, (4, 1800, 21, True)]),
    ([HEAD, ASK, {"role": "developer", "content": "later"}], [HEAD_KEPT, (1, 1800, 21, True)]),
    (
        [HEAD, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        [HEAD_KEPT, (2, 1800, 21, True)],
    ),
]


@pytest.mark.parametrize(("messages", "expected"), ENDINGS)
def test_the_implicit_mark_is_the_latest_eligible_ending(messages: Any, expected: Any) -> None:
    assert marks(*messages) == expected


def test_positions_end_where_messages_do() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    messages = [HEAD, HEAD, ASK, parts, SAID, CALLS, *GAVE, SAID, ASK, SAID]
    prompt = parse_chat({"model": MODEL, "messages": messages}).prompt
    assert list(prompt.positions) == [0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 5]


def test_more_text_in_a_message_removes_its_old_ending() -> None:
    short = parse_chat({"model": MODEL, "messages": [HEAD, ASK]}).prompt
    parts = {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "more"}]}
    long = parse_chat({"model": MODEL, "messages": [HEAD, parts]}).prompt
    assert long.digests[1] == short.digests[1]
    assert long.positions[1] == long.positions[2], "the old ending does not close its position any more"


def users(n: int) -> list[Any]:
    return [{"role": "user", "content": [marked(str(number))]} for number in range(n)]


def test_implicit_mode_writes_the_latest_three_and_its_own_two() -> None:
    found = marks(HEAD, *users(6), ASK)
    assert [segment for segment, _, _, is_written in found if is_written] == [
        0,
        4,
        5,
        6,
        7,
    ]  # its own two: head and end
    assert [lookback for *_, lookback, _ in found] == [1, 1, 1, 1, 1, 1, 1, 21]


def test_explicit_mode_writes_the_latest_four_and_nothing_unmarked() -> None:
    found = marks(HEAD, *users(6), ASK, prompt_cache_options={"mode": "explicit"})
    assert [segment for segment, _, _, is_written in found if is_written] == [3, 4, 5, 6]
    assert [segment for segment, _, _, is_written in found if not is_written] == [1, 2]
    assert marks(HEAD, ASK, prompt_cache_options={"mode": "explicit"}) == []


def test_the_first_two_and_the_latest_fifty_marks_are_looked_up() -> None:
    found = marks(*users(60), prompt_cache_options={"mode": "explicit"})
    assert [segment for segment, *_ in found] == [0, 1, *range(10, 60)]


def test_a_mark_of_its_own_on_the_implicit_ending_is_one_mark() -> None:
    assert marks(HEAD, {"role": "user", "content": [marked(ttl="12h")]}) == [HEAD_KEPT, (1, 43200, 21, True)]


def test_a_parts_own_lifetime_wins_over_the_requests() -> None:
    messages = [{"role": "user", "content": [marked()]}, {"role": "user", "content": [marked(ttl="30m")]}, ASK]
    assert [ttl for _, ttl, _, _ in marks(*messages, prompt_cache_options={"ttl": "12h"})] == [43200, 1800, 43200]


def test_a_mark_inside_a_tool_message_is_seen_though_it_is_not_rendered_again() -> None:
    gave = {"role": "tool", "tool_call_id": "a", "content": [marked()]}
    found = parse_chat({"model": MODEL, "messages": [HEAD, ASK, CALLS, gave, GAVE[1], ASK]})
    assert Breakpoint(3, 1800, 1) in found.prompt.breakpoints
    assert b"prompt_cache_breakpoint" not in found.layout.body(b"{}")


@pytest.mark.parametrize("messages", [[HEAD, ASK], users(3)])
def test_earlier_models_have_no_breakpoints(messages: Any) -> None:
    assert marks(*messages, model="gpt-5.4") == []
    provider = OpenAIChat("gpt-5.4")
    assert (provider.plan.has_head, provider.plan.has_tail) == (False, False)


def test_anthropics_marker_is_no_mark_here() -> None:
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert marks(HEAD, {"role": "user", "content": [part]}) == [HEAD_KEPT, (1, 1800, 21, True)]


def rendered(provider: Any) -> Any:
    """A short conversation as `provider` sends it, marks included."""
    columns = PromptColumns(provider.grammar)
    columns.extend(provider.render_static_prefix([{"type": "text", "text": "Be brief."}], [], 0))
    columns.extend(provider.render_entry(entry("user", {"content": [{"type": "text", "text": "hi"}]})))
    layout = PromptLayout(columns, len(columns), plan(columns, len(columns), 0, provider.plan))
    body = read_json(layout.body(canonical(dict(provider.params))))
    assert provider.parse(body).prompt.breakpoints == provider.prompt(layout, provider.params).breakpoints
    return body


def test_the_head_is_marked_on_the_wire() -> None:
    [head, _] = rendered(OpenAIChat(MODEL))["messages"]
    assert head == {
        "role": "developer",
        "content": [{"type": "text", "text": "Be brief.", "prompt_cache_breakpoint": {"mode": "explicit"}}],
    }
    assert b"breakpoint" not in canonical(rendered(OpenAIChat("gpt-5.4")))


@pytest.mark.parametrize("options", [{"ttl": "12h"}, {"prompt_cache_options": {"ttl": "12h"}}])
def test_twelve_hours_hold_for_every_mark(options: Any) -> None:
    body = rendered(OpenAIResponses(MODEL, **options))
    assert body["input"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit", "ttl": "12h"}
    assert body["prompt_cache_options"] == {"ttl": "12h"}
    assert {mark.ttl_seconds for mark in parse_responses(body).prompt.breakpoints} == {43200}


def test_an_unknown_model_gets_the_rules_of_its_newest_relative_and_one_warning() -> None:
    with pytest.warns(AssumedModelWarning, match=r"gpt-7-nothing.*assumed after gpt-6.2-sol.*TOML") as warned:
        provider = OpenAIChat("gpt-7-nothing")
    assert [warning.filename for warning in warned] == [__file__]
    assert provider.model.is_assumed
    assert provider.model.cache == "breakpoints"


# What keys a prefix

KEYED: list[tuple[str, Any]] = [
    ("parallel_tool_calls", False),
    ("response_format", {"type": "json_object"}),
    ("text", {"format": {"type": "json_object"}}),
    ("text", {"verbosity": "low"}),
    ("reasoning", {"effort": "low"}),
    ("reasoning_effort", "low"),
    ("verbosity", "low"),
    ("context_management", [{"type": "compaction"}]),
    ("service_tier", "flex"),
    ("prompt_cache_key", "k"),
    ("prompt_cache_options", {"mode": "explicit"}),
]
FREE: list[tuple[str, Any]] = [
    ("tool_choice", "none"),
    ("tool_choice", {"type": "allowed_tools", "mode": "auto", "tools": []}),
    ("prompt_cache_retention", "24h"),
    ("prompt_cache_options", {"ttl": "12h"}),
    ("parallel_tool_calls", True),
    ("service_tier", "auto"),
    ("text", {"format": {"type": "text"}}),
    ("reasoning", {"summary": "auto"}),
    ("user", "ann"),
    ("response_format", None),
]


def keys(model: str = MODEL, **params: Any) -> tuple[bytes, bytes, bytes]:
    return parse_chat({"model": model, "messages": [ASK], **params}).prompt.namespaces


def test_what_makes_another_prefix_and_what_leaves_it_alone() -> None:
    for name, value in KEYED:
        assert all(one != other for one, other in zip(keys(), keys(**{name: value}), strict=True)), name
    for name, value in FREE:
        assert keys() == keys(**{name: value}), name


def test_models_share_nothing_and_users_chose_the_machine_before() -> None:
    assert keys() != keys("gpt-6-sol")
    assert keys("gpt-5.4") != keys("gpt-5.4", user="ann")


# What is no request

UNREADABLE: list[tuple[Any, Any, str]] = [
    (parse_chat, {"messages": []}, "model"),
    (parse_chat, {"messages": "hi"}, "messages"),
    (parse_chat, {"messages": [{"content": "hi"}]}, "messages[0].role"),
    (parse_chat, {"messages": [{"role": "user"}]}, "messages[0].content"),
    (parse_chat, {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}, "messages[0].content[0].type"),
    (parse_chat, {"messages": [ASK, {"role": "assistant"}]}, "messages[1].content"),
    (parse_chat, {"messages": [{"role": "tool", "content": "4"}]}, "messages[0].tool_call_id"),
    (parse_chat, {"messages": [], "tools": ["f"]}, "tools[0]"),
    (parse_chat, {"messages": [], "prompt_cache_options": {"mode": "magic"}}, "prompt_cache_options.mode"),
    (parse_responses, {"input": "hi", "previous_response_id": "resp_1"}, "previous_response_id"),
    (parse_responses, {"input": "hi", "conversation": "conv_1"}, "conversation"),
    (parse_responses, {"input": "hi", "instructions": 4}, "instructions"),
    (parse_responses, {"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    (parse_responses, {"instructions": "a", "input": [{"role": "user", "content": []}]}, "input[0].content"),
    (parse_responses, {"input": [{"type": "function_call_output", "output": "4"}]}, "input[0].call_id"),
]


def test_a_body_that_is_no_request_is_said_to_be_none_and_where() -> None:
    for read, body, path in UNREADABLE:
        with pytest.raises(UnreadableRequest) as raised:
            read(body if path == "model" else {"model": MODEL, **body})
        assert raised.value.path == path


def test_the_end_of_the_system_text_is_written_unless_a_rule_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    path.write_text('[[rules]]\nname = "written_head"\nholds = false\n', "utf-8")
    assert marks(HEAD, ASK)[0] == HEAD_KEPT
    load.use_file(str(path))
    try:
        assert marks(HEAD, ASK)[0] == (0, 1800, 1, False)
    finally:
        load.use_file("")
