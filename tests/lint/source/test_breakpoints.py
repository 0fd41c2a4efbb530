"""Rules about markers, on the cases of `tests/lint_cases/source` and on one hazard written in several ways; changes that mend them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.output.fixes import diff, mended
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.rules import breakpoints, marked_text

CODES = sorted(breakpoints.CODES | marked_text.CODES)
HEAD = """
import json, os
from datetime import datetime
import anthropic

client = anthropic.Anthropic()
MODEL = "claude-sonnet-5-5"
MARK = {"type": "ephemeral"}
RULES = "Be careful."
"""


def found_in(path: Path, *codes: str) -> list[Finding]:
    return list(find_in_code([path], LintConfig(), [Hazard(code, code, "A", "error") for code in codes]))


@pytest.fixture
def codes(tmp_path: Path):  # type: ignore[no-untyped-def]
    """The codes found in a file of some functions."""

    def look(text: str) -> list[str]:
        path = tmp_path / "app.py"
        path.write_text(HEAD + textwrap.dedent(text), "utf-8")
        return [one.code for one in found_in(path, *CODES)]

    return look


# A marker somewhere on the way
# --------------------------------------------------------------------------------------------------------------------

MARKED = {
    "by a function of the program": "def marked(messages):\n    messages[-1]['cache_control'] = MARK\n    return messages",
    "by one that changes in place": "def marked(messages):\n    messages[-1].update({'cache_control': MARK})\n    return messages",
    "by an imported function": "from somewhere import add_cache_control as marked",
    "by a method": "class Marker:\n    def mark(self, m):\n        return [{**m[0], 'cache_control': MARK}]\nmarked = Marker().mark",
}


@pytest.mark.parametrize("how", MARKED.values(), ids=MARKED.keys())
def test_a_conversation_that_is_marked_on_the_way_is_left_alone(codes, how: str) -> None:  # type: ignore[no-untyped-def]
    ask = "\ndef ask(messages):\n    return client.messages.create(model=MODEL, max_tokens=9, messages={})\n"
    assert codes(how + ask.format("marked(messages)")) == []
    assert codes(ask.format("messages")) == ["CKB01"]


QUIET = {
    "another model": "def ask(messages):\n    return client.messages.create(model='deepseek-v4', max_tokens=9, messages=messages)",
    "automatic": "def ask(messages):\n    return client.messages.create(model=MODEL, max_tokens=9, messages=messages, cache_control=MARK)",
    "automatic by a dict": (
        "def ask(messages):\n    more = {'cache_control': MARK}\n"
        "    return client.messages.create(model=MODEL, max_tokens=9, messages=messages, **more)"
    ),
    "a marker on the first that fits": (
        "def mark(blocks):\n    for block in reversed(blocks):\n        if block['type'] == 'thinking':\n            continue\n"
        "        block['cache_control'] = MARK\n        break"
    ),
}


@pytest.mark.parametrize("text", QUIET.values(), ids=QUIET.keys())
def test_what_only_looks_like_it_is_left_alone(codes, text: str) -> None:  # type: ignore[no-untyped-def]
    assert codes(text) == []


# Changes
# --------------------------------------------------------------------------------------------------------------------


def changed(path: Path, text: str, code: str, *, is_unsafe: bool = False) -> str:
    """The text behind the head with its changes made; empty where none is offered."""
    before = HEAD + text
    path.write_text(before, "utf-8")
    changes = list(mended(found_in(path, code), is_unsafe=is_unsafe))
    if not changes:
        return ""
    compile(changes[0].after, "app.py", "exec")
    assert diff(changes[0]).startswith("--- ")
    path.write_bytes(changes[0].after)
    assert found_in(path, code) == []
    return changes[0].after.decode().removeprefix(HEAD)


ASK = (
    "def ask(messages, folder):\n    return client.messages.create(model=MODEL, max_tokens=9, {}, messages=messages)\n"
)


NO_CHANGE = {
    "a client of Bedrock": ("CKB01", "client = anthropic.AnthropicBedrock()\n" + ASK.format("system=RULES")),
}


@pytest.mark.parametrize(("code", "text"), NO_CHANGE.values(), ids=NO_CHANGE.keys())
def test_what_cannot_be_mended_simply_is_told_and_left(tmp_path: Path, code: str, text: str) -> None:
    path = tmp_path / "app.py"
    assert changed(path, text, code) == ""
    assert found_in(path, code)


UNSAFE = {
    "in the call": (
        (
            "def ask(messages):\n"
            '    return client.messages.create(model=MODEL, system=f"Hi. It is {datetime.now():%H:%M}. Go.", messages=messages)\n'
        ),
        (
            'def ask(messages):\n    messages.append({"role": "user", "content": f"[It is {datetime.now():%H:%M}.]"})\n'
            '    return client.messages.create(model=MODEL, system=f"Hi. Go.", messages=messages)\n'
        ),
    ),
    "in a variable": (
        (
            "def ask(messages: list):\n    text = f'You help {RULES}. Now: {datetime.now()}'\n    for _ in range(3):\n"
            "        reply = client.messages.create(model=MODEL, system=text, messages=messages)\n"
        ),
        (
            "def ask(messages: list):\n    text = f'You help {RULES}.'\n    for _ in range(3):\n"
            '        messages.append({"role": "user", "content": f\'[Now: {datetime.now()}]\'})\n'
            "        reply = client.messages.create(model=MODEL, system=text, messages=messages)\n"
        ),
    ),
}


@pytest.mark.parametrize(("before", "after"), UNSAFE.values(), ids=UNSAFE.keys())
def test_what_varies_moves_into_a_message_on_demand_only(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "app.py"
    assert changed(path, before, "CKS01") == ""
    assert changed(path, before, "CKS01", is_unsafe=True) == after


STAYS = {
    "made elsewhere": (
        "def text():\n    return f'Now: {datetime.now()}'\n"
        "def ask(messages):\n    return client.messages.create(system=text(), messages=messages)\n"
    ),
    "messages made in the call": (
        "def ask(m):\n    return client.messages.create(system=f'{datetime.now()}', messages=[*m, {'role': 'user'}])\n"
    ),
    "a tuple of messages": "def ask(messages: tuple):\n    return client.messages.create(system=f'{datetime.now()}', messages=messages)\n",
    "two values in the sentence": (
        "def ask(messages, a):\n    return client.messages.create(system=f'{a}: {datetime.now()}', messages=messages)\n"
    ),
    "not an f-string": "def ask(messages):\n    return client.messages.create(system='Now: ' + str(datetime.now()), messages=messages)\n",
    "within an expression": "def ask(messages):\n    return print(client.messages.create(system=f'{datetime.now()}', messages=messages))\n",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS.keys())
def test_what_cannot_be_moved_simply_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "app.py"
    assert changed(path, text, "CKS01", is_unsafe=True) == ""
    assert found_in(path, "CKS01")
