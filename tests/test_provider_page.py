"""The tables of `docs/reference/providers.md` are what the code does: each is made from the adapters here and compared with the
page.

python tests/test_provider_page.py        writes the tables into the page
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from contextkit.facts.parameters import Keying, keying
from contextkit.log.log import Log
from contextkit.prompt.prompt import LEVELS, PromptColumns, PromptLayout
from contextkit.providers.anthropic import response as anthropic_reply
from contextkit.providers.anthropic.messages import AnthropicMessages
from contextkit.providers.bedrock import response as bedrock_reply
from contextkit.providers.bedrock.converse import BedrockConverse
from contextkit.providers.gemini import response as gemini_reply
from contextkit.providers.gemini.generate import Gemini
from contextkit.providers.openai import chat as chat_reply
from contextkit.providers.openai import responses as responses_reply
from contextkit.providers.openai.chat import OpenAIChat
from contextkit.providers.openai.responses import OpenAIResponses
from contextkit.providers.provider import Provider
from contextkit.tools.late import tool_search

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "providers.md"
TABLE = re.compile(r"(?<=<!-- table: )(?P<name>[a-z ]+)(?P<open> -->\n)(?P<body>.*?)(?=<!-- end -->)", re.DOTALL)
WIRES: dict[str, Provider] = {
    "Messages": AnthropicMessages("claude-sonnet-5-5", max_tokens=1),
    "Chat": OpenAIChat("gpt-6.1-sol"),
    "Responses": OpenAIResponses("gpt-6.1-sol"),
    "Converse": BedrockConverse("anthropic.claude-sonnet-5-5"),
    "Gemini": Gemini("gemini-3.8-flash"),
}
HI = {"type": "text", "text": "hi"}
PNG = {"type": "image", "media_type": "image/png", "data": "…"}
PDF = {"type": "document", "media_type": "application/pdf", "data": "…", "title": "a.pdf"}
PARTS: dict[str, Any] = {
    "image, data": PNG,
    "image, URL": {"type": "image", "url": "https://a.b/c.png"},
    "document, data": PDF,
    "document, plain text": {"type": "document", "media_type": "text/plain", "data": "words", "title": "a.txt"},
    "document, URL": {"type": "document", "url": "https://a.b/c.pdf"},
    "native of another wire, with text": {
        "type": "native",
        "wire": "elsewhere",
        "block": {"type": "note", "text": "words"},
    },
}
ABROAD = {"wire": "elsewhere", "model": "another", "body": [{"type": "thinking"}, {"type": "text"}]}
CALLS = [{"id": "c1", "name": "f", "arguments": {"b": 1, "a": 2}}]
TEXT = [{"type": "text", "text": "4"}]
ENTRIES: dict[str, tuple[Any, Any]] = {
    "user": ("user", {"content": [HI]}),
    "assistant of another wire": (
        "assistant",
        {"after": 0, "native": ABROAD, "text": "hi", "calls": CALLS, "stop": "calls"},
    ),
    "result": ("result", {"call_id": "c1", "name": "f", "content": TEXT, "is_error": False}),
    "result, failed": ("result", {"call_id": "c1", "name": "f", "content": TEXT, "is_error": True}),
    "result with an image": ("result", {"call_id": "c1", "name": "f", "content": [PNG], "is_error": False}),
}
DEFINITIONS: dict[str, Any] = {
    "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}},
    "called with text": {
        "name": "f",
        "description": "F.",
        "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
    "a search that the program runs": tool_search([{"name": "g"}], description="F.").definition,
}
STOPS: dict[str, Mapping[str, str]] = {
    "Messages `stop_reason`": anthropic_reply.STOPS,
    "Chat `finish_reason`": chat_reply.STOPS,
    "Responses `incomplete_details.reason`": responses_reply.STOPS,
    "Converse `stopReason`": bedrock_reply.STOPS,
    "Gemini `finishReason`": gemini_reply.STOPS,
}
KEYED: dict[str, Keying] = {
    "Messages": keying("anthropic"),
    "Chat, Responses": keying("openai"),
    "Chat, Responses, models before gpt-5.6": keying("openai-implicit"),
    "Converse": keying("bedrock"),
    "Gemini": keying("gemini"),
}


def body_of(provider: Provider, pieces: Any) -> Any:
    columns = PromptColumns(provider.grammar)
    columns.extend(pieces)
    return json.loads(PromptLayout(columns, len(columns)).body(b"{}"))


def said(provider: Provider, kind: Any, body: Any) -> Any:
    return body_of(provider, provider.render_entry(Log(clock=lambda: 0.0).append(kind, body)))[
        provider.grammar.arrays["messages"]
    ]


def shown(value: Any) -> str:
    return "`" + json.dumps(value, ensure_ascii=False, separators=(",", ":")).removeprefix("[").removesuffix("]") + "`"


def code(names: Iterator[str] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def per_wire(rows: Mapping[str, Callable[[Provider], Any]], heading: str) -> Iterator[str]:
    yield f"| {heading} | endpoint | on the wire |\n|---|---|---|\n"
    for name, render in rows.items():
        for index, (wire, provider) in enumerate(WIRES.items()):
            yield f"| {'' if index else name} | {wire} | {shown(render(provider))} |\n"


def parts() -> Iterator[str]:
    def render(part: Any) -> Callable[[Provider], Any]:
        def spoken(provider: Provider) -> Any:
            message = said(provider, "user", {"content": [part]})[0]
            return message.get("content") or message["parts"]

        return spoken

    return per_wire({name: render(part) for name, part in PARTS.items()}, "part")


def entries() -> Iterator[str]:
    def render(entry: tuple[Any, Any]) -> Callable[[Provider], Any]:
        return lambda provider: said(provider, *entry)

    return per_wire({name: render(entry) for name, entry in ENTRIES.items()}, "entry")


def tools() -> Iterator[str]:
    def render(definition: Any) -> Callable[[Provider], Any]:
        def sent(provider: Provider) -> Any:
            body = body_of(provider, provider.render_static_prefix([], [definition], 0))
            return body.get("tools") or body["toolConfig"]["tools"]

        return sent

    return per_wire({name: render(definition) for name, definition in DEFINITIONS.items()}, "definition")


def keys() -> Iterator[str]:
    yield "| endpoint | what changes | loses the cache from |\n|---|---|---|\n"
    openai, earlier = keying("openai"), keying("openai-implicit")
    for wire, table in KEYED.items():
        if table == earlier:
            [(also, level)] = table.levels.items() - openai.levels.items()  # the only difference, by the line below
            assert ({**openai.levels, also: level}, openai.defaults) == (table.levels, table.defaults)
            yield f"| {wire} | also `{also}` | {LEVELS[level]} |\n"
            continue
        for level, name in enumerate(LEVELS):
            found = [parameter for parameter, first in table.levels.items() if first == level]
            flags = [flag for flag, first in table.flags.items() if first == level]
            if found:
                yield f"| {wire} | {code(found)} | {name} |\n"
            if flags:
                yield f"| {wire} | presence of {code(flags)} | {name} |\n"
        if table.defaults:
            yield f"| {wire} | from left out to {', '.join(f'`{n}` {shown(v)}' for n, v in table.defaults.items())}, or back | nothing |\n"
    yield "| all | any other parameter | nothing |\n"


def stops() -> Iterator[str]:
    yield "| endpoint says | `context.stop` |\n|---|---|\n"
    for wire, table in STOPS.items():
        for stop in dict.fromkeys(table.values()):
            yield f"| {wire} {code([reason for reason, meaning in table.items() if meaning == stop])} | `{stop}` |\n"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "parts": parts,
    "entries": entries,
    "tools": tools,
    "keys": keys,
    "stops": stops,
}


def written() -> dict[str, str]:
    return {table["name"]: table["body"] for table in TABLE.finditer(PAGE.read_text(encoding="utf-8"))}


def test_the_page_has_every_table() -> None:
    assert written().keys() == TABLES.keys()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_the_code_does(name: str) -> None:
    assert written()[name] == "".join(TABLES[name]()), "run: python tests/test_provider_page.py"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    page = TABLE.sub(lambda table: table["name"] + table["open"] + "".join(TABLES[table["name"]]()), page)
    PAGE.write_text(page, encoding="utf-8", newline="\n")
