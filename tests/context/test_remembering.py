"""A conversation with a memory: what the model is told of what changed, what it plans, and what it still knows after a
compaction."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses, tool
from contextkit.canonical import parse
from contextkit.errors import FileMissing, UsageError
from contextkit.log.entry import DateChanged, EffortChanged, FileChanged
from contextkit.log.variation import Variation, repetition
from contextkit.memory import FileMemory, Memory, Offload, Recitation
from contextkit.memory.facts.facts import Facts
from contextkit.memory.search.index import Index
from contextkit.providers.provider import Provider
from tests.laws.wires import Server, answer

_numbers = count()
PROVIDERS = {
    "anthropic": lambda: AnthropicMessages("claude-opus-5", max_tokens=1024),
    "reminder": lambda: AnthropicMessages("claude-sonnet-4-5", max_tokens=1024),
    "chat": lambda: OpenAIChat("gpt-6.1-sol"),
    "responses": lambda: OpenAIResponses("gpt-6.1-sol"),
}
every_wire = pytest.mark.parametrize("name", PROVIDERS)
PAGE = "\n".join(f"row {number}: {number * number}" for number in range(4_000))


@tool
def fetch(url: str) -> str:
    """Get a page."""
    return PAGE


def files() -> FileMemory:
    return FileMemory(f"memory://remembering-{next(_numbers)}")


class Loop:
    """A context and the provider it talks to, which sees bytes only."""

    def __init__(self, provider: Provider, **given: Any) -> None:
        self.now, self.numbers = 1_000_000.0, count()
        self.server = Server()
        self.context = Context(
            provider, system="You are careful. " * 400, tools=[fetch], clock=lambda: self.now, **given
        )

    def reply(self, *said: Any, context: Context | None = None) -> Any:
        """Send the next request and keep what the model says; gives what it was billed."""
        context = context or self.context
        request = context.request()
        usage = self.server.bill(request.wire, request.body, self.now)
        context.receive(
            {**answer(request.wire, f"r{next(_numbers)}", list(said), usage), "model": request.model.name}, request
        )
        self.now += 5.0
        return usage

    def browse(self, value: object = PAGE, **more: Any) -> Any:
        """One call, answered."""
        self.reply(("call", f"c{next(self.numbers)}", "fetch", {"url": "https://example.com"}))
        return self.context.result(self.context.calls[0], value, **more)


def sent(context: Context) -> list[Any]:
    body = context.request()
    return list(body["messages"] if "messages" in body else body["input"])


@every_wire
def test_a_change_is_told_once_in_the_provider_s_own_way(name: str) -> None:
    loop = Loop(PROVIDERS[name]())
    loop.context.user("Go.")
    first = loop.context.notice(DateChanged("2026-11-21"))
    assert loop.context.notice(DateChanged("2026-11-21")) == first
    loop.context.notice(EffortChanged("low"))
    loop.context.notice(FileChanged("a.py"))
    assert loop.context.notice(FileChanged("a.py")).sequence > first.sequence + 2
    told = sent(loop.context)[1:] if name in ("chat", "responses") else sent(loop.context)
    wanted: Any = {
        "anthropic": ("system", "The date is now 2026-11-21."),
        "reminder": ("user", "<system>The date is now 2026-11-21.</system>"),
        "chat": ("developer", "The date is now 2026-11-21."),
        "responses": ("developer", "The date is now 2026-11-21."),
    }[name]
    blocks = [(message["role"], block["text"]) for message in told if "role" in message for block in message["content"]]
    assert wanted in blocks and blocks[0] == ("user", "Go.")
    assert ({"type": "configuration_update", "reasoning": {"effort": "low"}} in told) == (name == "responses")
    again = Context(PROVIDERS[name](), log=loop.context.log)
    assert again.request().body == loop.context.request().body


def test_a_large_result_is_stored_when_it_comes_and_read_in_parts() -> None:
    memory = Memory(files(), offload=Offload(above_tokens=1_000, preview_tokens=100))
    loop = Loop(PROVIDERS["responses"](), memory=memory)
    loop.context.user("Read it.")
    entry = loop.browse(source="https://example.com")
    assert len(entry.body) < 2_000 and loop.context.restore(entry) == [{"type": "text", "text": PAGE}]
    name_of = next(word.rstrip(",") for word in entry.body.decode().split() if len(word.rstrip(",")) == 16)
    loop.reply(("call", "read", "read_reference", {"id": name_of, "start_line": 3_999, "n_lines": 2}))
    shown = loop.context.calls[0].run()
    assert isinstance(shown, str) and shown.startswith(
        "row 3998: 15984004\nrow 3999: 15992001\n[lines 3999 to 4000 of 4000]"
    )
    assert loop.context.restore(name_of) == PAGE.encode()


def test_an_error_keeps_its_type_its_message_and_its_last_frames() -> None:
    loop = Loop(PROVIDERS["anthropic"](), memory=Memory(files(), offload=Offload(1_000, 100)))
    loop.context.user("Run it.")
    trace = (
        "RuntimeError in the build\n"
        + "".join(f'File "m{i}.py", line {i}\n' for i in range(2_000))
        + "ValueError: no such part"
    )
    entry = loop.browse(RuntimeError(trace))
    shown = str(sent(loop.context)[-1])
    assert (
        "RuntimeError: RuntimeError in the build" in shown
        and "ValueError: no such part" in shown
        and "m1999.py" in shown
    )
    assert loop.context.restore(entry)[0]["text"] == f"RuntimeError: {trace}"


def test_a_store_that_takes_no_more_leaves_the_result_in_the_window_and_says_so() -> None:
    loop = Loop(PROVIDERS["anthropic"](), memory=FileMemory(f"memory://full-{next(_numbers)}", quota_bytes=1_000))
    loop.context.user("Read it.")
    with pytest.warns(UserWarning, match="stays in the window"):
        entry = loop.browse()
    assert PAGE.splitlines()[2_000] in entry.body.decode() and loop.context.restore(entry)[0]["text"] == PAGE


def test_the_plan_is_said_again_at_the_tail_and_what_was_said_stays() -> None:
    memory = Memory(files(), recitation=Recitation(every_replies=3, every_calls=None, beyond_tokens=None))
    loop = Loop(PROVIDERS["responses"](), memory=memory)
    assert memory.todo is not None
    loop.context.user("Go.")
    before = str(sent(loop.context))
    memory.todo.add(["find", "write"])
    for _ in range(7):
        loop.browse("ok")
    said = [entry.sequence for entry in loop.context.log if entry.kind == "notice"]
    assert len(said) == 3  # when the list was new, and after three replies each
    assert "Still to do" not in before and str(sent(loop.context)).count("Still to do") == 3
    assert "Still to do" not in str(loop.context.request().get("system", ""))
    memory.todo.mark([1, 2], "done")
    for _ in range(4):
        loop.browse("ok")
    assert sum(entry.kind == "notice" for entry in loop.context.log) == 3


def test_words_that_pass_are_refused_where_thinking_is_bound_to_them() -> None:
    with pytest.raises(UsageError, match="binds its thinking"):
        Context(
            AnthropicMessages("claude-opus-5-5", max_tokens=1),
            memory=Memory(files(), recitation=Recitation(stays=False)),
        )


def test_a_summary_is_asked_for_over_the_cached_prefix_and_the_new_epoch_says_what_matters() -> None:
    memory = Memory(files(), offload=Offload(1_000, 100))
    loop = Loop(PROVIDERS["responses"](), memory=memory)
    assert memory.todo is not None
    loop.context.user("Find the three cheapest GPUs.")
    loop.browse()
    memory.todo.add(["compare", "write"])
    loop.browse("small")
    loop.reply(("text", "One more look."))
    side = loop.context.summarising()
    request, before = side.request(), loop.context.request()
    billed = loop.server.bill(request.wire, request.body, loop.now)
    side.receive(answer(request.wire, "summary", [("text", "Two found.")], billed), request)
    assert (billed.read or 0) >= 0.9 * (before.predicted.read or 0) > 0
    assert loop.context.log[-1].kind == "assistant" and len(loop.context.ledger) == 4
    epoch = loop.context.compact(side)
    shown = str(sent(loop.context))
    wanted = (
        "Find the three cheapest GPUs.",
        "Two found.",
        "1. compare",
        "read_reference",
        next(iter(memory.references._by_id)),
    )
    assert all(words in shown for words in wanted)
    assert "One more look." not in shown and epoch.sequence == len(loop.context.log) - 1
    result = next(entry for entry in loop.context.log if entry.kind == "result")
    assert loop.context.restore(result) == [{"type": "text", "text": PAGE}]


def test_old_results_become_references_and_what_stands_before_them_is_read_from_cache() -> None:
    loop = Loop(PROVIDERS["anthropic"](), memory=Memory(files(), offload=Offload(20_000, 100)))
    loop.context.user("Go.")
    loop.reply(("text", "First " * 3_000), ("thinking", "hm", "c2ln"))
    loop.context.user("On.")
    old = [loop.browse() for _ in range(3)]
    loop.reply(("text", "Seen."))
    loop.context.user("And?")
    before = loop.context.request().predicted
    epoch = loop.context.compact_results(before=old[2], above_tokens=200)
    assert epoch is not None and loop.context.compact_results(before=old[2], above_tokens=200) is None
    after = loop.context.request().predicted
    assert (after.prompt or 0) < 0.55 * (before.prompt or 0)
    assert (after.read or 0) > 3_000  # the head, and the words before the first result
    assert b"c2ln" in loop.context.request().body  # thinking before the first change still holds
    assert [loop.context.restore(entry) for entry in old] == [[{"type": "text", "text": PAGE}]] * 3
    again = Context(PROVIDERS["anthropic"](), log=loop.context.log, memory=loop.context.memory)
    assert again.request().body == loop.context.request().body


def test_a_rut_is_seen_and_left_by_telling_results_in_other_forms() -> None:
    plain, varied = (Loop(PROVIDERS["anthropic"](), variation=given) for given in (None, Variation(1, is_always=True)))
    for loop in plain, varied:
        loop.context.user("Go.")
        for number in range(30):
            loop.browse("\n".join(f"order {number} line {line} was shipped" for line in range(9)))
    assert repetition(plain.context.log).rate > 0.9
    assert repetition(varied.context.log).rate < repetition(plain.context.log).rate
    results = [entry for entry in varied.context.log if entry.kind == "result"]
    assert [varied.context.restore(entry)[0]["text"] for entry in results] == [
        "\n".join(f"order {number} line {line} was shipped" for line in range(9)) for number in range(30)
    ]


TRACEBACK = "Traceback (most recent call last):\n  File \"run.py\", line 3, in <module>\nKeyError: 'city'"


@every_wire
def test_equal_errors_are_told_in_other_forms_where_that_is_asked_for_and_cost_nothing_in_the_cache(name: str) -> None:
    def failing(variation: Variation | None) -> tuple[list[str], Loop]:
        loop = Loop(PROVIDERS[name](), variation=variation)
        loop.context.user("Go.")
        texts = []
        for _ in range(10):
            entry = loop.browse(TRACEBACK, is_error=True)
            assert parse(entry.body)["is_error"]
            assert loop.context.restore(entry) == [{"type": "text", "text": TRACEBACK}]
            texts.append(parse(entry.body)["content"][0]["text"])
        usages = [loop.reply(("text", "Failed."))]
        loop.context.user("And?")
        usages.append(loop.reply(("text", "Still.")))
        assert (usages[1].read or 0) >= 0.98 * (usages[0].prompt or 0)
        return texts, loop

    for quiet in None, Variation(7, is_always=True, introductions=True):
        assert failing(quiet)[0] == [TRACEBACK] * 10
    texts, loop = failing(Variation(7, errors=True))
    assert all(len({*texts[n : n + 7]}) == 7 for n in range(4))
    assert failing(Variation(7, errors=True))[0] == texts != failing(Variation(8, errors=True))[0]
    again = Context(PROVIDERS[name](), log=loop.context.log)
    assert again.request().body == loop.context.request().body


def test_introductions_are_more_where_they_are_asked_for() -> None:
    told = {}
    for introductions in False, True:
        loop = Loop(PROVIDERS["chat"](), variation=Variation(7, is_always=True, introductions=introductions))
        loop.context.user("Go.")
        forms = [parse(loop.browse("found").body).get("form", "plain") for _ in range(60)]
        told[introductions] = {form.split()[0] for form in forms}
    more = {"returned", "output", "gave", "from"}
    assert not told[False] & more and told[True] - told[False] == more


def test_what_needs_a_memory_says_so() -> None:
    loop = Loop(PROVIDERS["anthropic"]())
    loop.context.user("Go.")
    for ask in (lambda: loop.context.restore("ab" * 8), lambda: loop.context.compact_results(0)):
        with pytest.raises(UsageError, match="memory=FileMemory"):
            ask()
    with pytest.raises(UsageError, match="not replied"):
        _ = loop.context.last_text
    with pytest.raises(UsageError, match="index=Index"):
        Loop(PROVIDERS["anthropic"](), memory=files()).context.recall("anything")
    with pytest.raises(FileMissing):
        Context(PROVIDERS["anthropic"](), memory=files()).restore("ab" * 8)


def test_what_left_the_window_is_found_again_and_said_at_the_tail() -> None:
    memory = Memory(files(), offload=Offload(1_000, 100), index=Index(), facts=Facts())
    loop = Loop(PROVIDERS["anthropic"](), memory=memory)
    assert memory.facts is not None
    loop.context.user("The Kestrel card costs 412 euros at Marlow's.")
    loop.browse("Shipping of the Osprey board takes nineteen days.\n" + PAGE)
    loop.reply(("text", "Noted."))
    memory.facts.learn("Osprey", "is made in", "Ghent", episode="entry/1", at=loop.now)
    loop.context.user("Go on.")
    before = loop.context.request()
    loop.context.compact("Two shops were visited.")
    loop.context.user("What about Osprey shipping?")
    memory.facts.learn("Osprey", "is made in", "Oslo", episode="entry/2", at=loop.now + 3_600)
    entry = loop.context.recall("Osprey shipping days")
    assert entry is not None and b"nineteen days" in entry.body and b"Ghent" in entry.body
    assert b"Oslo" not in entry.body  # nobody knows it yet
    shown = loop.context.request()
    assert "nineteen days" in str(shown["messages"][-1]) and b"nineteen days" not in before.body[:200]
    loop.reply(("call", "s", "memory_search", {"query": "Kestrel price"}))
    assert "412 euros" in str(loop.context.calls[0].run())
    loop.context.interrupt("enough")
    assert loop.context.recall("zebra xylophone") is None
