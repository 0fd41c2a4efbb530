"""What the judge says of a model call: four lengths of its prompt, the gaps between them, whose doing each gap is.

`read ≤ readable ≤ shared ≤ similar ≤ prompt`, in tokens: what was billed as read; what the cache held under the
provider's rules; what the prompt shares with an earlier one from its start; what it would share had the program not
changed what it need not change. `docs/explanation/judge.md` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Literal

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.ledger.cold import as_read

VERSION = 1
"""Of the form in which verdicts are written."""
SHARE = 0.05
"""A loss up to this share of what is similar is noise (pydantic-ai-harness 0.62.0, `WarnOnCacheBusts`)."""
TOKENS = 2_000
"""A loss up to this many tokens is noise (same source)."""

Whose = Literal["program_bytes", "program_use", "provider", "unexplained", "nobody"]
"""Whose doing a gap is. program_bytes: the program changed bytes that it need not change; program_use: the bytes are
equal, and the program's use of the cache (breakpoints, pauses, parameters, model) kept them from being read; provider:
the cache had lost what it should have had, with evidence; unexplained: the same without evidence; nobody: rounding, a
prompt below the minimum, a first call, a declared rewrite of the history."""

Cause = Literal[
    "below_minimum",
    "first_write",
    "rules",
    "cold_start",
    "model_changed",
    "account_changed",
    "compaction",
    "params_changed",
    "tools_changed",
    "system_changed",
    "messages_changed",
    "ttl_expired",
    "cold_fan_out",
    "no_breakpoint",
    "breakpoint_place",
    "out_of_reach",
    "aborted",
    "reasoning_stripped",
    "session_resumed",
    "other_server",
    "unknown",
]

Basis = Literal["recorded", "assumed", "documented", "measured", "associated", ""]
"""What supports a cause. recorded: the record shows it; assumed: something, such as a lifetime, had to be assumed;
documented: the record shows something that, as the provider documents, has this effect; measured: something whose
effect was measured on other recordings; associated: something that came before the miss, which proves nothing (the
cause is `unknown`, or a change that was taken back); empty: nothing."""


NOTHING_TO_READ: tuple[Cause, ...] = ("first_write", "below_minimum")
"""Causes of calls that had nothing to read yet."""
WHOSE: Mapping[Cause, Whose] = MappingProxyType(
    {
        "below_minimum": "nobody",
        "first_write": "nobody",
        "rules": "nobody",
        "cold_start": "nobody",
        "compaction": "nobody",
        "model_changed": "program_use",
        "account_changed": "program_use",
        "params_changed": "program_use",
        "ttl_expired": "program_use",
        "cold_fan_out": "program_use",
        "no_breakpoint": "program_use",
        "breakpoint_place": "program_use",
        "out_of_reach": "program_use",
        "aborted": "program_use",
        "tools_changed": "program_bytes",
        "system_changed": "program_bytes",
        "messages_changed": "program_bytes",
        "reasoning_stripped": "program_bytes",
        "session_resumed": "program_bytes",
        "other_server": "provider",
        "unknown": "unexplained",
    }
)
"""Whose doing a gap of a cause is, unless the calls are of different conversations."""


def is_shortfall(similar_tokens: int, read_tokens: int) -> bool:
    """True where the difference exceeds the noise limits.

    >>> is_shortfall(40_000, 37_000), is_shortfall(100_000, 96_000), is_shortfall(1_500, 0)
    (True, False, False)
    """
    return similar_tokens - read_tokens > max(SHARE * similar_tokens, TOKENS)


@dataclass(frozen=True, slots=True)
class Gap:
    """One difference between two lengths of a prompt."""

    whose: Whose
    """Whose doing it is."""
    cause: Cause
    """Its cause."""
    tokens: int
    """Its size."""
    place: str = ""
    """The block that changed: `tools[2]`, `system[0] byte 812`; empty where none did."""
    evidence: str = ""
    """What the record shows."""
    basis: Basis = "recorded"
    """What supports the cause."""
    kind: str = ""
    """What changed, where that is known: a kind of change in the text (`clock`, `tool_order`), a setting (`effort`), or
    `upstream`, another host behind a gateway."""
    was: str = ""
    """Text of the earlier prompt around the change, secrets covered."""
    now: str = ""
    """Text of this prompt around it, secrets covered."""

    @property
    def is_avoidable(self) -> bool:
        """Return whether it counts as lost."""
        return self.whose != "nobody"

    @property
    def is_unproven(self) -> bool:
        """Return whether it rests on a bill that reports too little read, and on nothing that the program did."""
        return self.whose in ("provider", "unexplained")

    @property
    def is_costly(self) -> bool:
        """Return whether it has a price that is worth showing, though nothing was lost: a rewrite, or a cold start."""
        return self.cause in ("compaction", "cold_start") and is_shortfall(self.tokens, 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge says of one call; lengths are in tokens, None where they are unknown."""

    call_id: str
    """Id of the call."""
    prompt: int
    """Size of its prompt."""
    read: int | None
    """Billed as read; None where there is no bill."""
    readable: int | None
    """What the reference cache held for it; at least `read`."""
    shared: int | None
    """The common prefix with an earlier prompt; at least `readable`."""
    similar: int | None
    """What it has in common with an earlier prompt, wherever that stands; at least `shared`."""
    gaps: tuple[Gap, ...] = ()
    """The differences, the largest loss first."""
    earlier_id: str = ""
    """Id of the earlier call that it is compared with; empty where there is none."""
    candidates: tuple[str, ...] = ()
    """Ids of the earlier calls among which that one was chosen."""
    rule_error: int = 0
    """Tokens that were read beyond what the reference cache held."""
    predicted_read: int | None = None
    """What the reference cache held, before it was raised to what was read."""
    quote: Usage | None = None
    """Bill that the reference cache predicts, in estimated tokens; None where the call has one."""

    @property
    def lost_tokens(self) -> int:
        """Tokens that it would have read, had the causes of its avoidable gaps been absent."""
        return sum(gap.tokens for gap in self.gaps if gap.is_avoidable)

    @property
    def is_miss(self) -> bool:
        """Return whether its loss exceeds the noise limits."""
        lost = self.lost_tokens
        return lost > 0 and is_shortfall(max(self.similar or 0, lost + (self.read or 0)), self.similar_without_loss)

    @property
    def similar_without_loss(self) -> int:
        """`similar` less what was lost."""
        return max(self.similar or 0, self.lost_tokens + (self.read or 0)) - self.lost_tokens

    @property
    def main(self) -> Gap | None:
        """The gap that lost most, or the first one where none lost anything."""
        return max(self.gaps, key=lambda gap: (gap.is_avoidable, gap.tokens)) if self.gaps else None


def verdict_json(verdict: Verdict) -> dict[str, Json]:
    """Return a verdict as JSON, with the version of its form."""
    return {
        "format": VERSION,
        **asdict(verdict),
        "gaps": [asdict(gap) for gap in verdict.gaps],
        "lost_tokens": verdict.lost_tokens,
        "is_miss": verdict.is_miss,
    }


def loss_usd(usage: Usage, tokens: int, price: Callable[[Usage], float | None]) -> float | None:
    """Return what `tokens` that were not read cost above the price of reading them; None where a price is unknown."""
    paid, if_read = price(usage.with_output(0)), price(as_read(usage, tokens).with_output(0))
    return None if paid is None or if_read is None else paid - if_read


def gap_costs_usd(
    gaps: Sequence[Gap], usage: Usage | None, price: Callable[[Usage], float | None]
) -> list[float | None]:
    """Return what each gap of a call cost. Those of what was lost add up to the price of the whole loss: each is priced
    behind the ones before it, as the dearest tokens of a bill are lost but once.
    """
    costs, lost, before = list[float | None](), 0, 0.0
    for gap in gaps:
        if usage is None or not gap.is_avoidable:
            costs.append(None if usage is None else loss_usd(usage, gap.tokens, price))
            continue
        lost += gap.tokens
        whole = loss_usd(usage, lost, price)
        costs.append(None if whole is None else whole - before)
        before = whole or 0.0
    return costs
