"""Masks on a real llama.cpp server: replies keep to them, and no cached token moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from contextkit.canonical import parse
from contextkit.providers.call_formats import FORMATS, CallFormat, call_grammar, words_grammar
from contextkit.tools.mask import Mask
from tests.conformance.engine_requests import ASKED, CASES, conversing
from tests.engines.llamacpp_process import LlamaServer
from tests.engines.running_masks import FORM, MASKED, SPECIAL, TEMPLATE, MaskedEngine, broken, malformed
from tests.engines.tiny_gguf import write_gguf
from tests.scale import n_examples

for name in ("xllamacpp", "gguf", "numpy"):
    pytest.importorskip(name, reason="needs a real llama.cpp: pip install xllamacpp gguf numpy")

MECHANISMS = {"none": "none", "any": "required", "one": "grammar", "some_required": "grammar", "some": "grammar"}
"""Phase → how llama.cpp is sent its mask."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaskedEngine]:
    """A server with one slot and no states on the host: what the turn before left is what can be read."""
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_gguf(model, special=SPECIAL, template=TEMPLATE)
    with LlamaServer(model, n_ctx=4096, n_parallel=1, cache_ram_mib=0, cache_idle_slots=False) as server:
        yield MaskedEngine("llamacpp", server.url)


@pytest.mark.parametrize("phase", MASKED)
def test_replies_keep_to_their_mask_and_the_mask_moves_no_cached_token(engine: MaskedEngine, phase: str) -> None:
    n = n_examples(7 if MECHANISMS[phase] == "grammar" else 20, 200)
    first = [*MASKED].index(phase) * n
    outcomes = [engine.trial(phase, number) for number in range(first, first + n)]
    assert {one.mechanism for one in outcomes} == {MECHANISMS[phase]}
    assert [one.violation for one in outcomes if one.violation] == []
    assert sum(one.n_malformed for one in outcomes) == 0
    assert [one.cached_tokens for one in outcomes] == [one.cached_tokens_unmasked for one in outcomes]
    assert all(one.cached_tokens == one.first_turn_tokens for one in outcomes), "the whole turn before is read"
    assert sum(one.is_cut for one in outcomes) < n, "some replies came to their end"
    assert any(one.unmasked_violation for one in outcomes), "the model does otherwise by itself"


JSON_FORMATS = [form for form in FORMATS.values() if form.style == "json"]


@pytest.mark.parametrize("form", JSON_FORMATS, ids=lambda form: form.name)
def test_the_server_takes_the_grammars_of_every_format(engine: MaskedEngine, form: CallFormat) -> None:
    """Their replies are read back: calls of the tools allowed, or words."""
    _, _, request = engine.turns("free", "free", 9_100)
    body = {**parse(request.body), "tool_choice": "none"}
    for seed in range(n_examples(2, 40)):
        for require in (True, False):
            grammar = call_grammar(form, ["browser_open", "browser_close"], require=require)
            replied = engine.answered({**body, "grammar": grammar, "seed": seed})["choices"][0]
            words, calls = form.split(replied["message"]["content"])
            assert {name for name, _ in calls} <= {"browser_open", "browser_close"}
            if replied["finish_reason"] == "stop":
                assert all(isinstance(parse(arguments), dict) for _, arguments in calls) and form.trigger not in words
                assert calls or not require
        said = engine.answered({**body, "grammar": words_grammar(form), "seed": seed})["choices"][0]["message"]
        assert form.trigger not in said["content"]


@pytest.mark.parametrize(("fields", "expected"), CASES, ids=lambda case: json.dumps(case)[:40])
def test_the_server_takes_and_refuses_what_the_table_of_requests_says(
    engine: MaskedEngine, fields: dict[str, Any], expected: dict[str, bool]
) -> None:
    status, said = engine.post({**ASKED, **fields, "max_tokens": 1})
    assert (status == 200) == expected["llamacpp"], said


def test_the_server_takes_every_mask_in_every_format(engine: MaskedEngine) -> None:
    sent = [(name, {**body, "id_slot": 0, "max_tokens": 1}) for name, body in conversing("llamacpp")]
    assert [name for name, body in sent if engine.post(body)[0] != 200] == []


def test_a_call_is_read_from_a_stream(engine: MaskedEngine) -> None:
    names = []
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none") as client:
        for number in range(9_200, 9_206):
            context, _, request = engine.turns("free", "some_required", number)
            for _ in context.stream(request.stream(client), request):
                pass
            names += [call.name for call in context.calls]
    assert names and {*names} <= {"browser_open", "browser_close"}


def test_a_mask_that_takes_tools_out_of_the_prompt_would_be_noticed(engine: MaskedEngine) -> None:
    _, first, second = engine.turns("free", "some", 9_000)
    engine.answered({**parse(first.body), "max_tokens": 1})
    body = parse(second.body)
    answer = engine.answered({**body, "tools": body["tools"][1:], "max_tokens": 1})
    n_first = engine.answered({**parse(first.body), "max_tokens": 1})["usage"]["prompt_tokens"]
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] < n_first / 2


def answer(content: str | None, *calls: tuple[str, str], finish_reason: str = "stop") -> dict[str, Any]:
    made = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    return {"choices": [{"finish_reason": finish_reason, "message": {"content": content, "tool_calls": made}}]}


SOME = Mask("some", ("a", "b"), "auto", False, False)
NEEDED = Mask("some_required", ("a", "b"), "specified", False, False)
NONE = Mask("none", (), "none", False, False)
CALL, OTHER = FORM.call("a", {"x": "<tool_call>"}), FORM.call("c", {})


@pytest.mark.parametrize(
    ("mask", "reply", "expected"),
    [
        (SOME, answer("Well."), None),
        (SOME, answer(f"Well. {CALL}{FORM.call('b', {})}"), None),
        (SOME, answer(None, ("b", "{}")), None),
        (SOME, answer(CALL + OTHER), "writes"),
        (SOME, answer(None, ("c", "{}")), "calls c"),
        (SOME, answer(CALL[:14], finish_reason="length"), None),
        (SOME, answer(CALL[:14]), "writes"),
        (SOME, answer(OTHER[:24], finish_reason="length"), "writes"),
        (NEEDED, answer("Well."), "calls nothing"),
        (NEEDED, answer("Well.", finish_reason="length"), None),
        (NONE, answer("Well."), None),
        (NONE, answer(CALL), "writes"),
        (NONE, answer(None, ("a", "{}")), "calls a"),
    ],
)
def test_what_breaks_a_mask_is_told(mask: Mask, reply: dict[str, Any], expected: str | None) -> None:
    said = broken(reply, mask)
    assert said is None if expected is None else said is not None and said.startswith(expected)


def test_arguments_that_are_no_object_are_counted() -> None:
    assert malformed(answer(None, ("a", "{}"), ("a", ' {"x": 1}'), ("a", "3"), ("a", '"{}"'))) == 2
