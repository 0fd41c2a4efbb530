"""A client that notices when a prompt's prefix breaks, before the request leaves.

Takes a client of anthropic's or openai's SDK, gives one of the same type that behaves the same. Knows nothing of what
is compared.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

from contextkit.errors import UsageError
from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard
from contextkit.watcher.guard import Guard, Recording
from contextkit.watcher.notify import OnBreak, Teller
from contextkit.watcher.transport import attach, cloned, library_of

Client = TypeVar("Client")
_SDKS = ("anthropic", "openai")
_REWRITERS = ("anthropic.lib.bedrock", "anthropic.lib.vertex")
"""Where clients come from that rewrite bodies and paths into another provider's."""


def watch(
    client: Client,
    *,
    on_break: OnBreak = "warn",
    record: str | os.PathLike[str] | None = None,
    diagnostics: bool = False,
    hazards: Sequence[Hazard] | None = None,
) -> Client:
    """A client like `client`, over the same connections, that compares every request with the last of its conversation
    before it leaves.

    A request that does not begin as that one did is a finding: its hazard, path, byte offset, both sides, and your
    line. `on_break` is `"warn"` (a `PrefixWarning` at that line), `"raise"` (`PrefixBroken`, and nothing is sent) or a
    callable, not an async one, that takes the `Finding`. What comes back is compared with what should have been read; a
    shortfall is told afterwards, never raised. `record` names a ledger that every exchange is appended to, secrets
    covered; `diagnostics=True` asks the provider's own diagnosis; `hazards` stands in for the catalogue.

    `client` itself stays as it was; copies of the watched client (`with_options`, `copy`) are watched too. Raises
    `UsageError` for what is no such client, `StorageError` where the ledger cannot be opened.
    """
    sdk = _sdk_of(client)
    teller = Teller(on_break, sdk)
    has_diagnostics = bool(diagnostics) and not type(client).__module__.startswith(f"{sdk}.lib.")
    recording = None if record is None else Recording(record)
    http = cloned(client._client)  # type: ignore[attr-defined]
    attach(http, Guard(teller, recording, asks=has_diagnostics, hazards=hazards))
    watched: Client = client.copy(http_client=http)  # type: ignore[attr-defined]
    return watched


def _sdk_of(client: object) -> str:
    """The package of a client that can be watched, else `UsageError`."""
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


class Everywhere:
    """Every client of both SDKs that is made while this runs, watched together."""

    def __init__(self, on_break: Callable[[Finding], object]) -> None:
        self._guards = {sdk: Guard(Teller(on_break, sdk)) for sdk in _SDKS}
        self._undo: list[Callable[[], None]] = []
        self._finder = _Finder(self._patch)
        for sdk in _SDKS:
            module = sys.modules.get(f"{sdk}._base_client")
            if module is not None:
                self._patch(module)
        sys.meta_path.insert(0, self._finder)

    def forget(self) -> None:
        """Every conversation so far."""
        for guard in self._guards.values():
            guard.forget()

    def stop(self) -> None:
        """Clients made from now on are not watched."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        while self._undo:
            self._undo.pop()()

    def _patch(self, module: ModuleType) -> None:
        guard = self._guards[module.__name__.partition(".")[0]]
        for name in ("SyncAPIClient", "AsyncAPIClient"):
            kind: Any = getattr(module, name)
            self._undo.append(_watched_from_birth(kind, guard))


def watch_all(on_break: Callable[[Finding], object]) -> Everywhere:
    """Watch every client that is made from now on, also of an SDK that is imported later; nothing is imported for it."""
    return Everywhere(on_break)


def _watched_from_birth(kind: Any, guard: Guard) -> Callable[[], None]:
    """Attach `guard` to each new client of `kind`.

    Gives what undoes it. A copy shares the connections of its original, and its guard.
    """
    made = kind.__init__

    def born(self: Any, *values: Any, **named: Any) -> None:
        made(self, *values, **named)
        if library_of(self._client) and not getattr(self._client, "_watched_from_birth", False):
            attach(self._client, guard)
            self._client._watched_from_birth = True

    kind.__init__ = wraps(made)(born)
    return lambda: setattr(kind, "__init__", made)


class _Finder(importlib.abc.MetaPathFinder):
    """Sees the SDKs' modules when they are imported, and patches them then."""

    def __init__(self, patch: Callable[[ModuleType], None]) -> None:
        self._patch = patch

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec that would have been found anyway, its loader followed by the patch."""
        if name not in {f"{sdk}._base_client" for sdk in _SDKS}:
            return None
        rest = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in rest if (spec := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            _then(spec.loader, self._patch)
        return spec


def _then(loader: Any, patch: Callable[[ModuleType], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        patch(module)

    loader.exec_module = exec_module
