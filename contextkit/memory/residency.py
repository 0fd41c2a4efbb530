"""Chooses how each large tool result lives in the window, and counts how often models read results back.

`Residency` is the policy a user gives; `ReadBacks` follows a log; `choose` weighs the four residencies of
`economics/residency.py` with what was observed. The choice is written into the log with the result, so a conversation
that is opened again renders the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from contextkit.canonical import Json, parse
from contextkit.economics.residency import MOST_CALLS, Outlook, Prices, ResidencyKind, Sizes, costs_usd
from contextkit.errors import UsageError
from contextkit.log.entry import Entry
from contextkit.memory.reference import ID_DIGITS, references_of

Rule = Literal["auto", "stay", "pass", "reference", "delegate"]
FEWEST_CALLS = 8
"""Calls to come of a session that has only begun; an assumption, as is that later ones go on as long as they lasted."""
LEAST_READING_BYTES = 2_000
"""What is read back and is not larger stays in the window."""
READING_NOTE_TOKENS = 40
"""What stands in place of a passage that was read back and shown once."""
_PRIORS = {"pass": 0.1, "reference": 0.5}
"""Share of results that are read back after they were seen whole, and after a preview, before any was observed; an
assumption."""
_PRIOR_WEIGHT = 2.0
"""How many results a prior counts for, beside those that were observed."""
_KINDS = get_args(ResidencyKind)
_READER = b'"read_reference"'
_EXCLUDED: Mapping[ResidencyKind, str] = {
    "pass": "the model binds its reasoning to its past (Residency(drops_reasoning=True) leaves that reasoning out)",
    "reference": "results are to be seen whole",
    "delegate": "it needs a side call (Residency(delegates=True))",
}
"""Why a residency is not allowed."""


@dataclass(frozen=True, slots=True)
class Residency:
    """How large results live in the window: chosen for each by expected cost, or fixed for a tool.

    >>> Residency(by_tool={"fetch": "pass"}).rule("fetch"), Residency().rule("fetch")
    ('pass', 'auto')
    """

    default: Rule = "auto"
    """`auto` weighs the residencies that the other fields allow; any other name fixes one."""
    by_tool: Mapping[str, Rule] = field(default_factory=dict)
    """Tool → its own rule."""
    shows_whole: bool = False
    """Whether the model is to see each result whole once: then `auto` never chooses `reference`."""
    delegates: bool = False
    """Whether `auto` may choose `delegate`, which needs a call of its own for each such result."""
    drops_reasoning: bool = False
    """Whether a result may be shown once to a model that binds its reasoning to what stood before it. The reasoning of
    the reply that saw the whole result leaves later prompts then; without this, such models never get *pass*."""
    calls_to_come: int | None = None
    """Expected calls behind a result; None: as many as the conversation had, and 8 at least."""

    def __post_init__(self) -> None:
        for name, rule in {"default": self.default, **self.by_tool}.items():
            if rule not in get_args(Rule):
                raise UsageError(f"the residency {rule!r} of {name!r} is none of {', '.join(get_args(Rule))}")
        calls = self.calls_to_come
        if calls is not None and (type(calls) is not int or calls < 0):
            raise UsageError(f"calls_to_come={calls!r}: a whole number of 0 or more, or None for an estimate")

    @classmethod
    def of(cls, rule: Residency | Rule | None) -> Residency | None:
        """A policy from its short form, the name of a rule. Raises `UsageError` for anything else."""
        if rule is None or isinstance(rule, Residency):
            return rule
        if isinstance(rule, str):
            return cls(default=rule)
        raise UsageError(
            f"residency is a contextkit.memory.Residency, one of {', '.join(get_args(Rule))}, or None, "
            f"not {type(rule).__name__}"
        )

    def rule(self, tool: str) -> Rule:
        """The rule of a tool."""
        return self.by_tool.get(tool, self.default)


@dataclass(frozen=True, slots=True)
class Decision:
    """How one result lives, and what was weighed."""

    kind: ResidencyKind
    """The choice."""
    costs_usd: Mapping[ResidencyKind, float]
    """Expected dollars of each residency; empty where the model has no price."""
    outlook: Outlook
    """Calls to come and chances of being read back that it was weighed with."""
    result_tokens: int
    """Size of the result, at four bytes a token."""
    is_fixed: bool
    """Whether a rule fixed it."""
    excluded: tuple[ResidencyKind, ...] = ()
    """Residencies that were not allowed."""
    drops_reasoning: bool = False
    """Whether *pass* costs the reasoning of the reply that sees the whole result."""

    @property
    def body(self) -> dict[str, Json]:
        """As the log holds it."""
        return {
            "kind": self.kind,
            "is_fixed": self.is_fixed,
            "result_tokens": self.result_tokens,
            "costs_usd": {kind: round(cost, 9) for kind, cost in self.costs_usd.items()},
            "calls_to_come": self.outlook.calls_to_come,
            "read_back": round(self.outlook.read_back, 4),
            "read_first": round(self.outlook.read_first, 4),
            "excluded": list(self.excluded),
        }

    @classmethod
    def of(cls, body: Mapping[str, Json]) -> Decision:
        """The decision that a log holds."""
        outlook = Outlook(body["calls_to_come"], body["read_back"], body["read_first"])
        excluded = tuple(body["excluded"])
        return cls(body["kind"], body["costs_usd"], outlook, body["result_tokens"], body["is_fixed"], excluded)

    def explain(self, tool: str) -> str:
        """One line: the choice, its cost and that of the others."""
        head = f"{self.kind}: a result of {tool}, about {self.result_tokens:,} tokens"
        if not self.costs_usd:
            return f"{head}; {'fixed by its rule' if self.is_fixed else 'the model has no price to weigh'}"
        weighed = ", ".join(f"{kind} ${cost:.4f}" for kind, cost in sorted(self.costs_usd.items(), key=lambda p: p[1]))
        how = "fixed by its rule; " if self.is_fixed else ""
        chances = f"{self.outlook.read_back:.0%} are read again after they were seen, {self.outlook.read_first:.0%} after a preview"
        excluded = "".join(f"; not {kind}: {_EXCLUDED[kind]}" for kind in self.excluded)
        return f"{head}; {how}{weighed} over {self.outlook.calls_to_come} calls to come ({chances}){excluded}"


class ReadBacks:
    """Counts, for each tool, the results of which previews stand in the window and those that were read back."""

    __slots__ = ("_n_read", "_n_shown", "_unread", "n_replies")

    def __init__(self) -> None:
        self.n_replies = 0
        """Replies so far."""
        self._unread: dict[str, tuple[str, str]] = {}
        """Id of a reference nobody has read → (tool, residency) of its result."""
        self._n_shown: dict[tuple[str, str], int] = {}
        self._n_read: dict[tuple[str, str], int] = {}

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if entry.kind == "assistant":
            self.n_replies += 1
            if _READER in entry.body:
                self._count_read_back(parse(entry.body))
        elif entry.kind == "result" and b'"references":' in entry.body:
            self._count_previews(entry)

    def _count_previews(self, entry: Entry) -> None:
        body = parse(entry.body)
        key = body["name"], str((body.get("residency") or {}).get("kind", "reference"))
        for reference in references_of(entry):
            if reference.id not in self._unread:
                self._unread[reference.id] = key
                self._n_shown[key] = self._n_shown.get(key, 0) + 1

    def _count_read_back(self, reply: Json) -> None:
        for call in reply["calls"]:
            names = _strings(call["arguments"]) if call["name"].encode() in _READER else ()
            for name in names:
                key = self._unread.pop(name.strip().lower()[:ID_DIGITS], None)
                if key is not None:
                    self._n_read[key] = self._n_read.get(key, 0) + 1

    def chance(self, tool: str, kind: Literal["pass", "reference"]) -> float:
        """Share of a tool's results of this residency that are read back, a prior included."""
        shown, read = self._n_shown.get((tool, kind), 0), self._n_read.get((tool, kind), 0)
        return (_PRIORS[kind] * _PRIOR_WEIGHT + read) / (_PRIOR_WEIGHT + shown)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a result comes into."""

    prices: Prices | None
    """The model's prices; None where it has none."""
    prefix_tokens: int
    """Tokens of the prompt before it."""
    binds_reasoning: bool
    """Whether the model binds its reasoning to what stood before it."""


def choose(
    policy: Residency,
    tool: str,
    sizes: Sizes,
    observed: ReadBacks,
    around: Surroundings,
    *,
    can_delegate: bool = False,
    is_reading: bool = False,
) -> Decision:
    """How a result of `tool` is to live.

    Without prices `auto` is `reference`, or `stay` where the model is to see it whole. `can_delegate`: whether the
    caller makes the side call where *delegate* is chosen. `is_reading`: the result is read back from what is stored, so
    it stays, or is shown once.
    """
    calls = policy.calls_to_come if policy.calls_to_come is not None else max(FEWEST_CALLS, observed.n_replies)
    outlook = Outlook(
        min(calls, MOST_CALLS),
        observed.chance(tool, "pass"),
        observed.chance(tool, "reference"),
        can_pass=policy.drops_reasoning or not around.binds_reasoning,
    )
    costs = {} if around.prices is None else costs_usd(sizes, outlook, around.prices)
    rule, drops = policy.rule(tool), around.binds_reasoning
    excluded = set[ResidencyKind]()
    if not outlook.can_pass:
        excluded.add("pass")
    if is_reading or not can_delegate:
        excluded.add("delegate")
    if is_reading:
        excluded.add("reference")
    if rule != "auto" and rule not in excluded:
        return Decision(rule, costs, outlook, sizes.result_tokens, True, (), drops)
    if policy.shows_whole:
        excluded.add("reference")
    if not policy.delegates and rule != "delegate":
        excluded.add("delegate")
    allowed = [kind for kind in _KINDS if kind not in excluded]
    cheapest: ResidencyKind = "stay" if policy.shows_whole or is_reading else "reference"
    if costs:
        cheapest = min(allowed, key=costs.__getitem__)
    return Decision(cheapest, costs, outlook, sizes.result_tokens, False, tuple(sorted(excluded)), drops)


def reading_note(tool: str, call: str) -> list[Json]:
    """What stands in place of a passage that was read back and shown once."""
    return [{"type": "text", "text": f"[Shown once, to the reply that follows. {tool}({call}) shows it again.]"}]


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
