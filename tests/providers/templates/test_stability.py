"""Where a template stops keeping each prompt a prefix of the next: found, put down to its cause, and mended by what was
proven to help."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from contextkit import Context
from contextkit.errors import UsageError

pytest.importorskip("jinja2", reason="chat templates need the extra `templates`")

from contextkit.providers.openai_compatible import OpenAICompatible
from contextkit.providers.templates import Template, check_prefix_stable
from contextkit.providers.templates.stability import Instability, calls_of
from tests.providers.templates.families import BODY, CALL, FAMILIES, MESSAGES, OTHER, TOOL

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LONG = {
    **BODY,
    "messages": [
        *MESSAGES,
        {"role": "assistant", "content": "Welcome. ", "reasoning_content": "Polite."},
        {"role": "user", "content": "One more "},
        {"role": "assistant", "content": None, "reasoning_content": "Again.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "again found"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Bye"},
    ],
}


def checked(name: str, conversation: Any = LONG) -> list[Instability]:
    return check_prefix_stable(Template(FAMILIES[name]), conversation, at=NOON)


def is_mended(name: str, found: Instability) -> bool:
    """The advice, taken by hand: options into every body, an edit into the text."""
    remedy, text, body = found.remedies[0], FAMILIES[name], LONG
    if remedy.kind == "option":
        body = {**LONG, "chat_template_kwargs": remedy.options}
    else:
        lines = text.splitlines(keepends=True)
        line = lines[remedy.line - 1]
        assert remedy.was in line
        text = "".join([*lines[: remedy.line - 1], line.replace(remedy.was, remedy.now, 1), *lines[remedy.line :]])
    again = check_prefix_stable(Template(text), body, at=NOON)
    return all(row.cause != found.cause for row in again)


EXPECTED: dict[str, tuple[str, int, str]] = {
    "drops": ("thinking", 2, "option"),
    "drops_hard": ("thinking", 2, "edit"),
    "dated": ("date", -1, "option"),
    "dated_hard": ("date", -1, "edit"),
    "floats": ("tools_float", 0, "edit"),
    "opens": ("generation_prompt", 2, ""),
    "trims": ("whitespace", 1, "caller"),
    "prints_choice": ("tool_choice", -1, "caller"),
}
"""Template → cause, message where the prompts part, kind of the first remedy."""


def test_a_template_that_only_appends_is_stable() -> None:
    assert checked("stable") == []


@pytest.mark.parametrize("name", EXPECTED)
def test_each_habit_is_found_where_it_breaks_and_what_is_advised_helps(name: str) -> None:
    (found,) = checked(name)
    cause, message, kind = EXPECTED[name]
    assert (found.cause, found.message, next((remedy.kind for remedy in found.remedies), "")) == (cause, message, kind)
    assert found.was[:1] != found.now[:1] and found.lost_chars > 0
    assert kind not in ("option", "edit") or is_mended(name, found)


def test_the_option_a_template_has_is_named() -> None:
    assert checked("drops")[0].remedies[0].words == "chat_template_kwargs={'preserve_thinking': True}"
    assert checked("dated")[0].remedies[0].options == {"date_string": "01 Jan 2026"}
    dated, body = Template(FAMILIES["dated"]), {**LONG, "chat_template_kwargs": {"date_string": "01 Jan 2026"}}
    assert dated.render(body, at=NOON + timedelta(days=9)) == dated.render(body, at=NOON)


def test_it_says_which_calls_lose_how_much_in_tokens_too() -> None:
    template = Template(FAMILIES["drops"], encode=lambda text: list(text.encode()))
    (found,) = check_prefix_stable(template, LONG, at=NOON)
    calls = calls_of(LONG)
    parted = []
    for index, (one, other) in enumerate(pairwise(calls)):
        answered = {**one, "messages": other["messages"][: len(one["messages"]) + 1]}
        if not template.render(other, at=NOON).startswith(
            template.render(answered, generation=False, at=NOON).rstrip()
        ):
            parted.append(index)
    assert list(found.turns) == parted
    first = template.render({**LONG, "messages": LONG["messages"][:5]}, generation=False, at=NOON).rstrip()
    assert (found.offset + found.lost_chars, found.lost_tokens) == (len(first), len(first[found.offset :].encode()))


def changed(**fields: Any) -> list[Any]:
    """Two calls, the second with other fields."""
    first = {**BODY, "messages": MESSAGES[:4]}
    return [first, {**BODY, **fields}]


@pytest.mark.parametrize(
    ("conversation", "cause", "message"),
    [
        (changed(tools=[OTHER, TOOL]), "tools", -1),
        (changed(chat_template_kwargs={"preserve_thinking": False}), "kwargs", 2),
        (changed(messages=[MESSAGES[0], {"role": "user", "content": "Find this."}, *MESSAGES[2:]]), "history", 1),
        (changed(messages=MESSAGES[:1] + MESSAGES[2:]), "history", 1),
    ],
)
def test_what_the_caller_changed_is_put_down_to_the_caller(conversation: Any, cause: str, message: int) -> None:
    conversation[0] = {
        **conversation[0],
        **({"chat_template_kwargs": {"preserve_thinking": True}} if cause == "kwargs" else {}),
    }
    name = "drops" if cause == "kwargs" else "stable"
    found = [row for row in checked(name, conversation) if row.cause == cause]
    assert len(found) == 1 and found[0].message == message
    assert [remedy.kind for remedy in found[0].remedies] == ["caller"]


def test_a_choice_that_changed_is_found_in_the_calls_and_told_once() -> None:
    (found,) = checked("prints_choice", changed(tool_choice="required"))
    assert (found.cause, found.turns[-1:], found.offset) == ("tool_choice", (1,), 0)


def test_a_context_is_checked_as_it_would_be_sent() -> None:
    context = Context.from_messages(OpenAICompatible("m", host="sglang"), BODY)
    found = check_prefix_stable(Template(FAMILIES["drops"]), context, at=NOON)
    assert [(row.cause, row.message) for row in found] == [("thinking", 2)]
    assert check_prefix_stable(Template(FAMILIES["stable"]), context, at=NOON) == []


def test_what_is_no_conversation_says_so() -> None:
    for given in ([], {}, [{"model": "m"}], {"messages": []}):
        with pytest.raises(UsageError, match="no messages"):
            check_prefix_stable(Template(FAMILIES["stable"]), given)
