"""What every bridge shares, through the SDKs' own clients: no framework is needed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from contextkit.bridges.bridge import DEFAULT_REPAIRS, Bridge, in_blocks
from contextkit.bridges.claude_agent import Transcripts
from contextkit.bridges.langchain import middleware
from contextkit.bridges.openai_agents import model_provider
from contextkit.bridges.pydantic_ai import capability
from contextkit.errors import MissingExtra, PrefixBroken, UsageError
from contextkit.ledger.calls import Bodies, Outline
from contextkit.ledger.ledger import Ledger
from contextkit.watcher.notify import PrefixWarning

pytest.importorskip("uvicorn", reason="the local provider needs the extra `server`")

SYSTEM = "You are a careful researcher. Say what you found, and where. " * 120
TOOLS = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("write", "read", "ask")]


def body(n_said: int, system: str = SYSTEM, tools: list[Any] = TOOLS) -> dict[str, Any]:
    """A loop's own body: plain strings, no marker."""
    said = [{"role": ("user", "assistant")[n % 2], "content": f"This is turn {n}. " * 5} for n in range(2 * n_said - 1)]
    return {"model": "claude-sonnet-5-5", "max_tokens": 20, "system": system, "tools": tools, "messages": said}


@pytest.fixture
def server() -> Any:
    from contextkit.server import LocalServer

    with LocalServer() as server:
        yield server


def test_a_plain_loop_gets_its_markers_and_its_bill(server: Any) -> None:
    bridge = Bridge(on_break="raise")
    with anthropic.Anthropic(base_url=server.url, api_key="any") as plain:
        client = bridge.client(plain)
        for turn in range(1, 6):
            client.messages.create(**body(turn))
    assert [call.usage for call in bridge.ledger] == [call.usage for call in server.ledger]
    for call in bridge.ledger:
        assert isinstance(call.prompt, Outline) and call.predicted is not None and call.usage is not None
        assert call.predicted.read == call.usage.read
    rate = bridge.summary().total.hit_rate
    assert rate is not None and rate > 0.7 and bridge.repaired == {"sort-tools": 5, "place-breakpoints": 5}
    assert len({call.session for call in bridge.ledger}) == 1


def test_async_clients_and_streams_cross_too(server: Any) -> None:
    bridge = Bridge()

    async def turns() -> None:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any") as plain:
            client = bridge.client(plain)
            for turn in range(1, 4):
                said = [{"role": "system", "content": SYSTEM}, *body(turn)["messages"]]
                options: Any = {
                    "model": "gpt-6.1-sol",
                    "messages": said,
                    "stream": True,
                    "stream_options": {"include_usage": True},
                }
                async for _ in await client.chat.completions.create(**options):
                    pass

    asyncio.run(turns())
    assert [call.usage for call in bridge.ledger] == [call.usage for call in server.ledger]
    assert all(call.first_byte_at is not None for call in bridge.ledger)


def test_a_chain_of_responses_is_predicted_with_what_it_goes_on_from(server: Any) -> None:
    bridge = Bridge(on_break="raise")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as plain:
        client, last = bridge.client(plain), ""
        for turn in range(5):
            past = {"previous_response_id": last} if last else {}
            last = client.responses.create(
                model="gpt-6.1-sol", instructions=SYSTEM, input=f"question {turn}", **past
            ).id
    assert all(isinstance(call.prompt, Outline) and call.predicted is not None for call in bridge.ledger)
    read = [(call.predicted.read, call.usage.read) for call in bridge.ledger if call.predicted and call.usage]
    assert read == [(billed, billed) for _, billed in read] and read[-1][1] > 1_000


def test_a_break_warns_or_stops_the_call(server: Any) -> None:
    with anthropic.Anthropic(base_url=server.url, api_key="any") as plain:
        for on_break, told in (
            ("warn", pytest.warns(PrefixWarning, match="CKS01")),
            ("raise", pytest.raises(PrefixBroken, match="CKS01")),
        ):
            bridge = Bridge(on_break=on_break)  # type: ignore[arg-type]
            client = bridge.client(plain)
            client.messages.create(**body(1, f"{SYSTEM}It is 10:30."))
            with told:
                client.messages.create(**body(2, f"{SYSTEM}It is 10:31."))
            assert bridge.findings[0].code == "CKS01" and "! CKS01" in bridge.report()
    assert len(server.ledger) == 3


def test_a_date_is_frozen_where_that_was_asked_for(server: Any) -> None:
    bridge = Bridge(repairs=(*DEFAULT_REPAIRS, "freeze-date"), on_break="raise")
    with anthropic.Anthropic(base_url=server.url, api_key="any") as plain:
        client = bridge.client(plain)
        for turn, minute in enumerate((30, 31, 32), 1):
            client.messages.create(**body(turn, f"{SYSTEM}It is 10:{minute}."))
    assert bridge.summary().total.n_misses == 0 and bridge.repaired["freeze-date"] == 2


def test_without_markers_the_report_says_why_nothing_is_read(server: Any) -> None:
    bridge = Bridge(repairs=())
    with anthropic.Anthropic(base_url=server.url, api_key="any") as plain:
        client = bridge.client(plain)
        for turn in (1, 2):
            client.messages.create(**body(turn))
        client.messages.create(**body(1, "Be brief.", []))
    assert "! CKB01 2 of 3 calls were long enough" in bridge.report() and not bridge.repaired


def test_a_request_that_is_not_recorded_is_repaired_nevertheless() -> None:
    """The guard follows neither a response that was not observed nor the second request that continues one."""
    from contextkit.server import LocalServer

    tools: list[Any] = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("b", "a")]
    sent: list[list[str]] = []

    def reply(parsed: Any, fields: Any) -> dict[str, Any]:
        sent.append([tool["name"] for tool in fields.get("tools", ())])
        return {"parts": [{"type": "text", "text": "ok"}]}

    bridge = Bridge(repairs=("sort-tools",), on_break=lambda finding: None)
    with LocalServer(replies=reply) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as plain:
        client = bridge.client(plain)
        unseen = plain.responses.create(model="gpt-6.1-sol", input="hi").id
        seen = client.responses.create(model="gpt-6.1-sol", input="hi").id
        for past in (unseen, seen, seen):
            client.responses.create(model="gpt-6.1-sol", input="and?", tools=tools, previous_response_id=past)
    assert sent[2:] == [["a", "b"]] * 3 and bridge.repaired == {"sort-tools": 3} and len(bridge.ledger) == 2


@pytest.mark.parametrize("how", ["close", "with"])
@pytest.mark.parametrize("is_predicted", [True, False])
def test_what_is_sent_after_the_recording_ended_is_not_counted(
    server: Any, tmp_path: Path, how: str, is_predicted: bool
) -> None:
    bridge = Bridge(tmp_path / "runs.jsonl", on_break=lambda finding: None)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as plain:
        client = bridge.client(plain)
        if how == "close":
            ask(client, is_predicted=True)
            bridge.close()
        else:
            with bridge:
                ask(client, is_predicted=True)
        ask(client, is_predicted=is_predicted)
    assert len(bridge.ledger) == len(Ledger.read(tmp_path / "runs.jsonl")) == bridge.summary().calls == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody move a file that is open")
@pytest.mark.parametrize("is_predicted", [True, False])
def test_the_ledger_is_the_one_that_is_written_after_its_file_was_rotated(
    server: Any, tmp_path: Path, is_predicted: bool
) -> None:
    path = tmp_path / "runs.jsonl"
    with (
        Bridge(path, on_break=lambda finding: None) as bridge,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as plain,
    ):
        client = bridge.client(plain)
        ask(client, is_predicted=True)
        path.rename(tmp_path / "runs.1.jsonl")
        ask(client, is_predicted=is_predicted)
        assert len(bridge.ledger) == len(Ledger.read(path)) == 1
        ask(client, is_predicted=True)
    written = Ledger.read(path)
    assert list(bridge.ledger) == list(written) and [isinstance(call.prompt, Outline) for call in written] == [
        is_predicted,
        True,
    ]


def ask(client: openai.OpenAI, *, is_predicted: bool) -> None:
    """Send a request; what a conversation of the provider's holds is not known, so its bill is not predicted."""
    stored: Any = {} if is_predicted else {"conversation": client.conversations.create().id}
    client.responses.create(model="gpt-6.1-sol", input="hi", **stored)


def test_the_file_is_a_ledger_without_text(server: Any, tmp_path: Path) -> None:
    with Bridge(tmp_path / "runs.jsonl") as bridge, anthropic.Anthropic(base_url=server.url, api_key="any") as plain:
        bridge.client(plain).messages.create(**body(1))
    assert len(Ledger.read(tmp_path / "runs.jsonl")) == 1
    assert b"researcher" not in (tmp_path / "runs.jsonl").read_bytes()


def test_a_body_that_is_of_no_known_form_is_kept_whole_with_secrets_covered() -> None:
    from contextkit.server import LocalServer

    bridge = Bridge()
    with LocalServer(cache="vllm") as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as plain:
        said: Any = [
            {"role": "user", "content": "my key is AKIAIOSFODNN7EXAMPLE"},
            {"role": "narrator", "content": "hm"},
        ]
        with pytest.raises(openai.BadRequestError):
            bridge.client(plain).chat.completions.create(model="my-own-model", messages=said)
    prompt = bridge.ledger[0].prompt
    assert isinstance(prompt, Bodies) and b"AKIA****************" in prompt.request


def test_a_failed_call_is_recorded_and_raised(server: Any) -> None:
    server.script([{"fault": {"kind": "status", "status": 529}}])
    bridge = Bridge()
    with (
        anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as plain,
        pytest.raises(anthropic.APIStatusError),
    ):
        bridge.client(plain).messages.create(**body(1))
    assert [call.error for call in bridge.ledger] == ["overloaded_error"]


def test_only_a_client_of_the_two_sdks_can_be_followed() -> None:
    with pytest.raises(UsageError, match="dict cannot be followed"):
        Bridge().client({})
    with pytest.raises(UsageError, match="there is no repair 'magic'"):
        Bridge(repairs=("magic",))


SPELLINGS = (
    '{"messages":[{"role":"user","content":"a \\"quoted\\" one"},{"role":"user","content":[{"type":"text","text":"b"}]}]}',
    '{"system":"s","messages":[{"content":"","role":"user"}]}',
    '{"messages":"no list"}',
    "[]",
    "not json",
)


@pytest.mark.parametrize("text", SPELLINGS)
def test_spelling_out_changes_no_meaning(text: str) -> None:
    spelled = in_blocks("anthropic_messages", text.encode())
    assert in_blocks("anthropic_messages", spelled) == spelled
    if text.startswith("{") and "no list" not in text:
        one, other = json.loads(text), json.loads(spelled)
        for before, after in zip(one["messages"], other["messages"], strict=True):
            content = before["content"]
            assert after["content"] == (
                [{"type": "text", "text": content}] if isinstance(content, str) and content else content
            )


MISSING: dict[str, tuple[str, Callable[[], Any]]] = {
    "langchain": ("langchain", lambda: middleware(Bridge())),
    "pydantic_ai": ("pydantic-ai", lambda: capability(Bridge())),
    "agents": ("openai-agents", lambda: model_provider(Bridge())),
    "claude_agent_sdk": ("claude-agent", lambda: Transcripts().watch()),
}


@pytest.mark.parametrize("module", MISSING)
def test_a_framework_that_is_not_there_is_named_with_its_command(module: str) -> None:
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    extra, call = MISSING[module]
    with pytest.raises(MissingExtra, match=rf'pip install "contextkit-sdk\[{extra}\]"'):
        call()
