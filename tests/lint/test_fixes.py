"""Checks that each fix ends what it is offered for, leaves everything else as it stands, and is made once."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import Finding
from contextkit.lint.output.fixes import diff, mended, write
from contextkit.lint.source.detect import find_in_code

HEAD = "import os\nfrom datetime import datetime\nfrom pathlib import Path\nimport anthropic\nclient = anthropic.Anthropic()\n"
Fixed = Callable[..., str]


def found_in(path: Path, code: str) -> list[Finding]:
    return [one for one in find_in_code([path], LintConfig(), hazards()) if one.code == code]


@pytest.fixture
def fixed(tmp_path: Path) -> Fixed:
    """Return a function that fixes a program, empty where no fix is offered.

    What it returns compiles and has nothing left to find of the code; a second look changes nothing.
    """

    def fix(code: str, text: str, *, is_unsafe: bool = False) -> str:
        path = tmp_path / "app.py"
        path.write_bytes((HEAD + text).encode())
        found = found_in(path, code)
        assert found
        changes = list(mended(found, is_unsafe=is_unsafe))
        if not changes:
            return ""
        (change,) = changes
        shown = diff(change)
        write(change)
        after = path.read_bytes().decode()
        compile(after, str(path), "exec")
        assert found_in(path, code) == []
        lines = difflib.unified_diff((HEAD + text).splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
        assert shown == "".join(lines)
        return after.removeprefix(HEAD)

    return fix


# Order
# ----------------------------------------------------------------------------------------------------------------------

TOOLS = "def ask(messages, names, folder):\n    return client.messages.create(tools={}, messages=messages, cache_control={{}})\n"
ENUM = "def tool(folder, names):\n    return {{'name': 'x', 'description': 'é', 'input_schema': {{'enum': {}}}}}\n"
LISTING = "[load(name) for name in {}]"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LISTING.format("{'a', 'b'}"), LISTING.format("sorted({'a', 'b'})")),
        (
            "[{'name': name, 'input_schema': {}} for name in set(names)]",
            "sorted([{'name': name, 'input_schema': {}} for name in set(names)], key=lambda tool: tool[\"name\"])",
        ),
    ],
)
def test_tools_are_sorted(fixed: Fixed, before: str, after: str) -> None:
    assert fixed("CKT01", TOOLS.format(before)) == TOOLS.format(after)


def test_a_set_in_a_schema_is_sorted(fixed: Fixed) -> None:
    assert fixed("CKT07", ENUM.format("list({'a', 'b'})")) == ENUM.format("list(sorted({'a', 'b'}))")


def test_a_set_that_is_used_elsewhere_is_left(fixed: Fixed) -> None:
    assert fixed("CKT01", "NAMES = {'a', 'b'}\n" + TOOLS.format(LISTING.format("NAMES"))) == ""


def test_no_breakpoint_is_added_beside_keywords_that_are_not_written_out(fixed: Fixed) -> None:
    assert fixed("CKB01", RUN.format("(model=M, **{'messages': messages})")) == ""


@pytest.mark.parametrize("tools", ["list(set(names))", LISTING.format("set(names)"), LISTING.format("{1, 2}")])
def test_tools_whose_names_are_not_known_are_left(fixed: Fixed, tools: str) -> None:
    assert fixed("CKT01", TOOLS.format(tools)) == ""


# Breakpoints
# ----------------------------------------------------------------------------------------------------------------------

RUN = (
    "M = 'claude-sonnet-5-5'\ndef run(task):\n    messages = [{{'role': 'user', 'content': task}}]\n"
    "    while True:\n        reply = client.messages.create{}\n"
    "        messages.append({{'role': 'assistant', 'content': reply.content}})\n"
)
MARKED = 'cache_control={"type": "ephemeral"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(model=M, messages=messages)", f"({MARKED}, model=M, messages=messages)"),
        (
            "(\n            model=M,\n            messages=messages,\n        )",
            f"(\n            {MARKED},\n            model=M,\n            messages=messages,\n        )",
        ),
        (
            "(  # all\n            model=M, messages=messages)",
            f"(  # all\n            {MARKED},\n            model=M, messages=messages)",
        ),
    ],
)
def test_a_breakpoint_is_added(fixed: Fixed, before: str, after: str) -> None:
    assert fixed("CKB01", RUN.format(before)) == RUN.format(after)


@pytest.mark.parametrize("client", ["AnthropicBedrock", "AnthropicVertex"])
def test_no_breakpoint_is_added_for_a_client_that_may_not_take_it(fixed: Fixed, client: str) -> None:
    text = RUN.replace("client", "other").format("(model=M, messages=messages)")
    assert fixed("CKB01", f"other = anthropic.{client}()\n{text}") == ""


# What varies, out of the system text
# ----------------------------------------------------------------------------------------------------------------------

MOVED = {
    "in the call": (
        (
            "def ask(messages):\n"
            '    return client.messages.create(model="m", system=f"Hi. It is {datetime.now():%H:%M}. Go.", messages=messages)\n'
        ),
        (
            'def ask(messages):\n    messages.append({"role": "user", "content": f"[It is {datetime.now():%H:%M}.]"})\n'
            '    return client.messages.create(model="m", system=f"Hi. Go.", messages=messages)\n'
        ),
    ),
    "in a variable": (
        (
            "def ask(messages: list, rules):\n    text = f'You help {rules}. Now: {datetime.now()}'\n"
            "    reply = client.messages.create(model='m', system=text, messages=messages)\n    return reply\n"
        ),
        (
            "def ask(messages: list, rules):\n    text = f'You help {rules}.'\n"
            '    messages.append({"role": "user", "content": f\'[Now: {datetime.now()}]\'})\n'
            "    reply = client.messages.create(model='m', system=text, messages=messages)\n    return reply\n"
        ),
    ),
}
STAYS = {
    "made elsewhere": (
        "def text():\n    return f'Now: {datetime.now()}'\n"
        "def ask(messages):\n    return client.messages.create(system=text(), messages=messages)\n"
    ),
    "messages made in the call": (
        "def ask(messages):\n    return client.messages.create(system=f'{datetime.now()}', messages=[*messages, {'role': 'user'}])\n"
    ),
    "two values in the sentence": (
        "def ask(messages, a):\n    return client.messages.create(system=f'{a}: {datetime.now()}', messages=messages)\n"
    ),
    "not an f-string": (
        "def ask(messages):\n    return client.messages.create(system='Now: ' + str(datetime.now()), messages=messages)\n"
    ),
    "in a loop that tries again": (
        "def ask(messages):\n    for n in range(3):\n"
        "        reply = client.messages.create(system=f'Hi. Now: {datetime.now()}', messages=messages)\n"
    ),
    "of two requests": (
        "def ask(messages):\n    text = f'Hi. Now: {datetime.now()}'\n    client.messages.create(system=text, messages=messages)\n"
        "    return client.messages.create(system=text, messages=messages)\n"
    ),
    "behind a line that goes on": (
        "def ask(messages):\n    reply = \\\n    client.messages.create(system=f'Hi. Now: {datetime.now()}', messages=messages)\n"
    ),
    "messages in the text": (
        "def ask(messages):\n    return client.messages.create(system=f'{messages[0]}. Now: {datetime.now()}', messages=messages)\n"
    ),
    "a variable with two values": (
        "def ask(messages):\n    now = datetime.now()\n    text = f'Hi. Now: {now}.'\n    now = 3\n"
        "    return client.messages.create(system=text, messages=messages)\n"
    ),
    "within an expression": (
        "def ask(messages):\n    return print(client.messages.create(system=f'{datetime.now()}', messages=messages))\n"
    ),
}


@pytest.mark.parametrize(("before", "after"), MOVED.values(), ids=MOVED)
def test_what_varies_moves_into_a_message_on_demand_only(fixed: Fixed, before: str, after: str) -> None:
    assert fixed("CKS01", before) == ""
    assert fixed("CKS01", before, is_unsafe=True) == after


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_what_cannot_be_moved_simply_stays(fixed: Fixed, text: str) -> None:
    assert fixed("CKS01", text, is_unsafe=True) == ""


# Files
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "is_fixed"), [("utf-8", True), ("utf-8-sig", False), ("latin-1", False)])
def test_a_fix_counts_in_the_bytes_of_a_file(encoding: str, is_fixed: bool, tmp_path: Path) -> None:
    cookie = "# -*- coding: latin-1 -*-\n" if encoding == "latin-1" else ""
    text = (cookie + HEAD + '"éééé"\n' + ENUM.format("list({'ä'})")).replace("\n", "\r\n")
    path = tmp_path / "app.py"
    path.write_bytes(text.encode(encoding))
    found = found_in(path, "CKT07")
    for change in mended(found):
        write(change)
    wanted = text.replace("{'ä'}", "sorted({'ä'})") if is_fixed else text
    assert found and path.read_bytes().decode(encoding) == wanted
