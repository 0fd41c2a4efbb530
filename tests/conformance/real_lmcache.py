"""LMCache's own eviction policies behind the operations of a scenario: what they answer is what a scenario expects.

The policies are the installed files, unchanged, and used as LMCache's CPU backend uses them: put only what is not
there, hit only what is, take what was named for eviction out of the mapping. Of their package only they are loaded,
since the rest of it wants torch and a GPU: of its logger, its statistics and its class of keys, which decide nothing
here, something empty stands in."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

Op = dict[str, Any]
_FOLDER = "lmcache.v1.storage_backend"
FORGETFUL = {"LFU"}
"""Policies whose candidates are out of their books as soon as they are named."""


def _stand_in(name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


def load(site: Path) -> Callable[[str], Any]:
    """What makes a policy by its name."""
    parts = _FOLDER.split(".")
    for depth in range(1, len(parts) + 1):
        _stand_in(".".join(parts[:depth]), __path__=[str(site.joinpath(*parts[:depth]))])
    nothing = SimpleNamespace(on_chunk_reuse=lambda seconds: None)
    _stand_in("lmcache.logging", init_logger=lambda name: logging.getLogger("silent.lmcache"))
    _stand_in("lmcache.observability", LMCStatsMonitor=SimpleNamespace(GetOrCreate=lambda: nothing))
    _stand_in("lmcache.utils", CacheEngineKey=type("CacheEngineKey", (), {}))
    made: Callable[[str], Any] = importlib.import_module(f"{_FOLDER}.cache_policy").get_cache_policy
    return made


class RealLmcache:
    """One policy, and the mapping it orders."""

    def __init__(self, make: Callable[[str], Any], policy: str) -> None:
        self.policy, self.is_forgetful = make(policy), policy in FORGETFUL
        self.held = self.policy.init_mutable_mapping()

    def run(self, op: Op) -> Op:
        """Do one operation of `tests.conformance.lmcache`; give what it answered."""
        return _OPS[op["op"]](self, op)

    def put(self, op: Op) -> Op:
        if op["key"] not in self.held:
            self.held[op["key"]] = SimpleNamespace(can_evict=not op["pinned"])
            self.policy.update_on_put(op["key"])
        return {}

    def hit(self, op: Op) -> Op:
        self.policy.update_on_hit(op["key"], self.held)
        return {}

    def pin(self, op: Op) -> Op:
        self.held[op["key"]].can_evict = False
        return {}

    def unpin(self, op: Op) -> Op:
        self.held[op["key"]].can_evict = True
        return {}

    def remove(self, op: Op) -> Op:
        del self.held[op["key"]]
        self.policy.update_on_force_evict(op["key"])
        return {"ok": True}

    def evict_candidates(self, op: Op) -> Op:
        keys = self.policy.get_evict_candidates(self.held, num_candidates=op["n"])
        for key in keys if self.is_forgetful else ():
            del self.held[key]
        return {"keys": keys}

    def evict(self, op: Op) -> Op:
        keys = self.policy.get_evict_candidates(self.held, num_candidates=op["n"])
        for key in keys:
            self.held.pop(key)
        return {"keys": keys}


_OPS: dict[str, Callable[[RealLmcache, Op], Op]] = {
    name: getattr(RealLmcache, name) for name in ("put", "hit", "pin", "unpin", "remove", "evict_candidates", "evict")
}
