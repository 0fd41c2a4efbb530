"""Every refusal, as the exception the SDK raises and the words the API uses."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import pytest

from contextkit.server import LocalServer
from tests.server.conftest import CLAUDE, HEAD, asking

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
USER = {"role": "user", "content": "hello"}
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}]}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
SYSTEM = {"role": "system", "content": "by the way"}
OLD = "claude-opus-4-5"


def text(words: str, mark: Any = MARK) -> dict[str, Any]:
    return {"type": "text", "text": words, "cache_control": mark}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no max_tokens": ({"max_tokens": None}, "max_tokens: Field required"),
    "max_tokens is text": ({"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
    "max_tokens below 0": ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
    "messages is empty": ({"messages": []}, "messages: at least one message"),
    "a role nobody knows": ({"messages": [{"role": "tool", "content": "x"}]}, r"messages\.0\.role"),
    "a block without its field": (
        {"messages": [user({"type": "text"})]},
        r"messages\.0\.content\.0\.text: Field required",
    ),
    "a tool without a schema": ({"tools": [{"name": "f"}]}, r"tools\.0\.input_schema: Field required"),
    "two tools of one name": ({"tools": [TOOL, TOOL]}, "Tool names must be unique"),
    "five marks": (
        {"messages": [user(*(text(f"{i}") for i in range(5)))], "system": "s"},
        "A maximum of 4 blocks with cache_control.* Found 5",
    ),
    "1h behind 5m": (
        {"messages": [user(text("a", HOUR))]},
        "ttl='1h' cache_control block must not come after a ttl='5m'",
    ),
    "automatic 1h behind 5m": ({"cache_control": HOUR}, "ttl='1h' cache_control block must not come after a ttl='5m'"),
    "automatic contradicts the last block": ({"messages": [user(text("a"))], "cache_control": HOUR}, "another ttl"),
    "automatic is a fifth": (
        {"messages": [user(*(text(f"{i}") for i in range(3)), {"type": "text", "text": "x"})], "cache_control": MARK},
        "Found 5",
    ),
    "a mark of no type": ({"cache_control": {"ttl": "5m"}}, "cache_control.type: Input should be 'ephemeral'"),
    "a ttl nobody has": (
        {"messages": [user(text("a", {**MARK, "ttl": "2h"}))]},
        r"messages\.0\.content\.0\.cache_control\.ttl: Input should be '5m' or '1h'",
    ),
    "a mark on empty text": ({"messages": [user(text(""))]}, "cache_control cannot be set for empty text blocks"),
    "a mark on thinking": (
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "x", "signature": "s", "cache_control": MARK}],
                },
                USER,
            ]
        },
        "Extra inputs are not permitted",
    ),
    "a call without a result": (
        {"messages": [USER, CALL, USER]},
        r"messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
    ),
    "a result too late": (
        {"messages": [USER, CALL, USER, {"role": "assistant", "content": "hm"}, RESULT]},
        "`tool_use` ids were found without",
    ),
    "a result without a call": (
        {"messages": [RESULT]},
        r"unexpected `tool_use_id` found in `tool_result` blocks: toolu_1",
    ),
    "a call by the user": ({"messages": [{**CALL, "role": "user"}]}, "can only be in `assistant` messages"),
    "the assistant begins": (
        {"messages": [{"role": "assistant", "content": "hi"}, USER]},
        'first message must use the "user" role',
    ),
    "words put into its mouth": (
        {"messages": [USER, {"role": "assistant", "content": "I"}]},
        "does not support assistant message prefill",
    ),
    "forced on a model that refuses it": (
        {"tools": [TOOL], "tool_choice": {"type": "any"}},
        '"any" is not supported by this model',
    ),
    "forced beside thinking": (
        {
            "model": OLD,
            "tools": [TOOL],
            "tool_choice": {"type": "tool", "name": "f"},
            "max_tokens": 4096,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        },
        "Thinking may not be enabled when tool_choice forces tool use",
    ),
    "forced without tools": (
        {"model": OLD, "tool_choice": {"type": "any"}},
        "may only be specified while providing tools",
    ),
    "a budget too small": (
        {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 10}},
        "greater than or equal to 1024",
    ),
    "a budget without room": (
        {"max_tokens": 1024, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        "must be greater than `thinking.budget_tokens`",
    ),
    "prewarming a stream": ({"max_tokens": 0, "stream": True}, "cannot be combined with stream"),
    "prewarming thinking": (
        {"max_tokens": 0, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        "cannot be combined with thinking",
    ),
    "prewarming a format": (
        {"max_tokens": 0, "output_config": {"format": {"type": "json_schema", "schema": {}}}},
        "cannot be combined with output_config",
    ),
    "prewarming a forced call": (
        {"max_tokens": 0, "tools": [TOOL], "tool_choice": {"type": "any"}},
        "cannot be combined with tool_choice",
    ),
    "temperature": ({"temperature": 1.0}, "temperature: not supported with anthropic-version 2026-10-21"),
    "citations of the user": (
        {"messages": [user({"type": "text", "text": "a", "citations": [{}]})]},
        "citations: not supported",
    ),
    "a document of the assistant": (
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
                    ],
                },
                USER,
            ]
        },
        "`document` blocks are not supported in assistant messages",
    ),
    "system in the middle, where it is not taken": (
        {"model": "claude-sonnet-5", "messages": [USER, SYSTEM]},
        "`system` messages are not supported",
    ),
    "system before a user": ({"messages": [USER, SYSTEM, USER]}, "must be last or be followed by an `assistant`"),
    "system behind an assistant": (
        {"messages": [USER, {"role": "assistant", "content": "hi"}, SYSTEM]},
        "must follow a `user` message",
    ),
    "too long": ({"model": OLD, "system": "word " * 200_000}, r"prompt is too long: \d+ tokens > 200000 maximum"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(server: LocalServer, claude: anthropic.Anthropic, name: str) -> None:
    change, words = REFUSED[name]
    with pytest.raises(anthropic.BadRequestError, match=words) as caught:
        claude.post(
            "/v1/messages",
            body={key: value for key, value in asking(**change).items() if value is not None},
            cast_to=dict,
        )
    assert caught.value.type == "invalid_request_error" and HEAD not in str(caught.value)
    assert all(exchange.usage is None for exchange in server.ledger)


ACCEPTED: dict[str, dict[str, Any]] = {
    "four marks": {"system": [text(HEAD, HOUR)], "messages": [user(text("a", HOUR), text("b"), text("c"))]},
    "automatic": {"cache_control": MARK},
    "automatic on a marked block": {"messages": [user(text("a"))], "cache_control": MARK},
    "results in two messages": {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": [*CALL["content"], {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}}],
            },  # type: ignore[misc]
            RESULT,
            user({"type": "tool_result", "tool_use_id": "toolu_2"}),
        ]
    },
    "system in the middle": {"messages": [USER, SYSTEM, {"role": "assistant", "content": "hi"}, USER, SYSTEM]},
    "prefill on an old model": {"model": OLD, "messages": [USER, {"role": "assistant", "content": "I"}]},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(claude: anthropic.Anthropic, name: str) -> None:
    assert claude.messages.create(**asking(**ACCEPTED[name])).stop_reason == "end_turn"


def test_a_model_of_another_provider(claude: anthropic.Anthropic) -> None:
    for model in ("gpt-none", "gpt-6.1-sol"):
        with pytest.raises(anthropic.NotFoundError, match=f"model: {model}") as caught:
            claude.messages.create(**asking(model=model))
        assert caught.value.type == "not_found_error"


def test_the_old_version_takes_temperature(claude: anthropic.Anthropic) -> None:
    old = claude.with_options(default_headers={"anthropic-version": "2023-06-01"})
    assert old.messages.create(**asking(), extra_body={"temperature": 1.0}).content


def test_keys_and_versions(http: httpx2.Client) -> None:
    body = {"model": CLAUDE, "max_tokens": 9, "messages": [USER]}
    version = {"anthropic-version": "2023-06-01"}
    answers = [
        (http.post("/v1/messages", json=body, headers=version), 401, "authentication_error"),
        (http.post("/v1/messages", content=b"{", headers=version), 401, "authentication_error"),
        (http.post("/v1/messages", json=body, headers={"x-api-key": "k"}), 400, "invalid_request_error"),
        (
            http.post("/v1/messages", json=body, headers={"x-api-key": "k", "anthropic-version": "1999"}),
            400,
            "invalid_request_error",
        ),
        (http.get("/v1/messages", headers=version), 405, "api_error"),
        (http.get("/v1/nothing", headers=version), 404, "not_found_error"),
        (http.get("/v1/models", headers=version), 401, "authentication_error"),
    ]
    assert [(response.status_code, response.json()["error"]["type"]) for response, _, _ in answers] == [
        (status, kind) for _, status, kind in answers
    ]
    assert http.post("/v1/messages", json=body, headers={"x-api-key": "k", **version}).status_code == 200
