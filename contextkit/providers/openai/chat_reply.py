"""What the Chat Completions API answers: a completion, or the chunks that amount to one.

Field names are those of `openai.types.chat.ChatCompletion` and `ChatCompletionChunk` (3.52).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from contextkit.cache.usage import Usage, served
from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply
from contextkit.layout.normal_form import normal
from contextkit.log.entry import Native
from contextkit.providers.openai import spellings
from contextkit.providers.openai.chat_messages import WIRE, whole
from contextkit.providers.openai.spellings import read_arguments
from contextkit.providers.plain import plain
from contextkit.providers.provider import Reply, ReplyCall, kept

STOPS = {
    "stop": "done",
    "function_call": "done",
    "tool_calls": "calls",
    "length": "truncated",
    "content_filter": "refused",
}
"""`finish_reason` → what the loop does next (chat/chat_completion.py); none means that the stream was cut."""
_SENDABLE = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "audio", "name"})
"""Fields of a reply's message that a request takes back (chat/chat_completion_assistant_message_param.py)."""
_CALLS: dict[str, Callable[[Mapping[str, Json]], tuple[str, Json]]] = {
    "function": lambda call: (call["function"]["name"], read_arguments(call["function"]["arguments"])),
    "custom": lambda call: (call["custom"]["name"], call["custom"]["input"]),
}


def reply(response: Any, kept: frozenset[str] = frozenset()) -> Reply:
    """A `ChatCompletion`, its dict, or what a stream amounted to.

    Of several choices the first. `kept`: fields of its own to send back.
    """
    completion = plain(response)
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0].get("message"), dict):
        raise UnreadableReply(
            "not a chat completion (it has no choices): pass what client.chat.completions.create returned"
        )
    message = _sendable(choices[0]["message"], kept)
    calls, text = _calls(message), _text(message)
    stop = "refused" if message.get("refusal") else STOPS.get(choices[0].get("finish_reason", ""), "truncated")
    stop = "calls" if stop == "done" and calls else stop  # a forced call ends with "stop"
    native = Native(WIRE, completion.get("model", ""), canonical([message]))
    return Reply(
        completion.get("id", ""), native, text, calls, stop, served(usage(completion.get("usage") or {}), completion)
    )


def turn(message: Mapping[str, Json], model: str) -> Json:
    """An assistant message of a request body as the body of an entry."""
    said = normal(whole(message))
    return kept(WIRE, model, [said], _text(said), _calls(said))


def usage(counters: Mapping[str, Json]) -> Usage:
    """Chat's counters in ours."""
    details = counters.get("prompt_tokens_details") or {}
    return spellings.usage(counters.get("prompt_tokens"), details, counters.get("completion_tokens"))


def _sendable(message: Mapping[str, Json], kept: frozenset[str]) -> dict[str, Json]:
    said = {key: value for key, value in message.items() if key in _SENDABLE or key in kept}
    if "audio" in said:
        said["audio"] = {"id": said["audio"]["id"]}
    if "tool_calls" in said and not said["tool_calls"]:
        del said["tool_calls"]
    if not said.keys() - {"role", *kept}:
        said["content"] = ""
    sendable: dict[str, Json] = normal(whole(said))
    return sendable


def _calls(message: Mapping[str, Json]) -> tuple[ReplyCall, ...]:
    return tuple(
        ReplyCall(call["id"], *_CALLS[call.get("type", "function")](call)) for call in message.get("tool_calls") or []
    )


def _text(message: Mapping[str, Json]) -> str:
    """What was said; a refusal where nothing else was."""
    content = message.get("content") or ""
    said = (
        content if isinstance(content, str) else "".join(part.get("text", part.get("refusal", "")) for part in content)
    )
    return said or message.get("refusal") or ""


def joined(events: Iterable[Any]) -> Mapping[str, Json]:
    """The completion that chunks amount to (the SDK's stream helper's events hold them too).

    What has arrived, where they were cut.

    Raises `UnreadableReply` when there is not one chunk among them.
    """
    completion: dict[str, Json] = {}
    choice: dict[str, Json] = {"index": 0, "message": {"role": "assistant"}}
    for event in map(plain, events):
        chunk = event.get("chunk", event)
        if isinstance(chunk.get("choices"), list):
            _grow(completion, choice, chunk)
    if not completion:
        raise UnreadableReply("the stream ended before its first chunk: nothing was said")
    return {**completion, "object": "chat.completion", "choices": [_finished(choice)]}


def _grow(completion: dict[str, Json], choice: dict[str, Json], chunk: Mapping[str, Json]) -> None:
    completion.update({key: value for key, value in chunk.items() if key not in ("choices", "object", "obfuscation")})
    for piece in chunk["choices"]:
        if piece.get("index", 0) == 0:
            choice.update({key: piece[key] for key in ("finish_reason",) if key in piece})
            for key, value in (piece.get("delta") or {}).items():
                _DELTAS.get(key, _replaced)(choice["message"], key, value)


def _replaced(message: dict[str, Json], key: str, value: Json) -> None:
    message[key] = value


def _appended(message: dict[str, Json], key: str, value: Json) -> None:
    message[key] = message.get(key, "") + value


def _listed(message: dict[str, Json], key: str, value: list[Json]) -> None:
    """Pieces of reasoning: one with the index and type of the last goes on with its text."""
    pieces = message.setdefault(key, [])
    for piece in value:
        last = pieces[-1] if pieces else {}
        if last and last.get("index") == piece.get("index") and last.get("type") == piece.get("type"):
            grown = {
                name: last.get(name, "") + text for name, text in piece.items() if name in ("text", "summary", "data")
            }
            last.update({**piece, **grown})
        else:
            pieces.append(dict(piece))


def _merged(message: dict[str, Json], key: str, value: Mapping[str, Json]) -> None:
    """A call's function, its arguments growing; ids and names come once."""
    inside = message.setdefault(key, {})
    for name, fragment in value.items():
        if name in ("arguments", "input", "data", "transcript"):
            inside[name] = inside.get(name, "") + fragment
        else:
            inside.setdefault(name, fragment)


def _called(message: dict[str, Json], key: str, value: list[Json]) -> None:
    """Calls grow side by side, told apart by their index."""
    calls = message.setdefault(key, {})
    for fragment in value:
        call = calls.setdefault(fragment["index"], {})
        for name, item in fragment.items():
            if isinstance(item, dict):
                _merged(call, name, item)
            elif name != "index":
                call.setdefault(name, item)


_DELTAS: dict[str, Callable[[dict[str, Json], str, Any], None]] = {
    "content": _appended,
    "refusal": _appended,
    "reasoning_content": _appended,
    "reasoning": _appended,
    "reasoning_details": _listed,
    "tool_calls": _called,
    "function_call": _merged,
    "audio": _merged,
}
"""Field of a delta → how it grows; every other is replaced."""


def _finished(choice: Mapping[str, Json]) -> Json:
    message = dict(choice["message"])
    if "tool_calls" in message:
        calls = message["tool_calls"]
        message["tool_calls"] = [
            {"type": "custom" if "custom" in calls[i] else "function", **calls[i]} for i in sorted(calls)
        ]
    return {**choice, "message": message}
