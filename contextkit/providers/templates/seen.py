"""A request body as a chat template sees it.

Takes a `/chat/completions` body, gives messages, tools and variables in the forms that vLLM and `transformers` hand to
a template: the arguments of a call as an object, reasoning under every name templates read, content as one text where
the template takes no parts. Sources: vLLM 0.33 `vllm/renderers/chat_utils/chat_message.py`, transformers 5.23
`utils/chat_template_utils.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json, parse
from contextkit.errors import NotSerialisable, UnreadableRequest

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Names under which a message's reasoning comes, and templates read it."""


def messages_seen(body: Mapping[str, Json], takes_parts: bool, takes_text: bool) -> list[dict[str, Json]]:
    """The messages, ready for a template. Raises `UnreadableRequest` where there are none."""
    given = body.get("messages")
    if not isinstance(given, list) or not all(isinstance(message, dict) for message in given):
        raise UnreadableRequest(
            "messages", "Input should be an array of messages: a chat template renders /chat/completions bodies"
        )
    return [_message(message, takes_parts, takes_text) for message in given]


def variables(body: Mapping[str, Json]) -> dict[str, Json]:
    """What a template reads besides messages and tools: the caller's kwargs above the request's own fields."""
    effort, tools = body.get("reasoning_effort"), body.get("tools") or None
    implied: dict[str, Json] = (
        {} if effort is None else {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    )
    chosen = {"tool_choice": body["tool_choice"]} if tools and body.get("tool_choice") is not None else {}
    return {
        "documents": body.get("documents"),
        "tools": tools,
        **implied,
        **chosen,
        **(body.get("chat_template_kwargs") or {}),
    }


def _message(message: Mapping[str, Json], takes_parts: bool, takes_text: bool) -> dict[str, Json]:
    said = {name: value for name, value in message.items() if value is not None and name not in REASONING}
    said["content"] = _content(message.get("content"), takes_parts, takes_text)
    thought = next((message[name] for name in REASONING if message.get(name) is not None), None)
    if thought is not None:
        said = {"thinking": thought, **said, "reasoning_content": thought, "reasoning": thought}
    calls = said.pop("tool_calls", None)
    return {**said, **({"tool_calls": [_call(call) for call in calls]} if calls else {})}


def _content(content: Json, takes_parts: bool, takes_text: bool) -> Json:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    is_text = len(texts) == len(parts)
    return parts if takes_parts and not (is_text and takes_text) else "\n".join(texts)


def _call(call: Mapping[str, Json]) -> Json:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return dict(call)
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(written: Json) -> Json:
    """An object; what is none is an empty one, as vLLM has it."""
    try:
        value = parse(written) if isinstance(written, str) and written else written
    except NotSerialisable:
        value = None
    return value if isinstance(value, dict) else {}
