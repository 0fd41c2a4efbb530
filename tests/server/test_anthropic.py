from __future__ import annotations

import asyncio

import anthropic
import pytest
from anthropic.types import Message, ModelInfo, RawMessageStreamEvent
from pydantic import TypeAdapter

from contextkit.server import LocalServer
from tests.server.conftest import ALL_PARTS, CLAUDE, asking, saying
from tests.server.strict import strictly

EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def test_second_call_reads_what_the_first_wrote(claude: anthropic.Anthropic) -> None:
    first = claude.messages.create(**asking()).usage
    second = claude.messages.create(**asking()).usage
    assert first.cache_creation_input_tokens == second.cache_read_input_tokens > 512
    assert (
        first.cache_creation is not None
        and first.cache_creation.ephemeral_5m_input_tokens == first.cache_creation_input_tokens
    )
    assert first.input_tokens == second.input_tokens and second.cache_creation_input_tokens == 0


def test_seconds_of_a_reply_count_against_the_lifetime(server: LocalServer, claude: anthropic.Anthropic) -> None:
    server.script([saying(seconds=301)])
    claude.messages.create(**asking())
    assert server.clock.now() == 1301.0
    assert not claude.messages.create(**asking()).usage.cache_read_input_tokens


def test_workspaces_and_models_do_not_share(claude: anthropic.Anthropic) -> None:
    claude.messages.create(**asking())
    assert not claude.messages.create(**asking(), workspace_id="wrkspc_2").usage.cache_read_input_tokens
    assert claude.messages.create(**asking(), workspace_id="wrkspc_2").usage.cache_read_input_tokens
    assert not claude.messages.create(**asking(model="claude-opus-5-5")).usage.cache_read_input_tokens


def test_message_is_what_the_sdk_types_say(server: LocalServer, claude: anthropic.Anthropic) -> None:
    server.script([{"parts": ALL_PARTS}])
    raw = claude.messages.with_raw_response.create(**asking())
    message = strictly(Message, raw.http_response.json())
    assert raw.parse() == message and raw.headers["request-id"].startswith("req_")
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert message.stop_reason == "tool_use"
    details = message.usage.output_tokens_details
    assert details is not None and 0 < details.thinking_tokens < message.usage.output_tokens


def test_stream_accumulates_to_the_same_message(server: LocalServer, claude: anthropic.Anthropic) -> None:
    server.script([{"parts": ALL_PARTS}] * 2)
    whole = claude.messages.create(**asking())
    with claude.messages.stream(**asking()) as stream:
        streamed = stream.get_final_message()
    one, other = whole.to_dict(), streamed.to_dict()
    for message in (one, other):
        for block in message["content"]:  # type: ignore[attr-defined]
            for name in ("id", "signature", "parsed_output"):
                block.pop(name, None)
    assert one["content"] == other["content"] and one["stop_reason"] == other["stop_reason"]
    assert streamed.usage.cache_read_input_tokens == whole.usage.cache_creation_input_tokens
    assert streamed.usage.output_tokens == whole.usage.output_tokens


def test_every_event_is_what_the_sdk_types_say(server: LocalServer, claude: anthropic.Anthropic) -> None:
    server.script([{"parts": ALL_PARTS}])
    with claude.messages.with_streaming_response.create(**asking(), stream=True) as response:
        events = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    kinds = [strictly(EVENT, event, is_json=True).type for event in events if event != '{"type":"ping"}']
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == len(ALL_PARTS)


def test_async_client(server: LocalServer) -> None:
    server.script([saying(f"reply {index}") for index in range(6)])

    async def talk() -> list[str]:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="any", max_retries=0) as client:
            messages = [await client.messages.create(**asking()) for _ in range(3)]
            async with client.messages.stream(**asking()) as stream:
                messages.append(await stream.get_final_message())
            messages += await asyncio.gather(*(client.messages.create(**asking()) for _ in range(2)))
        return [message.content[0].text for message in messages]  # type: ignore[union-attr]

    assert sorted(asyncio.run(talk())) == [f"reply {index}" for index in range(6)]
    assert len(server.ledger) == 6


def test_auth_token_is_as_good_as_a_key(server: LocalServer) -> None:
    with anthropic.Anthropic(base_url=server.url, auth_token="any", api_key=None, max_retries=0) as client:
        assert client.messages.create(**asking()).content


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("done", "end_turn"),
        ("calls", "tool_use"),
        ("truncated", "max_tokens"),
        ("paused", "pause_turn"),
        ("refused", "refusal"),
        ("overflow", "model_context_window_exceeded"),
    ],
)
def test_every_ending(server: LocalServer, claude: anthropic.Anthropic, stop: str, reason: str) -> None:
    server.script([saying(stop=stop, output_tokens=77)])
    raw = claude.messages.with_raw_response.create(**asking())
    message = strictly(Message, raw.http_response.json())
    assert message.stop_reason == reason and message.usage.output_tokens == 77
    assert (message.stop_details is not None) == (stop == "refused")


def test_a_paused_turn_may_be_continued(server: LocalServer, claude: anthropic.Anthropic) -> None:
    server.script([saying("one moment", stop="paused"), saying("there")])
    user = {"role": "user", "content": "hello"}
    paused = claude.messages.create(**asking(user))
    assert claude.messages.create(**asking(user, {"role": "assistant", "content": paused.content})).content


def test_prewarming_writes_and_says_nothing(server: LocalServer, claude: anthropic.Anthropic) -> None:
    server.script([saying("later")])
    warm = claude.messages.create(**asking(max_tokens=0))
    assert warm.content == [] and warm.usage.output_tokens == 0 and warm.stop_reason == "max_tokens"
    real = claude.messages.create(**asking())
    assert (
        real.usage.cache_read_input_tokens == warm.usage.cache_creation_input_tokens and real.content[0].text == "later"
    )  # type: ignore[union-attr]


def test_count_tokens_is_the_size_that_is_billed(claude: anthropic.Anthropic) -> None:
    request = asking()
    counted = claude.messages.count_tokens(
        **{name: value for name, value in request.items() if name != "max_tokens"}
    ).input_tokens
    usage = claude.messages.create(**request).usage
    assert counted == usage.input_tokens + (usage.cache_creation_input_tokens or 0)


def test_models(claude: anthropic.Anthropic) -> None:
    raw = claude.models.with_raw_response.list()
    assert {strictly(ModelInfo, row).id for row in raw.http_response.json()["data"]} >= {CLAUDE}
    assert claude.models.retrieve(CLAUDE).id == CLAUDE
    with pytest.raises(anthropic.NotFoundError):
        claude.models.retrieve("claude-none")


def test_ledger_holds_the_bill_and_no_words(server: LocalServer, claude: anthropic.Anthropic) -> None:
    message = claude.messages.create(**asking({"role": "user", "content": "my secret"}))
    (call,) = server.ledger
    assert call.id == message.id and call.usage is not None and call.error is None
    assert call.usage.write_5m == message.usage.cache_creation_input_tokens
    assert "secret" not in repr(call) and "any" not in repr(call).split("'")


def test_four_megabytes(server: LocalServer, claude: anthropic.Anthropic) -> None:
    said = [
        {"role": role, "content": f"{index} " + "word " * 400} for index in range(500) for role in ("user", "assistant")
    ]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUFB" * 550_000}}
    usage = claude.messages.create(**asking(*said, {"role": "user", "content": [picture]})).usage
    assert usage.input_tokens > 500_000
