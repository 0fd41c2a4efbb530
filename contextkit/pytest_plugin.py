"""Prompt caching in your tests: a provider on loopback, its ledger, and assertions that show the byte where a prefix
broke.

Fixtures `provider_server`, `ledger`, `assert_prefix_stable` and `assert_hit_rate`; the last two can be imported as
well.
`pytest --cache-guard` is `cache_guard/plugin.py`. Without the option nothing is touched, and nothing heavy is imported
before a fixture is used.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from contextkit.errors import UsageError
from contextkit.installation import check_installation

if TYPE_CHECKING:
    from contextkit.ledger.calls import Record
    from contextkit.ledger.ledger import Ledger
    from contextkit.server.local import LocalServer

MARK_LINE = (
    "cache_guard(allow=None, reason=None, rerun=True): what --cache-guard accepts in this test, a kind or a list of kinds, "
    'or "all", and why; rerun=False: the test cannot run twice'
)
"""How `pytest --markers` lists the mark."""


def assert_prefix_stable(before: Any, after: Any) -> None:
    """Fail unless `after` begins as `before` did, as far as a cache can tell.

    Both are request bodies: a dict, bytes, a contextkit `Request` or `PromptLayout`. A change behind the last
    breakpoint
    breaks nothing. The failure shows level, path, byte offset and a window of both sides, and names the hazard where a
    rule knows it.

    >>> said = {"role": "user", "content": "hello"}
    >>> before = {"model": "gpt-5", "messages": [said]}
    >>> assert_prefix_stable(before, {"model": "gpt-5", "messages": [said, {"role": "assistant", "content": "hi"}]})
    """
    __tracebackhide__ = True
    from contextkit.watcher.breaks import breaks

    difference = breaks(before, after)
    if difference:
        raise AssertionError(f"the prefix was not kept\n{difference}")


def assert_hit_rate(ledger: Ledger | str | os.PathLike[str] | Iterable[Record], at_least: float = 0.95) -> None:
    """Fail unless this share of all input tokens was read from the cache, going by what was billed.

    `ledger` is a `Ledger`, the path of one, or some of its calls; `at_least` lies between 0 and 1. The failure says
    what was lost, call by call, and why. Raises `UsageError` for anything else, `StorageError` where the file cannot be
    read.
    """
    __tracebackhide__ = True
    from contextkit.ledger.summary import summarise

    _check_share(at_least)
    summary = summarise(_records_of(ledger))
    rate = summary.hit_rate
    if rate is None:
        raise AssertionError(f"no hit rate: {summary}")
    if rate < at_least:
        lost = [
            f"  call {miss.index + 1} lost {miss.lost_tokens:,} tokens: {miss.cause} ({miss.where})"
            for miss in summary.losses
        ]
        raise AssertionError("\n".join([f"hit rate {rate:.3f} is below {at_least:g}: {summary}", *lost]))


def _check_share(at_least: object) -> None:
    if isinstance(at_least, bool) or not isinstance(at_least, int | float) or not 0 <= at_least <= 1:
        raise UsageError(f"at_least is {at_least!r:.60}: give a share between 0 and 1, such as 0.95")


def _records_of(ledger: object) -> Iterable[Record]:
    """What a ledger, its path, or a choice of its rows holds."""
    from contextkit.ledger.calls import ModelCall, Remark
    from contextkit.ledger.ledger import Ledger

    if isinstance(ledger, str | os.PathLike):
        return Ledger.read(ledger)
    rows: list[Any] = list(ledger) if isinstance(ledger, Iterable) else [ledger]
    wrong = next((type(row).__name__ for row in rows if not isinstance(row, ModelCall | Remark)), "")
    if wrong:
        raise UsageError(f"give a Ledger, the path of one, or calls of one, not {wrong}")
    return rows


@pytest.fixture
def provider_server() -> Iterator[LocalServer]:
    """A provider on loopback for the real SDK clients.

    Echoes unless `provider_server.script([...])` says what to answer.
    """
    from contextkit.server.local import LocalServer

    with LocalServer() as server:
        yield server


@pytest.fixture
def ledger(provider_server: LocalServer) -> Ledger:
    """What `provider_server` was sent and what it billed."""
    return provider_server.ledger


@pytest.fixture(name="assert_prefix_stable")
def _prefix_stable() -> Callable[[Any, Any], None]:
    """`assert_prefix_stable(before, after)`."""
    return assert_prefix_stable


@pytest.fixture(name="assert_hit_rate")
def _hit_rate() -> Callable[..., None]:
    """`assert_hit_rate(ledger, at_least=0.95)`."""
    return assert_hit_rate


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cache-guard`."""
    group = parser.getgroup("contextkit", "prompt caching")
    group.addoption(
        "--cache-guard",
        action="store_true",
        help="run each test that calls a model again under another clock and hash seed; fail it where prompts miss the cache",
    )
    group.addoption("--cache-guard-child", metavar="ADDRESS", help=argparse.SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark; guard the run if `--cache-guard` is given."""
    try:
        check_installation()
    except UsageError as error:
        raise pytest.UsageError(error.for_shell()) from None
    config.addinivalue_line("markers", MARK_LINE)
    if config.getoption("--cache-guard"):
        from contextkit.cache_guard.plugin import register

        register(config)
