"""Chat messages: neutral parts and log entries in OpenAI's words, and back.

Field names are those of `openai.types.chat` 3.52. What Chat has no words for is projected: a tool result is text only
(`[image]`), a failed one begins `Error: `, a plain-text document is a text part, a document behind a URL is its URL,
another wire's thinking is dropped. A message with no neutral form (a name, a developer message between others) is kept
whole, as a native part.

What the Chat Completions API answers: a completion, or the chunks that amount to one.

Field names are those of `openai.types.chat.ChatCompletion` and `ChatCompletionChunk` (3.52).

`POST /chat/completions`: OpenAI's models through the Chat Completions API.

The words of that endpoint; what it shares with Responses is `wording.py`. Field names are those of `openai.types.chat`
3.52.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from contextkit.cache.usage import Usage, served
from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply, UnreadableRequest, UsageError
from contextkit.log.entry import Native
from contextkit.prompt.normal_form import marker_of, normal
from contextkit.providers.adapter import Answering, chosen_model
from contextkit.providers.masking import Endpoint
from contextkit.providers.openai import shared as spelling
from contextkit.providers.openai.shared import SYSTEM, Speaker, Wording, grammar, read_arguments, understood
from contextkit.providers.provider import (
    Cut,
    Parsed,
    Parts,
    Reply,
    ReplyCall,
    Tools,
    Trait,
    Turn,
    cut,
    expect,
    kept,
    plain,
    spoken,
    verbatim,
)
from contextkit.providers.settings import CacheKey
from contextkit.providers.usage import OPENAI_CHAT, read_usage

WIRE = "openai_chat"


def messages_of(role: str, parts: Json) -> list[Json]:
    """Neutral parts as one message of `role`; native whole messages among them stand alone."""
    messages: list[Json] = []
    for is_whole, group in groupby(PARTS.blocks(parts), key=lambda block: "role" in block):
        blocks = list(group)
        messages += blocks if is_whole else [{"role": role, "content": blocks}]
    return messages


def whole(message: Mapping[str, Json]) -> dict[str, Json]:
    """A message in its one spelling: no nulls, and content that is one text part is a string.

    >>> whole({"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "4"}], "name": None})
    {'role': 'tool', 'tool_call_id': 'c', 'content': '4'}
    """
    is_function = (
        message.get("role") == "function"
    )  # whose content is required, null or not (chat_completion_function_message_param.py)
    said = {key: value for key, value in message.items() if value is not None or (is_function and key == "content")}
    content = normal(said.get("content"))
    if (
        isinstance(content, list)
        and len(content) == 1
        and content[0].keys() == {"type", "text"}
        and content[0]["type"] == "text"
    ):
        said["content"] = content[0]["text"]
    return said


def _tool(name: str, description: str, schema: Json) -> Json:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _function(tool: Mapping[str, Json]) -> tuple[Json, Json, Json]:
    function = tool.get("function")
    said = function if isinstance(function, dict) else {}
    return said.get("name"), said.get("description"), said.get("parameters")


TOOLS = Tools(WIRE, _tool, _function)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _document(part: Mapping[str, Json]) -> Json:
    if spelling.is_text(part) or "url" in part:
        return _text(spelling.text_of(part) if spelling.is_text(part) else str(part["url"]))
    return {"type": "file", "file": {"file_data": spelling.url_of(part), "filename": spelling.filename(part)}}


def _candidates(block: Mapping[str, Json]) -> list[Json]:
    if block.get("type") == "image_url":
        return [{"type": "image", **spelling.media_of(spelling.at(block, "image_url", "url"))}]
    return spelling.titled(
        spelling.media_of(spelling.at(block, "file", "file_data")), spelling.at(block, "file", "filename")
    )


PARTS = Parts(
    WIRE,
    _text,
    {
        "image": lambda part: {"type": "image_url", "image_url": {"url": spelling.url_of(part)}},
        "document": _document,
    },
    _candidates,
)
_RESULT_PARTS: dict[str, Callable[[Any], Json]] = {
    "text": lambda part: _text(part["text"]),
    "image": lambda part: _text("[image]"),
    "document": lambda part: _text(spelling.text_of(part) if spelling.is_text(part) else "[document]"),
    "native": lambda part: (
        part["block"] if part["wire"] == WIRE and part["block"].get("type") == "text" else _text(spoken(part["block"]))
    ),
}
"""A tool message takes text only (chat/chat_completion_tool_message_param.py)."""


def answered(body: Mapping[str, Json]) -> list[Json]:
    """What a tool gave."""
    kept = _kept(body["content"])
    if kept is not None:
        return [kept]
    texts = [_RESULT_PARTS[part["type"]](part) for part in body["content"]]
    content = spelling.as_error(texts, "text") if body["is_error"] else texts
    return [{"role": "tool", "tool_call_id": body["call_id"], "content": content or ""}]


def _kept(parts: Json) -> Json:
    """The whole tool message that a result keeps verbatim, or None."""
    block = parts[0].get("block") if len(parts) == 1 and parts[0].get("wire") == WIRE else None
    return block if block and block.get("role") == "tool" else None


THOUGHTS = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
"""Fields in which hosts of open models show what a model thought; OpenAI knows none of them."""


def replied(body: Mapping[str, Json], kept: Mapping[str, str] | None = None) -> list[Json]:
    """What the model said: its own message, or another wire's reply in ours.

    `kept`: field of `THOUGHTS` → what it is called here, the others being left out; None leaves a message as it came.
    """
    native = body["native"]
    if native["wire"] == WIRE:
        return list(native["body"]) if kept is None else [_thinking(message, kept) for message in native["body"]]
    calls = [_call(call) for call in body["calls"]]
    said = {"content": body["text"]} if body["text"] else {}
    return [{"role": "assistant", **said, **({"tool_calls": calls} if calls else {})}] if said or calls else []


def _thinking(message: Mapping[str, Json], kept: Mapping[str, str]) -> Json:
    said = {kept.get(name, name): value for name, value in message.items() if name in kept or name not in THOUGHTS}
    return said if said.keys() - {"role"} else {**said, "content": ""}


def _call(call: Mapping[str, Json]) -> Json:
    function = {"name": call["name"], "arguments": spelling.written_arguments(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def said_by(message: Mapping[str, Json], role: str) -> Iterator[Json]:
    """The neutral parts of a message that should have `role`; the whole message, kept, where it says more than content."""
    plain = whole(message)
    if plain.keys() == {"role", "content"} and plain["role"] == role:
        content = plain["content"]
        yield from PARTS.neutral(normal(content)) if isinstance(content, list) else [_text(content)]
    else:
        yield verbatim(WIRE, normal(plain))


def result_of(message: Mapping[str, Json]) -> Json:
    """A tool message as the body of a result."""
    plain = normal(whole(message))
    content = [_text(plain["content"])] if isinstance(plain["content"], str) else PARTS.neutral(plain["content"])
    body = {"call_id": plain["tool_call_id"], "name": "", "content": content, "is_error": False}
    if normal(whole(answered(body)[0])) != plain:
        body["content"] = [verbatim(WIRE, plain)]
    return body


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
    calls, text = _calls(message), _chat_reply_text(message)
    stop = "refused" if message.get("refusal") else STOPS.get(choices[0].get("finish_reason", ""), "truncated")
    stop = "calls" if stop == "done" and calls else stop  # a forced call ends with "stop"
    native = Native(WIRE, completion.get("model", ""), canonical([message]))
    return Reply(
        completion.get("id", ""), native, text, calls, stop, served(usage(completion.get("usage") or {}), completion)
    )


def turn(message: Mapping[str, Json], model: str) -> Json:
    """An assistant message of a request body as the body of an entry."""
    said = normal(whole(message))
    return kept(WIRE, model, [said], _chat_reply_text(said), _calls(said))


_COUNTERS = replace(OPENAI_CHAT, omits_zero_writes=True, ttls_seconds=(1800, 43200))


def usage(counters: Mapping[str, Json]) -> Usage:
    """The usage of Chat's counters; writes that are not counted are zero."""
    return read_usage(_COUNTERS, counters) or Usage()


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


def _chat_reply_text(message: Mapping[str, Json]) -> str:
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


_WHOLE: Mapping[str, Trait] = {
    "assistant": Trait(run="other", can_hold_breakpoint=False),
    "tool": Trait(run="tool", can_hold_breakpoint=False),
    "function": Trait(run="tool", can_hold_breakpoint=False),
}
"""Messages that are one piece."""
_TOOL = Trait(can_hold_breakpoint=False)
_SPEECH = ("content", "tool_calls", "refusal", "function_call", "audio")


def _chat_listed(fields: Mapping[str, Json]) -> tuple[list[Json], int]:
    given: list[Json] = expect(fields.get("messages"), list, "messages", "an array")
    for index, message in enumerate(given):
        expect(
            expect(message, dict, f"messages[{index}]", "an object").get("role"),
            str,
            f"messages[{index}].role",
            "a string",
        )
    return given, 0


def _besides(message: Mapping[str, Json]) -> dict[str, Json]:
    return {key: message[key] for key in sorted(message) if key not in ("role", "content") and message[key] is not None}


def _one(message: Mapping[str, Json], path: str, model: str) -> Cut:
    role = message["role"]
    trait = expect(_WHOLE.get(role), Trait, f"{path}.role", "'developer', 'system', 'user', 'assistant' or 'tool'")
    said = whole(message)
    if role == "tool":
        expect(said.get("tool_call_id"), str, f"{path}.tool_call_id", "a string")
        expect(said.get("content"), (str, list), f"{path}.content", "a string or an array")
    if (role != "function" and not any(said.get(key) is not None for key in _SPEECH)) or said.get("content") == []:
        raise UnreadableRequest(f"{path}.content", "Input should be a string or a non-empty array")
    return replace(cut(said, "messages", role, trait, model), marker=marker_of(message))


def _turn(message: Mapping[str, Json], model: str) -> Turn:
    if message["role"] == "assistant":
        return Turn("assistant", turn(message, model))
    if message["role"] == "tool":
        return Turn("result", result_of(message))
    return Turn("user", {"content": list(said_by(message, "user"))})


WORDS = Wording(
    WIRE,
    grammar("messages"),
    "messages",
    frozenset({"tools", "messages"}),
    "text",
    messages_of,
    replied,
    answered,
    said_by,
    TOOLS,
    _chat_listed,
    role=lambda message: str(message["role"]),
    besides=_besides,
    tool=lambda tool: _TOOL,
    one=_one,
    turns=lambda given, model: [_turn(message, model) for message in given],
)
ANSWERING = Answering(
    reply,
    lambda response: response["choices"][0].get("finish_reason") is not None,
    usage,
    joined,
)


class OpenAIChat(Speaker):
    """An OpenAI model behind `client.chat.completions.create`.

    `max_tokens` goes out as `max_completion_tokens`; `system_role` is who says the system prompt (`system` before o1).
    Everything else is a parameter of the endpoint and is sent as given. Models from gpt-5.6 on get one explicit mark,
    at the end of the system prompt. `prompt_cache_key="auto"`, or a `CacheKey`, is derived from the head where it
    chooses the machine.

    >>> OpenAIChat("gpt-6.1-sol", max_tokens=4096).params["max_completion_tokens"]
    4096
    """

    words, answering = WORDS, ANSWERING
    wire = WIRE
    path = "/chat/completions"
    grammar = WORDS.grammar

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int | None = None,
        ttl: str = "30m",
        prompt_cache_key: str | CacheKey | None = None,
        system_role: str = "developer",
        **params: Json,
    ) -> None:
        if ttl != "30m" or system_role not in tuple(SYSTEM):
            raise UsageError(
                f"ttl={ttl!r}, system_role={system_role!r}: Chat takes ttl '30m' and the role 'developer' or 'system'"
            )
        given = {"max_completion_tokens": max_tokens, "prompt_cache_key": prompt_cache_key}
        self.system_role = system_role
        fields = {**{name: value for name, value in given.items() if value is not None}, **params}
        super().__init__(Endpoint(WIRE, chosen_model(model, "openai")), ttl, fields)
        if self.model.provider == "openai":  # its API knows no field for what another host's model thought
            self._kinds = {**self._kinds, "assistant": lambda body: replied(body, {})}


def parse(body: Json) -> Parsed:
    """A `/chat/completions` body: its segments, marks and parameters.

    Raises `UnreadableRequest` where it is not one.
    """
    return understood(WORDS, body)
