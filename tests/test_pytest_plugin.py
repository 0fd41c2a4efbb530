"""The pytest plugin, in runs of pytest's own: fixtures, and assertions whose failures show the byte."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

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


def recorded(*read: int, prompt: int = 1_000) -> list[ModelCall]:
    """Calls of `prompt` tokens, and how many of them each read."""
    bills = [Usage(prompt - n, n, 0, 0, 10) for n in read]
    asked = "anthropic", "claude-sonnet-5-5", None
    return [ModelCall(f"c{at}", "s", "main", at, at, at, *asked, bill, None, None) for at, bill in enumerate(bills)]


def test_what_is_no_share_is_refused_with_one_that_is() -> None:
    for share in [
        95,
        1.01,
        True,
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
    with pytest.raises(AssertionError, match=r"\n  call 3 lost 9,000 tokens: "):  # numbered from 1, as in the report
        assert_hit_rate(recorded(0, 9_000, 0, prompt=10_000), at_least=0.9)
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


# What is loaded
# ------------------------------------------------------------------------------------------------------------


HEAVY = "{'anthropic', 'openai', 'starlette', 'uvicorn', 'pydantic', 'httpx2', 'numpy', 'tiktoken'}"


@pytest.mark.parametrize("options", [(), ("--cache-guard",)], ids=["off", "on"])
def test_the_plugin_imports_nothing_before_it_is_needed(options: tuple[str, ...], pytester: pytest.Pytester) -> None:
    heavy = HEAVY if not options else HEAVY.replace("'pydantic', ", "")
    pytester.makepyfile(
        f"def test_nothing():\n    import sys\n    assert {{name.partition('.')[0] for name in sys.modules}} & {heavy} == set()"
    )
    pytester.runpytest_subprocess(*PLUGIN, *options).assert_outcomes(passed=1)


def test_the_entry_point_is_named_as_its_module() -> None:
    settings = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["entry-points"]["pytest11"] == {"contextkit.pytest_plugin": "contextkit.pytest_plugin"}
