"""What a change of the head re-bills, against a cache that bills it; and what is said of where it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.models import model_named
from contextkit.prices import cost_usd
from contextkit.prompt.lock import HeadChange, Live, LockedHead, compare, head_of
from contextkit.providers.provider import Provider

SYSTEM = "You are a careful researcher; you say where a number comes from. " * 120
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": f"Does {name}. " * 30, "parameters": {"type": "object", "properties": {}}}
    for name in ("a", "b", "c")
]
PROVIDERS = {
    "claude": lambda: AnthropicMessages("claude-sonnet-5-5", max_tokens=64),
    "chat": lambda: OpenAIChat("gpt-6.1-sol"),
    "responses": lambda: OpenAIResponses("gpt-6.1-sol"),
    "implicit": lambda: OpenAIChat("gpt-5.4"),
}


def context(provider: Provider, system: str = SYSTEM, tools: Any = TOOLS) -> Context:
    return Context(provider, system=system, tools=tools, clock=lambda: 0.0)


def head(made: Context) -> LockedHead:
    if made.is_new:
        made.user("A message behind the head.")
    request = made.request()
    return head_of(request.layout, request.prompt, request.wire, request.provider, request.model.name)


def change(was: Context, now: Context, live: Live | None = None) -> HeadChange:
    found = compare(head(was), head(now), live or Live())
    assert found is not None
    return found


def edited(index: int, **fields: Any) -> list[dict[str, Any]]:
    return [{**one, **fields} if place == index else one for place, one in enumerate(TOOLS)]


def sent(cache: PrefixCache[Prompt], made: Context, at: float) -> int:
    """Tokens of a request that were not read; what it writes can be read by the next."""
    prompt = made.request().prompt
    usage = cache.quote(prompt, at)
    lease = cache.begin(prompt, at)
    cache.publish(lease, at)
    cache.end(lease, 0, at)
    return (usage.fresh or 0) + (usage.write_5m or 0) + (usage.write_1h or 0)


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("place", ["tool", "system", "added"])
def test_a_deploy_re_bills_what_the_lock_said(name: str, place: str) -> None:
    provider, n = PROVIDERS[name](), 7
    heads: dict[str, dict[str, Any]] = {
        "tool": {"tools": edited(1, description="Does it otherwise. " * 30)},
        "system": {"system": SYSTEM[:-40] + "Otherwise. "},
        "added": {"tools": [*TOOLS, {"name": "d", "description": "New.", "parameters": {"type": "object"}}]},
    }
    cache = reference_cache(model_named(provider.model.name))

    def talking(index: int, **options: Any) -> Context:
        made = context(provider, **options)
        made.user(f"{index}: " + "What else is there to say? " * 90)
        return made

    before = [talking(index) for index in range(n)]
    for at, made in enumerate(before):
        sent(cache, made, float(at))
    unread = sum(sent(cache, made, 20.0 + at) for at, made in enumerate(before))
    after = [talking(index, **heads[place]) for index in range(n)]
    rebilled = sum(sent(cache, made, 40.0 + at) for at, made in enumerate(after))
    said = {made.request().prompt.n_tokens - head(made).n_tokens for made in after}
    assert len(said) == 1
    found = change(before[0], after[0], Live(n, said.pop()))
    step = model_named(provider.model.name).granularity_tokens
    assert rebilled - unread == pytest.approx(found.n_tokens, abs=(n + 1) * step if step > 1 else 0)


def test_dollars_are_what_writing_costs_beyond_reading() -> None:
    provider = PROVIDERS["claude"]()
    found = change(context(provider), context(provider, tools=edited(0, description="x")), Live(50, 30_000))
    assert found.session_tokens == 1_500_000
    per_million = 2.5 - 0.1  # Sonnet 5.5: 5-minute write, read
    assert found.usd == pytest.approx(found.n_tokens * per_million / 1e6)
    assert cost_usd("anthropic", "claude-sonnet-5-5", _written(1_000_000)) == 2.5


def _written(n: int) -> Any:
    from contextkit import Usage

    return Usage(0, 0, n, 0, 0)


@pytest.mark.parametrize(
    ("now", "what", "path"),
    [
        ({"tools": edited(1, description="x")}, "tool 'b' changed", "tools[1]"),
        ({"tools": TOOLS[1:]}, "tool 'a' removed", "tools[0]"),
        ({"tools": [TOOLS[1], TOOLS[0], TOOLS[2]]}, "tool 'a' moved", "tools[0]"),
        ({"tools": [*TOOLS, {**TOOLS[0], "name": "z"}]}, "tool 'z' added", "tools[3]"),
        ({"tools": [{**TOOLS[0], "name": "0"}, *TOOLS]}, "tool '0' added", "tools[0]"),
        ({"system": "Otherwise. " + SYSTEM}, "the system prompt", "system[0]"),
    ],
)
def test_where_it_changed(now: dict[str, Any], what: str, path: str) -> None:
    provider = PROVIDERS["claude"]()
    found = change(context(provider), context(provider, **now))
    assert (found.what, found.path) == (what, path)
    assert found.before != found.after


def test_the_window_shows_both_sides_around_the_byte() -> None:
    provider = PROVIDERS["claude"]()
    found = change(context(provider), context(provider, system=SYSTEM.replace("a number", "a figure", 1)))
    at = found.before.index("number")
    assert found.before[:at] == found.after[:at] and found.after[at:].startswith("figure")


def test_another_model_re_bills_everything_and_parameters_what_they_key() -> None:
    claude = context(AnthropicMessages("claude-sonnet-5-5", max_tokens=64))
    other = context(AnthropicMessages("claude-opus-5-5", max_tokens=64))
    found = change(claude, other)
    assert found.what.startswith("the model (was anthropic claude-sonnet-5-5, now anthropic claude-opus-5-5")
    assert found.head_tokens == head(other).n_tokens
    fast = context(AnthropicMessages("claude-sonnet-5-5", max_tokens=64, speed="fast"))
    found = change(claude, fast)
    assert (found.what, found.head_tokens) == ("parameters that key the system", head(claude).n_tokens)
    chosen = context(AnthropicMessages("claude-sonnet-5-5", max_tokens=64, tool_choice={"type": "none"}))
    found = change(claude, chosen, Live(3, 1000))
    assert (found.what, found.head_tokens, found.session_tokens) == ("parameters that key the messages", 0, 3000)
    assert compare(head(claude), head(context(AnthropicMessages("claude-sonnet-5-5", max_tokens=9000))), Live()) is None


def test_a_head_too_short_to_be_cached_is_billed_in_every_conversation() -> None:
    provider = PROVIDERS["claude"]()
    was, now = (context(provider, system=text, tools=[]) for text in ("Be brief.", "Be terse."))
    assert change(was, now, Live(10, 100)).head_tokens == 10 * head(now).n_tokens
    assert change(was, now).head_tokens == head(now).n_tokens


def test_a_deferred_tool_is_in_no_prefix() -> None:
    provider = PROVIDERS["claude"]()
    more = {"name": "z", "description": "Later.", "input_schema": {"type": "object"}, "defer_loading": True}
    was, now = head(context(provider)), head(context(provider, tools=[*TOOLS, more]))
    assert compare(was, now, Live(5, 500)) is None
    assert was.digest != now.digest and was.n_tokens == now.n_tokens


@settings(settings.get_profile("laws"))
@given(st.lists(st.sampled_from("abcde"), unique=True), st.lists(st.sampled_from("abcde"), unique=True))
def test_any_two_tool_sets_differ_where_they_differ(one: list[str], other: list[str]) -> None:
    provider = PROVIDERS["implicit"]()
    made = [context(provider, tools=[{**TOOLS[0], "name": name} for name in names]) for names in (one, other)]
    was, now = map(head, made)
    found = compare(was, now, Live())
    assert (found is None) == (one == other)
    if found is not None:
        first = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        behind = sum(block.n_tokens for block in now.blocks[first:])
        assert found.head_tokens == behind
