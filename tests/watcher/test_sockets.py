"""Requests on a WebSocket of a watched client are calls like those by POST; the peer is the `websockets` library."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from collections.abc import Awaitable, Callable
from inspect import currentframe, isawaitable
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketLimits,
    ResponsesWebSocketSession,
)
from openai.resources.responses import AsyncResponses, Responses

pytest.importorskip("websockets", reason="needs the package websockets")

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection

from contextkit import Budget, Ledger, watch
from contextkit.errors import BudgetExceeded, PrefixBroken
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.server import LocalServer
from contextkit.watcher import PrefixWarning
from tests.server.proxied import PATIENCE
from tests.server.test_proxy_sockets import answering, events
from tests.watcher.talk import HAZARDS, HEAD, Talk, Told

pytestmark = pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")  # SDK, websockets 17

KINDS = pytest.mark.parametrize("kind", [openai.OpenAI, openai.AsyncOpenAI])
CHANGED = f"It is 10:31. {HEAD}"


async def done(value: Any) -> Any:
    """What a method of a client gives, async or not."""
    return await value if isawaitable(value) else value


def run(steps: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(steps(), 3 * PATIENCE))  # type: ignore[arg-type]


class Provider:
    """Answers every request at once, and keeps what came."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def __call__(self, wire: ServerConnection) -> None:
        for message in wire:
            self.got.append(json.loads(message))
            if self.got[-1]["type"] == "response.create":
                self.answer(wire, f"r{len(self.got)}", self.got[-1])

    def answer(self, wire: ServerConnection, name: str, asked: Any) -> None:
        lane = {"stream_id": asked["stream_id"]} if "stream_id" in asked else {}
        for event in events(name, **lane):
            if "usage" in event.get("response", {}):
                event["response"]["usage"]["input_tokens_details"]["cache_write_tokens"] = 1_900
            wire.send(json.dumps(event))


def client_of(url: str, kind: Any = openai.OpenAI, **named: Any) -> Any:
    return kind(base_url=f"{url}/v1", api_key="sk-a-key-of-some-length", max_retries=0, **named)


async def answered(connection: Any) -> str:
    """Type of the event that ends the response under way."""
    while True:
        event = json.loads(await done(connection.recv_bytes()))
        if event["type"] in ("response.completed", "error"):
            return str(event["type"])


def rows(path: Path) -> list[ModelCall]:
    return list(Ledger.read(path))


def body_of(row: ModelCall) -> Any:
    assert isinstance(row.prompt, Bodies)
    return json.loads(row.prompt.request)


@KINDS
@pytest.mark.parametrize("api", ["responses", "beta"])
def test_requests_are_recorded_and_judged(kind: Any, api: str, tmp_path: Path, told: Told) -> None:
    provider = Provider()

    async def steps() -> None:
        client = watch(client_of(url, kind), record=tmp_path / "ledger.jsonl", on_break=told, hazards=HAZARDS)
        talk = Talk()
        async with asyncio.timeout(PATIENCE):
            resource = client.with_options(timeout=5).beta.responses if api == "beta" else client.responses
            connection = await done(resource.connect().enter())
            for _ in range(2):
                await done(connection.response.create(**talk.responses()))
                assert await answered(connection) == "response.completed"
                talk.say()
            talk.head = CHANGED
            await done(connection.response.create(**talk.responses()))
            await answered(connection)
            await done(connection.close())
            await done(client.close())

    with answering(provider) as url:
        run(steps)
    recorded = rows(tmp_path / "ledger.jsonl")
    assert [(row.id, row.error, row.usage is not None) for row in recorded] == [
        (f"r{n}", None, True) for n in (1, 2, 3)
    ]
    assert [body_of(row) for row in recorded] == provider.got
    assert len({row.session for row in recorded}) == 1
    assert {row.host for row in recorded} == {url.removeprefix("http://")} and recorded[0].account
    before = [finding for finding in told if finding.detector == "guard"]
    assert [(finding.code, finding.place.turn) for finding in before] == [("CKS10", 3)]  # type: ignore[union-attr]


@KINDS
def test_a_broken_prefix_is_raised_and_not_sent(kind: Any) -> None:
    provider = Provider()

    async def steps() -> None:
        client = watch(client_of(url, kind), on_break="raise", hazards=HAZARDS)
        connection = await done(client.responses.connect().enter())
        talk = Talk()
        await done(connection.response.create(**talk.responses()))
        await answered(connection)
        good, talk.head = talk.head, CHANGED
        with pytest.raises(PrefixBroken, match="CKS10"):
            await done(connection.response.create(**talk.say().responses()))
        talk.head = good
        await done(connection.response.create(**talk.responses()))
        assert await answered(connection) == "response.completed"
        await done(connection.close())

    with answering(provider) as url:
        run(steps)
    assert len(provider.got) == 2 and provider.got[0]["instructions"] == provider.got[1]["instructions"]


def line() -> int:
    frame = currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_warning_stands_at_the_line_that_sent() -> None:
    first, changed = Talk().responses(), Talk(head=CHANGED).say().responses()
    lines: list[int] = []

    async def run_async() -> None:
        async with watch(client_of(url, openai.AsyncOpenAI), hazards=HAZARDS).responses.connect() as connection:
            await connection.response.create(**first)
            await answered(connection)
            lines.append(line() + 1)
            await connection.response.create(**changed)

    with answering(Provider()) as url, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with watch(client_of(url), hazards=HAZARDS).responses.connect() as connection:
            connection.response.create(**first)
            asyncio.run(answered(connection))
            lines.append(line() + 1)
            connection.send({"type": "response.create", **changed})
        asyncio.run(run_async())
    told = [(one.filename, one.lineno) for one in warned if isinstance(one.message, PrefixWarning)]
    assert told == [(__file__, at) for at in lines]


@KINDS
def test_a_budget_is_charged_and_refuses(kind: Any) -> None:
    provider, budget = Provider(), Budget(tokens=5_000)

    async def steps() -> None:
        client = watch(client_of(url, kind), budget=budget)
        connection = await done(client.responses.connect().enter())
        ask = connection.response.create
        await done(ask(model="gpt-6.1-sol", input="hi", max_output_tokens=100))
        assert budget.reserved.tokens > 0
        await answered(connection)
        assert (budget.spent.tokens, budget.reserved.tokens) == (2_010, 0)
        with pytest.raises(BudgetExceeded, match="nothing was sent"):
            await done(ask(model="gpt-6.1-sol", input="hi", max_output_tokens=4_000))
        with pytest.raises(BudgetExceeded, match="allow_unpriced=True"):
            await done(connection.response.steer(input="x", previous_response_id="r1"))
        await done(ask(model="gpt-6.1-sol", input="hi", max_output_tokens=100))
        await done(connection.close())  # not answered: charged its most

    with answering(provider) as url:
        run(steps)
    assert [asked.get("max_output_tokens") for asked in provider.got] == [100, 100]
    assert 2_010 + 100 < budget.spent.tokens < 5_000 and budget.reserved.tokens == 0


@KINDS
def test_errors_have_their_status_and_the_socket_goes_on(kind: Any, tmp_path: Path) -> None:
    error = {
        "type": "error",
        "status": 429,
        "error": {"code": "rate_limit_exceeded", "type": "rate_limit", "message": "no"},
    }

    def talk(wire: ServerConnection) -> None:
        wire.recv()
        wire.send(json.dumps(error))
        Provider()(wire)

    budget = Budget(tokens=100_000)

    async def steps() -> None:
        client = watch(client_of(url, kind), record=tmp_path / "ledger.jsonl", budget=budget)
        connection = await done(client.responses.connect().enter())
        for wanted, spent in (("error", 0), ("response.completed", 2_010)):
            await done(connection.response.create(**Talk().responses(max_output_tokens=100)))
            assert await answered(connection) == wanted
            assert (budget.spent.tokens, budget.reserved.tokens) == (spent, 0)
        await done(connection.close())

    with answering(talk) as url:
        run(steps)
    assert [(row.error, row.usage is None) for row in rows(tmp_path / "ledger.jsonl")] == [
        ("rate_limit_exceeded", True),
        (None, False),
    ]


@KINDS
@pytest.mark.parametrize("who", ["provider", "provider closes", "program"])
def test_a_socket_that_ends_ends_its_calls(kind: Any, who: str, tmp_path: Path) -> None:
    def talk(wire: ServerConnection) -> None:
        wire.recv()
        wire.send(json.dumps(events("r1")[0]))
        if who == "provider":
            wire.socket.close()
        elif who == "program":
            with pytest.raises(ConnectionClosed):
                wire.recv(timeout=PATIENCE)

    async def steps() -> None:
        client = watch(client_of(url, kind), record=tmp_path / "ledger.jsonl")
        connection = await done(client.responses.connect().enter())
        await done(connection.response.create(**Talk().responses()))
        assert (await done(connection.recv())).type == "response.created"
        if who != "program":
            with pytest.raises(ConnectionClosed):
                await done(connection.recv())
            with pytest.raises(ConnectionClosed):
                await done(connection.response.create(**Talk("later").responses()))
        await done(connection.close())

    with answering(talk) as url:
        run(steps)
    found = [row.error for row in rows(tmp_path / "ledger.jsonl")]
    assert found == (["aborted"] if who == "program" else ["cut", "unreachable"])


@KINDS
def test_a_request_that_cannot_be_sent_costs_nothing(kind: Any) -> None:
    budget = Budget(tokens=5_000)

    async def steps() -> None:
        client = watch(client_of(url, kind), budget=budget)
        connection = await done(client.responses.connect().enter())
        with pytest.raises(ConnectionClosed):
            await done(connection.recv())
        for _ in range(3):
            with pytest.raises(ConnectionClosed):
                await done(connection.response.create(**Talk("x", "y").responses(max_output_tokens=2_000)))

    with answering(lambda wire: None) as url:
        run(steps)
    assert budget.spent.tokens == budget.reserved.tokens == 0


@KINDS
def test_the_sdk_reconnects_to_a_new_socket(kind: Any, tmp_path: Path) -> None:
    n_sockets = [0]

    def talk(wire: ServerConnection) -> None:
        n_sockets[0] += 1
        if n_sockets[0] == 1:
            wire.recv()
            wire.send(json.dumps(events("r1")[0]))
            wire.close(1012, "restarting")
        else:
            Provider().answer(wire, "not asked", {})
            Provider()(wire)

    async def steps() -> None:
        client = watch(client_of(url, kind), record=tmp_path / "ledger.jsonl")
        manager = client.responses.connect(on_reconnecting=lambda event: None, initial_delay=0.01)
        connection = await done(manager.enter())
        await done(connection.response.create(**Talk().responses()))
        n_ends = 0
        stream = connection.__aiter__() if hasattr(connection, "__aiter__") else iter(connection)
        while n_ends < 2:
            event = await stream.__anext__() if hasattr(stream, "__anext__") else next(stream)
            if event.type == "response.completed":
                n_ends += 1
                if n_ends == 1:  # the response of the new socket that nobody asked for
                    await done(connection.response.create(**Talk("again").responses()))
        await done(connection.close())

    with answering(talk) as url:
        run(steps)
    assert n_sockets == [2]
    assert [row.error for row in rows(tmp_path / "ledger.jsonl")] == ["cut", None]


@KINDS
def test_streams_of_one_socket_are_told_apart(kind: Any, tmp_path: Path) -> None:
    def talk(wire: ServerConnection) -> None:
        asked = [json.loads(wire.recv()) for _ in range(2)]
        for pair in zip(*(events(one["stream_id"], stream_id=one["stream_id"]) for one in asked), strict=True):
            for event in pair:
                wire.send(json.dumps(event))

    async def steps() -> None:
        client = watch(client_of(url, kind), record=tmp_path / "ledger.jsonl")
        connection = await done(client.responses.connect().enter())
        limits = ResponsesWebSocketLimits(4, 64, 256, 1 << 20, 1 << 22)
        if kind is openai.OpenAI:
            with ResponsesWebSocketSession(connection, limits=limits) as session:
                lanes = [session.lane(name) for name in ("one", "two")]
                for lane in lanes:
                    lane.send({"type": "response.create", **Talk(f"lane {lane._state.stream_id}").responses()})
                assert [lane.get_final_response().id for lane in lanes] == ["one", "two"]
        else:
            async with AsyncResponsesWebSocketSession(connection, limits=limits) as other:
                both = [other.lane(name) for name in ("one", "two")]
                for one in both:
                    await one.send({"type": "response.create", **Talk(f"lane {one._state.stream_id}").responses()})
                assert [(await one.get_final_response()).id for one in both] == ["one", "two"]

    with answering(talk) as url:
        run(steps)
    found = rows(tmp_path / "ledger.jsonl")
    assert [(row.id, row.error, body_of(row)["stream_id"]) for row in found] == [
        ("one", None, "one"),
        ("two", None, "two"),
    ]


def test_diagnostics_are_asked_for_in_what_is_sent() -> None:
    provider, talk = Provider(), Talk()
    with (
        answering(provider) as url,
        watch(client_of(url), diagnostics=True).responses.connect() as connection,
    ):
        for _ in range(2):
            connection.response.create(**talk.responses())
            asyncio.run(answered(connection))
            talk.say()
    assert "prompt_cache_options" not in provider.got[0]
    assert provider.got[1]["prompt_cache_options"] == {"comparison_response_id": "r1"}
    assert {**provider.got[1], "input": 0} == {
        **provider.got[0],
        "input": 0,
        "prompt_cache_options": {"comparison_response_id": "r1"},
    }


@KINDS
def test_a_request_queued_before_the_connection_is_refused_where_its_answer_is_awaited(kind: Any) -> None:
    provider = Provider()

    async def steps() -> None:
        manager = watch(client_of(url, kind), budget=Budget(tokens=5_000)).responses.connect()
        for most in (100, 8_000):
            manager.send({"type": "response.create", "model": "gpt-6.1-sol", "input": "hi", "max_output_tokens": most})
        connection = await done(manager.enter())
        with pytest.raises(BudgetExceeded, match="nothing was sent"):
            await done(connection.recv())
        assert await answered(connection) == "response.completed"  # the other one
        await done(connection.close())

    with answering(provider) as url:
        run(steps)
    assert [asked["max_output_tokens"] for asked in provider.got] == [100]


def test_a_request_queued_while_the_sdk_reconnects_is_refused_where_its_answer_is_awaited() -> None:
    provider, n_sockets = Provider(), [0]

    def talk(wire: ServerConnection) -> None:
        n_sockets[0] += 1
        wire.close(1012, "restarting") if n_sockets[0] == 1 else provider(wire)

    async def steps() -> None:
        client, reconnecting = watch(client_of(url, openai.AsyncOpenAI), budget=Budget(tokens=5_000)), asyncio.Event()
        async with client.responses.connect(on_reconnecting=lambda event: reconnecting.set()) as connection:
            awaited = asyncio.create_task(connection.__aiter__().__anext__())
            await reconnecting.wait()
            for most in (8_000, 100):
                await connection.response.create(model="gpt-6.1-sol", input="hi", max_output_tokens=most)
            with pytest.raises(BudgetExceeded, match="nothing was sent"):
                await awaited
            assert await answered(connection) == "response.completed"

    with answering(talk) as url:
        run(steps)
    assert n_sockets == [2] and [asked["max_output_tokens"] for asked in provider.got] == [100]


def test_a_response_stored_by_the_provider_is_continued(tmp_path: Path) -> None:
    with (
        answering(Provider()) as url,
        watch(client_of(url), record=tmp_path / "ledger.jsonl").responses.connect() as connection,
    ):
        connection.response.create(**Talk().responses())
        asyncio.run(answered(connection))
        connection.response.create(**{**Talk().responses(), "input": "and now?"}, previous_response_id="r1")
        asyncio.run(answered(connection))
    first, second = rows(tmp_path / "ledger.jsonl")
    assert first.session == second.session
    assert [item.get("role") for item in body_of(second)["input"]] == ["user", "assistant", "user"]


def test_events_of_requests_that_cannot_be_compared_are_not_those_of_the_next(tmp_path: Path) -> None:
    with (
        answering(Provider()) as url,
        watch(client_of(url), record=tmp_path / "ledger.jsonl").responses.connect() as connection,
    ):
        connection.response.create(model="gpt-6.1-sol", input="go on", previous_response_id="resp_unseen")
        connection.response.create(**Talk().responses())
        for _ in range(2):
            asyncio.run(answered(connection))
    assert [row.id for row in rows(tmp_path / "ledger.jsonl")] == ["r2"]


# What is not read
# ---------------------------------------------------------------------------------------------------------------------


def test_other_messages_are_warned_about_once_and_pass() -> None:
    provider = Provider()
    with answering(provider) as url, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        client = watch(client_of(url))
        for _ in range(2):
            with client.responses.connect() as connection:
                connection.response.steer(input="x", previous_response_id="r1")
                connection.response.steer(input="y", previous_response_id="r1")
    assert [asked["input"] for asked in provider.got] == ["x", "y"] * 2
    assert [one.filename for one in warned if "response.steer on a web socket" in str(one.message)] == [__file__]


UNREAD = pytest.mark.parametrize(
    "connect",
    [
        lambda client: (Responses if isinstance(client, openai.OpenAI) else AsyncResponses)(client).connect(),
        lambda client: client.realtime.connect(model="gpt-realtime"),
    ],
    ids=["own resource", "realtime"],
)


@UNREAD
def test_other_sockets_are_warned_about_once_at_the_line_that_connects(connect: Any) -> None:
    async def steps() -> None:
        client = watch(client_of(url, openai.AsyncOpenAI))
        for _ in range(2):
            async with connect(client):
                pass

    with answering(lambda wire: None) as url, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        client = watch(client_of(url))
        for one in (client, client, client.with_options(timeout=5), client_of(url)):
            with connect(one):
                pass
        run(steps)
    assert [one.filename for one in warned if "is not read" in str(one.message)] == [__file__] * 2


@UNREAD
def test_other_sockets_are_refused_under_a_budget(connect: Any) -> None:
    reached: list[Any] = []
    with answering(reached.append) as url:
        client = watch(client_of(url), budget=Budget(tokens=5_000))
        with pytest.raises(BudgetExceeded, match="allow_unpriced=True"):
            connect(client).enter()
        connect(client_of(url)).enter().close()
    assert len(reached) == 1


def test_the_client_itself_stays_as_it_was(tmp_path: Path) -> None:
    plain = client_of("http://127.0.0.1:9")
    before = (type(plain), dict(vars(plain)))
    watched = watch(plain, record=tmp_path / "ledger.jsonl")
    with answering(Provider()) as url, plain.with_options(base_url=f"{url}/v1").responses.connect() as connection:
        connection.response.create(**Talk().responses())
        asyncio.run(answered(connection))
    assert (type(plain), {**vars(plain), "responses": None}) == (before[0], {**before[1], "responses": None})
    assert type(watched).__name__ == "OpenAI" and isinstance(watched, openai.OpenAI)
    assert isinstance(watched.responses, Responses) and watched.responses is watched.responses
    assert rows(tmp_path / "ledger.jsonl") == []


def test_a_client_that_is_watched_twice_is_read_twice(tmp_path: Path) -> None:
    with answering(Provider()) as url:
        inner = watch(client_of(url), record=tmp_path / "inner.jsonl")
        with watch(inner, record=tmp_path / "outer.jsonl").responses.connect() as connection:
            connection.response.create(**Talk().responses())
            asyncio.run(answered(connection))
    assert [[row.id for row in rows(tmp_path / name)] for name in ("inner.jsonl", "outer.jsonl")] == [["r1"], ["r1"]]


def test_without_the_package_the_sdk_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "websockets"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "websockets", None)
    with pytest.raises(openai.OpenAIError, match=r"openai\[realtime\]"):
        watch(client_of("http://127.0.0.1:9"), budget=Budget(tokens=5_000)).responses.connect().enter()


# Against the local provider
# ---------------------------------------------------------------------------------------------------------------------


async def posted(client: Any, asked: list[dict[str, Any]]) -> None:
    for fields in asked:
        try:
            stream = await done(client.responses.create(**fields, stream=True))
        except openai.APIStatusError:
            continue
        if isinstance(stream, openai.Stream):
            list(stream)
        else:
            _ = [event async for event in stream]


async def sent(client: Any, asked: list[dict[str, Any]]) -> None:
    connection = await done(client.responses.connect().enter())
    for fields in asked:
        await done(connection.response.create(**fields))
        await answered(connection)
    await done(connection.close())


@KINDS
def test_a_conversation_is_the_same_by_post_and_over_a_socket(kind: Any, server: LocalServer, tmp_path: Path) -> None:
    talk, more = Talk(), {"max_output_tokens": 200}
    asked = [talk.responses(**more), talk.say().responses(**more)]
    talk.head = CHANGED
    asked += [talk.say().responses(**more), talk.say().responses(**more)]
    asked += [{**talk.responses(**more), "model": "no-such-model"}, talk.say().responses(**more)]

    def watched(way: Any) -> Any:
        server.reset()
        path, told, budget = tmp_path / f"{way.__name__}.jsonl", Told(), Budget(tokens=1_000_000)
        client = watch(client_of(server.url, kind), record=path, on_break=told, hazards=HAZARDS, budget=budget)

        async def steps() -> None:
            await way(client, asked)
            await done(client.close())

        run(steps)
        recorded = rows(path)
        order = {row.session: n for n, row in enumerate(reversed(recorded))}
        bodies = [{**body_of(row), "type": None, "stream": None} for row in recorded]
        return (
            [(order[row.session], row.model, row.usage, row.error, row.host, row.account) for row in recorded],
            bodies,
            [(one.code, one.detector, one.message, one.cost_tokens, one.place.turn) for one in told],  # type: ignore[union-attr]
            (budget.spent, budget.reserved),
            [(call.usage, call.error) for call in server.ledger],
        )

    by_post = watched(posted)
    assert watched(sent) == by_post
    assert len(by_post[0]) == len(asked) and [finding[0] for finding in by_post[2]] == ["CKS10"]
    assert by_post[3][0].tokens > 8_000
