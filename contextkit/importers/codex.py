"""Rollouts of Codex (`~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, `archived_sessions` too): their bills.

Takes a source, gives one call for each step of the cumulative counters and what is known beside it. Prompts are not
given: what Codex sends around the items of the file is in no line.

* `token_count` events say `total_token_usage`, which only grows, and `last_token_usage`. An event whose totals are
  those of the event before is the same one again; `info: null` says only rate limits. What the totals grew by is the
  bill. Where that is more than `last_token_usage`, the rest is the bill of a call that was interrupted, which has no
  event of its own.
* `input_tokens` holds what was read (`cached_input_tokens`) and written (`cache_write_input_tokens`, where the build
  says it; where it does not, and writes cost, they are a lower bound).
* Totals that fall are a fault, and counting starts anew there.
* A fork begins with a copy of its parent's events, written within a moment: they are calls of the parent, counted in its
  file. What was counted in another file is not counted again.
* The event is written after the tools have run. A call starts at the last item that was put to the model, and ends at
  the model's last.
* `thread_name_updated` events name the session, else the last line of `session_index.jsonl` in Codex's home folder that
  is about it.
* `turn_context` says model and effort; `compacted` that a summary took the place of the history. The first call behind a
  message of the user's is remarked as a turn, with the reasoning tokens of the turn before it.
* `thread_settings_applied` says the service tier that is asked for from then on; the tier that served a call is in no
  line (codex-rs/protocol/src/protocol.rs, `ThreadSettingsSnapshot`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from contextkit.cache.usage import Usage, tier_named
from contextkit.facts.load import provider_id
from contextkit.importers.format import by_line, first_line
from contextkit.importers.source import Source, load_json
from contextkit.importers.transcript import has_blanks, parsed, plausible, recorded_id, spelled
from contextkit.ledger.calls import ModelCall, Record, Remark, RemarkKind
from contextkit.ledger.misses import is_free_to_write

NEAR = 400
"""Bytes at the front of a line in which its own keys stand."""
PROVIDER = "openai"
"""Where the session names none."""
Counts = tuple[int, int | None, int | None, int]
"""Input, cached and written (None where nobody says), output."""


def is_codex(head: bytes) -> bool:
    """Return whether a file that starts like this is a rollout.

    >>> is_codex(b'{"timestamp":"2026-07-03T18:15:00Z","type":"session_meta","payload":{"id":"a"}}'), is_codex(b'{"type":"session"}')
    (True, False)
    """
    line = first_line(head)
    is_item = b'"payload"' in line and b'"type"' in line and any(kind in line[:NEAR] for kind in _KINDS)
    return line.startswith(b"{") and b'"contextkit_ledger"' not in line and is_item


_KINDS = (b'"session_meta"', b'"turn_context"', b'"event_msg"', b'"response_item"')


_PARSED = re.compile(rb'"t(?:oken_count|urn_context|hread_(?:name_updated|settings_applied))"|"session_meta"')
_ITEM = re.compile(rb'"payload":\{(?:"id":"[^"]*",)?"type":"(\w+)"(?:[^{}\[\]]*?"role":"(\w+)")?')
_TYPE = b'"payload":{"type":"'
_WHEN = re.compile(rb'"timestamp":"([^"]{10,40})"')
_ASKED = {
    b"function_call_output",
    b"custom_tool_call_output",
    b"user_message",
    b"task_started",
    b"turn_started",
    b"tool_search_output",
}
_SAID = {
    b"reasoning",
    b"function_call",
    b"custom_tool_call",
    b"local_shell_call",
    b"web_search_call",
    b"tool_search_call",
    b"agent_message",
    b"agent_reasoning",
}
"""Items that the model wrote; a `message` is its own, or was put to it, by its role."""


class Rollout:
    """Where a session stands."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.is_spaced = has_blanks(source.head)
        self.session, self.lane, self.forked_from = source.label, "main", ""
        self.has_head = False
        self.provider, self.model, self.effort, self.tier = PROVIDER, "unknown", "", ""
        self.copied_at: float | None = None
        """When a fork's copy of its parent's events was last written to; None where that is over."""
        self.totals: Counts | None = None
        self.n_calls = self.n_known = self.n_copied = 0
        self.said_next: dict[RemarkKind, str] = {}
        self.about: list[Remark] = []
        self.asked: bytes | None = None
        self.said: bytes | None = None
        self.asked_next: bytes | None = None
        self.is_turn = self.is_turn_next = False
        """Whether the call that is open, and the one behind it, is the first behind a message of the user's."""
        self.n_reasoning = 0
        """Reasoning tokens of the current turn."""
        self.ended = self.counted_at = 0.0

    def hear(self, number: int, line: bytes) -> Iterable[Record]:
        """The next line: only what says counts or settings is parsed."""
        spelling = spelled(self.source, number, line, is_spaced=self.is_spaced)
        if spelling is None:
            return ()
        near = spelling[:NEAR]
        if _PARSED.search(near):
            record = parsed(self.source, number, spelling)
            return () if record is None else self._records_of(number, record)
        if b'"payload"' in near:
            self.passing(near)
        elif b'"payload"' not in spelling:
            self.source.fault(number, "no line of a rollout; passed over")
        return ()

    def waiting(self) -> Iterable[Record]:
        """Nothing is held back."""
        return ()

    def passing(self, near: bytes) -> None:
        """An item that is not parsed: only when it was, and who wrote it."""
        at = near.find(_TYPE)
        if at > 0:
            kind, role = near[at + 19 : near.find(b'"', at + 19)], None
        if at < 0 or kind == b"message":
            item = _ITEM.search(near)
            kind, role = (item[1], item[2]) if item else (b"", None)
        if kind in _SAID or (kind == b"message" and role == b"assistant"):
            self.said = near
        elif kind in _ASKED or (kind == b"message" and role == b"user"):
            is_user = kind in (b"user_message", b"message")
            if self.said:
                self.asked_next, self.is_turn_next = near, self.is_turn_next or is_user
            else:
                self.asked, self.is_turn = near, self.is_turn or is_user
        elif b'"type":"compacted"' in near or kind == b"context_compacted":
            self.said_next["compaction"] = "Codex compacted the history"

    def _records_of(self, number: int, record: dict[str, Any]) -> Iterator[Record]:
        payload = record.get("payload")
        if not isinstance(payload, dict):
            return
        if record.get("type") == "session_meta":
            self._head(payload, plausible(record.get("timestamp")))
        elif record.get("type") == "turn_context":
            self._turn(payload)
        elif payload.get("type") == "thread_name_updated":
            yield from self._named(payload.get("thread_name"))
        elif payload.get("type") == "thread_settings_applied" and isinstance(payload.get("thread_settings"), dict):
            tier = tier_named(payload["thread_settings"].get("service_tier"))
            self.tier = "priority" if tier == "fast" else tier  # what Codex calls fast is OpenAI's priority
        elif payload.get("type") == "token_count" and isinstance(payload.get("info"), dict):
            if self._is_copy(plausible(record.get("timestamp"))):
                self._add_counted(_counts(self.source, number, payload["info"].get("total_token_usage")))
                self.n_copied += 1
                return
            yield from self._counted(number, record, payload["info"])

    def _head(self, payload: dict[str, Any], at: float | None) -> None:
        """Copy the recorded names of session, parent thread and fork.

        The first record is of this session; further ones came with the history of the session it was forked from.
        """
        own = payload.get("id") or payload.get("session_id")
        if self.has_head or not isinstance(own, str):
            return
        own = recorded_id(own) or self.source.label
        self.has_head, self.session = True, own
        self.forked_from = recorded_id(payload.get("forked_from_id"))
        self.copied_at = at if self.forked_from else None
        self.provider = provider_id(str(payload.get("model_provider") or PROVIDER))
        spawned = _spawned(payload.get("source"))
        if spawned is not None:
            self.session, self.lane = recorded_id(spawned.get("parent_thread_id")) or own, own
            name = payload.get("agent_nickname") or spawned.get("agent_nickname") or payload.get("agent_role")
            self.about += [Remark("agent", f"{self.session}/{own}", name)] if isinstance(name, str) else []
        if isinstance(payload.get("cwd"), str):
            self.about.append(Remark("project", self.session, payload["cwd"]))
        self.about += self._named(_indexed_name(self.source.name, own))

    def _named(self, name: object) -> list[Remark]:
        """What the session is called; a sub-agent's name is none of the session."""
        is_name = self.lane == "main" and isinstance(name, str) and bool(name.strip())
        return [Remark("title", self.session, str(name).strip())] if is_name else []

    def _turn(self, payload: dict[str, Any]) -> None:
        if isinstance(payload.get("model"), str):
            self.model = payload["model"]
        effort = payload.get("effort")
        if isinstance(effort, str):
            if self.n_calls and self.effort not in ("", effort):
                self.said_next["setting"] = f"effort {self.effort} → {effort}"
            self.effort = effort

    def _counted(self, number: int, record: dict[str, Any], info: dict[str, Any]) -> Iterator[Record]:
        totals, last = (
            _counts(self.source, number, info.get(name)) for name in ("total_token_usage", "last_token_usage")
        )
        if totals is None and last is None:
            self.source.fault(number, "a token_count without counts; passed over")
            return
        if totals is not None and totals == self.totals:
            return
        if totals is not None and not self._is_new(totals):
            self._add_counted(totals)
            self.n_known += 1
            return
        now = plausible(record.get("timestamp"))
        billed = (
            last
            if totals is None
            else self._billed(number, totals, last, is_late=now is not None and now < self.counted_at)
        )
        if billed is None or not any(billed):
            return
        self.counted_at = now or self.counted_at
        interrupted = None if last is None else _rest(billed, last)
        if interrupted is not None:
            self.source.fault(number, "the totals grew by more than last_token_usage; the rest is an interrupted call")
            yield from self._call(number, interrupted, self.ended, None, "aborted")
            billed = last or billed
        yield from self._call(number, billed, *self._times(number, now))
        n_reasoning = info["last_token_usage"].get("reasoning_output_tokens") if last else None
        self._end_call(self.source.count(number, n_reasoning))

    def _end_call(self, n_reasoning: int | None) -> None:
        """Go on to the next call; `n_reasoning` is what the one before it wrote of reasoning, None where nobody says."""
        self.n_reasoning = (0 if self.is_turn else self.n_reasoning) + (n_reasoning or 0)
        self.is_turn, self.is_turn_next = self.is_turn_next, False

    def _call(
        self, number: int, billed: Counts, at: float, ended: float | None, error: str | None = None
    ) -> Iterator[Record]:
        """The remarks on a call, then the call."""
        yield from self.about
        self.n_calls += 1
        identity = f"{self._own}/{self.n_calls}"
        yield from (Remark(kind, identity, text) for kind, text in self.said_next.items())
        if self.is_turn:
            yield Remark("turn", identity, str(self.n_reasoning))
        self.about.clear()
        self.said_next.clear()
        yield ModelCall(
            id=identity,
            session=self.session,
            lane=self.lane,
            at=at,
            ended_at=ended,
            provider=self.provider,
            model=self.model,
            usage=self._usage(number, billed),
            error=error,
        )

    @property
    def _own(self) -> str:
        return self.session if self.lane == "main" else self.lane

    def _is_new(self, totals: Counts) -> bool:
        """Return whether nothing read before says the same of this session, or of the one it was forked from."""
        names = [name for name in (self._own, self.forked_from) if name]
        keys = [f"{name} {totals}".encode("utf-8", "surrogatepass") for name in names]
        news = [self.source.is_new(b"codex", key) for key in keys]  # each is asked: asking is telling
        return all(news)

    def _is_copy(self, now: float | None) -> bool:
        """Return whether an event is part of the copy that a fork begins with: no second lies between its lines."""
        if self.copied_at is None or now is None or now - self.copied_at >= 1:
            self.copied_at = None
            return False
        self.copied_at = now
        return True

    def _add_counted(self, totals: Counts | None) -> None:
        """An event that was counted before, here or in the session this one was forked from: only where the totals
        stand is new.
        """
        if totals is not None and (self.totals is None or not _fell(totals, self.totals)):
            self.totals = totals
        self.said_next.clear()

    def _billed(self, number: int, totals: Counts, last: Counts | None, is_late: bool) -> Counts | None:
        """What a call took: what the totals grew by; None where that is counted already."""
        before = self.totals
        if before is not None and is_late and _fell(totals, before):
            self.source.fault(
                number, "out of order: what it says is in the totals that were read before it; not counted again"
            )
            return None
        self.totals = totals
        if before is None or _fell(totals, before):
            if before is not None:
                self.source.fault(number, "cumulative counts fell; counted anew from here")
            elif last is not None and last != totals:
                self.source.fault(
                    number, "the totals start above the first call: earlier calls are not in this file, and not counted"
                )
            return last or totals
        grown = _less(totals, before)
        if last is not None and (last[0], last[3]) != (grown[0], grown[3]) and _rest(grown, last) is None:
            self.source.fault(number, "last_token_usage is not what the totals grew by; the growth stands")
        return grown

    def _usage(self, number: int, billed: Counts) -> Usage | None:
        prompt, read, write, output = billed
        if (read or 0) + (write or 0) > prompt:
            self.source.fault(number, "more read and written than was sent; its bill is unknown")
            return None
        if read is None:
            return Usage(output=output)
        written = None if write is None else {1800: write}
        usage = Usage(prompt - read - (write or 0), read, writes=written, output=output, service_tier=self.tier)
        is_free = write is not None or is_free_to_write(self.provider, self.model)
        return usage if is_free else usage.with_unreported_writes()

    def _times(self, number: int, now: float | None) -> tuple[float, float]:
        """When a call started and ended."""
        if now is None:
            self.source.fault(
                number, "no time, or one of a clock that was never set; the time of the call before stands in"
            )
            now = self.ended
        if now < self.ended - 1:
            self.source.fault(
                number, "earlier than the line before it: a wrong clock, or lines out of order; taken as it stands"
            )
        ended = min(_when(self.said) or now, now)
        asked = _when(self.asked)
        at = asked if asked is not None and asked <= ended else min(max(self.ended, ended - 3600), ended)
        self.asked, self.said, self.asked_next, self.ended = self.asked_next, None, None, ended
        return at, ended

    def finish(self) -> None:
        """Report what concerns the file as a whole."""
        if self.said and not (self.n_calls or self.n_known or self.n_copied):
            self.source.fault(0, "none of its replies says token counts; they are in no figure")
        if self.n_known:
            self.source.fault(
                0, f"{self.n_known:,} calls stand in a file read before, as forks repeat them; counted once"
            )
        if self.n_copied:
            self.source.fault(
                0,
                f"{self.n_copied:,} events are a copy of the session it was forked from; counted in that session's file",
            )


read = by_line(Rollout)


def _spawned(source: object) -> dict[str, Any] | None:
    """What a sub-agent's session says of who started it, None for a session of its own."""
    agent = source.get("subagent") if isinstance(source, dict) else None
    if agent is None:
        return None
    spawned = agent.get("thread_spawn") if isinstance(agent, dict) else None
    return spawned if isinstance(spawned, dict) else {}


def _indexed_name(file: str, session: str) -> str | None:
    """What the index beside Codex's folders of rollouts calls a session; of several lines about it the last."""
    for folder in list(Path(file).absolute().parents)[:_MOST_FOLDERS]:
        if folder.name in ("sessions", "archived_sessions"):
            index = folder.parent / "session_index.jsonl"
            return _names(str(index), index.stat().st_mtime_ns).get(session) if index.is_file() else None
    return None


_MOST_FOLDERS = 4
"""From a rollout up to `sessions`: day, month, year, and itself."""


@lru_cache(maxsize=4)
def _names(index: str, written_at_ns: int) -> dict[str, str]:
    """Session → its name; read anew once the index was written."""
    names = {}
    for line in Path(index).read_bytes().splitlines():
        try:
            row = load_json(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict) and isinstance(row.get("thread_name"), str):
            names[str(row.get("id"))] = row["thread_name"]
    return names


def _counts(source: Source, line: int, said: object) -> Counts | None:
    if not isinstance(said, dict):
        return None
    names = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")
    prompt, read, write, output = (source.count(line, said.get(name)) for name in names)
    return None if prompt is None or output is None else (prompt, read, write, output)


def _fell(totals: Counts, before: Counts) -> bool:
    return any(now is not None and now < (was or 0) for now, was in zip(totals, before, strict=True))


def _rest(grown: Counts, last: Counts) -> Counts | None:
    """What the totals grew by beyond the last call: the bill of one more call; None where it can be none."""
    rest = _less(grown, last)
    is_bill = rest[0] > 0 and rest[3] > 0 and all(count is None or count >= 0 for count in rest)
    return rest if is_bill and (rest[1] or 0) + (rest[2] or 0) <= rest[0] else None


def _less(totals: Counts, before: Counts) -> Counts:
    read, write = (
        None if now is None or was is None else now - was for now, was in zip(totals[1:3], before[1:3], strict=True)
    )
    return totals[0] - before[0], read, write, totals[3] - before[3]


def _when(near: bytes | None) -> float | None:
    found = _WHEN.search(near) if near else None
    return plausible(found[1].decode("ascii", "replace")) if found else None
