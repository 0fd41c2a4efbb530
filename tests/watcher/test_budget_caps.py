"""A gate that lowers output limits: what is sent differs in its limit alone, and bills never exceed the budget."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import Budget
from contextkit.cache.usage import Usage
from contextkit.errors import BudgetExceeded
from contextkit.models import model_named
from contextkit.watcher.budget import Admission, BudgetGate
from tests.scale import n_examples
from tests.server.test_budget_paths import BODIES, WHOLE

CLAUDE, GPT, GEMINI = "claude-sonnet-5-5", "gpt-6.1-sol", "gemini-2.5-pro"
HI = [{"role": "user", "content": "hi"}]
PARTS = [{"role": "user", "parts": [{"text": "hi"}]}]
CONVERSE = [{"role": "user", "content": [{"text": "hi"}]}]

WIRES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "anthropic_messages": ("/v1/messages", {"model": CLAUDE, "messages": HI}, ("max_tokens",)),
    "openai_chat": ("/v1/chat/completions", {"model": GPT, "messages": HI}, ("max_completion_tokens",)),
    "chat_of_a_host": ("/v1/chat/completions", {"model": "qwen3.8-max", "messages": HI}, ("max_tokens",)),
    "openai_responses": ("/v1/responses", {"model": GPT, "input": "hi"}, ("max_output_tokens",)),
    "frame": (
        "/v1/responses",
        {"type": "response.create", "stream_id": "s", "model": GPT, "input": HI},
        ("max_output_tokens",),
    ),
    "openai_completions": ("/v1/completions", {"model": "gpt-3.5-turbo-instruct", "prompt": "hi"}, ("max_tokens",)),
    "gemini": (
        f"/v1beta/models/{GEMINI}:generateContent",
        {"contents": PARTS},
        ("generationConfig", "maxOutputTokens"),
    ),
    "gemini_snake": (
        f"/v1beta/models/{GEMINI}:streamGenerateContent?alt=sse",
        {"contents": PARTS},
        ("generation_config", "max_output_tokens"),
    ),
    "bedrock_converse": (
        "/model/eu.amazon.nova-pro-v1%3A0/converse",
        {"messages": CONVERSE},
        ("inferenceConfig", "maxTokens"),
    ),
    "bedrock_invoke": (
        "/model/eu.anthropic.claude-haiku-4-5-20251001-v1%3A0/invoke",
        {"anthropic_version": "bedrock-2023-05-31", "messages": HI},
        ("max_tokens",),
    ),
    "vertex_raw": (
        "/v1/projects/p/locations/l/publishers/anthropic/models/claude-haiku-4-5@20251001:rawPredict",
        {"anthropic_version": "vertex-2023-10-16", "messages": HI},
        ("max_tokens",),
    ),
}
"""Path, body without a limit, and where its limit stands."""


def with_limit(fields: Mapping[str, Any], place: tuple[str, ...], limit: Any) -> dict[str, Any]:
    outer, *inner = place
    return {"temperature": 1.0, **fields, outer: {"topK": 4, inner[0]: limit} if inner else limit, "last": "é"}


def limit_in(fields: Mapping[str, Any], place: tuple[str, ...]) -> Any:
    value: Any = fields
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def without_limit(fields: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    outer, *inner = place
    kept = {name: value for name, value in fields.items() if name != outer}
    rest = {name: value for name, value in (fields.get(outer) or {}).items() if name != inner[0]} if inner else {}
    return {**kept, outer: rest} if rest else kept


def gate_of(budget: Budget, **more: Any) -> BudgetGate:
    return BudgetGate(budget, "s", **{"caps_output": True, "clock": lambda: 1.8e9, **more})


def admitted(gate: BudgetGate, path: str, body: Any, **more: Any) -> Admission:
    admission = gate.admit("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), **more)
    assert admission is not None
    return admission


def n_common(one: bytes, other: bytes) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def differs_in_its_limit_alone(was: bytes, sent: bytes, place: tuple[str, ...]) -> None:
    before, after = json.loads(was), json.loads(sent)
    assert without_limit(after, place) == without_limit(before, place)
    assert [name for name in after if name in before] == list(before)
    n_same = n_common(was, sent)
    n_last = min(n_common(was[::-1], sent[::-1]), len(was) - n_same, len(sent) - n_same)
    assert re.fullmatch(rb'[\w",:{}]{1,60}', sent[n_same : len(sent) - n_last])


# What is lowered
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_a_limit_is_lowered_to_what_fits_and_nothing_else_changes(wire: str) -> None:
    path, fields, place = WIRES[wire]
    budget = Budget(tokens=20_000)
    for indent in (None, 1, 4):
        body = json.dumps(with_limit(fields, place, 64_000), indent=indent).encode()
        admission = admitted(gate_of(budget), path, body)
        assert admission.cap is not None
        assert admission.cap.field == ".".join(place) and admission.cap.before == 64_000
        assert 9_000 < admission.cap.after < 10_000  # half of what is left, its prompt included
        assert limit_in(json.loads(admission.cap.body), place) == admission.cap.after
        differs_in_its_limit_alone(body, admission.cap.body, place)
        assert (
            str(admission.cap)
            == f"{admission.cap.field} lowered from 64,000 to {admission.cap.after:,}: the budget's worst case"
        )
        assert 9_500 < budget.reserved.tokens <= 10_000
        beside = [admission]
        with pytest.raises(BudgetExceeded, match=r"1,024 of output, the fewest that are of use"):  # noqa: PT012
            while len(beside) < 20:
                beside.append(admitted(gate_of(budget), path, body))
        assert 3 <= len(beside) < 20 and budget.reserved.tokens <= 20_000
        for one in beside:
            one.release()


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_without_a_limit_gets_one_that_its_model_takes(wire: str) -> None:
    path, fields, place = WIRES[wire]
    body = json.dumps({**fields, **({"generation_config": {}} if wire == "gemini_snake" else {})}).encode()
    gate = gate_of(Budget(tokens=60_000))
    if wire == "openai_completions":  # whose hosts generate 16 tokens then
        with pytest.raises(BudgetExceeded, match="the rest of the window"):
            gate_of(Budget(tokens=3_000)).admit("POST", path, body)
        return
    cap = admitted(gate, path, body).cap
    assert cap is not None and cap.before is None and " set to " in str(cap)
    written = limit_in(
        json.loads(cap.body), ("generation_config", "max_output_tokens") if wire == "gemini_snake" else place
    )
    assert written == cap.after <= 60_000
    row = model_named(str(fields.get("model") or re.split(r"[/:@]|%3A", path.partition("/model")[2].lstrip("s/"))[0]))
    assert cap.after <= (row.max_output_tokens or 8_192)


def test_a_limit_that_fits_and_one_of_a_budget_that_is_large_enough_stay() -> None:
    for wire, (path, fields, place) in WIRES.items():
        assert admitted(gate_of(Budget(tokens=3_000)), path, with_limit(fields, place, 900)).cap is None, wire
        assert admitted(gate_of(Budget(tokens=10_000_000)), path, with_limit(fields, place, 64_000)).cap is None, wire


def test_a_gate_that_caps_nothing_refuses_as_before() -> None:
    for path, fields, place in WIRES.values():
        with pytest.raises(BudgetExceeded, match="64,000 of output"):
            gate_of(Budget(tokens=20_000), caps_output=False).admit(
                "POST", path, json.dumps(with_limit(fields, place, 64_000)).encode()
            )


@pytest.mark.parametrize(
    ("more", "encode"),
    [
        ({"encoding": "gzip"}, gzip.compress),
        ({"is_signed": True}, bytes),
        ({}, lambda body: body[:-1]),
    ],
    ids=["compressed", "signed", "cut"],
)
def test_what_cannot_be_changed_is_refused_as_before(more: dict[str, Any], encode: Any) -> None:
    body = json.dumps({"model": CLAUDE, "max_tokens": 2_000_000, "messages": HI}).encode()
    budget = Budget(tokens=20_000)
    with pytest.raises(BudgetExceeded):
        gate_of(budget).admit("POST", "/v1/messages", encode(body), **more)
    assert budget.reserved.tokens == 0


def test_a_host_that_refuses_a_limit_is_sent_none() -> None:
    with pytest.raises(BudgetExceeded, match="the rest of the window"):
        gate_of(Budget(tokens=20_000)).admit(
            "POST", "/backend-api/codex/responses", b'{"model":"gpt-6.1-sol","input":"hi"}'
        )


def test_a_key_that_is_spelled_with_escapes_is_found() -> None:
    body = rb'{"max\u005ftokens": 64000, "messages": [{"role": "user", "content": "hi"}], "model": "claude-sonnet-5-5"}'
    cap = admitted(gate_of(Budget(tokens=20_000)), "/v1/messages", body).cap
    assert cap is not None and cap.body == body.replace(b"64000", b"%d" % cap.after)


def test_a_limit_stays_above_what_claude_may_think() -> None:
    path, fields, _ = WIRES["anthropic_messages"]
    body = {**fields, "max_tokens": 64_000, "thinking": {"type": "enabled", "budget_tokens": 8_000}}
    cap = admitted(gate_of(Budget(tokens=12_000)), path, body).cap
    assert cap is not None and cap.after >= 9_024
    with pytest.raises(BudgetExceeded, match="9,024 of output"):
        gate_of(Budget(tokens=9_000)).admit("POST", path, json.dumps(body).encode())


@pytest.mark.parametrize("more", [{"n": 4}, {"n": "4"}, {"best_of": 4}])
def test_answers_share_half_of_what_is_left(more: dict[str, Any]) -> None:
    budget = Budget(tokens=20_000)
    path, fields, _ = WIRES["openai_chat"]
    cap = admitted(gate_of(budget), path, {**fields, "max_completion_tokens": 64_000, **more}).cap
    assert cap is not None and 2_200 < cap.after < 2_500 and budget.reserved.tokens <= 20_000


def test_candidates_and_prompts_share_half_of_what_is_left() -> None:
    path, fields, _ = WIRES["gemini"]
    for config in (
        {"candidateCount": 3, "maxOutputTokens": 60_000},
        {"candidate_count": 3, "max_output_tokens": 60_000},
    ):
        for name in ("generationConfig", "generation_config"):
            cap = admitted(gate_of(Budget(tokens=20_000)), path, {**fields, name: config}).cap
            assert cap is not None and 3_000 < cap.after < 3_350
    path, fields, _ = WIRES["openai_completions"]
    cap = admitted(gate_of(Budget(tokens=10_000)), path, {**fields, "prompt": ["a", "b", "c"], "max_tokens": 9_000}).cap
    assert cap is not None and 1_500 < cap.after <= 1_666


def test_of_two_limits_the_lower_one_stays() -> None:
    path, fields, _ = WIRES["openai_chat"]
    cap = admitted(
        gate_of(Budget(tokens=20_000)), path, {**fields, "max_tokens": 500, "max_completion_tokens": 90_000}
    ).cap
    assert cap is not None
    sent = json.loads(cap.body)
    assert sent["max_tokens"] == 500 and sent["max_completion_tokens"] == cap.after


# Prompts that a server keeps, and requests without an answer
# ----------------------------------------------------------------------------------------------------------------------


def answered(admission: Admission, name: str, n_input: int, n_output: int, items: tuple[str, ...] = ()) -> None:
    output = [{"id": one, "type": "message"} for one in items]
    usage = {"input_tokens": n_input, "output_tokens": n_output, "input_tokens_details": {"cached_tokens": 0}}
    response = {"id": name, "object": "response", "status": "completed", "model": GPT, "output": output, "usage": usage}
    event = {"type": "response.completed", "response": response}
    admission.began(200, {"content-type": "text/event-stream"})
    admission.feed(b"event: response.completed\ndata: " + json.dumps(event).encode() + b"\n\n")


NAMING: dict[str, tuple[str, dict[str, Any]]] = {
    "previous": ("/v1/responses", {"model": GPT, "previous_response_id": "resp_1", "input": "hi"}),
    "conversation": ("/v1/responses", {"model": GPT, "conversation": {"id": "conv_1"}, "input": "hi"}),
    "conversation by name": ("/v1/responses", {"model": GPT, "conversation": "conv_1", "input": "hi"}),
    "item": ("/v1/responses", {"model": GPT, "input": [{"type": "item_reference", "id": "msg_1"}, *HI]}),
    "stored prompt": ("/v1/responses", {"model": GPT, "prompt": {"id": "pmpt_1"}, "input": "hi"}),
    "frame": (
        "/v1/responses",
        {"type": "response.create", "model": GPT, "previous_response_id": "resp_1", "input": []},
    ),
    "content": (f"/v1beta/models/{GEMINI}:generateContent", {"contents": PARTS, "cachedContent": "cachedContents/a"}),
    "content, snake": (
        f"/v1beta/models/{GEMINI}:generateContent",
        {"contents": PARTS, "cached_content": "cachedContents/a"},
    ),
}
"""Requests that name what a server keeps."""


@pytest.mark.parametrize("name", NAMING)
def test_a_history_that_was_not_seen_counts_as_the_whole_window(name: str) -> None:
    path, fields = NAMING[name]
    limited = {
        **fields,
        **({"generationConfig": {"maxOutputTokens": 2_000}} if "gemini" in path else {"max_output_tokens": 2_000}),
    }
    with pytest.raises(BudgetExceeded, match="the whole window, since a part is kept by the server"):
        gate_of(Budget(tokens=900_000)).admit("POST", path, json.dumps(limited).encode())
    budget = Budget(tokens=3_000_000)
    admitted(gate_of(budget), path, limited)
    assert budget.reserved.tokens >= model_named(GEMINI if "gemini" in path else GPT).window_tokens
    unknown = path.replace(GEMINI, "no-such-model"), {**limited, "model": "no-such-model"}
    with pytest.raises(BudgetExceeded, match="no window is known of the model"):
        gate_of(Budget(tokens=10**9)).admit("POST", unknown[0], json.dumps(unknown[1]).encode())


def test_a_history_that_was_seen_counts_as_it_was_billed() -> None:
    budget = Budget(tokens=100_000)
    gate = gate_of(budget)
    first = admitted(gate, "/v1/responses", {"model": GPT, "input": "hi", "max_output_tokens": 2_000})
    answered(first, "resp_1", 30_000, 700, ("msg_1", "rs_1"))
    for fields, most in (
        (NAMING["previous"][1], 1.1 * 30_700 + 2_100),  # before the stream is closed: the next request may be faster
        (NAMING["frame"][1], 1.1 * 30_700 + 2_100),
        (NAMING["item"][1], 1.1 * 700 + 2_200),
    ):
        before = budget.reserved.tokens
        admission = admitted(gate, "/v1/responses", {**fields, "max_output_tokens": 2_000})
        assert most - 200 < budget.reserved.tokens - before < most
        admission.release()
    first.ended(is_whole=True)
    assert budget.spent.tokens == 30_700


@pytest.mark.parametrize(
    ("path", "fields", "is_prewarm"),
    [
        ("/v1/messages", {"model": CLAUDE, "max_tokens": 0, "messages": HI}, True),
        ("/v1/messages", {"model": CLAUDE, "max_tokens": False, "messages": HI}, False),
        ("/v1/responses", {"type": "response.create", "generate": False, "model": GPT, "input": HI}, True),
        (
            "/v1/responses",
            {"model": GPT, "input": HI, "prompt_cache_options": {"prewarm": True}, "max_output_tokens": 90_000},
            True,
        ),
        ("/v1/responses", {"model": GPT, "input": HI, "generate": False}, False),
        ("/v1/chat/completions", {"model": GPT, "messages": HI, "max_tokens": 0}, False),
        ("/v1/chat/completions", {"model": GPT, "messages": HI, "prompt_cache_options": {"prewarm": True}}, False),
    ],
)
def test_a_prewarm_has_no_output(path: str, fields: dict[str, Any], is_prewarm: bool) -> None:
    budget = Budget(tokens=10_000_000)
    assert admitted(gate_of(budget), path, fields).cap is None
    assert (budget.reserved.tokens < 100) is is_prewarm


def test_a_socket_of_responses_is_no_unpriced_request_and_any_other_is() -> None:
    gate = gate_of(Budget(tokens=1))
    for path in ("/v1/responses", "/v1/responses/?a=b", "/backend-api/codex/responses"):
        assert not gate.is_unpriced("GET", path, is_upgrade=True)
    for path in ("/v1/realtime?model=gpt-realtime", "/v1/responses/resp_1", "/v1/models", "/v1/messages"):
        assert gate.is_unpriced("GET", path, is_upgrade=True)
    assert not gate_of(Budget(tokens=1), allow_unpriced=True).is_unpriced("GET", "/v1/realtime", is_upgrade=True)


# Bills never exceed the budget
# ----------------------------------------------------------------------------------------------------------------------

LIMITS = st.one_of(
    st.integers(-5, 200_000),
    st.sampled_from([None, True, False, 900.5, 3e4, "900", " 64000 ", "nine", 10**30, 1e300, [], {}, "1e9"]),
)
REQUESTS = st.tuples(
    st.sampled_from(sorted(WIRES)),
    LIMITS,
    st.sampled_from([{}, {"n": 3}, {"n": "2"}, {"thinking": {"type": "enabled", "budget_tokens": 3_000}}, {"n": None}]),
    st.sampled_from([None, 2]),
    st.integers(1, 3_000),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), REQUESTS),
        st.tuples(st.just("end"), st.tuples(st.integers(0, 50), st.floats(0, 1), st.floats(0, 1))),
    ),
    min_size=1,
    max_size=25,
)


def n_answers_of(fields: Mapping[str, Any]) -> int:
    return int(fields.get("n") or 1)


@settings(max_examples=n_examples(150, 5_000), deadline=None)
@given(
    limits=st.one_of(
        st.fixed_dictionaries({"tokens": st.integers(0, 120_000)}),
        st.fixed_dictionaries({"usd": st.floats(0, 1.0)}),
        st.fixed_dictionaries({"tokens": st.integers(0, 120_000), "usd": st.floats(0, 1.0)}),
    ),
    steps=STEPS,
)
def test_whatever_is_billed_within_the_worst_case_the_budget_holds(limits: dict[str, Any], steps: list[Any]) -> None:
    """Calls overlap in any order; each is billed any prompt it may have had, and any output that its limit allows."""
    budget = Budget(**limits)
    bills: list[Any] = []
    gate = gate_of(budget, read_response=lambda model, kind, encoding, body, is_whole: bills[-1])
    under_way: list[tuple[Admission, int, int]] = []
    for kind, given_ in steps:
        if kind == "ask":
            wire, limit, more, indent, n_words = given_
            path, fields, place = WIRES[wire]
            fields = {**with_limit(fields, place, limit), **more, "user": "word " * n_words}
            body = json.dumps(fields, indent=indent).encode()
            reserved = budget.reserved.tokens
            try:
                admission = admitted(gate, path, body)
            except BudgetExceeded:
                assert budget.reserved.tokens == reserved
                continue
            sent = body
            if admission.cap is not None:
                sent = admission.cap.body
                differs_in_its_limit_alone(body, sent, place)
            allowed = limit_in(json.loads(sent), place)
            try:
                n_most = int(float(allowed)) if not isinstance(allowed, bool) else 0
            except (TypeError, ValueError):
                n_most = 0
            n_output = min(max(n_most, 0), 10**9) * n_answers_of(fields)
            n_prompt = max(budget.reserved.tokens - reserved - n_output, 1)
            under_way.append((admission, n_prompt, n_output))
        elif under_way:
            which, prompt_share, output_share = given_
            admission, n_prompt, n_output = under_way.pop(which % len(under_way))
            usage = Usage(max(1, int(n_prompt * prompt_share / 1.2)), 0, 0, 0, int(n_output * output_share))
            bills.append(usage)
            finish(admission, usage)
        for unit, most in limits.items():
            total = getattr(budget.spent, unit) + getattr(budget.reserved, unit)
            assert total <= most * (1 + 1e-9) + 1e-9
    for admission, n_prompt, n_output in under_way:
        usage = Usage(max(1, int(n_prompt / 1.2)), 0, 0, 0, n_output)
        bills.append(usage)
        finish(admission, usage)
    n_billed = sum((usage.prompt or 0) + (usage.output or 0) for usage in bills)
    assert n_billed <= budget.spent.tokens
    assert n_billed <= limits.get("tokens", n_billed)
    assert budget.reserved.tokens == 0


def finish(admission: Admission, usage: Usage) -> None:
    """Answer a call in the form of its wire; a gate reads the SDKs' three itself."""
    n_prompt, n_output = usage.prompt or 0, usage.output or 0
    counters = {
        "input_tokens": n_prompt,
        "prompt_tokens": n_prompt,
        "output_tokens": n_output,
        "completion_tokens": n_output,
        "total_tokens": n_prompt + n_output,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    facts = {"id": "r", "status": "completed", "stop_reason": "end_turn", "usage": counters}
    admission.was_sent = True
    admission.began(200, {"content-type": "application/json"})
    admission.feed(json.dumps({**facts, "choices": [{"finish_reason": "stop"}]}).encode())
    admission.ended(is_whole=True)


@settings(max_examples=n_examples(300, 20_000), deadline=None)
@given(BODIES, st.sampled_from([0, 1_200, 5_000, 100_000]))
def test_any_json_in_a_field_that_counts_is_admitted_changed_or_refused(given_: tuple[str, Any], most: int) -> None:
    path, more = given_
    body = json.dumps({**WHOLE[path], **more}).encode()
    try:
        cap = admitted(gate_of(Budget(tokens=most)), path, body).cap
    except BudgetExceeded:
        return
    if cap is not None:
        outer = cap.field.partition(".")[0]
        before, after = ({**json.loads(one), outer: None} for one in (body, cap.body))
        assert before == after and cap.after < most


def test_a_field_of_another_endpoint_is_no_limit() -> None:
    path, fields, _ = WIRES["openai_responses"]
    cap = admitted(gate_of(Budget(tokens=20_000)), path, {**fields, "max_tokens": 100}).cap
    assert cap is not None and cap.field == "max_output_tokens" and cap.before is None


def test_threads_that_ask_at_once_never_exceed_the_budget_together() -> None:
    budget = Budget(tokens=100_000)
    gate, start = gate_of(budget), threading.Barrier(16)
    path, fields, place = WIRES["anthropic_messages"]
    body = json.dumps(with_limit(fields, place, 32_000)).encode()
    limits: list[int] = []

    def ask() -> None:
        start.wait()
        for _ in range(3):
            try:
                admission = admitted(gate, path, body)
            except BudgetExceeded:
                continue
            limits.append(admission.cap.after if admission.cap else 32_000)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(limits) >= 1_024 and len(limits) >= 3
    assert sum(limits) < budget.reserved.tokens <= 100_000
