"""Self-hosted engines behind OpenAI's endpoints: their refusals of `tool_choice` and the fields beside it, and their
usage counters.

None of them knows `allowed_tools`: on Chat vLLM and SGLang refuse it, and llama.cpp takes every object for `auto`; on
Responses all three take it and hold the model to nothing. Sources: vLLM 0.33
`vllm/entrypoints/openai/{chat_completion,responses}/protocol.py`; SGLang 0.5.23
`sglang/srt/entrypoints/openai/{protocol,serving_chat,serving_responses}.py`; llama.cpp
`tools/server/server-common.cpp`, `common/chat.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.server.endpoints.openai_validation import invalid
from contextkit.server.endpoints.validation import ReceivedRequest, Refusal, RequestCheck

_WORDS = ("none", "auto", "required")
_USAGE = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'
_BOTH = "tool_choice 'required' or a named tool cannot be combined with response_format, regex, or ebnf"
_REPLIES = ("text", "json_object", "json_schema", "structural_tag")
_FORMATS = frozenset(
    {
        "const_string",
        "json_schema",
        "any_text",
        "token",
        "exclude_token",
        "any_tokens",
        "grammar",
        "regex",
        "sequence",
        "or",
        "tag",
        "triggered_tags",
        "token_triggered_tags",
        "tags_with_separator",
        "optional",
        "plus",
        "star",
        "repeat",
        "dispatch",
        "token_dispatch",
    }
)
"""Formats of a structural tag (xgrammar 0.2.8, structural_tag.py)."""


def vllm_chat(received: ReceivedRequest) -> Iterator[Refusal]:
    """A word, or one function there is."""
    choice, tools = received.body.get("tool_choice"), received.body.get("tools")
    if tools == []:
        yield invalid(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.", "tools"
        )
    if choice is None or choice == "none":
        return
    if tools is None:
        yield invalid("When using `tool_choice`, `tools` must be set.", "tool_choice")
    elif not isinstance(choice, dict):
        if choice not in ("auto", "required"):
            supported = 'Only named tools, "none", "auto" or "required" are supported.'
            yield invalid(f"Invalid value for `tool_choice`: {choice}! {supported}", "tool_choice")
    elif not isinstance(function := choice.get("function"), dict):
        yield invalid(f"Invalid value for `function`: `{function}` in `tool_choice`! {_USAGE}", "tool_choice.function")
    elif "name" not in function:
        yield invalid(f"Expected field `name` in `function` in `tool_choice`! {_USAGE}", "tool_choice.function.name")
    elif function["name"] not in _names(received.body):
        yield invalid("The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice")
    elif choice.get("type", "function") != "function":
        yield invalid(
            "tool_choice.ChatCompletionNamedToolChoiceParam.type: Input should be 'function'", "tool_choice.type"
        )


def vllm_responses(received: ReceivedRequest) -> Iterator[Refusal]:
    """A word, a named tool there is, or any choice of the SDK's types: what is not named is not enforced."""
    choice = received.body.get("tool_choice")
    if isinstance(choice, str) and choice not in _WORDS:
        yield invalid("tool_choice: Input should be 'none', 'auto' or 'required'", "tool_choice")
    elif choice == "required" and not received.body.get("tools"):
        yield invalid("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")
    elif (
        isinstance(choice, dict)
        and choice.get("type") in ("function", "custom")
        and choice.get("name") not in _names(received.body)
    ):
        yield invalid("Tool choice 'function' not found in 'tools' parameter.", "tool_choice")
    elif isinstance(choice, dict) and choice.get("type") == "allowed_tools" and not {"mode", "tools"} <= choice.keys():
        yield invalid("tool_choice.ToolChoiceAllowed: Field required", "tool_choice")


def vllm_continued(received: ReceivedRequest) -> Iterator[Refusal]:
    """A final message that is gone on with, or another one: not both."""
    if received.body.get("continue_final_message") and received.body.get("add_generation_prompt", True):
        yield invalid(
            "Cannot set both `continue_final_message` and `add_generation_prompt` to True.", "continue_final_message"
        )


def sglang_chat(received: ReceivedRequest) -> Iterator[Refusal]:
    """A word, or one function there is; a call that is forced takes no other grammar beside it."""
    choice = received.body.get("tool_choice")
    function = choice.get("function") if isinstance(choice, dict) else None
    if isinstance(choice, dict) and not isinstance(function, dict):
        yield invalid("tool_choice.ToolChoice.function: Field required", "tool_choice")
    elif isinstance(choice, dict) and choice.get("type", "function") != "function":
        yield invalid("tool_choice.ToolChoice.type: Input should be 'function'", "tool_choice")
    elif choice is not None and not isinstance(choice, dict) and choice not in _WORDS:
        yield invalid("tool_choice: Input should be 'auto', 'required' or 'none'", "tool_choice")
    elif choice == "required" and not received.body.get("tools"):
        yield invalid("Tools cannot be empty if tool choice is set to required.", "tool_choice")
    elif function is not None and not received.body.get("tools"):
        yield invalid("Tools cannot be empty if tool choice is set to a specific tool.", "tool_choice")
    elif function is not None and function.get("name") not in _names(received.body):
        yield invalid(f"Tool '{function.get('name')}' not found in tools list.", "tool_choice")
    elif (choice == "required" or function is not None) and _is_constrained(received.body):
        yield invalid(_BOTH, "tool_choice")


def sglang_responses(received: ReceivedRequest) -> Iterator[Refusal]:
    """A word or a named tool there is; every other object is taken for `auto`."""
    choice = received.body.get("tool_choice")
    name = choice.get("name") if isinstance(choice, dict) and choice.get("type") in ("function", "custom") else None
    if isinstance(choice, str) and choice not in _WORDS:
        yield invalid("tool_choice: Input should be 'auto', 'required' or 'none'", "tool_choice")
    elif name is not None and name not in _names(received.body):
        yield invalid(f"Tool {name!r} is not declared in tools", "tool_choice")


def reply_format(received: ReceivedRequest) -> Iterator[Refusal]:
    """A known format; a structural tag in which every rule has one trigger."""
    chosen_format = received.body.get("response_format") or {"type": "text"}
    if chosen_format.get("type") not in _REPLIES:
        yield invalid(
            "response_format.type: Input should be 'text', 'json_object', 'json_schema' or 'structural_tag'",
            "response_format",
        )
    elif (
        chosen_format["type"] == "structural_tag"
        and "structures" not in chosen_format
        and not _is_tag(chosen_format.get("format"))
    ):
        yield invalid("Invalid response_format structural_tag specification.", "response_format")


def llamacpp(received: ReceivedRequest) -> Iterator[Refusal]:
    """A word; an object is taken for `auto`. A grammar goes with tools only where none may be called; a final message is
    gone on with, or another one begun: not both.
    """
    choice = received.body.get("tool_choice")
    chosen_format = received.body.get("response_format")
    kind = chosen_format.get("type") if isinstance(chosen_format, dict) else None
    if isinstance(choice, str) and choice not in _WORDS:
        yield invalid(f"Invalid tool_choice: {choice}", "tool_choice")
    if received.body.get("tools") and choice != "none" and received.body.get("grammar"):
        yield invalid("Cannot use custom grammar constraints with tools.", "grammar")
    if received.body.get("continue_final_message") and received.body.get("add_generation_prompt", True):
        yield invalid(
            "Cannot set both add_generation_prompt and continue_final_message to true.", "continue_final_message"
        )
    if kind not in (None, "text", "json_object", "json_schema"):
        yield invalid(
            f'response_format type must be one of "text" or "json_object", but got: {kind}', "response_format"
        )


def _names(body: Mapping[str, Json]) -> list[Json]:
    """Names of the functions among the tools, nested as on Chat or flat as on Responses."""
    tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
    inside = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in tools]
    return [tool.get("name") for tool in inside if isinstance(tool.get("name"), str)]


def _is_constrained(body: Mapping[str, Json]) -> bool:
    chosen_format = body.get("response_format")
    is_formatted = isinstance(chosen_format, dict) and chosen_format.get("type") not in (None, "text")
    return is_formatted or bool(body.get("regex") or body.get("ebnf"))


def _is_tag(form: Json) -> bool:
    if not isinstance(form, dict) or str(form.get("type")) not in _FORMATS:
        return False
    if form["type"] != "triggered_tags":
        return True
    tags, triggers = form.get("tags"), form.get("triggers")
    if not isinstance(tags, list) or not isinstance(triggers, list) or not tags or not triggers:
        return False
    for tag in tags:
        begin = tag.get("begin") if isinstance(tag, dict) else None
        started = [trigger for trigger in triggers if isinstance(begin, str) and begin.startswith(str(trigger))]
        if len(started) != 1 or not {"content", "end"} <= tag.keys():
            return False
    return True


_VLLM = {"openai_chat": (vllm_chat, reply_format, vllm_continued), "openai_responses": (vllm_responses,)}
CHOICES: Mapping[str, Mapping[str, tuple[RequestCheck, ...]]] = {
    "vllm": _VLLM,
    "tiered": _VLLM,
    "sglang": {"openai_chat": (sglang_chat, reply_format), "openai_responses": (sglang_responses,)},
    "llamacpp": {"openai_chat": (llamacpp,), "openai_responses": (llamacpp,)},
    "transformers": {"openai_chat": (), "openai_responses": ()},
}
"""Engine → endpoint → its checks; `tiered` is vLLM with LMCache, and transformers ignores `tool_choice` (source, 5.19.0
`cli/serving/`)."""


def engine_usage(usage: Mapping[str, Json], n_cached: int) -> dict[str, Json]:
    """The usage of either endpoint as engines report it: the details of the input hold cached tokens only, since an
    engine bills no writes, and what llama.cpp turned to other positions counts as cached.
    """
    reported = dict(usage)
    for name in ("prompt_tokens_details", "input_tokens_details"):
        if name in reported:
            reported[name] = {"cached_tokens": n_cached}
    return reported
