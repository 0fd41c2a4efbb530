"""pi's session files of versions 2 and 3, which branch: files made here in pi's format (`docs/session-format.md` of pi
0.74.2)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contextkit.errors import UnreadableLog
from contextkit.importers.pi import read_pi
from contextkit.importers.recording import AssistantTurn, Compacted, EffortChanged, Text, UserTurn
from contextkit.importers.registry import ledger_at, records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.misses import misses
from contextkit.ledger.summary import summarise

AT = 1_765_231_200.0
"""2025-12-08 22:00 UTC."""
COUNTERS = ("input", "cacheRead", "cacheWrite", "output")


class Session:
    """Writes a session as pi does: every entry continues the one before, unless `goto` went elsewhere."""

    def __init__(self, path: Path, version: int = 3) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = [
            {"type": "session", "version": version, "id": "0aaa", "timestamp": "2025-12-08T22:41:05.000Z", "cwd": "/"}
        ]
        self.leaf: str | None = None
        self.seconds = 0

    def goto(self, entry_id: str | None) -> None:
        self.leaf = entry_id

    def entry(self, kind: str, **fields: Any) -> str:
        self.seconds += 1
        minutes, seconds = divmod(self.seconds, 60)
        at = f"2025-12-08T{22 + minutes // 60:02}:{minutes % 60:02}:{seconds:02}.000Z"
        entry_id = f"{len(self.records):08x}"
        self.records.append({"type": kind, "id": entry_id, "parentId": self.leaf, "timestamp": at, **fields})
        self.leaf = entry_id
        return entry_id

    def message(self, role: str, **fields: Any) -> str:
        return self.entry("message", message={"role": role, "timestamp": (AT + self.seconds) * 1000, **fields})

    def user(self, text: str) -> str:
        return self.message("user", content=[{"type": "text", "text": text}])

    def reply(
        self, text: str, billed: tuple[int, int, int, int] | None = (1, 2, 3, 4), stop: str = "stop", **more: Any
    ) -> str:
        usage = dict(zip(COUNTERS, billed or (0, 0, 0, 0), strict=True))
        content = [{"type": "text", "text": text}] if text else []
        made = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-5"}
        return self.message("assistant", content=content, usage=usage, stopReason=stop, **made, **more)

    def write(self) -> Path:
        self.path.write_text("".join(json.dumps(record) + "\n" for record in self.records), "utf-8")
        return self.path


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "session.jsonl")


def calls(path: Path, faults: Faults | None = None) -> list[ModelCall]:
    return [record for record in records_at(str(path), faults)[1] if isinstance(record, ModelCall)]


def prompts(path: Path) -> list[list[bytes]]:
    """The running digests of each call's prompt: equal where two prompts begin alike."""
    return [list(prompt.digests) for _, prompt in ledger_at(path)[1].prompts() if prompt is not None]


def independent_sum(path: Path) -> dict[str, int]:
    total = dict.fromkeys(COUNTERS, 0)
    for line in path.read_text("utf-8").splitlines():
        usage = json.loads(line).get("message", {}).get("usage", {})
        for name in COUNTERS:
            total[name] += usage.get(name, 0)
    return total


def summed(path: Path) -> dict[str, int]:
    usage = summarise(ledger_at(path)[1]).usage
    return dict(zip(COUNTERS, (usage.fresh, usage.read, usage.write_5m, usage.output), strict=True))


def test_a_call_continues_the_branch_of_its_parent(session: Session) -> None:
    session.user("first")
    trunk = session.reply("one")
    session.user("second")
    end_of_main = session.reply("two")
    session.goto(trunk)
    fork = session.user("second, asked another way")
    session.reply("two again")
    session.user("third")
    session.reply("three")
    session.goto(end_of_main)
    session.user("and on")
    session.reply("four")
    path = session.write()
    assert [(call.session, call.lane) for call in calls(path)] == [
        ("0aaa", "main"),
        ("0aaa", "main"),
        ("0aaa", f"branch {fork}"),
        ("0aaa", f"branch {fork}"),
        ("0aaa", "main"),
    ]
    assert len({call.id for call in calls(path)}) == 5
    first, main, branch, branch_on, main_on = prompts(path)
    assert main[: len(first)] == branch[: len(first)] == first
    assert branch_on[: len(branch)] == branch
    assert main_on[: len(main)] == main
    assert len(branch) == len(main) == 3
    assert branch[1] == main[1] != branch[2] != main[2]
    assert [miss.cause for miss in misses(ledger_at(path)[1])] == []


def test_a_prompt_is_the_path_from_the_root(session: Session) -> None:
    """A call on a branch has the prompt it would have in a file of its own, without the other branches."""
    session.user("first")
    fork = session.reply("one")
    session.user("lost")
    session.reply("gone")
    session.goto(fork)
    session.user("second")
    session.reply("two")
    alone = Session(session.path.with_name("alone.jsonl"))
    alone.user("first")
    alone.reply("one")
    alone.user("second")
    alone.reply("two")
    assert prompts(session.write())[-1] == prompts(alone.write())[-1]


def test_two_replies_to_one_message_are_branches(session: Session) -> None:
    asked = session.user("first")
    session.reply("one")
    again = []
    for text in ("uno", "un"):
        session.goto(asked)
        again.append(session.reply(text))
    assert [call.lane for call in calls(session.write())] == ["main", f"branch {again[0]}", f"branch {again[1]}"]


def test_a_session_may_have_two_roots(session: Session) -> None:
    session.user("first")
    session.reply("one")
    session.goto(None)
    root = session.user("first, asked another way")
    session.reply("uno")
    assert [call.lane for call in calls(session.write())] == ["main", f"branch {root}"]


def test_a_compaction_keeps_what_is_on_its_own_path(session: Session) -> None:
    session.user("first")
    fork = session.reply("one")
    kept = session.user("second")
    session.reply("two")
    session.entry("compaction", summary="so far", firstKeptEntryId=kept, tokensBefore=9)
    session.user("third")
    session.reply("three")
    session.goto(fork)
    session.entry("compaction", summary="of the branch", firstKeptEntryId=kept, tokensBefore=9)
    session.user("other")
    session.reply("four")
    path = session.write()
    after, other = (call.prompt for call in calls(path)[-2:])
    assert (after.epoch, other.epoch) == (1, 1)  # type: ignore[union-attr]
    assert [len(prompt) for prompt in prompts(path)] == [
        1,
        3,
        4,
        2,
    ]  # what is kept stands on another path than the branch's
    assert read_pi(path).events[-3] == Compacted(AT + 8, "of the branch", None, 9)


def test_what_the_model_is_shown_is_in_the_prompt_and_the_rest_is_not(session: Session) -> None:
    session.user("first")
    fork = session.reply("one")
    session.user("second")
    left = session.reply("two")
    session.goto(fork)
    session.entry("branch_summary", fromId=left, summary="We asked twice.")
    session.entry("label", targetId=fork, label="checkpoint")
    session.entry("session_info", name="a name")
    session.entry("custom", customType="state", data={"n": 1})
    session.entry("custom_message", customType="note", content="Mind the gap.", display=False)
    session.message("custom", customType="note", content=[{"type": "text", "text": "Mind it."}], display=True)
    session.entry("thinking_level_change", thinkingLevel="high")
    session.entry("model_change", provider="anthropic", modelId="claude-opus-4-5")
    ran = {"output": "x", "exitCode": 0, "cancelled": False, "truncated": False}
    session.message("bashExecution", command="ls", **ran)
    session.message("bashExecution", command="env", excludeFromContext=True, **ran)
    session.reply("done")
    events = read_pi(session.write()).events
    shown = [
        event.parts[0].text for event in events if isinstance(event, UserTurn) and isinstance(event.parts[0], Text)
    ]
    summary = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\nWe asked twice.</summary>"
    assert shown == ["first", summary, "Mind the gap.", "Mind it.", "Ran `ls`\n```\nx\n```"]
    assert [event.level for event in events if isinstance(event, EffortChanged)] == ["high"]
    assert len(prompts(session.path)[-1]) == len(shown) + 1
    faults = Faults()
    calls(session.path, faults)
    assert not faults.kept


def test_version_2_names_the_messages_of_extensions_otherwise(tmp_path: Path) -> None:
    session = Session(tmp_path / "session.jsonl", version=2)
    session.message("hookMessage", customType="note", content="Mind the gap.", display=True)
    session.reply("yes")
    assert [len(prompt) for prompt in prompts(session.write())] == [1]


def test_an_aborted_turn_is_a_call_without_usage(session: Session) -> None:
    session.user("first")
    session.reply("", None, stop="aborted", errorMessage="Request was aborted.")
    session.user("again")
    session.reply("one")
    ended = [(call.error, call.usage is None) for call in calls(session.write())]
    assert ended == [("aborted", True), (None, False)]


def test_what_nobody_knows_is_counted_and_reported_once(session: Session) -> None:
    session.user("first")
    for _ in range(7):
        session.entry("surprise", payload=[1])
    session.message("oracle", content="?")
    session.message("user", content=[{"type": "hologram", "data": "x"}])
    session.reply("one", stop="a new reason")
    faults = Faults()
    found = calls(session.write(), faults)
    assert len(found) == 1
    assert [fault.what for fault in faults.kept] == [
        "7 records of an unknown type, 'surprise'; passed over",
        "1 records of an unknown type, a message of role 'oracle'; passed over",
    ]
    assert len(prompts(session.path)[0]) == 2  # the path leads through what was passed over
    assert len([event for event in read_pi(session.path).events if isinstance(event, AssistantTurn)]) == 1


def test_a_later_version_is_reported_as_far_as_it_is_understood(tmp_path: Path) -> None:
    session = Session(tmp_path / "session.jsonl", version=4)
    session.user("first")
    session.reply("one")
    faults = Faults()
    assert len(calls(session.write(), faults)) == 1
    assert [fault.what for fault in faults.kept] == [
        "format version 4, read as version 3: what is new in it is passed over"
    ]
    with pytest.raises(UnreadableLog, match="format version 4, only versions 1 to 3 are read"):
        read_pi(session.path)


def test_an_entry_whose_parent_is_missing_is_counted(session: Session) -> None:
    session.user("first")
    session.reply("one")
    session.goto("feedbeef")
    session.user("second")
    session.reply("two")
    faults = Faults()
    assert len(calls(session.write(), faults)) == 2
    assert [fault.what for fault in faults.kept] == [
        "1 entries continue one that is not in the file: their prompts are known in part"
    ]


def test_a_damaged_entry_does_not_cut_the_path(session: Session) -> None:
    session.user("first")
    session.message("user")  # without content
    session.reply("one")
    faults = Faults()
    assert len(calls(session.write(), faults)) == 1
    assert [(fault.line, fault.what) for fault in faults.kept] == [(3, "KeyError 'content'")]
    assert len(prompts(session.path)[0]) == 1


def test_a_forked_file_is_counted_once(session: Session) -> None:
    session.user("first")
    session.reply("one", (10, 20, 30, 40))
    session.write()
    fork = Session(session.path.with_name("fork.jsonl"))
    fork.records = [{**session.records[0], "id": "0bbb", "parentSession": str(session.path)}, *session.records[1:]]
    fork.leaf = session.leaf
    fork.seconds = 30
    fork.user("second")
    fork.reply("two", (1, 1, 1, 1))
    faults = Faults()
    found = [*calls(session.path, faults), *calls(fork.write(), faults)]
    assert [(call.usage.fresh, call.usage.output) for call in found if call.usage] == [(10, 40), (1, 1)]
    assert read_pi(fork.path).branched_from == str(session.path)


def grown(session: Session, seed: int) -> Path:
    """A session that goes anywhere at any time."""
    draw = random.Random(seed)
    places: list[str | None] = [None]
    acts: list[Callable[[], str]] = [
        lambda: session.user(f"question {draw.random()}"),
        lambda: session.reply(f"answer {draw.random()}", tuple(draw.randrange(9_000) for _ in range(4))),  # type: ignore[arg-type]
        lambda: session.reply("", None, stop="aborted"),
        lambda: session.entry(
            "compaction", summary="short", firstKeptEntryId=draw.choice(places), tokensBefore=draw.randrange(99)
        ),
        lambda: session.entry("branch_summary", fromId="root", summary=draw.choice(["", "left"])),
        lambda: session.entry("label", targetId="x", label="y"),
        lambda: session.entry("thinking_level_change", thinkingLevel=draw.choice(["off", "low", "high"])),
        lambda: session.entry("custom_message", customType="a", content="b", display=True),
        lambda: session.entry("unheard of"),
    ]
    for _ in range(draw.randrange(5, 120)):
        if draw.random() < 0.2:
            session.goto(draw.choice(places))
        places.append(draw.choices(acts, (6, 8, 1, 1, 1, 1, 1, 1, 1))[0]())
    return session.write()


def lanes(path: Path) -> Iterator[list[ModelCall]]:
    found = calls(path)
    for name in dict.fromkeys(call.lane for call in found):
        yield [call for call in found if call.lane == name]


@pytest.mark.parametrize("seed", range(10))
def test_totals_are_those_of_the_file(session: Session, seed: int) -> None:
    path = grown(session, seed)
    n_replies = sum(record.get("message", {}).get("role") == "assistant" for record in session.records)
    assert len(calls(path)) == n_replies
    if n_replies:
        assert summed(path) == independent_sum(path)
        assert sum(len(lane) for lane in lanes(path)) == n_replies
        on_path = sum(isinstance(event, AssistantTurn) for event in read_pi(path).events)
        assert on_path + read_pi(path).n_calls_elsewhere == n_replies


def test_a_long_session_is_read_without_recursion(session: Session) -> None:
    for number in range(3_000):
        session.user(f"question {number}")
        session.reply(f"answer {number}")
    fork = session.records[9]["id"]
    session.goto(fork)
    session.user("back to the beginning")
    session.reply("so far back")
    assert [len(lane) for lane in lanes(session.write())] == [3_000, 1]
