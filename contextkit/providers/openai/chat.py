"""`POST /chat/completions`: OpenAI's models through the Chat Completions API.

Renders neutral parts and log entries as Chat messages and parses them back; parses completions, and joins the chunks of
a stream into one. `shared.py` holds the common part of Chat and Responses. Field names are those of `openai.types.chat`
3.52.

Content without a Chat field is projected: a tool result is text only (`[image]`), a failed one begins `Error: `, a
plain-text document is a text part, a document behind a URL is its URL, and another wire's thinking is dropped. A message
without a neutral form (a name, a developer message between others) is stored whole, as a native part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from contextkit.cache.usage import served
from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply, UnreadableRequest, UsageError
from contextkit.log.entry import Native
from contextkit.prompt.breakpoints import AUTO_TTL
from contextkit.prompt.normal_form import marker_of, normal
from contextkit.prompt.prompt import RenderedBlock
from contextkit.providers.adapter import Answering, chosen_model
from contextkit.providers.body_items import RenderedItems
from contextkit.providers.masking import Endpoint
from contextkit.providers.neutral import Parts, Tools, block_text, verbatim
from contextkit.providers.openai import shared
from contextkit.providers.openai.body import CHAT_BODY
from contextkit.providers.openai.shared import SYSTEM, MessageFormat, OpenAIAdapter, grammar, parse_body, read_arguments
from contextkit.providers.provider import Parsed, Reply, ReplyCall, Turn, assistant_body
from contextkit.providers.rendered_blocks import Trait, expect, render_block
from contextkit.providers.reply_json import plain
from contextkit.providers.routing_key import CacheKey
from contextkit.providers.usage import endpoint_usage

WIRE = "openai_chat"


def messages_of(role: str, parts: Json) -> list[Json]:
    """Neutral parts as one message of `role`; native whole messages among them stand alone."""
    messages: list[Json] = []
    for is_whole, group in groupby(PARTS.blocks(parts), key=lambda block: "role" in block):
        blocks = list(group)
        messages += blocks if is_whole else [{"role": role, "content": blocks}]
    return messages


def normalize(message: Mapping[str, Json]) -> dict[str, Json]:
    """Normalize a message: no nulls, and content that is one text part is a string.

    >>> normalize({"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "4"}], "name": None})
    {'role': 'tool', 'tool_call_id': 'c', 'content': '4'}
    """
    is_function = (
        message.get("role") == "function"
    )  # whose content is required, null or not (chat_completion_function_message_param.py)
    fields = {key: value for key, value in message.items() if value is not None or (is_function and key == "content")}
    content = normal(fields.get("content"))
    if (
        isinstance(content, list)
        and len(content) == 1
        and content[0].keys() == {"type", "text"}
        and content[0]["type"] == "text"
    ):
        fields["content"] = content[0]["text"]
    return fields


def _tool(name: str, description: str, schema: Json) -> Json:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _function(tool: Mapping[str, Json]) -> tuple[Json, Json, Json]:
    function = tool.get("function")
    declared = function if isinstance(function, dict) else {}
    return declared.get("name"), declared.get("description"), declared.get("parameters")


TOOLS = Tools(WIRE, _tool, _function)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _document(part: Mapping[str, Json]) -> Json:
    if shared.is_text(part) or "url" in part:
        return _text(shared.text_of(part) if shared.is_text(part) else str(part["url"]))
    return {"type": "file", "file": {"file_data": shared.url_of(part), "filename": shared.filename(part)}}


def _candidates(block: Mapping[str, Json]) -> list[Json]:
    if block.get("type") == "image_url":
        return [{"type": "image", **shared.media_of(shared.at(block, "image_url", "url"))}]
    return shared.titled(shared.media_of(shared.at(block, "file", "file_data")), shared.at(block, "file", "filename"))


PARTS = Parts(
    WIRE,
    _text,
    {
        "image": lambda part: {"type": "image_url", "image_url": {"url": shared.url_of(part)}},
        "document": _document,
    },
    _candidates,
)
_RESULT_PARTS: dict[str, Callable[[Any], Json]] = {
    "text": lambda part: _text(part["text"]),
    "image": lambda part: _text("[image]"),
    "document": lambda part: _text(shared.text_of(part) if shared.is_text(part) else "[document]"),
    "native": lambda part: (
        part["block"]
        if part["wire"] == WIRE and part["block"].get("type") == "text"
        else _text(block_text(part["block"]))
    ),
}
"""A tool message takes text only (chat/chat_completion_tool_message_param.py)."""


def render_result(body: Mapping[str, Json]) -> list[Json]:
    """Render the result of a tool."""
    parts = body["content"]
    block = parts[0].get("block") if len(parts) == 1 and parts[0].get("wire") == WIRE else None
    if block and block.get("role") == "tool":  # the whole tool message, stored verbatim
        return [block]
    texts = [_RESULT_PARTS[part["type"]](part) for part in parts]
    content = shared.as_error(texts, "text") if body["is_error"] else texts
    return [{"role": "tool", "tool_call_id": body["call_id"], "content": content or ""}]


REASONING_FIELDS = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
"""Fields in which hosts of open models return reasoning; OpenAI has none of them."""


def render_reply(body: Mapping[str, Json], reasoning_fields: Mapping[str, str] | None = None) -> list[Json]:
    """Render a reply of the model: its own message, or another wire's reply as a Chat message.

    `reasoning_fields`: field of `THOUGHTS` → its name at this host, the others being dropped; None leaves a message
    unchanged.
    """
    native = body["native"]
    if native["wire"] == WIRE:
        if reasoning_fields is None:
            return list(native["body"])
        return [_with_reasoning(message, reasoning_fields) for message in native["body"]]
    fields = {"content": body["text"], "tool_calls": [_call(call) for call in body["calls"]]}
    fields = {name: value for name, value in fields.items() if value}
    return [{"role": "assistant", **fields}] if fields else []


def _with_reasoning(message: Mapping[str, Json], reasoning_fields: Mapping[str, str]) -> Json:
    sendable = {
        reasoning_fields.get(name, name): value
        for name, value in message.items()
        if name in reasoning_fields or name not in REASONING_FIELDS
    }
    return sendable if sendable.keys() - {"role"} else {**sendable, "content": ""}


def _call(call: Mapping[str, Json]) -> Json:
    function = {"name": call["name"], "arguments": shared.written_arguments(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def neutral_parts(message: Mapping[str, Json], role: str) -> Iterator[Json]:
    """The neutral parts of a message that should have `role`; the whole message as one native part where it has more
    fields than content.
    """
    plain = normalize(message)
    if plain.keys() == {"role", "content"} and plain["role"] == role:
        content = plain["content"]
        yield from PARTS.neutral(normal(content)) if isinstance(content, list) else [_text(content)]
    else:
        yield verbatim(WIRE, normal(plain))


def parse_result(message: Mapping[str, Json]) -> Json:
    """A tool message as the body of a result."""
    plain = normal(normalize(message))
    content = [_text(plain["content"])] if isinstance(plain["content"], str) else PARTS.neutral(plain["content"])
    body = {"call_id": plain["tool_call_id"], "name": "", "content": content, "is_error": False}
    if normal(normalize(render_result(body)[0])) != plain:
        body["content"] = [verbatim(WIRE, plain)]
    return body


STOPS = {
    "stop": "done",
    "function_call": "done",
    "tool_calls": "calls",
    "length": "truncated",
    "content_filter": "refused",
}
"""`finish_reason` → next step of the loop (chat/chat_completion.py); none means that the stream was cut."""
_SENDABLE = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "audio", "name"})
"""Fields of a reply's message that a request takes back (chat/chat_completion_assistant_message_param.py)."""
_CALLS: dict[str, Callable[[Mapping[str, Json]], tuple[str, Json]]] = {
    "function": lambda call: (call["function"]["name"], read_arguments(call["function"]["arguments"])),
    "custom": lambda call: (call["custom"]["name"], call["custom"]["input"]),
}


def reply(response: Any, reasoning_fields: frozenset[str] = frozenset()) -> Reply:
    """Parse a `ChatCompletion`, its dict, or a joined stream.

    Of several choices the first counts. `reasoning_fields` are sent back to the host.
    """
    completion = plain(response)
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0].get("message"), dict):
        raise UnreadableReply(
            "not a chat completion (it has no choices): pass what client.chat.completions.create returned"
        )
    message = _sendable(choices[0]["message"], reasoning_fields)
    calls, text = _calls(message), _chat_reply_text(message)
    stop = "refused" if message.get("refusal") else STOPS.get(choices[0].get("finish_reason", ""), "truncated")
    stop = "calls" if stop == "done" and calls else stop  # a forced call ends with "stop"
    native = Native(WIRE, completion.get("model", ""), canonical([message]))
    return Reply(
        completion.get("id", ""),
        native,
        text,
        calls,
        stop,
        served(endpoint_usage(WIRE, completion.get("usage")), completion),
    )


def turn(message: Mapping[str, Json], model: str) -> Json:
    """An assistant message of a request body as the body of an entry."""
    native = normal(normalize(message))
    return assistant_body(WIRE, model, [native], _chat_reply_text(native), _calls(native))


def _sendable(message: Mapping[str, Json], reasoning_fields: frozenset[str]) -> dict[str, Json]:
    fields = {key: value for key, value in message.items() if key in _SENDABLE or key in reasoning_fields}
    if "audio" in fields:
        fields["audio"] = {"id": fields["audio"]["id"]}
    if "tool_calls" in fields and not fields["tool_calls"]:
        del fields["tool_calls"]
    if not fields.keys() - {"role", *reasoning_fields}:
        fields["content"] = ""
    sendable: dict[str, Json] = normal(normalize(fields))
    return sendable


def _calls(message: Mapping[str, Json]) -> tuple[ReplyCall, ...]:
    return tuple(
        ReplyCall(call["id"], *_CALLS[call.get("type", "function")](call)) for call in message.get("tool_calls") or []
    )


def _chat_reply_text(message: Mapping[str, Json]) -> str:
    """The text of a message; its refusal where it has no text."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(part.get("text", part.get("refusal", "")) for part in content)
    return content or message.get("refusal") or ""


def join_events(events: Iterable[Any]) -> Mapping[str, Json]:
    """Join chunks into a completion (the events of the SDK's stream helper hold them too); a truncated stream gives the
    part that arrived.

    Raises `UnreadableReply` when there is not one chunk among them.
    """
    completion: dict[str, Json] = {}
    choice: dict[str, Json] = {"index": 0, "message": {"role": "assistant"}}
    message = choice["message"]
    for event in map(plain, events):
        chunk = event.get("chunk", event)
        if not isinstance(chunk.get("choices"), list):
            continue
        left_out = ("choices", "object", "obfuscation")
        completion.update({key: value for key, value in chunk.items() if key not in left_out})
        for streamed in chunk["choices"]:
            if streamed.get("index", 0) == 0:
                choice.update({key: streamed[key] for key in ("finish_reason",) if key in streamed})
                for key, value in (streamed.get("delta") or {}).items():
                    _DELTAS.get(key, dict.__setitem__)(message, key, value)
    if not completion:
        raise UnreadableReply("the stream ended before its first chunk: nothing was said")
    if "tool_calls" in message:
        calls = (message["tool_calls"][index] for index in sorted(message["tool_calls"]))
        message["tool_calls"] = [{"type": "custom" if "custom" in call else "function", **call} for call in calls]
    return {**completion, "object": "chat.completion", "choices": [choice]}


def _appended(message: dict[str, Json], key: str, value: Json) -> None:
    message[key] = message.get(key, "") + value


def _listed(message: dict[str, Json], key: str, value: list[Json]) -> None:
    """Append fragments of reasoning: one with the index and type of the last continues its text."""
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
    """Merge the function of a call, whose arguments grow; ids and names come once."""
    inside = message.setdefault(key, {})
    for name, fragment in value.items():
        if name in ("arguments", "input", "data", "transcript"):
            inside[name] = inside.get(name, "") + fragment
        else:
            inside.setdefault(name, fragment)


def _called(message: dict[str, Json], key: str, value: list[Json]) -> None:
    """Merge calls, which grow side by side and are identified by their index."""
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
"""Field of a delta → the function that merges it; every other field is replaced."""


_WHOLE: Mapping[str, Trait] = {
    "assistant": Trait(run="other", can_hold_breakpoint=False),
    "tool": Trait(run="tool", can_hold_breakpoint=False),
    "function": Trait(run="tool", can_hold_breakpoint=False),
}
"""Messages that are one block."""
_TOOL = Trait(can_hold_breakpoint=False)
_SPEECH = ("content", "tool_calls", "refusal", "function_call", "audio")


def _check(fields: Mapping[str, Json]) -> None:
    for index, message in enumerate(expect(fields.get("messages"), list, "messages", "an array")):
        path = f"messages[{index}]"
        expect(expect(message, dict, path, "an object").get("role"), str, f"{path}.role", "a string")


def _other_fields(message: Mapping[str, Json]) -> dict[str, Json]:
    return {key: message[key] for key in sorted(message) if key not in ("role", "content") and message[key] is not None}


def _render_whole(message: Mapping[str, Json], path: str, model: str) -> RenderedBlock:
    role = message["role"]
    trait = expect(_WHOLE.get(role), Trait, f"{path}.role", "'developer', 'system', 'user', 'assistant' or 'tool'")
    fields = normalize(message)
    if role == "tool":
        expect(fields.get("tool_call_id"), str, f"{path}.tool_call_id", "a string")
        expect(fields.get("content"), (str, list), f"{path}.content", "a string or an array")
    if (role != "function" and not any(fields.get(key) is not None for key in _SPEECH)) or fields.get("content") == []:
        raise UnreadableRequest(f"{path}.content", "Input should be a string or a non-empty array")
    block = render_block(fields, "messages", role, trait, model)
    marker = marker_of(message)  # also one inside content that became a string
    return block if marker is None else replace(block, marker=marker)


def _turn(message: Mapping[str, Json], model: str) -> Turn:
    if message["role"] == "assistant":
        return Turn("assistant", turn(message, model))
    if message["role"] == "tool":
        return Turn("result", parse_result(message))
    return Turn("user", {"content": list(neutral_parts(message, "user"))})


FORMAT = MessageFormat(
    WIRE,
    grammar("messages"),
    CHAT_BODY,
    "text",
    messages_of,
    render_reply,
    render_result,
    neutral_parts,
    TOOLS,
    _check,
    role=lambda message: str(message["role"]),
    other_fields=_other_fields,
    tool=lambda tool: _TOOL,
    render_whole=_render_whole,
    turns=lambda messages, model: [_turn(message, model) for message in messages],
)
ANSWERING = Answering(reply, lambda response: response["choices"][0].get("finish_reason") is not None, join_events)


class OpenAIChat(OpenAIAdapter):
    """An OpenAI model behind `client.chat.completions.create`.

    `max_tokens` is sent as `max_completion_tokens`; `system_role` is the role of the system prompt (`system` before o1).
    A request writes for 30 minutes; with `ttl="auto"` the planner gives explicit breakpoints 12 hours where that pays.
    Everything else is a parameter of the endpoint and is sent unchanged. Models from gpt-5.6 on get one explicit breakpoint,
    at the end of the system prompt. `prompt_cache_key="auto"`, or a `CacheKey`, is derived from the static prefix
    where it chooses the machine.

    >>> OpenAIChat("gpt-6.1-sol", max_tokens=4096).params["max_completion_tokens"]
    4096
    """

    format, answering = FORMAT, ANSWERING
    wire = WIRE
    path = "/chat/completions"
    grammar = FORMAT.grammar

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
        if ttl not in ("30m", AUTO_TTL) or system_role not in tuple(SYSTEM):
            raise UsageError(
                f"ttl={ttl!r}, system_role={system_role!r}: Chat takes ttl '30m' or 'auto' and the role 'developer' or 'system'"
            )
        options = {"max_completion_tokens": max_tokens, "prompt_cache_key": prompt_cache_key}
        self.system_role = system_role
        fields = {**{name: value for name, value in options.items() if value is not None}, **params}
        super().__init__(Endpoint(WIRE, chosen_model(model, "openai")), ttl, fields)
        if self.model.provider == "openai":  # its API has no field for the reasoning of another host's model
            self._kinds = {**self._kinds, "assistant": lambda body: render_reply(body, {})}


def parse(body: Json, *, near: Iterable[RenderedItems] = ()) -> Parsed:
    """Parse a `/chat/completions` body into its segments, breakpoints and parameters; `near` as in `render_items`.

    Raises `UnreadableRequest` where it is not one.
    """
    return parse_body(FORMAT, body, near)
