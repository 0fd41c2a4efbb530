"""State on the server, through the SDK's own client: stored responses, conversations, references, compactions."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import openai
import pytest
from openai.types.conversations import Conversation, ConversationDeletedResource, ConversationItemList
from openai.types.responses import CompactedResponse, Response, ResponseItemList, ResponseStreamEvent
from pydantic import TypeAdapter

from contextkit.providers.histories import Histories, Unknown
from contextkit.server import LocalServer
from tests.server.conftest import ALL_PARTS, GPT, HEAD, saying
from tests.server.strict import strictly

HEADED: list[dict[str, Any]] = [{"role": "developer", "content": HEAD}, {"role": "user", "content": "hello"}]
TOOL: Any = {"type": "function", "name": "search", "parameters": {"type": "object", "properties": {}}, "strict": False}
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def ask(gpt: openai.OpenAI, said: Any, **more: Any) -> Response:
    answer = gpt.responses.create(model=GPT, input=said, **more)
    assert isinstance(answer, Response)
    return answer


def counts(answer: Response) -> tuple[int, int, int]:
    assert answer.usage is not None
    details = answer.usage.input_tokens_details
    return answer.usage.input_tokens, details.cached_tokens, details.cache_write_tokens


def test_a_response_that_names_the_one_before_is_billed_as_the_whole_prompt(
    server: LocalServer, gpt: openai.OpenAI
) -> None:
    server.script([{"parts": ALL_PARTS[:3]}, saying("done")] * 2)
    first = ask(gpt, HEADED, tools=[TOOL])
    call = next(item for item in first.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "3 GPUs"}
    short = ask(gpt, [result], previous_response_id=first.id, tools=[TOOL])
    assert short.previous_response_id == first.id and first.previous_response_id is None
    server.script([saying("done")])
    long = ask(gpt, [*HEADED, *(item.to_dict() for item in first.output), result], tools=[TOOL])
    assert counts(short)[0] == counts(long)[0] == counts(long)[1]
    assert counts(short)[1] == counts(first)[0]


def test_a_stored_conversation_is_one_conversation_of_the_ledger(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([saying("one"), {"parts": ALL_PARTS[:2]}, saying("three")])
    answer = ask(gpt, "hello", instructions=HEAD)
    for text in ("and?", "more"):
        answer = ask(gpt, text, instructions=HEAD, previous_response_id=answer.id)
    assert [call.lane for call in server.ledger] == ["main"] * 3


def test_responses_branch(gpt: openai.OpenAI) -> None:
    first = ask(gpt, HEADED)
    one, other = (ask(gpt, text, previous_response_id=first.id) for text in ("left", "right"))
    assert one.output_text == "You said: left" and other.output_text == "You said: right"
    assert counts(one)[1] == counts(other)[1] == counts(first)[0]


def test_instructions_are_those_of_the_request(gpt: openai.OpenAI) -> None:
    first = ask(gpt, "hello", instructions=HEAD)
    bare, again = (ask(gpt, "and?", previous_response_id=first.id, **more) for more in ({}, {"instructions": HEAD}))
    assert counts(again)[0] > counts(bare)[0] + 500 and counts(bare)[1] == 0 < counts(again)[1]


def test_what_is_not_stored_is_not_found(server: LocalServer, gpt: openai.OpenAI) -> None:
    kept, gone = ask(gpt, HEADED), ask(gpt, HEADED, store=False)
    warm = ask(gpt, HEADED, prompt_cache_options={"prewarm": True})
    server.script([{"parts": ALL_PARTS, "fault": {"kind": "cut", "after_parts": 1}}])
    with pytest.raises(openai.APIConnectionError):
        ask(gpt, HEADED)
    assert ask(gpt, "and?", previous_response_id=kept.id).id
    for name in (gone.id, warm.id, "resp_000000000000000000000004", "resp_none"):
        with pytest.raises(openai.BadRequestError) as caught:
            ask(gpt, "and?", previous_response_id=name)
        body: Any = caught.value.body
        assert body == {
            "message": f"Previous response with id '{name}' not found.",
            "type": "invalid_request_error",
            "param": "previous_response_id",
            "code": "previous_response_not_found",
        }


def test_a_refused_request_leaves_nothing_in_the_ledger_and_no_script_is_used_up(
    server: LocalServer, gpt: openai.OpenAI
) -> None:
    server.script([saying("first")])
    with pytest.raises(openai.BadRequestError):
        ask(gpt, "and?", previous_response_id="resp_none")
    assert len(server.ledger) == 0 and ask(gpt, "hello").output_text == "first"


def test_responses_are_shown_and_deleted(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": ALL_PARTS[:2]}, saying()])
    first = ask(gpt, HEADED)
    second = ask(gpt, "and?", previous_response_id=first.id)
    raw = gpt.responses.with_raw_response.retrieve(first.id).http_response.json()
    assert strictly(Response, raw) == first
    listed = gpt.responses.input_items.with_raw_response.list(second.id, order="asc").http_response.json()
    strictly(ResponseItemList, listed)
    assert [item["type"] for item in listed["data"]] == ["message", "message", "reasoning", "message", "message"]
    gpt.responses.delete(first.id)
    for act in (gpt.responses.retrieve, gpt.responses.delete, lambda name: list(gpt.responses.input_items.list(name))):
        with pytest.raises(openai.NotFoundError, match=f"Response with id '{first.id}' not found"):
            act(first.id)
    with pytest.raises(openai.BadRequestError):
        ask(gpt, "and?", previous_response_id=first.id)
    assert counts(ask(gpt, "more", previous_response_id=second.id))[1] > 0


def test_references_stand_for_items_that_are_kept(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": ALL_PARTS[:2]}])
    first = ask(gpt, HEADED)
    references: list[Any] = [{"type": "item_reference", "id": item.id} for item in first.output]
    referred = ask(gpt, [*HEADED, *references, {"role": "user", "content": "and?"}])
    repeated = ask(gpt, [*HEADED, *(item.to_dict() for item in first.output), {"role": "user", "content": "and?"}])
    assert counts(referred)[0] == counts(repeated)[0] == counts(repeated)[1]
    assert ask(gpt, [*HEADED, {"id": first.output[1].id}, {"role": "user", "content": "and?"}]).id
    with pytest.raises(openai.NotFoundError, match=r"Item with id 'msg_none' not found\. Items are not persisted"):
        ask(gpt, [{"type": "item_reference", "id": "msg_none"}])


def test_a_conversation_grows_with_each_response(server: LocalServer, gpt: openai.OpenAI) -> None:
    made = gpt.conversations.create(items=HEADED[:1], metadata={"topic": "gpus"})  # type: ignore[arg-type]
    for text in ("one", "two"):
        answer = ask(gpt, text, conversation=made.id)
        assert (
            answer.conversation is not None
            and answer.conversation.id == made.id
            and answer.previous_response_id is None
        )
    third = ask(gpt, "three", conversation={"id": made.id})
    assert counts(third)[1] == counts(answer)[0]
    listed = gpt.conversations.items.with_raw_response.list(made.id, order="asc").http_response.json()
    strictly(ConversationItemList, listed)
    assert [item["role"] for item in listed["data"]] == ["developer", *["user", "assistant"] * 3]
    whole = ask(
        gpt,
        [
            *HEADED[:1],
            *[{"role": role, "content": text} for role, text in (("user", "one"), ("user", "two"), ("user", "three"))],
        ],
        store=False,
    )
    assert counts(whole)[0] < counts(third)[0], "what the model said stands in it too"


def test_conversations_are_shown_changed_and_deleted(gpt: openai.OpenAI) -> None:
    made = gpt.conversations.create(metadata={"a": "1"})
    strictly(Conversation, gpt.conversations.with_raw_response.retrieve(made.id).http_response.json())
    assert gpt.conversations.update(made.id, metadata={"b": "2"}).metadata == {"b": "2"}
    said: list[Any] = [{"role": "user", "content": f"{number}"} for number in range(5)]
    added = gpt.conversations.items.create(made.id, items=said)
    ids = [item.id for item in added.data]
    assert (
        len(set(ids)) == 5 and gpt.conversations.items.retrieve(ids[1] or "", conversation_id=made.id).type == "message"
    )
    assert [item.id for item in gpt.conversations.items.list(made.id, limit=2)] == ids[::-1], (
        "pages follow one another, the latest first"
    )
    gpt.conversations.items.delete(ids[1] or "", conversation_id=made.id)
    assert [item.id for item in gpt.conversations.items.list(made.id, order="asc")] == [ids[0], *ids[2:]]
    strictly(ConversationDeletedResource, gpt.conversations.with_raw_response.delete(made.id).http_response.json())
    missing: list[Any] = [
        lambda: gpt.conversations.retrieve(made.id),
        lambda: gpt.conversations.items.create(made.id, items=said),
        lambda: list(gpt.conversations.items.list(made.id)),
        lambda: ask(gpt, "hello", conversation=made.id),
        lambda: gpt.conversations.items.retrieve("msg_1", conversation_id=made.id),
    ]
    for act in missing:
        with pytest.raises(openai.NotFoundError, match=f"Conversation with id '{made.id}' not found"):
            act()


def test_what_conversations_refuse(gpt: openai.OpenAI) -> None:
    made = gpt.conversations.create()
    for said, words in (
        ([{"role": "user", "content": "x"}] * 21, "array too long"),
        ([{"type": "smell"}], r"input\[0\]"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            gpt.conversations.items.create(made.id, items=said)  # type: ignore[arg-type]
    with pytest.raises(openai.BadRequestError, match="limit"):
        gpt.conversations.items.list(made.id, limit=101)
    with pytest.raises(openai.NotFoundError, match="Item with id 'msg_1' not found"):
        gpt.conversations.items.retrieve("msg_1", conversation_id=made.id)
    with pytest.raises(openai.NotFoundError):
        ask(gpt, "hello", conversation="conv_none")


def test_streams_and_async_clients_go_on_too(server: LocalServer) -> None:
    async def talk() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
            said: Any = HEADED
            async with client.responses.stream(model=GPT, input=said) as stream:
                first = await stream.get_final_response()
            async with client.responses.stream(model=GPT, input="and?", previous_response_id=first.id) as stream:
                events = [event async for event in stream]
            return [first, events[0], events[-1]]

    first, created, completed = asyncio.run(talk())
    assert created.response.previous_response_id == completed.response.previous_response_id == first.id
    assert counts(completed.response)[1] == counts(first)[0]


def test_a_reset_forgets_what_was_kept(server: LocalServer, gpt: openai.OpenAI) -> None:
    name, made = ask(gpt, "hello").id, gpt.conversations.create().id
    server.reset()
    for act in (lambda: gpt.responses.retrieve(name), lambda: gpt.conversations.retrieve(made)):
        with pytest.raises(openai.NotFoundError):
            act()


def test_projects_do_not_share_what_is_kept(gpt: openai.OpenAI) -> None:
    name, made, other = ask(gpt, "hello").id, gpt.conversations.create().id, gpt.with_options(project="proj_2")
    for act in (
        lambda: other.responses.retrieve(name),
        lambda: other.conversations.retrieve(made),
        lambda: ask(other, "hi", conversation=made),
        lambda: ask(other, "hi", previous_response_id=name),
    ):
        with pytest.raises(openai.APIStatusError, match="not found"):
            act()


def test_engines_keep_responses_too() -> None:
    with (
        LocalServer(cache="vllm") as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):
        first = client.responses.create(model="any", input=HEADED)  # type: ignore[arg-type]
        second = client.responses.create(model="any", input="and?", previous_response_id=first.id)
        assert second.usage is not None and second.usage.input_tokens_details.cached_tokens > 1000


@pytest.mark.parametrize("way", ["whole", "by its response"])
def test_a_compaction_stands_for_what_the_model_said(server: LocalServer, gpt: openai.OpenAI, way: str) -> None:
    first = ask(gpt, HEADED)
    server.script([saying("All is well. " * 20)])
    said: Any = [*HEADED, *(item.to_dict() for item in first.output)]
    given: Any = {"input": said} if way == "whole" else {"previous_response_id": first.id}
    raw = gpt.responses.with_raw_response.compact(model=GPT, **given).http_response.json()
    strictly(CompactedResponse, {**raw, "output": raw["output"][-1:]})
    assert [item["type"] for item in raw["output"]] == ["message", "compaction"]
    assert raw["output"][0]["content"] == [{"type": "input_text", "text": "hello"}]
    assert (
        raw["usage"]["input_tokens_details"]["cached_tokens"] == counts(first)[0] and raw["usage"]["output_tokens"] > 50
    )
    assert ask(gpt, [*raw["output"], {"role": "user", "content": "and?"}]).output_text == "You said: and?"


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_threshold_and_a_trigger_put_a_compaction_into_the_response(
    server: LocalServer, gpt: openai.OpenAI, is_stream: bool
) -> None:
    def types(said: Any, **more: Any) -> list[str]:
        server.script([saying()])
        if not is_stream:
            return [item.type for item in strictly(Response, ask(gpt, said, **more).to_dict()).output]
        with gpt.responses.with_streaming_response.create(model=GPT, input=said, stream=True, **more) as response:
            lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
        last = [strictly(EVENT, line, is_json=True) for line in lines][-1]
        assert last.type == "response.completed"
        return [item.type for item in last.response.output]

    for threshold, found in ((100, ["compaction", "message"]), (100_000, ["message"])):
        assert types(HEADED, context_management=[{"type": "compaction", "compact_threshold": threshold}]) == found
    assert types([*HEADED, {"type": "compaction_trigger"}]) == ["compaction"]


# What holds them
# ------------------------------------------------------------------------------------------------------------


def test_histories_keep_what_fits_and_forget_the_oldest_with_all_that_leans_on_it() -> None:
    kept = Histories(most_bytes=400)
    for number in range(20):
        said = [{"role": "user", "content": "x" * 50, "id": f"msg_{number}"}]
        kept.keep(f"resp_{number}", said, f"resp_{number - 1}" if number else None)
    assert kept.items("resp_0") is None and kept.items("resp_19") is None, "a chain whose beginning went is not whole"
    assert kept.item("msg_0") is None and kept.item("msg_19")["id"] == "msg_19"
    kept.keep("resp_new", [{"role": "user", "content": "hi"}])
    assert kept.items("resp_new") == [{"role": "user", "content": "hi"}]
    kept.keep("resp_lost", [], "resp_none")
    assert kept.items("resp_lost") is None


def test_a_body_that_leans_on_nothing_is_left_as_it_is() -> None:
    kept = Histories()
    for body in ({"input": "hi"}, {"input": [{"role": "user", "content": "hi"}], "model": "m"}):
        assert kept.whole(body) == body
    assert kept.whole({"input": "hi", "conversation": {"id": "conv_1"}}) == Unknown("conversation", "conv_1")
    assert kept.whole({"input": [{"role": "user", "content": "a"}, {"id": "msg_1"}]}) == Unknown("input[1].id", "msg_1")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", b"no json"),
        ("/v1/conversations", b"no json"),
        ("/v1/conversations/conv_1/items", b"[]"),
        ("/v1beta/cachedContents", b"no json"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", b'{"cachedContent":"cachedContents/none"}'),
    ],
)
def test_a_missing_key_is_refused_whatever_the_body(server: LocalServer, path: str, body: bytes) -> None:
    with httpx2.Client(base_url=server.url, headers={"content-type": "application/json"}) as http:
        keyless = http.post(path, content=body)
        keyed = http.post(path, content=body, headers={"authorization": "Bearer any", "x-goog-api-key": "any"})
        assert keyless.status_code == (401 if path.startswith("/v1/") else 403)
        assert keyed.status_code in (400, 403) and keyed.json() != keyless.json()
