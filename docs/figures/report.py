"""Draw the pictures of `docs/guides/report.md`: the terminal as SVG, and, where a Chromium and playwright are at hand, the page as PNG.

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

from contextkit.report import terminal  # noqa: E402
from contextkit.report.html.page import page  # noqa: E402
from tests.report.made_up import gathered, one_session  # noqa: E402


def terminal_svg() -> str:
    """What `contextkit report` prints in 92 columns."""
    contents, _ = gathered(one_session(1_000), "session.jsonl")
    console = Console(record=True, width=92, file=StringIO(), highlight=False)
    terminal.draw(contents, console)
    drawn = console.export_svg(title="contextkit report session.jsonl", unique_id="report")
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # fonts that would be fetched


def screenshot(file: Path) -> None:
    """Save the page as a browser shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1000, "height": 1130}, color_scheme="light")
        opened.goto(file.as_uri())
        opened.locator("#waterfall-chart .turn[tabindex='0']").focus()
        opened.keyboard.press("m")
        opened.evaluate("() => scrollTo(0, 0)")
        opened.evaluate("() => document.querySelectorAll('#misses details').forEach(one => { one.open = false; })")
        opened.screenshot(path=FOLDER / "report-page.png")
        browser.close()


if __name__ == "__main__":
    (FOLDER / "report.svg").write_text(terminal_svg(), encoding="utf-8", newline="\n")
    with TemporaryDirectory() as folder:
        made = Path(folder) / "report.html"
        made.write_text(page(*gathered(one_session(1_000), "session.jsonl")), encoding="utf-8")
        screenshot(made)
