"""A memory at work in one conversation: large results stored and previewed, the plan recited, results varied."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from contextkit.canonical import Json, parse
from contextkit.context.reducers import NoMemory, check_source
from contextkit.economics.residency import ResidencyKind, Sizes
from contextkit.errors import MemoryRefused, UsageError
from contextkit.log.content import without_binary
from contextkit.log.entry import Entry, Kind
from contextkit.log.log import Log, Turns
from contextkit.log.variation import Steps, Variation, unvaried, varied
from contextkit.memory.compaction import LeftBehind
from contextkit.memory.memory import Memory
from contextkit.memory.offload import (
    BYTES_PER_TOKEN,
    Offload,
    Offloaded,
    bytes_of,
    offload,
    restore,
    size_of,
    store_binary,
)
from contextkit.memory.opening import Outside, replaced
from contextkit.memory.reading import READ_REFERENCE, READERS, declared_in
from contextkit.memory.recall import recall
from contextkit.memory.recitation import Recital
from contextkit.memory.reference import Reference, call_text, references_of
from contextkit.memory.residency import (
    LEAST_READING_BYTES,
    READING_NOTE_TOKENS,
    Decision,
    ReadBacks,
    Residency,
    Surroundings,
    choose,
    reading_note,
)
from contextkit.memory.search.current import entry_ids
from contextkit.terminal import sanitize
from contextkit.tools.tool import Tool, Toolbox

NO_READER = (
    "the model has no read_reference, as this conversation was begun without a memory: open it with tools=[…], memory=…, "
    "allow_new_head=True, or give it context.late_tools(context.memory.tools())"
)
_EVERY: frozenset[Kind] = frozenset(
    {"opened", "user", "assistant", "result", "begun", "notice", "phase", "tools", "switch", "epoch"}
)


class MemoryState(NoMemory):
    """A memory at work in one conversation, or only a variation of results: previews of large results, recitation."""

    __slots__ = (
        "_log",
        "_observed",
        "_outside",
        "_recent",
        "_recital",
        "_steps",
        "_tools",
        "_turns",
        "can_read",
        "memory",
        "reads",
        "variation",
    )

    def __init__(
        self, memory: Memory | None, variation: Variation | None, turns: Turns, log: Log, toolbox: Toolbox
    ) -> None:
        """`toolbox`: the tools that a fresh conversation declares; those of another one are in its log."""
        if not isinstance(variation, Variation | None):
            raise UsageError(f"variation is a contextkit.Variation, not {type(variation).__name__}")
        self.memory, self.variation, self._turns = memory, variation, turns
        self.reads = _EVERY
        declared = declared_in(log) if len(log) else toolbox.definitions()
        self._tools = () if memory is None else tuple(memory.tools(declared))
        self.can_read = False
        self._recital = None if memory is None else Recital()
        self._observed = ReadBacks()
        self._recent: list[tuple[str, Decision]] = []
        """Tool and decision of each large result since the last reply."""
        self._outside, self._log = Outside(), Log()
        self._steps = None if variation is None else Steps(variation.window, variation.similarity)

    def check(self, model: str, binds_reasoning: bool, binds_thinking: bool) -> None:
        """Raises `UsageError` where the rules ask for what a model does not take."""
        policy = None if self.memory is None else self.memory.residency
        passing = [] if policy is None or policy.drops_reasoning else [*policy.by_tool.values(), policy.default]
        if binds_reasoning and "pass" in passing:
            raise UsageError(
                f"the residency 'pass' takes a result out of the history, and {model} binds its reasoning to what stood "
                "before it: give Residency(drops_reasoning=True), which leaves the reasoning of that reply out of later "
                "prompts, or choose 'auto' or 'delegate'"
            )
        rule = None if self.memory is None else self.memory.recitation
        if rule is not None and not rule.stays and binds_thinking:
            raise UsageError(
                f"Recitation(stays=False) takes words out of the history, and {model} binds its thinking to what stood before it: "
                "leave stays as it is, or use another model"
            )

    def follow(self, log: Log) -> None:
        """Index what this log says for searches."""
        self._log = log
        if self.memory is not None and self.memory.index is not None:
            self.memory.index.follow(log)

    def leave(self, log: Log) -> None:
        """Leave out of searches what this log says."""
        if self.memory is not None and self.memory.index is not None:
            self.memory.index.leave(log)

    def joined(self, toolbox: Toolbox) -> Toolbox:
        """The tools of a conversation and, behind them, those of its memory.

        Of two with one name the conversation's own is used.
        """
        if not self._tools:
            return toolbox
        return Toolbox([*toolbox, *(tool for tool in self._tools if tool.name not in toolbox.names)])

    def answering(self, declared: Iterable[Json]) -> Toolbox:
        """The tools that a log declares, answered by those of this memory; the others have nothing to run."""
        own = {tool.name: tool for tool in self._tools}
        return Toolbox(own.get(tool.name, tool) for tool in map(Tool.raw, declared))

    def rebound(self, tools: Iterable[Tool]) -> list[Tool]:
        """`tools` with those of a todo list answered by the list of this memory: a sub-agent has its caller's tools,
        not its plan.
        """
        todo = None if self.memory is None else self.memory.todo
        own = {} if todo is None else {tool.name: tool for tool in todo.tools()}
        return [own[tool.name] if tool.name in own and own[tool.name].body == tool.body else tool for tool in tools]

    @property
    def own(self) -> dict[str, bytes]:
        """The tools of the memory, name → definition: the prompt tells the model to call them."""
        return {tool.name: tool.body for tool in self._tools}

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if self._steps is not None:
            self._steps.feed(entry)
        if self.memory is None or self._recital is None:
            return
        self._recital.feed(entry)
        self._observed.feed(entry)
        if entry.kind == "assistant":
            self._recent = []
        elif entry.kind == "result" and b'"residency":' in entry.body:
            body = parse(entry.body)
            self._recent.append((body["name"], Decision.of(body["residency"])))
        self._outside.feed(entry)
        if entry.kind == "tools":
            self.can_read = self.can_read or _has_reader(parse(entry.body)["definitions"])
        elif entry.kind in ("opened", "epoch") and (definitions := parse(entry.body).get("tools")) is not None:
            self.can_read = _has_reader(definitions)
        for reference in references_of(entry):
            self.memory.references.add(reference)

    def due(self) -> tuple[Kind, Json] | None:
        """The references that a provider's own compaction took out of the prompt; the plan, where it is time to recite
        it.
        """
        if self.memory is None or self._recital is None or self._turns.open_calls or not self._turns.has_pending_user:
            return None
        end = self._outside.unlisted_to
        if end is not None and self.can_read and self._log[-1].kind in ("user", "result"):
            left = self.left_behind(end)
            return "notice", {"text": left.listing, "event": {"type": "references"}, **left.body}
        if self.memory.recitation is None or self.memory.todo is None:
            return None
        body = self._recital.due(self.memory.recitation, self._turns, self.memory.todo.open_items_text())
        return None if body is None else ("notice", body)

    def left_behind(self, end: int) -> LeftBehind:
        """What the entries before `end` leave outside the window, stored and listed; nothing where the model could not
        read it.
        """
        if self.memory is None or not self.can_read:
            return LeftBehind("")
        return self._outside.leave(self._log, end, self.memory.files)

    @property
    def references(self) -> tuple[Reference, ...]:
        """What this conversation keeps outside the window, in the order it came."""
        return tuple(self._outside.references)

    @property
    def is_listing_due(self) -> bool:
        """Return whether a list of the references follows what the user says next, as a provider's own compaction took it out."""
        return self._outside.unlisted_to is not None and self.can_read

    @property
    def plan(self) -> str:
        """The open items of the plan, as they are recited; "" for none."""
        return "" if self.memory is None or self.memory.todo is None else self.memory.todo.open_items_text()

    @property
    def residencies(self) -> list[str]:
        """How each large result since the last reply lives, and why; one line each."""
        return [decision.explain(tool) for tool, decision in self._recent]

    def written(
        self,
        body: Mapping[str, Json],
        source: str | None,
        around: Callable[[], Surroundings],
        kind: ResidencyKind | None = None,
    ) -> Json:
        """Body of a result about to be written: large parts stored, in another form where variation is due.

        `around` is asked where a policy has to choose; `kind` fixes the choice.
        """
        check_source(source)
        stored = self._stored(body, source, around, kind)
        variation, steps, is_error = self.variation, self._steps, body["is_error"]
        if variation is None or steps is None:
            return stored
        if not (variation.errors if is_error else variation.is_always or steps.is_in_rut):
            return stored
        return varied(stored, variation.form(body["call_id"], steps.forms, is_error=is_error))

    def is_large(self, body: Mapping[str, Json]) -> bool:
        """Return whether a part of a result is larger than the offload rule leaves in the window."""
        rule = None if self.memory is None or body["name"] in READERS else self.memory.offload
        return rule is not None and any(size_of(part, rule) > rule.above_bytes for part in body["content"])

    def residency(
        self,
        body: Mapping[str, Json],
        around: Callable[[], Surroundings],
        *,
        can_delegate: bool,
        kind: ResidencyKind | None = None,
    ) -> Decision | None:
        """How a result is to live; None where it is not large, or there is neither a policy nor a fixed `kind`."""
        memory = self.memory
        if memory is None or memory.offload is None:
            return None
        policy = memory.residency if memory.residency is not None or kind is None else Residency()
        if policy is None:
            return None
        rule, is_reading = memory.offload, body["name"] in READERS
        least_bytes = LEAST_READING_BYTES if is_reading else rule.above_bytes
        large = [size for part in body["content"] if (size := size_of(part, rule)) > least_bytes]
        if not large:
            return None
        surroundings = around()
        sizes = Sizes(
            sum(large) // BYTES_PER_TOKEN,
            READING_NOTE_TOKENS if is_reading else len(large) * rule.preview_tokens,
            surroundings.prefix_tokens,
            read_tokens=rule.read_bytes // BYTES_PER_TOKEN,
        )
        decision = choose(
            policy,
            body["name"],
            sizes,
            self._observed,
            surroundings,
            can_delegate=can_delegate,
            is_reading=is_reading,
        )
        return decision if kind is None else replace(decision, kind=kind, is_fixed=True)

    def _stored(
        self,
        body: Mapping[str, Json],
        source: str | None,
        around: Callable[[], Surroundings],
        kind: ResidencyKind | None,
    ) -> Json:
        """Body of a result, its large parts stored.

        Where the store takes no more, they stay in the window, with a warning.
        """
        if self.memory is None:
            return {**body, "content": without_binary(body["content"])}
        decision = self.residency(body, around, can_delegate=False, kind=kind)
        more: dict[str, Json] = {} if decision is None else {"residency": decision.body}
        keeps_large = body["name"] in READERS or (decision is not None and decision.kind == "stay")
        open_call = self._turns.open.get(body["call_id"])
        origin = {"tool": body["name"], "call": call_text(open_call.arguments if open_call else None)}
        try:
            stored = store_binary(body["content"], self.memory.files, **origin)
            offloaded = stored if keeps_large else self._offloaded(body, stored, self.memory, source, origin)
        except (MemoryRefused, OSError) as refused:
            warnings.warn(sanitize(f"a result of {body['name']!r} stays in the window: {refused}"), stacklevel=5)
            return {**body, "content": without_binary(body["content"])}
        references = [reference.body for reference in offloaded.references]
        if decision is not None and decision.kind == "pass":
            more["whole"] = stored.content
            if body["name"] in READERS:
                offloaded = replace(offloaded, content=reading_note(**origin))
            if decision.drops_reasoning:
                more["drops_reasoning"] = True
        return {**body, "content": offloaded.content, **({"references": references} if references else {}), **more}

    def _offloaded(
        self,
        body: Mapping[str, Json],
        stored: Offloaded,
        memory: Memory,
        source: str | None,
        origin: Mapping[str, str],
    ) -> Offloaded:
        """The parts with the large ones stored too."""
        rule = memory.offload
        if rule is None:
            return stored
        if not self.can_read and any(size_of(part, rule) > rule.above_bytes for part in stored.content):
            raise MemoryRefused(NO_READER)
        large = offload(stored.content, memory.files, rule, is_error=body["is_error"], source=source, **origin)
        return Offloaded(large.content, (*stored.references, *large.references))

    def content_of(self, what: str | Reference) -> bytes:
        """The bytes of a reference, given by its id or itself."""
        memory = self._present
        reference = memory.references.named(what) if isinstance(what, str) else what
        if not isinstance(reference, Reference):
            raise UsageError(f"restore takes an entry, its sequence, a reference or its id, not {type(what).__name__}")
        return bytes_of(reference, memory.files, memory.fetch)

    def shortened(self, results: Iterable[Entry], above_tokens: int) -> Mapping[str, Json]:
        """Sequence → content and references of each result that has a part above `above_tokens`, which is stored.

        Raises `UsageError` where the rules or the tools do not allow that.
        """
        memory = self._present
        if memory.offload is None:
            raise UsageError(
                "compact_results needs a memory that keeps results: leave offload= of Memory(…) as it is, or give it a rule"
            )
        if not self.can_read:
            raise UsageError(NO_READER)
        if type(above_tokens) is not int or above_tokens < 2:
            raise UsageError(f"above_tokens={above_tokens!r}: 2 or more, at four bytes a token")
        rule = Offload(above_tokens, min(above_tokens // 2, memory.offload.preview_tokens))
        return replaced(results, memory.files, rule)

    def recalled(self, query: str, limit: int, budget_tokens: int, at: float) -> str:
        """What the memory holds on `query` at that time, without what stands in the prompt; "" where it holds nothing."""
        memory = self._present
        if memory.index is None:
            raise UsageError("context.recall needs an index: Memory(files, index=Index(path))")
        in_prompt = entry_ids(self._log, [*self._turns.ordered, *self._turns.waiting])
        return recall(memory.index, memory.facts, query, limit, budget_tokens, at=at, leave_out=in_prompt)

    @property
    def _present(self) -> Memory:
        assert self.memory is not None, "the context has a memory"  # noqa: S101 - for the type checker
        return self.memory


def restored(entry: Entry, memory: Memory | None) -> list[Json]:
    """The parts of a result as the tool gave them.

    Raises `MemoryRefused` where a part is in no file any more, `UsageError` where there are references and no memory.
    """
    body, references = parse(entry.body), list(references_of(entry))
    content = unvaried(body)
    if not references:
        whole: list[Json] = body.get("whole") or content
        return whole
    if memory is None:
        raise UsageError(
            f"entry {entry.sequence} has {len(references)} parts in the files of a memory: open the conversation with it, "
            "Context(…, memory=FileMemory(folder))"
        )
    return restore(content, references, memory.files, memory.fetch)


def _has_reader(definitions: Iterable[Json]) -> bool:
    return any(_name_of(definition) == READ_REFERENCE for definition in definitions)


def _name_of(definition: Json) -> Json:
    """The name of a tool, also of one that is stored as its endpoint takes it."""
    block = definition["native"]["block"] if "native" in definition else definition
    return block["function"].get("name") if isinstance(block.get("function"), dict) else block.get("name")
