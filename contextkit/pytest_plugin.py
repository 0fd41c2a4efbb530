"""Prompt caching in your tests: a provider on loopback, its ledger, and assertions that show the byte where a prefix
broke.

Fixtures `provider_server`, `ledger`, `assert_prefix_stable` and `assert_hit_rate`; the last two can be imported as
well.
With `pytest --cache-guard` every client of anthropic and openai made during the run is watched, and a test that breaks
a prefix fails. Without the option nothing is touched, and nothing heavy is imported before a fixture is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from contextkit.errors import UsageError
from contextkit.installation import check_installation

if TYPE_CHECKING:
    from contextkit.ledger.calls import Record
    from contextkit.ledger.ledger import Ledger
    from contextkit.lint.finding import Finding
    from contextkit.server.local import LocalServer

_GUARD, _MARK = "contextkit-cache-guard", "cache_guard"


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
            f"  call {miss.index} lost {miss.lost_tokens:,} tokens: {miss.cause} ({miss.where})"
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
        help="fail a test in which an anthropic or openai client breaks a prompt's prefix",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark; watch clients from here on if `--cache-guard` is given."""
    try:
        check_installation()
    except UsageError as error:
        raise pytest.UsageError(error.for_shell()) from None
    config.addinivalue_line("markers", f"{_MARK}(False): --cache-guard lets this test break prefixes")
    if config.getoption("--cache-guard"):
        config.pluginmanager.register(CacheGuard(), _GUARD)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the SDKs as they were."""
    guard = config.pluginmanager.get_plugin(_GUARD)
    if guard is not None:
        guard.stop()


class CacheGuard:
    """Watches every client made while it runs, and holds the test that is running to account."""

    def __init__(self) -> None:
        from contextkit.watcher.client import watch_all

        self._findings: list[Finding] = []
        self._is_exempt = False
        self._watching = watch_all(self._findings.append)

    def stop(self) -> None:
        """Watch no new clients."""
        self._watching.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Conversations do not go on from one test to the next."""
        self._watching.forget()
        self._findings.clear()
        self._is_exempt = _is_exempt(item)
        return (yield from self._held(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """The test itself."""
        return (yield from self._held(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """What its fixtures still send."""
        return (yield from self._held(item, "teardown"))

    def _held(self, item: pytest.Item, when: str) -> Generator[None, None, None]:
        """Run one phase.

        Where it fails by itself, what was found stands in a section of its report, and is not what it fails for.
        """
        try:
            yield
        except BaseException:
            findings = self._new_findings()
            if findings:
                item.add_report_section(when, "cache guard", findings)
            raise
        findings = self._new_findings()
        if findings:
            pytest.fail(f"--cache-guard: {findings}", pytrace=False)

    def _new_findings(self) -> str:
        """What was found since it was asked last, in words; empty where nothing broke, or may."""
        from contextkit.watcher.breaks import listed

        broken = [finding for finding in self._findings if finding.detector == "guard" and not self._is_exempt]
        self._findings.clear()
        return f"a prefix was broken\n{listed(broken)}" if broken else ""


def _is_exempt(item: pytest.Item) -> bool:
    """Return whether the nearest mark says that prefixes may break here; a mark that says neither fails the test."""
    mark = item.get_closest_marker(_MARK)
    if mark is not None and (mark.kwargs or mark.args not in ((), (True,), (False,))):
        pytest.fail(
            f"{item.nodeid}: @pytest.mark.{_MARK} takes False, or True where its module said False", pytrace=False
        )
    return mark is not None and mark.args == (False,)
