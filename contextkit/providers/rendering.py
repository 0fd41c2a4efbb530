"""The log in the bytes of each endpoint (`PromptStore`): one set of columns per wire, model, way to announce phases and
tools, and epoch, which grows by what is appended.

It has no rule of its own: the order comes from `Turns`, the rendering from the adapter, the breakpoints from the
planner. Reasoning that an API leaves out of a prompt, by rule or as a reply says, stays on the wire as the log has it:
the API decides anew each time. `as_read` gives what the model read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from contextkit.canonical import Json, canonical, parse
from contextkit.log.entry import Entry
from contextkit.log.log import Turns
from contextkit.models import Model, is_of_another
from contextkit.prompt.breakpoints import plan
from contextkit.prompt.diff import path_of
from contextkit.prompt.planner import Choice, PlanningState, choose
from contextkit.prompt.prompt import PromptColumns, PromptLayout
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request

_CONTEXTS: Mapping[str, bool] = {"current_turn": True, "all_turns": False}
"""`reasoning.context` → whether reasoning of earlier turns leaves the prompt when the user speaks
(shared_params/reasoning.py:19-27)."""


def strips(wire: str, model: Model, params: Mapping[str, Json]) -> bool:
    """Return whether earlier thinking leaves the prompt when a new user turn arrives.

    On Responses the parameter says so, else the model's family: `all_turns` from gpt-5.6 on, `current_turn` before
    (shared_params/reasoning.py:24; for gpt-6 assumed as for gpt-5.6).

    >>> from contextkit.models import model_named
    >>> [strips("openai_responses", model_named(name), {}) for name in ("gpt-5.5", "gpt-5.6-sol", "gpt-6.1-sol")]
    [True, False, False]
    """
    if wire != "openai_responses":
        return model.strips_thinking
    asked = params.get("reasoning")
    context = asked.get("context") if isinstance(asked, Mapping) else None
    return _CONTEXTS.get(str(context), model.strips_reasoning)


def binds_reasoning(provider: Provider) -> bool:
    """Return whether replayed reasoning is checked against the prompt before it.

    Claude from 5.5 (5.1 of Fable) on answers 400 to a changed past. Responses leaves such reasoning out and reports it
    (openai/types/responses/response.py:110-118, 2026-11); Chat takes no reasoning back.
    """
    is_dropped = provider.wire == "openai_responses" and provider.model.provider == "openai"
    return provider.model.binds_thinking or is_dropped


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request as the model read it."""

    request: Request
    """With a prompt that does not count what was left out."""
    withheld: tuple[str, ...]
    """Names of reasoning that should have been in it and was not: ids on Responses, digests of signatures on Messages.
    """
    reasons: tuple[str, ...]
    """Why, each reason once: `prefix_mismatch`, `prefix_binding_mismatch`, …"""


def as_read(request: Request, provider: Provider, withheld: Mapping[str, str]) -> ReadRequest:
    """`request` as its reply says it was read: without what was `withheld` (id, or path in the body → why), as far as
    it counted.
    """
    whys = _by_name(request.layout.columns, withheld) if withheld and request.wire == provider.wire else {}
    found = named_in(request.layout.columns, whys)
    if not found:
        return ReadRequest(request, (), ())
    columns = request.layout.columns.rewound(request.layout.n)
    columns.withhold(found.values())
    layout, other = replace(request.layout, columns=columns), copy(request)
    other.layout, other._prompt = layout, provider.prompt(layout, request.params)
    return ReadRequest(other, tuple(found), tuple(dict.fromkeys(whys[name] for name in found)))


def named_in(columns: PromptColumns, names: Collection[str]) -> dict[str, int]:
    """Names among `names` of reasoning that counts in a prompt → its segment."""
    state = {_name(columns, index): index for index in columns.thinking_blocks} if names else {}
    return {name: state[name] for name in names if name in state}


def _by_name(columns: PromptColumns, withheld: Mapping[str, str]) -> dict[str, str]:
    """Why by name: Anthropic says where in this body a block stood
    (anthropic/types/beta/beta_thinking_dropped_input_transformation.py).
    """
    if not any(place.startswith("messages.") for place in withheld):
        return dict(withheld)
    at = {path_of(columns, index).replace("[", ".").replace("]", ""): index for index in columns.thinking_blocks}
    return {_name(columns, at[place]): why for place, why in withheld.items() if place in at}


def _name(columns: PromptColumns, index: int) -> str:
    """The item's id; where it has none, a digest of what seals it."""
    block = parse(columns.body(index))
    sealed = str(block.get("signature") or block.get("data") or block.get("thinking"))
    return str(block.get("id") or hashlib.sha256(sealed.encode()).hexdigest()[:16])


@dataclass(slots=True)
class _Grown:
    """A columns and which entries it holds."""

    columns: PromptColumns
    n_head: int
    rendered: list[int] = field(default_factory=list)
    """Sequences in it, in order."""
    ends: list[int] = field(default_factory=list)
    """Segments after each of them."""

    def n_after(self, count: int) -> int:
        """Segments that the head and the first `count` entries make."""
        return self.ends[count - 1] if count else self.n_head


class PromptStore:
    """Every columns of one conversation."""

    __slots__ = ("_grown",)

    def __init__(self) -> None:
        self._grown: dict[tuple[str, ...], tuple[int, _Grown]] = {}

    def layout(
        self,
        log: Sequence[Entry],
        turns: Turns,
        provider: Provider,
        n_shared: int = 0,
        state: PlanningState | None = None,
    ) -> PromptLayout:
        """The whole conversation so far, marked; costs what was added since the last call for this provider.

        `n_shared`: how many entries of the order siblings send too; the end of them is marked. `state`: what is known
        of the session.
        """
        grown = self._synced(log, turns, provider)
        previous, shared = _ends(grown, turns, n_shared)
        if state is None:
            marks = plan(grown.columns, len(grown.columns.ends), previous, provider.plan, shared)
        else:
            marks = choose(grown.columns, len(grown.columns.ends), previous, provider.plan, state, shared).marks
        temporary = [*_temporary_results(log, turns), *(log[sequence] for sequence in turns.passing)]
        columns = _passed(grown.columns, temporary, provider) if temporary else grown.columns
        return PromptLayout(columns, len(columns), marks)

    def choice(
        self, log: Sequence[Entry], turns: Turns, provider: Provider, state: PlanningState, n_shared: int = 0
    ) -> Choice:
        """Return the breakpoints that `layout` places, with the alternatives that were compared."""
        grown = self._synced(log, turns, provider)
        previous, shared = _ends(grown, turns, n_shared)
        return choose(grown.columns, len(grown.columns.ends), previous, provider.plan, state, shared)

    def n_tokens(self, log: Sequence[Entry], turns: Turns, provider: Provider, first: int | None = None) -> int:
        """Tokens of the prompt from entry `first` of the order on; of all of it without one."""
        grown = self._synced(log, turns, provider)
        ends, n = grown.columns.ends_tokens, len(grown.columns.ends)
        start = 0 if first is None else grown.n_after(min(turns.ordered.index(first), len(grown.ends)))
        return (ends[n - 1] if n else 0) - (ends[start - 1] if start else 0)

    def _synced(self, log: Sequence[Entry], turns: Turns, provider: Provider) -> _Grown:
        names = (
            provider.wire,
            provider.name,
            provider.model.name,
            provider.telling,
            provider.announcing,
            provider.noticing,
        )
        key = (*names, str(strips(provider.wire, provider.model, provider.params)))
        epoch, grown = self._grown.get(key, (-1, None))
        if grown is None or epoch != turns.epoch:
            grown = _headed(log, turns, provider)
            self._grown[key] = turns.epoch, grown
        _rewind(grown, turns.ordered)
        others: dict[str, bool] = {}
        for sequence in turns.ordered[len(grown.rendered) : turns.n_settled]:
            model = turns.written_by.get(sequence)
            if model and model not in others:
                others[model] = is_of_another(model, provider.model)
            holds = sequence not in turns.without_thinking and not (model and others[model])
            entry = log[sequence]
            if sequence in turns.replaced:
                entry = _with_content(entry, turns.replaced[sequence])
            blocks = list(provider.render_entry(entry, keeps_thinking=holds))
            if not blocks and entry.kind == "assistant":  # without a turn of the model, two of the user's would meet
                blocks = list(provider.render_entry(_stands_for(entry)))
            grown.columns.extend(blocks)
            if left_out := turns.withheld.get(sequence):
                grown.columns.withhold(named_in(grown.columns, left_out).values())
            grown.rendered.append(sequence)
            grown.ends.append(len(grown.columns.ends))
        return grown


def _ends(grown: _Grown, turns: Turns, n_shared: int) -> tuple[int, int]:
    """Segments of the request before, and of what siblings send too."""
    before = turns.n_before_last_assistant
    previous = grown.n_after(before) if before is not None else 0
    return previous, grown.n_after(min(n_shared, len(grown.ends)))


def _temporary_results(log: Sequence[Entry], turns: Turns) -> Iterator[Entry]:
    """Yield what stands behind the settled entries: results that the next reply sees whole, and what follows them."""
    for sequence in turns.ordered[turns.n_settled :]:
        entry = log[sequence]
        yield _with_content(entry, parse(entry.body)["whole"]) if sequence in turns.shown_once else entry


def _with_content(entry: Entry, content: Json) -> Entry:
    """The result as this epoch renders it."""
    return replace(entry, body=canonical({**parse(entry.body), "content": content}))


def _stands_for(entry: Entry) -> Entry:
    """Return what stands for a reply of which the prompt holds nothing: one without content, or reasoning alone that
    the model takes no more.
    """
    body = parse(entry.body)
    native = {**body["native"], "wire": "", "body": []}  # no wire's own blocks: each renders the text
    text = "(Reasoning left out.)" if body["native"]["body"] else "(No content.)"
    return replace(entry, body=canonical({**body, "text": text, "native": native}))


def _headed(log: Sequence[Entry], turns: Turns, provider: Provider) -> _Grown:
    columns = PromptColumns(
        provider.grammar,
        strips_thinking=strips(provider.wire, provider.model, provider.params),
        tool_prompt_tokens=provider.model.tool_prompt_tokens,
    )
    system, tools = parse(log[turns.head_system].body)["system"], parse(log[turns.head_tools].body)["tools"]
    columns.extend(list(provider.render_static_prefix(system, tools, turns.head)))
    return _Grown(columns, len(columns))


def _passed(columns: PromptColumns, passing: Iterable[Entry], provider: Provider) -> PromptColumns:
    """A copy of the columns and, behind it, what the next request will not repeat: no mark may stand there."""
    branch = columns.rewound(len(columns))
    for entry in passing:
        branch.extend(provider.render_entry(entry))
    return branch


def _rewind(grown: _Grown, ordered: list[int]) -> None:
    """Take back what moved behind a late reply; `Turns` only ever edits its tail."""
    count = len(grown.rendered)
    while count and (count > len(ordered) or ordered[count - 1] != grown.rendered[count - 1]):
        count -= 1
    if count < len(grown.rendered):
        grown.columns = grown.columns.rewound(grown.n_after(count))
        del grown.rendered[count:], grown.ends[count:]
