"""Rules of Kimi, Qwen, Bedrock, xAI, Groq, Mistral, Z.ai, Fireworks and OpenRouter, played as documented."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contextkit.cache.hosted.hosted_cache import hosted_cache
from contextkit.cache.hosted.rules import HOSTED
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.errors import UsageError
from tests.cache.hosted_prompts import bill, call, marked, talk

HEAD, ASK, OTHER = ("head", 5000), ("ask", 700), ("other", 700)


# --- Kimi
# ------------------------------------------------------------------------------------------------------------------------


def test_kimi_bills_writes_in_whole_chunks_and_each_of_them_once() -> None:
    cache = hosted_cache(HOSTED["kimi"])
    assert bill(call(cache, talk(("head", 1000)))) == (232, 0, 768, 0)
    assert bill(call(cache, talk(("head", 1000), ASK))) == (164, 768, 768, 0)
    assert bill(call(cache, talk(("small", 255)))) == (255, 0, 0, 0)


def test_kimi_keeps_five_minutes_where_the_option_is_left_out() -> None:
    cache = hosted_cache(HOSTED["kimi"])
    call(cache, talk(HEAD))
    assert cache.lookup(talk(HEAD), 299.0).read_tokens == 4864
    assert cache.lookup(talk(HEAD), 300.0).reason == "ttl_expired"


def test_kimi_keeps_an_hour_at_another_price_where_it_is_asked_for() -> None:
    cache = hosted_cache(HOSTED["kimi"])
    hour = talk(HEAD, marks=[Breakpoint(0, 3600)])
    assert bill(call(cache, hour)) == (136, 0, 0, 4864)
    assert bill(call(cache, talk(HEAD), at=3599.0)) == (136, 4864, 0, 0)
    with pytest.raises(UsageError, match="offers 300, 3600"):
        cache.quote(talk(HEAD, marks=[Breakpoint(0, 1800)]), 0.0)


# --- Qwen
# ------------------------------------------------------------------------------------------------------------------------


def test_qwen_writes_after_the_response_and_from_1024_tokens_on() -> None:
    cache = hosted_cache(HOSTED["qwen-explicit"])
    prompt = marked(11, 10)
    lease = cache.begin(prompt, 0.0)
    cache.publish(lease, 1.0)
    assert cache.lookup(prompt, 1.0).reason == "not_yet_visible"
    cache.end(lease, 9, 2.0)
    assert (lease.usage.write_5m, cache.lookup(prompt, 2.0).read_tokens) == (1100, 1100)
    assert cache.lookup(marked(10, 9), 2.0).reason == "below_minimum"


def test_qwen_looks_back_over_twenty_blocks() -> None:
    cache = hosted_cache(HOSTED["qwen-explicit"])
    call(cache, marked(20, 19))
    assert cache.lookup(marked(39, 38), 1.0).read_tokens == 2000
    assert cache.lookup(marked(40, 39), 1.0).reason == "out_of_reach"


def test_qwen_counts_four_marks_and_resets_five_minutes_on_a_hit() -> None:
    cache = hosted_cache(HOSTED["qwen-explicit"])
    call(cache, marked(40, 11, 15, 20, 30, 39))
    assert cache.lookup(marked(12, 11), 1.0).read_tokens == 0  # the first of five marks
    assert cache.lookup(marked(16, 15), 1.0).read_tokens == 1600
    call(cache, marked(40, 39), at=299.0)
    assert cache.lookup(marked(40, 39), 598.0).read_tokens == 4000
    with pytest.raises(UsageError, match="offers 300"):
        cache.begin(marked(40, 39, ttl=3600), 0.0)


def test_qwen_caches_unasked_from_256_tokens_on_without_a_write_fee() -> None:
    cache = hosted_cache(HOSTED["qwen-implicit"])
    assert bill(call(cache, talk(("head", 256), ASK))) == (956, 0, 0, 0)
    assert call(cache, talk(("head", 256), OTHER)).read == 256
    call(cache, talk(("tiny", 255), ASK))
    assert call(cache, talk(("tiny", 255), OTHER)).read == 0


def test_qwen4_renews_with_the_lifetime_of_the_request_that_reads() -> None:
    cache = hosted_cache(HOSTED["qwen4"])
    call(cache, marked(20, 19, ttl=300))
    call(cache, marked(20, 19, ttl=3600), at=100.0)
    assert cache.lookup(marked(20, 19), 3699.0).read_tokens == 2000
    other = hosted_cache(HOSTED["qwen4"])
    call(other, marked(20, 19, ttl=3600))
    call(other, marked(25, 24, ttl=300), at=3500.0)
    assert (other.lookup(marked(20, 19), 3799.0).read_tokens, other.lookup(marked(20, 19), 3800.0).reason) == (
        2000,
        "ttl_expired",
    )


def test_qwen4_offers_an_hour_and_separates_users() -> None:
    cache = hosted_cache(HOSTED["qwen4"])
    assert bill(call(cache, marked(20, 19, ttl=3600, settings="one user"))) == (0, 0, 0, 2000)
    assert cache.lookup(marked(20, 19, ttl=3600, settings="another"), 1.0).read_tokens == 0
    assert cache.lookup(marked(40, 39, ttl=3600, settings="one user"), 1.0).reason == "out_of_reach"


# --- Bedrock
# ---------------------------------------------------------------------------------------------------------------------


def test_bedrock_keeps_cache_points_five_minutes_or_an_hour() -> None:
    cache = hosted_cache(HOSTED["bedrock-claude"])
    prompt = talk(HEAD, ASK, marks=[Breakpoint(0, 3600), Breakpoint(1, 300)])
    assert bill(call(cache, prompt)) == (0, 0, 700, 5000)
    assert cache.lookup(prompt, 299.0).read_tokens == 5700
    assert cache.lookup(prompt, 3599.0).read_tokens == 5000


def test_bedrock_reads_twenty_blocks_back_and_nothing_small() -> None:
    cache = hosted_cache(HOSTED["bedrock-claude"])
    call(cache, marked(20, 19))
    assert (cache.lookup(marked(39, 38), 1.0).read_tokens, cache.lookup(marked(40, 39), 1.0).read_tokens) == (2000, 0)
    assert bill(call(cache, marked(5, 4))) == (500, 0, 0, 0)


def test_bedrock_without_a_cache_point_keeps_nothing() -> None:
    cache = hosted_cache(HOSTED["bedrock-claude"])
    assert bill(call(cache, talk(HEAD))) == (5000, 0, 0, 0)
    assert cache.lookup(talk(HEAD), 1.0).reason == "no_breakpoint"


def test_bedrock_nova_keeps_five_minutes_from_1024_tokens_on() -> None:
    cache = hosted_cache(HOSTED["bedrock-nova"])
    assert bill(call(cache, talk(("a", 1023), marks=[Breakpoint(0, 300)]))) == (1023, 0, 0, 0)
    assert bill(call(cache, talk(("b", 1024), marks=[Breakpoint(0, 300)]))) == (0, 0, 1024, 0)
    with pytest.raises(UsageError, match="offers 300"):
        cache.begin(talk(HEAD, marks=[Breakpoint(0, 3600)]), 0.0)


# --- xAI, Groq, Mistral, Z.ai, Fireworks
# -----------------------------------------------------------------------------------------


def test_xai_reads_blocks_of_128() -> None:
    cache = hosted_cache(HOSTED["xai"])
    call(cache, talk(("head", 1000), ASK))
    assert bill(call(cache, talk(("head", 1000), OTHER))) == (804, 896, 0, 0)


def test_xai_finds_a_conversation_again_by_its_header_and_hardly_without() -> None:
    with_header = hosted_cache(HOSTED["xai"], key_of=lambda prompt: b"conversation 1")
    without = hosted_cache(HOSTED["xai"], key_of=lambda prompt: None)
    for cache, reads in ((with_header, [0] + [5632] * 9), (without, [0] * 8 + [5632] * 2)):
        assert [call(cache, talk(HEAD, ASK)).read for _ in range(10)] == reads


def test_xai_servers_do_not_see_each_other() -> None:
    cache = hosted_cache(HOSTED["xai"], key_of=lambda prompt: prompt.digests[-1])
    call(cache, talk(HEAD))
    turns = [call(cache, talk(HEAD, (f"ask {number}", 10))).read for number in range(40)]
    assert 0 in turns and 4992 in turns


def test_groq_forgets_after_two_hours_unused() -> None:
    cache = hosted_cache(HOSTED["groq"])
    call(cache, talk(HEAD, ASK))
    assert call(cache, talk(HEAD, ASK), at=7199.0).read == 5700
    assert call(cache, talk(HEAD, ASK), at=14398.0).read == 5700
    assert cache.lookup(talk(HEAD, ASK), 14398.0 + 7200).reason == "ttl_expired"


def test_groq_reads_what_is_equal_from_the_front() -> None:
    cache = hosted_cache(HOSTED["groq"])
    call(cache, talk(HEAD, ASK))
    assert [call(cache, talk(*blocks)).read for blocks in ((HEAD, OTHER), (OTHER, HEAD))] == [5000, 0]


def test_groq_bills_no_write() -> None:
    cache = hosted_cache(HOSTED["groq"])
    assert [bill(call(cache, talk(HEAD, ask))) for ask in (ASK, OTHER)] == [(5700, 0, 0, 0), (700, 5000, 0, 0)]


def keyed(*blocks: tuple[str, int], key: str) -> Prompt:
    return talk(*blocks, marks=[Breakpoint(len(blocks) - 1, 300)], settings=key)


def test_mistral_caches_only_with_a_key() -> None:
    cache = hosted_cache(HOSTED["mistral"])
    assert [bill(call(cache, talk(HEAD, ASK))) for _ in range(2)] == [(5700, 0, 0, 0)] * 2
    assert cache.lookup(talk(HEAD, ASK), 0.0).reason == "no_breakpoint"
    assert [call(cache, keyed(HEAD, ASK, key="k")).read for _ in range(2)] == [0, 5700]


def test_mistral_leaves_nothing_for_keys_from_a_request_without() -> None:
    cache = hosted_cache(HOSTED["mistral"])
    call(cache, talk(HEAD, ASK, settings="k"))
    assert call(cache, keyed(HEAD, ASK, key="k")).read == 0


def test_mistral_keys_do_not_share_and_writes_are_free() -> None:
    cache = hosted_cache(HOSTED["mistral"])
    assert bill(call(cache, keyed(HEAD, key="k"))) == (5000, 0, 0, 0)
    assert call(cache, keyed(HEAD, key="other")).read == 0


def test_zai_bills_no_write() -> None:
    cache = hosted_cache(HOSTED["zai"])
    assert [bill(call(cache, talk(HEAD, ask))) for ask in (ASK, OTHER)] == [(5700, 0, 0, 0), (700, 5000, 0, 0)]


def test_zai_needs_an_equal_beginning() -> None:
    cache = hosted_cache(HOSTED["zai"])
    call(cache, talk(HEAD, ASK))
    assert call(cache, talk(("new head", 10), ASK)).read == 0


def test_zai_keeps_what_is_used_for_as_long_as_is_assumed() -> None:
    cache = hosted_cache(replace(HOSTED["zai"], ttl_seconds=60))
    call(cache, talk(HEAD, ASK))
    call(cache, talk(HEAD, OTHER), at=59.0)
    assert cache.lookup(talk(HEAD, ASK), 60.0).read_tokens == 5000  # the head lives on, the first question does not


def test_fireworks_finds_a_session_again_by_its_header() -> None:
    sticky = hosted_cache(HOSTED["fireworks"], key_of=lambda prompt: b"session")
    assert [call(sticky, talk(HEAD, ASK)).read for _ in range(3)] == [0, 5700, 5700]


def test_fireworks_spreads_requests_without_one() -> None:
    loose = hosted_cache(HOSTED["fireworks"], key_of=lambda prompt: None)
    assert [call(loose, talk(HEAD, ASK)).read for _ in range(9)] == [0] * 8 + [5700]


def test_fireworks_separates_isolation_keys() -> None:
    cache = hosted_cache(HOSTED["fireworks"], key_of=lambda prompt: b"session")
    call(cache, talk(HEAD, ASK))
    assert call(cache, talk(HEAD, ASK, settings="isolation key")).read == 0


# --- OpenRouter
# ------------------------------------------------------------------------------------------------------------------

THROUGH = replace(HOSTED["openai-older"], n_servers=8, per_minute=0, sticky_seconds=600)


def test_openrouter_stays_with_a_provider_for_ten_idle_minutes() -> None:
    cache = hosted_cache(THROUGH, key_of=lambda prompt: b"session")
    assert [call(cache, talk(HEAD, ASK), at).read for at in (0.0, 599.0, 1198.0)] == [0, 5632, 5632]
    assert call(cache, talk(HEAD, ASK), at=1798.0).read == 0  # idle for 600 s: another route
    assert call(cache, talk(HEAD, ASK), at=1799.0).read == 5632


def test_openrouter_sessions_are_routed_apart() -> None:
    cache = hosted_cache(THROUGH, key_of=lambda prompt: prompt.namespaces[0])
    call(cache, talk(HEAD, ASK, settings="one"))
    assert cache.server_of(talk(HEAD, settings="one"), 1.0) == 0  # type: ignore[attr-defined]
    assert cache.server_of(talk(HEAD, settings="two"), 1.0) == 1  # type: ignore[attr-defined]


def test_openrouter_passes_the_upstreams_rules_on() -> None:
    cache = hosted_cache(replace(HOSTED["deepseek"], n_servers=8, sticky_seconds=600), key_of=lambda prompt: b"session")
    assert [call(cache, talk(HEAD, (ask, 9))).read for ask in "BCD"] == [0, 0, 5000]


def test_openrouter_keeps_geminis_last_mark_for_five_minutes_without_renewal() -> None:
    cache = hosted_cache(HOSTED["openrouter-gemini"], key_of=lambda prompt: b"session")
    prompt = talk(HEAD, ASK, marks=[Breakpoint(0, 300), Breakpoint(1, 300)])
    assert bill(call(cache, prompt)) == (0, 0, 5700, 0)
    assert cache.lookup(talk(HEAD, marks=[Breakpoint(0, 300)]), 1.0).read_tokens == 0
    assert call(cache, prompt, at=299.0).read == 5700
    assert cache.lookup(prompt, 300.0).reason == "ttl_expired"
