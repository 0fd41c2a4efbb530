"""Masks for self-hosted engines: grammars that take exactly the calls allowed, prefills those calls begin with, fields
each engine has."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit import Context, Phase, Phases, Toolbox
from contextkit.canonical import canonical
from contextkit.errors import UsageError
from contextkit.providers.call_formats import (
    FORMATS,
    call_grammar,
    format_named,
    name_ebnf,
    name_regex,
    prefill,
    structural_tag,
)
from contextkit.providers.engine_masks import ENGINES, engine_fields, engine_row
from contextkit.providers.openai_compatible import OpenAICompatible
from contextkit.tools.mask import Mask, Permit
from tests.context.masked import NAMES, TOOLS

BOX = Toolbox(TOOLS)
SOME = st.lists(st.sampled_from([*NAMES, "a", "ab", "a-b", "b_"]), min_size=1, unique=True)
every_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
WRITTEN = {
    "hermes": '<tool_call>\n{"name": "browser_open", "arguments": {"x":"y"}}\n</tool_call>',
    "qwen": '<tool_call>\n{"name": "browser_open", "arguments": {"x":"y"}}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=browser_open>\n<parameter=x>\ny\n</parameter>\n</function>\n</tool_call>",
    "llama3_json": '{"name": "browser_open", "parameters": {"x":"y"}}',
    "mistral": '[TOOL_CALLS]browser_open[ARGS]{"x":"y"}',
    "mistral_json": '[TOOL_CALLS][{"name": "browser_open", "arguments": {"x":"y"}}]',
}
"""Calls as the models write them, typed by hand from their chat templates."""


@pytest.mark.parametrize("name", WRITTEN)
def test_a_call_is_written_as_the_model_writes_it(name: str) -> None:
    assert FORMATS[name].call("browser_open", {"x": "y"}) == WRITTEN[name]
    assert WRITTEN[name].startswith(prefill(FORMATS[name], ["browser_open", "browser_close"]))


@every_format
@given(SOME, st.sampled_from([*NAMES, "a", "ab", "a-b", "b_", "c"]))
def test_the_expression_takes_the_names_allowed_and_no_other(form: Any, names: list[str], called: str) -> None:
    said = form.call(called, {"x": "y"})
    assert bool(re.fullmatch(name_regex(form, names), said)) == (called in names)
    assert (called not in names) or said.startswith(prefill(form, names))


def as_expression(grammar: str) -> str:
    """A grammar of three rules, as a regular expression; read from the notation, apart from the code that writes it."""
    rules = dict(line.split(" ::= ", 1) for line in grammar.splitlines())

    def read(body: str) -> str:
        tokens = re.findall(r'"(?:[^"\\]|\\.)*"|\[\^\\x00\]\*|\||\w+', body)
        return "".join(
            re.escape(json.loads(t))
            if t[0] == '"'
            else "|"
            if t == "|"
            else r"[\s\S]*"
            if t[0] == "["
            else f"(?:{read(rules[t])})"
            for t in tokens
        )

    return read(rules["root"])


@every_format
@given(SOME, st.sampled_from([*NAMES, "a", "ab", "a-b", "b_", "c"]))
def test_the_grammar_says_the_same_as_the_expression(form: Any, names: list[str], called: str) -> None:
    said = form.call(called, {"x": "y"})
    assert bool(re.fullmatch(as_expression(name_ebnf(form, names)), said)) == (called in names)


@every_format
def test_a_structural_tag_has_one_rule_a_tool_behind_one_trigger(form: Any) -> None:
    tools = [BOX["browser_open"], BOX["notes_read"]]
    tag = structural_tag(form, tools, require=True)
    inside = tag["format"]
    assert (tag["type"], inside["type"], inside["at_least_one"]) == ("structural_tag", "triggered_tags", True)
    assert [tag["begin"].startswith(inside["triggers"][0]) for tag in inside["tags"]] == [True, True]
    for tool, rule in zip(tools, inside["tags"], strict=True):
        said = form.call(tool.name, {"x": "y"})
        assert said.startswith(rule["begin"]) and said.endswith(rule["end"])
        assert rule["content"] == {"type": "json_schema", "json_schema": tool.parameters, "style": form.style}


def mask(**fields: Any) -> Mask:
    return Permit(Phases({"a": Phase(**fields)}, "a"), BOX).mask("a")


CASES: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"vllm": "auto", "sglang": "auto", "llamacpp": "auto"}),
    ({"allow": []}, {"vllm": "none", "sglang": "structural_tag", "llamacpp": "none"}),
    ({"require": True}, {"vllm": "required", "sglang": "required", "llamacpp": "required"}),
    ({"allow": ["notes_read"], "require": True}, {"vllm": "named", "sglang": "structural_tag", "llamacpp": "grammar"}),
    (
        {"allow": ["notes_*"], "require": True},
        {"vllm": "structural_tag", "sglang": "structural_tag", "llamacpp": "grammar"},
    ),
    ({"allow": ["notes_*"]}, {"vllm": "structural_tag", "sglang": "structural_tag", "llamacpp": "grammar"}),
]


@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_each_engine_gets_its_cheapest_safe_mechanism(fields: dict[str, Any], expected: dict[str, str]) -> None:
    made = mask(**fields)
    assert {engine: engine_row(engine, made).mechanism for engine in ENGINES} == expected
    for engine in ENGINES:
        sent = engine_fields(engine, made, [BOX[name] for name in made.allowed], FORMATS["qwen"])
        assert set(sent) <= {
            "tool_choice",
            "grammar" if engine == "llamacpp" else "response_format",
        } and "allowed_tools" not in str(sent)  # no engine knows it
        assert engine != "sglang" or sent.get("tool_choice") in (
            None,
            "required",
        )  # others take tools out of the prompt


JSON_FORMATS = [form for form in FORMATS.values() if form.style == "json"]


@pytest.mark.parametrize("form", JSON_FORMATS, ids=lambda form: form.name)
@given(st.data())
def test_a_call_is_read_back_from_its_text_and_no_beginning_of_it_is_another_call(form: Any, data: Any) -> None:
    name, behind = (
        data.draw(st.sampled_from([*NAMES, "a-b", "a.b"])),
        data.draw(st.sampled_from(["", " Well.", "\n[1]"])),
    )
    arguments = data.draw(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers(), max_size=3))
    text = form.call(name, arguments)
    assert form.read(text + behind) == (name, canonical(arguments).decode(), behind)
    cut = form.read(text[: data.draw(st.integers(0, len(text) - 1))])
    assert cut is None or (cut[0] == name and text.startswith(f"{form.begin}{name}{form.middle}{cut[1]}"))


QWEN_QUIET = {"call_format": "qwen", "chat_template_kwargs": {"enable_thinking": False}}


def masked_context(phase: Phase, **options: Any) -> Context:
    provider = OpenAICompatible("some/model", host="llamacpp", **options)
    return Context(provider, tools=TOOLS, phases=Phases({"a": phase}, "a"))


@pytest.mark.parametrize(
    ("options", "phase", "mechanism"),
    [
        ({"call_format": "hermes"}, Phase(["browser_*"], require=True), "grammar"),
        (QWEN_QUIET, Phase(["notes_read"], require=True), "grammar"),
        ({"call_format": "qwen"}, Phase(["notes_read"], require=True), "reminder"),  # it may think first
        ({"call_format": "qwen3_coder"}, Phase(["notes_read"], require=True), "reminder"),  # arguments are no JSON
        ({}, Phase(["notes_read"], require=True), "reminder"),
        ({"call_format": "hermes"}, Phase(["notes_read"]), "grammar"),
        ({"call_format": "hermes", "tool_choice": "required"}, Phase(["notes_read"]), "reminder"),  # the caller's own
        ({"call_format": "hermes"}, Phase(require=True), "required"),
        (
            {"call_format": "hermes", "response_format": {"type": "json_object"}},
            Phase(["notes_read"], require=True),
            "reminder",
        ),
    ],
)
def test_a_grammar_is_sent_where_nothing_else_decides_the_reply(
    options: dict[str, Any], phase: Phase, mechanism: str
) -> None:
    context = masked_context(phase, **options)
    context.user("Go.")
    request = context.request()
    assert request.mask.mechanism == mechanism
    assert ("grammar" in request.mask.fields) == (mechanism == "grammar")
    assert mechanism != "grammar" or (request["tool_choice"], request.mask.enforced_by) == ("none", "provider")


@pytest.mark.parametrize("form", JSON_FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("is_parsed", [False, True], ids=["text", "parsed by the engine"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_calls_are_read_from_the_text_of_a_reply(form: Any, is_parsed: bool, is_streamed: bool) -> None:
    context = masked_context(Phase(["browser_*"], require=True), **{**QWEN_QUIET, "call_format": form.name})
    context.user("Open it.")
    request = context.request()
    written = form.call("browser_open", {"x": "y"})
    called = [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "browser_open", "arguments": '{"x":"y"}'}}
    ]
    said = {"content": None, "tool_calls": called} if is_parsed else {"content": written}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "tool_calls" if is_parsed else "stop"}
    reply: dict[str, Any] = {"id": "chatcmpl-1", "model": "some/model", "created": 1, "object": "chat.completion"}
    if is_streamed:
        chunk = {**reply, "object": "chat.completion.chunk"}
        list(context.stream([{**chunk, "choices": [{**choice, "delta": {"role": "assistant", **said}}]}], request))
    else:
        context.receive({**reply, "choices": [{**choice, "message": {"role": "assistant", **said}}]}, request)
    (call,) = context.calls
    assert (call.name, call.arguments) == ("browser_open", {"x": "y"})
    context.result(call, "done")
    again = context.request()["messages"]
    assert again[:-2] == request["messages"]  # nothing before the tail moved
    kept = again[-2]["tool_calls"][0]["function"]
    assert (
        form.call(
            kept["name"], kept["arguments"] if isinstance(kept["arguments"], dict) else json.loads(kept["arguments"])
        )
        == written
    )


@pytest.mark.parametrize("form", JSON_FORMATS, ids=lambda form: form.name)
def test_words_and_several_calls_are_told_apart(form: Any) -> None:
    context = masked_context(Phase(["browser_*"]), **{**QWEN_QUIET, "call_format": form.name})
    context.user("Open it.")
    request = context.request()
    text = f"Well. {form.call('browser_open', {'x': form.trigger})}\n{form.call('browser_close', {})}"
    context.receive({"id": "1", "choices": [{"message": {"role": "assistant", "content": text}}]}, request)
    assert [(call.name, call.arguments) for call in context.calls] == [
        ("browser_open", {"x": form.trigger}),
        ("browser_close", {}),
    ]
    assert len({call.id for call in context.calls}) == 2
    for call in context.calls:
        context.result(call, "done")
    kept = next(one for one in context.request()["messages"] if one["role"] == "assistant")
    assert kept["content"] == "Well."


@pytest.mark.parametrize("said", ["", '<tool_call>\n{"name": "browser_op'], ids=["nothing", "cut in the name"])
def test_what_is_no_call_is_kept_as_it_came(said: str) -> None:
    context = masked_context(Phase(["browser_*"], require=True), call_format="hermes")
    context.user("Open it.")
    request = context.request()
    message = {"role": "assistant", "content": said}
    context.receive({"id": "1", "choices": [{"message": message, "finish_reason": "length"}]}, request)
    assert not context.calls
    assert [one["content"] for one in context.request()["messages"] if one["role"] == "assistant"] == [said]


def test_a_reply_format_of_the_callers_own_stays_where_no_tool_is_allowed() -> None:
    own = {"type": "json_object"}
    for host in ENGINES:
        provider = OpenAICompatible("some/model", host=host, call_format="hermes", response_format=own)
        context = Context(provider, tools=TOOLS, phases=Phases({"a": Phase([])}, "a"))
        context.user("Go.")
        request = context.request()
        assert request["response_format"] == own and "grammar" not in request.mask.fields


def test_what_there_is_not() -> None:
    for act in (
        lambda: format_named("gpt"),
        lambda: engine_row("tgi", mask()),
    ):
        with pytest.raises(UsageError, match="use one of"):
            act()
    for make in (prefill, name_regex, name_ebnf, partial(call_grammar, require=True)):
        with pytest.raises(UsageError, match="needs a name"):
            make(FORMATS["qwen"], [])
    assert format_named("qwen") is FORMATS["qwen"]
