"""llama.cpp's slots as any other cache: `SlotServer` behind `PrefixCache[TokenIds]`.

Takes prompts as token ids and names of generated tokens, gives hits and bills; knows nothing of text, models or prices,
and no clock: nothing here dies of age, and what is older is what was released earlier.

Measured (llama.cpp b11549): what a request leaves can be used once its slot is free again (`end`);
`cache_prompt: false` (here `is_read_skipped`) computes everything. Documented: a prompt's tokens are those computed and
those cached (`prompt_n + cache_n`). Here `Usage.read` holds only tokens whose memory is as a fresh computation would
leave it; chunks turned to another position, and all that was computed behind them, are `Hit.approximate_tokens` and
billed as fresh: upstream's `cache_n` is the sum of the two. There are no salts: one tenant's prompt is another's hit.
A prompt as long as a slot is refused (`no_room`), and billed whole here. Assumed: a request for which no slot is free
(`no_room` too), which the server would let wait, is billed whole and leaves nothing; generated tokens nobody names are
ones no prompt will ever hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.engines.llamacpp_server import Plan, SlotRequest, SlotServer, SlotShape
from contextkit.engines.token_ids import N_BYTES, TokenIds, pack, packed_bytes
from contextkit.errors import UsageError

_COUNTERS = ("requests", "hits", "read_tokens", "approximate_tokens", "fresh_tokens", "output_tokens")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""
_NOWHERE = -1
"""The slot of a request that found none."""


@dataclass(slots=True)
class _Request:
    """One request under way."""

    slot: int
    """Index of its slot, or `_NOWHERE`."""
    generated: bytes = b""
    """What `generate` named."""


class SlotCache:
    """The slots of one llama.cpp server; satisfies `PrefixCache[TokenIds]`.

    >>> cache = SlotCache(SlotShape(n_slots=2))
    >>> lease = cache.begin(TokenIds(range(30)), now=0.0)
    >>> cache.lookup(TokenIds(range(30)), now=1.0).reason
    'not_yet_visible'
    >>> cache.end(lease, 4, now=2.0)
    Usage(fresh=30, read=0, writes={}, output=4)
    >>> cache.lookup(TokenIds(range(30)), now=3.0).read_tokens
    29
    """

    def __init__(self, shape: SlotShape | None = None) -> None:
        """Empty slots; raises `UsageError` for a shape no server has."""
        self._shape = shape or SlotShape()
        self.reset()

    def reset(self) -> None:
        """Forget everything, requests under way included."""
        self._server = SlotServer(self._shape)
        self._running: dict[int, _Request] = {}
        self._counters: Counter[str] = Counter()
        self._number = self._n_unnamed = 0

    def lookup(self, prompt: TokenIds, now: float) -> Hit:
        """Return what would be read now, one comparison of memory for a slot or a saved state; changes nothing.

        `segment` is the last token that is covered.
        """
        asked = _slot_request(prompt, ())
        return self._hit(asked, self._server.plan(asked))

    def quote(self, prompt: TokenIds, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return _bill(len(prompt.tokens), self.lookup(prompt, now).read_tokens)

    def begin(self, prompt: TokenIds, now: float, user_starts: Sequence[int] = (), id_slot: int | None = None) -> Lease:
        """A request starts: it takes a slot, and what that held is kept as far as it serves.

        `user_starts`: tokens at which user messages begin; they matter to models that cannot roll back. `id_slot`: the
        slot it wants.
        """
        asked = replace(_slot_request(prompt, user_starts), id_slot=id_slot)
        plan = self._server.plan(asked)
        hit = self._hit(asked, plan)
        self._server.start(asked, plan)
        self._number += 1
        self._running[self._number] = _Request(plan.slot if plan else _NOWHERE)
        lease = Lease(hit, _bill(len(prompt.tokens), hit.read_tokens), now, (self._number,))
        self._count(lease)
        return lease

    def slot_of(self, lease: Lease) -> int | None:
        """Return the index of the slot that serves a request, None where it found none; raises `UsageError` after its
        end.
        """
        slot = self._of(lease).slot
        return None if slot == _NOWHERE else slot

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins, which changes nothing here: its slot serves nobody else before it is free."""

    def generate(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Name tokens the request generated, so that a later prompt that goes on with them can hit.

        Raises `UsageError` after its end.
        """
        self._of(lease).generated += pack(tokens)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: its slot is free again, for others to use.

        Raises `UsageError` where it has ended before.

        `output` counts all generated tokens; those that `generate` did not name are ones nobody will ever send again.
        """
        request = self._of(lease)
        n_unnamed = output - len(request.generated) // N_BYTES
        if n_unnamed > 0:
            request.generated += pack(range(-self._n_unnamed - n_unnamed, -self._n_unnamed))
            self._n_unnamed += n_unnamed
        if request.slot != _NOWHERE:
            self._server.finish(request.slot, request.generated)
        del self._running[lease.writes[0]]
        self._counters["output_tokens"] += output
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset, and what is held now."""
        slots, states = self._server.slots, self._server.host.states
        now = {
            "tokens_in_slots": sum(len(slot.content) for slot in slots),
            "tokens_on_host": sum(map(len, states)),
            "states": len(states),
        }
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counters) | now | {"running": len(self._running)}

    def _hit(self, asked: SlotRequest, plan: Plan | None) -> Hit:
        if plan is None:
            return Hit(0, 0, None, "no_room", None)
        read, approximate = plan.kept.n_exact, plan.kept.n_tokens - plan.kept.n_exact
        if read:
            return Hit(read, approximate, read - 1, "hit", None)
        busy = (slot.content for slot in self._server.slots if slot.is_busy)
        is_coming = asked.is_caching and any(content.common(asked.tokens) for content in busy)
        return Hit(0, approximate, None, "not_yet_visible" if is_coming else "first_write", None)

    def _of(self, lease: Lease) -> _Request:
        if lease.writes[0] not in self._running:
            raise UsageError("this lease has ended, or is of another cache: begin() the prompt here, and end() it once")
        return self._running[lease.writes[0]]

    def _count(self, lease: Lease) -> None:
        usage, reason = lease.usage, lease.hit.reason
        self._counters["requests"] += 1
        self._counters["hits" if reason == "hit" else f"miss_{reason}"] += 1
        self._counters["read_tokens"] += usage.read or 0
        self._counters["approximate_tokens"] += lease.hit.approximate_tokens
        self._counters["fresh_tokens"] += usage.fresh or 0


def _slot_request(prompt: TokenIds, user_starts: Sequence[int]) -> SlotRequest:
    adapter = prompt.adapter.name if prompt.adapter else None
    return SlotRequest(packed_bytes(prompt), adapter, not prompt.is_read_skipped, None, tuple(user_starts))


def _bill(n_tokens: int, read: int) -> Usage:
    return Usage(n_tokens - read, read, 0, 0, 0)
