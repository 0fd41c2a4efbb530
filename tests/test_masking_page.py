"""The tables of `docs/guides/masking.md` are those the code goes by, and its examples run.

python tests/test_masking_page.py        writes the tables into the page
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import pytest

from contextkit import Context, Phase, Phases
from contextkit.providers.call_formats import FORMATS
from contextkit.providers.engine_masks import ROWS
from contextkit.providers.masking import CHOICES, TELLINGS
from contextkit.providers.openai_compatible import OpenAICompatible

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guides" / "masking.md"
TABLE = re.compile(r"(?<=<!-- table: )(?P<name>[a-z]+)(?P<open> -->\n)(?P<body>.*?)(?=<!-- end -->)", re.DOTALL)
WORDS = {
    "anthropic_messages": "Messages",
    "openai_chat": "Chat",
    "openai_responses": "Responses",
    "bedrock_converse": "Converse",
    "gemini": "Gemini",
}
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "llamacpp": "llama.cpp"}
SHOWS = {
    "masking_claude": "system_notice",
    "masking_chat": "allowed_tools, 0 tokens",
    "masking_responses": "allowed_tools, 0 tokens",
    "masking_engines": "browse: grammar, held by the provider",
}


def table(header: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [header, re.sub(r"[^|]+", "---", header)]
    return (
        "\n".join([*lines, *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)])
        + "\n"
    )


def code(text: str) -> str:
    return f"`{text!r}`".replace("`'", "`").replace("'`", "`")


def wires(names: Iterable[str], words: dict[str, str]) -> str:
    return ", ".join(words[name] for name in names)


TABLES: dict[str, Callable[[], str]] = {
    "mechanisms": lambda: table(
        "| mechanism | endpoint | needs | a change costs | enforced by |",
        ([f"`{row.name}`", wires(row.wires, WORDS), row.needs, row.cost, row.enforced_by] for row in TELLINGS),
    ),
    "choices": lambda: table(
        "| mechanism | endpoint | says | cached messages |",
        ([f"`{row.name}`", wires(row.wires, WORDS), row.needs, "kept" if row.is_free else "lost"] for row in CHOICES),
    ),
    "engines": lambda: table(
        "| mechanism | engine | says | enforced by | source |",
        (
            [
                f"`{row.mechanism}`",
                wires(row.engines, ENGINES),
                row.needs + (", in the model's call format" if row.needs_format else ""),
                "the engine" if row.is_enforced else "contextkit",
                row.source,
            ]
            for row in ROWS
        ),
    ),
    "formats": lambda: table(
        "| format | before the name | behind it | at the end |",
        (
            [f"`{row.name}`", code(row.begin), code(row.middle), code(row.end) if row.end else ""]
            for row in FORMATS.values()
        ),
    ),
}


def test_the_page_has_every_table_as_the_code_has_it() -> None:
    found = {match["name"]: match["body"] for match in TABLE.finditer(PAGE.read_text(encoding="utf-8"))}
    assert found == {name: make() for name, make in TABLES.items()}


def test_every_row_has_a_source_and_a_cost() -> None:
    assert all(row.source and row.cost and row.needs for row in TELLINGS) and all(
        row.source and row.needs for row in (*CHOICES, *ROWS)
    )


PHASES = (
    Phase(),
    Phase([]),
    Phase(require=True),
    Phase(["a_*"]),
    Phase(["a_*"], require=True),
    Phase(["a_one"], require=True),
)


def test_a_context_goes_by_every_row_of_the_engines() -> None:
    """No mechanism stands on the page that no conversation is given."""
    tools, chosen = [{"name": name} for name in ("a_one", "a_two", "b")], set[tuple[str, str]]()
    for engine, phase in product(ENGINES, PHASES):
        provider = OpenAICompatible("a-model", host=engine, call_format="hermes")
        context = Context(provider, tools=tools, phases=Phases({"only": phase}, "only"))
        context.user("Go.")
        chosen.add((context.request().mask.mechanism, engine))
    listed = {(row.mechanism, engine) for row in ROWS for engine in row.engines}
    assert listed - chosen == {("reminder", engine) for engine in ENGINES}  # without a call format
    assert chosen <= listed


@pytest.mark.parametrize("name", SHOWS)
def test_an_example_runs_without_a_key(name: str, example: Callable[[str], str]) -> None:
    pytest.importorskip("uvicorn", reason="the examples need the extra `server`")
    assert SHOWS[name] in example(name)


def write() -> None:
    """Put the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        TABLE.sub(lambda match: match["name"] + match["open"] + TABLES[match["name"]](), text), encoding="utf-8"
    )


if __name__ == "__main__":
    write()
