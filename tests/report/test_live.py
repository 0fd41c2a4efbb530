"""What a live report says of running sessions: which cache stays warm how long, and what it costs once it is cold."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall, Record, Remark
from contextkit.ledger.misses import analyzed_calls
from contextkit.report.contents import Contents, Gathering
from contextkit.report.live import CALLS, LANES, LiveCalls, picture
from contextkit.terminal import rich_console

START = 1_775_696_400.0
OPUS = "claude-opus-4-5"
INPUT, WRITE_5M, WRITE_1H, READ = 5.00, 6.25, 10.00, 0.50
"""Dollars a million tokens of claude-opus-4-5 (https://platform.claude.com/docs/en/about-claude/pricing)."""


def calls(*usages: Usage | None, session: str = "s", model: str = OPUS, gap: float = 20) -> Iterator[Record]:
    provider = "anthropic" if "claude" in model else "openai"
    for number, usage in enumerate(usages):
        at = START + gap * number
        name = f"{session}-{number}"
        yield ModelCall(name, session, "main", at, at + 1, at + 2, provider, model, None, usage, None, None)


def watched(records: Iterator[Record]) -> tuple[Contents, LiveCalls]:
    live = LiveCalls()
    gathering = Gathering(also=[live])
    gathering.add_all(analyzed_calls(gathering.adding_remarks(records)))
    return gathering.contents("live"), live


def drawn(contents: Contents, live: LiveCalls, now: float, width: int = 120) -> str:
    page = io.StringIO()
    console = rich_console(file=page, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(picture(contents, live, console, now))
    return page.getvalue()


@pytest.mark.parametrize(
    ("last", "ttl_seconds", "cold_usd"),
    [
        (Usage(3, 40_000, 2_000, 0, 9), 300, 42_000 * (WRITE_5M - READ) / 1e6),
        (Usage(3, 40_000, 0, 2_000, 9), 3600, 42_000 * (WRITE_1H - READ) / 1e6),
    ],
)
def test_a_cold_cache_costs_writing_it_once_more_instead_of_reading_it(
    last: Usage, ttl_seconds: int, cold_usd: float
) -> None:
    _, live = watched(calls(Usage(3, 0, 40_000, 0, 9), last))
    lane = live.lanes["s", "main"]
    assert (lane.n_tokens, lane.ttl_seconds, lane.is_ttl_recorded) == (42_000, ttl_seconds, True)
    assert lane.expires_at == START + 20 + ttl_seconds
    assert lane.cold_usd == pytest.approx(cold_usd)


def test_the_countdown_runs_from_the_start_of_the_last_call_and_ends_cold() -> None:
    contents, live = watched(calls(Usage(3, 0, 40_000, 0, 9), Usage(3, 40_000, 900, 0, 9)))
    assert "  4:50  " in drawn(contents, live, START + 20 + 10)
    assert "  0:01  " in drawn(contents, live, START + 20 + 299)
    assert "  cold  " in drawn(contents, live, START + 20 + 301)
    assert "no cache is warm" in drawn(contents, live, START + 20 + 300 + 3601)


def test_a_longer_lifetime_stays_until_the_lane_loses_its_cache() -> None:
    kept = [Usage(3, 0, 0, 40_000, 9), Usage(3, 40_000, 900, 0, 9)]
    assert watched(calls(*kept))[1].lanes["s", "main"].ttl_seconds == 3600
    assert watched(calls(*kept, Usage(3, 0, 41_500, 0, 9)))[1].lanes["s", "main"].ttl_seconds == 300


def test_a_lifetime_that_no_bill_names_is_marked_and_an_unknown_price_is_no_zero() -> None:
    contents, live = watched(calls(Usage(100, 9_000, 0, 0, 9), model="gpt-5.1"))
    assert not live.lanes["s", "main"].is_ttl_recorded and "  ~" in drawn(contents, live, START + 1)
    contents, live = watched(calls(Usage(100, 9_000, 900, 0, 9), model="claude-nobody-lists-9"))
    page = drawn(contents, live, START + 1)
    assert live.lanes["s", "main"].cold_usd is None and "unknown" in page and "$0" not in page


def test_a_call_without_a_bill_is_shown_and_leaves_the_cache_as_it_was() -> None:
    contents, live = watched(calls(Usage(3, 0, 40_000, 0, 9), None))
    assert live.lanes["s", "main"].at == START and len(live.last) == 2
    assert drawn(contents, live, START + 30).count("unknown") >= 3


def test_what_is_kept_and_drawn_is_bounded() -> None:
    contents, live = watched(
        record for n in range(200) for record in calls(Usage(3, 0, 40_000, 0, 9), session=f"session {n:03}")
    )
    page = drawn(contents, live, START + 1)
    assert len(live.lanes) < 200 and len(live.last) == CALLS
    assert f"and {len(live.lanes) - LANES} more" in page and len(page.splitlines()) < 40


@pytest.mark.parametrize("width", [40, 120])
def test_titles_are_shown_and_the_picture_fits(width: int) -> None:
    titled: list[Record] = [Remark("title", "4fec7ea0-3335", "Fix\x1b[31m the checkout")]
    contents, live = watched(iter([*titled, *calls(Usage(3, 0, 40_000, 0, 9), session="4fec7ea0-3335")]))
    page = drawn(contents, live, START + 1, width)
    assert max(map(len, page.splitlines())) <= width and "\x1b" not in page
    assert "checkout" in page if width > 60 else "check" in page
