"""Repairs: what they change, what they leave alone, and that a conversation stays as it began."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.errors import UsageError
from contextkit.providers.body_spans import elements, members
from contextkit.providers.endpoints import PARSERS
from contextkit.proxy.observer import Repaired
from contextkit.proxy.repairs.repairs import REPAIRS, Repairs
from contextkit.proxy.repairs.splices import Rope, undo_of, undone

LONG = "You are careful. " * 800
WIRE = "anthropic_messages"


def body(turns: int = 1, **fields: Any) -> bytes:
    """A request after `turns` user turns, spelled as no SDK does: blanks and escapes must survive."""
    said = [{"role": ("user", "assistant")[n % 2], "content": f"größer {n}"} for n in range(2 * turns - 1)]
    return json.dumps({"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": said, **fields}, indent=1).encode()


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"does {name}, really",
        "input_schema": {"type": "object", "properties": {}},
        **more,
    }


def sent(repairs: Repairs, raw: bytes, wire: str = WIRE) -> bytes:
    """What is passed on; the client's body can always be made again of it."""
    found = repairs(wire, raw)
    if found is None:
        return raw
    assert undone(found.body, undo_of(raw, found.shared, found.names)) == raw
    return found.body


def names(raw: bytes) -> list[str]:
    return [tool["name"] for tool in json.loads(raw)["tools"]]


# sort-tools
# ---------------------------------------------------------------------------------------------------------------


def test_tools_stay_in_the_order_a_conversation_began_with() -> None:
    repairs = Repairs(["sort-tools"])
    first = sent(repairs, body(1, tools=[tool("b"), tool("c"), tool("a")]))
    second = sent(repairs, body(2, tools=[tool("c"), tool("a"), tool("b")]))
    assert names(first) == names(second) == ["a", "b", "c"]
    later = sent(repairs, body(3, tools=[tool("aa"), tool("c"), tool("b"), tool("a")]))
    assert names(later) == ["a", "b", "c", "aa"]  # what joins goes behind: in front of b it would break the prefix
    assert names(sent(repairs, body(1, tools=[tool("aa"), tool("a")]))) == ["a", "aa"]  # another conversation
    assert first[: first.index(b'"tools"')] == body(1, tools=[])[: first.index(b'"tools"')]


def test_tools_in_order_and_tools_that_share_a_name_are_left_alone() -> None:
    repairs = Repairs(["sort-tools"])
    for raw in (
        body(1, tools=[tool("a"), tool("b")]),
        body(1, tools=[tool("b"), tool("a"), tool("b")]),
        body(1),
        b"[]",
        b"{",
        b'"x"',
    ):
        assert repairs(WIRE, raw) is None


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_marker_stays_at_its_place(at: int) -> None:
    marker = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tools = [tool(name) for name in "cba"]
    tools[at] = {**marker, **tools[at]} if at == 1 else {**tools[at], **marker}
    found = json.loads(sent(Repairs(["sort-tools"]), body(1, tools=tools)))["tools"]
    assert [one["name"] for one in found] == ["a", "b", "c"]
    assert [one.get("cache_control") for one in found] == [
        marker["cache_control"] if n == at else None for n in range(3)
    ]
    assert [{**one, "cache_control": 0} for one in found] == [{**tool(name), "cache_control": 0} for name in "abc"]


def test_openai_s_tools_are_sorted_by_their_own_name() -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in "ba"]
    raw = json.dumps({"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": "x"}], "tools": tools}).encode()
    assert [
        one["function"]["name"] for one in json.loads(sent(Repairs(["sort-tools"]), raw, "openai_chat"))["tools"]
    ] == ["a", "b"]


# freeze-date
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("2026-11-21", "2026-11-22"),
        ("10:31", "10:32"),
        ("2026-11-21T10:31:09.5Z", "2026-11-21T10:31:12.7Z"),
        ("9:59 AM", "10:00 AM"),
        ("Saturday, November 21, 2026", "Sunday, November 22, 2026"),
        ("21 Nov 2026 10:31:09", "22 Nov 2026 00:00:01"),
        ("1790000000", "1790000099"),
        ("11/21/2026", "11/22/2026"),
        ("Sat, Nov 21, 2026 at 9:59 pm", "Sun, Nov 22, 2026 at 1:02 am"),
    ],
)
def test_a_date_stays_what_it_was_when_the_conversation_began(first: str, then: str) -> None:
    repairs = Repairs(["freeze-date"])
    said = 'Since 2024-01-01 you are "careful". It is:\n{}; version 1.2.3, ratio 16:9x.\n'
    assert sent(repairs, body(1, system=said.format(first))) == body(1, system=said.format(first))
    assert sent(repairs, body(2, system=said.format(then))) == body(2, system=said.format(first))
    assert sent(repairs, body(1, system=said.format(then))) == body(
        1, system=said.format(then)
    )  # another conversation begins today
    assert sent(repairs, body(3, system=f"Else. {then}")) == body(
        3, system=f"Else. {then}"
    )  # the text changed: its date is a new one


def test_dates_outside_the_system_text_are_the_user_s() -> None:
    repairs = Repairs(["freeze-date"])
    for turns in (1, 2):
        raw = body(turns, system="No date.", metadata={"user_id": f"2026-11-2{turns}"})
        assert sent(repairs, raw) == raw


def test_openai_s_system_text_stands_in_messages_or_instructions() -> None:
    repairs = Repairs(["freeze-date"])

    def chat(day: int, turns: int) -> bytes:
        said = [{"role": "developer", "content": f"It is 2026-11-{day}."}, {"role": "user", "content": "2026-11-01"}]
        return json.dumps(
            {"model": "m", "messages": [*said, *[{"role": "assistant", "content": "2026-11-02"}] * turns]}
        ).encode()

    def responses(day: int, turns: int) -> bytes:
        said = [{"role": "user", "content": "x"}] * (turns + 1)
        return json.dumps({"model": "m", "instructions": f"It is 2026-11-{day}.", "input": said}).encode()

    for wire, make in (("openai_chat", chat), ("openai_responses", responses)):
        assert sent(repairs, make(21, 0), wire) == make(21, 0)
        assert sent(repairs, make(22, 1), wire) == make(21, 1)


# The repair place-breakpoints
# --------------------------------------------------------------------------------------------------------


def marks(raw: bytes) -> list[int]:
    return [mark.segment for mark in PARSERS[WIRE](json.loads(raw)).layout.breakpoints]


def unmarked(raw: bytes) -> Any:
    return PARSERS[WIRE](json.loads(raw)).prompt.digests


def test_markers_stand_where_contextkit_would_set_them() -> None:
    repairs = Repairs(["place-breakpoints"])
    system = [{"type": "text", "text": LONG}]
    first, second = (sent(repairs, body(turns, tools=[tool("a")], system=system)) for turns in (1, 2))
    assert marks(first) == [1, 2] and marks(second) == [1, 4]
    assert list(unmarked(first)) == list(unmarked(body(1, tools=[tool("a")], system=system)))
    assert marks(sent(repairs, body(1, system=LONG))) == [0, 1]  # a text becomes the block it stands for
    far = sent(repairs, body(20, tools=[tool("a")], system=system))
    assert marks(far) == [1, 4, 40]  # a bridge, since the last end is out of reach


def test_markers_are_the_client_s_where_it_sets_any() -> None:
    repairs = Repairs(["place-breakpoints"])
    marked = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    for raw in (
        body(1, system=marked),
        body(1, system=LONG, cache_control={"type": "ephemeral"}),
        body(1, system="short"),
    ):
        assert repairs(WIRE, raw) is None
    assert marks(sent(repairs, body(1, system=LONG, model="claude-nope"))) == [
        0,
        1,
    ]  # by the rules of its nearest relative
    assert repairs("openai_chat", body(1, system=LONG)) is None


def gpt(array: str, head: Any, turns: int = 1, model: str = "gpt-6.1-sol", **fields: Any) -> bytes:
    said = [{"role": ("user", "assistant")[n % 2], "content": f"größer {n}"} for n in range(2 * turns - 1)]
    return json.dumps(
        {"model": model, array: [{"role": "developer", "content": head}, *said], **fields}, indent=1
    ).encode()


@pytest.mark.parametrize(
    ("wire", "array", "kind"), [("openai_chat", "messages", "text"), ("openai_responses", "input", "input_text")]
)
def test_on_openai_s_endpoints_the_head_is_marked_where_the_model_takes_markers(
    wire: str, array: str, kind: str
) -> None:
    repairs, found = Repairs(["place-breakpoints"]), []
    for turns in (1, 2):
        for head in (LONG, [{"type": kind, "text": LONG}]):
            raw = gpt(
                array,
                head,
                turns,
                tools=[{"type": "function", "name": "f", "function": {"name": "f"}, "parameters": {}}],
            )
            mended = sent(repairs, raw, wire)
            layout = PARSERS[wire](json.loads(mended)).layout
            assert [mark.segment for mark in layout.breakpoints] == [1] and layout.n == 2 * turns + 1
            assert list(layout.columns.digests) == list(PARSERS[wire](json.loads(raw)).layout.columns.digests)
            found.append(json.loads(mended)[array][0])
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0]["content"] == [{"type": kind, "text": LONG, "prompt_cache_breakpoint": {"mode": "explicit"}}]


def test_openai_s_own_decisions_stand() -> None:
    repairs, marked = (
        Repairs(["place-breakpoints"]),
        [{"type": "text", "text": LONG, "prompt_cache_breakpoint": {"mode": "explicit"}}],
    )
    for raw in (
        gpt("messages", marked),
        gpt("messages", LONG, model="gpt-5.1"),
        gpt("messages", "short"),
        gpt("messages", LONG, prompt_cache_options={"mode": "explicit"}),
    ):
        assert repairs("openai_chat", raw) is None
    assert repairs("openai_responses", gpt("input", LONG, instructions="Be brief.")) is None
    assert repairs("openai_responses", json.dumps({"model": "gpt-6.1-sol", "input": "hi"}).encode()) is None


# Gemini and the rest
# ------------------------------------------------------------------------------------------------------


def gemini(day: int, names: str, turns: int = 1) -> bytes:
    said = [{"role": ("user", "model")[n % 2], "parts": [{"text": f"größer {n}"}]} for n in range(2 * turns - 1)]
    tools = [
        {"googleSearch": {}},
        {"functionDeclarations": [{"name": name, "parameters": {"type": "object"}} for name in names]},
    ]
    system = {"parts": [{"text": f"It is 2026-11-{day}."}]}
    return json.dumps({"systemInstruction": system, "tools": tools, "contents": said}, indent=1).encode()


def test_gemini_s_functions_and_dates_stay_as_they_began() -> None:
    repairs = Repairs(list(REPAIRS))
    assert sent(repairs, gemini(21, "bca"), "gemini") == gemini(21, "abc")
    assert sent(repairs, gemini(22, "cab", 2), "gemini") == gemini(21, "abc", 2)


def test_what_a_repair_does_not_cover_passes_as_it_is() -> None:
    repairs = Repairs(list(REPAIRS))
    raw = body(1, tools=[tool("b"), tool("a")], system=f"{LONG}It is 2026-11-21.")
    for wire in ("bedrock_converse", "bedrock_invoke", "vertex_raw", "openai_completions"):
        assert repairs(wire, raw) is None


@pytest.mark.parametrize("value", ["system", [1], [{"role": 1}], [{"role": "user", "content": [3]}], {"a": 1}, None])
def test_a_body_of_another_form_passes_as_it_is(value: Any) -> None:
    repairs = Repairs(list(REPAIRS))
    for wire, array in (
        ("openai_chat", "messages"),
        ("openai_responses", "input"),
        ("gemini", "contents"),
        (WIRE, "messages"),
    ):
        raw = json.dumps(
            {"model": "gpt-6.1-sol", array: value, "tools": [value, {"functionDeclarations": value}]}
        ).encode()
        assert repairs(wire, raw) is None


# All of them
# --------------------------------------------------------------------------------------------------------------


def test_a_careless_conversation_becomes_one_that_only_grows() -> None:
    repairs, prompts = Repairs(list(REPAIRS)), []
    for turns in range(1, 6):
        tools = [tool(name) for name in ("dbca", "abcd", "cdab", "bacd", "dcba")[turns - 1]]
        raw = sent(repairs, body(turns, tools=tools, system=f"{LONG}It is 10:{30 + turns}."))
        prompts.append(PARSERS[WIRE](json.loads(raw)).prompt)
    for before, after in pairwise(prompts):
        assert (
            list(after.digests)[: before.n] == list(before.digests)
            and before.breakpoints
            and after.namespaces == before.namespaces
        )


def test_an_unknown_repair_is_refused() -> None:
    with pytest.raises(UsageError, match="choose among freeze-date"):
        Repairs(["sort-everything"])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(
    value=st.dictionaries(st.text(max_size=5), _JSON, max_size=5),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
)
def test_spans_are_those_of_the_values(value: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    found = members(raw)
    assert {json.loads(b'"' + key + b'"'): json.loads(raw[start:end]) for key, (start, end) in found.items()} == value
    listed = json.dumps(list(value.values()), indent=indent, ensure_ascii=ascii_only).encode()
    assert [json.loads(listed[start:end]) for start, end in elements(listed, 0)] == list(value.values())


@given(
    text=st.text(max_size=60),
    cuts=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6),
    new=st.text(max_size=5),
)
def test_a_rope_knows_its_own_bytes(text: str, cuts: list[tuple[int, int]], new: str) -> None:
    """Against slices of plain text, change after change."""
    raw = text.encode("ascii", "replace")
    rope, plain = Rope.of(raw), raw
    for one, other in cuts:
        start, end = sorted((min(one, len(plain)), min(other, len(plain))))
        rope = rope.replaced([(start, end, Rope.new(new.encode("ascii", "replace")))])
        plain = plain[:start] + new.encode("ascii", "replace") + plain[end:]
        assert bytes(rope) == plain
    found = Repaired(bytes(rope), ("x",), rope.shared())
    assert undone(found.body, undo_of(raw, found.shared, found.names)) == raw
