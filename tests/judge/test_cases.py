"""Calls that the judge once got wrong, found by its twin and its laws."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.verdict import Verdict
from tests.judge.recordings import ANTHROPIC, MODELS, OPENAI, Talk, billed, verdicts, words
from tests.judge.test_laws import conversation, sent
from tests.judge.twin import Twin


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def last_of(verdicts: list[Verdict | None]) -> Verdict:
    assert verdicts[-1] is not None
    return verdicts[-1]


def shared_and_gaps(verdict: Verdict) -> tuple[int | None, list[tuple[str, str, int]]]:
    return verdict.shared, [(gap.whose, gap.cause, gap.tokens) for gap in verdict.gaps]


def test_the_bill_of_another_model_says_nothing_of_the_size_of_a_prompt() -> None:
    first, second = conversation(random.Random(1), ANTHROPIC, 2)
    second.model = MODELS[ANTHROPIC][1]
    calls = billed(sent(first, second))
    unbilled = last_of(verdicts([replace(call, usage=None) for call in calls]))
    assert last_of(verdicts(calls)).shared == unbilled.shared


def test_a_part_of_a_block_is_not_readable_while_the_call_that_wrote_it_is_in_flight() -> None:
    """Else what was not read of it would be the provider's doing."""
    rng = random.Random(1)
    first = conversation(rng, OPENAI, 1)[0]
    second, third, text = deepcopy(first), deepcopy(first), words(rng, 900)
    second.messages.append(said(f"{text} Sum it up."))
    third.messages.append(said(f"{text} Translate it."))
    calls = sent(first, second, third)
    calls[2] = replace(calls[2], at=calls[1].at + 0.1)
    verdict = last_of(verdicts(billed(calls)))
    assert verdict.read and (verdict.shared or 0) > verdict.read + 800
    assert [gap.cause for gap in verdict.gaps if gap.is_avoidable] == ["cold_fan_out"]


def test_the_beginning_of_a_first_block_is_readable() -> None:
    """What stands before it is shorter than the least that is cached."""
    first = conversation(random.Random(1), OPENAI, 1)[0]
    first.tools = first.tools[1:]
    second = deepcopy(first)
    first.system, second.system = ([f"{first.system[0]} It is 10:{minute}."] for minute in (10, 11))
    verdict = last_of(verdicts([replace(call, usage=None) for call in sent(first, second)]))
    assert (verdict.readable or 0) > 1_024
    assert (verdict.readable or 0) > (verdict.shared or 0) - 128
    assert {gap.cause for gap in verdict.gaps} == {"system_changed"}


def test_questions_about_one_document_share_it() -> None:
    """Prompts with neither tools nor system text, each a conversation of its own, marked at their ends."""
    document = {"type": "text", "text": words(random.Random(1), 2_000)}
    asked = [
        Talk(ANTHROPIC, name, "main", [], [], [{"role": "user", "content": [document, part]}], MODELS[ANTHROPIC][0])
        for name, part in (("s0", said("Who wrote it?")["content"][0]), ("s1", said("When was that?")["content"][0]))
    ]
    verdict = last_of(verdicts(billed(sent(*asked))))
    assert (verdict.shared or 0) > 0.95 * verdict.prompt
    assert [(gap.whose, gap.cause) for gap in verdict.gaps if gap.is_avoidable] == [("program_use", "breakpoint_place")]


def test_what_another_program_cached_and_was_not_read_is_unexplained() -> None:
    """Both have the tools in common and nothing else, so neither is compared with the other."""
    rng = random.Random(1)
    first = conversation(rng, OPENAI, 1)[0]
    first.tools[0]["description"] = words(rng, 2_000)
    second = deepcopy(first)
    second.session, second.system, second.messages = "s9", [words(rng, 1_000)], [said("Go.")]
    calls = billed(sent(first, second))
    usage = calls[1].usage
    assert usage is not None and usage.read
    calls[1] = replace(calls[1], usage=Usage(usage.prompt, 0, output=1, writes={}))
    shared, gaps = shared_and_gaps(last_of(verdicts(calls)))
    assert (shared, gaps) == (usage.read, [("unexplained", "unknown", usage.read)])


def test_another_agent_need_not_have_the_system_text_of_the_first() -> None:
    """The notes that both have are more than half of the second one's system text."""
    rng = random.Random(1)
    first = conversation(rng, ANTHROPIC, 1)[0]
    first.system = ["You are a careful agent.", words(rng, 1_500)]
    second = deepcopy(first)
    second.lane, second.system = "reviewer", ["You review.", first.system[1]]
    verdict = last_of(verdicts(billed(sent(first, second))))
    assert (verdict.lost_tokens, [gap.cause for gap in verdict.gaps]) == (0, ["first_write"])


@pytest.mark.parametrize("ending", ["", " Then sum it up."], ids=["equal", "longer"])
@pytest.mark.parametrize("provider", [ANTHROPIC, OPENAI])
def test_a_text_of_the_user_is_not_one_of_the_assistant(provider: str, ending: str) -> None:
    """The message that now stands in its place begins with the same bytes, after another role."""
    first = conversation(random.Random(1), provider, 1)[0]
    text = words(random.Random(2), 3_000)
    first.messages = [said("Go."), {**said(text), "role": "assistant"}, said("Go on.")]
    second = deepcopy(first)
    second.messages[1] = said(text + ending)
    calls = billed(sent(first, second))
    verdict, twin = last_of(verdicts(calls)), Twin(is_limited=True)
    lengths = [twin.feed(call) for call in calls][-1]
    assert lengths is not None and verdict.shared == lengths.shared and verdict.similar in lengths.similar
    assert verdict.prompt - (verdict.shared or 0) > 3_000
    assert (verdict.similar or 0) - (verdict.shared or 0) < 100


def test_a_text_that_moved_to_another_role_is_another_block() -> None:
    first = conversation(random.Random(1), ANTHROPIC, 1)[0]
    text = words(random.Random(2), 3_000)
    first.messages = [said("Read it."), {**said(text), "role": "assistant"}, said("Go on.")]
    second = deepcopy(first)
    second.messages[:2] = [said(text), {**said("I did."), "role": "assistant"}]
    verdict = last_of(verdicts(billed(sent(first, second))))
    assert (verdict.similar or 0) - (verdict.shared or 0) < 1_000
