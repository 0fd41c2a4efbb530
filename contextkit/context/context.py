"""The one object a user holds: a conversation that only grows, and the requests it makes.

`Context` composes a log, its order (`log/log.py`), the reducers that follow it (`context/reducers.py`), the prompts
rendered from it (`providers/rendering.py`) and an account (`ledger/account.py`). It has no rule of its own: an entry is
appended, fed to each part, and the entries that are then due are appended behind it.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import WeakSet

from contextkit.canonical import Json, canonical, parse
from contextkit.context.agents import (
    AGENTS,
    ENDED,
    MAIN,
    ORIGIN_FIELD,
    TOOLS_ONLY,
    AgentLimits,
    AgentRegistry,
    AgentState,
    Origin,
    agents_in,
    as_memory,
    check_log_is_there,
    final_reply,
    functions_for,
    has_entries,
    lane_of,
    limits_of,
    memory_of,
    number_in,
    read_session_state,
    read_state,
    session_name,
    state_of,
    stored_limits,
    subset_of,
    table_of,
)
from contextkit.context.compaction import (
    MOST_REQUESTS,
    NO_CALLS,
    RETRIES,
    CompactionState,
    Sizes,
    SummaryTask,
    check_summary,
    problem_of,
    removed_tokens,
    shortened_tokens,
)
from contextkit.context.reducers import (
    ChangeEvents,
    LateTools,
    NoMemory,
    PhaseState,
    Reducer,
    can_join,
    check_joining,
    permit_of,
    widened,
)
from contextkit.errors import (
    HeadChanged,
    InvalidCall,
    InvalidContent,
    ItemsLost,
    MemoryRefused,
    StorageError,
    UnusableSummary,
    UsageError,
)
from contextkit.ledger.account import Account, Passing, take
from contextkit.ledger.budget import Budget, check_budget
from contextkit.ledger.cold import OnCold
from contextkit.ledger.ledger import Ledger
from contextkit.log.content import binary_part, check_result_parts, checked_text, content_parts
from contextkit.log.entry import Change, Entry, Kind
from contextkit.log.log import Log, OpenCall, Turns, check_clock
from contextkit.log.registry import ListedSessions, SessionStorage, open_storage, sessions_in
from contextkit.log.storage import KINDS, folder_at
from contextkit.memory.compaction import INSTRUCTION, MOST_FAILURES, Compaction, LeftBehind
from contextkit.memory.pins import Pin, PinKind, Pins, goal_of, pin_body, unpin_body
from contextkit.prompt.planner import Planned, PlanningState
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.adapter import with_model
from contextkit.providers.adoption import (
    adopt,
    check_fresh,
    check_head,
    check_provider,
    check_switch,
    opening,
    renewed,
)
from contextkit.providers.histories import summed_up
from contextkit.providers.keyed_blocks import RAW, unpacked
from contextkit.providers.parameters import is_prewarm, output_tokens, parameters, prewarming
from contextkit.providers.provider import Provider
from contextkit.providers.rendering import PromptStore, binds_reasoning
from contextkit.providers.reply_form import (
    FIELD,
    IN_BAND,
    OutputChanged,
    in_force,
    lowered,
    out_of_band,
    output_of,
    read,
)
from contextkit.providers.request import Request
from contextkit.providers.routing_key import routing
from contextkit.providers.server_state import ServerState, apart
from contextkit.terminal import sanitize
from contextkit.tools.late import catalogues
from contextkit.tools.mask import Limits, Permit
from contextkit.tools.phases import Phases
from contextkit.tools.render import answer, unrenderable
from contextkit.tools.tool import Call, Toolbox, run_all

if TYPE_CHECKING:
    from contextkit.context.fan_out import FanOut
    from contextkit.context.memory_state import MemoryState
    from contextkit.context.run import Approval, Step
    from contextkit.context.survival import Surveyor, Survival
    from contextkit.economics.residency import ResidencyKind
    from contextkit.ledger.summary import Summary
    from contextkit.log.variation import Variation
    from contextkit.memory.filestore import FileMemory
    from contextkit.memory.memory import Memory
    from contextkit.memory.reference import Reference
    from contextkit.memory.residency import Surroundings

_RETRYABLE = (OSError, StorageError, MemoryRefused)
"""Faults of a disk or a store; what could not be written is written with the next entry."""


class Context:
    """A conversation that only grows, and the requests it makes.

    >>> from contextkit import AnthropicMessages, Context
    >>> context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system="You are terse.")
    >>> context.user("Hello").kind
    'user'
    >>> context.request()["messages"]
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hello'}]}]
    """

    # Opening and closing
    # ------------------------------------------------------------------------------------------------------------------

    def __init__(
        self,
        provider: Provider,
        *,
        system: Any = None,
        tools: Iterable[Any] | None = None,
        log: Log | None = None,
        ledger: Ledger | None = None,
        clock: Callable[[], float] = time.time,
        session: str | None = None,
        lane: str | None = None,
        allow_new_head: bool = False,
        phases: Phases | Permit | None = None,
        memory: Memory | FileMemory | None = None,
        variation: Variation | None = None,
        compact: Compaction | None = None,
        budget: Budget | None = None,
        on_cold: OnCold | None = None,
        agents: AgentLimits | None = None,
        sort_results: bool = False,
        _origin: Origin | None = None,
    ) -> None:
        """A conversation in memory, or over the log and ledger given.

        `compact` says when `compacting` and `compact_if_due` compact it, and how.

        `budget` limits what it, its branches and its sub-agents may spend; what its ledger says was spent counts.
        `on_cold` is given a `ColdCache` before a call is sent that pays again for what the cache held: the entry has
        expired, or the prompt was rewritten. Where it returns False, `ColdCacheRefused` is raised and nothing is sent.
        `agents` limits its sub-agents; without it those hold that its log was begun with, else `AgentLimits()`.
        `sort_results` sorts the keys of results that are data, as `@tool(sort_keys=True)` does for one tool.
        Of tools that equal the log's as JSON values, the log's bytes are kept.

        Raises `HeadChanged` when they were begun with another head, `UsageError` when `phases` do not fit the tools or
        the log.
        """
        check_provider(provider, log)
        check_clock(clock)
        self._provider, self._clock, self._lock = provider, clock, Lock()
        self.log = Log(clock=clock) if log is None else log
        is_fresh = not self.log.entries
        self._sorts_results = sort_results
        self._origin = origin = _origin if is_fresh else Origin.of(self.log)
        limits = limits_of(agents, self.log.entries, origin)

        own_memory = memory_of(memory, origin)
        self._turns = Turns()
        self._late, self._changes = LateTools(), ChangeEvents()
        self._phases = PhaseState(self.log.entries, self._turns, self._late)
        toolbox = Toolbox(() if tools is None else tools)
        self._memory = NoMemory()
        if own_memory is not None or variation is not None:
            from contextkit.context.memory_state import MemoryState

            self._memory = MemoryState(own_memory, variation, self._turns, self.log, toolbox)
        self._compaction = CompactionState(compact)
        self._compaction.check(provider.model, output_tokens(provider.params))
        self._pins = Pins(self._turns, restates_task=compact is not None)
        self._reducers: tuple[Reducer, ...] = (
            *(self._late, self._phases, self._changes, self._memory),  # a phase may withdraw tools that came late
            *(self._pins, self._compaction),
        )
        self._summary_task: SummaryTask | None = None
        """What it is to summarise; None where it is no branch that writes a summary."""
        self._server = ServerState(self.log.entries)
        self._fed: set[Reducer] = set()
        """Reducers that were fed since they last had nothing due."""
        self._late_refusals: dict[str, Entry] = {}
        """Refusals of calls that could not be written when the calls came; whoever asked for the calls meanwhile may
        answer them too."""

        self._memory.check(provider.model.name, binds_reasoning(provider), provider.model.binds_thinking)
        self._replay()
        if tools is None and not is_fresh:
            toolbox = self._memory.answering(parse(self.log[self._turns.head_tools].body).get("tools", ()))
        elif not is_fresh:
            toolbox = toolbox.declared_as(parse(self.log[self._turns.head_tools].body).get("tools", ()))
        if origin is not None and origin.plan is not None:
            toolbox = Toolbox(self._memory.rebound(toolbox))
        self.toolbox = self._memory.joined(toolbox)
        permit = permit_of(table_of(phases, origin, self._phases.phase), self.toolbox, self._limits())
        self.ledger = Ledger() if ledger is None else ledger
        self._owned: tuple[Log | Ledger, ...] = (self.log, self.ledger)
        self._prompts = PromptStore()
        self._n_shared = 0, 0
        """Epoch, and how many entries of its order other branches send too."""

        parts = None if system is None else content_parts(system)
        definitions = None if tools is None and (memory is None or not is_fresh) else self.toolbox.definitions()
        if is_fresh:
            body = opening(provider, parts or [], definitions or [])
            extra = stored_limits(agents) if origin is None else {ORIGIN_FIELD: origin.body}
            self._append("opened", {**body, **extra})
        self._memory.follow(self.log)

        first = self.log.entries[0]
        self._session = session or (first.digest.hex() if origin is None else origin.session)
        self._root = first.digest if origin is None else bytes.fromhex(origin.root)
        """The digest that this conversation and all its branches share, and a resume finds again."""
        own_lane = lane_of(self.log.entries)
        self._lane = lane or (own_lane if origin is None or own_lane != MAIN else origin.lane)
        self._registry, self._agents = AgentRegistry(limits, self.ledger, self._agents_folder()), WeakSet[Context]()
        self._account = Account(self.ledger, self._session, self._lane, clock, limits.wait_seconds)
        if budget is not None:
            check_budget(budget)
            budget.restore(self.ledger, self._session)
            self._account.limits = ((budget, self._session),)
        if on_cold is not None and not callable(on_cold):
            raise UsageError(f"on_cold is a function that takes a ColdCache, not {type(on_cold).__name__}")
        self._account.on_cold = on_cold
        if not is_fresh:
            try:
                check_head(self.log, self._turns, provider, parts, definitions)
            except HeadChanged:
                if not allow_new_head:
                    raise
                self._renew("head", parts, definitions)
        self._begin_phases(permit)

    @classmethod
    def open(cls, folder: str | Path, provider: Provider, **options: Any) -> Self:
        """The conversation kept in `folder` (`log.jsonl`, `ledger.jsonl`), begun when it is not there.

        `sqlite:///path.db?session=x` keeps log and ledger in one file with other sessions; `postgresql://…/db?session=x`
        keeps the log in a database, and the ledger in memory unless `ledger=` is given. Raises `LogLocked` while
        another process holds it, `LogCorrupt` when a line was changed, `StorageError` when the log is gone and its
        ledger is not, `HeadChanged` as above.
        """
        check_provider(provider)
        check_clock(options.get("clock", time.time))
        clock = {"clock": options["clock"]} if "clock" in options else {}
        with ExitStack() as opened:
            storage = open_storage(folder)
            opened.callback(storage.close)
            log = opened.enter_context(Log(storage, **clock))
            if "ledger" not in options:
                options["ledger"] = opened.enter_context(Ledger.beside(storage))
                check_log_is_there(log, options["ledger"])
            context = cls(provider, log=log, **options)
            opened.pop_all()
        return context

    @classmethod
    async def aopen(cls, folder: str | Path, provider: Provider, **options: Any) -> Self:
        """`open`, off the event loop."""
        return await asyncio.to_thread(cls.open, folder, provider, **options)

    @classmethod
    def from_messages(
        cls,
        provider: Provider,
        body: Json,
        *,
        tools: Iterable[Any] | None = None,
        folder: str | Path | None = None,
        **options: Any,
    ) -> Self:
        """Adopt the request body a loop has built so far; `tools` gives the functions that run what it declares.

        Of `body` it takes system, tools and messages: parameters are those of `provider`, and the layout places its own
        breakpoints.
        """
        system, definitions, turns = adopt(provider, body)
        phases = options.pop("phases", None)
        from contextkit.tools.adopt import adopted

        toolbox = Toolbox(adopted(definitions, () if tools is None else tools))
        arguments = {"system": system or None, "tools": toolbox, **options}
        context = cls(provider, **arguments) if folder is None else cls.open(folder, provider, **arguments)
        with ExitStack() as opened:
            opened.callback(context.close)
            check_fresh(context.log)
            permit = permit_of(phases, context.toolbox, context._limits())
            for turn in turns:
                context._append(turn.kind, turn.body)
            context._begin_phases(permit)  # last: what the model called before, somebody has answered
            opened.pop_all()
        return context

    def close(self) -> None:
        """Let other processes open the folder, and those of its sub-agents."""
        for agent in list(self._agents):
            agent.close()
        self._registry.open.discard(self)
        for file in self._owned:  # a sub-agent leaves the ledger to its caller
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def provider(self) -> Provider:
        """Whom the next request asks; another one takes effect with it.

        Setting what is no adapter raises `UsageError`, and so does another endpoint's once something was said: `switch`
        declares that.
        """
        return self._provider

    @provider.setter
    def provider(self, provider: Provider) -> None:
        check_provider(provider)
        if provider.wire != self._provider.wire and len(self.log) > 1:
            raise UsageError(
                f"provider speaks {provider.wire}, and this conversation {self._provider.wire}: context.switch(provider) goes to another "
                "endpoint, and says in the log what that costs"
            )
        self._provider = provider

    @property
    def memory(self) -> Memory | None:
        """What it keeps outside the window; None where it was given no memory."""
        return self._memory.memory

    @property
    def lane(self) -> str:
        """Its name in the ledger, and the id of a sub-agent: `main`, `agent-1-…`, `branch-2-…`, `fork@…`.

        Unique in its session.
        """
        return self._lane

    # The loop
    # ------------------------------------------------------------------------------------------------------------------

    def user(self, content: Any, *, once: bool = False) -> Entry:
        """Something the user says: text, a part, or a list of them. Durable when this returns; waits behind open calls.

        `once`: where the log holds the same words of the user already, nothing is appended and their entry is returned,
        so that a program that starts again does not repeat its task.
        """
        return self._append("user", {"content": content_parts(content)}, once=once)

    def notice(self, news: str | Change, *, until_user: bool = False) -> Entry:
        """Something the program says, in band: history stays as it is.

        A change that the prompt says already is not said twice.

        `until_user`: it matters for the user turn it follows only; where the model takes it, it costs nothing from the
        next one on.
        """
        lifetime = {"until": "user"} if until_user else {}
        if isinstance(news, Change):
            return self._notice_change(news, lifetime)
        # a temporary notice is rendered as events are: behind what the user says, by the program
        event = {"event": {"type": "words"}, **lifetime} if until_user else {}
        return self._append("notice", {"text": checked_text(news), **event})

    def request(self, **overrides: Json) -> Request:
        """The next request.

        Pure: two calls, same bytes. `overrides` are the endpoint's parameters, for this call only (None: left out).
        Raises `BudgetExceeded` where it could cost more than the budget has left.
        """
        provider = self._provider
        with (
            self._lock
        ):  # columns grow here: one thread at a time, and none appends between the layout and what it includes
            self._settle()
            if n := len(self._turns.open):
                raise InvalidCall(
                    f"{n} {'call is' if n == 1 else 'calls are'} unanswered: context.result(call, …) for each of context.calls, "
                    "or context.interrupt(…)"
                )
            layout, after, epoch = self._layout(), self._turns.n - 1, self._turns.epoch
            mask = self._phases.lowered(provider, overrides, self.toolbox)
            route = routing(provider, layout, self._root)
            params, headers = parameters(provider, overrides, {**route.fields, **mask.fields}, route.headers)
            if layout.n <= layout.columns.level_ends[-1] and not is_prewarm(params):
                raise UsageError("the conversation has no message yet: call context.user(…) first")
            continued = self._server.request(provider, self._turns, layout, params, is_prewarm(params))
        return self._account.request(provider, layout, params, headers, after, epoch, mask, continued)

    def messages(self) -> dict[str, Any]:
        """System, tools and messages of the next request as the SDK takes them: plain objects, without breakpoints.

        `from_messages` is the inverse (`docs/guides/agents.md` lists what is not carried). Open calls stay open in it. What the
        next request shows once, such as the plan, is in it too.
        """
        with self._lock:
            self._settle()
            layout = self._layout()
        fields: dict[str, Json] = parse(PromptLayout(layout.columns, layout.n).body(b"{}"))  # without breakpoints
        raw = RAW.get(self._provider.wire)  # where the SDK takes `bytes`
        return fields if raw is None else unpacked(fields, raw)

    def prewarm(self, **overrides: Json) -> Request:
        """A request that writes what the next one will read and is answered with nothing.

        `receive` bills its reply and keeps none.

        Raises `UsageError` where the endpoint has no such request.
        """
        return self.request(**{**prewarming(self._provider), **overrides})

    def receive(self, reply: Any, request: Request | None = None) -> Entry | None:
        """Keep the model's turn as received: the SDK's typed response or its dict.

        `request`: what it answers, else the last built.

        When it raises `OSError` or `StorageError`, as on a full disk, give it the same response again: it is billed and
        kept once. A provider's own compaction opens a new epoch that begins with it. None for the reply to a `prewarm`:
        it is billed, and nothing was said.
        """
        return self._receive(reply, self._answered_request(request), None)

    def stream(self, events: Any, request: Request | None = None) -> Any:
        """Pass a stream's events through (sync or async), keep the turn at its end.

        A cut stream is in the ledger and never kept.
        """
        answered = self._answered_request(request)
        return Passing(self._provider, answered, self._account, self._receive).through(events)

    def failed(self, error: BaseException | str, request: Request | None = None, *, has_begun: bool = False) -> None:
        """Note in the ledger that the last request came to nothing; `request.send` and `stream` do this themselves.

        `has_begun`: its response had begun, so it was billed and has warmed the cache.
        """
        self._account.failed(self._answered_request(request), error, None, self._clock() if has_begun else None)

    @property
    def is_new(self) -> bool:
        """Whether nothing was said yet: no user turn, no reply and no result, neither here nor in what a fork shares.

        What the program announced (notices, pins, phases, tools, another head) does not count.
        """
        return self._turns.first_user is None and self._turns.last_assistant is None

    @property
    def calls(self) -> list[Call]:
        """Every unanswered call, in order, also after a crash."""
        with self._lock, suppress(*_RETRYABLE):  # a refusal that could not be written yet
            self._settle()
        return [self._call(call) for call in self._turns.open.values()]

    def result(self, call: Call | str, value: object, *, is_error: bool = False, source: str | None = None) -> Entry:
        """Answer a call with a value, or with an exception (kept for good, as an error the model can read).

        Whatever the value is, it answers the call: bytes are text, a picture, a PDF, or a file in the memory; NaN and
        lone surrogates are written as text; for a value that has no form, and for parts no provider takes, the answer
        is an error that says so.

        With a memory, what is large is stored and shown as a reference, or as its `Residency` chooses; `source` is the
        URL or path it came from. `value` may be the branch made by `delegate`, once its reply is received: its extract
        is the result, without `is_error` or `source`; or a finished sub-agent of this conversation: what it said last
        is. Raises `InvalidCall` for a call that is not open.
        """
        call_id = _call_id(call)
        with self._lock:
            self._settle()
        if call_id in self._late_refusals:
            return self._late_refusals[call_id]
        if issubclass(type(value), Context):  # a value may say anything of its own class
            branch = cast("Context", value)
            if branch not in self._agents:
                body = branch._extracted(call_id)
                if is_error or source is not None:
                    raise UsageError(
                        "context.result(call, side) takes neither source= nor is_error= for the branch of "
                        "context.delegate, whose extract is the result: leave them out"
                    )
                return self._append("result", body)
            value = final_reply(branch)
        body = self._result_body(call_id, value, is_error=is_error)
        return self._append("result", self._memory.written(body, source, self._surroundings))

    def residency(self, call: Call | str, value: object) -> ResidencyKind:
        """How the result of a call would live: `stay`, `pass`, `reference` or `delegate`.

        `stay` for what is not large. Where it is `delegate`, `delegate(call, value)` makes the side call; a result that
        is given without one lives as the cheapest of the others.
        """
        body = self._result_body(_call_id(call), value)
        decision = self._memory.residency(body, self._surroundings, can_delegate=True)
        if decision is not None:
            return decision.kind
        return "reference" if self._memory.is_large(body) else "stay"

    def delegate(self, call: Call | str, value: object, question: Any = None) -> Self:
        """A branch that reads a large result whole and answers with an extract, on the prefix that is cached already.

        Send its request, give it the reply, then answer the call with it: `context.result(call, side)`. The result is
        billed once, as uncached input; this conversation never holds it, so no reasoning is bound to it. Its bill is in
        this context's ledger. Other open calls stay open here. Without a `question` it is asked for what matters for the
        task. Needs a memory; raises `UsageError` for a result that is not large, and `InvalidCall` for a call that is
        not open.
        """
        from contextkit.memory.offload import EXTRACT, NOT_PART_OF_READING

        self._required_memory("delegate")
        call_id = _call_id(call)
        if call_id not in self._turns.open:
            raise InvalidCall(f"call {call_id!r} is not open: context.calls names those that are")
        body = self._result_body(call_id, value)
        written = self._memory.written(body, None, self._surroundings, "pass")
        if "whole" not in written or not self._memory.is_large(body):
            raise UsageError(
                "delegate takes a result that the memory's offload rule calls large, and that its files take: "
                "context.residency(call, value) says whether it is"
            )
        side = self._side_branch()
        for other in self._turns.open_calls:
            if other.call_id != call_id:
                side._append("result", side._result_body(other.call_id, NOT_PART_OF_READING))
        side._append("result", written)
        side._append("user", {"content": content_parts(EXTRACT if question is None else question)})
        return side

    def _result_body(self, call_id: str, value: object, *, is_error: bool = False) -> dict[str, Json]:
        """Body of a result before anything of it is stored."""
        open_call = self._turns.open.get(call_id)
        tool = open_call and self._late.answering(open_call.name, open_call.arguments, self.toolbox)
        sort_keys = self._sorts_results or (tool is not None and tool.sort_keys)
        rendered = answer(value, is_error, binary_part, sort_keys=sort_keys)
        try:
            check_result_parts(rendered["content"])
        except InvalidContent as fault:
            rendered = unrenderable(fault)
        return {"call_id": call_id, "name": open_call.name if open_call else "", **rendered}

    async def run_calls(self, limit: int = 8, tries: int = 1) -> list[Entry]:
        """Run every open call, at most `limit` at a time; each result is kept as it comes and rendered in call order.

        A call that fails is made again, up to `tries` times; its failures are kept in its result.
        """
        return await run_all(self.calls, self.result, limit, tries)

    def run(
        self,
        client: Any,
        *,
        max_steps: int | None = None,
        approve: Callable[[Call], Approval] | None = None,
        on_event: Callable[[Any], object] | None = None,
        tries: int = 1,
        budget: Budget | None = None,
        **overrides: Json,
    ) -> Iterator[Step]:
        """The loop: send the request, keep the reply, run its calls, until the model is finished.

        Yields a `Step` for each request once its calls are answered. `max_steps` limits the requests of this loop.
        `approve(call)` returns True, or False or a reason to refuse the call. With `on_event` replies are streamed and
        each event is given to it. `tries` is how often a call that fails is made. `budget` limits what this loop
        spends, beside the conversation's own. `overrides` are parameters of every request. Compacts where a
        `Compaction` is due and makes the side calls that a `Residency` asks for.

        It may be left at any time: `break`, an exception or Ctrl-C lose nothing, and another `run` goes on, also in
        another process. A call that ran when the program ended is answered with an error that says so, and is not run
        again. Raises what sending raises, `BudgetExceeded` before a request that a budget has no room for, and
        `UsageError` where nothing was said yet.
        """
        from contextkit.context.run import check_steps, run

        check_steps(max_steps)
        check_budget(budget)
        steps = run(
            self,
            client,
            self._account.bill_of,
            max_steps=max_steps,
            approve=approve,
            on_event=on_event,
            tries=tries,
            overrides=overrides,
        )
        return steps if budget is None else self._spending(steps, budget)

    def arun(
        self,
        client: Any,
        *,
        max_steps: int | None = None,
        approve: Callable[[Call], Approval | Awaitable[Approval]] | None = None,
        on_event: Callable[[Any], object] | None = None,
        tries: int = 1,
        limit: int = 8,
        budget: Budget | None = None,
        **overrides: Json,
    ) -> AsyncIterator[Step]:
        """`run` for an async client and async tools: `async for step in context.arun(client)`.

        Calls of one reply run together, at most `limit` at a time; `approve` and `on_event` may be async.
        """
        from contextkit.context.run import arun, check_steps

        check_steps(max_steps, limit)
        check_budget(budget)
        steps = arun(
            self,
            client,
            self._account.bill_of,
            max_steps=max_steps,
            approve=approve,
            on_event=on_event,
            tries=tries,
            limit=limit,
            overrides=overrides,
        )
        return steps if budget is None else self._aspending(steps, budget)

    def _spending(self, steps: Iterator[Step], budget: Budget) -> Iterator[Step]:
        with self._account.limited_by(budget):
            yield from steps

    async def _aspending(self, steps: AsyncIterator[Step], budget: Budget) -> AsyncIterator[Step]:
        with self._account.limited_by(budget):
            async for step in steps:
                yield step

    def interrupt(self, reason: str) -> list[Entry]:
        """Answer every open call with an error that says why nobody ran it."""
        return [self.result(call, InvalidCall(f"interrupted: {reason}")) for call in self.calls]

    @property
    def stop(self) -> str | None:
        """Why the last reply ended: done, calls, truncated, paused, refused, overflow; None before the first."""
        return self._turns.last_stop

    @property
    def finished(self) -> bool:
        """Return whether the model has had its last word: nothing said since, no call open."""
        return self._turns.last_stop in ENDED and not self._turns.has_pending_user and not self._turns.open

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
        form = in_force(self._changes.output, self._provider) if output is None else output_of(output)
        if form is None:
            raise UsageError("no form of reply was asked for: give the provider output=…, or context.parsed(output)")
        return read(self.last_text, self._turns.last_stop, form)

    def summary(self) -> Summary:
        """What was read from cache, what it cost, and why each miss happened."""
        from contextkit.ledger.summary import summarise

        return summarise(self.ledger)

    @property
    def plan(self) -> Planned:
        """What the next request marks, for how long and why; `context.plan.explain()` says it in words."""
        with self._lock:
            choice = self._prompts.choice(
                self.log, self._turns, self._provider, self._planning_state(), self._n_shared_entries()
            )
            route = routing(self._provider, self._layout(), self._root)
        return Planned(choice, self._provider.model, route.key, route.why, tuple(self._memory.residencies))

    @property
    def expires_at(self) -> float | None:
        """When the cache entry ends that the next request would read now, seconds since 1970, if nothing reads it before.

        None where nothing of the prompt is cached, or its end is not known. An estimate, of the cache model that
        predictions use.
        """
        return self._warmth()[0]

    @property
    def at_risk_usd(self) -> float | None:
        """What the next request costs more, in dollars, once that entry has ended; 0 where nothing is cached.

        None where the model has no price.
        """
        return self._warmth()[1]

    def _warmth(self) -> tuple[float | None, float | None]:
        with self._lock:
            layout = self._layout()
            route = routing(self._provider, layout, self._root)
        return self._account.warmth(self._provider, layout, route.fields)

    # Changing course
    # ------------------------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> str | None:
        """The phase the conversation is in; None without phases."""
        return self._phases.phase

    def enter(self, phase: str) -> Entry:
        """Enter a phase by hand; durable, and told to the model behind what is said before it speaks next."""
        with self._lock:
            self._settle()
            body = self._phases.entering(phase)
            if body is None:
                return self.log[self._phases.entry]
            entry = self._write("phase", body)
            self._fed.clear()  # nothing is due behind a phase until something is said
            return entry

    def retool(self, tools: Iterable[Any], phases: Phases | None = None) -> Entry:
        """Open a new epoch with another tool set, and another table of phases if need be.

        Everything said is paid for once more. Tools that equal the present ones as JSON values, as a server may list them
        after it was connected again, are bound to their functions, and no epoch is opened.
        """
        declared = self._declared_tools()
        toolbox = self._memory.joined(Toolbox(tools).declared_as(declared))
        definitions = toolbox.definitions()
        if phases is None and not self._late.tools and canonical(definitions) == canonical(declared):
            self.toolbox = toolbox
            return self.log[self._turns.head_tools]
        self._phases.renew(phases, toolbox, self._limits())
        entry = self._renew("retool", None, definitions)
        self.toolbox = toolbox
        return entry

    def resystem(self, system: Any) -> Entry:
        """Open a new epoch with another system prompt; everything said stays, and is paid for once more."""
        return self._renew("resystem", content_parts(system), None)

    def late_tools(self, tools: Iterable[Any], *, allow_epoch: bool = False) -> Entry:
        """Tools that have come since the conversation began join behind the prompt.

        The static prefix stays as it is (`docs/guides/tools.md`).

        Tools announced before are bound anew, which is what a resumed conversation needs. Where the model takes none in
        band: raises `UsageError`, or, with `allow_epoch`, opens a new epoch with a larger head, whose price is in the
        entry.
        """
        if allow_epoch and not can_join(self._provider, self._declared_tools()):
            return self.retool([*self.toolbox, *Toolbox(tools)])
        with self._lock:
            self._settle()
            declared = self._declared_tools()
            arrival = self._late.arriving(tools, declared)
            if arrival.new:
                check_joining(self._provider, declared, arrival.body)
                self._write("tools", arrival.body)
                self._fed = {self._phases}  # the present phase may withdraw them
            self._late.bind(arrival.tools)
            self._widen()
            with suppress(*_RETRYABLE):  # as behind any other entry
                self._write_due()
            return self.log[max(self._late.entry_of(tool.name) for tool in arrival.tools)]

    def switch(self, provider: Provider) -> Entry | None:
        """Another model or endpoint answers from here on.

        None where it is the one that answers already, with other parameters.

        Declared, with the tokens it cannot read from its cache. The head and all that was said are kept; another
        model's thinking is left out where it is read. The prompt of the model before stays, so that coming back finds
        what is still cached. Raises `InvalidTool` for a tool the new endpoint has no words for, and `UsageError` where
        the memory's rules ask for what the new model does not take.
        """
        check_switch(self.log, self._turns, provider)
        self._memory.check(provider.model.name, binds_reasoning(provider), provider.model.binds_thinking)
        before, self._provider = self._provider, provider
        ends = {"to": provider, "from": before}
        models = {name: {"wire": one.wire, "model": one.model.name} for name, one in ends.items()}
        if models["to"] == models["from"]:
            return None
        with self._lock:
            layout = self._layout()
            usage = self._account.quote(provider, layout, routing(provider, layout, self._root).fields)
        templates = parse(self.log[self._turns.head_templates].body)["templates"]
        body = {
            **models,
            "rewrites_tokens": (usage.prompt or 0) - (usage.read or 0),
            "templates": {**templates, provider.wire: provider.template},
        }
        entry = self._append("switch", body)
        with self._lock:
            self._widen()  # the new endpoint may let late tools be called by name, or not
            self._fed.add(self._phases)
            with suppress(*_RETRYABLE):  # as behind any other entry
                self._write_due()
        return entry

    # Memory and compaction
    # ------------------------------------------------------------------------------------------------------------------

    def compact(self, summary: Any, keep_from: Entry | int | None = None) -> Entry:
        """Open a new epoch that starts from `summary` and the entries from `keep_from` on.

        The next request pays for the whole prompt.

        `summary` is text, parts, or the branch made by `summarising`. With a memory the epoch also repeats what the
        user asked at the beginning, what is still to do, and which references can be read; pins are repeated word for
        word, and failed calls are listed. A branch made by `compacting` knows what is kept.

        Raises `UnusableSummary` where the reply of the branch is no summary, `ItemsLost` where the policy says so; then
        nothing is compacted.
        """
        first = None if keep_from is None else self.log.find(keep_from).sequence
        if isinstance(summary, Context):
            check_summary(summary._summary_problem())
            if keep_from is None and summary._summary_task is not None:
                first = summary._summary_task.retained_from(self.log, self._turns)
            summary = summary.last_text
        opening, left = self._restated(content_parts(summary), first)
        policy = self._compaction.policy
        if policy is not None and policy.on_lost != "ignore":
            after = self._surveyor().after(self._provider, opening, first, left.references)
            if after.unreadable:
                self._report_loss(after, self.survival(), is_done=False)
        with self._lock:
            kept = next((sequence for sequence in self._turns.ordered if first is not None and sequence >= first), None)
            n_kept = 0 if kept is None else self._n_tokens(kept)
            removes = removed_tokens(self._n_tokens(), self._n_head_tokens(), opening, n_kept, self._provider.model)
        return self._epoch("compaction", opening, first, removes_tokens=removes, **left.body)

    def compacting(self) -> Self | None:
        """A branch that asks for a summary, where a compaction is due before the next request; None where none is.

        Send its request, give it the reply, then `context.compact(branch)`; `compact_if_due` does all three. The policy
        decides, `Context(…, compact=Compaction(…))`: a size, or whether it pays, and always a full window. None too
        while calls are open, and without a policy. What is said here meanwhile is kept.
        """
        policy, provider = self._compaction.policy, self._provider
        if policy is None or self._turns.open:
            return None
        sizes, ttl_seconds = self._sizes(), provider.plan.tail_ttl_seconds
        planning = self._planning_state()
        cut = self._compaction.cut(self.log, self._turns, sizes, provider.model, planning, ttl_seconds, self._clock())
        if cut is None:
            return None
        side = self._summary_branch(policy.instruction, policy.model, cut.summarise_to)
        side._summary_task = SummaryTask(cut.keep_from, len(self.log), self._turns.epoch, sizes.prompt)
        return side

    def summarise_again(self, side: Self) -> Self:
        """Ask a branch for the summary once more, where its reply was cut, refused, empty, or calls of tools.

        Gives the branch, whose request is to be sent again. Raises `UnusableSummary` after three requests, and where
        asking again cannot help: then compact with a summary of your own.
        """
        problem = side._summary_problem()
        if problem is None or problem == "paused":
            return side
        task = side._summary_task = side._summary_task or SummaryTask(None, len(self.log), self._turns.epoch, 0)
        if task.n_requests >= MOST_REQUESTS or problem not in RETRIES:
            self._compaction.give_up(task.n_tokens)
            check_summary(problem)
        task.n_requests += 1
        for call in side._turns.open_calls:
            side._append("result", side._result_body(call.call_id, InvalidCall(NO_CALLS), is_error=True))
        side._append("user", {"content": content_parts(RETRIES[problem])})
        return side

    def compact_if_due(self, client: Any, **overrides: Json) -> Entry | None:
        """Compact before the next request where that is due: `compacting`, its request, `compact`; None where it is not.

        `client` is the SDK's client of this conversation's provider; `Compaction(client=…)` that of another model.
        `overrides` are parameters of the request for the summary. A reply that is no summary is asked for again, three
        times in all; then `UnusableSummary` is raised, the conversation is as it was, and no summary is asked for until
        it has grown by a tenth.
        """
        side = self.compacting()
        while side is not None:
            request = side.request(**overrides)
            side.receive(request.send(self._compaction.client_for(client)), request)
            try:
                return self.compact(side)
            except UnusableSummary:
                side = self.summarise_again(side)
        return None

    async def acompact_if_due(self, client: Any, **overrides: Json) -> Entry | None:
        """`compact_if_due` for an async client."""
        side = await asyncio.to_thread(self.compacting)
        while side is not None:
            request = side.request(**overrides)
            side.receive(await request.asend(self._compaction.client_for(client)), request)
            try:
                return await asyncio.to_thread(self.compact, side)
            except UnusableSummary:
                side = self.summarise_again(side)
        return None

    def pin(self, what: str | Entry, kind: PinKind = "constraint") -> Entry:
        """Keep a text, or the text of an entry, through every compaction: each new epoch repeats it word for word.

        `kind` is task, constraint, decision or fact. A text is told to the model too, as a notice; an entry in the
        prompt is not told again. The same text is pinned once. Pins are in every later prompt: keep them short.
        """
        is_shown = isinstance(what, Entry) and self._turns.shows(self.log.find(what).sequence)
        body = pin_body(what, kind, is_shown=is_shown)
        pin = self._pins.named(kind, body["event"]["text"])
        return self._append("notice", body) if pin is None else self.log[pin.entry]

    def unpin(self, pin: Entry) -> Entry:
        """Withdraw a pin, given what `pin` returned; the model is told. Raises `UsageError` for another entry."""
        entry = self.log.find(pin)
        found = self._pins.by(entry)
        if found is None:
            raise UsageError(f"entry {entry.sequence} pins nothing, or is withdrawn: give what context.pin(…) returned")
        return self._append("notice", unpin_body(found))

    @property
    def pins(self) -> list[Pin]:
        """What is pinned, in the order in which an epoch repeats it."""
        return list(self._pins)

    def survival(self, **overrides: Json) -> Survival:
        """What became of the task, pins, the plan, open calls and references.

        For each: whether the prompt shows it, the model can read it again, only the program can, or it is lost. Ask
        after any compaction, or at any other time. It is about the next request; `overrides` are those of that request,
        where its `context_management` clears results.
        """
        with self._lock:
            layout = self._layout()
        return self._surveyor().now(self._provider, layout, overrides)

    def compact_results(self, before: Entry | int, above_tokens: int = 500) -> Entry | None:
        """Open a new epoch in which results older than `before` stand as references where they are larger than
        `above_tokens`.

        What stands in front of the first of them stays in the cache. None where no result is large enough. Needs a
        memory.
        """
        memory, last = self._required_memory("compact_results"), self.log.find(before).sequence
        old = [
            self._rendered_result(sequence)
            for sequence in self._turns.ordered
            if sequence < last and self.log[sequence].kind == "result" and sequence not in self._pins.places
        ]
        shorter = memory.shortened(old, above_tokens)
        if not shorter:
            return None
        first = next(sequence for sequence in self._turns.ordered if str(sequence) in shorter)
        why = self._compaction.too_soon(self._surroundings().prices)
        if why is not None:
            warnings.warn(sanitize(why), stacklevel=2)
        removes = shortened_tokens(old, shorter, self._provider.model)
        return self._epoch("results", [], 0, first=first, replaced=shorter, removes_tokens=removes)

    def summarising(self, instruction: Any = INSTRUCTION) -> Self:
        """A branch that asks the model for a summary: the unchanged conversation and one instruction, so that it is
        read from cache.

        Send its request, give it the reply, then hand it to `compact`. Its bill is in this context's ledger, its words
        are not in its log.
        """
        return self._summary_branch(instruction, None, None)

    def restore(self, what: Entry | int | str | Reference) -> Any:
        """What a reference names: its bytes, by its id or itself; the whole content of a result, by its entry.

        Raises `FileMissing` where the memory does not have it, `FileErased`, and `SourceChanged` where only its source
        had it.
        """
        if not isinstance(what, int | Entry):
            return self._required_memory("restore").content_of(what)
        entry = self.log.find(what)
        if entry.kind != "result":
            raise UsageError(
                f"entry {entry.sequence} is no result but {entry.kind}: it stands in the log as it was said"
            )
        from contextkit.context.memory_state import restored

        return restored(entry, self.memory)

    def recall(self, query: str, limit: int = 5, budget_tokens: int = 1_000) -> Entry | None:
        """Append what memory holds on `query`, behind what was said: facts true now and known by now, and what earlier
        words or files answer.

        None where it holds nothing. Nothing that stands in the prompt is repeated. Needs a memory with an index.
        """
        text = self._required_memory("recall").recalled(query, limit, budget_tokens, self._clock())
        return self._append("notice", {"text": text, "event": {"type": "recall", "query": query}}) if text else None

    # Branches and sub-agents
    # ------------------------------------------------------------------------------------------------------------------

    def fork(self, at: Entry | int | None = None, folder: str | Path | None = None) -> Self:
        """A branch that shares everything up to `at` (undo, edit, regenerate): same bytes, so the shared prefix is read
        from cache.
        """
        return self._forked(at, folder, self.memory)

    def spawn(
        self,
        task: Any,
        *,
        provider: Provider | None = None,
        model: str | None = None,
        system: Any = None,
        tools: Iterable[Any] | None = None,
        phases: Phases | None = None,
        memory: Memory | FileMemory | None = None,
        compact: Compaction | None = None,
        call: Call | str | None = None,
    ) -> Self:
        """A sub-agent with a log of its own and `task` as its first user turn.

        What it costs is in this context's ledger and summary, and its budget bounds it.

        Without `system` it has this conversation's head and memory, and reads the head from cache, also where `tools`
        gives it some of this conversation's tools: the others stay in the head and may not be called. With `system`, or
        with a tool this conversation does not have, it has a head of its own, of what it was given. `model` is another
        model of the same endpoint, with the parameters of this one; `provider` any other.

        It is never allowed more than this conversation is now: it inherits the table of phases and the present phase,
        and `phases` can only narrow what is allowed. A tool of this conversation that may not be called in its present
        phase may not be called by the sub-agent in any phase, also where `tools` gives it one of that name; a tool that
        this conversation does not have is allowed. What this conversation enters later changes nothing for the
        sub-agent.

        Its log is a folder below this one's (`agents/<lane>`, in Postgres a session of that name); where this log is in
        memory, so is its own. `context.agent(lane)` opens it again. Its todo list is its own. It is compacted as this
        conversation is, or as `compact` says. `call` is the open call that its answer is for: its `AgentState` says it,
        also after a crash.

        Raises `UsageError` where that would be more than the session's `AgentLimits` allow.
        """
        content = content_parts(task)
        masked: frozenset[str] = frozenset()
        whole = (
            None if system is not None else (self.toolbox, masked) if tools is None else subset_of(tools, self.toolbox)
        )
        if whole is not None:
            system, (tools, masked) = parse(self.log[self._turns.head_system].body)["system"] or None, whole
            memory = as_memory(memory) or self.memory
            tools, missing = self._answered_by(memory, tools)
            masked = masked - self._memory.own.keys() | missing
        permit = self._phases.permit
        table = phases if phases is not None or permit is None else permit.phases
        if masked and table is None:
            table = TOOLS_ONLY
        with self._registry.admitting(self._depth + 1), ExitStack() as opened:
            lane, log = self._new_agent_log()
            opened.enter_context(log)
            origin = self._origin_for(lane, memory, is_inherited=phases is None)
            origin = replace(
                origin,
                denied=origin.denied | masked,
                depth=self._depth + 1,
                limits=self._registry.limits,
                has_tools_only=table is TOOLS_ONLY,
                call=None if call is None else _call_id(call),
                model=model,
            )
            if (whole_memory := as_memory(memory)) is not None and origin.plan is not None:
                memory = whole_memory.with_plan(origin.plan)
            agent_provider = self._provider_for(provider, model)
            agent = type(self)(
                agent_provider,
                system=system,
                tools=tools,
                phases=table,
                memory=memory,
                compact=self._compaction.for_agent(agent_provider) if compact is None else compact,
                sort_results=self._sorts_results,
                log=log,
                clock=self._clock,
                session=self._session,
                _origin=origin,
            )
            agent._bill_to(self)
            agent._append("user", {"content": content})
            opened.pop_all()
        self._adopt(agent)
        return agent

    def spawn_all(self, tasks: Iterable[Any], **options: Any) -> FanOut:
        """Sub-agents that share a head, one a task, made with the options of `spawn`.

        `send` and `asend` of what this gives send the first request of each, so that the head is written once. Raises
        `UsageError` for no tasks, and where these are more than the session's `AgentLimits` allow; none is spawned then.
        """
        if isinstance(tasks, str | bytes | Mapping) or not isinstance(tasks, Iterable):
            raise UsageError(f"spawn_all takes a list of tasks, not {type(tasks).__name__}")
        listed = list(tasks)
        for task in listed:
            content_parts(task)
        self._registry.check(self._depth + 1, len(listed))
        with ExitStack() as opened:
            agents = [opened.enter_context(self.spawn(task, **options)) for task in listed]
            opened.pop_all()
        from contextkit.context.fan_out import FanOut

        return FanOut(agents)

    @property
    def agents(self) -> list[str]:
        """Lanes of the sub-agents whose logs are in this conversation's folder, in the order they were spawned.

        A folder without an entry is none: the process died, or the disk was full, before the sub-agent was there.
        """
        folder, storage = self._agents_folder(), self.log.storage
        if isinstance(storage, SessionStorage):
            prefix = session_name(storage.session, "")
            lanes = [name.removeprefix(prefix) for name in sessions_in(storage, prefix)]
            return sorted((lane for lane in lanes if number_in(lane)), key=number_in)
        return [lane for lane in agents_in(folder) if folder is not None and has_entries(folder / lane / "log.jsonl")]

    @property
    def agent_states(self) -> list[AgentState]:
        """How far each sub-agent of this conversation has come: those of `agents`, and those that are open.

        Of a log that is not open only its end is read, and no lock is taken; a damaged one is `damaged`.
        """
        folder, is_open = self._agents_folder(), {agent.lane: agent for agent in list(self._agents)}
        lanes = self.agents
        lanes += sorted(is_open.keys() - set(lanes), key=number_in)
        states: list[AgentState] = []
        for lane in lanes:
            if lane in is_open:
                states.append(state_of(is_open[lane]))
            elif folder is not None:
                states.append(read_state(lane, folder / lane / "log.jsonl"))
            elif isinstance(self.log.storage, ListedSessions):
                states.append(read_session_state(lane, self.log.storage))
        return states

    def resume_agents(
        self,
        *,
        provider: Provider | None = None,
        tools: Iterable[Any] | None = None,
        phases: Phases | None = None,
        memory: Memory | FileMemory | None = None,
    ) -> list[Self]:
        """Every sub-agent of this conversation that is not finished, open, in the order they were spawned.

        After a crash it opens them as `agent` does; those that are open already are given as they are. The arguments
        are for those that have a head of their own. A damaged log is left out, with a warning that says what is wrong.
        An agent that is open holds one file descriptor. Raises `StorageError` where not all can be opened, and opens
        none then.
        """
        is_open: dict[str, Any] = {agent.lane: agent for agent in list(self._agents)}
        states = self.agent_states
        for state in states:
            if state.status == "damaged":
                warnings.warn(sanitize(f"sub-agent {state.lane} was left out: its log {state.damage}"), stacklevel=2)
        due = [state.lane for state in states if not state.finished and state.status != "damaged"]
        agents: list[Self] = []
        with ExitStack() as opened:
            try:
                for lane in due:
                    agents.append(
                        is_open.get(lane) or self._reopened(lane, provider, tools, phases, memory, is_for_all=True)
                    )
                    if lane not in is_open:
                        opened.callback(self._agents.discard, agents[-1])
                        opened.callback(agents[-1].close)
            except BaseException as failure:
                failure.add_note(
                    f"{len(agents)} of {len(due)} sub-agents were open; those this call opened are closed again. "
                    "context.agent(lane) opens one, context.agent_states lists them"
                )
                raise
            opened.pop_all()
        return agents

    def agent(
        self,
        lane: str,
        *,
        provider: Provider | None = None,
        tools: Iterable[Any] | None = None,
        phases: Phases | None = None,
        memory: Memory | FileMemory | None = None,
    ) -> Self:
        """Open a sub-agent again, also after a crash, by its lane; what it costs is in this context's ledger.

        `tools` gives the functions of an agent that has its own tools, `phases` its table where it was given one.
        Raises `UsageError` where no sub-agent of that lane is kept, `LogLocked` while it is open.
        """
        return self._reopened(lane, provider, tools, phases, memory)

    def fan_out(self, tasks: int | Sequence[Any]) -> FanOut:
        """Branches that share every byte said so far and one ledger: as many as there are `tasks`, each with its own,
        or so many of them.

        `send` and `asend` of what this gives ask all of them, so that the shared part is written once. Raises
        `UsageError` for none.
        """
        if isinstance(tasks, bool | str | bytes | Mapping) or not isinstance(tasks, int | Iterable):
            raise UsageError(f"fan_out takes a list of tasks, or how many branches, not {type(tasks).__name__}")
        listed = [None] * tasks if isinstance(tasks, int) else list(tasks)
        branches = [self._branch() for _ in listed]
        for branch, task in zip(branches, listed, strict=True):
            if task is not None:
                branch._append("user", {"content": content_parts(task)})
        from contextkit.context.fan_out import FanOut

        return FanOut(branches)

    # Appending
    # ------------------------------------------------------------------------------------------------------------------

    def _append(self, kind: Kind, body: Json, *, once: bool = False) -> Entry:
        """Write an entry, and behind it those that are then due.

        `once`: return the entry of this kind and body if the log holds it (of calls, since the last reply).
        """
        with self._lock:
            self._settle()
            if once:
                self._turns.check(kind, body)
                frozen = canonical(body)
                first = 0 if kind == "user" else self._turns.last_assistant  # the ids of calls are those of one reply
                for entry in self.log[first:]:
                    if entry.kind == kind and entry.body == frozen:
                        return entry
            entry = self._write(kind, self._phases.with_refusals(body) if kind == "assistant" else body)
            if kind == "assistant":
                self._late_refusals.clear()
            with suppress(*_RETRYABLE):  # the entry is durable: who calls again would write it twice
                self._write_due()
        return entry

    def _append_turn(self, kind: Kind, body: Json, *, is_new: bool) -> Entry:
        """Append a turn of somebody's message list; a new result lives as the memory's rules say, others as they are."""
        if kind == "assistant":
            body = {**body, "after": len(self.log) - 1}
        elif kind == "result" and is_new and "references" not in body:
            body = self._memory.written(body, None, self._surroundings)
        return self._append(kind, body)

    def _head(self) -> tuple[list[Json], list[Json]]:
        """System parts and tool definitions in force."""
        system = parse(self.log[self._turns.head_system].body)["system"]
        return system, self._declared_tools()

    def _settle(self) -> None:
        """Write what was due behind the last entry and could not be written with it, as the disk was full."""
        if not self._fed:
            return
        n = self._turns.n
        try:
            self._write_due()
        finally:
            results = (entry for entry in self.log[n:] if entry.kind == "result")
            self._late_refusals.update((parse(entry.body)["call_id"], entry) for entry in results)

    def _write_due(self) -> None:
        while (reducer := next((one for one in self._reducers if one in self._fed), None)) is not None:
            due = reducer.due()
            if due is None:
                self._fed.discard(reducer)
            else:
                self._write(*due)

    def _write(self, kind: Kind, body: Json) -> Entry:
        self._turns.check(kind, body)
        entry = self.log.append(kind, body)
        self._turns.take(entry, body)
        n_found = len(self._late.found_at)
        for reducer in self._reducers:
            if kind in reducer.reads:
                reducer.feed(entry)
                self._fed.add(reducer)
        if len(self._late.found_at) != n_found:
            self._widen()
        return entry

    def _replay(self) -> None:
        """Feed what the log holds already; nothing is due yet."""
        readers = {kind: [reducer.feed for reducer in self._reducers if kind in reducer.reads] for kind in KINDS}
        feed = self._turns.feed
        for entry in self.log.entries:
            feed(entry)
            for feed_reducer in readers[entry.kind]:
                feed_reducer(entry)

    def _begin_phases(self, permit: Permit | None) -> None:
        """Continue in the phase the log says, the first one if it says none; write what a crash kept from being
        written.
        """
        with self._lock:
            self._phases.begin(widened(permit, self._late, self._provider, self.toolbox))
            self._fed.update(self._reducers)
            self._write_due()

    def _widen(self) -> None:
        self._phases.use(widened(self._phases.permit, self._late, self._provider, self.toolbox))

    def _limits(self) -> Limits:
        """The limits beside the table of phases."""
        own = self._memory.own
        return Limits(own) if self._origin is None else self._origin.tool_limits(own)

    def _declared_tools(self) -> list[Json]:
        """Definitions in the static prefix."""
        tools: list[Json] = parse(self.log[self._turns.head_tools].body)["tools"]
        return tools

    def _epoch(
        self, reason: str, summary: Json, keep_from: int | None, *, first: int | None = None, **more: Json
    ) -> Entry:
        """A declared prefix reset; `first`: the entry whose bytes change first, where not all do."""
        with self._lock:
            price = self._prompts.n_tokens(self.log, self._turns, self._provider, first)
        body = {"reason": reason, "summary": summary, "keep_from": keep_from, "rewrites_tokens": price, **more}
        return self._append("epoch", {**body, "templates": {self._provider.wire: self._provider.template}})

    def _renew(self, reason: str, system: Json | None, tools: Json | None) -> Entry:
        return self._epoch(reason, [], 0, **renewed(self._provider, system, tools))

    def _notice_change(self, change: Change, lifetime: dict[str, Json]) -> Entry:
        if isinstance(change, OutputChanged) and self._provider.noticing != IN_BAND:
            raise UsageError(out_of_band(self._provider, self._n_rewritten({FIELD: change.output})))
        body = {**change.body, **lifetime}
        sequence = self._changes.sequence_of(change, canonical(body))
        return self._append("notice", body) if sequence is None else self.log[sequence]

    # Requests and replies
    # ------------------------------------------------------------------------------------------------------------------

    def _layout(self) -> PromptLayout:
        return self._prompts.layout(
            self.log, self._turns, self._provider, self._n_shared_entries(), self._planning_state()
        )

    def _n_shared_entries(self) -> int:
        epoch, n_shared = self._n_shared
        return n_shared if epoch == self._turns.epoch else 0

    def _planning_state(self) -> PlanningState:
        return self._account.planning_state(self._provider.model, self.log[-1].at, self._turns.epoch)

    def _n_rewritten(self, overrides: dict[str, Any]) -> int:
        """Tokens that the next request would pay for beside what it pays for anyway, were it made with these
        parameters.
        """
        with self._lock:
            layout = self._layout()
        provider = self._provider
        fields = routing(provider, layout, self._root).fields
        changed = lowered(provider.wire, overrides, provider.params)[1]
        now, then = (self._account.quote(provider, layout, {**fields, **more}) for more in ({}, changed))
        return max((now.read or 0) - (then.read or 0), 0)

    def _answered_request(self, request: Request | None) -> Request:
        """The request that is answered: the one given, else the last built."""
        if not isinstance(request, Request | None):
            raise UsageError(f"request is what context.request() gave, not {type(request).__name__}")
        return self._account.last(self.request) if request is None else request

    def _receive(self, response: Any, request: Request, first_byte_at: float | None) -> Entry | None:
        try:
            body = take(
                response, request, self._provider, self._account, self._turns.check, self._is_stored, first_byte_at
            )
            if not isinstance(body, dict):
                return self._last_reply() if body else None
            summary = summed_up(body)
            if summary is None:
                return self._append("assistant", body)
            entry = self._compacted(body, *summary)
        except (OSError, StorageError) as fault:
            self._account.settled(request, fault)  # the response is there to be received again: the call has not failed
            raise
        policy = self._compaction.policy
        if policy is not None and policy.on_lost != "ignore":
            self._report_loss(self.survival(), None, is_done=True)
        return entry

    def _last_reply(self) -> Entry | None:
        return None if self._turns.last_assistant is None else self.log[self._turns.last_assistant]

    def _is_stored(self, body: Json) -> bool:
        """Return whether the log ends with this reply: it was kept, and whoever received it did not learn of that."""
        last = self._last_reply()
        if last is None or self._turns.has_pending_user or self.stop not in ENDED | {"calls"}:
            return False
        stored = parse(last.body)
        return all(stored.get(name) == body.get(name) for name in ("native", "text", "calls", "stop"))

    def _call(self, call: OpenCall) -> Call:
        tool = self._late.answering(call.name, call.arguments, self.toolbox)
        return Call(
            call.call_id,
            call.name,
            call.arguments,
            call.was_started,
            call.is_cut,
            None if tool is None else tool.permitted(lambda: self._phases.refusal(call.name, call.arguments)),
            lambda call_id: self._append("begun", {"call_id": call_id}, once=True),
            self.result,
            lambda name: self._phases.refusal(name, call.arguments),
        )

    # Compaction
    # ------------------------------------------------------------------------------------------------------------------

    def _compacted(self, body: dict[str, Json], summary: list[Json], reply: list[Json]) -> Entry:
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
        return self._append("assistant", {**body, "native": {**native, "body": reply}}) if reply else epoch

    def _restated(self, summary: list[Json], keep_from: int | None) -> tuple[list[Json], LeftBehind]:
        """The beginning of an epoch: pins and failures; with a memory also the goal, the plan and the references of what
        is left out.

        And what it leaves outside the window.
        """
        from contextkit.memory.opening import failures, opening

        policy = self._compaction.policy
        end = len(self.log) if keep_from is None else keep_from
        has_goal = self.memory is not None or policy is not None
        goal = goal_of(self.log[:end]) if has_goal else ""
        if self._pins.named("task", goal) is not None:
            goal = ""
        left, plan = self._memory.left_behind(end), self._memory.plan
        failed = failures(self.log, end, MOST_FAILURES if policy is None else policy.keep_failures)
        return opening(summary, goal, plan, left.listing, self._pins.repeated(end), failed), left

    def _summary_branch(self, instruction: Any, provider: Provider | None, at: int | None) -> Self:
        """A branch that is asked for a summary of what is said up to entry `at`."""
        side = self._side_branch(at)
        if provider is not None:
            side.switch(provider)
        side._append("user", {"content": content_parts(instruction)})
        return side

    def _n_tokens(self, first: int | None = None) -> int:
        """Tokens of the prompt from entry `first` of the order on."""
        return self._prompts.n_tokens(self.log, self._turns, self._provider, first)

    def _n_head_tokens(self) -> int:
        """Tokens of tools and system."""
        return self._n_tokens() - (self._n_tokens(self._turns.ordered[0]) if self._turns.ordered else 0)

    def _sizes(self) -> Sizes:
        """Tokens of the next prompt, as a policy weighs them."""
        provider, ordered = self._provider, self._turns.ordered
        with self._lock:
            self._settle()
            layout = self._layout()
            prompt = self._account.quote(provider, layout, routing(provider, layout, self._root).fields).prompt or 0
            epoch = ordered[0] if ordered and self.log[ordered[0]].kind == "epoch" else -1
            new = next((sequence for sequence in ordered if sequence > epoch), None)
            n_new = 0 if new is None else self._n_tokens(new)
            return Sizes(prompt, self._n_head_tokens(), n_new, self._n_tokens, output_tokens(provider.params))

    def _may_call(self, name: str) -> bool:
        """Return whether the model has a tool and may call it now."""
        is_there = name in self.toolbox.names or name in self._late
        return is_there and self._phases.refusal(name) is None

    def _surveyor(self) -> Surveyor:
        from contextkit.context.survival import Surveyor

        return Surveyor(self.log, self._turns, self._memory, self._pins, self._may_call)

    def _report_loss(self, after: Survival, before: Survival | None, *, is_done: bool) -> None:
        """Raise or warn, as the policy says, where a compaction leaves items that the model cannot read."""
        from contextkit.context.survival import loss_text, newly_unreadable

        policy, items = self._compaction.policy, newly_unreadable(after, before)
        if not items or policy is None:
            return
        text = loss_text(items, is_done=is_done or policy.on_lost == "warn")
        if policy.on_lost == "raise":
            raise ItemsLost(text)
        warnings.warn(sanitize(text), stacklevel=3)

    def _rendered_result(self, sequence: int) -> Entry:
        """A result as the prompt holds it now."""
        entry, content = self.log[sequence], self._turns.replaced.get(sequence)
        return entry if content is None else replace(entry, body=canonical({**parse(entry.body), "content": content}))

    def _answer_text(self) -> str:
        """The answer of the model to what this branch was made for."""
        if self._turns.has_pending_user:
            raise UsageError(
                "the branch has no answer yet: send its request, then side.receive(reply), before compact(side) or "
                "result(call, side)"
            )
        return self.last_text

    def _summary_problem(self) -> str | None:
        """Why the last reply of this branch is no summary; None where it is one."""
        return problem_of(self._turns, self._answer_text())

    def _extracted(self, call_id: str) -> Json:
        """Body of the result of a call that this branch was made to read: its reply in place of the large parts."""
        extract = self._answer_text()
        entries = (entry for entry in reversed(self.log) if entry.kind == "result")
        body = next((body for entry in entries if (body := parse(entry.body))["call_id"] == call_id), None)
        if body is None or "whole" not in body:
            raise UsageError(f"this branch did not read the result of call {call_id!r}: context.delegate(call, value)")
        from contextkit.memory.offload import extracted

        return extracted(body, extract)

    def _surroundings(self) -> Surroundings:
        """What a result comes into now."""
        from contextkit.economics.residency import Prices
        from contextkit.memory.residency import Surroundings

        model = self._provider.model
        with self._lock:
            state, n_tokens = self._planning_state(), self._prompts.n_tokens(self.log, self._turns, self._provider)
        ttl_seconds = self._provider.plan.tail_ttl_seconds
        return Surroundings(
            Prices.of(state.price, model, n_tokens, ttl_seconds), n_tokens, binds_reasoning(self._provider)
        )

    def _required_memory(self, what: str) -> MemoryState:
        if self.memory is None:
            raise UsageError(f"context.{what} needs a memory: Context(…, memory=FileMemory(folder))")
        return cast("MemoryState", self._memory)

    # Branching
    # ------------------------------------------------------------------------------------------------------------------

    def _forked(self, at: Entry | int | None, folder: str | Path | None, memory: Memory | None) -> Self:
        with ExitStack() as opened:
            storage = None if folder is None else open_storage(folder)
            if storage is not None:
                opened.callback(storage.close)
            log = opened.enter_context(self.log.fork(-1 if at is None else at, storage))
            ledger = opened.enter_context(Ledger() if storage is None else Ledger.beside(storage))
            branch = type(self)(
                apart(self._provider),
                log=log,
                ledger=ledger,
                clock=self._clock,
                phases=self._phases.permit,
                memory=memory,
                variation=self._memory.variation,
                compact=self._compaction.policy,
                sort_results=self._sorts_results,
            )
            opened.pop_all()
        branch.toolbox = self.toolbox
        branch._late.share(self._late)
        branch._widen()
        branch._account.share(self._account)
        branch._registry = self._registry
        self._server.share(branch._server)
        return branch

    def _side_branch(self, at: int | None = None) -> Self:
        """A branch for one question, of what is said up to entry `at`: billed to this conversation, and not indexed for
        searches.
        """
        side = self.fork(at)
        side._memory.leave(side.log)
        side._bill_to(self)
        return side

    def _branch(self) -> Self:
        """A branch of a fan-out: its lane, its plan, and the caller's ledger."""
        lane = self._registry.next("branch", self.log.digest, self.ledger)
        branch = self._forked(None, None, self._memory_for(lane))
        branch.toolbox = Toolbox(branch._memory.rebound(self.toolbox))
        branch._late.bind(branch._memory.rebound(branch._late.tools))
        branch._lane = lane
        branch._account = Account(Ledger(), branch._session, lane, self._clock)
        branch._bill_to(self)
        branch._n_shared = branch._turns.epoch, len(branch._turns.ordered)
        return branch

    def _reopened(
        self,
        lane: str,
        provider: Provider | None,
        tools: Iterable[Any] | None,
        phases: Phases | None,
        memory: Memory | FileMemory | None,
        *,
        is_for_all: bool = False,
    ) -> Self:
        """`agent`; `is_for_all`: what is given is for agents with a head of their own, and one with this head has
        this conversation's.
        """
        folder, storage = self._agents_folder(), self.log.storage
        with ExitStack() as opened:
            if isinstance(storage, SessionStorage):
                log = opened.enter_context(Log(storage.beside(session_name(storage.session, lane)), self._clock))
            elif folder is not None and lane in agents_in(folder):
                log = opened.enter_context(Log.open(folder / lane / "log.jsonl", self._clock))
            else:
                raise UsageError(f"there is no sub-agent {lane!r} here: context.agents names those whose logs are kept")
            origin = Origin.of(log)
            if origin is None:
                raise UsageError(f"there is no sub-agent {lane!r} here: its log is empty, or somebody else's")
            declared = parse(log[Turns.over(log).head_tools].body)["tools"]
            has_this_head = canonical(declared) == canonical(self.toolbox.definitions())
            if has_this_head and is_for_all:
                tools = memory = None
            if has_this_head and (whole := subset_of(tools or (), self.toolbox)) is not None:
                memory = as_memory(memory) or self.memory
                tools = self._answered_by(memory, whole[0])[0]
            elif tools is None:
                tools = functions_for(declared, self.toolbox, self._memory.own)
            if (whole_memory := as_memory(memory)) is not None and origin.plan is not None:
                memory = whole_memory.with_plan(origin.plan)
            permit = self._phases.permit
            if origin.table_names is not None and permit is not None and (phases is None or is_for_all):
                phases = permit.phases
            agent_provider = self._provider_for(provider, origin.model if provider is None else None)
            agent = type(self)(
                agent_provider,
                tools=tools,
                phases=phases,
                memory=memory,
                compact=self._compaction.for_agent(agent_provider),
                sort_results=self._sorts_results,
                log=log,
                clock=self._clock,
                session=self._session,
            )
            agent._bill_to(self)
            agent._account.resume()
            opened.pop_all()
        self._adopt(agent)
        return agent

    def _answered_by(self, memory: Memory | None, toolbox: Toolbox) -> tuple[Toolbox, frozenset[str]]:
        """The tools of a sub-agent with this head, those of this conversation's memory answered by `memory`; and the
        names of those that it does not have.
        """
        if memory is self.memory:
            return toolbox, frozenset()
        own = self._memory.own
        other = {} if memory is None else {tool.name: tool for tool in memory.tools(self._declared_tools())}
        shared = {name for name, tool in other.items() if own.get(name) == tool.body}
        return Toolbox(other[tool.name] if tool.name in shared else tool for tool in toolbox), frozenset(
            own.keys() - shared
        )

    def _adopt(self, agent: Self) -> None:
        """A sub-agent is open: closing this conversation closes it."""
        self._agents.add(agent)
        self._registry.open.add(agent)

    def _provider_for(self, provider: Provider | None, model: str | None) -> Provider:
        """The adapter of a sub-agent. Raises `UsageError` for a provider and a model, and for no name of a model."""
        if model is None:
            return apart(self._provider) if provider is None else provider
        if provider is not None:
            raise UsageError("give a sub-agent a provider, or the name of a model of this endpoint, not both")
        return apart(with_model(self._provider, model))

    @property
    def _depth(self) -> int:
        """Levels below the conversation of the session."""
        return 0 if self._origin is None else self._origin.depth

    def _bill_to(self, caller: Context) -> None:
        """Record what it costs in the caller's ledger."""
        self.ledger, self._owned, self._registry = caller.ledger, (self.log,), caller._registry
        self._account.keep_with(caller._account)

    def _origin_for(self, lane: str, memory: Memory | FileMemory | None, *, is_inherited: bool) -> Origin:
        """What a sub-agent has from this conversation as it is now."""
        state, permit = self._phases, self._phases.permit
        tools = {tool.name: tool for tool in (*self.toolbox, *self._late.tools, *catalogues(self.toolbox).values())}
        denied = state.denied(tools) | self._limits().denied
        table_names: frozenset[str] | None = None
        if is_inherited and permit is not None:
            table_names = frozenset(tools) if permit.limits.known is None else permit.limits.known
        phase = None if table_names is None else state.phase
        plan = self._plan_for(lane, memory)
        return Origin(lane, self._session, self._root.hex(), denied, table_names, phase, plan)

    def _plan_for(self, lane: str, memory: Memory | FileMemory | None) -> str | None:
        """Path of a sub-agent's todo list where it would be this conversation's own; None where it is another already."""
        own = None if self.memory is None else self.memory.todo
        given = as_memory(memory)
        other = None if given is None else given.todo
        if own is None or other is None or (own.root, own.path) != (other.root, other.path):
            return None
        return f"{AGENTS}/{lane}/{own.name.rpartition('/')[2]}"

    def _memory_for(self, lane: str) -> Memory | None:
        """The memory of a branch that runs beside others: with a copy of the plan, since each goes on with its own."""
        path = self._plan_for(lane, self.memory)
        if self.memory is None or self.memory.todo is None or path is None:
            return self.memory
        memory = self.memory.with_plan(path)
        if text := self.memory.todo.markdown:
            memory.files.write(path, text)
        return memory

    def _agents_folder(self) -> Path | None:
        path = self.log.storage.path
        return None if path is None else path.parent / AGENTS

    def _new_agent_log(self) -> tuple[str, Log]:
        """A name and an empty log for a sub-agent, kept where this conversation's log is."""
        folder, storage = self._agents_folder(), self.log.storage
        while True:
            lane = self._registry.next("agent", self.log.digest, self.ledger, folder)
            if isinstance(storage, SessionStorage):
                log = Log(storage.beside(session_name(storage.session, lane)), self._clock)
            elif folder is not None:
                log = Log.open(folder_at(folder / lane) / "log.jsonl", self._clock)
            else:
                log = Log(clock=self._clock)
            if not len(log):
                return lane, log
            log.close()  # another process, or an earlier one, took this name


def _call_id(call: Call | str) -> str:
    return call if isinstance(call, str) else str(getattr(call, "id", call))
