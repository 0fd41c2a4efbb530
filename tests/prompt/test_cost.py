"""What a turn costs, counted rather than timed: the work is in what was said since, never in what was said before."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.prompt.breakpoints import Plan, plan
from contextkit.prompt.prompt import PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.anthropic.messages import GRAMMAR
from contextkit.providers.provider import Provider
from tests.benchmarks.conversations import Talk

PROVIDERS: dict[str, Callable[[], Provider]] = {
    "anthropic": lambda: AnthropicMessages("claude-sonnet-5-5", max_tokens=1024),
    "anthropic, thinking stripped": lambda: AnthropicMessages("claude-haiku-4-5", max_tokens=1024),
    "openai chat, marks": lambda: OpenAIChat("gpt-6.1-sol"),
    "openai responses": lambda: OpenAIResponses("gpt-6.1-sol"),
}


@contextmanager
def counted(events: str) -> Iterator[Counter[tuple[str, str]]]:
    """(module, name) → how often: `call` counts Python functions, `c_call` C functions under the module that calls
    them."""
    found: Counter[tuple[str, str]] = Counter()

    def see(frame: FrameType, event: str, argument: Any) -> None:
        if event == events:
            found[
                frame.f_globals.get("__name__", ""), frame.f_code.co_qualname if event == "call" else argument.__name__
            ] += 1

    sys.setprofile(see)
    try:
        yield found
    finally:
        sys.setprofile(None)


def steps(work: Callable[[], object]) -> Counter[str]:
    """Module → bytecodes run in it: loops count, which no counter of calls would see."""
    found: Counter[str] = Counter()

    def see(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        found[frame.f_globals.get("__name__", "")] += event == "opcode"
        return see

    before = sys.gettrace()
    sys.settrace(see)
    try:
        work()
    finally:
        sys.settrace(before)
    return found


_seeds = count()


def talk(name: str) -> Talk:
    """One that nobody had before: blocks that were cut once are remembered, in whatever test."""
    return Talk(PROVIDERS[name](), n_letters=40, seed=next(_seeds))


def appended(context: Context) -> int:
    with counted("call") as calls:
        context.request()
    return calls["contextkit.prompt.prompt", "PromptColumns.append"]


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_request_appends_what_was_said_since_the_last_one(name: str) -> None:
    going = talk(name)
    context = going.until(100)
    so_far = len(context.request().layout.columns)
    going.until(101)
    new = appended(context)
    assert 2 <= new <= 3  # a reply (speech and call, or one message) and a result
    assert len(context.request().layout.columns) == so_far + new
    assert appended(context) == 0
    for _ in range(7):
        context.user("and this")
    assert (appended(context), appended(context)) == (7, 0)


def test_each_segment_is_hashed_once() -> None:
    going = talk("anthropic")
    context = going.until(100)
    so_far = len(context.request().layout.columns)
    with counted("c_call") as calls:
        going.until(110)
        context.request()
    assert calls["contextkit.prompt.prompt", "digest"] == len(context.request().layout.columns) - so_far


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_turn_takes_the_same_steps_however_long_the_conversation(name: str) -> None:
    going = talk(name)
    going.until(50)
    early = steps(lambda: going.until(51))
    going.until(500)
    late = steps(lambda: going.until(501))
    assert late.total() <= 1.1 * early.total()
    # A binary search takes a few steps more in a longer conversation; everything else takes none.
    grown = {
        module: (early[module], n)
        for module, n in late.items()
        if module.startswith("contextkit") and n > 1.3 * early[module]
    }
    assert not grown


def test_what_a_user_says_takes_the_same_steps_however_long_the_conversation() -> None:
    going = talk("anthropic")

    def said() -> None:
        for _ in range(5):
            going.context.user(f"{going.call_id}, and {len(going.context.log)}")
        going.context.request()

    going.until(50).request()
    early = steps(said).total()
    going.until(400).request()
    assert steps(said).total() <= 1.1 * early


def test_stripping_thinking_recounts_what_was_said_since_the_users_last_turn() -> None:
    def turns(n: int) -> Iterator[RenderedBlock]:
        for _ in range(n):
            yield RenderedBlock(
                "messages", "user", b'{"type":"text","text":"go on"}', 10, opener=b"[", closer=b"]", is_turn=True
            )
            yield RenderedBlock(
                "messages",
                "assistant",
                b'{"type":"thinking"}',
                10,
                opener=b"[",
                closer=b"]",
                can_hold_breakpoint=False,
                is_thinking=True,
            )
            yield RenderedBlock("messages", "", b'{"type":"text","text":"well"}', 10)

    columns = PromptColumns(GRAMMAR, strips_thinking=True)
    columns.extend(turns(50))
    early = steps(lambda: columns.extend(turns(1))).total()
    columns.extend(turns(1000))
    assert len(columns.silent) == 1050
    assert steps(lambda: columns.extend(turns(1))).total() == early


def test_the_planner_takes_the_same_steps_however_long_the_conversation() -> None:
    def columns(n: int) -> PromptColumns:
        columns = PromptColumns(GRAMMAR)
        columns.append(RenderedBlock("system", "", b'{"type":"text","text":"be brief"}', 2000))
        for index in range(n):
            columns.append(
                RenderedBlock(
                    "messages",
                    ("user", "assistant")[index % 2],
                    b'{"type":"text","text":"hi"}',
                    10,
                    opener=b"[",
                    closer=b"]",
                )
            )
        return columns

    few, many = columns(50), columns(5000)
    assert len(plan(many, 5001, 4950, Plan())) == 3
    few_steps = steps(lambda: plan(few, 51, 20, Plan())).total()
    assert few_steps < 1000
    assert steps(lambda: plan(many, 5001, 4970, Plan())).total() == few_steps


def test_a_body_is_joined_from_few_slices() -> None:
    context = talk("anthropic").until(300)
    request = context.request()
    marks = len(request.layout.breakpoints)
    assert 1 <= marks <= 3
    assert len(list(request.layout.slices())) == 2 * marks + 2


def test_a_body_that_is_being_joined_stays_as_it_was_while_the_conversation_grows() -> None:
    going = talk("anthropic")
    request = going.until(20).request()
    body = request.body
    held: PromptLayout = request.layout
    slices = list(held.slices())
    going.until(40)
    later = going.context.request()
    assert b"".join(slices) == b"".join(held.slices())
    assert request.body == body
    assert later.body.startswith(body[:1000]) and len(later.body) > len(body)
