"""What a conversation keeps outside its window and how it begins anew: changes told once, results restored, compactions
declared.

It has no rule of its own: what is large and what is recited is `memory/`, what moves and what stays is `log/turns.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from contextkit.canonical import Json, canonical, parse
from contextkit.context.branching import Branching
from contextkit.errors import UsageError
from contextkit.log.content import content_parts
from contextkit.log.entry import Change, Entry
from contextkit.memory.compaction import INSTRUCTION, goal_of, opening, replaced
from contextkit.memory.keeping import NO_READER, references_of
from contextkit.memory.memory import Memory
from contextkit.memory.offload import Offload, bytes_of
from contextkit.memory.recall.current import name_of
from contextkit.memory.recall.recall import recall
from contextkit.memory.reference import Reference
from contextkit.memory.search.entries import entry_id
from contextkit.providers.settings import (
    FIELD,
    IN_BAND,
    OutputChanged,
    in_force,
    lowered,
    out_of_band,
    output_of,
    read,
    routing,
)


class Remembering(Branching):
    """A conversation with a memory."""

    def compact(self, summary: Any, keep_from: Entry | int | None = None) -> Entry:
        """Open a new epoch that starts from `summary` and the entries from `keep_from` on.

        The next request pays for the whole prompt.

        `summary` is text, parts, or the branch made by `summarising`. With a memory the epoch also says again what the
        user asked at the beginning, what is still to do, and which references can be read.
        """
        kept = None if keep_from is None else self.log.find(keep_from).sequence
        parts = content_parts(summary._summary() if isinstance(summary, Remembering) else summary)
        return self._epoch("compaction", self._restated(parts, kept), kept)

    def compact_results(self, before: Entry | int, above_tokens: int = 500) -> Entry | None:
        """Open a new epoch in which results older than `before` stand as references where they are larger than
        `above_tokens`.

        What stands in front of the first of them stays in the cache. None where no result is large enough. Needs a
        memory.
        """
        memory, last = self._memory("compact_results"), self.log.find(before).sequence
        if memory.offload is None:
            raise UsageError(
                "compact_results needs a memory that keeps results: leave offload= of Memory(…) as it is, or give it a rule"
            )
        if not self._keeping.can_read:
            raise UsageError(NO_READER)
        if type(above_tokens) is not int or above_tokens < 2:
            raise UsageError(f"above_tokens={above_tokens!r}: 2 or more, at four bytes a token")
        old = [
            self._told(sequence)
            for sequence in self._turns.ordered
            if sequence < last and self.log[sequence].kind == "result"
        ]
        rule = Offload(above_tokens, min(above_tokens // 2, (memory.offload or Offload()).preview_tokens))
        shorter = replaced(old, memory.files, rule)
        if not shorter:
            return None
        first = next(sequence for sequence in self._turns.ordered if str(sequence) in shorter)
        return self._epoch("results", [], 0, first=first, replaced=shorter)

    def summarising(self, instruction: Any = INSTRUCTION) -> Self:
        """A branch that asks the model for a summary: the unchanged conversation and one instruction, so that it is
        read from cache.

        Send its request, give it the reply, then hand it to `compact`. Its bill is in this context's ledger, its words
        are not in its log.
        """
        side = self.fork()
        side._bill(self)
        side._append("user", {"content": content_parts(instruction)})
        return side

    def restore(self, what: Entry | int | str | Reference) -> Any:
        """What a reference names: its bytes, by its id or itself; the whole content of a result, by its entry.

        Raises `FileMissing` where the memory does not have it, `FileErased`, and `SourceChanged` where only its source
        had it.
        """
        if isinstance(what, str):
            memory = self._memory("restore")
            return bytes_of(memory.references.named(what), memory.files, memory.fetch)
        if isinstance(what, Reference):
            memory = self._memory("restore")
            return bytes_of(what, memory.files, memory.fetch)
        entry = self.log.find(what)
        if entry.kind != "result":
            raise UsageError(
                f"entry {entry.sequence} is no result but {entry.kind}: it stands in the log as it was said"
            )
        return self._keeping.restored(entry)

    def recall(self, query: str, limit: int = 5, budget_tokens: int = 1_000) -> Entry | None:
        """Append what memory holds on `query`, behind what was said: facts true now, and what earlier words or files
        answer.

        None where it holds nothing. Nothing that stands in the prompt is repeated. Needs a memory with an index.
        """
        memory = self._memory("recall")
        if memory.index is None:
            raise UsageError("context.recall needs an index: Memory(files, index=Index(path))")
        name = name_of(next(entry.digest for entry in reversed(self.log) if entry.kind == "opened"))
        seen = [entry_id(sequence, name) for sequence in [*self._turns.ordered, *self._turns.waiting]]
        now = self._clock()
        text = recall(memory.index, memory.facts, query, limit, budget_tokens, at=now, known_at=now, leave_out=seen)
        return self._append("notice", {"text": text, "event": {"type": "recall", "query": query}}) if text else None

    @property
    def last_text(self) -> str:
        """What the model said last, without thinking. Raises `UsageError` before its first reply."""
        if self._turns.last_assistant is None:
            raise UsageError("the model has not replied yet: send the request, then context.receive(reply)")
        return str(parse(self.log[self._turns.last_assistant].body)["text"])

    def parsed(self, output: Any = None) -> Any:
        """What the model said last, as the value its form says: that of the provider's `output=`, of the last
        `OutputChanged`, or `output`.

        Raises `UnreadableReply` where the reply was cut or is of another form, `UsageError` where no form was asked
        for.
        """
        asked = in_force(self._changes.output, self.provider) if output is None else output_of(output)
        if asked is None:
            raise UsageError("no form of reply was asked for: give the provider output=…, or context.parsed(output)")
        return read(self.last_text, self._turns.last_stop, asked)

    def _notice(self, change: Change, lasts: dict[str, Json]) -> Entry:
        if isinstance(change, OutputChanged) and self.provider.noticing != IN_BAND:
            raise UsageError(out_of_band(self.provider, self._rewritten({FIELD: change.output})))
        body = {**change.body, **lasts}
        told = self._changes.told(change, canonical(body))
        return self._append("notice", body) if told is None else self.log[told]

    def _rewritten(self, overrides: dict[str, Any]) -> int:
        """Tokens that the next request would pay for beside what it pays for anyway, were it made with these
        parameters.
        """
        with self._lock:
            layout = self._laid_out()
        sent, changed = (
            routing(self.provider, layout, self._root).fields,
            lowered(self.provider.wire, overrides, self.provider.params)[1],
        )
        now, then = (self._account.quote(self.provider, layout, {**sent, **more}) for more in ({}, changed))
        return max((now.read or 0) - (then.read or 0), 0)

    def _compacted(self, body: dict[str, Json], summary: list[Json], said: list[Json]) -> Entry:
        """The epoch that begins with a provider's own compaction, kept as it came; then what the model said behind it.

        What was said while the reply was under way stays: the summary does not hold it.
        """
        native, late = body["native"], body["after"] + 1
        items = [{"type": "native", "wire": native["wire"], "block": item} for item in summary]
        last = self.log[-1]
        is_begun = (
            last.kind == "epoch" and parse(last.body)["summary"] == items
        )  # and the disk was full before what stands behind it
        epoch = last if is_begun else self._epoch("compaction", items, late if late < len(self.log) else None)
        return self._append("assistant", {**body, "native": {**native, "body": said}}) if said else epoch

    def _restated(self, summary: list[Json], keep_from: int | None) -> list[Json]:
        if self.memory is None:
            return summary
        dropped = [entry for entry in self.log if keep_from is None or entry.sequence < keep_from]
        todo = self.memory.todo.told() if self.memory.todo is not None else ""
        readable = dropped if self._keeping.can_read else []  # without read_reference the model could not follow them
        return opening(summary, goal_of(dropped), todo, (one for entry in readable for one in references_of(entry)))

    def _told(self, sequence: int) -> Entry:
        """A result as the prompt says it now."""
        entry, content = self.log[sequence], self._turns.replaced.get(sequence)
        return entry if content is None else replace(entry, body=canonical({**parse(entry.body), "content": content}))

    def _summary(self) -> str:
        """What the model answered to `summarising`."""
        if self._turns.has_pending_user or self._turns.open_calls:
            raise UsageError(
                "the branch has no summary yet: send its request, then side.receive(reply), and compact(side)"
            )
        return self.last_text

    def _memory(self, what: str) -> Memory:
        if self.memory is None:
            raise UsageError(f"context.{what} needs a memory: Context(…, memory=FileMemory(folder))")
        return self.memory
