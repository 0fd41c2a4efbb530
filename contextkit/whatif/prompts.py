"""All calls of a recording whose prompts are known, replayed as they were and with something changed in them.

Takes calls as they are judged, gives dollars by fix and reading. Outlines and bodies go through the same
reference cache, several lanes together, since they share what they share. Sizes of prompts are estimates where no
provider counted them: each call is scaled to the size it was billed for. What the reference cache does not explain of a
bill stays in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contextkit import prices
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.engines.simulate import simulate
from contextkit.errors import NotSerialisable
from contextkit.ledger.calls import Bodies, ModelCall, Outline
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.prompts import Growing, outline, read_body
from contextkit.models import model_named
from contextkit.providers.body_places import BODY_PLACES
from contextkit.providers.endpoints import endpoint_of
from contextkit.whatif.answer import Calibration
from contextkit.whatif.body_edits import Lane
from contextkit.whatif.fix import LIFETIMES, BodyEdit, Edited, Fix, Outlined, readings_of
from contextkit.whatif.from_end import cache_for
from contextkit.whatif.timed_lane import PricedCall

_BODY_LANE = "\x00body"
"""Behind a lane's name: outlines of bodies are differences to bodies."""
Watch = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class _Bill:
    """What is known of a call beside its prompt."""

    call: ModelCall
    usage: Usage
    recorded_usd: float
    is_body: bool


class Prompts:
    """Shown calls one by one; replays them at the end."""

    def __init__(self, fixes: Sequence[Fix]) -> None:
        self._fixes = [fix for fix in fixes if fix.outlines or fix.bodies]
        self._editors = {fix.name: fix.bodies() for fix in self._fixes if fix.bodies}
        self._growing = Growing()
        self._bills: list[_Bill | None] = []
        self._rows: dict[str, list[ModelCall]] = {name: [] for name in ("", *self._editors)}
        """Fix that edits bodies → calls as it leaves them; "" → as they were. Each has an outline."""
        self._before: dict[str, dict[Lane, Prompt]] = {name: {} for name in self._rows}
        self._edited: Counter[str] = Counter()
        self._notes: dict[str, str] = {}
        self._replayed_usd = 0.0
        self.saved_usd: dict[str, list[float]] = {}
        """Fix → dollars it saves under each of its readings; complete after `finish`."""
        self.why_not: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Fix → why calls are left out of it, and how many."""

    @property
    def is_wanted(self) -> bool:
        """Return whether any fix is answered here."""
        return bool(self._fixes)

    # Calls as they come
    # ---------------------------------------------------------------------------------------------------

    def see(self, call: ModelCall, priced: PricedCall | str, recorded_usd: float) -> None:
        """One more call; what is no call to a lane (`str`: why) may still warm the cache for others."""
        prompt = call.prompt
        if isinstance(prompt, Outline):
            reason = self._see_outline(call, prompt, priced, recorded_usd)
        elif isinstance(prompt, Bodies):
            reason = self._see_body(call, prompt.request, priced, recorded_usd)
        else:
            reason = "neither a body nor an outline in the record"
        for fix in self._fixes:
            is_short = fix.bodies is not None and isinstance(prompt, Outline)
            why = "no request body in the record, only its outline" if is_short else reason
            self.why_not[fix.name].update([why] if why else [])

    def _see_outline(self, call: ModelCall, current: Outline, priced: PricedCall | str, recorded_usd: float) -> str:
        prompt = self._growing.prompt(call)
        reason = priced if isinstance(priced, str) else _unreadable(priced, prompt, is_body=False)
        row = model_named(call.model, call.provider) if isinstance(priced, str) else priced.row
        if prompt is None:
            return reason
        bill = None if isinstance(priced, str) or reason else _Bill(call, priced.usage, recorded_usd, is_body=False)
        self._keep(bill, {"": _placed(replace(call, model=row.name), len(self._bills))})
        return reason

    def _see_body(self, call: ModelCall, raw: bytes, priced: PricedCall | str, recorded_usd: float) -> str:
        if isinstance(priced, str):
            return priced
        read = read_body(raw, call.provider, priced.row.name)
        reason = (
            "its body is of no wire that is read" if read is None else _unreadable(priced, read.prompt, is_body=True)
        )
        if read is None or reason:
            return reason
        rows = {"": read.prompt}
        for name, editor in self._editors.items():
            changed = self._after(editor, call, raw, priced.row.name)
            self._edited[name] += changed is not None
            rows[name] = changed or read.prompt
        outlined_rows = {name: self._outlined(name, call, priced.row.name, prompt) for name, prompt in rows.items()}
        self._keep(_Bill(call, priced.usage, recorded_usd, is_body=True), outlined_rows)
        return ""

    def _after(self, editor: BodyEdit, call: ModelCall, raw: bytes, model: str) -> Prompt | None:
        """Return the prompt of a body after an edit, None if it is what it was."""
        try:
            fields: Json = parse(raw)
        except NotSerialisable:
            return None
        wire = endpoint_of(fields, f"{call.provider} {model}".lower()) if isinstance(fields, dict) else ""
        if wire not in BODY_PLACES or not editor.edit((call.session, call.lane), wire, fields):
            return None
        read = read_body(canonical(fields), call.provider, model)
        return read.prompt if read else None

    def _outlined(self, name: str, call: ModelCall, model: str, prompt: Prompt) -> ModelCall:
        lane = call.session, call.lane + _BODY_LANE
        before, self._before[name][lane] = self._before[name].get(lane), prompt
        current = outline(before, prompt, [-1] * prompt.n, 0)
        return _placed(replace(call, lane=lane[1], model=model, prompt=current), len(self._bills))

    def _keep(self, bill: _Bill | None, rows: Mapping[str, ModelCall]) -> None:
        self._bills.append(bill)
        for name, rows_of in self._rows.items():
            rows_of.append(rows.get(name, rows[""]))

    # At the end
    # -----------------------------------------------------------------------------------------------------------

    def finish(self, watch: Watch = iter) -> None:
        """Replay everything that was seen, as it was and with each change."""
        if not any(self._bills):
            return
        was = {lifetime: _replayed(self._rows[""], lifetime, watch) for lifetime in LIFETIMES}
        first = was[LIFETIMES[0]]
        self._replayed_usd = sum(self._usd(place, usage, usage) for place, usage in first.items() if self._bills[place])
        reads = [usage.read or 0 if (usage := first.get(place)) else 0 for place in range(len(self._bills))]
        for fix in self._fixes:
            edited = self._changed(fix, Outlined(self._rows[""], reads))
            self._edited[fix.name], self._notes[fix.name] = edited.n_changed, edited.note
            now = (
                {lifetime: _replayed(edited.calls, lifetime, watch) for lifetime in LIFETIMES}
                if edited.n_changed
                else was
            )
            places = [place for place, bill in enumerate(self._bills) if bill and self._is_covered(fix, bill)]
            self.saved_usd[fix.name] = [
                sum(self._saved(place, was[reading["lifetime"]], now[reading["lifetime"]]) for place in places)
                for reading in readings_of(fix)
            ]

    def _changed(self, fix: Fix, outlined: Outlined) -> Edited:
        return fix.outlines(outlined) if fix.outlines else Edited(self._rows[fix.name], self._edited[fix.name])

    def _saved(self, place: int, was: Mapping[int, Usage], now: Mapping[int, Usage]) -> float:
        """What one call saves; nothing where an interruption kept either from being replayed."""
        before, after = was.get(place), now.get(place)
        return (
            0.0
            if before is None or after is None
            else self._usd(place, before, before) - self._usd(place, after, before)
        )

    def _usd(self, place: int, usage: Usage, was: Usage) -> float:
        """Dollars for a replayed bill, scaled to the size that the prompt as it `was` has in the recorded bill."""
        bill = self._bills[place]
        if bill is None:
            return 0.0
        scale = (bill.usage.prompt or 0) / (was.prompt or 1)
        fresh, read, short, long = (
            round((part or 0) * scale) for part in (usage.fresh, usage.read, usage.write_5m, usage.write_1h)
        )
        call, paid = bill.call, Usage(fresh, read, short, long, bill.usage.output or 0)
        return prices.cost_usd(call.provider, call.model, paid, call.at) or 0.0

    def _is_covered(self, fix: Fix, bill: _Bill) -> bool:
        return bill.is_body or fix.bodies is None

    # What is said of it
    # ---------------------------------------------------------------------------------------------------

    def n_calls(self, fix: Fix) -> int:
        """Calls it was answered for."""
        return sum(1 for bill in self._bills if bill and self._is_covered(fix, bill))

    def n_changed(self, fix: Fix) -> int:
        """Calls whose prompt, or whose start, it changes."""
        return self._edited[fix.name]

    def note(self, fix: Fix) -> str:
        """What else is to be said of it."""
        return self._notes.get(fix.name, "")

    def answered_from(self, fix: Fix) -> str:
        """Of what the calls it was answered for were recorded as."""
        kinds = {bill.is_body for bill in self._bills if bill and self._is_covered(fix, bill)}
        return " and ".join(
            name for is_body, name in ((False, "outlines"), (True, "request bodies")) if is_body in kinds
        )

    @property
    def calibration(self) -> Calibration:
        """How far the reference cache explains the bills from the prompts."""
        bills = [bill for bill in self._bills if bill]
        return Calibration(
            "outlines and request bodies", len(bills), sum(bill.recorded_usd for bill in bills), self._replayed_usd
        )


def _unreadable(priced: PricedCall, prompt: Prompt | None, *, is_body: bool) -> str:
    """Why a call whose prompt is known cannot be replayed, empty where it can."""
    is_cached = bool(priced.usage.read or priced.usage.write_5m or priced.usage.write_1h)
    if prompt is None or not prompt.n:
        return "its prompt is empty"
    is_unmarked = (
        priced.row.cache == "breakpoints" and not prompt.breakpoints
    )  # a body that is cached nowhere has none either
    return "its breakpoints were not recorded" if is_unmarked and (is_cached or not is_body) else ""


def _placed(call: ModelCall, place: int) -> ModelCall:
    """A call that is found again by its id; one that was billed began, at the latest when it ended."""
    ended = call.at if call.ended_at is None else call.ended_at
    begins = ended if call.first_byte_at is None and call.usage is not None else call.first_byte_at
    return replace(call, id=str(place), first_byte_at=begins)


def _replayed(calls: Sequence[ModelCall], lifetime: str, watch: Watch) -> dict[int, Usage]:
    """Return place → bill."""
    ledger = Ledger()
    for call in calls:
        ledger.append(call)
    replayed = simulate(ledger, cache_of=lambda model: cache_for(model_named(model), lifetime), watch=watch)
    return {int(call.id): call.usage for call in replayed if call.usage}
