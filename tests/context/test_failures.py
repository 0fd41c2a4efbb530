"""What failed stays in the prompt through every compaction: which call, with which arguments, which error; few and short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit import Compaction, Context, FileMemory, Phase, Phases, Tool, Variation
from contextkit.cache.usage import ZERO
from contextkit.canonical import parse
from contextkit.errors import UsageError
from contextkit.memory import Memory
from contextkit.memory.search.index import Index
from contextkit.providers.provider import Provider
from tests.laws.wires import PROVIDERS, TRIED, answer

Json = Any
every_wire = pytest.mark.parametrize("name", TRIED)
HEADING = "These calls failed, the newest last:"


def tools(*names: str) -> list[Tool]:
    return [Tool.raw({"name": one, "description": "Do.", "parameters": {"type": "object"}}) for one in names]


def begun(provider: Provider, **options: Any) -> Context:
    context = Context(provider, system="Careful.", tools=tools("read", "run"), clock=lambda: 0.0, **options)
    context.user("Go.")
    return context


def tried(context: Context, name: str, arguments: Json, value: str, *, is_error: bool = True) -> None:
    """One call and its answer."""
    call = ("call", f"c{len(context.log)}", name, arguments)
    context.receive(answer(context.provider.wire, f"r{len(context.log)}", [call], ZERO), context.request())
    context.result(context.calls[0], value, is_error=is_error)


def listed(context: Context) -> list[str]:
    """The lines of the list in the last epoch's entry."""
    epoch = next(entry for entry in reversed(context.log) if entry.kind == "epoch")
    texts = [part["text"] for part in parse(epoch.body)["summary"] if part["text"].startswith(HEADING)]
    assert len(texts) <= 1
    return texts[0].split("\n")[1:] if texts else []


@every_wire
def test_failures_are_listed_in_every_later_epoch_on_every_wire(name: str, tmp_path: Path) -> None:
    provider = PROVIDERS[name]()
    context = Context.open(tmp_path, provider, system="Careful.", tools=tools("read", "run"), clock=lambda: 0.0)
    context.user("Go.")
    for _ in range(3):
        tried(context, "read", {"path": "a.txt"}, "no such file: a.txt")
    tried(
        context, "run", {"command": "make"}, "Traceback (most recent call last):\n" + "  at x\n" * 99 + "KeyError: 'q'"
    )
    tried(context, "run", {"command": "ls"}, "timed out")
    tried(context, "run", {"command": "ls"}, "a b c", is_error=False)
    context.compact("Two files were looked for.")
    [first, second] = listed(context)
    assert first == '- read(path="a.txt"): no such file: a.txt'
    assert second.startswith('- run(command="make"): Traceback (most recent call last): a') and second.endswith(
        "at x KeyError: 'q'"
    )
    context.user("On.")
    tried(context, "read", {"path": "b.txt"}, "no such file: b.txt")
    context.compact("Nothing new.")
    assert listed(context) == [first, second, '- read(path="b.txt"): no such file: b.txt']
    body = context.request().body
    assert b"no such file: a.txt" in body and b"timed out" not in body
    context.close()
    with Context.open(tmp_path, PROVIDERS[name](), clock=lambda: 0.0) as again:
        assert again.request().body == body


TRIES = st.lists(
    st.tuples(
        st.sampled_from(["read", "run"]),
        st.fixed_dictionaries(
            {"path": st.sampled_from(["a", "b\n\x1b[2J", "é" * 300])}, optional={"n": st.integers(0, 1)}
        ),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400),
        st.booleans(),
    ),
    max_size=14,
)


@given(TRIES, st.integers(0, 4), st.integers(0, 14), st.booleans())
def test_the_list_holds_the_newest_failures_that_nothing_later_answers(
    tries: list[tuple[str, Json, str, bool]], most: int, n_gone: int, varies: bool
) -> None:
    options = {"variation": Variation(1, errors=True)} if varies else {}
    contexts = [begun(PROVIDERS["anthropic"](), compact=Compaction(keep_failures=most), **options) for _ in range(2)]
    for context in contexts:
        for name, arguments, value, is_error in tries:
            tried(context, name, arguments, value, is_error=is_error)
        replies = [entry for entry in context.log if entry.kind == "assistant"]
        context.compact("So far.", keep_from=replies[n_gone] if n_gone < len(replies) else None)
    assert contexts[0].log[-1].body == contexts[1].log[-1].body
    expected = [
        (name, arguments, " ".join(value.split()))
        for n, (name, arguments, value, is_error) in enumerate(tries)
        if is_error and n < n_gone and (name, arguments) not in [(one[0], one[1]) for one in tries[n + 1 :]]
    ]
    lines = listed(contexts[0])
    assert all(len(line) <= 200 and line.isprintable() for line in lines) and len(lines) <= most
    assert len({*lines}) == len(lines)
    if any("é" in arguments["path"] for _, arguments, _ in expected):
        return  # two calls may be one line
    expected = expected[len(expected) - min(most, len(expected)) :]
    assert [line[2:].partition("(")[0] for line in lines] == [name for name, *_ in expected]
    for line, (_, arguments, error) in zip(lines, expected, strict=True):
        assert f'path="{arguments["path"][0]}' in line
        assert line.endswith(f": {error}") or len(error) > 110 or not error.isprintable()


def test_a_call_that_the_phase_refused_is_no_failure() -> None:
    context = begun(PROVIDERS["chat"](), phases=Phases({"a": Phase(allow=["read"])}, "a"))
    call = ("call", "c1", "run", {"command": "rm"})
    context.receive(answer("openai_chat", "r1", [call], ZERO), context.request())
    assert not context.calls and context.log[-1].kind == "result"
    context.compact("Nothing.")
    assert listed(context) == []


def test_the_list_is_not_searched_as_if_it_were_said_again() -> None:
    memory = Memory(FileMemory("memory://failures"), index=Index())
    context = begun(PROVIDERS["chat"](), memory=memory)
    tried(context, "read", {"path": "kestrel"}, "no such file")
    context.compact("One file was looked for.")
    assert listed(context) == ['- read(path="kestrel"): no such file']
    hits = memory.index.search("kestrel") if memory.index else []
    assert hits and all(HEADING not in str(hit) for hit in hits)


@pytest.mark.parametrize("most", [-1, 1.0, True, None])
def test_a_number_of_failures_that_is_none_is_refused(most: Any) -> None:
    with pytest.raises(UsageError, match="keep_failures"):
        Compaction(keep_failures=most)
