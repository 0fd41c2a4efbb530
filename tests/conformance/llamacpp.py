"""llama.cpp scenarios on `SlotServer`."""

from __future__ import annotations

from typing import Any

from contextkit.cache.packed import N_BYTES, pack
from contextkit.cache.slot.server import Asked, SlotServer, SlotShape
from tests.conformance.scenario import token_ids

Op = dict[str, Any]


def build(config: Op, version: str) -> SlotReplay:
    return SlotReplay(config)


class SlotReplay:
    """One server; every request is over before the next one comes."""

    def __init__(self, config: Op) -> None:
        self.server = SlotServer(
            SlotShape(
                n_slots=config.get("n_slots", 1),
                similarity=config.get("slot_prompt_similarity", 0.1),
                n_host_tokens=config.get("host_tokens", 0),
                n_cache_reuse=config.get("n_cache_reuse", 0),
            )
        )

    def run(self, op: Op) -> Op:
        """The one operation there is, a completion."""
        prompt = pack(token_ids(op["prompt"]))
        plan = self.server.start(Asked(prompt, is_caching=op.get("cache_prompt", True), n_reuse=op.get("n_cache_reuse")))
        assert plan, "all slots are busy"
        self.server.finish(plan.slot, pack(token_ids(op.get("generated", []))))
        cached, moved = plan.kept.n_tokens, [list(chunk) for chunk in plan.kept.moved]
        return {"slot": plan.slot, "cached": cached, "processed": len(prompt) // N_BYTES - cached, "moved": moved}

    def ask(self, name: str, op: Op) -> Any:
        raise KeyError(f"a completion does not tell {name!r}")
