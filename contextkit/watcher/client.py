"""Watched clients: `watch` copies a client of anthropic's or openai's SDK and reports broken prefixes before sending."""

from __future__ import annotations

import os
from collections.abc import Sequence
from secrets import token_hex
from typing import TypeVar

from contextkit.canonical import canonical
from contextkit.errors import UsageError
from contextkit.ledger.budget import Budget, check_budget
from contextkit.ledger.transport import Watcher, attach, cloned, library_of
from contextkit.lint.hazard import Hazard
from contextkit.redact import credentials_of
from contextkit.watcher.budget import BudgetedWatcher, BudgetGate
from contextkit.watcher.guard import CallRecorder, Guard
from contextkit.watcher.notify import Notifier, OnBreak
from contextkit.watcher.sockets import watch_sockets

Client = TypeVar("Client")
_SDKS = ("anthropic", "openai")
_REWRITERS = ("anthropic.lib.bedrock", "anthropic.lib.vertex")
"""Modules whose clients rewrite bodies and paths for another provider."""


def watch(
    client: Client,
    *,
    on_break: OnBreak = "warn",
    record: str | os.PathLike[str] | None = None,
    diagnostics: bool = False,
    hazards: Sequence[Hazard] | None = None,
    budget: Budget | None = None,
    allow_unpriced: bool = False,
) -> Client:
    """Return a copy of `client`, over the same connections, that compares every request with the last of its
    conversation before sending it.

    A request that breaks the prefix gives a finding: hazard, path, byte offset, both sides, and your line. `on_break`
    is `"warn"` (a `PrefixWarning` at that line), `"raise"` (`PrefixBroken`, and nothing is sent) or a callable, not an
    async one, that takes the `Finding`. The bill is compared with the expected read; a miss is reported
    afterwards, never raised. `record` names a ledger to which every call is appended with secrets redacted;
    `diagnostics=True` requests the provider's own diagnosis; `hazards` replaces the catalogue. A request that could cost
    more than `budget` has left raises `BudgetExceeded` and is not sent; each retry of the SDK counts. What may be billed and
    cannot be priced (batches, WebSockets of other APIs than Responses, unknown endpoints) raises it too, unless `allow_unpriced`.

    `client` itself is not changed; copies of the watched client (`with_options`, `copy`) are watched too. Raises
    `UsageError` for an unsupported client, `StorageError` where the ledger cannot be opened.
    """
    sdk = _sdk_of(client)
    notifier = Notifier(on_break, sdk)
    has_diagnostics = bool(diagnostics) and not type(client).__module__.startswith(f"{sdk}.lib.")
    recording = None if record is None else CallRecorder(record)
    watcher: Watcher = Guard(notifier, recording, asks=has_diagnostics, hazards=hazards)
    check_budget(budget)
    if allow_unpriced and budget is None:
        raise UsageError("allow_unpriced=True says what a budget lets pass: give budget=…, too")
    if budget is not None:
        if recording is not None:
            budget.restore(recording.recorded(), "")
        watcher = BudgetedWatcher(
            BudgetGate(budget, f"watch-{token_hex(4)}", sdk=sdk, allow_unpriced=allow_unpriced), watcher
        )
    http = cloned(client._client)  # type: ignore[attr-defined]
    attach(http, watcher)
    watched: Client = client.copy(http_client=http)  # type: ignore[attr-defined]
    if sdk == "openai":
        watch_sockets(watched, watcher, is_refused=budget is not None and not allow_unpriced)
    _warm_up(sdk)
    return watched


def _warm_up(sdk: str) -> None:
    """Load what the first request needs now: modules, tables, patterns."""
    said = [{"role": "user", "content": "hello"}]
    model, field = ("claude-sonnet-5-5", "messages") if sdk == "anthropic" else ("gpt-6.1-sol", "input")
    body = canonical({"model": model, "max_tokens": 1, field: said})
    guard = Guard(Notifier(lambda finding: None, sdk))
    call = guard.start("POST", "/v1/messages" if sdk == "anthropic" else "/v1/responses", body)
    if call is not None:
        call.ended(is_whole=False, error="aborted")
    credentials_of([(b"authorization", b"none")])


def _sdk_of(client: object) -> str:
    """Return the SDK of a client that can be watched; raise `UsageError` otherwise."""
    names = [kind.__module__ for kind in type(client).__mro__]
    sdk = next((name.partition(".")[0] for name in names if name.partition(".")[0] in _SDKS), "")
    if not sdk or not library_of(getattr(client, "_client", None)) or not callable(getattr(client, "copy", None)):
        raise UsageError(
            f"{type(client).__name__} cannot be watched: pass anthropic.Anthropic(), openai.OpenAI() or their async twins"
        )
    if any(name.startswith(_REWRITERS) for name in names):
        raise UsageError(
            f"{type(client).__name__} rewrites requests for another endpoint, where their prefix cannot be followed"
        )
    return sdk
