"""The command line in this process and in one of its own, and sessions to give it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contextkit.cli.main import main

COMMAND = [sys.executable, "-m", "contextkit.cli.main"]
"""The same, for processes of their own."""
AT = "2025-12-08T22:41:{:06.3f}Z"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]
Start = Callable[..., subprocess.Popen[Any]]
"""The fixture `start`: a process that ends with its test."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`contextkit …`, without a process; click would else take `python -m pytest` for the program's name."""
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)

    def call(*args: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["contextkit", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return call


def pi_session(path: Path, calls: int) -> Path:
    """A small pi session: one task, `calls` model calls, all but the last with a tool call."""
    records: list[dict[str, Any]] = [
        {"type": "session", "id": "s", "timestamp": AT.format(5), "cwd": "/", "thinkingLevel": "off"}
    ]
    records.append(_message(5, {"role": "user", "content": "Read everything. " * 400}))
    for number in range(calls):
        records.append(_reply(number, [_call(number)] if number < calls - 1 else [{"type": "text", "text": "Done."}]))
        if number < calls - 1:
            records.append(_result(number))
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def _message(second: float, said: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "timestamp": AT.format(second), "message": said}


def _call(number: int) -> dict[str, Any]:
    return {"type": "toolCall", "id": f"call_{number}", "name": "read", "arguments": {"path": f"{number}.txt"}}


def _reply(number: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"input": 1, "cacheRead": 0, "cacheWrite": 5000, "output": 20}
    said = {
        "provider": "anthropic",
        "model": "claude-opus-4-5",
        "stopReason": "toolUse" if parts[0]["type"] == "toolCall" else "stop",
    }
    return _message(
        6, {"role": "assistant", "content": parts, "usage": usage, "timestamp": 1765233665000 + number, **said}
    )


def _result(number: int) -> dict[str, Any]:
    content = [{"type": "text", "text": f"What stands in {number}.txt"}]
    return _message(
        6,
        {
            "role": "toolResult",
            "toolCallId": f"call_{number}",
            "toolName": "read",
            "content": content,
            "isError": False,
        },
    )


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return pi_session(tmp_path / "session.jsonl", 6)
