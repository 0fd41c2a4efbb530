"""Each safe change ends what it is offered for, leaves everything else as it stands, and is made once."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import Finding
from contextkit.lint.output.fixes import diff, mended, write
from contextkit.lint.source.detect import find_in_code

HEAD = "import json, os\nfrom datetime import datetime\nfrom pathlib import Path\nimport anthropic\n\nclient = anthropic.Anthropic()\n\n"
Fixed = Callable[..., str]


def found_in(path: Path, code: str) -> list[Finding]:
    return [one for one in find_in_code([path], LintConfig(), list(hazards())) if one.code == code]


@pytest.fixture
def fixed(tmp_path: Path) -> Fixed:
    """The code with its changes made.

    It parses, nothing is left to find of this code, and a second look changes nothing.
    """

    def fix(code: str, text: str, left: int = 0) -> str:
        path = tmp_path / "app.py"
        before = HEAD + textwrap.dedent(text)
        path.write_bytes(before.encode())
        found = found_in(path, code)
        assert found and any(one.fix for one in found), [one.message for one in found]
        [change] = mended(found)
        shown = diff(change)
        write(change)
        after = path.read_bytes().decode()
        compile(after, str(path), "exec")
        assert len(found_in(path, code)) == left
        assert list(mended(found_in(path, code))) == []
        assert shown == "".join(
            difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
        )
        return after.removeprefix(HEAD)

    return fix


def ask(
    system: str = '"x"', tools: str = "TOOLS", before: str = "", arguments: str = "messages, state, names, folder"
) -> str:
    body = f'    client.messages.create(model="m", max_tokens=9, system={system}, tools={tools}, messages=messages)\n'
    return f"def ask({arguments}):\n{before}{body}"


# Keys
# ---------------------------------------------------------------------------------------------------------------------


def define(schema: str) -> str:
    """A tool whose schema is made of a set."""
    return (
        "def define(name, names):\n    state = {one: 1 for one in set(names)}\n"
        f"    return {{'name': name, 'description': 'é', 'input_schema': {schema}}}\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("json.dumps(state)", "json.dumps(state, sort_keys=True)"),
        ("json.dumps(state,)", "json.dumps(state, sort_keys=True,)"),
        ("json.dumps((state))", "json.dumps((state), sort_keys=True)"),
        ("json.dumps(state, indent=2)", "json.dumps(state, indent=2, sort_keys=True)"),
        (
            "json.dumps(\n        state,\n        indent=2,\n    )",
            "json.dumps(\n        state,\n        indent=2,\n        sort_keys=True,\n    )",
        ),
        (
            "json.dumps(\n        state,\n        indent=2\n    )",
            "json.dumps(\n        state,\n        indent=2,\n        sort_keys=True\n    )",
        ),
        ("json.dumps(\n        state,  # all\n    )", "json.dumps(\n        state, sort_keys=True,  # all\n    )"),
        ("json.dumps({'properties': state})", "json.dumps({'properties': state}, sort_keys=True)"),
    ],
)
def test_keys_are_sorted(fixed: Fixed, before: str, after: str) -> None:
    assert fixed("CKT07", define(before)) == define(after)


def test_keys_are_sorted_where_the_text_is_made(fixed: Fixed) -> None:
    text = "def schema_text(schema: dict):\n    return json.dumps(schema)  # all of it\n\n\n{}"
    made = define("schema_text(state)")
    assert fixed("CKT07", text.format(made)) == text.format(made).replace(
        "dumps(schema)", "dumps(schema, sort_keys=True)"
    )


@pytest.mark.parametrize("dumped", ["json.dumps({'a': 1})", "json.dumps(state, sort_keys=True)", "json.dumps([1, 2])"])
def test_an_order_the_author_wrote_down_is_no_hazard(tmp_path: Path, dumped: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(HEAD + define(dumped), "utf-8")
    assert found_in(path, "CKT07") == []


def test_a_mapping_made_of_itself_is_followed_so_far_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(
        HEAD + ask("json.dumps(seen)", before="    seen = dict(seen)\n    seen = {'a': dict(seen)}\n"), "utf-8"
    )
    assert [one.code for one in find_in_code([path], LintConfig(), hazards()) if one.code[:3] in ("CK0", "CKS")] == []


@pytest.mark.parametrize(
    "dumped", ["json.dumps(state, sort_keys=False)", "json.dumps(state, **names)", "orjson.dumps(state)"]
)
def test_what_cannot_be_mended_safely_is_told_and_left(tmp_path: Path, dumped: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(HEAD + "import orjson\n\n" + define(dumped), "utf-8")
    assert [one.fix for one in found_in(path, "CKT07")] == [None]


# Tools
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[load(name) for name in os.listdir(folder)]", "[load(name) for name in sorted(os.listdir(folder))]"),
        ("[load(path) for path in Path(folder).iterdir()]", "[load(path) for path in sorted(Path(folder).iterdir())]"),
        ("[load(name) for name in {'a', 'b'}]", "[load(name) for name in sorted({'a', 'b'})]"),
        (
            "[{'name': name, 'input_schema': {}} for name in set(names)]",
            "sorted([{'name': name, 'input_schema': {}} for name in set(names)], key=lambda tool: tool[\"name\"])",
        ),
        ("list({search, fetch})", "list(sorted({search, fetch}, key=lambda tool: tool.__name__))"),
        ("list({known, seen})", "list(sorted({known, seen}, key=lambda tool: tool.name))"),
    ],
)
def test_tools_are_sorted(fixed: Fixed, before: str, after: str) -> None:
    tools = "def search(): ...\ndef fetch(): ...\n@tool\ndef known(): ...\n@tool\ndef seen(): ...\n\n"
    assert fixed("CKT01", tools + ask(tools=before)) == tools + ask(tools=after)


@pytest.mark.parametrize("tools", ["list(set(names))", "[load(name) for name in set(names)]", "list({search, known})"])
def test_tools_whose_names_nobody_knows_are_left(tmp_path: Path, tools: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(HEAD + "def search(): ...\n@tool\ndef known(): ...\n\n" + ask(tools=tools), "utf-8")
    assert [one.fix for one in found_in(path, "CKT01")] == [None]


# Markers
# ------------------------------------------------------------------------------------------------------------------

MARK = '"cache_control": {"type": "ephemeral", "ttl": "1h"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '[{"type": "text", "text": RULES}, {"type": "text", "text": f"{datetime.now()}", %s}]',
            '[{"type": "text", "text": RULES, %s}, {"type": "text", "text": f"{datetime.now()}"}]',
        ),
        (
            '[{"type": "text", "text": RULES}, {%s, "type": "text", "text": f"{datetime.now()}"}]',
            '[{"type": "text", "text": RULES, %s}, {"type": "text", "text": f"{datetime.now()}"}]',
        ),
        (
            (
                '[\n    {  # first\n        "type": "text",\n        "text": RULES,  # stays\n    },\n    {\n        "type": "text",\n'
                '        "text": f"{datetime.now()}",\n        %s,\n    },\n]'
            ),
            (
                '[\n    {  # first\n        "type": "text",\n        "text": RULES, %s,  # stays\n    },\n    {\n        "type": "text",\n'
                '        "text": f"{datetime.now()}",\n    },\n]'
            ),
        ),
    ],
)
def test_a_marker_moves_to_the_last_block_that_stays(fixed: Fixed, before: str, after: str) -> None:
    text = "RULES = 'Be careful.'  # the rules\n\n\n"
    assert fixed("CKB02", text + ask(before % MARK)) == text + ask(after % MARK)


@pytest.mark.parametrize(
    "blocks",
    [
        '[{"type": "text", "text": f"{datetime.now()}", %s}]',
        '[{"type": "text", "text": f"{datetime.now()}"}, {"type": "text", "text": f"{datetime.now()}", %s}]',
        '[{"type": "text", "text": RULES, %s}, {"type": "text", "text": f"{datetime.now()}", %s}]',
        '[{"type": "text", "text": RULES}, {"type": "text", "text": f"{datetime.now()}", %s  # one\n}]',
    ],
)
def test_a_marker_that_has_no_place_to_go_is_left(tmp_path: Path, blocks: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(HEAD + "RULES = 'Be careful.'\n" + ask(blocks.replace("%s", MARK)), "utf-8")
    found = found_in(path, "CKB02")
    assert found and all(one.fix is None for one in found)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "(model=M, max_tokens=9, messages=messages)",
            '(model=M, max_tokens=9, messages=messages, cache_control={"type": "ephemeral"})',
        ),
        (
            "(\n            model=M,\n            max_tokens=9,\n            messages=messages,\n        )",
            (
                "(\n            model=M,\n            max_tokens=9,\n            messages=messages,\n"
                '            cache_control={"type": "ephemeral"},\n        )'
            ),
        ),
    ],
)
def test_a_marker_is_added(fixed: Fixed, before: str, after: str) -> None:
    text = (
        "M = 'claude-sonnet-5-5'\n\n\ndef run(messages):\n    while True:\n        reply = client.messages.create{}\n"
        "        messages.append({{'role': 'assistant', 'content': reply.content}})\n"
    )
    assert fixed("CKB01", text.format(before)) == text.format(after)


# Files
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "has_change"),
    [('f"It is {datetime.now()}."', False), ('"It is 2026."', True), ("f'{json.dumps(state)}'", True)],
)
def test_no_marker_is_added_behind_what_varies_and_is_left(tmp_path: Path, system: str, has_change: bool) -> None:
    path = tmp_path / "app.py"
    loop = "    while True:\n        messages.append({'role': 'user', 'content': input()})\n"
    call = f"client.messages.create(model='claude-sonnet-5-5', system={system}, messages=messages)"
    path.write_text(
        f"{HEAD}def run(state: dict):\n    messages = []\n{loop}        answer = {call}\n"
        "        messages.append({'role': 'assistant', 'content': answer.content})\n"
    )
    (found,) = found_in(path, "CKB01")
    assert (found.fix is not None) is has_change and ("mend that first" in found.message) is not has_change


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8", "latin-1"])
def test_a_change_stands_in_its_place_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    cookie = "# -*- coding: latin-1 -*-\r\n" if encoding == "latin-1" else ""
    text = (cookie + HEAD + '"éééé"\n\n' + define("json.dumps(state)")).replace("\r\n", "\n").replace("\n", "\r\n")
    path = tmp_path / "app.py"
    path.write_bytes(text.encode(encoding))
    changes = list(mended(found_in(path, "CKT07")))
    for change in changes:
        write(change)
    wanted = text if encoding == "latin-1" else text.replace("dumps(state)", "dumps(state, sort_keys=True)")
    assert path.read_bytes().decode(encoding) == wanted  # a file in another encoding is told of, and left
