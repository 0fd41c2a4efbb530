"""What a finding costs: by the reference cache, and by the provider's bill where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import Exchange
from contextkit.lint.catalogue import hazards
from contextkit.lint.requests.detect import find_in_requests
from contextkit.prices import cost_usd
from tests.lint.trace.calls import WORDS, anthropic, assistant, call, text, user

Json = Any
FIRST = [user("a " * 400), assistant("b " * 400), user("c " * 400)]
MORE = [assistant("d"), user("e")]


def costs(*calls: Exchange) -> dict[str, tuple[int | None, float | None]]:
    """Code → tokens and dollars, of everything that is told."""
    return {finding.code: (finding.cost_tokens, finding.cost_usd) for finding in find_in_requests(calls, hazards())}


def clock(minute: int, *more: Json) -> Json:
    return anthropic(*FIRST, *more, system=f"{WORDS} It is 10:0{minute}.")


def billed(exchange: Exchange, fresh: int, read: int, written: int) -> Exchange:
    return replace(exchange, usage=Usage(fresh, read, written, 0, 9))


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


def test_a_marked_block_that_changed_is_lost_whole() -> None:
    tokens, _ = costs(call(clock(1)), call(clock(2, *MORE), 1))["CKS01"]
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


def test_nothing_is_lost_that_the_bill_says_was_read() -> None:
    tokens, usd = costs(billed(call(clock(1)), 0, 0, 4_000), billed(call(clock(2, *MORE), 1), 0, 4_000, 10))["CKS01"]
    assert (tokens, usd) == (0, 0.0)


def test_what_a_gap_lost_is_the_gap_s_even_where_something_changed_too() -> None:
    system = [{**text(WORDS), "cache_control": {"type": "ephemeral"}}]
    edited = anthropic(*FIRST[:2], user("c " * 399), *MORE, system=system)
    found = costs(
        call(anthropic(*FIRST, system=system)), call(edited, 60)
    )  # ten minutes later, with a lifetime of five
    gap = found.pop("CKL01")
    ((tokens, _),) = found.values()
    assert tokens == 0 and gap[0] is not None and gap[0] > 2_000


def test_what_another_model_had_to_read_anew_is_the_switch_s() -> None:
    other = {**clock(2, *MORE), "model": "claude-haiku-4-5"}
    found = costs(call(clock(1)), replace(call(other, 1), model="claude-haiku-4-5"))
    assert found["CKS01"][0] == 0
    assert found["CKP01"][0] is not None and found["CKP01"][0] > 2_000


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
