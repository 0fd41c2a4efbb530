"""When the plan is said again at the tail, where the model looks, and never in the system prompt.

Takes the entries of a log and the text to recite, gives the notice that is due. What was recited stays where it is (a
later request reads it from cache), or stands behind the last breakpoint for one reply only and is paid for in full each
time: `stays` chooses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contextkit.canonical import Json, parse
from contextkit.errors import UsageError
from contextkit.log.entry import Entry
from contextkit.log.log import Turns
from contextkit.memory.offload import BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Recitation:
    """The policy: each line is a reason to recite; None switches it off."""

    every_replies: int | None = 10
    """After so many replies of the model."""
    every_calls: int | None = 20
    """After so many answered calls."""
    beyond_tokens: int | None = 16_000
    """When so much was said since the last time, at four bytes a token."""
    on_change: bool = True
    """When the list is not what was recited last."""
    stays: bool = True
    """Whether it becomes a part of the history; if not, it is one block behind the last breakpoint, for one reply."""

    def __post_init__(self) -> None:
        for name in "every_replies", "every_calls", "beyond_tokens":
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"{name}={value!r}: a whole number of 1 or more, or None to leave this reason out")


class Recital:
    """What has happened in one conversation since the last recitation; fed every entry of its log, in order."""

    __slots__ = ("_last", "_n_bytes", "_n_calls", "_n_replies", "_recited_at")

    def __init__(self, log: Iterable[Entry] = ()) -> None:
        self._n_replies = self._n_calls = self._n_bytes = 0
        self._last, self._recited_at = "", -1
        for entry in log:
            self.feed(entry)

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        self._n_replies += entry.kind == "assistant"
        self._n_calls += entry.kind == "result"
        self._n_bytes += len(entry.body)
        if entry.kind == "epoch":  # it says the list itself
            self._n_replies = self._n_calls = self._n_bytes = 0
        elif entry.kind == "notice" and (event := parse(entry.body).get("event")) and event["type"] == "recitation":
            self._n_replies = self._n_calls = self._n_bytes = 0
            self._last, self._recited_at = parse(entry.body)["text"], entry.sequence

    def due(self, rule: Recitation, turns: Turns, text: str) -> Json | None:
        """Body of the notice that should stand behind what was said, None where nothing is due, or the model is not to
        speak next.
        """
        speaks_next = turns.has_pending_user and not turns.open_calls
        if not text or not speaks_next or turns.is_behind_reply(self._recited_at) or not self._has_reason(rule, text):
            return None
        return {"text": text, "event": {"type": "recitation"}, **({} if rule.stays else {"until": "reply"})}

    def _has_reason(self, rule: Recitation, text: str) -> bool:
        counts = (
            (rule.every_replies, self._n_replies),
            (rule.every_calls, self._n_calls),
            (rule.beyond_tokens, self._n_bytes // BYTES_PER_TOKEN),
        )
        return (rule.on_change and text != self._last) or any(
            limit is not None and count >= limit for limit, count in counts
        )
