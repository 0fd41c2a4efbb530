"""`contextkit lock` over a project of its own: what is written comes back byte for byte, and a change is said, priced
and refused."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.canonical import canonical
from contextkit.cli.lock import lock_text, read_lock
from contextkit.prompt.lock import LockedBlock, LockedHead
from tests.cli.conftest import COMMAND, Ended, Run

AGENTS = '''
from contextkit import AnthropicMessages, Context, OpenAIChat, tool

@tool
def search(query: str) -> str:
    """Search the web."""
    return query

READ = "Read \\'it\\'.\\nTwo \\"lines\\" \\\\."
TOOLS = [search, {"name": "read", "description": READ, "parameters": {"type": "object", "properties": {}}}]
SYSTEM = """You are careful.
You say where a number comes from. """ + "More. " * 900

researcher = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=100), system=SYSTEM, tools=TOOLS)
def writer():
    return OpenAIChat("gpt-6.1-sol"), "You write.", TOOLS
'''
PROJECT = """
[tool.contextkit.lock]
live_sessions = 50
session_tokens = 30000
{budget}
[tool.contextkit.lock.agents]
researcher = "{package}:researcher"
writer = {{ at = "{package}:writer", live_sessions = 2, session_tokens = 1000 }}
"""


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    name = "agents_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    (tmp_path / f"{name}.py").write_text(AGENTS, "utf-8")
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(budget="", package=name), "utf-8")
    return tmp_path


def edit(project: Path, old: str, new: str) -> None:
    [file] = project.glob("agents_*.py")
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


def budget(project: Path, line: str) -> None:
    file = project / "pyproject.toml"
    file.write_text(
        file.read_text("utf-8").replace("session_tokens = 30000\n", f"session_tokens = 30000\n{line}\n"), "utf-8"
    )


@pytest.fixture
def lock(run: Run) -> Run:
    """`contextkit lock …`, which imports what the files say now."""

    def call(*arguments: object) -> Ended:
        for name in [name for name in sys.modules if name.startswith("agents_")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return run("lock", *arguments)

    return call


def test_written_and_checked(project: Path, run: Run) -> None:
    wrote = run("lock", "write", "--project", project)
    assert wrote.code == 0 and "researcher: 3 blocks, about" in wrote.out and "writer: 3 blocks, " in wrote.out
    text = (project / "prompt.lock").read_text("utf-8")
    assert (
        "You are careful.\nYou say where a number comes from. More." in text
        and '"description": "Search the web."' in text
    )
    assert [agent["name"] for agent in tomllib.loads(text)["agent"]] == ["researcher", "writer"]
    checked = run("lock", "check", "--project", project)
    assert (checked.code, checked.err) == (0, "") and checked.out.count("as locked") == 2
    before = (project / "prompt.lock").read_bytes()
    apart = subprocess.run([*COMMAND, "lock", "write", "--project", project], capture_output=True, check=False)
    assert apart.returncode == 0 and (project / "prompt.lock").read_bytes() == before


def test_a_change_is_said_priced_and_refused(project: Path, lock: Run) -> None:
    lock("write", "--project", project)
    edit(project, "Search the web.", "Search the whole web.")
    checked = lock("check", "--project", project, "--diff")
    assert checked.code == 1
    assert "researcher: tool 'search' changed at tools[0], byte 28\n" in checked.out
    assert "1,500,000 more in 50 live sessions of 30,000 tokens" in checked.out
    assert '-  "description": "Search the web.",\n+  "description": "Search the whole web.",' in checked.out
    assert "over the budget of 0 tokens" in checked.out and "contextkit lock write, and commit" in checked.out
    told = json.loads(lock("check", "--project", project, "--json").out)
    [researcher, writer] = told["agents"]
    change = researcher["change"]
    assert change["path"] == "tools[0]" and "the web" in change["was"] and "whole" in change["now"]
    assert researcher["change"]["session_tokens"] == 1_500_000 and writer["change"]["session_tokens"] == 2000
    assert (
        told["n_tokens"] == sum(agent["change"]["n_tokens"] for agent in told["agents"])
        and told["is_over"]
        and not told["is_current"]
    )
    none = json.loads(lock("check", "--project", project, "--json", "--live-sessions", 0).out)
    assert (
        none["agents"][0]["change"]["n_tokens"] == researcher["n_tokens"]
        and none["agents"][0]["change"]["session_tokens"] == 0
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("budget_tokens = 5000000", 0),
        ("budget_tokens = 1000000", 1),
        ("budget_usd = 10", 0),
        ("budget_usd = 1.5", 1),
        ("budget_tokens = 5000000\nbudget_usd = 1.5", 1),
    ],
)
def test_a_budget_decides(project: Path, lock: Run, line: str, code: int) -> None:
    budget(project, line)
    lock("write", "--project", project)
    edit(project, "Search the web.", "Search the whole web.")
    assert lock("check", "--project", project).code == code


def test_agents_come_and_go(project: Path, lock: Run) -> None:
    lock("write", "--project", project)
    file = project / "pyproject.toml"
    file.write_text(file.read_text("utf-8").replace("writer =", "scribe ="), "utf-8")
    checked = lock("check", "--project", project)
    assert checked.code == 0
    assert (
        "scribe: not in the lock file yet" in checked.out and "writer: no longer named in pyproject.toml" in checked.out
    )


def test_it_is_found_from_below_and_imports_nothing_elsewhere(project: Path, lock: Run) -> None:
    below = project / "deep" / "er"
    below.mkdir(parents=True)
    assert lock("write", "--project", below).code == 0 and (project / "prompt.lock").is_file()
    edit(project, "from contextkit", "raise SystemExit('imported')\nfrom contextkit")
    assert "cannot be made (SystemExit: imported)" in lock("check", "--project", below).err
    other = subprocess.run([*COMMAND, "--help"], cwd=project, capture_output=True, encoding="utf-8", check=False)
    assert other.returncode == 0 and "lock" in other.stdout


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("researcher = Context", "helper = Context", "has no attribute 'researcher'"),
        ("return OpenAIChat", "return 3, OpenAIChat", "is tuple: give a Context, (provider, system, tools)"),
        ("from contextkit", "1 / 0\nfrom contextkit", "ZeroDivisionError"),
        ('"""Search the web."""', "pass", "has no docstring"),
    ],
)
def test_an_agent_that_cannot_be_made(project: Path, lock: Run, old: str, new: str, text: str) -> None:
    edit(project, old, new)
    ended = lock("write", "--project", project)
    assert ended.code == 2 and text in ended.err and ended.err.count("\n") == 1
    assert not (project / "prompt.lock").exists()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("budget = 3", "unknown key 'budget'"),
        ("budget_tokens = -1", "budget_tokens must be a whole number"),
        ("budget_usd = 'x'", "budget_usd must be dollars"),
        ("path = 3", "path must be text"),
    ],
)
def test_settings_that_are_wrong(project: Path, run: Run, line: str, text: str) -> None:
    budget(project, line)
    ended = run("lock", "check", "--project", project)
    assert ended.code == 2 and text in ended.err


def test_no_settings_no_lock_no_agents(project: Path, run: Run, tmp_path: Path) -> None:
    assert "contextkit lock write" in run("lock", "check", "--project", project).err
    (project / "pyproject.toml").write_text("[tool.contextkit.lock]\n", "utf-8")
    assert "names no agents" in run("lock", "write", "--project", project).err
    (project / "pyproject.toml").write_text('[tool.contextkit.lock.agents]\na = "x"\n', "utf-8")
    assert 'write "module:attribute"' in run("lock", "write", "--project", project).err


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("Search the web", "Search the net", "tools[0] is not what its digest says"),
        ("version = 1", "version = 9", "is of version 9, this contextkit reads up to 1: upgrade contextkit"),
        ("version = 1", "version = ", "is not TOML"),
        ('wire = "anthropic_messages"\n', "", "is not as contextkit writes it (KeyError"),
        ('model = "claude-sonnet-5-5"', 'model = "claude-opus-5-5"', "agent 'researcher' is not what its digest says"),
    ],
)
def test_a_lock_file_that_was_edited(project: Path, run: Run, old: str, new: str, text: str) -> None:
    assert run("lock", "write", "--project", project).code == 0
    file = project / "prompt.lock"
    file.write_text(file.read_text("utf-8").replace(old, new, 1), "utf-8")
    ended = run("lock", "check", "--project", project)
    assert ended.code == 2 and text in ended.err


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text("'\"\\\n\r\t\x00\x7fa", max_size=12)


@settings(settings.get_profile("laws"), max_examples=150)
@given(st.lists(st.tuples(texts, st.booleans()), max_size=4), texts)
def test_every_byte_comes_back(blocks: list[tuple[str, bool]], name: str) -> None:
    bodies = [
        {"type": "text", "text": text} if is_words else {"name": text, "input": {text: [1e-7]}}
        for text, is_words in blocks
    ]
    made = tuple(LockedBlock(f"system[{i}]", "system", canonical(body), 3) for i, body in enumerate(bodies))
    heads = {name: LockedHead("anthropic", "anthropic_messages", "claude-opus-5", ("a", "b", "c"), True, made)}
    text = lock_text(heads)
    assert read_lock(text, "prompt.lock") == heads
    assert read_lock(text.replace("\n", "\r\n"), "prompt.lock") == heads
    assert lock_text(read_lock(text, "prompt.lock")) == text


def test_the_example_runs(example: Callable[[str], str]) -> None:
    assert "over the budget of $5.00" in example("lock_in_ci")
