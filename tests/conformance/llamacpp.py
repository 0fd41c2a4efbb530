"""llama.cpp scenarios on `SlotServer`."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from contextkit.engines.llamacpp_server import HostShape, Model, SlotEnd, SlotRequest, SlotServer, slot_shape
from contextkit.engines.token_ids import N_BYTES, pack
from tests.conformance.scenario import token_ids

Op = dict[str, Any]


def build(config: Op, version: str) -> SlotReplay:
    return SlotReplay(config)


def _first(row: Op, *names: str, default: Any) -> Any:
    """What the first of these names that is there says: the server's options have short and long ones."""
    return next((row[name] for name in names if name in row), default)


def _end(row: Op, before: SlotEnd) -> SlotEnd:
    """The slot's end, as a config or a request says it."""
    return SlotEnd(
        _first(row, "n_ctx", "n_ctx_slot", "ctx_size", default=before.n_tokens),
        _first(row, "ctx_shift", "context_shift", default=before.is_shifting),
        _first(row, "n_keep", "keep", default=before.n_keep),
        row.get("n_discard", before.n_discard),
        row.get("add_bos", before.has_bos),
    )


def _model(config: Op) -> Model:
    given = {name: config[name] for name in ("memory", "n_window", "n_batch", "n_ubatch", "min_step") if name in config}
    return Model(
        **given, max_checkpoints=_first(config, "max_checkpoints", "ctx_checkpoints", "n_ctx_checkpoints", default=32)
    )


class SlotReplay:
    """One server; a request is over before the next one comes, unless it is to be `held` until a `release`."""

    def __init__(self, config: Op) -> None:
        self.server = SlotServer(
            slot_shape(
                n_slots=_first(config, "n_slots", "n_parallel", default=1),
                similarity=_first(config, "slot_prompt_similarity", "similarity", default=0.1),
                host=HostShape(config.get("host_tokens", 0), token_bytes=1),
                is_saving_idle=config.get("cache_idle_slots", False),
                n_cache_reuse=_first(config, "n_cache_reuse", "cache_reuse", default=0),
                model=_model(config),
                end=_end(config, SlotEnd()),
            )
        )
        self.is_caching: bool = config.get("cache_prompt", True)

    def run(self, op: Op) -> Op:
        return _OPS[op["op"]](self, op)

    def ask(self, name: str, op: Op) -> Any:
        return _STATE[name](self.server)

    def completion(self, op: Op) -> Op:
        prompt = pack(token_ids(op["prompt"]))
        asked = SlotRequest(
            prompt,
            op.get("lora"),
            bool(op.get("cache_prompt", self.is_caching)),
            _first(op, "n_cache_reuse", "cache_reuse", default=None),
            tuple(op.get("user_starts", ())),
            op.get("id_slot"),
        )
        plan = self.server.start(asked)
        if plan is None:
            return {"ok": False, "slot": None, "cached": 0, "processed": 0, "moved": []}
        if not op.get("held", False):
            self.release({**op, "slot": plan.slot})
        cached, moved = plan.kept.n_tokens, [list(chunk) for chunk in plan.kept.moved]
        processed = len(prompt) // N_BYTES - cached
        told = {"slot": plan.slot, "cached": cached, "processed": processed, "moved": moved}
        return told | {
            "ok": True,
            "id_slot": plan.slot,
            "cache_n": cached,
            "prompt_n": processed,
            "exact": plan.kept.n_exact,
        }

    def release(self, op: Op) -> Op:
        end = _end(op, self.server.shape.end)
        end = replace(end, n_tokens=self.server.shape.end.n_tokens, is_shifting=self.server.shape.end.is_shifting)
        self.server.finish(op["slot"], pack(token_ids(op.get("generated", []))), end)
        return {}

    def state(self, op: Op) -> Op:
        return {}


_OPS: dict[str, Callable[[SlotReplay, Op], Op]] = {
    name: getattr(SlotReplay, name) for name in ("completion", "release", "state")
}

_STATE: dict[str, Callable[[SlotServer], Any]] = {
    "slots": lambda server: [array("i", slot.content.tokens).tolist() for slot in server.slots],
    "slot_tokens": lambda server: [len(slot.content) for slot in server.slots],
    "host": lambda server: [array("i", state.tokens).tolist() for state in server.host.states],
    "host_tokens": lambda server: sum(map(len, server.host.states)),
}
