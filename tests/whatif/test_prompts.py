"""Fixes that need prompts: what the counterfactual says is what the local provider bills for bodies edited by hand,
byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import anthropic
import pytest

from contextkit.engines.simulate import simulate
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.prompts import outline
from contextkit.prices import cost_usd
from contextkit.providers.endpoints import PARSERS
from contextkit.whatif.answer import Answer
from contextkit.whatif.body_edits import VOLATILE, FreezeClock, KeepResults, SortTools
from contextkit.whatif.what_if import what_if

pytest.importorskip("uvicorn", reason="the local server needs the extra `server`")
from contextkit.server import LocalServer

MODEL = "claude-sonnet-5-5"
Body = dict[str, Any]
Bill = Callable[..., list[ModelCall]]
MARK = {"type": "ephemeral"}
RULES = "Answer in whole sentences, name your sources, and ask before anything is deleted. " * 60


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer(now=1000.0) as running:
        yield running


@pytest.fixture
def bill(server: LocalServer) -> Bill:
    """Send bodies at times, each to be answered at once; the calls a recorder of bodies would have kept."""

    def send(bodies: Sequence[Body], times: Sequence[float], lanes: Sequence[str] = ()) -> list[ModelCall]:
        server.reset()
        raws = [json.dumps(body).encode() for body in bodies]
        with anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as client:
            for raw, at in zip(raws, times, strict=True):
                server.clock.set(1000.0 + at)
                client.post("/v1/messages", cast_to=anthropic.types.Message, content=raw)
        names = lanes or ["main"] * len(raws)
        return [
            replace(call, session="s", lane=lane, prompt=Bodies(raw))
            for call, raw, lane in zip(server.ledger, raws, names, strict=True)
        ]

    return send


def usd(calls: Sequence[ModelCall]) -> float:
    return sum(cost_usd(one.provider, one.model, one.usage) or 0.0 for one in calls if one.usage)


def only(calls: Sequence[ModelCall], fix: str) -> Answer:
    """The answer to one fix, whose replay of what was is the recorded bill."""
    found = what_if(calls, [fix])
    for road in found.calibrations:
        if road.answered_from == "outlines and request bodies":
            assert road.difference_usd == pytest.approx(0, abs=1e-12)
    return found.answers[0]


def conversation(n: int, *, blocks: int = 1) -> list[Body]:
    """`n` requests of one conversation, the tail marked, each with a result more than the one before."""
    said: list[Body] = [{"role": "user", "content": [{"type": "text", "text": "Read the notes."}]}]
    bodies = []
    for number in range(n):
        messages = deepcopy(said)
        messages[-1]["content"][-1]["cache_control"] = MARK
        system = [{"type": "text", "text": RULES, "cache_control": MARK}]
        bodies.append(
            {"model": MODEL, "max_tokens": 100, "tools": tools("read", "write"), "system": system, "messages": messages}
        )
        said.append(
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"page": number}}],
            }
        )
        page = {"type": "text", "text": f"Page {number}. " + "lorem ipsum " * 200}
        said.append(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"t{number}", "content": [page]},
                    *(
                        {"type": "text", "text": f"Remark {number}.{part}, which is a block of its own."}
                        for part in range(blocks - 1)
                    ),
                ],
            }
        )
    return bodies


def tools(*names: str) -> list[Body]:
    return [
        {"name": name, "description": f"To {name} a page.", "input_schema": {"type": "object", "properties": {}}}
        for name in names
    ]


TIMES = [0, 20, 40, 400, 420, 440]


def test_tools_in_any_order_are_sorted(bill: Bill) -> None:
    straight = conversation(6)
    shuffled = deepcopy(straight)
    for number in (2, 3, 5):
        shuffled[number]["tools"] = tools("write", "read")
    recorded = bill(shuffled, TIMES)
    one = only(recorded, "sorted-tools")
    assert one.after_usd == pytest.approx(usd(bill(straight, TIMES)), abs=1e-12)
    assert one.saves_usd is not None and one.saves_usd > 0
    assert (one.answered_from, one.changed_calls, one.calls) == ("request bodies", 3, 6)


def test_a_marker_on_the_last_tool_stays_on_the_last_tool(bill: Bill) -> None:
    def marked(*names: str) -> list[Body]:
        made = tools(*names)
        made[-1]["cache_control"] = MARK
        return made

    straight = conversation(3)
    for body in straight:
        body["tools"] = marked("read", "write")
    shuffled = deepcopy(straight)
    shuffled[1]["tools"] = marked("write", "read")
    assert only(bill(shuffled, TIMES[:3]), "sorted-tools").after_usd == pytest.approx(
        usd(bill(straight, TIMES[:3])), abs=1e-12
    )


def test_a_clock_in_the_system_text_is_told_at_the_tail(bill: Bill) -> None:
    ticking, told = conversation(6), conversation(6)
    for number in range(6):
        now = f"2026-11-20 14:0{number}"
        ticking[number]["system"][0]["text"] = f"It is {now}. {RULES}"
        told[number]["system"][0]["text"] = f"It is 2026-11-20 14:00. {RULES}"
        for asked in range(1, number + 1):  # what each request said at its end stays where it was said
            told[number]["messages"][2 * asked]["content"].append(
                {"type": "text", "text": f"[Now: 2026-11-20 14:0{asked}]"}
            )
    one = only(bill(ticking, TIMES), "clock-to-tail")
    assert one.after_usd == pytest.approx(usd(bill(told, TIMES)), abs=1e-12)
    assert one.saves_usd is not None and one.saves_usd > 0
    assert one.changed_calls == 5


def test_a_system_prompt_that_really_changes_is_left_alone(bill: Bill) -> None:
    changed = conversation(3)
    changed[2]["system"][0]["text"] = "Answer in one word. " + RULES
    one = only(bill(changed, TIMES[:3]), "clock-to-tail")
    assert (one.changed_calls, one.saves_usd) == (0, 0.0)


def test_old_results_stay_as_they_were_sent(bill: Bill) -> None:
    whole = conversation(6)
    pruned = deepcopy(whole)
    for number, body in enumerate(pruned):
        for message in body["messages"][:-1]:
            for block in message["content"]:
                if block["type"] == "tool_result" and number >= 3:
                    block["content"] = "[cleared]"
    one = only(bill(pruned, TIMES), "no-pruning")
    assert one.after_usd == pytest.approx(usd(bill(whole, TIMES)), abs=1e-12)
    assert one.changed_calls == 3


def test_a_marker_where_the_last_request_ended(bill: Bill) -> None:
    far = conversation(5, blocks=30)
    near = deepcopy(far)
    for number in range(1, 5):
        near[number]["messages"][2 * number - 2]["content"][-1]["cache_control"] = MARK
    times = [*TIMES[:3], 60, 80]
    one = only(bill(far, times), "breakpoints")
    assert one.after_usd == pytest.approx(usd(bill(near, times)), abs=1e-12)
    assert one.saves_usd is not None and one.saves_usd > 0
    assert one.changed_calls == 4


def test_markers_that_reach_get_no_other(bill: Bill) -> None:
    one = only(bill(conversation(4), TIMES[:4]), "breakpoints")
    assert (one.changed_calls, one.saves_usd) == (0, 0.0)


def test_requests_without_breakpoints_get_those_of_context(bill: Bill) -> None:
    marked = conversation(4)
    plain = json.loads(json.dumps(marked).replace(', "cache_control": {"type": "ephemeral"}', ""))
    del marked[-1]["messages"][-1]["content"][-1]["cache_control"]  # nothing reads the end of the last request
    marked[-1]["messages"][-3]["content"][-1]["cache_control"] = MARK
    one = only(bill(plain, TIMES[:4]), "breakpoints")
    assert one.after_usd == pytest.approx(usd(bill(marked, TIMES[:4])), abs=1e-12)
    assert one.saves_usd is not None and one.saves_usd > 0 and one.changed_calls == 4


def test_a_longer_lifetime_from_bills_alone_is_what_the_provider_bills_for_it(bill: Bill) -> None:
    short, pauses = conversation(6), [0, 20, 40, 400, 760, 1_120]
    text = json.dumps(short).replace('{"type": "ephemeral"}', '{"type": "ephemeral", "ttl": "1h"}')
    one = only(bill(short, pauses), "lifetime")
    assert one.answered_from == "usage and times"
    assert one.after_usd == pytest.approx(usd(bill(json.loads(text), pauses)), abs=1e-12)


def siblings(n: int, starts: Callable[[int], float]) -> list[ModelCall]:
    """`n` calls that share a head, each answering from one second after its start, billed by the reference cache."""
    ledger, bodies = Ledger(), []
    for number in range(n):
        body = conversation(1)[0]
        body["messages"] = [
            {"role": "user", "content": [{"type": "text", "text": f"Task {number}.", "cache_control": MARK}]}
        ]
        bodies.append(json.dumps(body).encode())
        prompt = PARSERS["anthropic_messages"](body).prompt
        at = 1000.0 + starts(number)
        said = outline(None, prompt, [-1] * prompt.n, 0)
        ledger.append(
            ModelCall(str(number), "s", f"sub-{number}", at, at + 1, at + 5, "anthropic", MODEL, said, None, None, None)
        )
    # billed without an output, which nobody said: 50 tokens each
    return [
        replace(call, prompt=Bodies(bodies[int(call.id)]), usage=replace(call.usage, output=50))
        for call in simulate(ledger)
        if call.usage
    ]


def test_siblings_that_wait_for_their_leader_read_what_it_wrote() -> None:
    together = siblings(4, lambda number: 0.1 * number)
    one = only(together, "leader-first")
    assert one.after_usd == pytest.approx(usd(siblings(4, lambda number: float(number > 0))), abs=1e-12)
    assert one.note == "3 calls wait, 0.9 s at most"
    assert one.saves_usd is not None and one.saves_usd > 0


def test_calls_one_after_the_other_wait_for_nobody() -> None:
    one = only(siblings(3, lambda number: 10.0 * number), "leader-first")
    assert (one.changed_calls, one.saves_usd) == (0, 0.0)


def test_outlines_answer_what_needs_no_text(bill: Bill) -> None:
    far = bill(conversation(5, blocks=30), [*TIMES[:3], 60, 80])
    prompts = [
        PARSERS["anthropic_messages"](json.loads(one.prompt.request)).prompt
        for one in far
        if isinstance(one.prompt, Bodies)
    ]
    before = [None, *prompts]
    outlined = [
        replace(one, prompt=outline(before[number], prompts[number], [-1] * prompts[number].n, 0))
        for number, one in enumerate(far)
    ]
    found = what_if(outlined)
    bridging, tools_sorted = found.answers[2], found.answers[3]
    assert (bridging.fix, bridging.answered_from) == ("breakpoints", "outlines")
    assert bridging.after_usd == pytest.approx(only(far, "breakpoints").after_usd)
    assert (tools_sorted.after_usd, tools_sorted.why_not) == (
        None,
        "5 calls: no request body in the record, only its outline",
    )


# Edits of other wires
# -----------------------------------------------------------------------------------------------------


OPENAI: dict[str, tuple[Callable[[str, list[Body]], Body], Callable[[Body], list[Body]]]] = {
    "openai_chat": (
        lambda now, said: {"messages": [{"role": "system", "content": f"Now {now}."}, *said]},
        lambda body: body["messages"],
    ),
    "openai_responses": (
        lambda now, said: {"instructions": f"Now {now}.", "input": list(said)},
        lambda body: [{"content": body["instructions"]}, *body["input"]],
    ),
}


@pytest.mark.parametrize("wire", OPENAI)
def test_a_clock_on_the_wires_of_openai(wire: str) -> None:
    (made, said_in), editor, said = OPENAI[wire], FreezeClock(), [{"role": "user", "content": "Hello."}]
    first = made("09:00", said)
    second = made("09:01", [*said, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Go."}])
    assert [editor.edit(("s", "main"), wire, body) for body in (first, second)] == [False, True]
    assert [one["content"] for one in said_in(second)] == ["Now 09:00.", "Hello.", "Hi.", "Go.", "[Now: 09:01]"]


def test_results_on_the_wires_of_openai() -> None:
    editor = KeepResults()
    chat = [{"messages": [{"role": "tool", "tool_call_id": "a", "content": text}]} for text in ("whole", "[cut]")]
    assert [editor.edit(("s", "main"), "openai_chat", body) for body in chat] == [False, True]
    assert chat[1]["messages"][0]["content"] == "whole"
    items = [
        {"input": [{"type": "function_call_output", "call_id": "b", "output": text}]} for text in ("whole", "[cut]")
    ]
    assert [editor.edit(("s", "main"), "openai_responses", body) for body in items] == [False, True]
    assert items[1]["input"][0]["output"] == "whole"


def test_tools_that_are_none_are_left_alone() -> None:
    for odd in (None, "all", [1, 2], []):
        fields: Body = {"tools": odd}
        assert not SortTools().edit(("s", "main"), "openai_chat", fields)
    assert not FreezeClock().edit(("s", "main"), "anthropic_messages", {"messages": "none", "system": 3})


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T14:05:07Z",
        "14:05",
        "Friday",
        "20 November 2026",
        "Nov 20, 2026",
        "1766300000",
        "3f2b8c1e-8d4a-4c55-9a61-0d3c2b1a9f00",
        "deadbeef01",
    ],
)
def test_what_is_taken_for_a_clock_or_an_id(text: str) -> None:
    assert VOLATILE.sub("", f"It is {text}, be brief.") == "It is , be brief."


@pytest.mark.parametrize(
    "text", ["claude-sonnet-5-5", "version 3.2", "at most 4,096 tokens", "feedface words", "section 12"]
)
def test_what_is_not(text: str) -> None:
    assert VOLATILE.sub("", text) == text
