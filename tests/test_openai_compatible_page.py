"""The tables of hosts in `docs/reference/providers.md` are the rows the code goes by, and the example runs.

python tests/test_openai_compatible_page.py        writes the tables into the page
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from contextkit.providers.openai_compatible import HOSTS, Host

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "providers.md"
TABLE = re.compile(r"(?<=<!-- hosts: )(?P<name>[a-z]+)(?P<open> -->\n)(?P<body>.*?)(?=<!-- end -->)", re.DOTALL)


def table(header: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [header, re.sub(r"[^|]+", "---", header)]
    return (
        "\n".join([*lines, *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)])
        + "\n"
    )


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def affinity(row: Host) -> str:
    if not row.affinity:
        return ""
    where, name = row.affinity
    return f"{where} `{name}`{', a number' * row.is_number}{', without which nothing is cached' * row.needs_affinity}"


def prefill(row: Host) -> str:
    said = ", ".join(code(f"{name}: {str(value).lower()}") for name, value in {**row.prefix, **row.goes_on}.items())
    where = f"{said} in the {'message' if row.prefix else 'body'}" if said else "the last message, as it stands"
    return where if row.takes_prefill else ""


CACHED = (("usage", "prompt_tokens_details", "cached_tokens"),)
"""Where cached tokens are, unless a host says otherwise."""


def cache(row: Host) -> str:
    if row.rule:
        return code(row.rule)
    return f"blocks of {row.block_tokens} tokens" if row.block_tokens > 1 else "any prefix"


TABLES: dict[str, Callable[[], str]] = {
    "hosts": lambda: table(
        "| `host` | name | base URL | `session` | `salt` | system role, output limit | prefilled reply |",
        (
            [
                code(row.name),
                row.title,
                code(row.base_url),
                affinity(row),
                code(row.salt),
                f"`{row.role}`, `{row.most}`",
                prefill(row),
            ]
            for row in HOSTS.values()
        ),
    ),
    "replies": lambda: table(
        "| `host` | cached tokens elsewhere | written tokens | option needed | reasoning | how it is sent back |",
        (
            [
                code(row.name),
                ", else ".join(code(".".join(path)) for path in row.read) if row.read != CACHED else "",
                code(row.written[-1] if row.written else ""),
                row.needs,
                ", ".join(map(code, filter(None, (row.thought, *row.also)))),
                re.sub(r"^sent back as it came(?:[;:,]? |$)", "", row.replay),
            ]
            for row in HOSTS.values()
        ),
    ),
    "caches": lambda: table(
        "| `host` | cache | constraints besides `tool_choice` | source |",
        ([code(row.name), cache(row), ", ".join(map(code, row.constraints)), row.source] for row in HOSTS.values()),
    ),
}


def test_the_page_has_every_table_as_the_code_has_it() -> None:
    found = {match["name"]: match["body"] for match in TABLE.finditer(PAGE.read_text(encoding="utf-8"))}
    assert found == {name: make() for name, make in TABLES.items()}, "run: python tests/test_openai_compatible_page.py"


def test_every_row_has_a_source_and_says_what_becomes_of_reasoning() -> None:
    assert all(row.source and row.replay and row.base_url and row.title for row in HOSTS.values())
    assert all(bool(row.rule) or row.name in ("vllm", "sglang", "llamacpp", "ollama") for row in HOSTS.values())


def test_the_example_runs_without_a_key(example: Callable[[str], str]) -> None:
    pytest.importorskip("uvicorn", reason="the examples need the extra `server`")
    out = example("openai_compatible")
    assert "DeepSeek: https://api.deepseek.com" in out and "0 misses" in out


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        TABLE.sub(lambda match: match["name"] + match["open"] + TABLES[match["name"]](), text),
        encoding="utf-8",
        newline="\n",
    )
