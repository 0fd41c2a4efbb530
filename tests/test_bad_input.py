"""Values nobody should pass: each is refused with one of our errors, and what was there before goes on working."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

import contextkit
from contextkit import (
    AgentLimits,
    AnthropicMessages,
    Budget,
    CacheKey,
    Compaction,
    Context,
    ContextKitError,
    FileMemory,
    Grammar,
    Ledger,
    Log,
    OpenAIChat,
    OpenAICompatible,
    OpenAIResponses,
    Phase,
    Phases,
    Todo,
    Tool,
    Toolbox,
    Variation,
    register_models,
    register_price,
    simulate,
    tool,
    watch,
)
from contextkit.errors import InvalidContent, StorageError, UnknownModel, UsageError
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.log.entry import Change
from contextkit.memory import Memory, Offload, Recitation


def nested(depth: int) -> Any:
    value: Any = {"type": "x"}
    for _ in range(depth):
        value = {"type": "x", "a": [value]}
    return value


def circle() -> Any:
    value: dict[str, Any] = {"type": "x"}
    value["a"] = value
    return value


class Odd:
    """Something nobody expects."""


NO_TEXT: list[Any] = [
    None,
    5,
    1.5,
    float("nan"),
    True,
    b"bytes",
    {1, 2},
    Odd(),
    Odd,
    lambda: 1,
    [],
    {},
    (),
    "",
    " \n",
    "\ud800",
]
"""What is not text with a visible character."""
NO_BASE64 = ["cat.png", "aGk", "aGk=aGk=", "=", "\n", "data:image/png;base64,aGk=", "a-_=", "äöüß", "aGk= aGk="]
"""What is not what `base64.b64encode` gives."""
NO_URL = ["cat.png", "/tmp/cat.png", "C:\\cat.png", "not a url", "https://", "https://a b", "//example.com/cat.png"]
"""What nobody can fetch."""
NO_PART: list[Any] = [
    [None],
    [5],
    [b"x"],
    [[]],
    [["x"]],
    [{}],
    [{"type": "text"}],
    [{"type": "text", "text": None}],
    [{"type": "text", "text": ""}],
    [{"type": "text", "text": {"type": "text", "text": "x"}}],
    {"type": ["text"], "text": "x"},
    {"type": "text", "text": "x", 5: 6},
    [{"type": "text", "text": "\ud800"}],
    {"type": "image", "url": None},
    {"type": "image", "media_type": "image/png", "data": b"png"},
    {"type": "image", "media_type": 5, "data": "x"},
    {"type": "document", "url": ""},
    {"type": "native", "wire": 5, "block": {"type": "x"}},
    {"type": "native", "wire": "anthropic_messages", "block": {}},
    {"type": "native", "wire": "anthropic_messages", "block": "x"},
    {"type": "native", "wire": "anthropic_messages", "block": {"type": "x", "n": float("nan")}},
    {"type": "native", "wire": "openai_chat", "block": nested(600)},
    {"type": "native", "wire": "openai_responses", "block": nested(3000)},
    *(
        {"type": "native", "wire": wire, "block": nested(250)}
        for wire in ("anthropic_messages", "openai_chat", "openai_responses")
    ),
    {"type": "native", "wire": "openai_chat", "block": circle()},
    (character for character in "abc"),
    {"a", "b"},
    "ab\udfff",
    *({"type": "image", "media_type": "image/png", "data": data} for data in NO_BASE64),
    *({"type": kind, "url": url} for kind in ("image", "document") for url in NO_URL),
]
"""What is no content."""
NO_TOOLS: list[Any] = [
    5,
    "search",
    [None],
    [5],
    [{}],
    [{"name": ""}],
    [{"name": "a b"}],
    [{"name": 5}],
    [{"name": "a", "parameters": 5}],
    {"name": "a"},
    [{"name": "a", "description": 5}],
    [{"name": "a"}, {"name": "a"}],
    [Odd()],
    [{"name": "a", "parameters": {"type": "object", "x": {1}}}],
    [{"type": "function", "function": 5}],
    [{"native": 5}],
    [{"native": {"wire": 5, "block": {}}}],
    [float("nan")],
    b"x",
]
PROVIDERS: dict[str, Callable[[], Any]] = {
    "anthropic": lambda: AnthropicMessages("claude-sonnet-5-5", max_tokens=9),
    "chat": lambda: OpenAIChat("gpt-6.1-sol"),
    "responses": lambda: OpenAIResponses("gpt-6.1-sol"),
}


@pytest.fixture(params=PROVIDERS)
def context(request: pytest.FixtureRequest) -> Iterator[Context]:
    """A conversation in which something was said; afterwards it still makes the same request."""
    made = Context(PROVIDERS[request.param](), system="Be careful.")
    made.user("hello")
    body, n = made.request().body, len(made.log)
    yield made
    assert made.request().body == body and len(made.log) == n and len(made.ledger) == 0


def refused(act: Callable[..., Any], *values: Any, **named: Any) -> None:
    text = ""
    try:
        act(*values, **named)
    except ContextKitError as error:
        text = str(error)
    assert text, f"{act} took {values!r:.200} and {named!r:.200}"


# What is said
# -----------------------------------------------------------------------------------------------------------


def test_nothing_a_provider_would_not_take_is_kept(context: Context) -> None:
    for value in [*NO_TEXT, *NO_PART]:
        refused(context.user, value)
        refused(context.resystem, value)
        refused(context.compact, value)
        if value is not None:
            refused(Context, context.provider, system=value)


def test_media_that_is_none_is_told_with_its_place_and_what_to_give() -> None:
    context = Context(PROVIDERS["anthropic"]())
    with pytest.raises(
        InvalidContent, match=r"^content\[1\]\.data is no base64: give base64\.b64encode\(raw\)\.decode\(\), without"
    ):
        context.user(["look", {"type": "image", "media_type": "image/png", "data": "data:image/png;base64,aGk="}])
    with pytest.raises(
        InvalidContent, match=r"^content\[0\]\.url is no URL, such as https://example\.com/cat\.png: of a file give"
    ):
        context.user({"type": "image", "url": "cat.png"})
    for kind in ("image", "document"):
        context.user(
            [
                {"type": kind, "media_type": "image/png", "data": data}
                for data in ("aGk=", "aGkh", "aGkh\naGk=\n", "A" * 4_000)
            ]
        )
        context.user(
            [
                {"type": kind, "url": url}
                for url in ("HTTPS://a.b/c?d=e#f", "gs://b/a.png", "s3://b/a.png", "data:image/png;,")
            ]
        )
    context.user({"type": "document", "media_type": "text/plain", "data": "plain words"})


def test_a_provider_is_an_adapter(context: Context) -> None:
    provider = context.provider
    for value in [None, 5, "anthropic", object()]:
        refused(setattr, context, "provider", value)
        refused(context.switch, value)
        assert context.provider is provider


def test_a_notice_is_text(context: Context) -> None:
    for value in NO_TEXT:
        refused(context.notice, value)


def test_tools_are_tools(context: Context) -> None:
    for value in NO_TOOLS:
        refused(context.retool, value)
        refused(Toolbox, value)
        refused(Toolbox.sorted, value)
        refused(Context, context.provider, tools=value)
        refused(Context.from_messages, context.provider, {"messages": [], "input": []}, tools=value)
        if isinstance(value, list):
            refused(tool, value[0]) if value[0] is not None else None
            refused(Tool.raw, value[-1]) if len(value) == 1 else None


def test_a_provider_is_a_provider(tmp_path: Path) -> None:
    for value in [None, 5, "x", [], object()]:
        refused(Context, value)
        refused(Context.open, tmp_path / "run", value)
        refused(Context.from_messages, value, {"messages": []})
        assert not (tmp_path / "run").exists()


def test_a_model_is_named_by_a_string() -> None:
    for value in [None, 5, [], {}, b"x", {1}, float("nan")]:
        for make in (AnthropicMessages, OpenAIChat, OpenAIResponses):
            with pytest.raises(UnknownModel):
                make(value, **({"max_tokens": 9} if make is AnthropicMessages else {}))


def test_a_lifetime_is_one_of_those_there_are() -> None:
    for value in [5, "", "2h", [], {}, b"5m", {"5m"}, float("nan")]:
        refused(AnthropicMessages, "claude-sonnet-5-5", max_tokens=9, ttl=value)
        refused(OpenAIChat, "gpt-6.1-sol", ttl=value)
        refused(OpenAIResponses, "gpt-6.1-sol", ttl=value)
        refused(OpenAIChat, "gpt-6.1-sol", system_role=value)
        if value:
            refused(AnthropicMessages, "claude-sonnet-5-5", max_tokens=9, head_ttl=value)


def test_a_host_and_the_name_of_its_model_are_names() -> None:
    for value in [None, 5, "", [], {}, b"x", {1}, float("nan")]:
        refused(OpenAICompatible, "any-model", host=value)
        refused(OpenAICompatible, value, host="vllm")
        refused(OpenAICompatible, "any-model", host="deepseek", salt="a")


def test_cache_options_are_what_they_are() -> None:
    def asked(make: Any, value: Any) -> None:
        made = Context(make("gpt-6.1-sol", prompt_cache_options=value))
        made.user("hello")
        made.request()

    for value in [5, "x", {"mode": "x"}, {"mode": []}, {"ttl": []}]:
        for make in (OpenAIChat, OpenAIResponses):
            refused(asked, make, value)


# What is asked
# ----------------------------------------------------------------------------------------------------------


def test_what_is_no_reply_no_stream_no_client(context: Context) -> None:
    for value in [None, 5, "x", object(), [], {}, Odd]:
        refused(context.receive, value)
        refused(context.request().send, value)
        refused(context.request().stream, value)
        if value not in ("x", [], {}):
            refused(context.stream, value)
        if value is not None:
            for act in (context.receive, context.stream, context.failed):
                refused(act, {}, value)
        refused(context.result, value, "x")


def test_a_fan_out_is_of_tasks_or_a_number(context: Context) -> None:
    for value in [None, 0, -1, True, 1.5, "abc", b"abc", "", [], {}, {"a": 1}, [""], object()]:
        refused(context.fan_out, value)


def test_a_clock_is_asked_for_the_time(tmp_path: Path) -> None:
    for value in [3, "noon", 1.5, [], object()]:
        refused(Log, clock=value)
        refused(Context, PROVIDERS["anthropic"](), clock=value)
        refused(Context, PROVIDERS["anthropic"](), log=Log(), clock=value)
        refused(Log.open, tmp_path / "log.jsonl", value)
        refused(Context.open, tmp_path / "run", PROVIDERS["anthropic"](), clock=value)
        assert list(tmp_path.iterdir()) == []


def test_what_is_no_entry(context: Context) -> None:
    for value in ["x", 1.5, object(), [], {}, 99, -99, b"x"]:
        refused(context.fork, value)
        refused(context.compact, "a summary", value)
        refused(context.log.fork, value)


# What is stored
# ---------------------------------------------------------------------------------------------------------


def opened(folder: Any) -> Context:
    return Context.open(folder, PROVIDERS["anthropic"](), system="Be careful.")


def test_a_folder_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in [None, 5, "", b"x", [], {}, 1.5, "a\0b", Odd()]:
        monkeypatch.chdir(tmp_path)
        refused(opened, value)
        refused(Log.open, value)
        refused(Ledger.read, value)
        if value is not None:  # a ledger and a branch without a path are in memory
            refused(Ledger.open, value)
            refused(Context(PROVIDERS["anthropic"]()).fork, folder=value)
        assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.write_text("mine")
    for act in (opened, lambda folder: opened(folder / "deeper"), Context(PROVIDERS["anthropic"]()).fork):
        with pytest.raises(StorageError):
            act(place) if act is opened else act(folder=place)  # type: ignore[call-arg]
    assert place.read_text() == "mine"


def test_folders_where_the_files_should_be(tmp_path: Path) -> None:
    for name in ("log.jsonl", "ledger.jsonl"):
        (tmp_path / name[:3] / name).mkdir(parents=True)
        with pytest.raises(StorageError):
            opened(tmp_path / name[:3])
        with pytest.raises(StorageError):
            (Log.open if name == "log.jsonl" else Ledger.open)(tmp_path / name[:3] / name)
        (tmp_path / name[:3] / name).rmdir()
        opened(tmp_path / name[:3]).close()
    with pytest.raises(StorageError):
        Ledger.read(tmp_path / "nowhere.jsonl")


@pytest.mark.skipif(
    sys.platform == "win32" or getattr(os, "geteuid", lambda: 0)() == 0, reason="everybody may write everywhere here"
)
def test_a_folder_nobody_may_write_to(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o500)
    with pytest.raises(StorageError):
        opened(folder)
    folder.chmod(0o700)
    opened(folder).close()


@pytest.mark.parametrize(
    "left", [None, b"", b'{"sequence":0,"ki'], ids=["deleted", "emptied", "torn in its first line"]
)
@pytest.mark.filterwarnings("ignore:.*ended in an unfinished line")
def test_a_log_that_is_gone_beside_its_ledger_is_told_and_not_begun_anew(left: bytes | None, tmp_path: Path) -> None:
    with opened(tmp_path) as context:
        context.user("hello")
        context.failed("overloaded", context.request())
    log, ledger = tmp_path / "log.jsonl", tmp_path / "ledger.jsonl"
    said, billed = log.read_bytes(), ledger.read_bytes()
    log.unlink()
    if left is not None:
        log.write_bytes(left)
    told = r"log\.jsonl is missing or empty, but ledger\.jsonl beside it records 1 call: put the log back"
    if left is not None:
        told = r"log\.jsonl: its last 2 entries are missing"
    for act in (
        opened,
        opened,
        lambda folder: Context.from_messages(PROVIDERS["anthropic"](), {"messages": []}, folder=folder),
    ):
        with pytest.raises(StorageError, match=told):
            act(tmp_path)
        assert ledger.read_bytes() == billed and log.read_bytes() == (left or b"")
    log.write_bytes(said)
    opened(tmp_path).close()
    log.unlink()
    ledger.rename(tmp_path / "earlier.jsonl")
    with opened(tmp_path) as context:
        assert len(context.log) == 1


def test_a_recording_of_other_calls_may_stand_where_a_conversation_begins(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.jsonl") as ledger:  # as `watch(record=…)` writes it
        ledger.append(
            ModelCall(
                "a", "s", "main", 0.0, None, None, "anthropic", "claude-sonnet-5-5", Bodies(b"{}"), None, None, None
            )
        )
    with opened(tmp_path) as context:
        assert len(context.log) == 1 and len(context.ledger) == 1


@pytest.mark.parametrize(
    "rows",
    [
        [("user", {"content": []})],
        [("opened", {})],
        [("opened", {"system": [], "tools": []}), ("assistant", {})],
        [("opened", {"system": [], "tools": []}), ("assistant", 5)],
        [("opened", {"system": [], "tools": []}), ("result", {})],
        [("opened", {"system": [], "tools": []}), ("epoch", {})],
    ],
    ids=range(6),
)
def test_a_log_that_is_no_conversation(rows: list[Any]) -> None:
    log = Log(clock=lambda: 0.0)
    for kind, body in rows:
        log.append(kind, body)
    refused(Context, PROVIDERS["anthropic"](), log=log)
    refused(Context, PROVIDERS["chat"](), log=log)


def test_what_a_ledger_does_not_take(tmp_path: Path) -> None:
    for ledger in (Ledger(), Ledger.open(tmp_path / "ledger.jsonl")):
        for value in (None, 5, "x", {}, Odd()):
            refused(ledger.append, value)
        assert len(ledger) == 0
        ledger.close()
    for value in (None, 5, "x", [], {}):
        refused(simulate, value)
        if value is not None:
            refused(Context, PROVIDERS["anthropic"](), ledger=value)  # an empty one, too, is not taken for none
            refused(Context, PROVIDERS["anthropic"](), log=value)


def test_what_is_watched_is_a_client(tmp_path: Path) -> None:
    with anthropic.Anthropic(api_key="any") as client:
        for value in [None, 5, "client", b"x", [], {}, object(), Odd, anthropic.Anthropic, float("nan")]:
            refused(watch, value)
            if not callable(value):
                refused(watch, client, on_break=value)
            if value not in (None, "client"):
                refused(watch, client, record=value)
        refused(watch, client, record=tmp_path)


def test_phases_are_a_table_of_phases(context: Context) -> None:
    for value in [None, 5, "x", b"x", [], {}, {"a": 5}, {5: Phase()}, {"a b": Phase()}, object(), Odd]:
        refused(Phases, value, "a")
        refused(Phases, {"a": Phase()}, value)
        refused(context.enter, value)
        if value is not None:
            refused(Context, context.provider, phases=value)
        with_phases = Context(context.provider, tools=[{"name": "x"}], phases=Phases({"a": Phase()}, "a"))
        refused(with_phases.enter, value)
        assert with_phases.phase == "a" and len(with_phases.log) == 2


def test_betas_are_names() -> None:
    for value in [None, 5, "beta", b"beta", [5], [""], [None], object()]:
        refused(AnthropicMessages, "claude-sonnet-5-5", max_tokens=9, betas=value)


ODD: list[Any] = [5.5, True, "x", b"x", [], {}, [5], float("nan"), object(), Odd, lambda: 1]


def test_a_memory_is_files_and_rules(context: Context, tmp_path: Path) -> None:
    for value in [*ODD, 5]:
        files = FileMemory(tmp_path)
        refused(Context, context.provider, memory=value)
        refused(Context, context.provider, variation=value)
        refused(Memory, value)
        for part in ("offload", "recitation"):
            refused(Memory, files, **{part: value})
        if not isinstance(value, str):
            refused(Memory, files, todo=value)
            refused(FileMemory, value)
            refused(Todo, files, value)
            refused(Todo(files).add, value)
            refused(context.restore, value)
            refused(context.compact_results, value)
        refused(Todo, value)
        refused(Todo(files).mark, [1], value)
        refused(context.restore, "ab" * 8)
        if type(value) is not int:
            for rule in (Offload, Recitation, Variation):
                refused(rule, value)
            refused(Todo(files).mark, value, "done")
            refused(Todo(files).reorder, value)


def test_keys_and_grammars_are_of_numbers_and_texts() -> None:
    for value in [None, 5, 1.5, True, b"x", "", " ", [], {}, object()]:
        refused(Grammar.lark, value)
        refused(Grammar.regex, value)
        refused(Grammar, value, "start: /a/")
        refused(lambda form: tool(format=form)(said) if form is not None else Grammar("text", "a"), value)
        if type(value) is not int:
            refused(CacheKey, requests_per_minute=value)
        refused(CacheKey, requests_per_minute=0)


def test_what_is_no_budget() -> None:
    for value in [-1, float("nan"), float("inf"), "2", True, [], {}]:
        refused(Budget, usd=value)
        refused(Budget, tokens=value)
        refused(Budget, usd=1, per=value)
        refused(Context, PROVIDERS["anthropic"](), budget=value)
        refused(watch, anthropic.Anthropic(api_key="any"), budget=value)


def test_what_is_no_limit_of_agents_and_no_compaction(context: Context) -> None:
    for value in [-1, 1.5, float("nan"), "2", True, [], {}, object()]:
        for name in ("depth", "count", "running", "wait_seconds"):
            if not (name == "wait_seconds" and value == 1.5):
                refused(AgentLimits, **{name: value})
        for name in ("at_tokens", "keep_tokens", "on_lost"):
            refused(Compaction, **{name: value})
        refused(Context, context.provider, compact=Compaction(model=value))
        refused(Context, context.provider, compact=value)
        refused(Context, context.provider, agents=value)
        refused(context.run, None, max_steps=value)
        refused(context.arun, None, limit=value)
        refused(context.pin, "text", value)
        refused(Memory, FileMemory("memory://limits"), residency=value)
        if not isinstance(value, str):
            refused(context.pin, value)
            refused(context.unpin, value)


def test_what_is_no_price() -> None:
    for value in [-1, float("nan"), float("inf"), "2", None, True, [], {}]:
        refused(register_price, "openai", "made-up", input=value, output=1.0)
        refused(register_price, "openai", "made-up", input=1.0, output=1.0, tiers=[{"above": value, "input": 1.0}])
        refused(register_price, "openai", "made-up", input=1.0, output=1.0, valid_from=str(value))


def test_what_is_no_file_of_models(tmp_path: Path) -> None:
    refused(register_models, tmp_path / "missing.toml")
    refused(register_models, tmp_path)


def said(text: str) -> str:
    """Says it."""
    return text


def in_memory() -> FileMemory:
    return FileMemory("memory://errors")


TOLD: dict[str, tuple[Callable[[], object], str]] = {
    "no pattern": (lambda: Phase(allow=["a*b"]), "allow: 'a*b' is no tool name and no family (browser_*"),
    "deny": (lambda: Phase(deny=[""]), "deny: '' is no tool name and no family"),
    "require nothing": (lambda: Phase(allow=[], require=True), "cannot require a call: name tools in allow"),
    "require": (lambda: Phase(require="yes"), "require is True or False, not str"),  # type: ignore[arg-type]
    "listing": (lambda: Tool.from_mcp("tools", call=print), 'an MCP listing is {"tools": […]}, its object, or a list'),
    "preview": (
        lambda: Offload(100, 51),
        "above_tokens=100, preview_tokens=51: a preview is at most half of what it stands for",
    ),
    "todo": (lambda: Memory(in_memory(), todo=5), "todo is a path, a contextkit.memory.Todo or None, not int"),  # type: ignore[arg-type]
    "todo's path": (
        lambda: Todo(in_memory(), ""),
        "path='': the name of a markdown file in the store, such as todo.md",
    ),
    "no offload": (
        lambda: Context(PROVIDERS["anthropic"](), memory=Memory(in_memory(), offload=None)).compact_results(0),
        "compact_results needs a memory that keeps results: leave offload= of Memory(…) as it is, or give it a rule",
    ),
    "at_tokens": (
        lambda: Compaction(at_tokens=0),
        "Compaction(at_tokens=0): a whole number of tokens, 1 or more, or None",
    ),
    "keep_tokens": (lambda: Compaction(at_tokens=100, keep_tokens=51), "keep_tokens=51): keep at most half"),
    "on_lost": (lambda: Compaction(on_lost="shout"), "Compaction(on_lost='shout'): one of "),  # type: ignore[arg-type]
    "change": (
        lambda: Context(PROVIDERS["anthropic"]()).notice(Change()),
        "Change says nothing: use one of the kinds of change in contextkit.log.entry",
    ),
}
"""What is wrong → the act, and what its error says."""


@pytest.mark.parametrize("name", TOLD)
def test_an_error_names_the_option_and_what_to_give(name: str) -> None:
    act, text = TOLD[name]
    with pytest.raises(ContextKitError) as refusal:
        act()
    assert text in str(refusal.value)


def test_every_public_name_was_tried() -> None:
    tried = {*globals(), "Request"}  # what is imported here is used here
    plain = {"AssumedModelWarning", "ContextKitError", "Entry", "Reference", "Usage"}
    assert set(contextkit.__all__) - tried - plain == set(), (
        "try bad values with the new name, or say that it holds values only"
    )
    assert issubclass(UsageError, ContextKitError)
