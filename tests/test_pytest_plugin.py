"""The pytest plugin, in runs of pytest's own: fixtures, assertions whose failures show the byte, and `--cache-guard`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from contextkit import AnthropicMessages, Context
from contextkit.cache.usage import Usage
from contextkit.errors import ContextKitError, StorageError, UsageError
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.pytest_plugin import assert_hit_rate, assert_prefix_stable

pytest.importorskip("uvicorn", reason="the local server is the extra `server`")
pytest_plugins = "pytester"

PLUGIN = ("-p", "contextkit.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist")
HEAD = "You are careful. " * 400


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]


# Assertions
# ---------------------------------------------------------------------------------------------------------------


def test_a_kept_prefix_passes() -> None:
    for before, after in [
        ({"model": "gpt-5", "messages": said("a")}, {"model": "gpt-5", "messages": said("a", "b", "c")}),
        (
            {"model": "claude-sonnet-5-5", "max_tokens": 5, "messages": said("a")},
            {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": said("a", "b", "c")},
        ),
        (
            {"model": "gpt-5", "input": said("a"), "instructions": "x"},
            {"model": "gpt-5", "input": said("a", "b"), "instructions": "x"},
        ),
        (
            b'{"model":"gpt-5","messages":[{"role":"user","content":"a"}]}',
            b'{"model": "gpt-5", "messages": [{"content": "a", "role": "user"}, {"role": "assistant", "content": "b"}]}',
        ),
    ]:
        assert_prefix_stable(before, after)
        assert_prefix_stable(before, before)


def test_a_broken_prefix_shows_level_path_offset_and_both_sides() -> None:
    before = {"model": "gpt-5", "messages": [{"role": "system", "content": HEAD + "It is 10:30:59."}, *said("a")]}
    after = {
        "model": "gpt-5",
        "messages": [{"role": "system", "content": HEAD + "It is 10:31:00."}, *said("a", "b", "c")],
    }
    with pytest.raises(AssertionError) as caught:
        assert_prefix_stable(before, after)
    text = str(caught.value)
    offset = len('"' + HEAD + "It is 10:3")
    for part in (
        "level   system",
        "path    messages[0].content",
        f"offset  byte {offset}",
        "It is 10:30:59",
        "It is 10:31:00",
    ):
        assert part in text


def test_what_stands_behind_the_last_marker_is_free() -> None:
    block = {"type": "text", "text": HEAD, "cache_control": {"type": "ephemeral"}}
    before = {"model": "claude-sonnet-5-5", "max_tokens": 5, "system": [block], "messages": said("a")}
    assert_prefix_stable(before, {**before, "messages": said("another")})
    with pytest.raises(AssertionError):
        assert_prefix_stable({**before, "system": HEAD}, {**before, "messages": said("another")})


def test_requests_and_layouts_of_contextkit_can_be_compared() -> None:
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=9)
    context, other = (Context(provider, system=text) for text in (HEAD, HEAD + "Now."))
    context.user("hello")
    before = context.request()
    context.user("and more")
    assert_prefix_stable(before, context.request())
    assert_prefix_stable(before.layout, context.request().layout)
    other.user("hello")
    with pytest.raises(AssertionError, match="system"):
        assert_prefix_stable(before, other.request())


KEPT = {"model": "gpt-5", "messages": said("a")}


def test_of_two_bodies_the_one_that_cannot_be_read_is_named_with_the_reason() -> None:
    for value, words in [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"nope", "not JSON from byte 0 on"),
        ({}, "not a request to a model"),
        (5, "not int"),
        ({"model": "gpt-5", "messages": [5]}, r"messages\[0\]"),
        ({**KEPT, "x": object()}, "object in a request body has no JSON form"),
    ]:
        for side, pair in (("before", (value, KEPT)), ("after", (KEPT, value)), ("before", (value, value))):
            with pytest.raises(ContextKitError, match=rf"^{side}\b.*{words}") as caught:
                assert_prefix_stable(*pair)
            assert "\n" not in str(caught.value)


def test_a_broken_prefix_names_the_page_of_its_hazard() -> None:
    heads = [[{"role": "system", "content": f"{HEAD}It is {clock}."}] for clock in ("10:30", "10:31")]
    before, after = ({"model": "gpt-5", "messages": head} for head in heads)
    with pytest.raises(AssertionError, match=r"contextkit lint --explain CKS01$"):
        assert_prefix_stable(before, after)


def recorded(*read: int) -> list[ModelCall]:
    """Calls of 1,000 tokens, and how many of them each read."""
    bills = [Usage(1000 - n, n, 0, 0, 10) for n in read]
    asked = "anthropic", "claude-sonnet-5-5", None
    return [ModelCall(f"c{at}", "s", "main", at, at, at, *asked, bill, None, None) for at, bill in enumerate(bills)]


def test_what_is_no_share_is_refused_with_one_that_is() -> None:
    for share in [
        95,
        1.01,
        None,
        float("nan"),
    ]:
        with pytest.raises(UsageError, match=r"^at_least is .*: give a share between 0 and 1, such as 0\.95$"):
            assert_hit_rate(recorded(0, 900), at_least=share)


def test_what_is_no_ledger_is_refused() -> None:
    for value in [
        None,
        [1],
        b"ledger.jsonl",
    ]:
        with pytest.raises(UsageError, match=r"^give a Ledger, the path of one, or calls of one, not \w+$"):
            assert_hit_rate(value)


def test_a_hit_rate_is_asked_of_a_ledger_its_path_or_some_of_its_calls(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        for call in recorded(0, 900):
            ledger.append(call)
    for given in (ledger, tmp_path / "ledger.jsonl", str(tmp_path / "ledger.jsonl"), list(ledger)):
        assert_hit_rate(given, at_least=0.45)
        with pytest.raises(AssertionError, match=r"hit rate 0\.450 is below 0\.5"):
            assert_hit_rate(given, at_least=0.5)
    assert_hit_rate(list(ledger)[1:], at_least=0.9)
    with pytest.raises(StorageError, match=r"nowhere\.jsonl cannot be opened"):
        assert_hit_rate(tmp_path / "nowhere.jsonl")


# Fixtures
# -----------------------------------------------------------------------------------------------------------------


def test_the_fixtures_serve_a_real_client(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""
        import anthropic

        HEAD = {HEAD!r}

        def ask(server, turns):
            client = anthropic.Anthropic(base_url=server.url, api_key="any")
            messages, bodies = [], []
            for turn in range(turns):
                messages = [*messages, {{"role": "user", "content": f"turn {{turn}}"}}]
                system = [{{"type": "text", "text": HEAD, "cache_control": {{"type": "ephemeral"}}}}]
                bodies.append(dict(model="claude-sonnet-5-5", max_tokens=50, system=system, messages=messages))
                reply = client.messages.create(**bodies[-1])
                messages = [*messages, {{"role": "assistant", "content": reply.content}}]
            client.close()
            return bodies

        def test_good(provider_server, ledger, assert_prefix_stable, assert_hit_rate):
            before, *_, after = ask(provider_server, 30)
            assert_prefix_stable(before, after)
            assert_hit_rate(ledger, at_least=0.8)
            assert len(ledger) == 30

        def test_cold(provider_server, ledger, assert_hit_rate):
            ask(provider_server, 1)
            assert_hit_rate(ledger)
    """)
    ran = pytester.runpytest_inprocess(*PLUGIN)
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(["*hit rate 0.000 is below 0.95*"])


# --cache-guard
# ------------------------------------------------------------------------------------------------------------

AGENT = f"""
import asyncio
import pytest

HEAD = {HEAD!r}

def talk(client, heads):
    messages = []
    for number, head in enumerate(heads):
        messages = [*messages, {{"role": "user", "content": f"turn {{number}}"}}]
        client.chat.completions.create(model="gpt-6.1-sol", messages=[{{"role": "system", "content": head}}, *messages])
        messages = [*messages, {{"role": "assistant", "content": "ok"}}]

def openai_client(server):
    import openai
    return openai.OpenAI(base_url=server.url + "/v1", api_key="any")
"""
TESTS = """
def test_kept(provider_server):
    with openai_client(provider_server) as client:
        talk(client, [HEAD] * 3)

def test_broken(provider_server):
    with openai_client(provider_server) as client:
        talk(client, [HEAD, "Now " + HEAD])

def test_broken_in_a_copy(provider_server):
    with openai_client(provider_server) as client:
        talk(client.with_options(timeout=9), [HEAD, "Now " + HEAD])

def test_broken_async(provider_server):
    async def run():
        import anthropic
        async with anthropic.AsyncAnthropic(base_url=provider_server.url, api_key="any") as client:
            for number, head in enumerate((HEAD, "Now " + HEAD)):
                system = [{"type": "text", "text": head, "cache_control": {"type": "ephemeral"}}]
                said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}, {"role": "user", "content": "hum"}]
                await client.messages.create(model="claude-sonnet-5-5", max_tokens=9, system=system, messages=said[:2 * number + 1])
    asyncio.run(run())

@pytest.fixture
def goodbye(provider_server):
    with openai_client(provider_server) as client:
        talk(client, [HEAD])
        yield
        talk(client, ["Now " + HEAD] * 2)

def test_broken_in_teardown(goodbye):
    pass

def test_another_conversation_of_another_test(provider_server):
    with openai_client(provider_server) as client:
        talk(client, ["Now " + HEAD] * 2)

def test_fails_by_itself(provider_server):
    with openai_client(provider_server) as client:
        talk(client, [HEAD, "Now " + HEAD])
    assert 1 == 2
"""


def test_the_guard_fails_the_tests_that_break_a_prefix(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_agent=AGENT + TESTS)
    made = openai._base_client.SyncAPIClient.__init__
    ran = pytester.runpytest_inprocess(*PLUGIN, "--cache-guard", "-rA")
    assert openai._base_client.SyncAPIClient.__init__ is made, "the guard goes with the run"
    ran.assert_outcomes(passed=3, failed=4, errors=1)
    ran.stdout.fnmatch_lines(
        [
            "*--cache-guard: a prefix was broken*",
            "*level   system*",
            "*path    messages?0?.content*",
            "*test_agent.py:*",
        ]
    )
    ran.stdout.fnmatch_lines(
        ["*assert 1 == 2*", "*cache guard*", "a prefix was broken", "*path    messages?0?.content*"]
    )


REPEATS = """
def test_clock(provider_server):
    with openai_client(provider_server) as client:
        talk(client, [f"{HEAD}It is 10:3{n}." for n in range(9)])

def test_reminder_that_moves(provider_server):
    with openai_client(provider_server) as client:
        messages = [{"role": "system", "content": HEAD}]
        for number in range(5):
            now = {"role": "user", "content": f"turn {number}"}
            told = {"role": "user", "content": "<system-reminder>Be brief.</system-reminder>"}
            client.chat.completions.create(model="gpt-6.1-sol", messages=[*messages, now, told])
            messages += [now, {"role": "assistant", "content": "ok"}]
"""


@pytest.mark.parametrize(("name", "times"), [("clock", 8), ("reminder", 4)])
def test_what_breaks_in_every_turn_is_told_once_with_how_often(
    name: str, times: int, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_agent=AGENT + REPEATS)
    text = pytester.runpytest_inprocess(*PLUGIN, "--cache-guard", "--tb=short", "-rN", "-k", name).stdout.str()
    assert text.count("  path    ") == text.count("contextkit lint --explain CK") == 1
    assert f"  times   {times}" in text


EXEMPT = """
pytestmark = pytest.mark.cache_guard(False)

def test_exempt(provider_server):
    with openai_client(provider_server) as client:
        talk(client, [HEAD, "Now " + HEAD])

@pytest.mark.cache_guard(True)
def test_held_to_account(provider_server):
    with openai_client(provider_server) as client:
        talk(client, [HEAD, "Now " + HEAD])
"""


def test_a_mark_lets_a_test_break_prefixes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_agent=AGENT + EXEMPT)
    pytester.runpytest_inprocess(*PLUGIN, "--cache-guard", "--strict-markers").assert_outcomes(passed=1, failed=1)
    pytester.runpytest_inprocess(*PLUGIN, "--strict-markers").assert_outcomes(passed=2)


def test_a_mark_that_says_neither_yes_nor_no_fails_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.cache_guard('off')\ndef test_nothing(): pass")
    ran = pytester.runpytest_inprocess(*PLUGIN, "--cache-guard")
    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines(["*test_nothing: @pytest.mark.cache_guard takes False*"])


def test_without_the_option_nothing_is_watched(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_agent=AGENT + TESTS)
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=6, failed=1)


HEAVY = "{'anthropic', 'openai', 'starlette', 'uvicorn', 'pydantic', 'httpx2', 'numpy', 'tiktoken'}"


def test_the_plugin_imports_nothing_before_it_is_needed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"def test_nothing():\n    import sys\n    assert {{name.partition('.')[0] for name in sys.modules}} & {HEAVY} == set()"
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
