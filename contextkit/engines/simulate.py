"""What a cache would have done with a recorded trace.

The calls of a ledger come back with the usage that a cache bills. Prompts may be recorded as outlines (for the
caches of hosted providers) or as token ids (for those of engines); a trace of block ids goes through `compare`. Times
come from the trace; nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Any

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.engines.token_ids import TokenIds
from contextkit.engines.token_lanes import TokenLanes
from contextkit.errors import UsageError
from contextkit.ledger.calls import BlockIds, ModelCall, Outline, Tokens
from contextkit.ledger.ledger import Ledger
from contextkit.models import model_named

Cache = PrefixCache[Prompt] | PrefixCache[TokenIds]
"""Of a hosted provider, of an engine."""
_Row = tuple[ModelCall, Any]
"""A call and its prompt in a cache's words; None where it recorded none."""
Watch = Callable[[Iterable[Any]], Iterable[Any]]
"""What calls pass through on their way: it may count them, and stop early."""


def _own(model: str) -> PrefixCache[Prompt]:
    return reference_cache(model_named(model))


def simulate(
    ledger: Ledger, cache: Cache | None = None, *, cache_of: Callable[[str], Any] = _own, watch: Watch = iter
) -> Ledger:
    """Replay every call with a recorded prompt, in order of start, through `cache` (by default the one each model's
    provider runs).

    Calls that overlap are seen as they were: a response that had not begun has published nothing, an engine's request
    that had not ended holds what it uses. Calls without a prompt are left out; without `cache`, those of engines
    too, since nobody says which engine. `cache_of` makes a model's cache where `cache` is not given. Every call
    passes `watch`; where that stops, so does the replay. Raises `UsageError` where `cache` does not read what was
    recorded.
    """
    if not isinstance(ledger, Ledger):
        raise UsageError(f"a ledger is replayed, not {type(ledger).__name__}: Ledger.read(path), or context.ledger")
    caches: dict[str, Any] = {}
    replayed, under_way, answers = Ledger(), _UnderWay(), _Answers()
    for call, prompt in watch(_in_order(ledger)):
        if cache is not None and type(call.prompt) is BlockIds:
            raise UsageError(
                f"call {call.id!r} recorded block ids: replay them with `contextkit.engines.compare.compare`"
            )
        if prompt is None or (cache is None and type(call.prompt) is not Outline):
            continue
        if cache is None and call.model not in caches:
            caches[call.model] = cache_of(call.model)
        used: Any = cache if cache is not None else caches[call.model]
        under_way.settle(call.at)
        answers.tell(used, call, prompt)
        lease = _begun(used, call, prompt)
        answers.note(call, prompt, lease)
        under_way.add(call, used, lease)
        output = call.usage.output if call.usage else None
        replayed.append(replace(call, usage=replace(lease.usage, output=output, estimated=True)))
    under_way.settle(None)
    return replayed


class _Answers:
    """Ends of answers, for caches that keep a prefix there: seen in the next prompt of the lane, where they follow the
    prompt before.

    Assumed: an answer is one segment, as in Chat; told when the next call starts, with the time the answer ended.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[tuple[int, tuple[bytes, bytes]], float, Lease]] = {}
        """Lane → (segments of its last prompt, key of all of them), when the answer was complete, what the cache gave it."""

    def tell(self, cache: Any, call: ModelCall, prompt: Any) -> None:
        """Say where the answer before this call ended; what was cut or refused has none."""
        answered, last = getattr(cache, "answered", None), self._last.pop((call.session, call.lane), None)
        if answered is None or last is None or type(prompt) is not Prompt:
            return
        (n, key), ended_at, lease = last
        if n < prompt.n and prompt.key(n - 1) == key:
            answered(replace(prompt, n=n + 1, breakpoints=()), min(ended_at, call.at), lease)

    def note(self, call: ModelCall, prompt: Any, lease: Lease) -> None:
        """Remember a call for the one that goes on with it."""
        if type(prompt) is Prompt and prompt.n and call.error is None and call.ended_at is not None:
            last = (prompt.n, prompt.key(prompt.n - 1)), call.ended_at, lease
            self._last[call.session, call.lane] = last


def _begun(cache: Any, call: ModelCall, prompt: Any) -> Lease:
    try:
        lease: Lease = cache.begin(prompt, call.at)
    except AttributeError as error:
        kind = type(call.prompt).__name__
        raise UsageError(
            f"{type(cache).__name__} does not read what call {call.id!r} recorded ({kind}): outlines go through caches of hosted "
            "providers, token ids through those of engines (contextkit.engines.registry)"
        ) from error
    return lease


class _UnderWay:
    """Calls that have begun, and what is still to come of them."""

    def __init__(self) -> None:
        self._coming: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def add(self, call: ModelCall, cache: Any, lease: Lease) -> None:
        """Note when its response begins and when it ends.

        What never began published nothing; an engine lets go of it all the same.
        """
        begins, is_hosted = call.first_byte_at, type(call.prompt) is Outline
        if begins is not None:
            self._at(begins, lambda: cache.publish(lease, begins))
        if begins is not None or not is_hosted:
            ends = max(
                call.at if begins is None else begins,
                call.at if call.ended_at is None else call.ended_at,
            )
            self._at(ends, lambda: _end(call, cache, lease, ends))

    def _at(self, moment: float, act: Callable[[], object]) -> None:
        heappush(self._coming, (moment, next(self._numbers), act))

    def settle(self, now: float | None) -> None:
        """Do what has come by `now`; all of it for None."""
        while self._coming and (now is None or self._coming[0][0] <= now):
            heappop(self._coming)[2]()


def _end(call: ModelCall, cache: Any, lease: Lease, at: float) -> None:
    generate = getattr(
        cache, "generate", None
    )  # an engine's cache wants to know what was generated: the next prompt repeats it
    if generate and type(call.prompt) is Tokens and call.prompt.generated:
        generate(lease, call.prompt.generated)
    cache.end(lease, (call.usage.output if call.usage else None) or 0, at)


def _in_order(ledger: Ledger) -> Iterable[_Row]:
    """Calls with their prompts by time of start.

    Recorded is when they ended: where calls overlapped the prompts are copied.
    """
    lanes = TokenLanes()
    rows: Iterator[_Row] = (
        (call, lanes.read(call, call.prompt) if type(call.prompt) is Tokens else prompt)
        for call, prompt in ledger.prompts()
    )
    if all(one.at <= other.at for one, other in pairwise(ledger)):
        return rows
    return sorted(((call, _copied(prompt)) for call, prompt in rows), key=lambda row: row[0].at)


def _copied(prompt: Any) -> Any:
    if type(prompt) is not Prompt:
        return prompt
    return replace(prompt, digests=prompt.digests[:], ends_tokens=prompt.ends_tokens[:], positions=prompt.positions[:])
