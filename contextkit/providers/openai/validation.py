"""What OpenAI refuses in a Chat Completions or Responses body of the right shape.

Sources: openai 3.52 `types/chat/completion_create_params.py` and `types/responses/response_create_params.py`;
https://developers.openai.com/api/docs/guides/prompt-caching. Error messages follow the API's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.providers.openai.shapes import (
    authenticated,
    chat_fields,
    chat_tools,
    compact_fields,
    invalid,
    items,
    messages,
    responses_fields,
    responses_tools,
)
from contextkit.providers.tool_choice import chat_choice, responses_choice
from contextkit.providers.validation import ParsedRequest, PromptCheck, ReceivedRequest, Refusal, RequestCheck

TOO_LONG = Refusal(
    400,
    "invalid_request_error",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "input",
    "context_length_exceeded",
)
_OPTIONS = {"mode": ("implicit", "explicit"), "ttl": ("30m", "12h")}
_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
"""Item a model makes → item that answers it. A `function_call_output` answers a search as well, as recorded requests
show."""

_WORDS = ("content", "tool_calls", "refusal", "audio", "function_call")


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


def chat_words(received: ReceivedRequest) -> Iterator[Refusal]:
    """An assistant message says or calls something."""
    for index, message in enumerate(received.body["messages"]):
        if message["role"] == "assistant" and all(message.get(name) is None for name in _WORDS):
            yield invalid("Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content")


def responses_calls(received: ReceivedRequest) -> Iterator[Refusal]:
    """Each call among the input items has its output behind it, and each output its call before it."""
    given = received.body["input"] if isinstance(received.body["input"], list) else []
    calls = {
        item["call_id"]: (index, kind) for index, item in enumerate(given) for kind in _OUTPUTS if _is_ours(item, kind)
    }
    outputs = {
        item["call_id"]: (index, kind)
        for index, item in enumerate(given)
        for kind in _OUTPUTS.values()
        if _is_ours(item, kind)
    }
    for call, (index, kind) in calls.items():
        if outputs.get(call, (-1,))[0] < index:
            yield invalid(f"No tool output found for {kind.replace('_', ' ')} {call}.", "input")
    for call, (index, kind) in outputs.items():
        if calls.get(call, (len(given),))[0] > index:
            yield invalid(f"No tool call found for {kind.replace('_', ' ')} with call_id {call}.", "input")


def _is_ours(item: Mapping[str, Json], kind: str) -> bool:
    """Whether an item is of this kind, and the caller's to answer: a search that ran at the server has its output
    beside it.
    """
    return item.get("type") == kind and (
        not kind.startswith("tool_search") or (item.get("execution") == "client" and "call_id" in item)
    )


def one_choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """The local server makes one choice. `background` is accepted: the response is complete when it is first asked for."""
    if received.body.get("n") not in (None, 1):
        yield invalid("Unsupported value: 'n' can only be 1 on this local server.", "n", "unsupported_value")


def cache_options(*ttls: str) -> RequestCheck:
    """The values `prompt_cache_options` may have; `ttls` is what the endpoint takes."""

    def check(received: ReceivedRequest) -> Iterator[Refusal]:
        options = received.body.get("prompt_cache_options") or {}
        for name, allowed in {**_OPTIONS, "ttl": ttls}.items():
            if options.get(name) is not None and options[name] not in allowed:
                path = f"prompt_cache_options.{name}"
                yield invalid(
                    f"Invalid value for '{path}'. Supported values are: {', '.join(map(repr, allowed))}.",
                    path,
                    "invalid_value",
                )

    return check


def choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """`tool_choice` beside tools."""
    if received.body.get("tool_choice") not in (None, "none", "auto") and not received.body.get("tools"):
        yield invalid(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.", "tool_choice"
        )


def stream_options(received: ReceivedRequest) -> Iterator[Refusal]:
    """`stream_options` beside a stream."""
    if received.body.get("stream_options") and not received.body.get("stream"):
        yield invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")


def cache_fields(request: ParsedRequest) -> Iterator[Refusal]:
    """The cache fields of the model's generation: options from 5.6 on, `24h` alone from 5.5 on."""
    body = request.received.body
    new = {
        "prompt_cache_options": body.get("prompt_cache_options") is not None,
        "prompt_cache_breakpoint": _has_breakpoint(body),
    }
    if request.model.is_assumed:
        return  # which fields a model takes that no table has is not known
    for name, holds in new.items() if request.model.cache == "implicit" else ():
        if holds:
            yield invalid(
                f"Unsupported parameter: '{name}' is not supported with this model.", name, "unsupported_parameter"
            )
    if body.get("prompt_cache_retention") == "in_memory" and 600 not in request.model.ttls_seconds:
        path = "prompt_cache_retention"
        yield invalid(
            f"Unsupported value: '{path}' does not support 'in_memory' with this model.", path, "unsupported_value"
        )


def _has_breakpoint(body: Mapping[str, Json]) -> bool:
    said = body.get("messages") or body.get("input")
    contents = [item.get("content") for item in said if isinstance(item, dict)] if isinstance(said, list) else []
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    return any(part.get("prompt_cache_breakpoint") is not None for part in parts)


def window(request: ParsedRequest) -> Iterator[Refusal]:
    """A prompt that fits."""
    if request.parsed.prompt.n_tokens > request.model.window_tokens:
        yield TOO_LONG


CHAT_EARLY: tuple[RequestCheck, ...] = (
    authenticated,
    chat_fields,
    messages,
    chat_tools,
    cache_options("30m"),
    choice,
    chat_choice,
    stream_options,
    one_choice,
    chat_words,
    chat_calls,
)
RESPONSES_EARLY: tuple[RequestCheck, ...] = (
    authenticated,
    responses_fields,
    one_choice,
    items,
    responses_tools,
    cache_options("30m", "12h"),
    responses_choice,
    stream_options,
    responses_calls,
)
COMPACT_EARLY: tuple[RequestCheck, ...] = (authenticated, compact_fields, items, cache_options("30m"), responses_calls)
PROMPT_CHECKS: tuple[PromptCheck, ...] = (cache_fields, window)
