"""Pages and files of reports show control, bidirectional and invisible characters of a recording as escapes."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.test_simulate import a_trace

FIXTURES = Path(__file__).resolve().parents[1] / "importers" / "fixtures"
INVISIBLE = "\x1b[31m\x00\x07\x7f\x9b\xad\u061c\u200b\u200c\u200d\u200e\u200f\u202a\u202d\u202e\u2066\u2069\u2060\ufeff\U000e0041"
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
STRUCTURE = {"type", "role", "timestamp", "kind", "object", "status", "start_time", "end_time", "startTime", "endTime"}
"""Fields without which a log is none of its format."""
LOGS = [
    "claude_code/5b1d0c7e-0000-4000-8000-00000000c0de.jsonl",
    "codex/rollout-2026-07-03T18-15-10-019c846c.jsonl",
    "langfuse/observations.json",
    "raw_pairs/every_wire.jsonl",
]


def marked(value: Any, key: str = "") -> Any:
    """The same JSON with `INVISIBLE` behind every text but those of its structure."""
    if isinstance(value, dict):
        return {name: marked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [marked(item, key) for item in value]
    return value + INVISIBLE if isinstance(value, str) and key not in STRUCTURE else value


class Page(HTMLParser):
    """Every text and attribute as a browser reads it, those of the embedded JSON too."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._is_data = self._is_code = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_data = tag == "script" and ("type", "application/json") in attrs
        self._is_code = tag == "script" and not self._is_data
        self.texts += [value for _, value in attrs if value]

    def handle_endtag(self, tag: str) -> None:
        self._is_data = self._is_code = False

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self._add(json.loads(data))
        elif not self._is_code:
            self.texts.append(data)

    def _add(self, value: Any) -> None:
        if isinstance(value, str):
            self.texts.append(value)
        elif isinstance(value, dict | list):
            for item in [*value, *value.values()] if isinstance(value, dict) else value:
                self._add(item)


@pytest.mark.parametrize("name", LOGS)
def test_a_report_of_a_log_full_of_them_holds_none(name: str, run: Run, tmp_path: Path) -> None:
    log, page = tmp_path / Path(name).name, tmp_path / "page.html"
    text = (FIXTURES / name).read_text("utf-8")
    lines = text.splitlines() if log.suffix == ".jsonl" else [text]
    log.write_text("".join(json.dumps(marked(json.loads(line))) + "\n" for line in lines if line.strip()), "utf-8")
    assert json.loads(run("report", log, "--html", page, "--json").out)["total"]["calls"]
    written = page.read_text("utf-8")
    assert "\\u202e" in written and "\\x1b[31m" in written
    assert not [shown for shown in [written, *Page(written).texts] if OBEYED.search(shown)]
    for form in ((), ("--csv",), ("--markdown",)):
        out = run("report", log, *form).out
        assert out and not OBEYED.search(out.replace("\r\n", "\n")), form


@pytest.mark.skipif(os.name == "nt", reason="names of files as POSIX has them")
def test_other_pages_and_pictures_hold_none(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / f"a{INVISIBLE.replace(chr(0), '')}.jsonl"
    a_trace(trace)
    assert run("simulate", trace, "--capacity", "10,100", "--html", tmp_path / "page.html").code == 0
    picture = tmp_path / "picture.svg"
    assert run("explain-edit", "read\u202ewrite\x1b", "--append", "\u2066x\u200b", "--svg", picture).code == 0
    for file in (tmp_path / "page.html", picture):
        assert not OBEYED.search(file.read_text("utf-8")), file.name
    assert "\\u202e" in (tmp_path / "page.html").read_text("utf-8")
