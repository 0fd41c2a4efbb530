"""Rules of OpenAI, Azure, Gemini and DeepSeek, played as their documentation tells them (the page stands in the row's
`source`)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from contextkit.cache.hosted.hosted_cache import hosted_cache
from contextkit.cache.hosted.rules import HOSTED, Rule
from contextkit.cache.prompt import Prompt
from contextkit.errors import UsageError
from contextkit.providers.openai.chat import parse as parse_chat
from contextkit.providers.openai.responses import parse as parse_responses
from tests.cache.hosted_prompts import bill, call, talk

HEAD, ASK, OTHER = ("head", 5000), ("ask", 700), ("other", 700)


@pytest.mark.parametrize("rule", HOSTED.values(), ids=HOSTED)
def test_every_rule_makes_a_cache_and_names_its_source(rule: Rule) -> None:
    cache = hosted_cache(rule)
    assert call(cache, talk(HEAD, ASK)).prompt == 5700
    assert rule.source.startswith("https://") and rule.unsure <= {field.name for field in fields(Rule)}
    assert not rule.ttls_seconds or rule.ttl_seconds in rule.ttls_seconds


# --- OpenAI from gpt-5.6 on
# ------------------------------------------------------------------------------------------------------

NEW = "gpt-6.1-sol"
MARK = {"mode": "explicit"}
EXPLICIT: dict[str, Any] = {"prompt_cache_options": MARK}
"""Parameters that switch the automatic mark off."""
LONG, SHORT = "Read all of it. " * 600, "And now? " * 40


def said(text: str, role: str = "user", mark: Any = None) -> Any:
    """One message of a Chat body."""
    return {
        "role": role,
        "content": [{"type": "text", "text": text, **({"prompt_cache_breakpoint": mark} if mark else {})}],
    }


def asked(*messages: Any, model: str = NEW, **params: Any) -> Prompt:
    """What the cache sees of a Chat body: marks, message endings and keys are those of `providers/openai`."""
    return parse_chat({"model": model, "messages": list(messages), **params}).prompt


def responded(*messages: tuple[str, Any], **params: Any) -> Prompt:
    """The same of a Responses body, where a mark may ask for twelve hours."""
    items = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": text, **({"prompt_cache_breakpoint": mark} if mark else {})}],
        }
        for text, mark in messages
    ]
    return parse_responses({"model": NEW, "input": items, **params}).prompt


@pytest.mark.parametrize("name", ["openai", "azure-openai"])
def test_openai_and_azure_write_the_boundary_exactly_from_1024_tokens_on(name: str) -> None:
    sizes = set()
    for words in range(900, 1100, 3):
        cache, prompt = hosted_cache(HOSTED[name]), asked(said("word " * words))
        size = prompt.n_tokens
        sizes.add(size >= 1024)
        assert bill(call(cache, prompt)) == ((0, 0, size, 0) if size >= 1024 else (size, 0, 0, 0))
        more = asked(said("word " * words), said("Yes.", "assistant"), said(LONG))
        assert bill(call(cache, more))[1] == (size if size >= 1024 else 0)
    assert sizes == {True, False}


def test_openai_reuse_refreshes_half_an_hour_free_of_charge() -> None:
    cache = hosted_cache(HOSTED["openai"])
    prompt = asked(said(LONG, "developer"), said(SHORT))
    call(cache, prompt)
    assert [bill(call(cache, prompt, at)) for at in (1799.0, 3598.0)] == [(0, prompt.n_tokens, 0, 0)] * 2
    assert cache.lookup(prompt, 3598.0 + 1800).reason == "ttl_expired"


def test_openai_bills_twelve_hours_apart() -> None:
    cache = hosted_cache(HOSTED["openai"])
    prompt = responded((LONG, {**MARK, "ttl": "12h"}), (SHORT, None))
    head = prompt.ends_tokens[0]
    assert bill(call(cache, prompt)) == (0, 0, prompt.n_tokens - head, head)
    assert cache.lookup(prompt, 43199.0).read_tokens == head


def test_openai_explicit_marks_do_not_look_back_and_the_automatic_one_does() -> None:
    first, more = (
        [said(LONG), said("Yes.", "assistant"), said(SHORT)],
        [said("No.", "assistant"), said(SHORT, mark=MARK)],
    )
    cache = hosted_cache(HOSTED["openai"])
    call(cache, asked(*first))
    assert cache.lookup(asked(*first, *more), 1.0).read_tokens == asked(*first).n_tokens
    other = hosted_cache(HOSTED["openai"])
    call(other, asked(*first[:-1], said(SHORT, mark=MARK), **EXPLICIT))
    assert other.lookup(asked(*first, *more, **EXPLICIT), 1.0).reason == "out_of_reach"
    assert (
        other.lookup(asked(*first[:-1], said(SHORT, mark=MARK), *more, **EXPLICIT), 1.0).read_tokens
        == asked(*first).n_tokens
    )


def test_openai_looks_back_over_twenty_message_endings() -> None:
    turns = [message for number in range(30) for message in (said(f"{number} {LONG}"), said("Yes.", "assistant"))]
    cache, start = hosted_cache(HOSTED["openai"]), asked(*turns[:1])
    call(cache, start)
    assert cache.lookup(asked(*turns[:41]), 1.0).read_tokens == start.n_tokens  # twenty user messages later
    assert cache.lookup(asked(*turns[:43]), 1.0).reason == "out_of_reach"


def test_openai_keys_and_settings_each_have_a_prefix_of_their_own() -> None:
    cache = hosted_cache(HOSTED["openai"])
    size = call(cache, asked(said(LONG), prompt_cache_key="one", temperature=0.2)).prompt
    reads = [
        call(cache, asked(said(LONG), **given)).read
        for given in (
            {"prompt_cache_key": "one", "temperature": 0.9},
            {"prompt_cache_key": "two"},
            {"prompt_cache_key": "one", "verbosity": "low"},
        )
    ]
    assert reads == [size, 0, 0]


def test_openai_separates_keys_and_spills_above_fifteen_a_minute() -> None:
    cache = hosted_cache(replace(HOSTED["openai"], n_servers=4))
    prompt = asked(said(LONG, "developer"), said(SHORT))
    reads = [call(cache, prompt, at=float(second)).read for second in range(32)]
    assert [index for index, read in enumerate(reads) if not read] == [0, 15, 30]
    assert call(cache, prompt, at=200.0).read == prompt.n_tokens  # the rush is over: home again
    assert call(cache, asked(said(LONG, "developer"), said(SHORT), prompt_cache_key="other"), at=200.0).read == 0


# --- OpenAI before that
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shared", "read"),
    [
        ("openai-older", 1023, 0),
        ("openai-older", 1024, 1024),
        ("openai-older", 5000, 4992),
        ("openai-5.5", 2047, 0),
        ("openai-5.5", 5000, 4096),
    ],
)
def test_earlier_openai_models_read_in_whole_steps(name: str, shared: int, read: int) -> None:
    cache = hosted_cache(HOSTED[name])
    assert bill(call(cache, talk(("head", shared), ASK))) == (shared + 700, 0, 0, 0)
    assert call(cache, talk(("head", shared), ("another", 10))).read == read


def test_earlier_openai_models_keep_a_day_or_some_minutes() -> None:
    for name, seconds in (("openai-older", 86400), ("openai-in-memory", 300)):
        cache = hosted_cache(HOSTED[name])
        call(cache, talk(HEAD, ASK))
        assert cache.lookup(talk(HEAD, ASK), seconds - 1.0).read_tokens == 5632
        assert cache.lookup(talk(HEAD, ASK), float(seconds)).reason == "ttl_expired"


def test_earlier_openai_models_separate_what_keys_them() -> None:
    cache = hosted_cache(HOSTED["openai-older"])
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("look", "find")
    ]
    given: list[dict[str, Any]] = [
        {"tools": tools},
        {"tools": tools[::-1]},
        {"tools": tools, "user": "another"},
        {"tools": tools},
    ]
    sizes = [call(cache, asked(said(LONG), model="gpt-5", **more)) for more in given]
    assert [usage.read for usage in sizes] == [0, 0, 0, (sizes[0].prompt or 0) // 128 * 128]


# --- Azure
# -----------------------------------------------------------------------------------------------------------------------


def test_azure_offers_half_an_hour_only() -> None:
    cache = hosted_cache(HOSTED["azure-openai"])
    with pytest.raises(UsageError, match="offers 1800"):
        cache.begin(responded((LONG, {**MARK, "ttl": "12h"})), 0.0)
    prompt = responded((LONG, {**MARK, "ttl": "30m"}), (SHORT, None))
    assert bill(call(cache, prompt)) == (0, 0, prompt.n_tokens, 0)
    assert [call(cache, prompt, at).read for at in (1799.0, 3598.0)] == [prompt.n_tokens] * 2
    assert cache.lookup(prompt, 5398.0).reason == "ttl_expired"


def test_azure_reads_marked_beginnings_behind_other_questions() -> None:
    cache = hosted_cache(HOSTED["azure-openai"])
    head = said(LONG, "developer", MARK)
    prompts = [asked(head, said(f"{number}: {SHORT}"), **EXPLICIT) for number in range(2)]
    size = prompts[0].ends_tokens[0]
    assert bill(call(cache, prompts[0])) == (prompts[0].n_tokens - size, 0, size, 0)
    assert bill(call(cache, prompts[1])) == (prompts[1].n_tokens - size, size, 0, 0)


def test_azure_separates_keys_and_subscriptions() -> None:
    cache = hosted_cache(HOSTED["azure-openai"])
    mine = asked(said(LONG), prompt_cache_key="mine")
    elsewhere = replace(mine, namespaces=tuple(b"another subscription" + space for space in mine.namespaces))  # type: ignore[arg-type]
    call(cache, mine)
    reads = [call(cache, prompt).read for prompt in (asked(said(LONG), prompt_cache_key="yours"), elsewhere, mine)]
    assert reads == [0, 0, mine.n_tokens]


# --- Gemini
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shared", "least", "read"), [(4095, 4096, 0), (4096, 4096, 4096), (2048, 2048, 2048), (2047, 2048, 0)]
)
def test_gemini_reads_from_the_models_minimum_on_and_never_bills_a_write(shared: int, least: int, read: int) -> None:
    cache = hosted_cache(replace(HOSTED["gemini"], min_tokens=least))
    assert bill(call(cache, talk(("head", shared), ASK))) == (shared + 700, 0, 0, 0)
    assert bill(call(cache, talk(("head", shared), OTHER))) == (shared + 700 - read, read, 0, 0)


def test_gemini_projects_do_not_share() -> None:
    cache = hosted_cache(HOSTED["gemini"])
    call(cache, talk(HEAD, settings="one project"))
    assert call(cache, talk(HEAD, settings="another")).read == 0


# --- DeepSeek
# --------------------------------------------------------------------------------------------------------------------

A, B, C, D = ("A", 900), ("B", 100), ("C", 200), ("D", 300)


def test_deepseek_first_example_a_longer_conversation_contains_the_whole_unit() -> None:
    cache = hosted_cache(HOSTED["deepseek"])
    call(cache, talk(A, B))
    assert bill(call(cache, talk(A, B, C))) == (200, 1000, 0, 0)


def test_deepseek_second_example_the_third_request_hits_the_common_prefix() -> None:
    cache = hosted_cache(HOSTED["deepseek"])
    assert [call(cache, talk(A, ask)).read for ask in (B, C, D)] == [0, 0, 900]


def test_deepseek_reads_whole_units_only() -> None:
    cache = hosted_cache(HOSTED["deepseek"])
    call(cache, talk(A, B, C))
    assert cache.lookup(talk(A, B), 1.0).reason == "first_write"
    assert cache.lookup(talk(A, B, C, D), 1.0).read_tokens == 1200


def test_deepseek_keeps_the_end_of_the_answer_too() -> None:
    cache = hosted_cache(HOSTED["deepseek"])
    call(cache, talk(A, B))
    assert cache.lookup(talk(A, B, ("answer", 50), D), 1.0).read_tokens == 1000
    cache.answered(talk(A, B, ("answer", 50)), 1.0)  # type: ignore[attr-defined]
    assert cache.lookup(talk(A, B, ("answer", 50), D), 2.0).read_tokens == 1050


def test_deepseek_cuts_long_inputs_at_an_interval_where_one_is_given() -> None:
    cache = hosted_cache(replace(HOSTED["deepseek"], granularity_tokens=256))
    call(cache, talk(A, B))
    assert call(cache, talk(A, C)).read == 768


def test_deepseek_keeps_what_is_used_and_clears_what_is_not() -> None:
    """Hours to days, it says: of the three hours that are assumed, a use gives a whole one again."""
    cache = hosted_cache(HOSTED["deepseek"])
    call(cache, talk(A, B))
    call(cache, talk(D, C))
    assert bill(call(cache, talk(A, B, C), at=10_799.0)) == (200, 1000, 0, 0)
    assert cache.lookup(talk(D, C, B), 10_800.0).reason == "ttl_expired"
    assert cache.lookup(talk(A, B, D), 21_598.0).read_tokens == 1000
    assert cache.lookup(talk(A, B, D), 21_599.0).reason == "ttl_expired"


def test_deepseek_never_bills_a_write_nor_reads_what_another_account_sent() -> None:
    cache = hosted_cache(HOSTED["deepseek"])
    assert bill(call(cache, talk(A, B, settings="one account"))) == (1000, 0, 0, 0)
    assert bill(call(cache, talk(A, B, settings="another"))) == (1000, 0, 0, 0)
    assert bill(call(cache, talk(A, B, settings="one account"))) == (0, 1000, 0, 0)
