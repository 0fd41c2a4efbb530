"""The clients of a test run: each HTTP client that may call a model is watched, and reaches the local provider instead of a
vendor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from contextkit.cache_guard.network import VENDOR_HOSTS, LocalNetwork
from contextkit.ledger.transport import Call, Watcher, attach, library_of
from contextkit.providers.client_names import NO_NAMES, ClientNames

_HTTP = ("httpx", "httpx2")
_SDKS = ("anthropic", "openai")
_KEYS = {"ANTHROPIC_API_KEY": "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY": "OPENAI_ADMIN_KEY"}
"""Variable of a key → the one that may stand for it."""
_PLACEHOLDER = "sk-local-provider"
_WATCH = "_contextkit_watch"


@contextmanager
def placeholder_keys() -> Iterator[None]:
    """Set the keys that the environment lacks, so that clients can be made; the local provider checks none."""
    missing = [name for name, other in _KEYS.items() if not (os.environ.get(name) or os.environ.get(other))]
    os.environ.update(dict.fromkeys(missing, _PLACEHOLDER))
    try:
        yield
    finally:
        for name in missing:
            if os.environ.get(name) == _PLACEHOLDER:
                del os.environ[name]


class _Watch:
    """Passes the requests of one HTTP client on to the watcher: all of an SDK's client, those to vendors of another one."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher, self.is_sdk = watcher, False

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """Begin a request."""
        is_watched = self.is_sdk or names.host.partition(":")[0] in VENDOR_HOSTS
        return self._watcher.start(method, path, body, names) if is_watched else None

    def close(self) -> None:
        """Do nothing: the watcher outlives the client."""


class ModelClients:
    """Every client of httpx, anthropic and openai made while it is active, also of a package that is imported later."""

    def __init__(self, watcher: Watcher, network: LocalNetwork) -> None:
        self._watcher, self._network = watcher, network
        self._undo: list[Callable[[], None]] = []
        patches: dict[str, Callable[[ModuleType], None]] = {f"{library}._client": self._patch_http for library in _HTTP}
        patches |= {f"{sdk}._base_client": self._patch_sdk for sdk in _SDKS}
        patches |= {f"{sdk}._client": self._patch_keys for sdk in _SDKS}
        patches["aiohttp.client"] = self._patch_aiohttp
        self._finder = _Finder(patches)
        for name, patch in patches.items():
            if name in sys.modules:
                patch(sys.modules[name])
        sys.meta_path.insert(0, self._finder)

    def stop(self) -> None:
        """Watch no new clients."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        while self._undo:
            self._undo.pop()()

    def _watch(self, http: Any, *, is_sdk: bool) -> None:
        if not library_of(http):
            return
        watch: _Watch | None = getattr(http, _WATCH, None)
        if watch is None:
            watch = _Watch(self._watcher)
            self._network.redirect(http)
            attach(http, watch)
            setattr(http, _WATCH, watch)
        watch.is_sdk = watch.is_sdk or is_sdk

    def _patch_http(self, module: ModuleType) -> None:
        for name in ("Client", "AsyncClient"):
            self._after_init(getattr(module, name), lambda http: self._watch(http, is_sdk=False))

    def _patch_sdk(self, module: ModuleType) -> None:
        for name in ("SyncAPIClient", "AsyncAPIClient"):
            self._after_init(getattr(module, name), lambda client: self._watch(client._client, is_sdk=True))

    def _patch_keys(self, module: ModuleType) -> None:
        """Let a client be made without a key, also while tests are collected."""
        for name in ("Anthropic", "AsyncAnthropic", "OpenAI", "AsyncOpenAI"):
            kind = getattr(module, name, None)
            if kind is not None:
                self._wrap_init(kind, placeholder_keys())

    def _patch_aiohttp(self, module: ModuleType) -> None:
        """Redirect what LiteLLM's asynchronous client sends: it puts aiohttp below a client of httpx."""
        kind, local = module.ClientSession, self._network.local_url
        original = kind._request

        @wraps(original)
        async def request(session: Any, method: str, url: Any, **options: Any) -> Any:
            return await original(session, method, local(url), **options)

        kind._request = request
        self._undo.append(lambda: setattr(kind, "_request", original))

    def _after_init(self, kind: Any, made: Callable[[Any], None]) -> None:
        def around(original: Callable[..., None]) -> Callable[..., None]:
            def initialise(self: Any, *values: Any, **named: Any) -> None:
                original(self, *values, **named)
                made(self)

            return initialise

        self._wrap_init(kind, around)

    def _wrap_init(self, kind: Any, around: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
        original = kind.__init__
        kind.__init__ = wraps(original)(around(original))
        self._undo.append(lambda: setattr(kind, "__init__", original))


class _Finder:
    """Patches modules when they are imported."""

    def __init__(self, patches: dict[str, Callable[[ModuleType], None]]) -> None:
        self._patches = patches

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of the other finders, with a loader that applies the patch."""
        if name not in self._patches:
            return None
        rest = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in rest if (spec := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            _then(spec.loader, self._patches[name])
        return spec


def _then(loader: Any, patch: Callable[[ModuleType], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        patch(module)

    loader.exec_module = exec_module
