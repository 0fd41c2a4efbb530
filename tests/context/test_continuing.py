"""Conversations that go on from what the server keeps: the same prompts and bills, and only what is new on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.canonical import parse
from contextkit.errors import InvalidCall, UsageError
from contextkit.ledger.calls import ModelCall
from contextkit.server import LocalServer
from tests.context.desk import WIRES, Desk, asks, bill, goes_on, honest, refuses, says
from tests.context.head import SYSTEM, add, shout

MODEL = "gpt-6.1-sol"
THINKS: dict[str, Any] = {"type": "thinking", "thinking": "Let me see. " * 40}


@pytest.fixture
def desk(running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES["responses"], running)


@contextmanager
def client(desk: Desk) -> Iterator[openai.OpenAI]:
    with desk.client() as made:
        yield made


def begun(desk: Desk, way: str = "response", **options: Any) -> Context:
    """A conversation that goes on by the last response, in a conversation of its own, or by sending everything."""
    given: dict[str, Any] = {"response": {"continues": True}, "whole": {}}.get(way, {})
    if way == "conversation":
        with client(desk) as made:
            given = {"conversation": made.conversations.create().id}
    params = options.pop("params", {})
    provider = OpenAIResponses(MODEL, max_output_tokens=1024, **given, **params)
    return Context(provider, **{"system": SYSTEM, "tools": [add, shout], "clock": desk.server.clock.now, **options})


def thought(text: str, *calls: tuple[str, dict[str, Any]]) -> Any:
    script = asks(*calls, text=text) if calls else says(text)
    return {**script, "parts": [THINKS, *script["parts"]]}


def work(desk: Desk, context: Context, turns: int) -> list[int]:
    """Turns with two tool calls each; gives the sizes of the bodies that left."""
    sizes = []
    for turn in range(turns):
        context.user(f"Question {turn}: what is {turn} and {turn}? " * 5)
        calls = ("add", {"a": turn, "b": turn}), ("shout", {"text": f"x{turn}" * 40})
        desk.server.script([thought("I add.", *calls), thought("It is done.")])
        while not context.finished:
            request = context.request()
            sizes.append(len(request.body))
            with client(desk) as made:
                context.receive(request.send(made), request)
            for call in context.calls:
                context.result(call, call.run())
    return sizes


def prompts(calls: Any) -> list[Any]:
    """What a cache sees of each call that was answered: every digest, size and place."""
    found = []
    for call, prompt in calls.prompts():
        assert isinstance(call, ModelCall)
        if call.error is None:
            assert prompt is not None
            seen = (
                tuple(prompt.digests[: prompt.n]),
                tuple(prompt.ends_tokens[: prompt.n]),
                prompt.namespaces,
                prompt.level_ends,
            )
            found.append((*seen, bill(call.usage)))
    return found


@pytest.mark.parametrize("way", ["response", "conversation"])
def test_ten_turns_with_tools_are_read_and_billed_as_if_everything_had_been_sent(desk: Desk, way: str) -> None:
    whole = begun(desk, "whole")
    sent = work(desk, whole, 10)
    predicted = [bill(call.predicted) for call in whole.ledger]
    desk.server.reset()
    context = begun(desk, way)
    sizes = work(desk, context, 10)
    assert [bill(call.predicted) for call in context.ledger] == predicted
    assert [bill(call.usage) for call in context.ledger] == predicted == [bill(call.usage) for call in whole.ledger]
    assert prompts(context.ledger) == prompts(desk.server.ledger), "what the server understood is what the log says"
    assert sizes[0] > len(SYSTEM) and max(sizes[1:]) < 2_000 < min(sent)
    assert context.summary().misses[1:] == () and len(context.log) == len(whole.log)
    honest(desk, context)


def test_a_body_is_the_fields_the_tools_and_what_was_said_since(desk: Desk) -> None:
    context = begun(desk)
    context.user("one")
    desk.ask(context, thought("first"))
    context.user("two")
    request = context.request(temperature=0.5)
    whole = begun(desk, "whole")
    whole.user("one")
    assert dict(request) == parse(request.body) and list(request["tools"][0]) == list(whole.request()["tools"][0])
    assert (
        request["previous_response_id"] == parse(context.log[2].body)["stored"]["id"] and request["temperature"] == 0.5
    )
    assert request["input"] == [{"role": "user", "content": [{"type": "input_text", "text": "two"}]}]
    assert request.layout.n == 7 and request.layout.n_bytes > len(SYSTEM) > len(request.body), (
        "the prompt is the whole one"
    )
    with client(desk) as made:
        context.receive(made.responses.create(**request), request)  # type: ignore[call-overload]
    assert bill(context.ledger[-1].usage) == bill(request.predicted)
    goes_on(desk, context)


def test_streams_and_async_clients_go_on_too(desk: Desk) -> None:
    context = begun(desk)
    desk.server.script([says("first"), says("second"), says("third"), says("fourth")])

    async def story() -> None:
        async with desk.async_client() as made:
            for text, is_stream in (("one", False), ("two", True)):
                context.user(text)
                request = context.request()
                if is_stream:
                    async for _ in context.stream(await request.stream(made), request):
                        pass
                else:
                    context.receive(await request.asend(made), request)

    asyncio.run(story())
    with client(desk) as made:
        for text in ("three", "four"):
            context.user(text)
            request = context.request()
            for _ in context.stream(request.stream(made), request):
                pass
            assert len(request.body) < 1_500
    assert prompts(context.ledger) == prompts(desk.server.ledger)
    honest(desk, context)


def test_a_conversation_opened_again_goes_on_from_its_last_response(desk: Desk, tmp_path: Path) -> None:
    options: Any = {"system": SYSTEM, "tools": [add, shout], "clock": desk.server.clock.now}
    provider = OpenAIResponses(MODEL, max_output_tokens=1024, continues=True)
    with Context.open(tmp_path / "run", provider, **options) as context:
        context.user("one")
        desk.ask(context, asks(("add", {"a": 1, "b": 2})))
        context.result(context.calls[0], 3)
        here = context.request()
    with Context.open(tmp_path / "run", provider, **options) as again:
        assert again.request().body == here.body and b"previous_response_id" in here.body and len(here.body) < 1_500
        assert bill(again.request().predicted) == bill(here.predicted)
        goes_on(desk, again, says_something=False)
        goes_on(desk, again)
    with Context.open(tmp_path / "run", OpenAIResponses(MODEL, max_output_tokens=1024), **options) as plain:
        assert len(goes_on(desk, plain).body) > len(SYSTEM), "the log is the truth: it can be sent whole at any time"
    with Context.open(tmp_path / "run", provider, **options) as last:
        last.user("On.")
        assert last.request().continued is not None and "does not keep" in last.request().continued.whole
        goes_on(desk, last)
        assert goes_on(desk, last).body.startswith(b'{"model":"gpt-6.1-sol","max_output_tokens":1024,"store":true')


def test_branches_go_on_from_the_response_they_branch_off(desk: Desk) -> None:
    context = begun(desk)
    names = []
    for text in ("one", "two"):
        context.user(text)
        names.append(desk.ask(context, says(text.upper())) and parse(context.log[-1].body)["stored"]["id"])
    edited, undone = context.fork(context.log[2]), context.fork(context.log[1])
    edited.user("two, but better")
    assert edited.request()["previous_response_id"] == names[0]
    assert "previous_response_id" not in undone.request()
    for branch in (edited, undone, context.fork()):
        goes_on(desk, branch, says_something=branch is not undone)
        assert prompts(branch.ledger)[-1] == prompts(desk.server.ledger)[-1]
        goes_on(desk, branch)
    side = context.spawn("A task of its own.")
    assert "previous_response_id" not in side.request()
    goes_on(desk, context)
    assert context.request().continued is not None


def test_an_epoch_another_head_or_another_model_sends_everything_once(desk: Desk) -> None:
    context = begun(desk)
    context.user("one")
    desk.ask(context, says("first"))
    changes: list[tuple[Any, str]] = [
        (lambda: context.compact("So far: one."), "an epoch"),
        (lambda: context.resystem(SYSTEM + "Be brief."), "an epoch"),
        (lambda: context.retool([add]), "an epoch"),
        (lambda: context.switch(OpenAIResponses("gpt-6.1-terra", continues=True)), "another model"),
        (lambda: context.switch(OpenAIResponses(MODEL, continues=True)), "another model"),
    ]
    for change, why in changes:
        change()
        context.user("On.")
        whole = context.request()
        assert whole.continued is not None and why in whole.continued.whole and "previous_response_id" not in whole
        goes_on(desk, context, says_something=False)
        assert b"previous_response_id" in goes_on(desk, context).body
        assert prompts(context.ledger)[-1] == prompts(desk.server.ledger)[-1]


def test_words_for_one_reply_and_a_call_that_keeps_nothing_are_not_gone_on_from(desk: Desk) -> None:
    context = begun(desk)
    context.user("one")
    desk.ask(context, says("first"))
    context._append("notice", {"text": "Still to do: all.", "event": {"type": "todo"}, "until": "reply"})
    context.user("two")
    assert b"previous_response_id" in desk.ask(context, says("second")).body
    context.user("three")
    assert "behind other words" in desk.ask(context, says("third")).continued.whole  # type: ignore[union-attr]
    context.user("four")
    desk.server.script([says("fourth")])
    request = context.request(store=False)
    with client(desk) as made:
        context.receive(request.send(made), request)
    assert b"previous_response_id" in request.body
    assert len(goes_on(desk, context).body) > len(SYSTEM)
    assert prompts(context.ledger) == prompts(desk.server.ledger)


def test_a_response_that_is_gone_is_an_error_once_and_the_next_request_says_everything(desk: Desk) -> None:
    context = begun(desk)
    context.user("one")
    desk.ask(context, says("first"))
    with client(desk) as made:
        made.responses.delete(parse(context.log[-1].body)["stored"]["id"])
        context.user("two")
        with pytest.raises(openai.BadRequestError, match="not found"):
            context.request().send(made)
        request = context.request()
        assert request.continued is not None and request.continued.whole == "the server does not have the last reply"
        goes_on(desk, context, says_something=False)
        assert b"previous_response_id" in goes_on(desk, context).body
        made.responses.delete(parse(context.log[-1].body)["stored"]["id"])
        context.user("three")
        fields = dict(context.request())
        with pytest.raises(openai.BadRequestError) as caught:
            made.responses.create(**fields)
        context.failed(caught.value)  # who sends with the typed method says so
        goes_on(desk, context, says_something=False)
    assert [call.error for call in context.ledger if call.error] == ["400 invalid_request_error"] * 2


def test_a_project_that_keeps_nothing_is_asked_twice_and_then_told_everything(desk: Desk) -> None:
    context = begun(desk)
    n_errors = 0
    with client(desk) as made:
        for turn in range(6):
            context.user(f"{turn}")
            try:
                context.receive(context.request().send(made))
            except openai.BadRequestError:
                n_errors += 1
                context.receive(context.request().send(made))
            made.responses.delete(parse(context.log[-1].body)["stored"]["id"])
    assert n_errors == 2 and len(context.ledger) == 8


def test_a_refusal_of_another_kind_changes_nothing(desk: Desk) -> None:
    context = begun(desk)
    context.user("one")
    desk.ask(context, says("first"))
    context.user("two")
    body = context.request().body
    for script in (
        refuses(429),
        {"fault": {"kind": "never"}},
        {**says("x"), "fault": {"kind": "cut", "after_parts": 0}},
    ):
        with pytest.raises(openai.APIError):
            desk.ask(context, script)
        assert context.request().body == body
    desk.ask(context, says("second"))
    assert prompts(context.ledger) == prompts(desk.server.ledger)


# In a conversation
# ------------------------------------------------------------------------------------------------------------


def held(desk: Desk, context: Context) -> list[str]:
    """Roles and types of what the conversation holds."""
    name = context.provider.continuing.conversation  # type: ignore[attr-defined]
    with client(desk) as made:
        return [getattr(item, "role", item.type) for item in made.conversations.items.list(name, order="asc")]


def test_a_branch_never_writes_into_its_parents_conversation(desk: Desk) -> None:
    context = begun(desk, "conversation")
    early = context.fork()
    context.user("one")
    desk.ask(context, says("first"))
    before = held(desk, context)
    for branch in (early, context.fork(), context.fork(1), context.spawn("Look it up."), *context.fan_out(["a", "b"])):
        branch.user("Elsewhere.")
        request = branch.request()
        assert b"conv_" not in request.body and len(request.body) > len(SYSTEM)
        goes_on(desk, branch, says_something=False)
    assert held(desk, context) == before == ["developer", "user", "assistant"]
    with client(desk) as made:
        other = made.conversations.create().id
    branch = context.fork()
    branch.provider = OpenAIResponses(MODEL, max_output_tokens=1024, conversation=other)
    assert len(goes_on(desk, branch).body) > len(SYSTEM) > len(goes_on(desk, branch).body)
    assert held(desk, branch) == ["developer", *["user", "assistant"] * 3]
    assert len(goes_on(desk, context).body) < 1_500 and prompts(context.ledger)[-1] == prompts(desk.server.ledger)[-1]


def test_a_branch_on_disk_opened_with_its_parents_conversation_stays_out_of_it(desk: Desk, tmp_path: Path) -> None:
    with client(desk) as made:
        name = made.conversations.create().id
    provider = OpenAIResponses(MODEL, max_output_tokens=1024, conversation=name)
    options: Any = {"system": SYSTEM, "tools": [add, shout], "clock": desk.server.clock.now}
    with Context.open(tmp_path / "run", provider, **options) as context:
        context.user("one")
        desk.ask(context, says("first"))
        context.fork(folder=tmp_path / "branch").close()
    with Context.open(tmp_path / "branch", provider, **options) as branch:
        branch.user("two")
        assert "not written into this conversation by this log" in branch.request().continued.whole  # type: ignore[union-attr]
        assert b"conv_" not in desk.ask(branch, says("elsewhere")).body
    with Context.open(tmp_path / "run", provider, **options) as context:
        assert len(goes_on(desk, context).body) < 1_500
        assert held(desk, context) == ["developer", *["user", "assistant"] * 2]


def test_after_an_epoch_the_conversation_is_left_as_it_is(desk: Desk) -> None:
    context = begun(desk, "conversation")
    context.user("one")
    desk.ask(context, says("first"))
    before = held(desk, context)
    context.compact("So far: one.")
    for _ in range(2):
        assert b"conv_" not in goes_on(desk, context).body
    assert held(desk, context) == before
    assert prompts(context.ledger) == prompts(desk.server.ledger)


@pytest.mark.parametrize(
    ("fault", "is_written"),
    [
        (refuses(429), True),
        ({**says("x"), "fault": {"kind": "cut", "after_parts": 0}}, False),
        ({"fault": {"kind": "never"}}, False),
    ],
)
def test_where_nobody_knows_whether_a_call_was_written_nothing_more_is(
    desk: Desk, fault: Any, is_written: bool
) -> None:
    context = begun(desk, "conversation")
    context.user("one")
    desk.ask(context, says("first"))
    context.user("two")
    with pytest.raises(openai.APIError):
        desk.ask(context, fault)
    assert (b"conv_" in context.request().body) == is_written
    for _ in range(2):
        desk.ask(context, says("second"))
        context.user("three")
    assert prompts(context.ledger)[-1] == prompts(desk.server.ledger)[-1]


def test_a_reply_that_the_log_does_not_keep_is_the_last_that_is_written_into_its_conversation(desk: Desk) -> None:
    context = begun(desk, "conversation")
    context.user("one")
    desk.ask(context, says("first"))
    context.user("two")
    older, newer = context.request(), context.request()
    desk.server.script([says("second"), says("late")])
    with client(desk) as made:
        context.receive(older.send(made), older)
        with pytest.raises(InvalidCall):
            context.receive(newer.send(made), newer)
    context.user("three")
    assert b"conv_" not in desk.ask(context, says("third")).body
    assert prompts(context.ledger)[-1] == prompts(desk.server.ledger)[-1]


def test_a_conversation_that_is_gone_is_done_without(desk: Desk) -> None:
    context = begun(desk, "conversation")
    context.user("one")
    desk.ask(context, says("first"))
    with client(desk) as made:
        made.conversations.delete(context.provider.continuing.conversation)  # type: ignore[attr-defined]
        context.user("two")
        with pytest.raises(openai.NotFoundError):
            context.request().send(made)
    goes_on(desk, context, says_something=False)


# Options
# ----------------------------------------------------------------------------------------------------------------------


def test_options_that_exclude_each_other() -> None:
    for given, words in (
        ({"continues": True, "conversation": "conv_1"}, "exclude each other"),
        ({"continues": True, "store": False}, "keeps nothing"),
        ({"conversation": "conv_1", "store": False}, "keeps nothing"),
    ):
        with pytest.raises(UsageError, match=words):
            OpenAIResponses(MODEL, **given)  # type: ignore[arg-type]
    assert (
        OpenAIResponses(MODEL).params["store"] is False
        and OpenAIResponses(MODEL, continues=True).params["store"] is True
    )
    for name in ("previous_response_id", "conversation"):
        with pytest.raises(UsageError, match="the log says that"):
            Context(OpenAIResponses(MODEL, continues=True)).request(**{name: "x"})


# Requests that only fill the cache
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["whole", "response", "conversation"])
def test_a_prewarm_is_billed_as_a_write_and_says_nothing(desk: Desk, way: str) -> None:
    context = begun(desk, way, params={"prompt_cache_options": {"ttl": "12h"}})
    context.user("one")
    with client(desk) as made:
        for _ in range(2):
            request = context.prewarm()
            assert context.receive(request.send(made), request) is None
        assert request["prompt_cache_options"] == {"ttl": "12h", "prewarm": True}
        written, read = (call.usage for call in context.ledger)
        assert written is not None and read is not None
        assert (
            (written.write_1h or 0) > 1_000 and written.output == 0 == read.write_1h and read.read == written.write_1h
        )
        desk.ask(context, says("first"))
        context.user("two")
        request = context.prewarm()
        context.receive(request.send(made), request)
        assert [bill(call.usage) for call in context.ledger] == [bill(call.predicted) for call in context.ledger]
    assert [entry.kind for entry in context.log] == ["opened", "user", "assistant", "user"]
    assert len(goes_on(desk, context, says_something=False).body) < 1_500 or way == "whole"


def test_endpoints_without_a_prewarm_say_so() -> None:
    assert Context(AnthropicMessages("claude-opus-5-5", max_tokens=9), system="x").prewarm()["max_tokens"] == 0
    for provider in (OpenAIChat(MODEL), OpenAIResponses("gpt-5.5")):
        with pytest.raises(UsageError, match="no request that only fills the cache"):
            Context(provider).prewarm()
