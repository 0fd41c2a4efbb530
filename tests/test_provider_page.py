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
from contextkit.prompt.prompt import LEVELS
from contextkit.providers.anthropic import response as anthropic_reply
from contextkit.providers.bedrock import response as bedrock_reply
from contextkit.providers.gemini import response as gemini_reply
from contextkit.providers.openai import chat as chat_reply
from contextkit.providers.openai import responses as responses_reply

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "providers.md"
TABLE = re.compile(r"(?<=<!-- table: )(?P<name>[a-z ]+)(?P<open> -->\n)(?P<body>.*?)(?=<!-- end -->)", re.DOTALL)
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


def shown(value: Any) -> str:
    return "`" + json.dumps(value, ensure_ascii=False, separators=(",", ":")).removeprefix("[").removesuffix("]") + "`"


def code(names: Iterator[str] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


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
