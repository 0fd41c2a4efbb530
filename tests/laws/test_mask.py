"""Law 5: entering a phase moves no segment before the tail, costs what it says, and what is sent is accepted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, OpenAIChat, Phase, Phases
from contextkit.canonical import parse
from contextkit.engines.registry import ENGINES, engine
from contextkit.prompt.prompt import PlacedBlock
from contextkit.providers.provider import Provider
from contextkit.server.answer import Outcome, answer
from contextkit.server.endpoints.table import CHAT, CONVERSE, GENERATE, MESSAGES, RESPONSES
from contextkit.server.state import Clock, State
from tests.laws.conversations import (
    BREAKING,
    MORE_TOOLS,
    SAYING,
    SYSTEM,
    TOOLS,
    Conversation,
    Operation,
    Sent,
    operations,
)
from tests.laws.rule_classes import one_of_each
from tests.laws.wires import PROVIDERS, RULE_CLASSES
from tests.scale import cases

laws = settings.get_profile("laws")
BETA = "mid-conversation-tool-changes-2026-07-01"
TOLD: dict[str, Callable[[], Provider]] = {
    "anthropic-in-band": lambda: AnthropicMessages("claude-opus-5", max_tokens=1024, betas=[BETA]),
    "anthropic-reminder": lambda: AnthropicMessages("claude-sonnet-5", max_tokens=1024),
    "chat-elsewhere": lambda: OpenAIChat("deepseek-flash"),
}
MASKED = {**PROVIDERS, **TOLD}
NAMES = cases([*RULE_CLASSES, *TOLD], MASKED)
TABLE = Phases(
    {
        "look": Phase(allow=["search"], then={"search:error": "count", "search": "all"}),
        "count": Phase(allow=["add"], require=True, then={"add": "look"}),
        "all": Phase(then={"add:ok": "silent", "s*": "count"}),
        "silent": Phase(allow=[], by_hand=True),
    },
    start="look",
)
ENTERING = st.tuples(st.just("enter"), st.sampled_from(sorted(TABLE)))
EXTRA = st.tuples(st.just("resume"))
WIRES = {
    "anthropic_messages": MESSAGES,
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "bedrock_converse": CONVERSE,
    "gemini": GENERATE,
}


class Masked(Conversation):
    """A conversation with phases."""

    def __post_init__(self) -> None:
        super().__post_init__()
        given: dict[str, Any] = {"system": self.system, "tools": TOOLS, "clock": lambda: self.clock_at, "phases": TABLE}
        self.context = Context(self.provider, **given)
        self.context.user("Find the three cheapest GPUs.")

    def _enter(self, phase: str) -> None:
        self.context.enter(phase)

    def _resume(self) -> None:
        old = self.context
        self.context = Context(
            self.provider, log=old.log, ledger=old.ledger, tools=old.toolbox, clock=lambda: self.clock_at, phases=TABLE
        )


def firm(sent: Sent, context: Context) -> list[PlacedBlock]:
    """The segments before the notices at the very end, which the next thing said may still come before."""
    segments = list(sent.request.layout.blocks)
    while segments and segments[-1].entry >= 0 and context.log[segments[-1].entry].kind == "phase":
        segments.pop()
    return segments


def asks_for_an_answer(sent: Sent) -> bool:
    """Whether somebody has spoken since the model: a prompt that ends in a reply is no request a loop would make."""
    body = parse(sent.body)
    messages = body.get("messages") or body.get("contents") or [{}]
    return messages[-1].get("role") not in ("assistant", "model")


def accepted(sent: Sent) -> Outcome:
    host = sent.request.provider
    played = None if host in ("anthropic", "openai") else engine(host if host in ENGINES else "sglang")
    state = State(Clock(0.0, is_frozen=True), None, played)
    headers = {"x-api-key": "any", "authorization": "any", "anthropic-version": "2026-10-21", **sent.request.headers}
    return answer(state, WIRES[sent.request.wire], headers, sent.body)


@pytest.mark.parametrize("name", NAMES)
@given(st.data())
@laws
def test_a_phase_moves_no_segment_before_the_tail(name: str, data: st.DataObject) -> None:
    given_operations: list[Operation] = data.draw(operations(*SAYING, *BREAKING, ENTERING, ENTERING, EXTRA))
    conversation = Masked(MASKED[name]()).run(given_operations)
    strips = conversation.provider.model.strips_thinking
    for one, other in pairwise(conversation.sent):
        if one.request.epoch == other.request.epoch:
            before = firm(one, conversation.context)
            after = list(other.request.layout.blocks)[: len(before)]
            assert [(s.level, s.lead, s.body) for s in after] == [(s.level, s.lead, s.body) for s in before]
            assert strips or after == before


@pytest.mark.parametrize("name", [name for name in NAMES if name != "chat-elsewhere"])
@given(st.data())
@laws
def test_what_is_sent_is_accepted_and_billed_as_predicted(name: str, data: st.DataObject) -> None:
    conversation = Masked(MASKED[name]()).run(data.draw(operations(*SAYING, ENTERING, ENTERING, EXTRA)))
    for sent in conversation.sent:
        if asks_for_an_answer(sent):
            outcome = accepted(sent)
            assert outcome.status == 200, outcome.chunks[0][:300]
        predicted = sent.request.predicted
        assert (predicted.read, predicted.prompt) == (sent.billed.read, sent.billed.prompt)


@pytest.mark.parametrize("name", NAMES)
@given(st.data())
@laws
def test_a_change_costs_at_most_sixty_tokens_and_nothing_where_it_is_a_parameter(
    name: str, data: st.DataObject
) -> None:
    conversation = Masked(MASKED[name]()).run(data.draw(operations(*SAYING, ENTERING, ENTERING)))
    for sent in conversation.sent:
        assert sent.request.mask.cost_tokens <= (0 if sent.request.mask.mechanism == "allowed_tools" else 60)


@pytest.mark.parametrize("model", one_of_each("anthropic"))
def test_every_class_of_claude_models_accepts_what_it_is_told(model: str) -> None:
    """Whatever its row says of forcing, prefill and system messages, with and without the opt-in, forced and not."""
    for betas in ([], [BETA]):
        for force in (True, False):
            rows = {
                "a": Phase(["search"], force=force, then={"search": "b"}),
                "b": Phase(require=True, force=force, then={"add": "c"}),
            }
            table = Phases(
                {
                    **rows,
                    "c": Phase(["add"], require=True, force=force, then={"add": "d"}),
                    "d": Phase([], force=force),
                },
                "a",
            )
            conversation = Conversation(AnthropicMessages(model, max_tokens=1024, betas=betas))
            conversation.context = Context(conversation.provider, system=SYSTEM, tools=MORE_TOOLS, phases=table)
            conversation.context.user("Go.")
            for phase, call in (("a", "search"), ("b", "add"), ("c", "add"), ("d", "add")):
                assert conversation.context.phase == phase
                conversation._turn([("call", call, {})], [], False)
                conversation._settle()
            for sent in conversation.sent:
                assert accepted(sent).status == 200, (sent.request.mask, accepted(sent).chunks[0][:200])
            forced = [parse(sent.body).get("tool_choice") for sent in conversation.sent]
            assert any(forced) == force
