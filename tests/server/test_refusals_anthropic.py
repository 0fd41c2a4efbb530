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


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": None}, "max_tokens: Field required"),
    ({"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
    ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
    ({"messages": []}, "messages: at least one message"),
    ({"messages": [{"role": "tool", "content": "x"}]}, r"messages\.0\.role"),
    ({"messages": [user({"type": "text"})]}, r"messages\.0\.content\.0\.text: Field required"),
    ({"tools": [{"name": "f"}]}, r"tools\.0\.input_schema: Field required"),
    ({"tools": [TOOL, TOOL]}, "Tool names must be unique"),
    (
        {"messages": [user(*(text(f"{i}") for i in range(5)))], "system": "s"},
        "A maximum of 4 blocks with cache_control.* Found 5",
    ),
    ({"messages": [user(text("a", HOUR))]}, "ttl='1h' cache_control block must not come after a ttl='5m'"),
    ({"cache_control": HOUR}, "ttl='1h' cache_control block must not come after a ttl='5m'"),
    ({"messages": [user(text("a"))], "cache_control": HOUR}, "another ttl"),
    (
        {"messages": [user(*(text(f"{i}") for i in range(3)), {"type": "text", "text": "x"})], "cache_control": MARK},
        "Found 5",
    ),
    ({"cache_control": {"ttl": "5m"}}, "cache_control.type: Input should be 'ephemeral'"),
    (
        {"messages": [user(text("a", {**MARK, "ttl": "2h"}))]},
        r"messages\.0\.content\.0\.cache_control\.ttl: Input should be '5m' or '1h'",
    ),
    ({"messages": [user(text(""))]}, "cache_control cannot be set for empty text blocks"),
    (
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
    (
        {"messages": [USER, CALL, USER]},
        r"messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
    ),
    (
        {"messages": [USER, CALL, USER, {"role": "assistant", "content": "hm"}, RESULT]},
        "`tool_use` ids were found without",
    ),
    ({"messages": [RESULT]}, r"unexpected `tool_use_id` found in `tool_result` blocks: toolu_1"),
    ({"messages": [{**CALL, "role": "user"}]}, "can only be in `assistant` messages"),
    ({"messages": [{"role": "assistant", "content": "hi"}, USER]}, 'first message must use the "user" role'),
    ({"messages": [USER, {"role": "assistant", "content": "I"}]}, "does not support assistant message prefill"),
    ({"tools": [TOOL], "tool_choice": {"type": "any"}}, '"any" is not supported by this model'),
    (
        {
            "model": OLD,
            "tools": [TOOL],
            "tool_choice": {"type": "tool", "name": "f"},
            "max_tokens": 4096,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        },
        "Thinking may not be enabled when tool_choice forces tool use",
    ),
    ({"model": OLD, "tool_choice": {"type": "any"}}, "may only be specified while providing tools"),
    ({"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 10}}, "greater than or equal to 1024"),
    (
        {"max_tokens": 1024, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        "must be greater than `thinking.budget_tokens`",
    ),
    ({"max_tokens": 0, "stream": True}, "cannot be combined with stream"),
    ({"max_tokens": 0, "thinking": {"type": "enabled", "budget_tokens": 1024}}, "cannot be combined with thinking"),
    (
        {"max_tokens": 0, "output_config": {"format": {"type": "json_schema", "schema": {}}}},
        "cannot be combined with output_config",
    ),
    ({"max_tokens": 0, "tools": [TOOL], "tool_choice": {"type": "any"}}, "cannot be combined with tool_choice"),
    ({"temperature": 1.0}, "temperature: not supported with anthropic-version 2026-10-21"),
    ({"messages": [user({"type": "text", "text": "a", "citations": [{}]})]}, "citations: not supported"),
    (
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
    ({"model": "claude-sonnet-5", "messages": [USER, SYSTEM]}, "`system` messages are not supported"),
    ({"messages": [USER, SYSTEM, USER]}, "must be last or be followed by an `assistant`"),
    ({"messages": [USER, {"role": "assistant", "content": "hi"}, SYSTEM]}, "must follow a `user` message"),
    ({"model": OLD, "system": "word " * 200_000}, r"prompt is too long: \d+ tokens > 200000 maximum"),
]


def test_refused(server: LocalServer, claude: anthropic.Anthropic) -> None:
    for change, words in REFUSED:
        body = {key: value for key, value in asking(**change).items() if value is not None}
        with pytest.raises(anthropic.BadRequestError, match=words) as caught:
            claude.post("/v1/messages", body=body, cast_to=dict)
        assert caught.value.type == "invalid_request_error" and HEAD not in str(caught.value)
    assert all(call.usage is None for call in server.ledger)


ACCEPTED: list[dict[str, Any]] = [
    {"system": [text(HEAD, HOUR)], "messages": [user(text("a", HOUR), text("b"), text("c"))]},
    {"cache_control": MARK},
    {"messages": [user(text("a"))], "cache_control": MARK},
    {
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
    {"messages": [USER, SYSTEM, {"role": "assistant", "content": "hi"}, USER, SYSTEM]},
    {"model": OLD, "messages": [USER, {"role": "assistant", "content": "I"}]},
]


def test_accepted(claude: anthropic.Anthropic) -> None:
    for change in ACCEPTED:
        assert claude.messages.create(**asking(**change)).stop_reason == "end_turn"


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
