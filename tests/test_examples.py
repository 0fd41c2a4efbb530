"""The examples run as they stand, in order, without keys: each says that it uses the local provider, and warns of
nothing."""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scale import cases

pytest.importorskip("uvicorn", reason="the examples need the extra `server`")

FOLDER = Path(__file__).resolve().parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("[0-9]*.py"))
SHOWS = {
    "01_loop": "7 assistant",
    "02_stream": "nothing was kept, asking again",
    "03_async_parallel_tools": "3 results in 0.",
    "04_crash_and_resume": "was_started=True",
    "05_fork": "shared entries: 3",
    "06_adopt_messages": "2 + 3 is 5.",
    "07_openai": "gpt-6.1-sol",
    "08_watch": "! CKS01 ",
    "09_proxy": "--repair sort-tools,place-breakpoints",
    "10_late_tools": "tools in the head: ['call_tool']",
    "11_agent": "open: [('send_report', True)]\nagents: ['finished', 'finished']\n1 done  ['send_report']",
}
"""Example → something that stands in its output."""
WITH_PROCESSES = {"04_crash_and_resume", "09_proxy"}
"""Examples that start other processes, which take seconds to load the SDKs; 11 does so too, and runs by default."""


def test_the_ladder_has_no_gaps() -> None:
    assert [path.name[:2] for path in EXAMPLES] == [f"{number:02}" for number in range(1, len(EXAMPLES) + 1)]
    assert {path.stem for path in EXAMPLES} == SHOWS.keys()


@pytest.mark.parametrize("name", cases([name for name in SHOWS if name not in WITH_PROCESSES], SHOWS))
def test_an_example_runs_without_a_key(name: str, example: Callable[[str], str]) -> None:
    out = example(name)
    assert "_API_KEY is not set: using the local provider" in out
    assert SHOWS[name] in out


def test_the_clients_of_the_examples_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    provider = runpy.run_path(str(FOLDER / "provider.py"))

    async def asynchronous() -> bool:
        async with provider["async_anthropic_client"]([]) as client:
            pass
        return bool(client.is_closed())

    for name in ("anthropic_client", "openai_client"):
        with provider[name]([]) as client:
            assert not client.is_closed()
        assert client.is_closed()
    assert asyncio.run(asynchronous())
