"""Prompt caching in your tests: a provider on loopback, its ledger, and assertions that show the byte where a prefix broke.

Fixtures `provider_server`, `ledger`, `assert_prefix_kept` and `assert_hit_rate`; the last two can be imported as well. With
`pytest --cache-guard` every client of anthropic and openai made during the run is watched, and a test that breaks a prefix fails. Without
the option nothing is touched, and nothing heavy is imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contextkit.ledger.ledger import Ledger
    from contextkit.lint.finding import Finding
    from contextkit.server.local import LocalServer

_GUARD = "contextkit-cache-guard"


def assert_prefix_kept(before: Any, after: Any) -> None:
    """Fail unless `after` begins as `before` did, as far as a cache can tell.

    Both are request bodies: a dict, bytes, a contextkit `Request` or `Layout`. A change behind the last breakpoint breaks nothing. The
    failure shows level, path, byte offset and a window of both sides, and names the hazard where a rule knows it.

    >>> said = {"role": "user", "content": "hello"}
    >>> before = {"model": "gpt-5", "messages": [said]}
    >>> assert_prefix_kept(before, {"model": "gpt-5", "messages": [said, {"role": "assistant", "content": "hi"}]})
    """
    __tracebackhide__ = True
    from contextkit.lint.guard.breaks import breaks

    found = breaks(before, after)
    if found:
        raise AssertionError(f"the prefix was not kept\n{found}")


def assert_hit_rate(ledger: Ledger, at_least: float = 0.95) -> None:
    """Fail unless this share of all input tokens was read from the cache, going by what was billed.

    The failure says what was lost, call by call, and why.
    """
    __tracebackhide__ = True
    from contextkit.ledger.summary import summarise

    summary = summarise(ledger)
    rate = summary.hit_rate
    if rate is None:
        raise AssertionError(f"no hit rate: {summary}")
    if rate < at_least:
        lost = [f"  call {miss.index} lost {miss.lost_tokens:,} tokens: {miss.cause} ({miss.where})" for miss in summary.losses]
        raise AssertionError("\n".join([f"hit rate {rate:.3f} is below {at_least:g}: {summary}", *lost]))


@pytest.fixture
def provider_server() -> Iterator[LocalServer]:
    """A provider on loopback for the real SDK clients; echoes unless `provider_server.script([...])` says what to answer."""
    from contextkit.server.local import LocalServer

    with LocalServer() as server:
        yield server


@pytest.fixture
def ledger(provider_server: LocalServer) -> Ledger:
    """What `provider_server` was sent and what it billed."""
    return provider_server.ledger


@pytest.fixture(name="assert_prefix_kept")
def _prefix_kept() -> Callable[[Any, Any], None]:
    """`assert_prefix_kept(before, after)`."""
    return assert_prefix_kept


@pytest.fixture(name="assert_hit_rate")
def _hit_rate() -> Callable[..., None]:
    """`assert_hit_rate(ledger, at_least=0.95)`."""
    return assert_hit_rate


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cache-guard`."""
    group = parser.getgroup("contextkit", "prompt caching")
    group.addoption(
        "--cache-guard", action="store_true", help="fail a test in which an anthropic or openai client breaks a prompt's prefix"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch clients from here on, where that was asked for."""
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
        from contextkit.lint.guard.watch import watch_all

        self._found: list[Finding] = []
        self._watching = watch_all(self._found.append)

    def stop(self) -> None:
        """Watch no new clients."""
        self._watching.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Conversations do not go on from one test to the next."""
        self._watching.forget()
        self._found.clear()
        return (yield from self._held())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """The test itself."""
        return (yield from self._held())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """What its fixtures still send."""
        return (yield from self._held())

    def _held(self) -> Generator[None, None, None]:
        """Run one phase; what fails by itself is not accused of more."""
        try:
            yield
        except BaseException:
            self._found.clear()
            raise
        self._judge()

    def _judge(self) -> None:
        from contextkit.lint.guard.breaks import shown

        broken = [finding for finding in self._found if finding.detector == "guard"]
        self._found.clear()
        if broken:
            pytest.fail("--cache-guard: a prefix was broken\n" + "\n".join(map(shown, broken)), pytrace=False)
