"""What survives a compaction, of any kind: the report's claims are true for whoever holds the prompt and the tools."""

from __future__ import annotations

import json
import re
import warnings
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, OpenAIResponses, tool
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.context.survival import Survival, strings
from contextkit.errors import ItemsLost, ToolRefusal, UsageError
from contextkit.memory import Compaction, FileMemory, Memory, Offload
from contextkit.memory.search.index import Index
from contextkit.tools.phases import Phase, Phases
from tests.context.desk import Desk, asks, goes_on, says
from tests.laws.wires import PROVIDERS, answer
from tests.scale import n_examples

_numbers = count()
PLANTED = {number: f"The secret of page {number} is {number * 7919}." for number in range(200)}


@tool
def page(number: int) -> str:
    """Get a page."""
    lines = [f"# Page {number}", *(f"row {row} of page {number}: {row * number}" for row in range(400))]
    lines[200] = PLANTED[number]
    return "\n".join(lines)


def files() -> FileMemory:
    return FileMemory(f"memory://survival-{next(_numbers)}")


def memory(store: FileMemory | None = None, **more: Any) -> Memory:
    options = {"offload": Offload(1_000, 100), "recitation": None, **more}
    return Memory(store or files(), **options)


def reply(context: Context, *parts: Any, stop: str | None = None, **fields: Any) -> Any:
    request = context.request()
    body = answer(request.wire, f"r{next(_numbers)}", list(parts), Usage(10, 0, 0, 0, 5), *([stop] if stop else []))
    return context.receive({**body, "model": request.model.name, **fields}, request)


def call(context: Context, name: str, **arguments: Any) -> Any:
    reply(context, ("call", f"c{next(_numbers)}", name, arguments))
    [made] = context.calls
    return context.result(made, made.run())


def prompt_text(context: Context) -> str:
    """Every string of the request body, unescaped."""
    return "\n".join(strings(parse(context.request().body)))


def check_claims(context: Context) -> Survival:
    """What the report says is true: looked up in the request's bytes, and read by the tools."""
    report = context.survival()
    prompt, tools = prompt_text(context), {one.name: one for one in context.toolbox}
    for item in report.items:
        if item.kind == "call":
            continue
        if item.status == "verbatim":
            assert item.text in prompt, item
        elif item.kind == "plan":
            assert context.memory is not None and context.memory.todo is not None
            file = str(tools["memory"].run({"command": "view", "path": "/memories/todo.md"}))
            assert all(one.text in file for one in context.memory.todo.items)
        elif item.status == "restorable_by_model":
            text = read_as_told(item.how, tools)
            assert item.kind == "reference" or joined(item.text) in joined(text), item
            if item.kind == "reference":
                assert context.restore(item.text).decode().splitlines()[0] in text
                names = re.findall(r"named in ([0-9a-f]{16})", item.how) or [item.text]
                assert names[-1] in prompt or "named in" in item.how or "memory_search" in item.how
    return report


def joined(text: str) -> str:
    """A long line is read as several, so line ends are left out."""
    return text.replace("\n", "").strip()


def read_as_told(how: str, tools: dict[str, Any]) -> str:
    """What a tool gives that is called as the report says, to the end."""
    found = re.match(r'(?:memory_search, )?(read_reference|memory_read)\(id="([^"]+)"\)', how)
    assert found is not None, how
    text, line = list[str](), 1
    while line:
        part = str(tools[found[1]].run({"id": found[2], "start_line": line}))
        text.append(part.rpartition("\n[lines ")[0])
        more = re.search(r"go on with start_line=(\d+)\]$", part)
        line = int(more[1]) if more else 0
    return "\n".join(text)


def model() -> AnthropicMessages:
    return AnthropicMessages("claude-opus-5", max_tokens=1024)


# Pins
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses", "gemini"])
def test_pins_are_repeated_word_for_word_in_a_fixed_order(name: str) -> None:
    context = Context(PROVIDERS[name](), system="Careful. " * 50)
    first = context.user("Find three prices.")
    context.pin("The price of A is\n4 euros.", "fact")
    pinned = context.pin("Never push to main.")
    assert context.pin("Never push to main.") == pinned and context.pin(first, "task").sequence == pinned.sequence + 1
    assert prompt_text(context).count("Never push to main.") == 1 and prompt_text(context).count("three prices") == 1
    for number in range(3):
        reply(context, ("text", f"Reply {number}."))
        context.user(f"Go on, {number}.")
        context.compact("In short.")
        context.user("And now?")
        opening = [part["text"] for part in parse(context.log[-2].body)["summary"]]
        assert opening[0] == (
            "Pinned, and still in force:\n- task: Find three prices.\n- constraint: Never push to main.\n"
            "- fact: The price of A is\n4 euros."
        )
        report = check_claims(context)
        assert {item.status for item in report.items} == {"verbatim"} and len(report.items) == 3
    assert [pin.kind for pin in context.pins] == ["task", "constraint", "fact"]


def test_a_pin_that_is_withdrawn_is_told_and_no_longer_repeated() -> None:
    context = Context(model())
    context.user("Go.")
    pinned = context.pin("Use the old API.", "decision")
    context.unpin(pinned)
    assert "No longer in force (decision): Use the old API." in prompt_text(context)
    context.compact("In short.")
    assert context.pins == [] and b"old API" not in context.log[-1].body
    with pytest.raises(UsageError, match="pins nothing, or is withdrawn"):
        context.unpin(pinned)


def test_the_model_pins_by_a_tool_that_is_opt_in(claude: Desk) -> None:
    assert "pin" not in [one.name for one in memory().tools()]
    context = claude.context("Go.", memory=memory(has_pin_tool=True), compact=Compaction(at_tokens=50_000))
    claude.ask(
        context,
        asks(
            ("pin", {"text": "Budget: 9,113 euros.", "kind": "constraint"}),
            ("pin", {"text": "x" * 3_000}),
            ("pin", {"text": "The door code is 5150."}),
        ),
    )
    for one in context.calls:
        try:
            context.result(one, one.run())
        except ToolRefusal as refused:
            context.result(one, refused)
    assert [(pin.kind, pin.text) for pin in context.pins] == [
        ("constraint", "Budget: 9,113 euros."),
        ("fact", "The door code is 5150."),
    ]
    claude.ask(context, says("Noted."))
    assert {item.status for item in check_claims(context).of("constraint")} == {"verbatim"}
    context.compact("In short.")
    report = context.survival()
    assert [item.status for item in (*report.of("constraint"), *report.of("fact"))] == ["verbatim", "verbatim"]
    goes_on(claude, context)


def test_a_pin_tool_of_the_user_s_own_pins_nothing() -> None:
    @tool
    def pin(text: str) -> str:
        """Put a needle on the map."""
        return "There."

    context = Context(model(), tools=[pin], memory=memory(has_pin_tool=True))
    context.user("Go.")
    call(context, "pin", text="Here.")
    assert context.pins == []


def test_a_pinned_result_stays_where_results_become_references() -> None:
    context = Context(model(), tools=[page], memory=memory(offload=Offload(50_000, 100)))
    context.user("Go.")
    entries = [call(context, "page", number=number) for number in (1, 2, 3)]
    context.pin(entries[1], "fact")
    assert context.compact_results(before=entries[2]) is not None
    prompt = prompt_text(context)
    assert PLANTED[1] not in prompt and PLANTED[2] in prompt
    assert check_claims(context).of("fact")[0].status == "verbatim"


# The report
# ----------------------------------------------------------------------------------------------------------------------


def test_the_report_names_each_item_and_is_json() -> None:
    context = Context(model(), tools=[page], memory=memory(), compact=Compaction(at_tokens=50_000))
    context.user("Read page 1.")
    context.pin("Answer in French.")
    call(context, "page", number=1)
    call(context, "todo", action="add", items=["read page 2"])
    reply(context, ("call", "open", "page", {"number": 2}))
    report = context.survival()
    assert [item.kind for item in report.items] == ["task", "constraint", "plan", "call", "reference"]
    assert [item.status for item in report.items] == [
        *["verbatim"] * 2,
        "restorable_by_model",
        "verbatim",
        "restorable_by_model",
    ]
    text, told = str(report), report.to_json()
    assert (
        "constraint  verbatim" in text
        and "page (open)" in text
        and text.endswith("5 items: 3 verbatim, 2 restorable by the model")
    )
    assert json.loads(json.dumps(told)) == told and told["counts"] == {"verbatim": 3, "restorable_by_model": 2}
    assert report.lost == () and report.unreadable == ()


def test_a_reference_whose_content_is_gone_is_lost_and_an_erased_one_says_so(tmp_path: Path) -> None:
    store = FileMemory(tmp_path)
    context = Context(
        model(), tools=[page], memory=memory(store), compact=Compaction(at_tokens=50_000, on_lost="raise")
    )
    context.user("Go.")
    for number in (1, 2):
        call(context, "page", number=number)
    first, second = (item.text for item in context.survival().of("reference"))
    digests = {one.id: one.digest for one in context._memory.references}
    store.forget(digests[first])
    for path in tmp_path.rglob(f"*{digests[second][2:]}*"):
        path.unlink()
    report = context.survival()
    assert [(item.status, item.how) for item in report.of("reference")] == [
        ("lost", "erased on purpose"),
        ("lost", "no longer in the files"),
    ]
    context.compact("It was lost before; a compaction takes nothing more away.")


def test_a_long_task_without_a_memory_is_named_before_anything_is_compacted() -> None:
    context = Context(model(), compact=Compaction(at_tokens=50_000, on_lost="raise"))
    first = context.user("Find it. " + "detail " * 3_000)
    reply(context, ("text", "Looking."))
    before = context.request
    with pytest.raises(ItemsLost, match=r"cannot read 1 item: task 'Find it\..*Nothing was compacted: pin what must"):
        context.compact("In short.")
    assert context.log[-1].kind == "assistant" and before().epoch == 0
    context.pin(first, "task")
    context.compact("In short.")
    assert context.survival().of("task")[0].status == "verbatim"


def test_a_warning_does_not_keep_it_from_compacting() -> None:
    context = Context(model(), compact=Compaction(at_tokens=50_000))
    context.user("Find it. " + "detail " * 3_000)
    reply(context, ("text", "Looking."))
    with pytest.warns(UserWarning, match="goes on without them"):
        context.compact("In short.")
    assert context.log[-1].kind == "epoch"


def test_a_phase_that_denies_reading_makes_references_the_program_s() -> None:
    phases = Phases(
        {"read": Phase(allow=["page"]), "write": Phase(allow=["page"], deny=["read_reference"], by_hand=True)},
        start="read",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = Context(model(), tools=[page], memory=memory(), phases=phases)
    context.user("Go.")
    call(context, "page", number=1)
    assert context.survival().of("reference")[0].status == "restorable_by_model"
    context.enter("write")
    [item] = context.survival().of("reference")
    assert (item.status, item.how) == ("restorable_by_program", "the model may not call read_reference now")


def test_a_search_makes_restorable_what_nothing_else_leads_to() -> None:
    for index, status in ((None, "restorable_by_program"), (Index(), "restorable_by_model")):
        context = Context(model(), tools=[page], memory=memory(offload=None, todo=None, index=index))
        context.user("The task: " + "find the kestrel of the north tower. " * 200)
        reply(context, ("text", "Looking."))
        context.compact("In short.")
        context.user("Go on.")
        assert check_claims(context).of("task")[0].status == status


# Compactions of every kind
# ----------------------------------------------------------------------------------------------------------------------

COMPACTION_BLOCK = {"type": "compaction", "content": "They read.", "signature": "c2ln", "encrypted_content": "ZW5j"}
COMPACTION_ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "ZW5j"}


@pytest.mark.parametrize("has_memory", [False, True])
@pytest.mark.parametrize("name", ["anthropic", "responses"])
def test_a_provider_s_own_compaction_is_followed_by_the_task_and_the_pins(name: str, has_memory: bool) -> None:
    betas = ["compact-2026-09-04"]
    provider: Any = (
        AnthropicMessages("claude-opus-5", max_tokens=64, betas=betas)
        if name == "anthropic"
        else OpenAIResponses("gpt-6.1-sol")
    )
    policy = Compaction(at_tokens=50_000, on_lost="raise")
    context = Context(provider, tools=[page], memory=memory() if has_memory else None, compact=policy)
    context.user("Find the secret of page 1.")
    context.pin("Answer in French.")
    call(context, "page", number=1)
    reply(context, ("text", "I settled on the kestrel."))
    request = context.request()
    if name == "anthropic":
        body = answer(request.wire, "c", [], Usage(10, 0, 0, 0, 5), "compaction")
        context.receive({**body, "content": [COMPACTION_BLOCK]}, request)
    else:
        usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
        body = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": [COMPACTION_ITEM]}
        context.receive({**body, "usage": usage}, request)
    assert context.log[-1].kind == "epoch" and context.survival().unreadable == ()
    context.user("And now?")
    report = check_claims(context)
    assert [item.status for item in (*report.of("task"), *report.of("constraint"))] == ["verbatim", "verbatim"]
    assert prompt_text(context).count("Answer in French.") == 1
    again = Context(provider, log=context.log, memory=context.memory, compact=policy)
    assert again.request().body == context.request().body and len(again.log) == len(context.log)


def test_openai_s_compaction_that_keeps_the_user_s_words_is_not_followed_by_them_again() -> None:
    context = Context(OpenAIResponses("gpt-6.1-sol"), compact=Compaction(at_tokens=50_000))
    context.user("Find it.")
    reply(context, ("text", "Looking."))
    content = [{"type": "input_text", "text": "Find it."}]
    said = {"type": "message", "id": "m", "role": "user", "status": "completed", "content": content}
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    body = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": [said, COMPACTION_ITEM]}
    context.receive({**body, "usage": usage}, context.request())
    context.user("And?")
    assert prompt_text(context).count("Find it.") == 1
    assert check_claims(context).of("task")[0].status == "verbatim"


def test_results_that_claude_s_edits_clear_are_not_called_verbatim() -> None:
    edits = {
        "edits": [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "tool_uses", "value": 1},
                "keep": {"type": "tool_uses", "value": 1},
            }
        ]
    }
    context = Context(model(), tools=[page], memory=memory())
    context.user("Go.")
    entries = [call(context, "page", number=number) for number in (1, 2, 3)]
    context.pin(entries[0], "fact")
    assert [item.status for item in context.survival().items[1:]] == ["verbatim", *["restorable_by_model"] * 3]
    report = context.survival(context_management=edits)
    assert [item.status for item in report.items[1:]] == [
        "restorable_by_program",
        "restorable_by_program",
        "restorable_by_program",
        "restorable_by_model",
    ]


# Any of it, in any order
# ----------------------------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40).filter(
    lambda text: text.strip()
)
STEPS = st.one_of(
    st.tuples(st.just("pin"), WORDS, st.sampled_from(["task", "constraint", "decision", "fact"])),
    st.tuples(st.just("tool pin"), WORDS, st.sampled_from(["constraint", "fact"])),
    st.tuples(st.just("pin entry"), st.integers(0, 50), st.just("decision")),
    st.tuples(st.just("unpin"), st.integers(0, 50), st.just("")),
    st.tuples(st.just("page"), st.integers(1, 199), st.just("")),
    st.tuples(st.just("say"), WORDS, st.just("")),
    st.tuples(st.just("plan"), WORDS, st.just("")),
    st.tuples(st.just("compact"), st.integers(0, 3), st.just("")),
    st.tuples(st.just("compact results"), st.integers(0, 3), st.just("")),
    st.tuples(st.just("native"), st.just(0), st.just("")),
    st.tuples(st.just("resume"), st.just(0), st.just("")),
)


@pytest.mark.filterwarnings("ignore:compact_results opens an epoch")
@pytest.mark.parametrize("name", ["anthropic", "responses"])
@settings(max_examples=n_examples(6, 200), deadline=None)
@given(steps=st.lists(STEPS, max_size=14), has_index=st.booleans())
def test_the_claims_hold_after_any_steps(name: str, steps: list[Any], has_index: bool) -> None:
    policy = Compaction(at_tokens=50_000, on_lost="raise")
    store = memory(has_pin_tool=True, index=Index() if has_index else None)
    options: dict[str, Any] = {"memory": store, "compact": policy}
    context = Context(PROVIDERS[name](), system="Careful.", tools=[page], **options)
    context.user("Do what is asked.")
    for kind, what, more in steps:
        pins = context.pins
        if kind == "pin":
            context.pin(what, more)
        elif kind == "tool pin":
            call(context, "pin", text=what, kind=more)
        elif kind == "pin entry":
            entry = context.log[what % len(context.log)]
            if entry.kind in ("user", "result"):
                context.pin(entry, more)
        elif kind == "unpin" and pins:
            context.unpin(context.log[pins[what % len(pins)].entry])
        elif kind == "page":
            call(context, "page", number=what)
        elif kind == "say":
            reply(context, ("text", what))
            context.user(what + " indeed")
        elif kind == "plan":
            call(context, "todo", action="add", items=[what])
        elif kind == "compact":
            users = [entry for entry in context.log if entry.kind == "user"]
            context.compact("In short.", keep_from=users[-1] if what == 1 else None)
            context.user("Go on.")
        elif kind == "compact results":
            context.compact_results(before=len(context.log) - 1, above_tokens=100)
        elif kind == "native" and name == "responses":
            reply(context, ("text", "ok"))
            usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
            body = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": [COMPACTION_ITEM]}
            context.receive({**body, "usage": usage}, context.request())
            context.user("Go on.")
        elif kind == "resume":
            before, report = context.request().body, context.survival()
            context = Context(PROVIDERS[name](), log=context.log, tools=context.toolbox, system="Careful.", **options)
            assert context.request().body == before and context.survival() == report
        report = check_claims(context)
        assert report.unreadable == ()
        kinds = ("task", "constraint", "decision", "fact")
        assert {item.status for one in kinds for item in report.of(one)} == {"verbatim"}  # type: ignore[arg-type]
