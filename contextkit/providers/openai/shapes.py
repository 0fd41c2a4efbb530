"""What a Chat Completions or Responses body must look like before anything is made of it: key, fields, messages, items.

Tables after `openai.types` 3.52 (chat/completion_create_params.py, responses/response_create_params.py and the params
they name).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.providers.validation import (
    ANYTHING,
    ARRAY,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    TEXT_OR_ARRAY,
    TEXT_OR_OBJECT,
    TEXTS,
    WHOLE,
    Kind,
    ReceivedRequest,
    Refusal,
    kinds,
    misfits,
    missing,
    one_of,
    unknown,
)

_SHARED = kinds(
    texts=(TEXT, "model prompt_cache_key safety_identifier user"),
    flags=(FLAG, "parallel_tool_calls store stream"),
    numbers=(NUMBER, "temperature top_p"),
    whole=(WHOLE, "top_logprobs"),
    arrays=(ARRAY, "tools"),
    choice=(TEXT_OR_OBJECT, "tool_choice"),
    objects=(OBJECT, "metadata prompt_cache_options stream_options moderation"),
    kept=(one_of("in_memory", "24h"), "prompt_cache_retention"),
    tier=(one_of("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"), "service_tier"),
)
CHAT = _SHARED | kinds(
    arrays=(ARRAY, "messages functions"),
    numbers=(NUMBER, "frequency_penalty presence_penalty"),
    flags=(FLAG, "logprobs"),
    whole=(WHOLE, "max_completion_tokens max_tokens n seed"),
    objects=(OBJECT, "audio logit_bias prediction response_format web_search_options"),
    texts=(TEXT, "reasoning_effort verbosity"),
    lists=(TEXTS, "modalities"),
    stop=(TEXT_OR_ARRAY, "stop"),
    old=(TEXT_OR_OBJECT, "function_call"),
)
RESPONSES = _SHARED | kinds(
    input=(TEXT_OR_ARRAY, "input"),
    texts=(TEXT, "instructions previous_response_id truncation"),
    flags=(FLAG, "background"),
    whole=(WHOLE, "max_output_tokens max_tool_calls"),
    lists=(TEXTS, "include"),
    arrays=(ARRAY, "context_management"),
    objects=(OBJECT, "access_programs image prompt reasoning text"),
    other=(ANYTHING, "conversation"),
)
COMPACT = {
    name: RESPONSES[name]
    for name in (
        "model",
        "input",
        "instructions",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "service_tier",
        "image",
    )
}

_FORMAT = one_of("text", "json_object", "json_schema")
_NESTED: dict[str, dict[str, Kind]] = {
    "prompt_cache_options": {"prewarm": FLAG, "comparison_response_id": TEXT},
    "stream_options": {"include_usage": FLAG, "include_obfuscation": FLAG},
    "response_format": {"type": _FORMAT},
    "reasoning": {"effort": TEXT, "summary": TEXT},
    "text": {
        "format": Kind(
            "an object with a supported type",
            lambda value: isinstance(value, dict) and _FORMAT.holds(value.get("type")),
        )
    },
}
"""Fields of fields."""
_TOOL_CALL = {"id": TEXT, "type": TEXT}
_MESSAGES: dict[str, dict[str, Kind]] = {
    "system": {"content": TEXT_OR_ARRAY},
    "developer": {"content": TEXT_OR_ARRAY},
    "user": {"content": TEXT_OR_ARRAY},
    "assistant": {},
    "tool": {"content": TEXT_OR_ARRAY, "tool_call_id": TEXT},
    "function": {"name": TEXT},
}
"""Role → fields a chat message cannot do without."""
_CHAT_PARTS: dict[str, dict[str, Kind]] = {
    "text": {"text": TEXT},
    "image_url": {"image_url": OBJECT},
    "input_audio": {"input_audio": OBJECT},
    "file": {"file": OBJECT},
    "refusal": {"refusal": TEXT},
}
_MESSAGE = {"role": one_of("user", "assistant", "system", "developer"), "content": TEXT_OR_ARRAY}
_ITEMS: dict[str, dict[str, Kind]] = {
    "message": _MESSAGE,
    "function_call": {"call_id": TEXT, "name": TEXT, "arguments": TEXT},
    "function_call_output": {"call_id": TEXT, "output": TEXT_OR_ARRAY},
    "custom_tool_call": {"call_id": TEXT, "name": TEXT, "input": TEXT},
    "custom_tool_call_output": {"call_id": TEXT, "output": TEXT_OR_ARRAY},
    "tool_search_output": {"tools": ARRAY},
    "additional_tools": {"tools": ARRAY},
    "reasoning": {"summary": ARRAY},
    "item_reference": {"id": TEXT},
} | {
    name: {}
    for name in (
        "file_search_call",
        "computer_call",
        "computer_call_output",
        "web_search_call",
        "tool_search_call",
        "configuration_update",
        "compaction",
        "compaction_trigger",
        "image_generation_call",
        "code_interpreter_call",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "program",
        "program_output",
    )
}
"""Type of input item → fields it cannot do without."""
_OF_ANY_ITEM = {"id": TEXT, "status": TEXT, "encrypted_content": TEXT}
_PARTS: dict[str, dict[str, Kind]] = {
    "input_text": {"text": TEXT},
    "input_image": {},
    "input_file": {},
    "input_audio": {"input_audio": OBJECT},
    "output_text": {"text": TEXT},
    "refusal": {"refusal": TEXT},
}
_HOLDS: dict[str, dict[str, dict[str, dict[str, Kind]]]] = {
    "message": {"content": _PARTS},
    "function_call_output": {"output": _PARTS},
    "custom_tool_call_output": {"output": _PARTS},
    "reasoning": {"summary": {"summary_text": {"text": TEXT}}, "content": {"reasoning_text": {"text": TEXT}}},
}
"""Type of item → field that holds parts → what they may be."""
_BREAKPOINT = {"mode": one_of("explicit"), "ttl": one_of("30m", "12h")}


def invalid(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    """A 400 in OpenAI's words."""
    return Refusal(400, "invalid_request_error", message, param, code)


def authenticated(received: ReceivedRequest) -> Iterator[Refusal]:
    """Any key will do, and none is looked at."""
    if not (received.headers.get("authorization") or received.headers.get("x-api-key")):
        yield Refusal(
            401,
            "invalid_request_error",
            "You didn't provide an API key in an Authorization header (Authorization: Bearer KEY).",
        )


def chat_fields(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of `POST /v1/chat/completions`."""
    return _fields(received, CHAT, ("model", "messages"))


def responses_fields(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of `POST /v1/responses`."""
    return _fields(received, RESPONSES, ("model", "input"))


def compact_fields(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of `POST /v1/responses/compact`, whose input may be what a response holds
    (responses/response_compact_params.py).
    """
    body = {"input": "", **received.body} if received.body.get("previous_response_id") else received.body
    return _fields(replace(received, body=body), COMPACT, ("model", "input"))


def _fields(received: ReceivedRequest, fields: Mapping[str, Kind], required: tuple[str, ...]) -> Iterator[Refusal]:
    body = received.body
    for name in missing(body, required):
        yield invalid(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    yield from _misfits(body, fields, "")
    for name in (name for name in _NESTED if name in fields):
        yield from _misfits(body.get(name) or {}, _NESTED[name], f"{name}.")
    for name in unknown(received, fields):
        yield invalid(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if body[required[1]] == []:
        yield invalid(
            f"Invalid '{required[1]}': empty array. Expected an array with minimum length 1.",
            required[1],
            "empty_array",
        )


def _misfits(value: Mapping[str, Json], fields: Mapping[str, Kind], path: str) -> Iterator[Refusal]:
    for name, kind in misfits(value, fields):
        yield invalid(
            f"Invalid type or value for '{path}{name}': expected {kind.words}.", f"{path}{name}", "invalid_type"
        )


def _shaped(value: Json, fields: Mapping[str, Kind], path: str) -> Iterator[Refusal]:
    for name in missing(value, fields):
        yield invalid(f"Missing required parameter: '{path}.{name}'.", f"{path}.{name}", "missing_required_parameter")
    yield from _misfits(value, fields, f"{path}.")


def messages(received: ReceivedRequest) -> Iterator[Refusal]:
    """Each chat message has the fields of its role, each part those of its type."""
    for index, message in enumerate(received.body["messages"]):
        path = f"messages[{index}]"
        if not isinstance(message, dict):
            yield invalid(f"Invalid type for '{path}': expected an object.", path, "invalid_type")
        elif message.get("role") not in tuple(_MESSAGES):
            known = ", ".join(f"'{role}'" for role in _MESSAGES)
            yield invalid(
                f"Invalid value for '{path}.role'. Supported values are: {known}.", f"{path}.role", "invalid_value"
            )
        else:
            yield from _shaped(message, _MESSAGES[message["role"]], path)
            yield from _parts(message.get("content"), _CHAT_PARTS, f"{path}.content")
            yield from _tool_calls(message.get("tool_calls"), f"{path}.tool_calls")


def _tool_calls(calls: Json, path: str) -> Iterator[Refusal]:
    if calls is not None and not isinstance(calls, list):
        yield invalid(f"Invalid type for '{path}': expected an array.", path, "invalid_type")
    for index, call in enumerate(calls or ()):
        at = f"{path}[{index}]"
        if not isinstance(call, dict) or call.get("type") not in ("function", "custom"):
            yield invalid(
                f"Invalid value for '{at}': expected an object of type 'function' or 'custom'.", at, "invalid_value"
            )
        else:
            yield from _shaped(call, {**_TOOL_CALL, call["type"]: OBJECT}, at)
            body = "arguments" if call["type"] == "function" else "input"
            yield from _shaped(call[call["type"]], {"name": TEXT, body: TEXT}, f"{at}.{call['type']}")


def items(received: ReceivedRequest) -> Iterator[Refusal]:
    """Each input item has the fields of its type, each part those of its own."""
    given = received.body["input"]
    for index, item in enumerate(given if isinstance(given, list) else ()):
        path = f"input[{index}]"
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if not isinstance(kind, str) or kind not in _ITEMS:
            yield invalid(f"Invalid value for '{path}': not an item of a supported type.", path, "invalid_value")
        else:
            yield from _shaped(item, _ITEMS[kind], path)
            yield from _misfits(item, _OF_ANY_ITEM, f"{path}.")
            for name, table in _HOLDS.get(kind, {}).items():
                yield from _parts(item.get(name), table, f"{path}.{name}")


def _parts(content: Json, table: Mapping[str, dict[str, Kind]], path: str) -> Iterator[Refusal]:
    """Parts of a message or an item; a string has none."""
    for index, part in enumerate(content if isinstance(content, list) else ()):
        at = f"{path}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in table:
            known = ", ".join(map(repr, table))
            yield invalid(
                f"Invalid value for '{at}.type'. Supported values are: {known}.", f"{at}.type", "invalid_value"
            )
            continue
        yield from _shaped(part, table[kind], at)
        mark = part.get("prompt_cache_breakpoint")
        if mark is not None and (
            not isinstance(mark, dict) or mark.get("mode") != "explicit" or next(misfits(mark, _BREAKPOINT), None)
        ):
            at += ".prompt_cache_breakpoint"
            yield invalid(
                f"Invalid value for '{at}': expected mode 'explicit' and ttl '30m' or '12h'.", at, "invalid_value"
            )


def chat_tools(received: ReceivedRequest) -> Iterator[Refusal]:
    """Each tool of a chat request has a name."""
    for index, tool in enumerate(received.body.get("tools") or ()):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind not in ("function", "custom"):
            at = f"tools[{index}].type"
            yield invalid(
                f"Invalid value for '{at}'. Supported values are: 'function' and 'custom'.", at, "invalid_value"
            )
        else:
            yield from _shaped(tool, {kind: OBJECT}, f"tools[{index}]")
            yield from _shaped(tool[kind], {"name": TEXT}, f"tools[{index}].{kind}")


def responses_tools(received: ReceivedRequest) -> Iterator[Refusal]:
    """Each tool of a Responses request has a type, functions have a name."""
    for index, tool in enumerate(received.body.get("tools") or ()):
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            yield invalid(
                f"Missing required parameter: 'tools[{index}].type'.",
                f"tools[{index}].type",
                "missing_required_parameter",
            )
        elif tool["type"] in ("function", "custom"):
            yield from _shaped(tool, {"name": TEXT}, f"tools[{index}]")
