"""A response has one row in the ledger and one entry in the log, however often it is received, and whatever the disk
does meanwhile."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, Phase, Phases, tool
from contextkit.errors import InvalidCall, UnreadableReply
from tests.context.desk import Desk, asks, goes_on, honest, says
from tests.crash.faults import Disk, of


@pytest.fixture
def disk() -> Iterator[Disk]:
    with Disk().installed() as disk:
        yield disk


FULL = of("log.jsonl", "write")


def reply(text: str = "ok", name: str = "msg_1", calls: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 2}
    content = [
        {"type": "text", "text": text},
        *({"type": "tool_use", "id": call, "name": "look", "input": {}} for call in calls),
    ]
    said = {"id": name, "type": "message", "role": "assistant", "model": "claude-opus-5", "usage": usage}
    return {**said, "content": content, "stop_reason": "tool_use" if calls else "end_turn", **more}


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool
def drop() -> str:
    """Drop."""
    return "dropped"


def opened(folder: Path, **options: Any) -> Context:
    given = {"system": "Be brief.", "tools": [look, drop], "clock": lambda: 5.0, **options}
    return Context.open(folder, AnthropicMessages("claude-opus-5", max_tokens=9), **given)


def kinds(context: Context) -> list[str]:
    return [entry.kind for entry in context.log]


def test_a_response_received_again_after_a_full_disk_is_billed_and_kept_once(
    claude: Desk, disk: Disk, tmp_path: Path
) -> None:
    context = claude.open(tmp_path)
    context.user("one")
    claude.server.script([asks(("add", {"a": 1, "b": 2}), text="Adding.")])
    request = context.request()
    response = claude.send(request, "send")
    for _ in range(2):
        with disk.failing(FULL), pytest.raises(OSError, match="No space left"):
            context.receive(response, request)
    assert context.receive(response) is context.log[2]
    assert (len(context.ledger), kinds(context)) == (1, ["opened", "user", "assistant"])
    context.result(context.calls[0], 3)
    goes_on(claude, context, says_something=False)
    honest(claude, context)
    context.close()


def test_nothing_is_kept_where_the_ledger_takes_no_row(claude: Desk, disk: Disk, tmp_path: Path) -> None:
    context = claude.open(tmp_path)
    context.user("one")
    claude.server.script([says("first")])
    response = claude.send(context.request(), "send")
    for fault in ("short", errno.EIO):
        with (
            disk.failing(of("ledger.jsonl", "write", fault=fault)),
            pytest.raises(OSError, match=r"No space|Input/output"),
        ):
            context.receive(response)
        assert (len(context.ledger), kinds(context)) == (0, ["opened", "user"])
    context.receive(response)
    goes_on(claude, context)
    honest(claude, context)
    context.close()


def test_a_response_received_again_after_the_folder_was_opened_again(claude: Desk, disk: Disk, tmp_path: Path) -> None:
    context = claude.open(tmp_path)
    context.user("one")
    claude.server.script([says("first")])
    response = claude.send(context.request(), "send")
    with disk.failing(FULL), pytest.raises(OSError, match="No space left"):
        context.receive(response)
    context.close()
    for n in (3, 3):  # the first time the entry was missing, the second time it is there: nobody was told
        with claude.open(tmp_path) as context:
            context.receive(response)
            assert (len(context.ledger), len(context.log)) == (1, n)
    with claude.open(tmp_path) as context:
        goes_on(claude, context)
        honest(claude, context)


def test_a_stream_that_could_not_be_kept_is_no_failed_call_beside_its_bill(
    claude: Desk, disk: Disk, tmp_path: Path
) -> None:
    context = claude.open(tmp_path)
    context.user("one")
    claude.server.script([says("first")])
    with claude.client() as client, disk.failing(FULL), pytest.raises(OSError, match="No space left") as caught:
        list(context.stream(context.request().stream(client)))
    context.failed(caught.value)
    assert [call.error for call in context.ledger] == [None]
    goes_on(claude, context, says_something=False)  # asked again: that is another response, and another bill
    assert len(context.ledger) == len(claude.server.ledger) == 2
    context.close()


def test_an_error_that_was_noted_is_not_noted_twice(claude: Desk) -> None:
    context = claude.context("one")
    claude.server.script([{"fault": {"kind": "status", "status": 529}}] * 2)
    for n in (1, 2):
        with claude.client() as client, pytest.raises(Exception, match=r".") as caught:
            context.request().send(client)
        context.failed(caught.value)
        assert len(context.ledger) == n


@pytest.mark.parametrize("name", ["chatcmpl-1", ""], ids=["one id for all", "no id"])
def test_a_host_without_ids_of_its_own_is_billed_for_each_call(disk: Disk, tmp_path: Path, name: str) -> None:
    """The same text and bill each time, at the same time of day."""
    provider, said = OpenAIChat("gpt-6.1-sol", max_completion_tokens=9), {"role": "assistant", "content": "ok"}
    choices = [{"index": 0, "message": said, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    response = {"id": name, "object": "chat.completion", "model": "gpt-6.1-sol", "choices": choices, "usage": usage}
    with Context.open(tmp_path, provider, clock=lambda: 5.0) as context:
        for n in range(1, 4):
            context.user("again")
            request = context.request()
            with disk.failing(FULL), pytest.raises(OSError, match="No space left"):
                context.receive(response, request)
            context.receive(response, request)
            assert (len(context.ledger), len(context.log)) == (n, 1 + 2 * n)
    with Context.open(tmp_path, provider, clock=lambda: 5.0) as context:
        context.user("again")
        context.receive(response)
        assert (len(context.ledger), len(context.log)) == (4, 9)


def test_a_reply_that_cannot_be_kept_is_billed_once(tmp_path: Path) -> None:
    with opened(tmp_path) as context:
        context.user("one")
        request = context.request()
        context.receive(reply(name="msg_0", calls=("c",)), request)
        broken = reply()  # it comes while a call is open
        for _ in range(2):
            with pytest.raises(InvalidCall) as caught:
                context.receive(broken, request)
            context.failed(caught.value, request)
        unreadable = {**reply(name="msg_2"), "content": [{"type": "text"}]}
        for _ in range(2):
            with pytest.raises(UnreadableReply) as unread:
                context.receive(unreadable, request)
            context.failed(unread.value, request)
        rows = [("msg_0", None), ("msg_1", "not kept"), ("msg_2", "unreadable")]
        assert [(row.id, row.error) for row in context.ledger] == rows
        context.result(context.calls[0], "seen")
        context.receive(reply(name="msg_3", calls=("d",)), context.request())
        with pytest.raises(InvalidCall):
            context.receive(broken)  # as if it answered the request built last
        assert len(context.ledger) == 4


def test_a_prewarm_is_billed_once(disk: Disk, tmp_path: Path) -> None:
    with opened(tmp_path) as context:
        request, response = context.prewarm(), {**reply(), "content": [], "stop_reason": "max_tokens"}
        for _ in range(2):
            assert context.receive(response, request) is None
        assert len(context.ledger) == 1


NEXT: dict[str, Callable[[Context], Any]] = {
    "user": lambda context: context.user("and then?"),
    "notice": lambda context: context.notice("by the way"),
    "enter": lambda context: context.enter("drop"),
    "request": lambda context: context.request(),
}


@pytest.mark.parametrize("act", NEXT.values(), ids=NEXT)
def test_what_follows_an_entry_is_written_later_where_the_disk_was_full(
    disk: Disk, tmp_path: Path, act: Callable[[Context], Any]
) -> None:
    """The phase forbids a call: its refusal stands behind the reply. The reply was written, so it is received; once."""
    phases = Phases({"look": Phase(allow=["look"]), "drop": Phase(allow=["drop"], by_hand=True)}, start="look")
    context = opened(tmp_path, phases=phases)
    context.user("one")
    request, written = context.request(), []

    def full_after_one(operation: str, name: str) -> int | None:
        if (operation, name) == ("write", "log.jsonl"):
            written.append(name)
            return errno.ENOSPC if len(written) > 1 else None
        return None

    calls = [{"type": "tool_use", "id": name, "name": "drop", "input": {}} for name in ("c1", "c2")]
    forbidden = {**reply(), "content": calls, "stop_reason": "tool_use"}
    with disk.failing(full_after_one):
        assert context.receive(forbidden, request) is context.log[-1]
        assert len(written) > 1
        with pytest.raises(OSError, match="No space left"):
            context.user("not kept")
        asked = context.calls
    n = len(context.log)
    act(context)
    assert context.log[n].kind == context.log[n + 1].kind == "result" and context.calls == []
    assert [context.result(call, "answered too") for call in asked] == context.log[n : n + 2]
    assert len(context.ledger) == 1 and context.request().body
    context.close()
    with opened(tmp_path, phases=phases) as again:
        assert again.request().body == context.request().body


def test_failed_calls_have_ids_of_their_own_after_rows_of_an_older_ledger_were_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as context:
        context.user("one")
        for _ in range(4):
            context.failed("aborted", context.request())
    ledger = tmp_path / "ledger.jsonl"
    _, *rows = (json.loads(line) for line in ledger.read_bytes().splitlines())
    kept = [{name: row[name] for name in row.keys() - {"sequence", "prev", "sum"}} for row in (rows[0], rows[3])]
    lines = [{"contextkit_ledger": 1}, *kept]
    ledger.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), "utf-8")
    with opened(tmp_path) as context:
        for _ in range(4):
            context.failed("aborted", context.request())
        names = [row.id for row in context.ledger]
        assert len(names) == len(set(names)) == 6


def test_a_sub_agent_that_could_not_be_begun_is_not_listed(disk: Disk, tmp_path: Path) -> None:
    """The disk takes its first entry, and then neither keeps it nor lets it be cut off: whoever spawned it was told
    that it failed."""
    with opened(tmp_path) as context:
        with (
            disk.failing(of("log.jsonl", "fsync", "ftruncate", fault=errno.EIO)),
            pytest.raises(OSError, match="Input/output"),
        ):
            context.spawn("Look.")
        context.spawn("Look again.").close()
        assert len(context.agents) == 1
        context.agent(context.agents[0]).close()


def test_a_response_of_a_sub_agent_is_billed_once_also_after_it_was_opened_again(disk: Disk, tmp_path: Path) -> None:
    with opened(tmp_path) as context:
        agent = context.spawn("Go.")
        lane, request = agent.lane, agent.request()
        with disk.failing(FULL), pytest.raises(OSError, match="No space left"):
            agent.receive(reply(), request)
        agent.close()
    with opened(tmp_path) as context:
        agent = context.agent(lane)
        agent.receive(reply(), agent.request())
        assert [(row.lane, row.id) for row in context.ledger] == [(lane, "msg_1")]
        assert kinds(agent)[-1] == "assistant"
        agent.close()
