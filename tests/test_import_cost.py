"""`import contextkit` imports no heavy package, and linting source imports no adapter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from contextkit.cli.main import COMMANDS

COMMAND = """
import json, sys
from contextkit.cli.main import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
HEAVY = {"anthropic", "openai", "numpy", "starlette", "rich", "pydantic", "tiktoken", "genai_prices", "httpx", "httpx2"}
ADAPTERS = (".messages", ".chat", ".responses", ".generate", ".converse")


def fresh_interpreter(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_import_brings_in_no_heavy_package() -> None:
    before = "import json, sys; known = set(sys.modules); "  # what site-packages start by themselves
    after = "import contextkit, contextkit.models; print(json.dumps(sorted(set(sys.modules) - known)))"
    added = json.loads(fresh_interpreter(before + after))
    assert "contextkit.models" in added and HEAVY & {name.partition(".")[0] for name in added} == set()


def modules_of_command(*arguments: str) -> set[str]:
    """What is imported when a command ends."""
    ran = subprocess.run([sys.executable, "-c", COMMAND, *arguments], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stderr.splitlines()[-1]))


def test_help_imports_no_command() -> None:
    modules = modules_of_command("--help")
    assert modules & (set(COMMANDS.values()) - {"contextkit.cli.models"}) == set()  # it holds the option --models
    assert HEAVY & {name.partition(".")[0] for name in modules} == set()


def test_linting_a_file_brings_in_no_heavy_package_and_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("x = 1\n")
    modules = modules_of_command("lint", str(tmp_path / "x.py"))
    assert [name for name in modules if name.startswith("contextkit.providers.") and name.endswith(ADAPTERS)] == []
    assert (HEAVY | {"sqlite3", "asyncio"}) & {name.partition(".")[0] for name in modules} == set()


def test_a_report_on_recorded_bodies_brings_in_no_codec_and_no_script(tmp_path: Path) -> None:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    answer |= {"stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 1}}
    line = json.dumps({"request": body, "response": answer, "timestamp": "2026-11-20T10:00:00Z"})
    (tmp_path / "calls.jsonl").write_text(line + "\n")
    modules = modules_of_command("report", str(tmp_path / "calls.jsonl"))
    names = ("rendering", ".scripted", ".validation", ".sdk_types")
    assert [name for name in modules if name.startswith("contextkit.providers.") and name.endswith(names)] == []
    assert [name for name in modules if name.startswith("contextkit.server")] == []


def test_watching_brings_in_what_judges_and_no_prices() -> None:
    """What the first request needs is loaded before it leaves; prices are, when something was lost."""
    before = "import json, sys, openai; client = openai.OpenAI(api_key='x'); known = set(sys.modules); "
    after = "import contextkit; contextkit.watch(client); print(json.dumps(sorted(set(sys.modules) - known)))"
    modules = json.loads(fresh_interpreter(before + after))
    assert {"contextkit.watcher.client", "contextkit.ledger.judge", "contextkit.providers.openai.responses"} <= {
        *modules
    }
    assert (HEAVY - {"openai"}) & {name.partition(".")[0] for name in modules} == set()
