"""Validation of Chat Completions and Responses bodies, and the errors OpenAI returns.

The shape is that of the SDK's own types (`openai.types`: chat/completion_create_params.py,
responses/response_create_params.py, responses/response_compact_params.py and the params they name). Written by hand is
what no type says. Sources: https://developers.openai.com/api/docs/guides/prompt-caching; error messages follow the API's
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest
from contextkit.server.endpoints.sdk_types import Mismatch, Rules, SdkType
from contextkit.server.endpoints.validation import (
    ParsedRequest,
    PromptCheck,
    ReceivedRequest,
    Refusal,
    RequestCheck,
    require_fit,
    require_key,
)


def invalid(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    """A 400 as OpenAI phrases it."""
    return Refusal(400, "invalid_request_error", message, param, code)


TOO_LONG = invalid(
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "input",
    "context_length_exceeded",
)


_authenticated = require_key(
    Refusal(
        401,
        "invalid_request_error",
        "You didn't provide an API key in an Authorization header (Authorization: Bearer KEY).",
    ),
    "authorization",
    "x-api-key",
)


# Errors (https://platform.openai.com/docs/guides/error-codes)
# -------------------------------------------------------------------------------------------------------------------

ERROR_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "invalid_request_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable_error",
}
"""HTTP status → error type; `server_error` for every other."""
ERROR_CODES: Mapping[int, str] = {
    401: "invalid_api_key",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_supported",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "server_overloaded",
}
"""HTTP status → error code."""
STATUS_BY_ERROR_TYPE: Mapping[str, int] = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "overloaded_error": 503,
    "service_unavailable_error": 503,
    "invalid_request_error": 400,
}


def render_error(refusal: Refusal) -> Json:
    """The body of an error."""
    return {"error": {"message": refusal.message, "type": refusal.type, "param": refusal.param, "code": refusal.code}}


def unreadable(fault: UnreadableRequest) -> Refusal:
    """A 400 for a body the adapter cannot parse."""
    return invalid(f"Invalid value for '{fault.path}': {fault}", fault.path, "invalid_value")


def unknown_model(name: str) -> Refusal:
    """A 404 for a model without a row."""
    text = f"The model `{name}` does not exist or you do not have access to it."
    return Refusal(404, "invalid_request_error", text, None, "model_not_found")


# Shapes
# -------------------------------------------------------------------------------------------------------------------


def _chat_type() -> Any:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    return CompletionCreateParamsNonStreaming


def _responses_type() -> Any:
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

    return ResponseCreateParamsNonStreaming


def _compact_type() -> Any:
    from openai.types.responses.response_compact_params import ResponseCompactParams

    return ResponseCompactParams


def _input_tokens_type() -> Any:
    from openai.types.responses.input_token_count_params import InputTokenCountParams

    return InputTokenCountParams


_CLOSED = frozenset({"role", "type", "mode", "ttl", "service_tier", "prompt_cache_retention"})
"""Fields with a closed list of values; a later effort, verbosity or status is accepted."""
_RESPONSES_RULES = Rules(
    # clients send items of a response back without what the API fills in itself (Codex, the Agents SDK)
    optional=frozenset({"id", "status", "annotations", "logprobs", "parameters", "strict", "execution"}),
    closed=_CLOSED,
    open_unions=frozenset({"tools"}),
    shallow=frozenset({"tool_choice", "conversation"}),
)
CHAT_TYPE = SdkType(_chat_type, Rules(closed=_CLOSED, shallow=frozenset({"tool_choice"})))
"""The body of `POST /v1/chat/completions`."""
RESPONSES_TYPE = SdkType(_responses_type, _RESPONSES_RULES)
"""The body of `POST /v1/responses`."""
MESSAGE_TYPE = replace(RESPONSES_TYPE, beside=frozenset({"generate"}))
"""The body of a `response.create` message (responses/responses_client_event_param.py), its `type` and `stream_id` aside."""
COMPACT_TYPE = SdkType(_compact_type, _RESPONSES_RULES)
"""The body of `POST /v1/responses/compact`."""
INPUT_TOKENS_TYPE = SdkType(_input_tokens_type, _RESPONSES_RULES)
"""The body of `POST /v1/responses/input_tokens`."""


def chat_shape(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of a Chat body, its messages and tools."""
    yield from cache_options(received, ("30m",))
    yield from _shape(received, CHAT_TYPE, "messages")


def responses_shape(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of a Responses body, its items and tools."""
    yield from cache_options(received, ("30m", "12h"))
    yield from _shape(received, RESPONSES_TYPE, "input")


def message_shape(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of a `response.create` message, whose input may be empty where it generates nothing."""
    body = received.body
    if not isinstance(body.get("generate"), bool | None):
        yield _refusal(Mismatch("generate", "type", "a valid boolean"))
    yield from cache_options(received, ("30m", "12h"))
    is_empty = body.get("generate") is False and body.get("input") == []
    yield from _shape(replace(received, body={**body, "input": ""}) if is_empty else received, MESSAGE_TYPE, "input")


def compact_shape(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of a body to compact, whose input may be what a response holds."""
    yield from cache_options(received, ("30m",))
    body = {"input": "", **received.body} if received.body.get("previous_response_id") else received.body
    yield from _shape(replace(received, body=body), COMPACT_TYPE, "input")


def input_tokens_shape(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of a body to count, whose input may be what a response or a conversation holds."""
    is_stored = any(received.body.get(name) for name in ("previous_response_id", "conversation"))
    body = {"input": "", **received.body} if is_stored else received.body
    yield from _shape(replace(received, body=body), INPUT_TOKENS_TYPE, "input")


def items_shape(items: Json) -> Iterator[Refusal]:
    """The items of a Responses input."""
    return map(_refusal, RESPONSES_TYPE.mismatches({"input": _completed(items)}))


def _completed(items: Json) -> Json:
    """Add to assistant messages what only the SDK's types ask for: clients send back role and texts alone (AI SDK, opencode)."""
    if not isinstance(items, list):
        return items
    return [
        {"type": "message", "id": "", "status": "completed", **item, "content": [*map(_annotated, item["content"])]}
        if isinstance(item, dict) and item.get("role") == "assistant" and isinstance(item.get("content"), list)
        else item
        for item in items
    ]


def _annotated(part: Json) -> Json:
    return {"annotations": [], **part} if isinstance(part, dict) and part.get("type") == "output_text" else part


def _shape(received: ReceivedRequest, declared: SdkType, array: str) -> Iterator[Refusal]:
    body = received.body
    for name in ("model", array):
        if body.get(name) is None:
            yield _refusal(Mismatch(name, "missing", "a value"))
    checked = {**body, "input": _completed(body["input"])} if array == "input" and body.get("input") else body
    yield from map(_refusal, declared.mismatches(checked))
    if received.is_strict:
        for name in body:
            if name not in declared:
                yield invalid(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if body[array] == []:
        message = f"Invalid '{array}': empty array. Expected an array with minimum length 1."
        yield invalid(message, array, "empty_array")


def _refusal(mismatch: Mismatch) -> Refusal:
    """A mismatch as OpenAI phrases it."""
    if mismatch.kind == "missing":
        return invalid(f"Missing required parameter: '{mismatch.path}'.", mismatch.path, "missing_required_parameter")
    if mismatch.kind == "value":
        message = f"Invalid value for '{mismatch.path}'. Supported values are: {mismatch.expected}."
        return invalid(message, mismatch.path, "invalid_value")
    message = f"Invalid type or value for '{mismatch.path}': expected {mismatch.expected}."
    return invalid(message, mismatch.path, "invalid_type")


# Fields
# -------------------------------------------------------------------------------------------------------------------


def cache_options(received: ReceivedRequest, ttls: tuple[str, ...]) -> Iterator[Refusal]:
    """The values `prompt_cache_options` may have; `ttls` is what the endpoint takes."""
    options = received.body.get("prompt_cache_options")
    if not isinstance(options, dict):
        return
    for name, allowed in (("mode", ("implicit", "explicit")), ("ttl", ttls)):
        if options.get(name) is not None and options[name] not in allowed:
            yield _refusal(Mismatch(f"prompt_cache_options.{name}", "value", ", ".join(map(repr, allowed))))


def one_choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """The local server makes one choice. `background` is accepted: the response is complete when it is once."""
    if received.body.get("n") not in (None, 1):
        yield invalid("Unsupported value: 'n' can only be 1 on this local server.", "n", "unsupported_value")


def stream_options(received: ReceivedRequest) -> Iterator[Refusal]:
    """`stream_options` beside a stream."""
    if received.body.get("stream_options") and not received.body.get("stream"):
        yield invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")


def in_foreground(received: ReceivedRequest) -> Iterator[Refusal]:
    """A message over a WebSocket may not ask for `background`."""
    if received.body.get("background"):
        text = "Unsupported parameter: 'background' is not supported over a WebSocket."
        yield invalid(text, "background", "unsupported_parameter")


# Tool choice (chat/chat_completion_allowed_tools_param.py, responses/tool_choice_*_param.py)
# -------------------------------------------------------------------------------------------------------------------

_ToolId = tuple[str, ...]
"""Identifies a tool: its type, and its name or server."""
_CHOICES = ("none", "auto", "required")


def chat_choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """`tool_choice` of Chat: a word, one tool, or `allowed_tools` with its fields nested."""
    return _choice(received, received.body.get("tools") or [], _chat_tool, ("function", "custom"), "allowed_tools")


def responses_choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """`tool_choice` of Responses: a word, one tool, or `allowed_tools` with its fields beside its type."""
    if received.body.get("tool_choice") in (None, "none", "auto"):
        return iter(())
    tools = list(received.body.get("tools") or ())
    items = received.body.get("input")
    for item in items if isinstance(items, list) else ():
        if item.get("type") in ("additional_tools", "tool_search_output"):  # late tools, results of a search
            tools.extend(item.get("tools") or ())
    types = [str(tool.get("type")) for tool in tools]
    return _choice(received, tools, _responses_tool, types, "")


def _chat_tool(tool: Mapping[str, Json]) -> _ToolId:
    kind = str(tool.get("type"))
    inside = tool.get(kind)
    return (kind, str(inside.get("name"))) if isinstance(inside, dict) else (kind,)


def _responses_tool(tool: Mapping[str, Json]) -> _ToolId:
    label = tool.get("server_label", tool.get("name"))
    return (str(tool.get("type")),) if label is None else (str(tool.get("type")), str(label))


def _choice(
    received: ReceivedRequest,
    tools: list[Json],
    identify: Callable[[Mapping[str, Json]], _ToolId],
    types: Any,
    nested: str,
) -> Iterator[Refusal]:
    choice = received.body.get("tool_choice")
    if choice in (None, "none", "auto"):
        return
    if not received.body.get("tools"):
        message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        yield invalid(message, "tool_choice")
    elif not isinstance(choice, dict):
        if choice not in _CHOICES:
            yield _wrong("tool_choice", f"expected one of {', '.join(_CHOICES)}")
    else:
        declared = {identify(tool) for tool in tools}
        for path, tool in _chosen(choice, nested):
            if isinstance(tool, Refusal):
                yield tool
            elif not isinstance(tool, dict) or str(tool.get("type")) not in types:
                yield _wrong(f"{path}.type", f"expected one of {', '.join(sorted(set(types))) or 'the tools'}")
            elif identify(tool) not in declared:
                yield _wrong(path, "this tool is not among 'tools'")


def _chosen(choice: Mapping[str, Json], nested: str) -> Iterator[tuple[str, Json | Refusal]]:
    """(path, tool) of each tool that a choice names; a refusal in place of a tool where its form is wrong."""
    path = "tool_choice"
    if choice.get("type") != "allowed_tools":
        yield path, choice
        return
    allowed: Json = {key: value for key, value in choice.items() if key != "type"}
    if nested:
        path += f".{nested}"
        allowed = choice.get(nested) if set(choice) == {"type", nested} else None
    if not isinstance(allowed, dict):
        yield path, _wrong(path, "expected an object with mode and tools")
    elif set(allowed) != {"mode", "tools"} or allowed["mode"] not in ("auto", "required"):
        yield path, _wrong(f"{path}.mode", "expected mode 'auto' or 'required' and tools, and nothing else")
    elif not isinstance(allowed["tools"], list) or not allowed["tools"]:
        yield path, _wrong(f"{path}.tools", "expected an array with minimum length 1")
    else:
        yield from ((f"{path}.tools[{index}]", tool) for index, tool in enumerate(allowed["tools"]))


def _wrong(path: str, message: str) -> Refusal:
    return invalid(f"Invalid value for '{path}': {message}.", path, "invalid_value")


# Conversation
# -------------------------------------------------------------------------------------------------------------------

_CONTENT_FIELDS = ("content", "tool_calls", "refusal", "audio", "function_call")
_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
"""Item a model makes → item that answers it. A `function_call_output` answers a search as well, as recorded requests
show."""


def chat_content(received: ReceivedRequest) -> Iterator[Refusal]:
    """An assistant message has content or calls."""
    for index, message in enumerate(received.body["messages"]):
        if message["role"] == "assistant" and all(message.get(name) is None for name in _CONTENT_FIELDS):
            yield invalid("Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content")


def chat_calls(received: ReceivedRequest) -> Iterator[Refusal]:
    """Tool messages stand right behind the calls they answer, one for each."""
    open_ids: list[str] = []
    caller = 0
    for index, message in enumerate([*received.body["messages"], {"role": ""}]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                yield invalid(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                    f"messages.[{index}].role",
                )
            open_ids = [name for name in open_ids if name != message["tool_call_id"]]
            continue
        if open_ids:
            yield invalid(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
                f"The following tool_call_ids did not have response messages: {', '.join(open_ids)}",
                f"messages.[{caller}].role",
            )
        caller, open_ids = index, [call["id"] for call in message.get("tool_calls") or ()]


def responses_calls(received: ReceivedRequest) -> Iterator[Refusal]:
    """Each call among the input items has its output behind it, and each output its call before it."""
    items = received.body["input"] if isinstance(received.body["input"], list) else []
    calls: dict[str, tuple[int, str]] = {}
    outputs: dict[str, tuple[int, str]] = {}
    for index, item in enumerate(items):
        kind = item.get("type")
        is_search = kind in ("tool_search_call", "tool_search_output")
        if is_search and (item.get("execution") != "client" or item.get("call_id") is None):
            continue  # a search that ran at the server has its output beside it: none is the caller's to answer
        if kind in _OUTPUTS:
            calls[item["call_id"]] = index, kind
        elif kind in _OUTPUTS.values():
            if item.get("call_id") is not None:
                outputs[item["call_id"]] = index, kind
            elif item.get("name") is None:  # the SDK's type has both as optional: one of them says what it answers
                yield _refusal(Mismatch(f"input[{index}].call_id", "missing", "a call's id"))
    for call, (index, kind) in calls.items():
        if outputs.get(call, (-1,))[0] < index:
            yield invalid(f"No tool output found for {kind.replace('_', ' ')} {call}.", "input")
    for call, (index, kind) in outputs.items():
        if calls.get(call, (len(items),))[0] > index:
            yield invalid(f"No tool call found for {kind.replace('_', ' ')} with call_id {call}.", "input")


# Model
# -------------------------------------------------------------------------------------------------------------------


def cache_fields(request: ParsedRequest) -> Iterator[Refusal]:
    """The cache fields of the model's generation: options from 5.6 on, `24h` alone from 5.5 on."""
    body = request.received.body
    if request.model.is_assumed:
        return  # which fields a model takes that no table has is not known
    if request.model.cache == "implicit":
        items = body.get("messages") or body.get("input")
        contents = [item.get("content") for item in items] if isinstance(items, list) else []
        parts = [part for content in contents if isinstance(content, list) for part in content]
        for name, holders in (("prompt_cache_options", [body]), ("prompt_cache_breakpoint", parts)):
            if any(holder.get(name) is not None for holder in holders):
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                yield invalid(message, name, "unsupported_parameter")
    if body.get("prompt_cache_retention") == "in_memory" and 600 not in request.model.ttls_seconds:
        message = "Unsupported value: 'prompt_cache_retention' does not support 'in_memory' with this model."
        yield invalid(message, "prompt_cache_retention", "unsupported_value")


CHAT_CHECKS: tuple[RequestCheck, ...] = (
    _authenticated,
    chat_shape,
    chat_choice,
    stream_options,
    one_choice,
    chat_content,
    chat_calls,
)
RESPONSES_CHECKS: tuple[RequestCheck, ...] = (
    _authenticated,
    responses_shape,
    one_choice,
    responses_choice,
    stream_options,
    responses_calls,
)
MESSAGE_CHECKS: tuple[RequestCheck, ...] = (_authenticated, message_shape, in_foreground, *RESPONSES_CHECKS[2:])
COMPACT_CHECKS: tuple[RequestCheck, ...] = (_authenticated, compact_shape, responses_calls)
INPUT_TOKENS_CHECKS: tuple[RequestCheck, ...] = (_authenticated, input_tokens_shape, responses_choice, responses_calls)
PROMPT_CHECKS: tuple[PromptCheck, ...] = (cache_fields, require_fit(TOO_LONG))
