"""`import contextkit` imports no heavy package, and linting source imports no adapter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"anthropic", "openai", "numpy", "starlette", "rich", "pydantic", "tiktoken", "genai_prices", "httpx", "httpx2"}
ADAPTERS = (".messages", ".chat", ".responses", ".generate", ".converse")

MODULES = "import sys; import contextkit; import json; print(json.dumps(sorted(sys.modules)))"


def fresh_interpreter(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_import_brings_in_no_heavy_package() -> None:
    before = set(
        json.loads(fresh_interpreter(MODULES.replace("import contextkit; ", "")))
    )  # what site-packages start by themselves
    after = set(json.loads(fresh_interpreter(MODULES)))
    assert HEAVY & {name.partition(".")[0] for name in after - before} == set()


@pytest.mark.parametrize("statement", ["from contextkit.errors import ContextKitError", "import contextkit.models"])
def test_a_single_room_brings_in_no_heavy_package_either(statement: str) -> None:
    modules = json.loads(fresh_interpreter(MODULES.replace("import contextkit", statement)))
    assert HEAVY & {name.partition(".")[0] for name in modules} == set()


def test_linting_source_brings_in_no_adapter() -> None:
    lint = "from contextkit.lint.catalogue import hazards; from contextkit.lint.source import detect; list(hazards())"
    modules = json.loads(fresh_interpreter(MODULES.replace("import contextkit", lint)))
    assert [name for name in modules if name.startswith("contextkit.providers.") and name.endswith(ADAPTERS)] == []
