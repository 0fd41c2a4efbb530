"""Draws the pictures of `docs/guides/report.md`: the terminal as SVG, and, where a Chromium and playwright are at hand, the page as PNG.

    python docs/figures/report.py

Every figure is of made-up sessions (`tests/report/made_up.py`).
"""

from __future__ import annotations

import re
import shutil
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1]))

from rich.console import Console  # noqa: E402

from contextkit.report import terminal
from contextkit.report.html.page import page
from tests.report.made_up import gathered, one_session  # noqa: E402

SHOTS = (("report-page", 1000, 1130, "light"), ("report-page-narrow", 400, 860, "dark"))
"""(name, width, height, colours)."""


def terminal_svg() -> str:
    """What `contextkit report` prints in 92 columns."""
    contents, _ = gathered(one_session(300), "session.jsonl")
    console = Console(record=True, width=92, file=StringIO(), highlight=False)
    terminal.draw(contents, console)
    drawn = console.export_svg(title="contextkit report session.jsonl", unique_id="report")
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # fonts that would be fetched


def shots(file: Path) -> None:
    """The page as a browser shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, height, scheme in SHOTS:
            opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            opened.goto(file.as_uri())
            opened.locator("#waterfall-chart .turn[tabindex='0']").focus()
            opened.keyboard.press("m")
            opened.evaluate("() => document.querySelector('#waterfall').scrollIntoView()" if width < 500 else "() => scrollTo(0, 0)")
            opened.evaluate("() => document.querySelectorAll('#misses details').forEach(one => { one.open = false; })")
            opened.screenshot(path=FOLDER / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    (FOLDER / "report.svg").write_text(terminal_svg(), encoding="utf-8", newline="\n")
    with TemporaryDirectory() as folder:
        made = Path(folder) / "report.html"
        made.write_text(page(*gathered(one_session(300), "session.jsonl")), encoding="utf-8")
        shots(made)
