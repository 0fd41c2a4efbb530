"""Law 7: a model never reads more than the true common prefix.

What is predicted is what a provider that sees only bytes bills.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import Context
from contextkit.cache.usage import ZERO
from contextkit.canonical import parse
from contextkit.engines.simulate import simulate
from contextkit.providers.endpoints import PARSERS
from tests.laws.conversations import BREAKING, SAYING, Conversation, Sent, operations
from tests.laws.wires import PROVIDERS, Server, atoms, common

laws = settings.get_profile("laws")
every_wire = pytest.mark.parametrize("name", PROVIDERS)


@every_wire
@given(st.data())
@laws
def test_a_provider_that_sees_only_bytes_bills_what_was_predicted(name: str, data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING, *BREAKING)))
    for sent in conversation.sent:
        predicted, billed = sent.request.predicted, sent.billed
        assert predicted.estimated and predicted.output is None
        assert (predicted.fresh, predicted.read, predicted.write_5m, predicted.write_1h) == (
            billed.fresh,
            billed.read,
            billed.write_5m,
            billed.write_1h,
        )


@every_wire
@given(st.data())
@laws
def test_no_more_is_read_than_the_true_common_prefix(name: str, data: st.DataObject) -> None:
    """Brute force: bodies are cut anew by other code, every one compared with every one before it.

    What the model strips (earlier thinking) is no part of what it reads: whether a body still carries it makes no
    difference."""
    conversation = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING, *BREAKING)))
    before: list[list[bytes]] = []
    for sent in conversation.sent:
        said = atoms(sent.request.wire, sent.body)
        sizes = PARSERS[sent.request.wire](parse(sent.body)).prompt.ends_tokens
        assert len(said) == len(sizes)
        kept = [i for i, end in enumerate(sizes) if end > (sizes[i - 1] if i else 0)]
        own, ends = [said[i] for i in kept], [sizes[i] for i in kept]
        shared = max((common(own, old) for old in before), default=0)
        assert (sent.billed.read or 0) <= (ends[shared - 1] if shared else 0)
        assert sent.billed.prompt == ends[-1]
        before.append(own)


@pytest.mark.parametrize("name", ["anthropic", "anthropic-1h", "chat", "responses", "responses-explicit"])
@given(st.data())
@laws
def test_whatever_is_said_the_whole_request_before_is_read(name: str, data: st.DataObject) -> None:
    """No parameter changed, no epoch, no lifetime over: whatever was last_breakpoint_place before is read, however much a turn adds."""
    conversation = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING)))
    for one, other in pairwise(conversation.sent):
        if (
            one.request.prompt.namespaces == other.request.prompt.namespaces
        ):  # a first image re-keys Anthropic's messages
            assert (other.billed.read or 0) >= _marked(one)


def _marked(sent: Sent) -> int:
    """Tokens up to the last mark written."""
    prompt = sent.request.prompt
    model = sent.request.model
    written = [prompt.ends_tokens[mark.segment] for mark in prompt.breakpoints if mark.is_written]
    return max((tokens for tokens in written if tokens >= model.min_tokens), default=0)


@every_wire
@given(st.data())
@laws
def test_the_ledger_alone_gives_the_same_bills_again(name: str, data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS[name]())
    conversation.run(data.draw(operations(*SAYING, *BREAKING)))
    recorded = {call.id: call.usage for call in conversation.context.ledger if call.usage is not None}
    replayed = {call.id: call.usage for call in simulate(conversation.context.ledger) if call.id in recorded}
    assert [(u.read, u.fresh) for u in replayed.values() if u] == [(u.read, u.fresh) for u in recorded.values() if u]


@every_wire
def test_a_reopened_conversation_still_predicts(name: str, tmp_path: object) -> None:
    conversation = Conversation(PROVIDERS[name](), folder=tmp_path)
    conversation.run([("user", "word " * 2000), ("turn", [("text", "yes " * 3000)], [], False), ("user", "on")])
    conversation.context.close()
    again = Context.open(str(tmp_path), PROVIDERS[name](), clock=lambda: conversation.clock_at)
    request = again.request()
    billed = conversation.server.bill(request.wire, request.body, conversation.clock_at)
    again.close()
    assert (request.predicted.read, request.predicted.fresh) == (billed.read, billed.fresh) and (
        billed.read or 0
    ) > 2000


@every_wire
def test_a_branch_reads_what_its_parent_wrote(name: str) -> None:
    conversation = Conversation(PROVIDERS[name]())
    conversation.run([("user", "word " * 2000), ("turn", [("text", "yes " * 3000)], [], False)])
    branch = conversation.context.fork()
    branch.user("another way")
    request = branch.request()
    billed = conversation.server.bill(request.wire, request.body, conversation.clock_at)
    assert (request.predicted.read, request.predicted.fresh) == (billed.read, billed.fresh) and (
        billed.read or 0
    ) > 2000


def test_calls_that_overlap_are_replayed_in_the_order_they_started() -> None:
    """A long call is recorded after a short one that began later and read what the long one wrote."""
    conversation = Conversation(PROVIDERS["anthropic"]())
    context, clock = conversation.context, conversation
    long = context.request()
    clock.clock_at += 10
    short = context.request()
    context._account.received(short, _reply(), clock.clock_at)
    context._account._note(long, "long", ZERO, long.at + 1, clock.clock_at, None, is_billed=True)
    by_start = {call.at: call.usage for call in simulate(context.ledger)}
    assert by_start[long.at].read == 0 and by_start[short.at].read == short.prompt.n_tokens  # type: ignore[union-attr]


def _reply() -> object:
    from contextkit.log.entry import Native
    from contextkit.providers.provider import Reply

    return Reply("short", Native("anthropic_messages", "m", b"[]"), "", (), "done", ZERO)


def test_the_provider_of_these_tests_is_a_cold_one() -> None:
    conversation = Conversation(PROVIDERS["anthropic"]())
    sent = conversation.request_again()
    assert sent.billed.read == 0 and Server().bill(sent.request.wire, sent.body, 0.0) == sent.billed
