"""What differs between two calls: regions that, put in place of what stood there, give the later call back."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from contextkit.ledger.parsed_call import ParsedCall, compare, reach_of
from contextkit.prompt.diff import Change
from tests.lint.trace.calls import anthropic, assistant, paths, sent, text, tool, user

Json = Any
HISTORY = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
MORE = [assistant("f"), user("g")]


def changes(one: Json, other: Json) -> tuple[Change, ...]:
    before = sent(one)
    found = compare(before, sent(other))
    assert found == compare(before, sent(other, before=before))
    return found


def shown(found: tuple[Change, ...]) -> list[tuple[list[str], list[str]]]:
    return [(paths(change.was), paths(change.now)) for change in found]


def test_a_call_that_only_goes_on_has_no_changes() -> None:
    assert changes(anthropic(*HISTORY), anthropic(*HISTORY, *MORE)) == ()


def test_a_call_sent_again_has_no_changes() -> None:
    assert changes(anthropic(*HISTORY), anthropic(*HISTORY)) == ()


def test_marker_moves_are_no_changes_of_text() -> None:
    marked = [{**text(WORD), "cache_control": {"type": "ephemeral"}} for WORD in ("x", "y")]
    assert (
        changes(
            anthropic(*HISTORY, system=marked), anthropic(*HISTORY, *MORE, system=[text("x"), text("y")], mark=False)
        )
        == ()
    )


def test_the_order_of_a_blocks_own_keys_is_no_change_but_that_of_arguments_is() -> None:
    def asked(block: Json) -> Json:
        return anthropic(user("a"), {"role": "assistant", "content": [block]}, user("c"))

    one = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1, "b": 2}}
    assert changes(asked(one), asked(dict(reversed(one.items())))) == ()
    (change,) = changes(asked(one), asked({**one, "input": {"b": 2, "a": 1}}))
    assert paths(change.was) == ["messages[1].content[0]"]


def test_numbers_that_are_spelled_differently_are_a_change() -> None:
    one, other = ([{"type": "tool_use", "id": "t", "name": "f", "input": {"a": n}}] for n in (1, 1.0))
    body = [anthropic(user("a"), {"role": "assistant", "content": block}, user("c")) for block in (one, other)]
    assert len(changes(*body)) == 1


def test_a_tool_put_in_front_is_an_insertion() -> None:
    (change,) = changes(
        anthropic(*HISTORY, tools=[tool("b"), tool("c")]), anthropic(*HISTORY, tools=[tool("a"), tool("b"), tool("c")])
    )
    assert (change.level, change.at, change.was, paths(change.now), change.offset) == ("tools", 0, (), ["tools[0]"], 0)


def test_a_tool_put_behind_is_an_insertion_too() -> None:
    (change,) = changes(anthropic(*HISTORY, tools=[tool("a")]), anthropic(*HISTORY, tools=[tool("a"), tool("b")]))
    assert (change.level, change.at, paths(change.now), change.is_cached) == ("tools", 1, ["tools[1]"], True)


def test_tools_in_another_order_are_one_change() -> None:
    (change,) = changes(
        anthropic(*HISTORY, tools=[tool(name) for name in "abcde"]),
        anthropic(*HISTORY, tools=[tool(name) for name in "acdbe"]),
    )
    assert sorted(block.role for block in change.was) == sorted(block.role for block in change.now)
    assert (change.at, change.offset) == (1, change.offset)


def test_every_distinct_place_is_a_change_and_the_first_one_breaks() -> None:
    one = anthropic(*HISTORY, system=[text("x"), text("y")], tools=[tool("a"), tool("b")])
    edited = [user("A"), *HISTORY[1:4], user("E")]
    other = anthropic(*edited, *MORE, system=[text("x"), text("Y")], tools=[tool("a", "now"), tool("b")])
    found = changes(one, other)
    assert shown(found) == [
        (["tools[0]"], ["tools[0]"]),
        (["system[1]"], ["system[1]"]),
        (["messages[0].content[0]"], ["messages[0].content[0]"]),
        (["messages[4].content[0]"], ["messages[4].content[0]"]),
    ]
    assert [change.is_first for change in found] == [True, False, False, False]


def test_the_offset_is_where_the_bytes_part() -> None:
    (change,) = changes(anthropic(*HISTORY, system="It is 10:01"), anthropic(*HISTORY, system="It is 10:02"))
    assert change.offset == len(b'"It is 10:0')


def test_a_window_that_slides_takes_from_the_front() -> None:
    (change,) = changes(anthropic(*HISTORY), anthropic(*HISTORY[2:], *MORE))
    assert (paths(change.was), change.now) == (["messages[0].content[0]", "messages[1].content[0]"], ())


def test_a_reminder_that_was_not_kept_is_a_removal_and_the_reply_is_tail() -> None:
    (change,) = changes(anthropic(*HISTORY[:4], user("e", "remember!")), anthropic(*HISTORY, *MORE))
    assert (paths(change.was), change.now) == (["messages[4].content[1]"], ())


def test_a_last_message_that_was_edited_is_told_from_the_reply_behind_it() -> None:
    (change,) = changes(anthropic(*HISTORY[:4], user("e ")), anthropic(*HISTORY, *MORE))
    assert (paths(change.was), paths(change.now)) == (["messages[4].content[0]"], ["messages[4].content[0]"])


def test_messages_of_one_role_may_be_joined_on_anthropic_and_not_in_chat() -> None:
    one, other = (
        anthropic(user("a"), user("b"), assistant("c"), user("d")),
        anthropic(user("a", "b"), assistant("c"), user("d")),
    )
    assert changes(one, other) == ()
    chat = [
        {
            **{key: body[key] for key in ("model", "messages")},
            "messages": [{"role": "system", "content": "s"}, *body["messages"]],
        }
        for body in (one, other)
    ]
    assert len(compare(sent(chat[0], "openai_chat"), sent(chat[1], "openai_chat"))) == 1


def test_a_role_that_changes_is_a_change() -> None:
    asked = {"role": "user", "content": "x"}
    bodies = [
        {"model": "gpt-4o", "messages": [{"role": role, "content": "s"}, asked]} for role in ("system", "developer")
    ]
    (change,) = compare(*(sent(body, "openai_chat") for body in bodies))
    assert change.level == "system"


def test_deferred_tools_come_and_go_without_a_change() -> None:
    deferred = {**tool("z"), "defer_loading": True}
    assert changes(anthropic(*HISTORY, tools=[tool("a")]), anthropic(*HISTORY, tools=[tool("a"), deferred])) == ()
    assert (
        len(
            changes(anthropic(*HISTORY, tools=[tool("a"), deferred]), anthropic(*HISTORY, tools=[tool("a"), tool("z")]))
        )
        == 1
    )


def test_thinking_that_the_provider_takes_out_itself_may_be_left_out() -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, text("b")]}
    stripping, keeping = (
        [
            anthropic(user("a"), said, user("c"), assistant("d"), user("e"), model=model)
            for said in (thought, assistant("b"))
        ]
        for model in ("claude-sonnet-4-5", "claude-opus-4-5")
    )
    one, other = map(sent, stripping)
    assert compare(one, replace(other, call=replace(other.call, model="claude-sonnet-4-5"))) == ()
    assert len(changes(*keeping)) == 1


def test_what_the_server_remembers_is_not_missing() -> None:
    def asked(*items: Json, **more: Json) -> ParsedCall:
        body = {"model": "gpt-5.1", "instructions": "s", "input": list(items), **more}
        return sent(body, "openai_responses")

    one, two = ({"role": "user", "content": word} for word in "ab")
    assert compare(asked(one), asked(two, previous_response_id="r0")) == ()


@pytest.mark.parametrize(
    ("params", "marks", "reach"),
    [({}, (), 0), ({}, (1,), 2), ({}, (0, 1), 2), ({"cache_control": {"type": "ephemeral"}}, (), 7)],
)
def test_what_may_be_cached_ends_at_the_last_marker(params: Json, marks: tuple[int, ...], reach: int) -> None:
    system = [
        {**text(word), **({"cache_control": {"type": "ephemeral"}} if place in marks else {})}
        for place, word in enumerate("xy")
    ]
    before = sent(anthropic(*HISTORY, system=system, mark=False, **params))
    assert reach_of(before) == reach
    after = sent(anthropic(*HISTORY[:4], user("E"), *MORE, system=system, mark=False, **params))
    (change,) = compare(before, after)
    assert change.is_cached == (reach == 7)


def test_an_implicit_cache_keeps_everything() -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "x"}]}
    assert reach_of(sent(body, "openai_chat")) == 2


def rebuilt(before: ParsedCall, found: tuple[Change, ...], level: str) -> list[bytes]:
    """The blocks of a level of `before`, the changes carried out."""
    blocks = [block for block in before.blocks if block.level == level]
    at = next((place for place, block in enumerate(before.blocks) if block.level == level), 0)
    for change in reversed([change for change in found if change.level == level]):
        place = max(0, change.at - at)
        assert list(change.was) == blocks[place : place + len(change.was)]
        blocks[place : place + len(change.was)] = change.now
    return [block.body for block in blocks]


@pytest.mark.parametrize("seed", range(15))
def test_changes_carried_out_give_the_later_call(seed: int) -> None:
    random = Random(seed)
    words = [random.choice("aabcdefg") * 3 for _ in range(random.randrange(2, 12))]
    names = random.sample("abcdefgh", random.randrange(1, 6))

    def body(words: list[str], names: list[str]) -> Json:
        said = [(user, assistant)[i % 2](word) for i, word in enumerate(words)]
        return anthropic(
            *said, user("last"), tools=[tool(name) for name in names], system=[text(name) for name in names[:2]]
        )

    def edited(items: list[str]) -> list[str]:
        new = list(items)
        for _ in range(random.randrange(4)):
            place = random.randrange(len(new) + 1)
            new[place : place + random.randrange(2)] = random.sample("xyzab", random.randrange(2))
        return new if random.random() < 0.7 else random.sample(new, len(new))

    before, after = (
        sent(body(words, names)),
        sent(body([*edited(words), "more"], list(dict.fromkeys(edited(names))) or ["a"])),
    )
    found = compare(before, after)
    for level in ("tools", "system", "messages"):
        then, now = rebuilt(before, found, level), [block.body for block in after.blocks if block.level == level]
        assert then == now[: len(then)]
        assert level == "messages" or len(then) == len(now)
    assert [change.at for change in found] == sorted(change.at for change in found)
