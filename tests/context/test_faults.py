"""What goes wrong on the way to the provider and back: each time the next request is valid, and the ledger says what is
known."""

from __future__ import annotations

import gc
from typing import Any

import anthropic
import openai
import pytest

from contextkit import Usage
from contextkit.errors import UnreadableReply, UsageError
from tests.context.desk import CUT_BEFORE, Desk, asks, bill, goes_on, honest, refuses, says

REFUSED = (anthropic.APIStatusError, openai.APIStatusError)
UNREACHED = (anthropic.APIConnectionError, openai.APIConnectionError)
LONG = "A sentence that takes several events to stream, so that there is a middle. " * 6


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between the SDKs' attempts."""
    for sdk in (anthropic, openai):
        monkeypatch.setattr(
            f"{sdk.__name__}._base_client.BaseClient._calculate_retry_timeout", lambda *args, **options: 0.0
        )


def test_an_attempt_the_sdk_repeats_is_one_call(desk: Desk) -> None:
    context = desk.context("one")
    desk.server.script([refuses(529), CUT_BEFORE, says("at last")])
    with desk.client(max_retries=2) as client:
        context.receive(context.request().send(client))
    assert [call.error is None for call in desk.server.ledger] == [False, False, True]
    assert len(context.ledger) == 1 and len(context.log) == 3
    goes_on(desk, context)


@pytest.mark.parametrize(
    ("script", "said"),
    [(refuses(400), "400 "), (refuses(529), "529 "), (CUT_BEFORE, "APIConnectionError")],
    ids=["refused", "overloaded", "cut"],
)
def test_an_error_is_raised_and_noted_without_a_bill(desk: Desk, script: Any, said: str) -> None:
    context = desk.context("one")
    desk.server.script([script])
    with desk.client() as client, pytest.raises((*REFUSED, *UNREACHED)):
        context.request().send(client)
    [failed] = context.ledger
    assert failed.error and failed.error.startswith(said) and "Scripted" not in failed.error
    assert (failed.usage, failed.first_byte_at) == (None, None)
    assert len(context.log) == 2
    goes_on(desk, context)
    honest(desk, context)


def test_an_error_of_the_typed_method_is_noted_when_it_is_told(desk: Desk) -> None:
    context = desk.context("one")
    desk.server.script([refuses(429)])
    with desk.client() as client, pytest.raises(REFUSED) as caught:
        desk.wire.create(client)(**context.request())
    assert len(context.ledger) == 0
    context.failed(caught.value)
    assert [call.error for call in context.ledger] == ["429 rate_limit_error"]
    goes_on(desk, context)


def test_a_response_that_breaks_off(desk: Desk) -> None:
    context = desk.context("one")
    desk.server.script([says(LONG, fault={"kind": "cut", "after_parts": 1})])
    with desk.client() as client, pytest.raises(Exception, match=r".") as caught:
        context.request().send(client)
    assert not isinstance(caught.value, UsageError)
    assert len(context.ledger) == 1 and context.ledger[0].error and context.ledger[0].usage is None
    desk.ask(context, says("again"))
    assert context.finished


CUTS: list[tuple[str, Any]] = [
    ("before any part", says(LONG, fault={"kind": "cut", "after_parts": 0})),
    ("behind text", asks(("add", {"a": 1, "b": 2}), text=LONG, fault={"kind": "cut", "after_parts": 1})),
    (
        "behind a call",
        asks(("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": 2}), fault={"kind": "cut", "after_parts": 1}),
    ),
    ("error", says(LONG, fault={"kind": "error_event", "after_parts": 1})),
]


@pytest.mark.parametrize("script", [script for _, script in CUTS], ids=[name for name, _ in CUTS])
def test_a_cut_stream_is_in_the_ledger_and_not_in_the_log(desk: Desk, script: Any) -> None:
    context = desk.context("one")
    desk.server.script([script])
    request = context.request()
    with desk.client() as client, pytest.raises(Exception, match=r".") as caught:
        list(context.stream(request.stream(client)))
    assert not isinstance(caught.value, KeyError | TypeError | AttributeError)
    assert len(context.log) == 2 and context.calls == []
    [failed] = context.ledger
    assert failed.error and failed.first_byte_at == 1000.0
    assert failed.usage is None or bill(failed.usage) == bill(desk.server.ledger[0].usage)
    assert failed.usage is None or failed.usage.quality("output") in ("partial", "unknown")
    # What the provider wrote before the cut can be read: the next request is predicted to read it, and does.
    request = desk.ask(context, says("again"))
    assert bill(request.predicted) == bill(desk.server.ledger[1].usage) and request.predicted.read
    goes_on(desk, context)
    honest(desk, context)


def test_the_bill_of_a_cut_stream_is_known_where_the_provider_said_it_first(claude: Desk) -> None:
    context = claude.context("one")
    claude.server.script([says(LONG, fault={"kind": "cut", "after_parts": 0})])
    with claude.client() as client, pytest.raises(Exception, match=r"."):
        list(context.stream(context.request().stream(client)))
    usage = context.ledger[0].usage
    assert usage is not None and bill(usage) == bill(claude.server.ledger[0].usage)
    assert (usage.quality("read"), usage.quality("output")) == ("billed", "partial")


def test_a_stream_cut_in_the_middle_of_a_part(desk: Desk) -> None:
    """The events of a whole stream, the last ones lost."""
    context = desk.context("one")
    desk.server.script([asks(("add", {"a": 1, "b": 2}), text=LONG)])
    with desk.client() as client:
        request = context.request()
        events = list(request.stream(client))
        with pytest.raises(UnreadableReply, match="nothing was kept"):
            list(context.stream(events[: len(events) // 2 + 2]))
    [failed] = context.ledger
    assert failed.error == "cut"
    assert failed.usage is None or failed.usage.quality("output") in ("partial", "unknown")
    assert len(context.log) == 2
    goes_on(desk, context)


def test_a_stream_is_kept_like_a_reply(desk: Desk) -> None:
    said = asks(("add", {"b": 2, "a": 1}), text=LONG)
    streamed, whole = desk.context("one"), desk.context("one")
    desk.server.script([said])
    assert len(list(streamed.stream(desk.send(streamed.request(), "stream")))) > 3
    honest(desk, streamed)
    desk.server.reset()
    desk.ask(whole, said)
    assert [call.arguments for call in streamed.calls] == [call.arguments for call in whole.calls] == [{"b": 2, "a": 1}]
    assert list(streamed.calls[0].arguments) == ["b", "a"]
    for context in (streamed, whole):
        context.result(context.calls[0], 3)
    assert streamed.request().body == whole.request().body
    goes_on(desk, streamed, says_something=False)


def test_a_typed_stream_is_kept_too(desk: Desk) -> None:
    context = desk.context("one")
    desk.server.script([says(LONG)])
    more = {"stream_options": {"include_usage": True}} if "chat" in context.provider.wire else {}
    with desk.client() as client:
        for _ in context.stream(desk.wire.create(client)(**context.request(stream=True, **more))):
            pass
    goes_on(desk, context)
    honest(desk, context)


@pytest.mark.parametrize("n_events", [0, 3])
def test_the_reader_leaves_the_stream(claude: Desk, n_events: int) -> None:
    context = claude.context("one")
    claude.server.script([says(LONG)])
    with claude.client() as client:
        stream = request = context.request().stream(client)
        for index, _ in enumerate(context.stream(stream)):
            if index == n_events:
                break
        stream.close()
    del request
    gc.collect()
    assert [call.error for call in context.ledger] == ["aborted"] and len(context.log) == 2
    goes_on(claude, context)


def test_a_reader_who_leaves_at_the_very_end_has_the_reply(claude: Desk) -> None:
    context = claude.context("one")
    claude.server.script([says("short")])
    events = list(claude.send(context.request(), "stream"))
    for index, _ in enumerate(context.stream(events)):
        if index == len(events) - 1:
            break
    gc.collect()
    assert context.finished and [call.error for call in context.ledger] == [None]
    goes_on(claude, context)


def test_ctrl_c_inside_a_stream(claude: Desk) -> None:
    context = claude.context("one")
    claude.server.script([says(LONG)])

    def read() -> None:
        with claude.client() as client:
            for index, _ in enumerate(context.stream(context.request().stream(client))):
                if index == 2:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert [call.error for call in context.ledger] == ["aborted"] and len(context.log) == 2
    goes_on(claude, context)


def test_ctrl_c_between_request_and_reply(claude: Desk) -> None:
    context = claude.context("one")

    class Interrupted:
        def post(self, *args: Any, **options: Any) -> Any:
            raise KeyboardInterrupt

        timeout = None

    with pytest.raises(KeyboardInterrupt):
        context.request().send(Interrupted())
    assert [call.error for call in context.ledger] == ["aborted"] and len(context.log) == 2
    goes_on(claude, context)
    honest(claude, context)


def test_a_long_output_is_not_waited_for_in_vain(claude: Desk) -> None:
    context = claude.context("one")
    with claude.client() as client:
        with pytest.raises(UsageError, match=r"request\.stream"):
            context.request(max_tokens=100_000).send(client)
        with pytest.raises(UsageError, match="stream"):
            context.request(stream=True).send(client)
        assert len(context.ledger) == 0
        claude.server.script([says("whole")])
        assert list(context.stream(context.request(max_tokens=100_000).stream(client)))
    goes_on(claude, context)


@pytest.mark.parametrize("desk", ["responses"], indirect=True)
def test_a_failed_response_is_billed_and_not_kept(desk: Desk) -> None:
    context = desk.context("one")
    counters = {"input_tokens": 50, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 0}}
    with pytest.raises(UnreadableReply):
        context.receive({"id": "resp_x", "object": "response", "status": "failed", "output": [], "usage": counters})
    [failed] = context.ledger
    assert (failed.error, failed.usage) == ("unreadable", Usage(50, 0, 0, 0, 3)) and len(context.log) == 2
    desk.ask(context, says("again"))
    assert context.finished


def test_what_is_no_reply_is_refused_and_changes_nothing(desk: Desk) -> None:
    context = desk.context("one")
    block: dict[str, Any] = {"type": "message", "content": [{}]}
    for garbage in (None, "hello", 5, {}, [], {"type": "message"}, block, {"choices": [{}]}):
        with pytest.raises(UnreadableReply):
            context.receive(garbage)
        assert len(context.log) == 2 and len(context.ledger) == 0
    goes_on(desk, context)
