"""What terminals are sent: nothing that they obey but what our own formatting asks for, and all of it through one
module."""

from __future__ import annotations

import ast
import io
import json
import re
from functools import cache
from pathlib import Path

import pytest
from rich.table import Table

from contextkit.terminal import echo, echo_error, echo_json, rich_console, sanitize

PACKAGE = Path(__file__).resolve().parents[2] / "contextkit"
CONSOLE = PACKAGE / "terminal.py"
ATTACKS = {
    "title": "a\x1b]0;pwn\x07",
    "colour": "\x1b[31mred",
    "C1": "a\x9b31mb\x90c",
    "newline": "a\ncontextkit: all is well",
    "return": "a\rb",
    "bidi": "a\u202egnp.exe",
    "isolate": "a\u2066b\u2069",
    "line separator": "a\u2028b",
    "delete": "a\x7fb",
    "half a pair": "a\ud800b",
    "no width": "a\u200bb",
}
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_no_way_out_lets_a_control_character_through(attack: str, capsys: pytest.CaptureFixture[str]) -> None:
    echo(attack)
    echo_error(attack)
    echo_json(json.dumps({"model": attack}, ensure_ascii=False))
    page = io.StringIO()
    console = rich_console(file=page, width=80, force_terminal=True, color_system=None, legacy_windows=False)
    table = Table("name")
    table.add_row(attack)
    console.print(attack, table, markup=False)
    out, err = capsys.readouterr()
    assert not OBEYED.search(out) and not OBEYED.search(err) and not OBEYED.search(page.getvalue())
    assert err.count("\n") == 1  # a line of an error is one line
    assert json.loads(out.splitlines()[-1]) == {"model": attack}  # JSON says the same


def test_text_of_any_language_stays() -> None:
    text = "größer, 漢字, עברית, हिन्दी, 😀 → ok\n\tindented"
    assert sanitize(text) == text


@cache
def _calls() -> list[tuple[Path, ast.Call, str]]:
    """(file, call, what is called) of every call in the package."""
    return [
        (path, node, ast.unparse(node.func))
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
    ]


PRINTS = re.compile(
    r"(^|\.)(print|secho)$|^click\.echo$|(stdout|stderr)(\.buffer)?\.write(lines)?$|^Console$|^rich\.print$"
)
OWN = {
    "proxy/analyzer.py": "a pipe to another process of ours",
    "lint/catalogue.py": "a script for developers, whose table is its own",
}


def test_nothing_prints_but_through_the_console() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}: {name}"
        for path, call, name in _calls()
        if path != CONSOLE and path.relative_to(PACKAGE).as_posix() not in OWN
        if PRINTS.search(name) and not name.endswith("console.print")
    ]
    assert not found, "\n".join(found)


def test_warnings_and_log_lines_are_constant_or_sanitized() -> None:
    found = []
    for path, call, name in _calls():
        is_log = re.search(r"(getLogger\(.*\)|\blog(ger)?)\.(debug|info|warning|error|exception|critical)$", name)
        texts = call.args if is_log else call.args[:1] if name in ("warnings.warn", "warnings.warn_explicit") else []
        variable = [text for text in texts if not isinstance(text, ast.Constant)]
        unsafe = [text for text in variable if not re.match(r"(\w+\()?sanitize\(", ast.unparse(text))]
        found += [f"{path.relative_to(PACKAGE)}:{call.lineno}: {ast.unparse(text)}" for text in unsafe]
    assert not found, "\n".join(found)
