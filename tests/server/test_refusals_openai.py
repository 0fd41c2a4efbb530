"""Every refusal, as the exception the SDK raises and the words the API uses."""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest

from contextkit.server import LocalServer
from tests.server.conftest import GPT
from tests.server.test_openai import TURNS

USER = {"role": "user", "content": "hello"}
CALLS = {
    "role": "assistant",
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
MARKED = [{"role": "user", "content": [{"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}]}]

CHAT: list[tuple[dict[str, Any], str, str | None]] = [
    ({"messages": None}, "Missing required parameter: 'messages'", "missing_required_parameter"),
    ({"messages": []}, "empty array", "empty_array"),
    ({"messages": [{"role": "bot", "content": "x"}]}, r"messages\[0\].role'. Supported values", "invalid_value"),
    ({"messages": [{"role": "user"}]}, r"messages\[0\].content", "missing_required_parameter"),
    ({"messages": [USER, {"role": "assistant"}, USER]}, "expected a string, got null", None),
    ({"messages": [USER, CALLS, USER]}, "must be followed by tool messages.*call_1", None),
    (
        {"messages": [USER, {"role": "tool", "tool_call_id": "call_1", "content": "3"}]},
        "must be a response to a preceding message",
        None,
    ),
    (
        {"prompt_cache_options": {"ttl": "12h"}},
        "'prompt_cache_options.ttl'. Supported values are: '30m'",
        "invalid_value",
    ),
    (
        {"model": "gpt-5.5", "prompt_cache_options": {"mode": "implicit"}},
        "not supported with this model",
        "unsupported_parameter",
    ),
    ({"model": "gpt-5.5", "messages": MARKED}, "not supported with this model", "unsupported_parameter"),
    ({"prompt_cache_retention": "48h"}, "prompt_cache_retention", "invalid_type"),
    ({"prompt_cache_retention": "in_memory"}, "does not support 'in_memory'", "unsupported_value"),
    ({"tool_choice": "required"}, "only allowed when 'tools' are specified", None),
    ({"n": 2}, "'n' can only be 1", "unsupported_value"),
    ({"stream_options": {"include_usage": True}}, "only allowed when 'stream' is enabled", None),
]
RESPONSES: list[tuple[dict[str, Any], str, str | None]] = [
    ({"input": None}, "Missing required parameter: 'input'", "missing_required_parameter"),
    ({"input": [{"type": "smell"}]}, r"input\[0\]", "invalid_value"),
    ({"input": [{"role": "tool", "content": "x"}]}, r"input\[0\].role", "invalid_type"),
    ({"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "input_text", "invalid_value"),
    ({"input": [USER, CALL]}, "No tool output found for function call call_1", None),
    ({"input": [USER, OUTPUT]}, "No tool call found for function call output with call_id call_1", None),
    ({"input": [USER, OUTPUT, CALL]}, "No tool", None),
    ({"prompt_cache_options": {"ttl": "1h"}}, "Supported values are: '30m', '12h'", "invalid_value"),
    ({"previous_response_id": "resp_1"}, "Previous response with id 'resp_1' not found", "previous_response_not_found"),
    (
        {"previous_response_id": "resp_1", "conversation": "conv_1"},
        "Mutually exclusive parameters",
        "mutually_exclusive_parameters",
    ),
]


@pytest.mark.parametrize(
    ("path", "array", "cases"),
    [("/chat/completions", "messages", CHAT), ("/responses", "input", RESPONSES)],
    ids=["chat", "responses"],
)
def test_refused(server: LocalServer, gpt: openai.OpenAI, path: str, array: str, cases: Any) -> None:
    for change, words, code in cases:
        fields = {"model": GPT, array: TURNS, **change}
        with pytest.raises(openai.BadRequestError, match=words) as caught:
            gpt.post(path, body={key: value for key, value in fields.items() if value is not None}, cast_to=object)
        assert (caught.value.type, caught.value.code) == ("invalid_request_error", code)
    assert all(call.usage is None for call in server.ledger)


def test_what_is_accepted(gpt: openai.OpenAI) -> None:
    tool = {"role": "tool", "tool_call_id": "call_1", "content": "3"}
    for body in (
        {"messages": [USER, CALLS, tool]},
        {"messages": MARKED},
        {"model": "gpt-4o", "prompt_cache_retention": "in_memory", "messages": [USER]},
    ):
        assert gpt.chat.completions.create(**{"model": GPT, **body}).choices  # type: ignore[call-overload]
    for given in ("hello", [USER, CALL, OUTPUT], [{"type": "message", **USER}]):
        assert gpt.responses.create(model=GPT, input=given).output_text  # type: ignore[arg-type]


def test_a_model_of_another_provider(gpt: openai.OpenAI) -> None:
    for model in ("claude-none", "claude-sonnet-5-5"):
        with pytest.raises(openai.NotFoundError, match=f"The model `{model}` does not exist") as caught:
            gpt.responses.create(model=model, input="hello")
        assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_bodies_and_keys(http: httpx2.Client, path: str) -> None:
    key = {"authorization": "Bearer any"}
    response = http.post(path, content=b"[]", headers=key)
    assert response.status_code == 400 and response.json()["error"]["type"] == "invalid_request_error"
    assert http.post(path, content=b"{}").status_code == 401
    assert (
        http.get(path, headers=key).status_code == 405
        and http.get("/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    )
