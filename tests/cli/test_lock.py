"""`contextkit lock` over a project of its own: what is written comes back byte for byte, and a change is shown."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.reference import reference_cache
from contextkit.canonical import canonical
from contextkit.cli.lock import LockedBlock, LockedHead, lock_text, read_lock
from contextkit.models import model_named
from tests.cli.conftest import COMMAND, Ended, Run
from tests.scale import n_examples

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
[tool.contextkit.lock.agents]
researcher = "{package}:researcher"
writer = "{package}:writer"
"""


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    name = "agents_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    (tmp_path / f"{name}.py").write_text(AGENTS, "utf-8")
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(package=name), "utf-8")
    return tmp_path


def edit(project: Path, old: str, new: str) -> None:
    [file] = project.glob("agents_*.py")
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def lock(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`contextkit lock …`, which imports what the files say now."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it hides an edit within a second that keeps the size

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


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "Search the web.",
            "Search the whole web.",
            '"description": "Search the {+whole +}web."',
        ),
        ("say where a", "say whence a", "careful.\nYou say [-where -]{+whence +}a number"),
        ('"read", "description"', '"open", "description"', "tool 'read' removed\n  tool 'open' added at tools[1] ("),
        ('return query', 'return query\n@tool\ndef more() -> str:\n    """More."""\n', "as locked"),
        ("TOOLS = [search, ", "TOOLS = [", "tool 'search' removed"),
        ("SYSTEM, tools=TOOLS", "SYSTEM, tools=TOOLS[::-1]", "order changed: tool 'search', tool 'read', system[0] → tool 'read'"),
        ("claude-sonnet-5-5", "claude-opus-5-5", "anthropic claude-sonnet-5-5 (anthropic_messages) → anthropic claude-opus-5-5"),
        ("max_tokens=100", "max_tokens=100, speed='fast'", "parameters that key the system changed"),
    ],
)  # fmt: skip
def test_a_change_is_shown_and_refused(project: Path, lock: Run, old: str, new: str, text: str) -> None:
    lock("write", "--project", project)
    edit(project, old, new)
    checked = lock("check", "--project", project)
    assert text in checked.out
    assert checked.code == (0 if text == "as locked" else 1)
    assert ("are billed again at first use" in checked.out) == (checked.code == 1)


def test_agents_come_and_go(project: Path, lock: Run) -> None:
    lock("write", "--project", project)
    file = project / "pyproject.toml"
    file.write_text(file.read_text("utf-8").replace("writer =", "scribe ="), "utf-8")
    checked = lock("check", "--project", project)
    assert checked.code == 1
    assert (
        "scribe: not in the lock file yet" in checked.out and "writer: no longer named in pyproject.toml" in checked.out
    )


BILLED = """
from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
SCHEMA = {"type": "object", "properties": {}}
TOOLS = [{"name": n, "description": f"Does {n}. " * 300, "parameters": SCHEMA} for n in ("a", "b", "z")]
agent = Context(PROVIDER, tools=TOOLS, system="You are careful; you cite. " * 200)
"""


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("AnthropicMessages", "claude-sonnet-5-5"),
        ("OpenAIChat", "gpt-6.1-sol"),
        ("OpenAIResponses", "gpt-6.1-sol"),
        ("OpenAIChat", "gpt-5.4"),
    ],
)
@pytest.mark.parametrize(("old", "new"), [("Does", "Is for"), ("You are", "Be"), ('"z"', '"y"')])
def test_the_first_request_after_a_change_is_billed_as_check_predicts(
    provider: str, model: str, old: str, new: str, tmp_path: Path, lock: Run
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.contextkit.lock.agents]\nagent = "agents_billed:agent"', "utf-8")
    max_tokens = ", max_tokens=64" if provider == "AnthropicMessages" else ""
    code = BILLED.replace("PROVIDER", f"{provider}({model!r}{max_tokens})")
    cache = reference_cache(model_named(model))

    def unread(text: str, at: float) -> int:
        (tmp_path / "agents_billed.py").write_text(text, "utf-8")
        module: dict[str, Any] = {}
        exec(text, module)
        module["agent"].user(f"{at:4}: " + "A question. " * 90)
        prompt = module["agent"].request().prompt
        usage, lease = cache.quote(prompt, at), cache.begin(prompt, at)
        cache.publish(lease, at)
        cache.end(lease, 0, at)
        return int(prompt.n_tokens - (usage.read or 0))

    unread(code, 0.0)
    assert lock("write", "--project", tmp_path).code == 0
    question = unread(code, 10.0)
    rebilled = unread(code.replace(old, new, 1), 20.0) - question
    checked = lock("check", "--project", tmp_path).out
    predicted = int(checked.split("agent: ")[1].split(" of ")[0].replace(",", ""))
    step = model_named(model).granularity_tokens
    assert rebilled == pytest.approx(predicted, abs=2 * step if step > 1 else 0)


def test_a_deferred_tool_is_in_no_prefix(tmp_path: Path, lock: Run) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.contextkit.lock.agents]\nagent = "agents_late:agent"', "utf-8")
    code = tmp_path / "agents_late.py"
    code.write_text(
        f'{AGENTS}\nTOOLS.pop()\nagent = AnthropicMessages("claude-opus-5-5", max_tokens=9), SYSTEM, [*TOOLS]', "utf-8"
    )
    lock("write", "--project", tmp_path)
    late = {"name": "z", "description": "Later.", "input_schema": {"type": "object"}, "defer_loading": True}
    code.write_text(code.read_text("utf-8").replace("[*TOOLS]", f"[*TOOLS, {late}]"), "utf-8")
    checked = lock("check", "--project", tmp_path)
    assert checked.code == 1 and "agent: 0 of" in checked.out and "tool 'z' added at tools[1] (0 tokens)" in checked.out


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


def test_no_settings_no_lock_no_agents(project: Path, run: Run, tmp_path: Path) -> None:
    assert "contextkit lock write" in run("lock", "check", "--project", project).err
    (project / "pyproject.toml").write_text("[tool.contextkit.lock]\nbudget = 3", "utf-8")
    assert "unknown key 'budget'" in run("lock", "check", "--project", project).err
    (project / "pyproject.toml").write_text("[tool.contextkit.lock]\n", "utf-8")
    assert "names no agents" in run("lock", "write", "--project", project).err
    (project / "pyproject.toml").write_text('[tool.contextkit.lock.agents]\na = "x"\n', "utf-8")
    assert 'write "module:attribute"' in run("lock", "write", "--project", project).err


@pytest.mark.parametrize("text", ["[tool.contextkit]\n{} = 3", "tool = 3", '[tool]\ncontextkit = "x"', "[[tool]]"])
@pytest.mark.parametrize("command", ["lock", "lint"])
def test_a_table_that_is_none(project: Path, run: Run, command: str, text: str) -> None:
    (project / "pyproject.toml").write_text(text.format(command), "utf-8")
    (project / "source.py").write_text("", "utf-8")
    ended = run("lock", "check", "--project", project) if command == "lock" else run("lint", project / "source.py")
    assert ended.code == 2 and ended.err.count("\n") == 1
    assert f"[tool.contextkit.{command}] must be a table, not" in ended.err


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("Search the web", "Search the net", "tools[0] does not match its digest"),
        ("version = 1", "version = 9", "is of version 9, this contextkit reads up to 1: upgrade contextkit"),
        ("version = 1", "version = ", "is not TOML"),
        ('wire = "anthropic_messages"\n', "", "is not as contextkit writes it (KeyError"),
        ('model = "claude-sonnet-5-5"', 'model = "claude-opus-5-5"', "agent 'researcher' does not match its digest"),
    ],
)
def test_a_lock_file_that_was_edited(project: Path, run: Run, old: str, new: str, text: str) -> None:
    assert run("lock", "write", "--project", project).code == 0
    file = project / "prompt.lock"
    file.write_text(file.read_text("utf-8").replace(old, new, 1), "utf-8")
    ended = run("lock", "check", "--project", project)
    assert ended.code == 2 and text in ended.err


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text("'\"\\\n\r\t\x00\x7fa", max_size=12)


@settings(settings.get_profile("laws"), max_examples=n_examples(25, 500))
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
