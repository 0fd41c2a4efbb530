"""What `serve --cache vllm | sglang | llamacpp` refuses of a mask is what the engines refuse.

Every lowering of ours is taken.
"""

from __future__ import annotations

from typing import Any

import pytest

from contextkit.canonical import canonical, parse
from contextkit.engines.registry import engine
from contextkit.server.answer import answer
from contextkit.server.endpoints.table import CHAT, RESPONSES
from contextkit.server.state import Clock, State
from tests.conformance.engine_requests import ASKED, CASES, conversing, lowered
from tests.scale import n_examples

ENGINES = ("vllm", "sglang", "llamacpp")
FLAT = {
    "model": "m",
    "input": "Go.",
    "tools": [{"type": "function", "name": "notes", "parameters": {}, "strict": False}],
}
NAMED = {"type": "function", "name": "other"}
FLAT_CASES: list[tuple[Any, dict[str, bool]]] = [
    ("required", {"vllm": True, "sglang": True, "llamacpp": True}),
    ("any", {"vllm": False, "sglang": False, "llamacpp": False}),
    ({"type": "function", "name": "notes"}, {"vllm": True, "sglang": True, "llamacpp": True}),
    (NAMED, {"vllm": False, "sglang": False, "llamacpp": True}),
    ({"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}, {"vllm": True, "sglang": True, "llamacpp": True}),
    ({"type": "allowed_tools"}, {"vllm": False, "sglang": True, "llamacpp": True}),
]
"""`tool_choice` on Responses → whether each engine takes it."""


def told(name: str, wire: Any, body: Any) -> tuple[int, str]:
    state = State(Clock(0.0, is_frozen=True), None, engine(name))
    outcome = answer(state, wire, {}, canonical({key: value for key, value in body.items() if value is not None}))
    return outcome.status, str(parse(outcome.chunks[0]).get("error"))


@pytest.mark.parametrize("name", ENGINES)
def test_every_lowering_is_taken(name: str) -> None:
    """By default every third of them, for each engine others."""
    sent = [*lowered(name), *conversing(name)][ENGINES.index(name) :: n_examples(3, 1)]
    refused = {case: said for case, body in sent if (said := told(name, CHAT, body))[0] != 200}
    assert not refused


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_chat_takes_and_refuses_what_the_engine_does(name: str, fields: Any, expected: Any) -> None:
    status, said = told(name, CHAT, {**ASKED, **fields})
    assert status == (200 if expected[name] else 400), said


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("choice", "expected"), FLAT_CASES)
def test_responses_too(name: str, choice: Any, expected: Any) -> None:
    status, said = told(name, RESPONSES, {**FLAT, "tool_choice": choice})
    assert status == (200 if expected[name] else 400), said


@pytest.mark.parametrize(
    ("name", "choice", "keeps"),
    [
        ("vllm", "none", True),
        ("llamacpp", "none", True),
        ("sglang", "required", True),
        ("sglang", "none", False),
        ("sglang", {"type": "function", "function": {"name": "notes"}}, False),
    ],
)
def test_sglang_takes_tools_out_of_the_prompt_which_is_why_it_is_sent_no_such_choice(
    name: str, choice: Any, keeps: bool
) -> None:
    state = State(Clock(0.0, is_frozen=True), None, engine(name))
    asked = {**ASKED, "messages": [{"role": "system", "content": "Be terse. " * 40}, *ASKED["messages"]]}
    for fields in ({}, {"tool_choice": choice}):
        outcome = answer(state, CHAT, {}, canonical({**asked, **fields}))
    counted = parse(outcome.chunks[0])["usage"]
    assert (counted["prompt_tokens_details"]["cached_tokens"] > 0.8 * counted["prompt_tokens"]) == keeps
