"""The llama.cpp servers that are compared with `SlotCache`, and the reference cache of each.

`python -m tests.engines.llamacpp_configurations [--requests 1000] [--seed 1] [--record] [NAME ...]` runs them, prints a
line for each, and records the first calls of each for `tests/engines/recorded`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from contextkit.engines.agreement import Agreement, Exchange, agreement, exchanges
from contextkit.engines.llamacpp import SlotCache
from contextkit.engines.llamacpp_server import HostShape, Memory, Model, SlotEnd, SlotShape, slot_shape
from contextkit.engines.prompt_stream import PromptStream
from contextkit.engines.running import LlamaCpp
from tests.engines.cassettes import Cassette, write
from tests.engines.llamacpp_process import LlamaServer, version
from tests.engines.tiny_gguf import WINDOW_TOKENS, write_gguf

HOSTS = {
    "full": HostShape(token_bytes=524, state_bytes=68),
    "window": HostShape(token_bytes=268, window_token_bytes=268, state_bytes=64),
    "recurrent": HostShape(token_bytes=0, state_bytes=19_456),
}
"""What a state of the tiny models takes on the host: keys and values of 64 numbers in 16 bits for a token and layer, 12
bytes of place for a token and kind of layer; two layers of a convolution (3 · 128) and a state (128 · 16) in 32 bits."""


@dataclass(frozen=True)
class Configuration:
    """One server."""

    name: str
    """What it shows."""
    memory: Memory = "full"
    """What its model keeps."""
    server: dict[str, Any] = field(default_factory=dict)
    """Its options, in the words of llama.cpp's `common_params`."""
    stream: dict[str, int] = field(default_factory=dict)
    """Options of the stream."""
    is_short: bool = False
    """Whether the ordinary suite runs it."""

    @property
    def is_refusing(self) -> bool:
        """Whether its slots are shorter than some prompts of the stream."""
        is_shared = self.server.get("kv_unified", "n_parallel" not in self.server)
        slot_tokens = self.server.get("n_ctx", 8192) // (1 if is_shared else self.server["n_parallel"])
        return bool(slot_tokens <= 256)


N_RECORDED = 100
"""Calls of a run that are recorded: the ordinary tests run real servers besides."""
REFUSING = {"n_parallel": 2, "n_ctx": 512}
ONE_MIB = {"n_parallel": 2, "n_ctx": 4096, "cache_ram_mib": 1}
OVERFULL = {"n_parallel": 3, "n_ctx": 512, "kv_unified": True, "cache_idle_slots": False}
CONFIGURATIONS = (
    Configuration("defaults", is_short=True),
    Configuration("two slots", server={"n_parallel": 2, "n_ctx": 4096}, is_short=True),
    Configuration("one slot", server={"n_parallel": 1, "n_ctx": 4096}),
    Configuration("no host cache", server={"n_parallel": 4, "n_ctx": 8192, "cache_ram_mib": 0}),
    Configuration("idle slots stay", server={"n_parallel": 2, "n_ctx": 4096, "cache_idle_slots": False}),
    Configuration("similarity 0.5", server={"n_parallel": 3, "n_ctx": 4096, "slot_prompt_similarity": 0.5}),
    Configuration("similarity 0", server={"n_parallel": 3, "n_ctx": 4096, "slot_prompt_similarity": 0.0}),
    Configuration("cache reuse 8", server={"n_parallel": 4, "n_ctx": 8192, "n_cache_reuse": 8}, is_short=True),
    Configuration("context shift", server={**REFUSING, "ctx_shift": True}, stream={"max_output": 60}, is_short=True),
    Configuration("refusals", server=REFUSING, is_short=True),
    Configuration("refusals, defaults", server={"n_ctx": 256}),
    Configuration("shared memory overfull", server=OVERFULL, is_short=True),
    Configuration("shared memory overfull, no host cache", server={**OVERFULL, "cache_ram_mib": 0}),
    Configuration("host of 1 MiB", server=ONE_MIB, is_short=True),
    Configuration("host without limit", server={"n_parallel": 2, "n_ctx": 2048, "cache_ram_mib": -1}),
    Configuration("window, defaults", "window", is_short=True),
    Configuration("window, two slots", "window", {"n_parallel": 2, "n_ctx": 4096}, is_short=True),
    Configuration("window, no host cache", "window", {"n_parallel": 2, "n_ctx": 4096, "cache_ram_mib": 0}),
    Configuration("window, idle slots stay", "window", {"n_parallel": 2, "n_ctx": 4096, "cache_idle_slots": False}),
    Configuration("window, passes of 32", "window", {"n_parallel": 2, "n_ctx": 4096, "n_batch": 64, "n_ubatch": 32}),
    Configuration("window, shared memory overfull", "window", {**OVERFULL, "n_ubatch": 64}),
    Configuration("window, refusals", "window", REFUSING, {"max_output": 60}),
    Configuration("window, refusals, defaults", "window", {"n_ctx": 256}, {"max_output": 60}),
    Configuration("window, host of 1 MiB", "window", ONE_MIB),
    Configuration("window, host without limit", "window", {"n_parallel": 2, "n_ctx": 2048, "cache_ram_mib": -1}),
    Configuration("window, 2 checkpoints", "window", {"n_parallel": 2, "n_ctx": 4096, "n_ctx_checkpoints": 2}),
    Configuration("window, no checkpoints", "window", {"n_parallel": 2, "n_ctx": 4096, "n_ctx_checkpoints": 0}),
    Configuration("recurrent, defaults", "recurrent", is_short=True),
    Configuration("recurrent, 3 checkpoints", "recurrent", {"n_parallel": 2, "n_ctx": 4096, "n_ctx_checkpoints": 3}),
    Configuration("recurrent, refusals", "recurrent", {"n_ctx": 256}, {"max_output": 60}),
    Configuration("recurrent, host of 1 MiB", "recurrent", ONE_MIB),
    Configuration("recurrent, cache reuse 8", "recurrent", {"n_parallel": 4, "n_ctx": 8192, "n_cache_reuse": 8}),
    Configuration("recurrent, context shift", "recurrent", {**REFUSING, "ctx_shift": True}, {"max_output": 60}),
    Configuration("recurrent, batches of 32", "recurrent", {"n_parallel": 2, "n_ctx": 4096, "n_batch": 32}),
    Configuration("window, batches of 32", "window", {"n_parallel": 2, "n_ctx": 4096, "n_batch": 32}),
    Configuration("window, cache reuse 8", "window", {**REFUSING, "n_cache_reuse": 8}),
    Configuration("window, context shift", "window", {**REFUSING, "ctx_shift": True}, {"max_output": 60}),
    Configuration("window, reuse and shift", "window", {"n_ctx": 256, "n_cache_reuse": 8, "ctx_shift": True}),
)


def drawn(random: Random) -> Configuration:
    """A server of options drawn at random."""

    def some(share: float, **options: Sequence[Any]) -> dict[str, Any]:
        return {name: random.choice(values) for name, values in options.items() if random.random() < share}

    slots = random.choice((None, 1, 2, 3, 4, 6))
    n_ctx = random.choice((256, 512, 768, 1000, 1024, 2048, 4096))
    server = {
        **({} if slots is None else {"n_parallel": slots, **some(0.3, kv_unified=(True,))}),
        "n_ctx": n_ctx * random.choice((1, slots or 1)),
        "cache_ram_mib": random.choice((8192, 8192, 0, 1, -1)),
        **some(0.4, cache_idle_slots=(False,), n_cache_reuse=(1, 4, 8, 32), ctx_shift=(True,)),
        **some(0.4, n_batch=(32, 64, 128, 600), n_ubatch=(16, 32, 64, 256)),
        **some(0.3, slot_prompt_similarity=(0.0, 0.25, 0.5, 0.9), n_ctx_checkpoints=(0, 1, 2, 5)),
    }
    memory: Memory = random.choice(("full", "window", "window", "recurrent"))
    return Configuration("drawn", memory, server, {"max_output": random.choice((5, 20, 80))})


def shape_of(memory: Memory, server: dict[str, Any], slot_tokens: int | None) -> SlotShape:
    """The reference of a server with these options, whose slots hold so many tokens."""
    ram = server.get("cache_ram_mib", 8192)
    host = HOSTS[memory]
    return slot_shape(
        server.get("n_parallel"),
        server.get("kv_unified"),
        is_saving_idle=server.get("cache_idle_slots", True),
        similarity=server.get("slot_prompt_similarity", 0.1),
        n_cache_reuse=server.get("n_cache_reuse", 0),
        host=HostShape(None if ram < 0 else ram << 20, host.token_bytes, host.window_token_bytes, host.state_bytes),
        model=Model(
            memory,
            WINDOW_TOKENS if memory == "window" else 0,
            server.get("n_batch", 2048),
            server.get("n_ubatch", 512),
            server.get("n_ctx_checkpoints", 32),
        ),
        end=SlotEnd(slot_tokens, is_shifting=server.get("ctx_shift", False)),
    )


def run(
    configuration: Configuration, model: Path, n_requests: int, seed: int = 1
) -> tuple[list[Exchange], int | None, Agreement]:
    """Send a stream to a real server; the calls, the tokens of a slot, and how far the reference agrees."""
    with LlamaServer(model, **{"n_parallel": -1, "n_ctx": 0, **configuration.server}) as server:
        engine = LlamaCpp(server.url)
        slot_tokens = engine.configuration().context_tokens
        calls = list(exchanges(engine, PromptStream(seed, **configuration.stream), n_requests))
    cache = SlotCache(shape_of(configuration.memory, configuration.server, slot_tokens))
    return calls, slot_tokens, agreement(cache, calls)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Compare llama.cpp servers with the reference cache.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write what was run into the folder of recordings")
    options = parser.parse_args(arguments)
    worst = 1.0
    with tempfile.TemporaryDirectory() as folder:
        models = {memory: Path(folder) / f"{memory}.gguf" for memory in HOSTS}
        for memory, path in models.items():
            write_gguf(path, memory)
        for one in CONFIGURATIONS:
            if options.names and one.name not in options.names:
                continue
            calls, slot_tokens, found = run(one, models[one.memory], options.requests, options.seed)
            worst = min(worst, found.equal / found.total)
            read = f"{found.n_read:,} of {found.n_tokens:,} tokens read, {found.n_refused} refused"
            print(f"{one.name}: {found.equal} of {found.total} equal; {read}", flush=True)
            for difference in found.differences[:5]:
                print(f"    {difference}")
            if options.record:
                cache = {"memory": one.memory, "slot_tokens": slot_tokens}
                name = f"llamacpp {one.name}".replace(", ", " ").replace(" ", "-")
                differing = tuple(difference.index for difference in found.differences)
                score = (found.equal, found.total, differing)
                write(Cassette(name, "llamacpp", version(), one.server, cache, *score, tuple(calls[:N_RECORDED])))
    print(f"least: {worst:.2%}")
    return int(worst < 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
