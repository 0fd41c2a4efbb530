"""The head of an agent's prompts, pinned.

One word of a tool changed; what that re-bills, as CI would say it. Needs no key.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

AGENT = '''
from contextkit import AnthropicMessages, Context, tool

@tool
def search(query: str) -> str:
    """Search the web."""
    return query

agent = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system="You are careful. " * 300, tools=[search])
'''
PROJECT = """
[tool.contextkit.lock]
live_sessions = 200
session_tokens = 30_000
budget_usd = 5
[tool.contextkit.lock.agents]
researcher = "research:agent"
"""


def lock(*arguments: str) -> int:
    """`contextkit lock …`, in the project."""
    command = [sys.executable, "-m", "contextkit.cli.main", "lock", *arguments, "--project", folder]
    ran = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")  # noqa: S603 - our own command
    print(ran.stdout + ran.stderr)
    return ran.returncode


with tempfile.TemporaryDirectory() as folder:
    code = Path(folder) / "research.py"
    code.write_text(AGENT, encoding="utf-8")
    (Path(folder) / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    assert lock("write") == 0
    code.write_text(AGENT.replace("Search the web.", "Search the whole web."), encoding="utf-8")
    assert lock("check", "--diff") == 1
