"""Import paths of the first edition's documentation: each still works, with a `DeprecationWarning` that names the new
path.

The aliases are removed in the next minor version. Only documented paths are listed; other modules were never public.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "contextkit.cli.transformer.serving": "contextkit.cli.transformer_server",
    "contextkit.importers.found": "contextkit.importers.registry",
    "contextkit.ledger.engines.duck": "contextkit.ledger.duckdb_ledger",
    "contextkit.ledger.engines.sessions": "contextkit.ledger.duckdb_ledger",
    "contextkit.ledger.exchange": "contextkit.ledger.calls",
    "contextkit.lint.guard": "contextkit.watcher",
    "contextkit.log.change": "contextkit.log.entry",
    "contextkit.providers.gemini.contents": "contextkit.providers.gemini.parts",
    "contextkit.server.proxy.metrics.otel": "contextkit.proxy.metrics.otel",
    "contextkit.server.proxy.proxy": "contextkit.proxy.proxy",
    "contextkit.server.proxy.repairs.repairs": "contextkit.proxy.repairs.repairs",
    "contextkit.server.proxy.repairs.splices": "contextkit.proxy.repairs.splices",
    "contextkit.simulator.blocks.caches": "contextkit.analysis.blocks.caches",
    "contextkit.simulator.compactions.recorded": "contextkit.analysis.compactions",
    "contextkit.simulator.compare": "contextkit.analysis.compare",
    "contextkit.simulator.counterfactual.what_if": "contextkit.analysis.counterfactual.what_if",
    "contextkit.simulator.engines": "contextkit.analysis.engines",
    "contextkit.tools.masking": "contextkit.tools.token_mask",
    "contextkit.tools.toolbox": "contextkit.tools.tool",
}
"""Documented path → the module that holds its names now."""
_PACKAGES = {path[:end] for path in MOVED for end in range(len(path)) if path[end] == "."}
"""Packages above a moved module; those that are gone are empty."""


class _Alias(Loader):
    """Puts the new module under its old path."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the import system: the module it makes is replaced, or stays as an empty package."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Replace a moved module by the one that holds its names now."""
        new = MOVED.get(module.__name__)
        if new is not None:
            from contextkit.terminal import sanitize

            warnings.warn(sanitize(f"{module.__name__} is now {new}"), DeprecationWarning, stacklevel=2)
            sys.modules[module.__name__] = importlib.import_module(new)


class MovedModules(MetaPathFinder):
    """Finds moved modules; asked last, so a module that exists is never replaced."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a path in `MOVED`, or for a package above one; None for every other name."""
        if name not in MOVED and name not in _PACKAGES:
            return None
        return ModuleSpec(name, _Alias(), is_package=name in _PACKAGES)


def install() -> None:
    """Let documented old import paths work; calling it again changes nothing."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
