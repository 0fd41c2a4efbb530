"""`POST /responses`: OpenAI's models through the Responses API.

The words of that endpoint; what it shares with Chat Completions is `wording.py`. Field names are those of
`openai.types.responses` 3.52. `instructions` are the same developer message that stands first in the input, and are
read as it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest, UsageError
from contextkit.layout.normal_form import marker_of
from contextkit.providers.chosen import chosen_model
from contextkit.providers.cutting import Cut, Trait, cut, expect
from contextkit.providers.masking.mechanisms import Endpoint
from contextkit.providers.neutral.adapter import Answering
from contextkit.providers.openai import responses_items as words
from contextkit.providers.openai import responses_reply as replies
from contextkit.providers.openai.endings import TTLS, grammar
from contextkit.providers.openai.responses_items import OUTPUTS, WIRE, answers, result_of, said_by, whole
from contextkit.providers.openai.wording import Speaker, Wording, understood
from contextkit.providers.provider import Parsed, Turn
from contextkit.providers.stateful.continuing import CONVERSATION, PREVIOUS, continuing

_OUTPUT = Trait(run="tool", is_markable=False)
_ITEM = Trait(run="other", is_markable=False)
_ITEMS: Mapping[str, Trait] = {
    "function_call_output": _OUTPUT,
    "custom_tool_call_output": _OUTPUT,
    "computer_call_output": _OUTPUT,
    "local_shell_call_output": _OUTPUT,
    "shell_call_output": _OUTPUT,
    "apply_patch_call_output": _OUTPUT,
    "reasoning": Trait(run="other", is_markable=False, is_thinking=True),
}
"""Type of an item that is one piece → what the cache makes of it; `_ITEM` for the others."""
_TOOLS: Mapping[bool, Trait] = {False: Trait(is_markable=False), True: Trait(is_markable=False, is_silent=True)}
"""Whether a tool's loading is deferred; until it is loaded it is not in the prefix (responses/function_tool_param.py).
"""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
}
"""Type of an item → fields that must be strings."""


def _listed(fields: Mapping[str, Json]) -> tuple[list[Json], int]:
    """The input as a list of items, `instructions` before the others."""
    for name in (PREVIOUS, CONVERSATION):
        if fields.get(name) is not None:
            raise UnreadableRequest(
                name, "the conversation is on the server, not in this request: send the whole input instead"
            )
    given = fields.get("input")
    said = (
        [{"role": "user", "content": given}]
        if isinstance(given, str)
        else expect(given, list, "input", "a string or an array")
    )
    instructions = expect(fields.get("instructions") or "", str, "instructions", "a string")
    for index, item in enumerate(said):
        _check(expect(item, dict, f"input[{index}]", "an object"), f"input[{index}]")
    return ([{"role": "developer", "content": instructions}, *said], 1) if instructions else (list(said), 0)


def _check(item: Mapping[str, Json], path: str) -> None:
    kind = _kind(item)
    if kind == "item_reference":
        raise UnreadableRequest(f"{path}.type", "item_reference stands for an item on the server: send the item itself")
    if kind == "message":
        expect(item.get("role"), str, f"{path}.role", "a string")
    for name in _FIELDS.get(expect(kind, str, f"{path}.type", "a string"), ()):
        expect(item.get(name), str, f"{path}.{name}", "a string")
    if kind in OUTPUTS:
        expect(item.get("output"), (str, list), f"{path}.output", "a string or an array")


def _kind(item: Mapping[str, Json]) -> Json:
    """The type of an item: one without is a message if somebody says it, else a reference
    (responses/response_input_item_param.py).
    """
    return item.get("type") or ("message" if "role" in item else "item_reference" if "id" in item else None)


def _besides(item: Mapping[str, Json]) -> dict[str, Json]:
    plain = whole(item)
    return {key: plain[key] for key in sorted(plain) if key not in ("type", "role", "content")}


def _one(item: Mapping[str, Json], path: str, model: str) -> Cut:
    said = whole(item)
    if said["type"] == "message":
        expect(
            said["role"] == "assistant" or None, bool, f"{path}.role", "'developer', 'system', 'user' or 'assistant'"
        )
        expect(said.get("content"), (str, list), f"{path}.content", "a string or an array")
    return replace(cut(said, "messages", "item", _ITEMS.get(said["type"], _ITEM), model), marker=marker_of(item))


def _turns(items: list[Json], model: str) -> Iterator[Turn]:
    for is_model, group in groupby(items, key=lambda item: replies.is_output(whole(item))):
        if is_model:
            yield Turn("assistant", replies.turn(list(map(whole, group)), model))
        else:
            yield from map(_said, group)


def _said(item: Mapping[str, Json]) -> Turn:
    return (
        Turn("result", result_of(item))
        if answers(item) is not None
        else Turn("user", {"content": list(said_by(item, "user"))})
    )


WORDS = Wording(
    WIRE,
    grammar("input"),
    "input",
    frozenset({"tools", "input", "instructions"}),
    "input_text",
    words.items_of,
    words.replied,
    words.answered,
    said_by,
    words.TOOLS,
    _listed,
    role=lambda item: str(item["role"]) if _kind(item) == "message" else "",
    besides=_besides,
    tool=lambda tool: _TOOLS[bool(tool.get("defer_loading"))],
    one=_one,
    turns=_turns,
    ways=words.WAYS,
)


class OpenAIResponses(Speaker):
    """An OpenAI model behind `client.responses.create`.

    `ttl` is the lifetime of everything the request writes, `30m` or `12h`. Everything else is a parameter of the
    endpoint and is sent as given; `store=False` and encrypted reasoning are the defaults, so that the log is all there
    is. Models from gpt-5.6 on get one explicit mark, at the end of the system prompt. With `continues=True` the server
    keeps each reply, and a request sends what was said since the last one; `conversation="conv_…"` does so in a
    conversation of the server's (`docs/openai-state.md`).

    >>> OpenAIResponses("gpt-6.1-sol", max_output_tokens=4096).params["store"]
    False
    """

    words = WORDS
    wire = WIRE
    path = "/responses"
    grammar = WORDS.grammar
    answering = Answering(
        replies.reply,
        lambda response: response.get("status") in ("completed", "incomplete"),
        replies.usage,
        replies.joined,
    )

    def __init__(
        self,
        model: str,
        *,
        max_output_tokens: int | None = None,
        ttl: str = "30m",
        continues: bool = False,
        conversation: str | None = None,
        **params: Json,
    ) -> None:
        if ttl not in tuple(TTLS):
            raise UsageError(f"ttl={ttl!r}: Responses takes '30m' or '12h'")
        given = {} if max_output_tokens is None else {"max_output_tokens": max_output_tokens}
        if ttl != "30m":
            params["prompt_cache_options"] = {"ttl": ttl, **(params.get("prompt_cache_options") or {})}
        self.continuing = continuing(continues, conversation, params)
        fields = {**given, "store": self.continuing is not None, "include": ["reasoning.encrypted_content"], **params}
        super().__init__(Endpoint(WIRE, chosen_model(model, "openai")), ttl, fields)


def parse(body: Json) -> Parsed:
    """A `/responses` body: its segments, marks and parameters.

    Raises `UnreadableRequest` where it is not one or leans on state the server holds.
    """
    return understood(WORDS, body)
