"""The pytest plugin behind `--cache-guard`.

A test runs as it is written, its model calls recorded. If it made any and passed, it runs again in this process with the
clock moved at each request, by a minute and then by a day, and once in a process with another hash seed. Outcomes of these
passes are not reported: only their requests count. Then the judge compares all passes, and the test fails with what it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pytest
from _pytest.runner import call_and_report, show_test_item

from contextkit.cache_guard.clients import ModelClients, placeholder_keys
from contextkit.cache_guard.clock import MovedClock, can_be_moved, real_time
from contextkit.cache_guard.network import LocalNetwork
from contextkit.cache_guard.other_process import OtherProcess, Serving
from contextkit.cache_guard.settings import Accepted, CacheBudget, accepted, read_budget
from contextkit.errors import UsageError
from contextkit.providers.client_names import NO_NAMES, ClientNames

if TYPE_CHECKING:
    from contextkit.cache_guard.judgement import Loss, Pass, Variant
    from contextkit.cache_guard.recording import PassRecorder
    from contextkit.ledger.transport import Call

_NAME = "contextkit-cache-guard"
_STEPS: tuple[tuple[Variant, int], ...] = (("minute", 60), ("day", 86_400))


def register(config: pytest.Config) -> None:
    """Guard a run, or serve the one that started this process."""
    try:
        budget = read_budget(config.rootpath)
    except UsageError as error:
        raise pytest.UsageError(error.for_shell()) from None
    guard, address = CacheGuard(config, budget), config.getoption("--cache-guard-child")
    config.add_cleanup(guard.stop)
    serving = Serving(address, lambda item: guard.run_again(item).calls, guard.stop) if address else None
    config.pluginmanager.register(serving or guard, _NAME)


class CacheGuard:
    """Runs and judges the tests of one process."""

    def __init__(self, config: pytest.Config, budget: CacheBudget) -> None:
        self._config, self._budget = config, budget
        self._recorder: PassRecorder | None = None
        self._is_remote = False
        self._network = LocalNetwork()
        self._clients = ModelClients(self, self._network)
        self._other = OtherProcess(config)
        self._is_clock_missing = False

    # Requests

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """Begin a request of any client."""
        if self._recorder is None:
            return None
        self._is_remote = self._is_remote or names.host.partition(":")[0] in self._network.remote_hosts
        return self._recorder.start(method, path, body, names)

    def close(self) -> None:
        """Do nothing: the guard outlives the clients."""

    def stop(self) -> None:
        """Watch no new clients; end the local provider and the other process."""
        self._clients.stop()
        self._other.stop()
        self._network.stop()

    @contextmanager
    def _recording(self, recorder: PassRecorder) -> Iterator[None]:
        self._recorder, self._is_remote = recorder, False
        try:
            with placeholder_keys():
                yield
        finally:
            self._recorder = None

    # Tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test in all its passes and report it once."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item, nextitem):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Refuse a mark that is wrong."""
        _accepted_by(item)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what could not be done."""
        if self._is_clock_missing:
            terminalreporter.write_line('--cache-guard did not move the clock: pip install "contextkit-sdk[guard]"')
        if self._other.is_missing:
            terminalreporter.write_line(
                "--cache-guard did not run every test under another hash seed: its second process ended"
            )

    def _reports(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        from contextkit.cache_guard.judgement import Pass
        from contextkit.cache_guard.recording import PassRecorder

        recorder, reports = PassRecorder(real_time), list[pytest.TestReport]()
        has_request = _renew(item)
        try:
            with self._recording(recorder):
                reports.append(call_and_report(item, "setup", log=False))
                if reports[0].passed:
                    _show(item)
                    if not item.config.getoption("setuponly", False):
                        reports.append(call_and_report(item, "call", log=False))
                is_stopping = bool(item.session.shouldfail or item.session.shouldstop)
                has_passed = all(report.outcome == "passed" for report in reports) and not is_stopping
                takes = _accepted_by(item) if has_passed and recorder.calls else Accepted()
                reruns = bool(has_passed and recorder.calls and takes.reruns)
                after = None if is_stopping else _sibling(item) if reruns else nextitem
                reports.append(call_and_report(item, "teardown", log=False, nextitem=after))
        finally:
            _drop(item, has_request=has_request)
        passes = [Pass("first", recorder.calls, recorder.findings)]
        losses = self._judged(passes, takes)
        if reruns and not self._budget.is_exceeded(losses) and reports[-1].passed and not self._is_remote:
            for one in self._more_passes(item):
                passes.append(one)
                losses = self._judged(passes, takes)
                if self._budget.is_exceeded(losses):
                    break
        if reruns:
            self._tear_down(item, nextitem, reports)
        if self._budget.is_exceeded(losses):
            self._fail(item, reports, losses)
        return reports

    def _judged(self, passes: list[Pass], takes: Accepted) -> list[Loss]:
        from contextkit.cache_guard.judgement import losses

        return takes.left(losses(passes)) if passes[0].calls or passes[0].findings else []

    def _more_passes(self, item: pytest.Item) -> Iterator[Pass]:
        """Run a test again in every way, one after the other."""
        from contextkit.cache_guard.judgement import Pass

        for name, seconds in _STEPS:
            if can_be_moved():
                again = self.run_again(item, seconds)
                yield Pass(name, again.calls, again.findings)
            else:
                self._is_clock_missing = True
        calls = self._other.calls_of(item.nodeid)
        if calls:
            yield Pass("seed", calls)

    def run_again(self, item: pytest.Item, step_seconds: int = 0) -> PassRecorder:
        """Run a test with new fixtures of its own and return its calls; what it says or raises does not count."""
        from contextkit.cache_guard.recording import PassRecorder

        with ExitStack() as stack:
            clock = stack.enter_context(MovedClock(step_seconds)) if step_seconds else None
            recorder = PassRecorder(real_time, clock.advance if clock else lambda: None)
            has_request = _renew(item)
            try:
                with self._recording(recorder):
                    setup = _run(item, "setup")
                    if setup.excinfo is None:
                        _run(item, "call")
                    _run(item, "teardown", nextitem=_sibling(item))
            finally:
                _drop(item, has_request=has_request)
        return recorder

    def _tear_down(self, item: pytest.Item, nextitem: pytest.Item | None, reports: list[pytest.TestReport]) -> None:
        """Tear down what the next test does not need, as the test itself would have."""
        call = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown")
        if call.excinfo is not None and reports[-1].passed:
            reports[-1] = pytest.TestReport.from_item_and_call(item, call)

    def _fail(self, item: pytest.Item, reports: list[pytest.TestReport], losses: list[Loss]) -> None:
        """Fail a test that passed; add a section to the report of one that failed by itself."""
        from contextkit.cache_guard.failure import described

        text = described(losses, self._config.rootpath)
        failed = next((report for report in reports if report.failed), None)
        if failed is not None:
            failed.sections.append(("cache guard", text))
            return
        report = next((report for report in reports if report.when == "call"), reports[0])
        call = pytest.CallInfo.from_call(lambda: pytest.fail(text, pytrace=False), when="call")
        report.outcome, report.longrepr = "failed", pytest.TestReport.from_item_and_call(item, call).longrepr


def _accepted_by(item: pytest.Item) -> Accepted:
    try:
        return accepted(item)
    except UsageError as error:
        wrong = str(error)
    pytest.fail(wrong, pytrace=False)  # outside, or the report says it twice


def _run(item: pytest.Item, when: Literal["setup", "call", "teardown"], **more: object) -> pytest.CallInfo[None]:
    hook = getattr(item.ihook, f"pytest_runtest_{when}")
    return pytest.CallInfo.from_call(
        lambda: hook(item=item, **more), when=when, reraise=(KeyboardInterrupt, pytest.exit.Exception)
    )


def _renew(item: Any) -> bool:
    """Let a test that has run get new fixtures; return whether it takes any."""
    has_request = hasattr(item, "_request")
    if has_request and not item._request:
        item._initrequest()
    return has_request


def _drop(item: Any, *, has_request: bool) -> None:
    """Let go of the fixtures of a test that has run."""
    if has_request:
        item._request = False
        item.funcargs = None


def _show(item: pytest.Item) -> None:
    if item.config.getoption("setupshow", False):
        show_test_item(item, add_space=not item.config.getoption("setuponly", False))


class _Sibling(pytest.Item):
    """Stands for a next test beside one: whatever both need stays."""

    def runtest(self) -> None:
        """Do nothing: it never runs."""


def _sibling(item: pytest.Item) -> pytest.Item:
    return _Sibling.from_parent(item.parent or item.session, name=f"{item.name} again")
