"""Stands in for packages that SGLang imports and a text model on a CPU never uses (`STAND_INS`, divided by commas).

Python imports a module of this name at its start where this folder is on its path, in each of the server's processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from transformers.utils.import_utils import is_torchvision_available

NAMES = frozenset(os.environ["STAND_INS"].split(","))


class Anything(type):
    """A class every attribute of which is such a class; calling it gives one as well."""

    def __getattr__(cls, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class StandIn(ModuleType):
    """A module in which every name is anything."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Anything:
        return getattr(Anything("stand_in", (), {}), name)


class StandInFinder:
    """Finds the modules of `NAMES`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in NAMES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


is_torchvision_available()  # asked before the stand-in can be found, and remembered
sys.meta_path.append(StandInFinder())  # type: ignore[arg-type]
