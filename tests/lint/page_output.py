"""The outputs on the pages of hazards: what `lint --requests` and `report` print for one case of each code.

The case is the one with `"page": true` in `tests/lint_cases/requests`. Its calls are billed by the reference cache, unless it
has bills of its own.

    python -m tests.lint.page_output --write        puts the outputs into docs/reference/rules
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner

from contextkit.cli.main import cli
from contextkit.ledger import calls as ledger
from contextkit.ledger.calls import ModelCall
from contextkit.lint.catalogue import hazards
from tests.judge.recordings import billed
from tests.lint.test_request_cases import CASES, FILLER, recorded, recorded_calls

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = DOCS / "reference" / "rules"
RECORDING, REPORT = "In a recording", "In the report"
"""Sections that hold an output each."""
_START = 1_790_000_000.0
"""Start of the first call, seconds since 1970: after the models were sold."""
_LONG = 12
"""Times the filler of the cases: long enough for the minimum of every model."""
_WIDTH = 100
_LEFT_OUT = re.compile(r"--explain|\| request |= fix: ")


@cache
def page_cases() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Code → what its case shares with others, and the case."""
    cases = {}
    for file in sorted(CASES.glob("*.json")):
        held = json.loads(file.read_text(encoding="utf-8"))
        for case in held["cases"]:
            if case.get("page"):
                assert case["expect"] not in cases, f"{case['expect']} has two cases for its page"
                cases[case["expect"]] = (held.get("request", {}), case)
    return cases


def outputs(code: str) -> dict[str, str]:
    """Section → output of a code; without one for a command that prints nothing of it."""
    if code not in page_cases():
        return {}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "calls.jsonl"
        file.write_bytes(ledger.HEADER + b"".join(ledger.encode(one) + b"\n" for one in _records(code)))
        found = {
            RECORDING: _finding(code, _printed("lint", "--requests", str(file))),
            REPORT: _misses(_printed("report", str(file), "--misses")),
        }
    return {section: text for section, text in found.items() if text}


def measured(code: str) -> str:
    """How often findings in source code with a code were right, by `docs/research/lint-verdicts.toml`."""
    data = tomllib.loads((DOCS / "research" / "lint-verdicts.toml").read_text(encoding="utf-8"))
    source = f"in {data['packages']} packages that it had never seen\n([source lint](../../research/lint.md))."
    if code not in data["codes"]:
        return f"No finding {source}"
    counts = data["codes"][code]
    findings = "The one finding" if counts["findings"] == 1 else f"Of {counts['findings']} findings"
    said = ", two readers called" if counts["findings"] > 1 else " was judged by two readers: they called"
    return f"{findings} {source[:-2]}){said} {counts['true']} true and {counts['costly']} worth a change."


def filled_in(code: str, text: str) -> str:
    """The page with its outputs, and how often it was right, in place of what stands there."""
    if any(row.code == code and row.in_source for row in hazards()):
        text = re.sub(r"(?<=<!-- measured -->\n).*?(?=\n\n## )", measured(code), text, count=1, flags=re.DOTALL)
    for section, output in outputs(code).items():
        text = re.sub(
            rf"(?<=^## {section}$)(.*?^```text\n).*?(?=^```$)",
            lambda block, output=output: block[1] + output + "\n",  # type: ignore[misc]
            text,
            count=1,
            flags=re.MULTILINE | re.DOTALL,
        )
    return text


def _records(code: str) -> Iterator[ledger.Record]:
    shared, case = page_cases()[code]
    n_calls = len(case.get("earlier", ())) + ("before" in case) + 1
    seconds = [_START + second for second in case.get("seconds", [10.0 * i for i in range(n_calls)])]
    named = {"sessions": ["run-1"] * n_calls, **case, "seconds": seconds}
    has_bills = "usages" in case
    calls: list[ModelCall] = recorded_calls(shared, named, FILLER if has_bills else FILLER * _LONG)
    return iter(recorded(calls if has_bills else billed(calls), named))


def _printed(*arguments: str) -> str:
    return CliRunner().invoke(cli, arguments, env={"COLUMNS": str(_WIDTH)}).stdout


def _finding(code: str, printed: str) -> str:
    """The paragraph of the finding, without what the rest of the page says: its request, its fix, the hint at the page."""
    paragraphs = (one.splitlines() for one in printed.split("\n\n"))
    found = next((lines for lines in paragraphs if re.search(rf"\b{code}\b", lines[0])), [])
    return "\n".join(line.rstrip() for line in found if not _LEFT_OUT.search(line))


def _misses(printed: str) -> str:
    """The table of misses: cause and place."""
    found = re.search(r"^call .*?(?=^\d+: |^$|\Z)", printed, re.MULTILINE | re.DOTALL)
    return "\n".join(line.rstrip() for line in found[0].splitlines() if line.strip("─")) if found else ""


if __name__ == "__main__":
    for row in hazards():
        page = PAGES / f"{row.code}.md"
        if sys.argv[1:] == ["--write"]:
            page.write_text(filled_in(row.code, page.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            print(row.code, *outputs(row.code).values(), sep="\n", end="\n\n")
