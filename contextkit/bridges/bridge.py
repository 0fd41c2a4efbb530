"""What every bridge shares: a ledger, what was found, and the way a framework's client is put on it.

Takes an SDK client, gives one like it whose calls are recorded, compared with the last of their conversation, and
repaired. Knows nothing of frameworks: each has its own file beside this one.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

from contextkit.bridges.crossing import Crossing, crossed, listening
from contextkit.bridges.mending import Mending
from contextkit.bridges.notes import Noting
from contextkit.errors import MissingExtra
from contextkit.ledger.calls import Exchange
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.misses import judged
from contextkit.ledger.summary import Summary, summarise
from contextkit.lint.finding import Finding
from contextkit.models import model_named
from contextkit.report.contents import Gathering
from contextkit.report.terminal import text
from contextkit.watcher.guard import Guard
from contextkit.watcher.notify import Caller, OnBreak, Teller, described

Client = TypeVar("Client")
KEPT = ("sort-tools", "place-breakpoints")
"""Repairs that change what no model reads."""
SDKS = ("anthropic", "openai")
"""Whose clients can be followed; what is raised inside one must be an error of that one."""
MOST_FINDINGS = 1000
"""Findings kept; the latest of more."""


class Bridge:
    """What is known of one agent's calls.

    >>> bridge = Bridge()
    >>> len(bridge.ledger), list(bridge.findings)
    (0, [])
    """

    def __init__(
        self,
        record: str | os.PathLike[str] | None = None,
        *,
        on_break: OnBreak = "warn",
        repairs: Sequence[str] = KEPT,
        diagnostics: bool = False,
    ) -> None:
        """`record` names a ledger to append to.

        `on_break` is that of `contextkit.watch`; `repairs` are names of the proxy's, () for none.

        `diagnostics` asks the provider's own diagnosis. Raises `UsageError` for a repair or an `on_break` there is not,
        `StorageError` where the ledger cannot be opened.
        """
        self.findings: deque[Finding] = deque(maxlen=MOST_FINDINGS)
        """What broke, or was billed more than it should have been, in order."""
        self.repaired: Counter[str] = Counter()
        """Repair → calls it changed."""
        tellers = {sdk: _Noticing(on_break, sdk, self.findings) for sdk in SDKS}
        mended, self._noting = Mending(repairs), Noting(record)
        guards = {sdk: Guard(teller, self._noting, asks=diagnostics) for sdk, teller in tellers.items()}
        self._crossing = Crossing(guards, mended, self._noting, self.repaired.update)

    @property
    def ledger(self) -> Ledger:
        """Every call: its bill, the outline of its prompt, what the reference cache expected.

        No text where the model is known.
        """
        return self._noting.ledger

    def client(self, client: Client) -> Client:
        """A client like `client`, over the same connections, on this bridge; `client` stays as it was.

        Raises `UsageError` for what is no client of anthropic's or openai's SDK.
        """
        return crossed(client, self._crossing)

    def listening(self, clients: Iterable[Any], whose: str = "this model") -> AbstractContextManager[None]:
        """For frameworks that keep their clients: inside, calls of `clients` are on this bridge.

        Others that share them are left alone.
        """
        return listening(self._crossing, clients, whose)

    def summary(self) -> Summary:
        """The sums so far: `print(bridge.summary())` is one line."""
        return summarise(self.ledger)

    def report(self, width: int = 100) -> str:
        """Hit rate, cost, every miss with its cause, then what broke and where; for a terminal."""
        gathered = Gathering()
        gathered.add_all(judged(self.ledger.records))
        told = [described(finding) for finding in self.findings]
        if self.n_unmarked:
            told.append(
                f"CKB01 {self.n_unmarked} calls were long enough to be cached and marked nothing, so nothing of them was: "
                "the repair place-breakpoints marks them"
            )
        return text(gathered.contents(""), width) + "".join(f"! {line}\n" for line in told)

    @property
    def n_unmarked(self) -> int:
        """Calls to a cache that keeps only what is marked, long enough for it, that neither read nor wrote."""
        return sum(map(_is_unmarked, self.ledger))

    def close(self) -> None:
        """Give the ledger's file back; what is in memory stays readable."""
        self._noting.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_unmarked(exchange: Exchange) -> bool:
    row, usage = model_named(exchange.model, exchange.provider), exchange.usage
    if row.cache != "breakpoints" or usage is None or usage.prompt is None:
        return False
    return usage.prompt >= row.min_tokens and usage.fresh == usage.prompt


class _Noticing(Teller):
    """Tells as it was asked to, and keeps what it told."""

    __slots__ = ("_findings",)

    def __init__(self, on_break: OnBreak, sdk: str, findings: deque[Finding]) -> None:
        super().__init__(on_break, sdk)
        self._findings = findings

    def before(self, finding: Finding, where: Caller) -> None:
        self._findings.append(finding)
        super().before(finding, where)

    def after(self, finding: Finding, where: Caller) -> None:
        self._findings.append(finding)
        super().after(finding, where)


def framework(module: str, what: str, extra: str) -> ModuleType:
    """A module of a framework; raises `MissingExtra` with the install command where it is not there."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(what, extra) from None
