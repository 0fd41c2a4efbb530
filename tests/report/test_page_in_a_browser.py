"""The page in a real headless Chromium: opens at once, asks for nothing, says nothing on the console, works by keys and
on a telephone.

Needs the package `playwright` and a Chromium on the path (Debian: `apt-get install chromium`) or one that playwright
has fetched; skipped where either is missing, as both together are larger than everything else the tests need."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from contextkit.report.html.page import page as page_of
from tests.report.made_up import gathered, many_sessions, one_session, with_bodies

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
FLAGS = [
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
OPENED_SECONDS = 1.0
"""What a page of 1,000 calls may take from asking for it to the first picture of it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    flags = [
        *FLAGS,
        *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]  # Chromium's sandbox refuses root
    with playwright.sync_playwright() as started:
        if not found and not Path(started.chromium.executable_path).exists():
            pytest.skip(f"needs a Chromium: none of {', '.join(NAMES)} is on the path, and playwright has fetched none")
        opened = started.chromium.launch(executable_path=found, args=flags)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "one": gathered(one_session(1_000)),
        "many": gathered(many_sessions(60), by="day"),
        "none": gathered(iter(())),
        "bodies": gathered(with_bodies()),
    }
    for name, (contents, columns) in made.items():
        (folder / f"{name}.html").write_text(page_of(contents, columns), "utf-8")
    return {name: folder / f"{name}.html" for name in made}


class Opened:
    """A page in the browser, what it said on the console and what it asked for."""

    def __init__(self, browser: Any, file: Path, width: int = 1200, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    @property
    def paint_seconds(self) -> float:
        entries = "performance.getEntriesByType('paint').concat(performance.getEntriesByType('navigation'))"
        return float(self.page.evaluate(f"() => Math.max(...{entries}.map(e => e.loadEventEnd || e.startTime))")) / 1000


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("one", 400, "dark"),
        ("many", 1200, "light"),
        ("many", 400, "light"),
        ("none", 400, "light"),
        ("bodies", 1200, "dark"),
    ],
)
def test_it_opens_at_once_and_asks_for_nothing(
    browser: Any, files: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    opened = Opened(browser, files[name], width, scheme)
    assert (opened.said, opened.asked) == ([], [files[name].as_uri()])
    assert opened.paint_seconds < OPENED_SECONDS
    assert opened.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    paper = opened.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    opened.context.close()


def test_keys_walk_the_calls_and_tell_of_each(browser: Any, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["one"])
    page, told = opened.page, opened.page.locator("#waterfall-told")
    bars = page.locator("#waterfall-chart .turn")
    assert bars.count() == 1_000 and page.locator("#waterfall-chart .turn[tabindex='0']").count() == 1
    page.locator("#waterfall-chart .turn[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert told.inner_text().startswith("Call 2, ")
    page.keyboard.press("m")
    assert "Missed: ttl_expired, gap 911 s > 300 s. Lost 51,784 tokens, $0.30." in told.inner_text()
    first = told.inner_text()
    page.keyboard.press("m")
    page.keyboard.press("Shift+M")
    assert told.inner_text() == first
    page.keyboard.press("End")
    assert told.inner_text().startswith("Call 1000, ")
    assert page.locator("#waterfall-chart .turn[tabindex='0']").get_attribute("aria-label").startswith("Call 1000, ")
    page.keyboard.press("Tab")
    assert page.evaluate("() => !document.activeElement.classList.contains('turn')")
    opened.context.close()


def test_the_pointer_tells_the_same_and_bars_grow(browser: Any, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["one"])
    page = opened.page
    for _ in range(6):
        page.click("#wider")
    page.locator("#waterfall-chart .turn").nth(4).hover()
    assert page.locator("#waterfall-told").inner_text().startswith("Call 5, ")
    assert page.locator("#waterfall-chart .cause").first.text_content() == "ttl_expired"
    assert page.locator("#waterfall-chart .lost").count() == page.locator("#waterfall-chart .flag").count() == 12
    assert opened.said == []
    opened.context.close()


def test_a_break_shows_both_sides_of_it(browser: Any, files: dict[str, Path]) -> None:
    for width in (400, 1200):
        opened = Opened(browser, files["bodies"], width)
        page, told = opened.page, opened.page.locator("#waterfall-told")
        page.locator("#waterfall-chart .turn[tabindex='0']").focus()
        assert "It is 10:30" not in told.inner_text()
        page.keyboard.press("m")
        sides = told.locator(".quote").all_inner_texts()
        assert (
            told.inner_text().startswith("Call 2, ")
            and len(sides) == 2
            and "It is 10:30" in sides[0]
            and "It is 10:31" in sides[1]
        )
        page.locator("#waterfall-chart .turn").nth(2).hover()
        assert "It is 10:32" in told.inner_text() and "<b>" not in told.inner_html()
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth") and opened.said == []
        opened.context.close()


@pytest.mark.parametrize("name", ["many", "bodies"])
def test_what_a_screen_reader_is_told(browser: Any, files: dict[str, Path], name: str) -> None:
    """By the browser's own accessibility tree: what can be reached has a role and a name, ids are single, headings go
    down step by step."""
    opened = Opened(browser, files[name])
    page = opened.page
    assert page.evaluate(UNNAMED) == []
    assert (
        page.evaluate(
            "() => [...document.querySelectorAll('[id]')].map(n => n.id).filter((id, i, all) => all.indexOf(id) !== i)"
        )
        == []
    )
    levels = page.evaluate("() => [...document.querySelectorAll('h1, h2, h3')].map(n => Number(n.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1 and all(after - before <= 1 for before, after in pairwise(levels))
    assert page.evaluate("() => document.documentElement.lang") == "en" and page.title().startswith(
        "Prompt cache report"
    )
    told = opened.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    seen = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in told
        if not node.get("ignored") and "role" in node
    ]
    nameless = {"button", "link", "combobox", "table", "region", "group", "img", "image", "heading", "columnheader"}
    assert [role for role, said in seen if role in nameless and not said and role != "group"] == []
    assert sum(role in ("img", "image") and said.startswith("Call ") for role, said in seen) > 0
    assert {"main", "status", "table", "combobox", "heading"} <= {role for role, _ in seen}
    opened.context.close()


UNNAMED = """() => [...document.querySelectorAll("a, button, select, summary, [tabindex], [role=img], [role=region]")].filter(node => {
  const label = node.getAttribute("aria-label") || node.textContent.trim() || (node.labels && node.labels[0] && node.labels[0].textContent);
  const by = (node.getAttribute("aria-labelledby") || "").split(" ").map(id => document.getElementById(id)).filter(Boolean);
  return !label && !by.length && !node.closest("[hidden]");
}).map(node => node.outerHTML.slice(0, 80))"""


def test_behind_each_chart_stands_a_table(browser: Any, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["one"])
    page = opened.page
    page.click("#turns summary")
    page.wait_for_selector("#turns-table tbody tr")
    assert page.locator("#turns-table tbody tr").count() == 1_000
    page.click("#time details summary")
    assert page.locator("#time tbody tr").count() == page.locator("#time-chart .point").count()
    opened.context.close()


def test_sessions_lanes_and_lines_can_be_chosen(browser: Any, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["many"])
    page = opened.page
    names = page.locator("#session option").all_inner_texts()
    assert len(names) == 12
    page.locator("#sessions a").nth(3).click()
    assert page.locator("#session").input_value() == "3"
    with_lanes = next(i for i, name in enumerate(names) if name.startswith("shop "))
    page.select_option("#session", str(with_lanes))
    every = page.locator("#waterfall-chart .turn").count()
    page.select_option("#lane", label="researcher (a1)")
    assert page.locator("#waterfall-chart .turn").count() == 4 < every
    page.select_option("#lines", "sessions")
    assert page.locator("#time-legend li").last.inner_text() == "others"
    assert opened.said == []
    opened.context.close()


@pytest.mark.parametrize("width", [400, 1200])
def test_the_prefix_tree_is_walked_and_told_of(browser: Any, files: dict[str, Path], width: int) -> None:
    opened = Opened(browser, files["bodies"], width)
    page, told = opened.page, opened.page.locator("#prefixes-told")
    cells = page.locator("#prefixes-chart .cell")
    assert cells.count() == 3 and page.locator("#prefixes-chart .cell[tabindex='0']").count() == 1
    cells.first.focus()
    assert told.inner_text().startswith("no common prefix: 8 calls")
    page.keyboard.press("ArrowDown")
    assert told.inner_text().startswith("same to the end: call 1")
    page.keyboard.press("ArrowRight")
    assert told.inner_text().startswith("system[0] byte") and "7 calls, the first is call 2" in told.inner_text()
    was, now = told.locator(".quote").all_inner_texts()
    assert "It is 10:36" in was and "It is 10:37" in now and "sk-ant" not in told.inner_text()
    page.keyboard.press("ArrowUp")
    assert told.inner_text().startswith("no common prefix")
    cells.nth(2).hover(position={"x": 30, "y": 10})
    assert told.inner_text().startswith("system[0] byte")
    ends = "([cell, text]) => text.getBoundingClientRect().right <= cell.querySelector('.ground').getBoundingClientRect().right"
    shown = "[...document.querySelectorAll('#prefixes-chart .cell')].flatMap(c => [...c.querySelectorAll('text')].map(t => [c, t]))"
    assert page.evaluate(f"() => {shown}.every({ends})")
    words = f"() => {shown}.every(([c, t]) => t.textContent.replace('…', '').split(' ').every(w => t.dataset.text.includes(w)))"
    assert page.evaluate(words) and opened.said == []
    opened.context.close()


def test_parts_are_told_apart_without_colour(browser: Any, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["many"])
    fills = opened.page.evaluate(
        "() => [...document.querySelectorAll('#waterfall-chart .parts g')].map(g => g.getAttribute('fill'))"
    )
    assert len(set(fills)) == 3
    dashes = opened.page.evaluate(
        "() => [...document.querySelectorAll('#time-chart .line')].map(p => p.getAttribute('stroke-dasharray'))"
    )
    assert len(set(dashes)) == len(dashes)
    opened.context.close()


def test_the_text_is_dark_enough(browser: Any, files: dict[str, Path]) -> None:
    for scheme in ("light", "dark"):
        opened = Opened(browser, files["one"], scheme=scheme)
        for selector in ("body", ".note", "thead th", ".tiles dt", ".chart text.cause", "#sessions a"):
            assert opened.page.evaluate(CONTRAST, selector) >= 4.5, (scheme, selector)
        opened.context.close()


CONTRAST = """selector => {
  const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const node = document.querySelector(selector), style = getComputedStyle(node);
  const ink = light(node.ownerSVGElement ? style.fill : style.color), paper = light(getComputedStyle(document.body).backgroundColor);
  return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
}"""


def test_without_scripts_every_number_is_there(browser: Any, files: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files["many"].as_uri())
    assert "every number is in the tables" in page.locator("noscript").inner_text()
    assert page.locator("table").count() >= 5
    context.close()
