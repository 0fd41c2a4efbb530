"""Law 1: between requests, appending never changes what stands. Law 4: what does break a prefix is declared."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import Context
from contextkit.canonical import parse
from contextkit.errors import HeadChanged
from contextkit.prompt.diff import divergence
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.endpoints import PARSERS
from tests.laws.conversations import BREAKING, MORE_TOOLS, SAYING, SYSTEM, TOOLS, Conversation, Operation, operations
from tests.laws.wires import PROVIDERS, TRIED, atoms, common

laws = settings.get_profile("laws")
every_wire = pytest.mark.parametrize("name", TRIED)


@every_wire
@given(st.data())
@laws
def test_every_request_of_an_epoch_is_the_one_before_and_a_tail(name: str, data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING, *BREAKING)))
    for one, other in pairwise(conversation.sent):
        if one.request.epoch == other.request.epoch:
            assert other.wire[: len(one.wire)] == one.wire
            shared = atoms(one.request.wire, one.body)
            assert common(shared, atoms(one.request.wire, other.body)) == len(shared)


@pytest.mark.parametrize("name", [name for name in TRIED if name != "anthropic-strips"])
@given(st.data())
@laws
def test_segments_that_were_sent_stay_as_they_were(name: str, data: st.DataObject) -> None:
    given_operations = data.draw(operations(*SAYING))
    conversation = Conversation(PROVIDERS[name]())
    seen: list[tuple[Any, ...]] = []
    for operation in [*given_operations, ("user", "more")]:
        conversation.run([operation])
        segments = conversation.sent[-1].request.layout.blocks
        assert segments[: len(seen)] == tuple(seen)
        seen = list(segments)


@every_wire
@given(st.data())
@laws
def test_results_stand_in_call_order_whatever_order_they_came_in(name: str, data: st.DataObject) -> None:
    calls = [("call", "search", {"query": str(i)}) for i in range(data.draw(st.integers(2, 5)))]
    bodies = set()
    for order in (data.draw(st.permutations(range(len(calls)))), range(len(calls))):
        conversation = Conversation(PROVIDERS[name]())
        conversation._turn(calls, [], False)
        open_calls = conversation.context.calls
        for index in order:
            conversation.context.result(open_calls[index], f"found {index}")
        bodies.add(conversation.context.request().body)
    assert len(bodies) == 1


@every_wire
def test_what_is_said_under_way_stands_behind_the_reply(name: str) -> None:
    conversation = Conversation(PROVIDERS[name]())
    request = conversation.context.request()
    conversation.context.user("one more thing")
    conversation.context.request()  # a look at what would be sent now
    conversation._send(request)
    from tests.laws.wires import answer

    conversation.context.receive(answer(request.wire, "r", [("text", "On it.")], conversation.sent[-1].billed), request)
    after = conversation._send(conversation.context.request())
    assert after.wire.startswith(conversation.sent[0].wire)
    tail = atoms(request.wire, after.body)[-2:]
    assert b"On it." in tail[0] and b"one more thing" in tail[1]


# ---- law 4


@every_wire
@given(st.data())
@laws
def test_only_declared_breaks_diverge(name: str, data: st.DataObject) -> None:
    """Rebuilt from bytes alone: where the newer request is not the older one and a tail, an epoch was opened or
    thinking was stripped."""
    provider = PROVIDERS[name]()
    conversation = Conversation(provider).run(data.draw(operations(*SAYING, *BREAKING)))
    layouts = [PARSERS[sent.request.wire](parse(sent.body)).layout for sent in conversation.sent]
    for (one, other), (older, newer) in zip(pairwise(conversation.sent), pairwise(layouts), strict=True):
        if divergence(older, newer) is not None:
            assert one.request.epoch != other.request.epoch or provider.model.strips_thinking


@every_wire
@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"system": SYSTEM + "!"}, "system"),
        ({"tools": MORE_TOOLS}, "tools[2]"),
        ({"tools": TOOLS[::-1]}, "tools[0].name"),
        ({"tools": []}, "tools[0]"),
    ],
)
def test_another_head_is_refused_and_told_where(name: str, change: dict[str, Any], where: str) -> None:
    provider = PROVIDERS[name]()
    kept = Conversation(provider).context
    with pytest.raises(HeadChanged, match=r"entry 0") as caught:
        Context(provider, log=kept.log, **{"system": SYSTEM, "tools": TOOLS, **change})
    assert where in str(caught.value) and SYSTEM not in str(caught.value)


@every_wire
def test_a_head_left_out_or_the_same_goes_on(name: str) -> None:
    kept = Conversation(PROVIDERS[name]()).context
    body = kept.request().body
    for given_head in (
        {},
        {"system": SYSTEM},
        {"tools": TOOLS},
        {"system": [SYSTEM], "tools": TOOLS, "allow_new_head": True},
    ):
        assert Context(PROVIDERS[name](), log=kept.log, **given_head).request().body == body
    assert len(kept.log) == 2


@every_wire
def test_a_new_head_can_be_allowed_even_with_calls_open(name: str) -> None:
    conversation = Conversation(PROVIDERS[name]())
    conversation._turn([("call", "search", {})], [], False)
    other = Context(PROVIDERS[name](), system="Another.", log=conversation.context.log, allow_new_head=True)
    other.result(other.calls[0], "found")
    assert (
        other.request().epoch == 1
        and b"Another." in other.request().body
        and SYSTEM[:60].encode() not in other.request().body
    )
    assert parse(other.log[-2].body)["rewrites_tokens"] > 100


def test_an_epoch_drops_thinking_whose_prefix_changed_and_keeps_what_comes_after() -> None:
    conversation = Conversation(PROVIDERS["anthropic"]())
    said: list[Operation] = [
        ("turn", [("thinking", "first thought", "c2ln"), ("text", "hm")], [], False),
        ("resystem", "Now in French. "),
        ("turn", [("thinking", "second thought", "c2ln"), ("text", "oui")], [], False),
    ]
    body = conversation.run(said).sent[-1].body
    assert b"first thought" in conversation.sent[1].body or b"first thought" not in body
    assert b"first thought" not in body and b"second thought" in body and b'"hm"' in body


@every_wire
def test_a_parameter_cannot_say_what_the_log_says(name: str) -> None:
    from contextkit.errors import UsageError

    context = Conversation(PROVIDERS[name]()).context
    with pytest.raises(UsageError, match="the log says that"):
        context.request(tools=[])


def test_a_layout_knows_that_it_is_its_own_prefix() -> None:
    layout = Conversation(PROVIDERS["anthropic"]()).context.request().layout
    assert divergence(PromptLayout(layout.columns, layout.n - 1), layout) is None
