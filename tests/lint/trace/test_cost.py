"""What a finding costs: what the judge says that the call lost, by the provider's bill where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall
from contextkit.lint.catalogue import hazards
from contextkit.lint.requests.detect import find_in_requests
from contextkit.models import model_named
from contextkit.prices import cost_usd
from contextkit.providers.endpoints import PARSERS
from tests.lint.trace.calls import WORDS, anthropic, assistant, call, text, user

Json = Any
FIRST = [user("a " * 400), assistant("b " * 400), user("c " * 400)]
MORE = [assistant("d"), user("e")]


def costs(*calls: ModelCall) -> dict[str, tuple[int | None, float | None]]:
    """Code → tokens and dollars, of everything that is told."""
    return {finding.code: (finding.cost_tokens, finding.cost_usd) for finding in find_in_requests(calls, hazards())}


def clock(minute: int, *more: Json) -> Json:
    return anthropic(*FIRST, *more, system=f"{WORDS} It is 10:0{minute}.")


def billed(call: ModelCall, fresh: int, read: int, written: int) -> ModelCall:
    return replace(call, usage=Usage(fresh, read, written, 0, 9))


def chat(words: str, *more: Json) -> Json:
    return {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": words}, {"role": "user", "content": "hi"}, *more],
    }


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5.1"])
def test_a_cache_of_any_prefix_loses_what_follows_the_change_and_not_the_block_it_ends(model: str) -> None:
    bodies = [{**chat(f"{WORDS}{WORDS} It is 10:0{n}.", *more), "model": model} for n, more in ((1, ()), (2, MORE))]
    calls = [replace(call(body, n, "openai_chat"), model=model) for n, body in enumerate(bodies)]
    tokens, _ = costs(*calls)["CKS01"]
    assert tokens is not None and tokens <= 128  # one step of the cache


def test_a_cache_of_any_prefix_loses_everything_behind_a_change_in_front() -> None:
    calls = [call(chat(f"It is 10:0{n}. {WORDS}{WORDS}", *more), n, "openai_chat") for n, more in ((1, ()), (2, MORE))]
    tokens, _ = costs(*calls)["CKS01"]
    assert tokens is not None and tokens > 2_000


def test_tokens_and_money_are_those_of_the_bill() -> None:
    """The provider counts twice as many tokens as the estimate."""
    tokens, usd = costs(billed(call(clock(1)), 0, 0, 8_000), billed(call(clock(2, *MORE), 1), 0, 0, 8_010))["CKS01"]
    assert tokens is not None and 7_900 <= tokens <= 8_000
    paid, read = (
        cost_usd("anthropic", "claude-sonnet-4-6", usage, 1_760_000_010.0) or 0.0
        for usage in (Usage(0, 0, 8_010, 0, 9), Usage(0, tokens, 8_010 - tokens, 0, 9))
    )
    assert usd == pytest.approx(paid - read)


def test_what_the_bill_says_was_read_is_no_finding() -> None:
    assert costs(billed(call(clock(1)), 0, 0, 4_000), billed(call(clock(2, *MORE), 1), 0, 4_000, 10)) == {}


def test_what_a_pause_lost_is_the_pause_s_even_where_something_changed_too() -> None:
    system = [{**text(WORDS), "cache_control": {"type": "ephemeral"}}]
    edited = anthropic(*FIRST[:2], user("c " * 399), *MORE, system=system)
    found = costs(
        call(anthropic(*FIRST, system=system)), call(edited, 60)
    )  # ten minutes later, with a lifetime of five
    gap = found.pop("CKL01")
    ((tokens, _),) = found.values()
    assert tokens is not None and tokens < 300 and gap[0] is not None and gap[0] > 2_000


def test_what_another_model_had_to_read_anew_is_the_switch_s() -> None:
    one, other = (anthropic(*FIRST, *more, system=f"{WORDS * 2} It is 10:0{n}.") for n, more in ((1, ()), (2, MORE)))
    found = costs(call(one), replace(call({**other, "model": "claude-haiku-4-5"}, 1), model="claude-haiku-4-5"))
    assert found["CKS01"][0] == 0
    assert found["CKP01"][0] is not None and found["CKP01"][0] > 4_096


def test_a_loss_that_nothing_explains_costs_what_the_bill_says() -> None:
    marked = {**anthropic(*FIRST, mark=False), "system": [{**text(WORDS * 3), "cache_control": {"type": "ephemeral"}}]}
    grown = {**marked, "messages": [*marked["messages"], *MORE]}
    found = costs(billed(call(marked), 900, 0, 6_000), billed(call(grown, 1), 910, 0, 6_000))
    ((code, (tokens, _)),) = found.items()
    assert code.startswith("CKL") and tokens == 6_000


def test_a_text_that_is_a_block_only_while_it_is_marked_is_no_break_to_anthropic() -> None:
    """Its API takes a string as one text block: both calls read what the one before had written."""
    plain = {"role": "user", "content": "c " * 400}
    assert costs(call(anthropic(*FIRST)), call(anthropic(*FIRST[:2], plain, *MORE), 1)) == {}


def test_without_a_breakpoint_the_cost_is_what_one_would_have_made_readable() -> None:
    bodies = [anthropic(*FIRST, *more, mark=False, system=WORDS * 3) for more in ((), MORE)]
    marked = [anthropic(*FIRST, *more, system=WORDS * 3) for more in ((), MORE)]
    cache = reference_cache(model_named("claude-sonnet-4-6"))
    written = PARSERS["anthropic_messages"](marked[0]).prompt
    cache.publish(cache.begin(written, 0.0), 0.0)
    readable = cache.lookup(PARSERS["anthropic_messages"](marked[1]).prompt, 1.0).read_tokens
    tokens, usd = costs(*(call(body, n) for n, body in enumerate(bodies)))["CKB01"]
    assert tokens == pytest.approx(readable, rel=0.2) and tokens is not None and tokens > 2_000
    paid, read = (
        cost_usd("anthropic", "claude-sonnet-4-6", usage, 1_760_000_000.0) or 0.0
        for usage in (Usage(tokens, 0, 0, 0, 0), Usage(0, tokens, 0, 0, 0))
    )
    assert usd == pytest.approx(paid - read)


def test_without_a_breakpoint_the_cost_is_in_tokens_of_the_bill() -> None:
    bodies = [anthropic(*FIRST, *more, mark=False, system=WORDS * 3) for more in ((), MORE)]
    tokens, _ = costs(billed(call(bodies[0]), 9_000, 0, 0), billed(call(bodies[1], 1), 9_020, 0, 0))["CKB01"]
    assert tokens is not None and 8_900 <= tokens <= 9_020


def test_a_frozen_breakpoint_costs_what_was_said_behind_it_before() -> None:
    """The newest messages are new to any cache."""
    behind = [assistant("d " * 300), user("e " * 300), assistant("f " * 300), user("g " * 300)]
    frozen = [anthropic(*FIRST, *behind[:n], mark=False) for n in (2, 4)]
    for body in frozen:
        body["messages"][2]["content"][0]["cache_control"] = {"type": "ephemeral"}
    tokens, _ = costs(*(call(body, n) for n, body in enumerate(frozen)))["CKB04"]
    first, whole = (
        PARSERS["anthropic_messages"](anthropic(*messages)).prompt.n_tokens
        for messages in (FIRST, [*FIRST, *behind[:2]])
    )
    assert tokens == pytest.approx(whole - first, rel=0.25)


def test_a_loss_that_the_reference_cache_does_not_model_is_unknown_without_a_bill() -> None:
    """Another region is another cache, which the reference cache knows nothing of."""
    calls = [
        replace(call({**clock(1, *more), "model": model}, n), model=model)
        for n, (model, more) in enumerate(
            [("us.anthropic.claude-sonnet-4-6", ()), ("eu.anthropic.claude-sonnet-4-6", MORE)]
        )
    ]
    assert costs(*calls) == {"CKR01": (None, None)}
    tokens, _ = costs(billed(calls[0], 0, 0, 4_000), billed(calls[1], 0, 0, 4_010))["CKR01"]
    assert tokens == 4_000


def test_a_declared_rewrite_of_the_history_is_no_loss() -> None:
    calls = [call(anthropic(*FIRST)), call(anthropic(user("In short: " + "a " * 300), *FIRST[1:], *MORE), 1)]
    (plain,) = find_in_requests(calls, [])
    (declared,) = find_in_requests(calls, [], remarks={"r1": {"compaction": "/compact"}})
    assert (plain.cost_tokens or 0) > 300 and declared.cost_tokens == 0
