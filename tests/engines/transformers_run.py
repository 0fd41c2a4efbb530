"""transformers' continuous batching in this process, beside the reference cache: one line for each configuration.

    python -m tests.engines.transformers_run [--requests 1000] [--only NAME] [--record]

Needs torch and transformers 5.19; the model is a tiny random Llama, made here. What the engine found is what its
`PagedAttentionCache.search_prefix_match` returned. `--record` writes the first requests of each configuration as a
cassette. In the runs `overlapping` requests run beside each other: every search is compared, in the order and at the
moment the engine made it; they have no cassettes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Self

from contextkit.engines.agreement import Agreement, Exchange, Reply, agreement, exchanges
from contextkit.engines.prompt_stream import PromptStream, StreamedPrompt
from contextkit.engines.registry import engine, sizes_of
from contextkit.engines.token_ids import TokenIds
from tests.engines.cassettes import Cassette, write

TIMEOUT_SECONDS = 60
VOCABULARY = 512


@dataclass(frozen=True)
class Run:
    """One configuration: pages as the engine is told, and the stream."""

    name: str
    seed: int
    server: dict[str, Any]
    """Options of `ContinuousBatchingConfig`; what is left out is the engine's own."""
    stream: dict[str, Any] = field(default_factory=dict)
    """Options of `PromptStream`."""
    is_in_turn: bool = False
    """Of requests that overlap: whether no two prompts are computed in one pass."""

    @property
    def page(self) -> int:
        return int(self.server.get("page_size", 256))

    @property
    def cache(self) -> dict[str, int]:
        """The same for the reference cache."""
        margin = self.server.get("safety_margin")
        return {
            "block_size": self.page,
            "capacity_tokens": self.server["num_blocks"] * self.page,
            "batch_tokens": self.server["max_batch_tokens"],
            "safety_margin": sizes_of("transformers")["safety_margin"] if margin is None else margin,
        }


LONG = {"max_tokens": 2000, "max_output": 300}
"""Conversations that soon fill several pages of the default size."""
RUNS = (
    Run("transformers-32", 1, {"page_size": 32, "num_blocks": 60, "max_batch_tokens": 2048}),
    Run(
        "transformers-32-no-margin",
        2,
        {"page_size": 32, "num_blocks": 60, "max_batch_tokens": 2048, "safety_margin": 0.0},
    ),
    Run("transformers-32-split", 4, {"page_size": 32, "num_blocks": 60, "max_batch_tokens": 100}),
    Run("transformers-256", 5, {"num_blocks": 16, "max_batch_tokens": 2048}, LONG),
    Run("transformers-256-no-margin", 6, {"num_blocks": 16, "max_batch_tokens": 2048, "safety_margin": 0.0}, LONG),
)
SHORT = {"page_size": 32, "num_blocks": 80, "max_batch_tokens": 2048}
OVERLAPPING = (
    Run("overlapping", 7, {"page_size": 32, "num_blocks": 4000, "max_batch_tokens": 2048}),
    Run("overlapping in turn, short of pages", 8, SHORT, is_in_turn=True),
    Run("overlapping, short of pages", 8, SHORT),
)
"""In the last one the reference cache differs: the engine looks at its margin once before a pass over several prompts."""


@dataclass
class Pass:
    """A forward pass is planned."""

    generated: dict[str, int]
    """Requests that are running → tokens they have generated."""


@dataclass
class Search:
    """One search for a prefix, for the pass before it."""

    request: str
    read_tokens: int


@dataclass
class Ended:
    """A request ended with the pass before it."""

    request: str


class Engine:
    """The engine with a tiny model; a context manager that satisfies `agreement.Engine`."""

    def __init__(self, run: Run) -> None:
        import torch
        from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig, LlamaConfig

        torch.set_num_threads(1)
        torch.manual_seed(0)
        shape = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=8192,
            attn_implementation="sdpa",
        )
        model = AutoModelForCausalLM.from_config(shape).eval()
        self._manager = model.init_continuous_batching(
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=VOCABULARY - 1),
            continuous_batching_config=ContinuousBatchingConfig(**run.server),
        )
        self._replies: dict[str, tuple[int, ...]] = {}
        self.events: list[Pass | Search | Ended] = []
        self.n_sent = self.n_evictions = 0

    def __enter__(self) -> Self:
        from transformers.generation.continuous_batching.cache import PagedAttentionCache as Cache
        from transformers.generation.continuous_batching.scheduler import FIFOScheduler

        self._wrapped = [
            (Cache, "search_prefix_match", Cache.search_prefix_match),
            (Cache, "evict_cached_blocks", Cache.evict_cached_blocks),
            (FIFOScheduler, "schedule_batch", FIFOScheduler.schedule_batch),
            (FIFOScheduler, "finish_request", FIFOScheduler.finish_request),
        ]
        (_, _, search), (_, _, evict), (_, _, schedule), (_, _, finish) = self._wrapped

        def search_prefix_match(cache: Any, request: str, tokens: list[int]) -> int:
            read_tokens: int = search(cache, request, tokens)
            self.events.append(Search(request, read_tokens))
            return read_tokens

        def evict_cached_blocks(cache: Any) -> bool:
            is_evicted = evict(cache)
            self.n_evictions += is_evicted
            return bool(is_evicted)

        def schedule_batch(scheduler: Any, *budgets: int) -> Any:
            active = scheduler.active_requests.items()
            self.events.append(Pass({name: len(state.generated_tokens) for name, state in active}))
            return schedule(scheduler, *budgets)

        def finish_request(scheduler: Any, request: str) -> None:
            self.events.append(Ended(request))
            finish(scheduler, request)

        for (owner, name, _), wrapper in zip(
            self._wrapped, (search_prefix_match, evict_cached_blocks, schedule_batch, finish_request), strict=True
        ):
            setattr(owner, name, wrapper)
        self._manager.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.stop(block=True, timeout=TIMEOUT_SECONDS)
        for owner, name, original in self._wrapped:
            setattr(owner, name, original)

    def send(self, prompt: StreamedPrompt) -> str:
        """Hand a prompt over without waiting; return the name of its request."""
        self.n_sent += 1
        name = f"request {self.n_sent}"
        self._manager.add_request(prompt.tokens, request_id=name, max_new_tokens=prompt.n_output)
        return name

    def wait(self, request: str) -> tuple[int, ...]:
        """Wait for the end of a request, which others may come before; return the tokens it generated."""
        while request not in self._replies:
            output = self._manager.get_result(timeout=TIMEOUT_SECONDS)
            if output is None or output.error:
                raise RuntimeError(f"{request} came to nothing: {output}")
            self._replies[output.request_id] = tuple(output.generated_tokens)
        return self._replies.pop(request)

    def wait_for_first_token(self, request: str) -> None:
        """Wait until a request has generated something, or has ended."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not any(event == Ended(request) for event in self.events[-20:]):
            for event in self.events[-20:]:
                if isinstance(event, Pass) and event.generated.get(request):
                    return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{request} generates nothing")
            time.sleep(0.001)

    def complete(self, prompt: StreamedPrompt) -> Reply:
        """Send a prompt and wait for its reply; one that is searched for again is read as it was the last time."""
        request = self.send(prompt)
        generated = self.wait(request)
        found = [one for one in self.events if isinstance(one, Search) and one.request == request]
        self.events.clear()
        return Reply(found[-1].read_tokens, generated)


def overlapping(
    live: Engine, stream: PromptStream, n_requests: int, seed: int, *, is_in_turn: bool
) -> Iterator[list[tuple[str, Exchange]]]:
    """Send prompts in groups of two to four that run beside each other, and yield each group with its replies.

    With `is_in_turn` no two prompts are computed in one pass. What was read is not in the replies but in the events of
    `live`.
    """
    draw = Random(seed)
    n_sent = 0
    while n_sent < n_requests:
        group = []
        for _ in range(draw.randint(2, 4)):
            prompt = stream.next()
            group.append((live.send(prompt), prompt))
            if is_in_turn:
                live.wait_for_first_token(group[-1][0])
            time.sleep(draw.choice((0, 0, 0.002, 0.01)))
        n_sent += len(group)
        replied = [(name, Exchange(prompt, Reply(0, live.wait(name)))) for name, prompt in group]
        for _, exchange in replied:
            stream.replied(exchange.prompt, exchange.reply.generated)
        yield from replied


def compare_overlapping(cache: Any, live: Engine, exchanged: dict[str, Exchange]) -> Agreement:
    """Replay the events of a run in their order, each search against the reference cache as it stands then.

    A request that is searched for again, since it found no room, counts as it was the last time. The kinds are `alone`
    and `beside others`.
    """
    found, leases, n_named = Agreement(), {}, dict.fromkeys(exchanged, 0)
    ending: list[str] = []

    def name(request: str, n_generated: int) -> None:
        if request in leases and n_generated > n_named[request]:
            cache.publish(leases[request], 0.0)
            cache.generate(leases[request], exchanged[request].reply.generated[n_named[request] : n_generated])
            n_named[request] = n_generated

    def plan(generated: dict[str, int]) -> None:
        """End what ended with the pass before, then let those that generate do so: they come before new prompts."""
        for request in ending:
            name(request, len(exchanged[request].reply.generated))
            cache.end(leases.pop(request), n_named[request], 0.0)
        ending.clear()
        for request, n_generated in generated.items():
            if n_generated:
                name(request, n_generated + 1)

    last = {event.request: index for index, event in enumerate(live.events) if isinstance(event, Search)}
    for index, event in enumerate(live.events):
        if isinstance(event, Pass):
            plan(event.generated)
        elif isinstance(event, Ended):
            ending.append(event.request)
        elif index == last[event.request]:
            prompt = replace(exchanged[event.request].prompt, kind="beside others" if leases else "alone")
            lease = leases[event.request] = cache.begin(TokenIds(prompt.tokens), 0.0)
            refusal = "no_room" if lease.hit.reason == "no_room" else None
            found.add(Exchange(prompt, Reply(event.read_tokens)), Reply(lease.hit.read_tokens, refusal=refusal))
    return found


def show(name: str, found: Agreement, live: Engine, seconds: float) -> None:
    import transformers

    print(
        f"{name}: {found.equal}/{found.total} equal, {found.n_read} of {found.n_tokens} tokens read, "
        f"{live.n_evictions} evictions of all, {seconds:.0f} s, transformers {transformers.__version__}",
        flush=True,
    )
    for one in found.differences[:10]:
        print(f"  request {one.index}, {one.kind}, {one.n_tokens} tokens: read {one.reply.read_tokens}", end="")
        print(f", predicted {one.predicted.read_tokens}", flush=True)


def main() -> None:
    import transformers

    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--only")
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    for run in RUNS:
        if asked.only not in (None, run.name):
            continue
        started = time.monotonic()
        with Engine(run) as live:
            exchanged = tuple(exchanges(live, PromptStream(run.seed, block=run.page, **run.stream), asked.requests))
        found = agreement(engine("transformers", **run.cache).cache, exchanged)
        show(run.name, found, live, time.monotonic() - started)
        if asked.record:
            differing = tuple(one.index for one in found.differences)
            write(
                Cassette(
                    run.name,
                    "transformers",
                    transformers.__version__,
                    run.server,
                    run.cache,
                    found.equal,
                    found.total,
                    differing,
                    exchanged,
                )
            )
    for run in OVERLAPPING:
        if asked.only not in (None, run.name):
            continue
        started = time.monotonic()
        with Engine(run) as live:
            stream = PromptStream(run.seed, block=run.page, **run.stream)
            groups = dict(overlapping(live, stream, asked.requests, run.seed, is_in_turn=run.is_in_turn))
        found = compare_overlapping(engine("transformers", **run.cache).cache, live, groups)
        show(run.name, found, live, time.monotonic() - started)
        print(f"  of these beside others: {found.kinds.get('beside others')}", flush=True)


if __name__ == "__main__":
    main()
