"""`POST /chat/completions`: OpenAI's models through the Chat Completions API.

The words of that endpoint; what it shares with Responses is `wording.py`. Field names are those of `openai.types.chat`
3.52.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest, UsageError
from contextkit.layout.normal_form import marker_of
from contextkit.providers.chosen import chosen_model
from contextkit.providers.cutting import Cut, Trait, cut, expect
from contextkit.providers.masking.mechanisms import Endpoint
from contextkit.providers.neutral.adapter import Answering
from contextkit.providers.openai import chat_messages as messages
from contextkit.providers.openai import chat_reply as answers
from contextkit.providers.openai.chat_messages import WIRE, result_of, said_by, whole
from contextkit.providers.openai.endings import grammar
from contextkit.providers.openai.wording import SYSTEM, Speaker, Wording, understood
from contextkit.providers.provider import Parsed, Turn
from contextkit.providers.settings.affinity import CacheKey

_WHOLE: Mapping[str, Trait] = {
    "assistant": Trait(run="other", is_markable=False),
    "tool": Trait(run="tool", is_markable=False),
    "function": Trait(run="tool", is_markable=False),
}
"""Messages that are one piece."""
_TOOL = Trait(is_markable=False)
_SPEECH = ("content", "tool_calls", "refusal", "function_call", "audio")


def _listed(fields: Mapping[str, Json]) -> tuple[list[Json], int]:
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
        return Turn("assistant", answers.turn(message, model))
    if message["role"] == "tool":
        return Turn("result", result_of(message))
    return Turn("user", {"content": list(said_by(message, "user"))})


WORDS = Wording(
    WIRE,
    grammar("messages"),
    "messages",
    frozenset({"tools", "messages"}),
    "text",
    messages.messages_of,
    messages.replied,
    messages.answered,
    said_by,
    messages.TOOLS,
    _listed,
    role=lambda message: str(message["role"]),
    besides=_besides,
    tool=lambda tool: _TOOL,
    one=_one,
    turns=lambda given, model: [_turn(message, model) for message in given],
)
ANSWERING = Answering(
    answers.reply,
    lambda response: response["choices"][0].get("finish_reason") is not None,
    answers.usage,
    answers.joined,
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
            self._kinds = {**self._kinds, "assistant": lambda body: messages.replied(body, {})}


def parse(body: Json) -> Parsed:
    """A `/chat/completions` body: its segments, marks and parameters.

    Raises `UnreadableRequest` where it is not one.
    """
    return understood(WORDS, body)
