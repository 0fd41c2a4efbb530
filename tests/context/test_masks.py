"""Phases in a conversation: where they lead, what is refused, what survives a crash, a fork and threads.

All through the real clients.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, Log, Phase, Phases
from contextkit.canonical import parse
from contextkit.errors import InvalidCall, UsageError
from tests.context.desk import Desk, asks, bill, goes_on, honest, says
from tests.context.masked import NAMES, TOOLS, phases

CALL = {"x": "y"}


def begun(desk: Desk, **options: Any) -> Context:
    return desk.context("Find out.", **{"tools": TOOLS, "phases": phases(), **options})


def answer_all(context: Context, *failing: str) -> None:
    for call in context.calls:
        context.result(call, ValueError("no") if call.name in failing else "done")


def kinds(context: Context) -> list[str]:
    return [entry.kind for entry in context.log]


def test_calls_and_their_outcomes_lead_from_phase_to_phase(desk: Desk) -> None:
    context, walked = begun(desk), []
    for name, fails in [
        ("browser_open", False),
        ("browser_read", True),
        ("browser_open", False),
        ("browser_close", False),
    ]:
        walked.append(context.phase)
        desk.ask(context, asks((name, CALL)))
        answer_all(context, *([name] if fails else []))
    assert [*walked, context.phase] == ["browse", "browse", "stuck", "browse", "report"]
    assert kinds(context)[-2:] == ["result", "phase"]
    desk.ask(context, asks(("report_send", CALL)))
    answer_all(context)
    assert context.phase == "done" and context.request().mask.mode == "none"
    goes_on(desk, context)
    honest(desk, context)


def test_the_mask_of_a_request_can_be_looked_at(desk: Desk) -> None:
    context = begun(desk)
    mask = context.request().mask
    assert (
        mask.allowed == ("browser_open", "browser_read", "browser_close", "notes_read") and mask.mask.phase == "browse"
    )
    expected = {"anthropic_messages": ("system_notice", "contextkit", 24)}.get(
        context.provider.wire, ("allowed_tools", "provider", 0)
    )
    assert (mask.mechanism, mask.enforced_by) == expected[:2] and mask.cost_tokens <= expected[2]
    plain = desk.context("hello").request().mask
    assert (plain.mechanism, plain.enforced_by, plain.cost_tokens, plain.tool_choice) == ("nothing", "nobody", 0, None)


def test_a_call_outside_the_mask_is_answered_and_never_dropped(desk: Desk) -> None:
    context = begun(desk)
    desk.ask(context, asks(("report_send", CALL), ("browser_open", CALL), ("rm", {})))
    assert [call.name for call in context.calls] == ["browser_open"] and not context.finished
    refused = [parse(entry.body) for entry in context.log if entry.kind == "result"]
    assert [(body["name"], body["is_error"]) for body in refused] == [("report_send", True), ("rm", True)]
    assert "allowed now: browser_*, notes_read" in str(refused[0]) and "no tool named 'rm'" in str(refused[1])
    answer_all(context)
    said = str(parse(context.request().body))
    assert (
        said.index("may not be called in phase") < said.index("'done'") < said.index("no tool named")
    )  # in call order
    assert context.phase == "browse"
    goes_on(desk, context, says_something=False)
    honest(desk, context)


def test_a_phase_is_entered_by_hand(claude: Desk) -> None:
    context = begun(claude)
    entry = context.enter("report")
    assert context.phase == "report" and context.enter("report") == entry and kinds(context)[-1] == "phase"
    with pytest.raises(UsageError, match="no phase 'nowhere'"):
        context.enter("nowhere")
    with pytest.raises(UsageError, match="has no phases"):
        claude.context("hello").enter("report")
    goes_on(claude, context)


def test_a_phase_entered_while_calls_are_open_forbids_those_nobody_has_begun(claude: Desk) -> None:
    context = begun(claude)
    claude.ask(context, asks(("browser_open", CALL), ("browser_close", CALL)))
    opened, closed = context.calls
    context.enter("done")
    assert isinstance(closed.run(), InvalidCall) and "no tool may be called now" in str(closed.refusal)
    context.result(opened, "it was under way")
    context.result(closed, closed.run())
    assert context.phase == "done"  # what a hand has entered, no call of before leaves
    goes_on(claude, context, says_something=False)


# What survives
# ------------------------------------------------------------------------------------------------------------


def reopened(desk: Desk, folder: Path, **options: Any) -> Context:
    return desk.open(folder, **{"tools": TOOLS, "phases": phases(), **options})


def cut(log: Log, n: int) -> Log:
    """The first `n` entries, as a crash would have left them."""
    kept = Log(clock=lambda: 0.0)
    for entry in log[:n]:
        kept.append(entry.kind, parse(entry.body), entry.at)
    return kept


def test_a_crash_between_any_two_entries_loses_no_transition_and_no_refusal(claude: Desk) -> None:
    context = begun(claude)
    claude.ask(context, asks(("report_send", CALL), ("browser_open", CALL)))
    answer_all(context)
    claude.ask(context, asks(("browser_close", CALL)))
    answer_all(context)
    claude.ask(context, asks(("report_draft", CALL), ("browser_open", CALL)))
    answer_all(context)
    whole = [(entry.kind, entry.body) for entry in context.log]
    for n in range(1, len(whole) + 1):
        head = {"system": parse(context.log[0].body)["system"], "tools": TOOLS}
        again = Context(
            context.provider, log=cut(context.log, n), phases=phases(), clock=claude.server.clock.now, **head
        )
        found = [(entry.kind, entry.body) for entry in again.log]
        assert found == whole[: len(found)] and len(found) >= n
        assert whole[len(found) : len(found) + 1] == [] or whole[len(found)][0] != "phase"
        assert again.phase == ("report" if len(found) > kinds(context).index("phase", 2) else "browse")


def test_a_fork_is_in_the_phase_its_last_entry_was_in(claude: Desk, tmp_path: Path) -> None:
    with reopened(claude, tmp_path / "run") as context:
        context.user("Find out.")
        claude.ask(context, asks(("browser_close", CALL)))
        answer_all(context)
        sequences = {entry.kind: entry.sequence for entry in context.log}
        for kind, phase in {"assistant": "browse", "result": "report", "phase": "report"}.items():
            with context.fork(sequences[kind], tmp_path / kind) as branch:
                assert branch.phase == phase
                answer_all(branch)
                assert branch.phase == "report" and branch.request().body == context.request().body
                goes_on(claude, branch)
            with reopened(claude, tmp_path / kind) as again:
                assert again.phase == "report"
        context.enter("done")
        assert context.fork(sequences["result"]).phase == "report"


def test_threads_that_answer_and_look_lose_no_transition(claude: Desk) -> None:
    context = begun(claude)
    with ThreadPoolExecutor(8) as pool:
        for turn in range(6):
            names = ["browser_open", "browser_close"] if context.phase == "browse" else ["report_draft", "notes_write"]
            claude.ask(context, asks(*((name, CALL) for name in names * 3)))
            list(pool.map(lambda call: context.result(call, "done"), context.calls))
            assert context.phase == "report"
            context.enter("browse" if turn % 2 else "report")
    phases_kept = [parse(entry.body)["name"] for entry in context.log if entry.kind == "phase"]
    assert phases_kept == ["browse", "report", "browse", "report", "browse", "report", "browse"]
    goes_on(claude, context)
    honest(claude, context)


@pytest.mark.parametrize("seed", range(4))
def test_random_walks_agree_with_the_table_through_resumes_and_forks(claude: Desk, seed: int) -> None:
    random, table = Random(seed), phases()
    context, expected = begun(claude), "browse"
    for _ in range(12):
        calls = [(random.choice(NAMES), random.random() < 0.4) for _ in range(random.randint(1, 3))]
        claude.ask(context, asks(*((name, CALL) for name, _ in calls)))
        ran = [is_error for name, is_error in calls if table[expected].allows(name)]
        fails = {call.id: is_error for call, is_error in zip(context.calls, ran, strict=True)}
        open_calls = context.calls
        random.shuffle(open_calls)
        for call in open_calls:
            context.result(call, ValueError("no") if fails[call.id] else "done")
        here = expected
        for name, is_error in calls:
            expected = table.next(expected, name, is_error) if table[here].allows(name) else expected
        assert context.phase == expected
        act = random.choice(["go on", "fork", "resume", "enter"])
        if act == "fork":
            context = context.fork()
        elif act == "resume":
            kept = {"log": context.log, "ledger": context.ledger}
            context = Context(context.provider, **kept, phases=table, tools=TOOLS, clock=claude.server.clock.now)
        elif act == "enter":
            expected = random.choice(list(table))
            context.enter(expected)
        assert context.phase == expected
    goes_on(claude, context)


def test_a_log_in_a_phase_needs_a_table_that_has_it(claude: Desk, tmp_path: Path) -> None:
    reopened(claude, tmp_path / "run").close()
    for other in (None, Phases({"other": Phase()}, "other")):
        with pytest.raises(UsageError, match="in phase 'browse' since entry 1"):
            reopened(claude, tmp_path / "run", phases=other)
    reopened(claude, tmp_path / "run", phases=Phases({"browse": Phase()}, "browse")).close()
    with pytest.raises(UsageError, match="not dict"):
        begun(claude, phases={"browse": Phase()})
    empty = claude.context("x", phases=phases(), tools=[])
    with pytest.warns(UserWarning, match=r"phase 'browse' allows only browser_\*, notes_read, and no tool .* is empty"):
        assert empty.request().mask.mode == "none"
    empty.request()  # said once


# Declared breaks, adoption, sub-agents
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps", [False, True])
def test_after_a_compaction_the_phase_is_told_anew(desk: Desk, keeps: bool) -> None:
    context = begun(desk)
    desk.ask(context, asks(("browser_close", CALL)))
    answer_all(context)
    desk.ask(context, says("noted"))
    kept = context.log[-1]
    context.compact("So far.", kept if keeps else None)
    assert context.phase == "report" and kinds(context)[-2:] == ["epoch", "phase"]
    context.user("On.")
    said = str(parse(context.request().body))
    assert said.count("Phase report") == (context.provider.wire == "anthropic_messages") and "Phase browse" not in said
    goes_on(desk, context, says_something=False)


def test_other_tools_need_a_table_that_fits_them(claude: Desk) -> None:
    context = begun(claude)
    context.retool(TOOLS[3:])
    assert context.request().mask.allowed == ("notes_read",)
    context.retool(TOOLS[::-1])
    assert context.phase == "browse" and context.request().mask.allowed[0] == "notes_read"
    with pytest.raises(UsageError, match="in phase 'browse'"):
        context.retool(TOOLS, Phases({"other": Phase()}, "other"))
    context.retool(TOOLS, Phases({"browse": Phase(allow=["notes_*"])}, "browse"))
    assert context.request().mask.allowed == ("notes_read", "notes_write")
    goes_on(claude, context)


def test_what_somebody_else_began_gets_its_phase_behind_what_was_said(desk: Desk) -> None:
    context = begun(desk, phases=None)
    desk.ask(context, asks(("report_send", CALL)))
    answer_all(context)
    body = parse(context.request().body)
    desk.server.reset()
    other = Context.from_messages(context.provider, body, phases=phases(), clock=desk.server.clock.now)
    assert other.phase == "browse" and kinds(other)[-1] == "phase" and kinds(other).count("result") == 1
    goes_on(desk, other)


def test_a_caller_may_choose_for_one_call(desk: Desk) -> None:
    context = begun(desk)
    choice = {"type": "auto"} if context.provider.wire == "anthropic_messages" else "auto"
    request = context.request(tool_choice=choice)
    assert request.mask.mechanism == "override" and request.params["tool_choice"] == choice
    assert "tool_choice" not in context.request(tool_choice=None).params


# In band and forced, on Claude
# ----------------------------------------------------------------------------------------------

BETA = "mid-conversation-tool-changes-2026-07-01"


def forced(claude: Desk, provider: AnthropicMessages, table: Phases, text: str = "Find out.") -> Context:
    made = Context(provider, system="Careful. " * 900, tools=TOOLS, phases=table, clock=claude.server.clock.now)
    made.user(text)
    return made


def opted_in(claude: Desk, table: Phases) -> Context:
    return forced(claude, AnthropicMessages("claude-opus-5", max_tokens=1024, betas=[BETA]), table)


def test_small_tables_are_told_in_band_where_the_caller_opted_in(claude: Desk) -> None:
    table = Phases(
        {
            "all": Phase(then={"notes_write": "safe"}),
            "safe": Phase(allow=[*NAMES[:5], NAMES[6]], then={"notes_read": "all"}),
        },
        "all",
    )
    context = opted_in(claude, table)
    assert context.request().mask.mechanism == "tool_changes" and context.request().mask.cost_tokens == 0
    claude.ask(context, asks(("notes_write", CALL)))
    answer_all(context)
    request = context.request()
    assert (request.mask.mechanism, request.mask.enforced_by) == (
        "tool_changes",
        "provider",
    ) and 0 < request.mask.cost_tokens <= 60
    removal = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "report_draft"}}
    last = parse(request.body)["messages"][-1]
    assert (
        last["role"] == "system"
        and {key: last["content"][0][key] for key in removal} == removal
        and len(last["content"]) == 1
    )
    claude.ask(context, asks(("notes_read", CALL)))
    answer_all(context)
    assert "tool_addition" in str(parse(context.request().body)["messages"][-1])
    claude.ask(context, asks(("notes_write", CALL)))
    answer_all(context)
    context.compact("So far.")
    context.user("On.")
    assert str(parse(context.request().body)).count("tool_removal") == 1
    goes_on(claude, context, says_something=False)
    honest(claude, context)


def test_a_change_in_band_is_never_sent_without_its_header(claude: Desk) -> None:
    table = Phases({"a": Phase(allow=NAMES[:6], force=True)}, "a")
    context = opted_in(claude, table)
    request = context.request()
    assert request.headers == {"anthropic-beta": BETA} and "tool_removal" in str(request["messages"])
    more = context.request(extra_headers={"anthropic-beta": "context-management-2025-06-27"})
    assert more.headers == {"anthropic-beta": f"{BETA},context-management-2025-06-27"}
    with claude.client() as client:
        context.receive(client.messages.create(**request))
    plain = Context(AnthropicMessages("claude-opus-5", max_tokens=9), tools=TOOLS, phases=table)
    plain.user("Find out.")
    assert "tool_removal" not in str(plain.request()["messages"]) and plain.request().headers == {}


THINKING: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}
FORCED: list[tuple[str, dict[str, Any], dict[str, Any], Any]] = [
    ("claude-opus-5", {"allow": NAMES[:2], "require": True}, {}, {"type": "any"}),
    ("claude-opus-5", {"allow": NAMES[:1], "require": True}, {}, {"type": "tool", "name": NAMES[0]}),
    ("claude-opus-5", {"allow": []}, {}, {"type": "none"}),
    ("claude-opus-5", {"allow": NAMES[:2]}, {}, None),
    ("claude-opus-5", {"require": True}, {"thinking": {"type": "adaptive"}}, {"type": "any"}),
    ("claude-opus-4-5", {"require": True}, THINKING, None),
    ("claude-sonnet-5-5", {"require": True}, {}, None),
    ("claude-opus-5-5", {"allow": []}, {}, {"type": "none"}),
]


@pytest.mark.parametrize(("model", "fields", "params", "choice"), FORCED)
def test_a_forced_choice_is_sent_only_where_it_is_asked_for_and_accepted(
    claude: Desk, model: str, fields: Any, params: Any, choice: Any
) -> None:
    provider = AnthropicMessages(model, **{"max_tokens": 1024, **params})
    for force in (True, False):
        table = Phases({"a": Phase(**fields, force=force)}, "a")
        context = forced(claude, provider, table)
        request = context.request()
        assert request.params.get("tool_choice") == (choice if force else None)
        assert (request.mask.mechanism == "forced_choice") == bool(force and choice)
        goes_on(claude, context, says_something=False)
        claude.server.reset()


def test_forcing_shows_what_it_costs_and_costs_that(claude: Desk) -> None:
    table = Phases(
        {
            "a": Phase(allow=["browser_*"], then={"browser_close": "b"}),
            "b": Phase(allow=["notes_read"], require=True, force=True),
        },
        "a",
    )
    context = forced(claude, AnthropicMessages("claude-opus-5", max_tokens=1024), table, "Find out. " * 500)
    claude.ask(context, asks(("browser_close", CALL)))
    answer_all(context)
    request = claude.ask(context, asks(("notes_read", CALL)))
    assert request.mask.mechanism == "forced_choice" and request.mask.cost_tokens > 1000
    served = claude.server.ledger[-1].usage
    assert served is not None and bill(served) == bill(request.predicted)
    rebilled = served.write_5m or 0
    assert abs(rebilled + (served.fresh or 0) - request.mask.cost_tokens) <= 60


def test_a_prewarm_is_never_forced(claude: Desk) -> None:
    table = Phases({"a": Phase(allow=["notes_read"], require=True, force=True)}, "a")
    context = forced(claude, AnthropicMessages("claude-opus-5", max_tokens=1024), table)
    assert "tool_choice" not in context.request(max_tokens=0).params
    assert context.receive(claude.send(context.request(max_tokens=0), "send")) is None


def test_parallel_calls_stay_as_the_caller_set_them() -> None:
    table = Phases({"a": Phase(require=True, force=True)}, "a")
    provider = AnthropicMessages(
        "claude-opus-5", max_tokens=9, tool_choice={"type": "auto", "disable_parallel_tool_use": True}
    )
    context = Context(provider, tools=TOOLS, phases=table)
    context.user("Find out.")
    assert context.request().params["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
