"""The reference model as a local provider: it says the replies, and its own KV cache makes the bill.

Takes requests as the local provider understood them, gives scripts of replies; and is a `PrefixCache` of token ids, so
that usage is what its blocks had and what they lacked. vLLM's rules (`cache/block`) run beside it, and a request on
which the two differ is an error.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from contextkit.analysis.engines import Engine
from contextkit.cache.block.block_cache import BlockCache
from contextkit.cache.block.engine import Shape as Blocks
from contextkit.cache.block.groups import Group
from contextkit.cache.block.ids import TokenIds
from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.cli.transformer.speaking import Speaker, parts
from contextkit.errors import ContextKitError, UsageError
from contextkit.models import model_named
from contextkit.providers.openai import chat_rendering as openai_chat
from contextkit.providers.provider import Parsed
from contextkit.providers.validation import ParsedRequest, ReceivedRequest
from contextkit.server.billing_selfhosted import SelfHosted
from contextkit.transformer.engine import Run, likeliest
from contextkit.transformer.kv_cache import ContiguousCache, Pool
from contextkit.transformer.masking import sampled
from contextkit.transformer.methods.prefix_blocks import PrefixEngine, names
from contextkit.transformer.model import Bytes, Model
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Shape, seeded

SHAPE = Shape(n_layers=2, n_kv_heads=2)
CAPACITY_TOKENS = 65_536
"""Tokens its memory holds where nothing is said: 32 MB in float32."""


@dataclass(slots=True)
class _Running:
    """A request under way."""

    prompt: TokenIds
    lease: Lease
    run: Run
    logits: Array
    said: list[int]
    """What it generated, in the provider's tokens."""


class TransformerServer:
    """One model, one cache: satisfies `PrefixCache[TokenIds]`, and called as a `ReplySource` it says what comes next.

    A token of the provider is one of the model's bytes by its remainder; blocks are known by the provider's ids, so
    that nothing is shared which differs. What was said is sampled in bytes on a copy, and joins the run in the tokens a
    later request will have in its place.
    """

    def __init__(self, block_size: int = 16, capacity_tokens: int = CAPACITY_TOKENS, seed: int = 0) -> None:
        """Raises `UsageError` for sizes no engine has."""
        if block_size < 1 or capacity_tokens < block_size:
            raise UsageError(
                f"{capacity_tokens} tokens in blocks of {block_size}: give at least one block of at least one token"
            )
        self._block, self._n_blocks, self._seed = block_size, capacity_tokens // block_size, seed
        self._model = Model(seeded(SHAPE, seed, "float32"))
        self._reference = BlockCache(Blocks(self._n_blocks + 1, (Group(size=block_size),)))
        self._books = SelfHosted(Engine("vllm", self))
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._reference.reset()
        self._engine = PrefixEngine(self._model, Pool(SHAPE, self._n_blocks, self._block, "float32"))
        self._running: dict[int, _Running] = {}
        self._ready: _Running | None = None

    def __call__(self, parsed: Parsed, body: Json) -> Json:
        """What to answer: the prompt is computed as far as it is not there, then tokens are sampled."""
        if self._ready:
            self.end(self._ready.lease, 0, 0.0)  # the bill was another cache's
        model = replace(model_named("gpt-4o"), name=parsed.model)
        asked = ParsedRequest(ReceivedRequest({}, body), parsed, model, (), False)
        self._ready = running = self._computed(self._books.seen(openai_chat.CODEC, asked), 0.0)
        seed = int.from_bytes(blake2b(array("q", running.prompt.tokens).tobytes(), digest_size=4).digest()) + self._seed
        choose = likeliest if body.get("temperature") == 0 else sampled(seed + int(body.get("seed") or 0))
        return {"parts": parts(Speaker(self._engine, self._copied(running.run), running.logits, choose), body)}

    def lookup(self, prompt: TokenIds, now: float) -> Hit:
        """What would be read now; changes nothing."""
        return self._reference.lookup(prompt, now)

    def quote(self, prompt: TokenIds, now: float) -> Usage:
        """What sending it now would be billed."""
        return self._reference.quote(prompt, now)

    def begin(self, prompt: TokenIds, now: float) -> Lease:
        """The bill of a prompt: rows that were in its blocks, and rows it computed."""
        ready, self._ready = self._ready, None
        if ready and ready.prompt != prompt:
            self.end(ready.lease, 0, now)
        running = ready if ready and ready.prompt == prompt else self._computed(prompt, now)
        return replace(running.lease, at=now)

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins: its blocks could be read from the start."""

    def generate(self, lease: Lease, tokens: list[int]) -> None:
        """Name what was said: all of it but the last token has rows, and full blocks of it can be read."""
        running = self._of(lease)
        running.said.extend(tokens)
        ids = [*running.prompt.tokens, *running.said]
        self._reference.generate(lease, list(tokens))
        if len(ids) - 1 > running.run.cache.n_rows:
            self._engine.feed([(running.run, _bytes(ids[:-1]))])
        self._engine.name(running.run, list(names(ids[:-1], self._block, _space(running.prompt))))

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: nobody holds its blocks, and they are kept until their room is needed."""
        running = self._of(lease)
        del self._running[lease.writes[0]]
        self._ready = None if self._ready is running else self._ready
        self._reference.end(lease, len(running.said), now)
        running.run.cache.cut(0)
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters of the rules beside it, and the rows the model computed."""
        return {**self._reference.stats(), "rows_computed": self._engine.work.positions}

    def snapshot(self) -> bytes:
        """What the rules beside it remember; the rows themselves are not saved."""
        return self._reference.snapshot()

    def restore(self, state: bytes) -> None:
        """Not of a model: raises `UsageError`."""
        raise UsageError("rows of a running model are not saved: reset the server, and send the requests again")

    def _computed(self, prompt: TokenIds, now: float) -> _Running:
        """Compute what the blocks lack, and hold the bill against the rules."""
        known = list(names(prompt.tokens, self._block, _space(prompt)))
        before = self._engine.work.positions
        if len(prompt.tokens) > self._n_blocks * self._block:
            raise UsageError(
                f"{len(prompt.tokens)} tokens, and room for {self._n_blocks * self._block}: raise --capacity-tokens"
            )
        run, n_read, logits = self._engine.begin(_bytes(prompt.tokens), known, is_read_skipped=prompt.is_read_skipped)
        n_computed, lease = self._engine.work.positions - before, self._reference.begin(prompt, now)
        if (lease.usage.read, lease.usage.fresh) != (n_read, n_computed):
            rules = f"the rules read {lease.usage.read} and computed {lease.usage.fresh}"
            raise ContextKitError(
                f"of {len(prompt.tokens)} tokens the model read {n_read} and computed {n_computed}, {rules}"
            )
        running = self._running[lease.writes[0]] = _Running(prompt, lease, run, logits, [])
        return running

    def _copied(self, run: Run) -> Run:
        """A run of its own to sample on."""
        copy = ContiguousCache(SHAPE, "float32", n_reserved=run.cache.n_rows + 256)
        for i in range(SHAPE.n_layers):
            copy.write(i, 0, *run.cache.read(i, run.cache.n_rows, "float32"))
        copy.n_rows = run.cache.n_rows
        return Run(copy, list(run.tokens))

    def _of(self, lease: Lease) -> _Running:
        running = self._running.get(lease.writes[0])
        if running is None:
            raise UsageError("this lease has ended, or is of another cache: begin() the prompt here, and end() it once")
        return running


def _bytes(ids: Sequence[int]) -> list[int]:
    """The model's tokens."""
    return [token % Bytes.end for token in ids]


def _space(prompt: TokenIds) -> str:
    """What keeps its blocks from others'."""
    return f"{prompt.adapter.name if prompt.adapter else ''}\0{prompt.salt or ''}"
