"""The relation of a call to the calls before it: one test for each, on request bodies."""

from __future__ import annotations

from typing import Any

import pytest

from contextkit.ledger.calls import ModelCall
from contextkit.ledger.parsed_call import BodyParser, ParsedCall
from contextkit.prompt.conversations import Conversations, Placement

Json = Any
TOOLS = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("read", "edit", "task")]
SYSTEM = "You are a careful coding agent. " * 20
QUESTION = "Why does the build fail on the second machine? " * 8


def said(*texts: str) -> list[Json]:
    """Messages that user and model write in turn."""
    return [{"role": "assistant" if index % 2 else "user", "content": text} for index, text in enumerate(texts)]


def body(messages: list[Json], session: str = "", **fields: Json) -> Json:
    metadata = {"metadata": {"user_id": f"user_1_account_2_session_{session}"}} if session else {}
    return {"model": "claude-sonnet-5", "tools": TOOLS, "system": SYSTEM, "messages": messages, **metadata, **fields}


class Stream:
    """Places bodies one after the other."""

    def __init__(self) -> None:
        self.parser, self.conversations = BodyParser(), Conversations[ParsedCall]()

    def place(self, fields: Json) -> Placement[ParsedCall]:
        call = ModelCall("", "", "", 0.0, None, None, "", fields["model"], None, None, None, None)
        return self.conversations.place(self.parser.parse(call, fields, "anthropic")[0])


def relations(*bodies: Json) -> list[str]:
    stream = Stream()
    return [stream.place(fields).relation for fields in bodies]


TALK = said(QUESTION, "It lacks a compiler.", "Then install one.", "Done.", "Run the tests.")


def test_a_longer_history_continues() -> None:
    stream = Stream()
    first, second = stream.place(body(TALK[:1])), stream.place(body(TALK[:3]))
    assert (first.relation, first.before, first.parent) == ("new", None, None)
    assert (second.relation, second.conversation) == ("continues", first.conversation)
    assert second.before is not None
    assert second.conversation.n_calls == 2


def test_a_truncated_history_continues() -> None:
    assert relations(body(TALK), body([*said("[removed]"), *TALK[1:]])) == ["new", "continues"]


@pytest.mark.parametrize("change", [{}, {"system": SYSTEM + "Today is Tuesday."}, {"temperature": 0.5}])
def test_the_same_messages_are_a_retry(change: Json) -> None:
    assert relations(body(TALK), body(TALK, **change)) == ["new", "retry"]


def test_a_question_asked_again_from_an_earlier_place_is_a_branch() -> None:
    stream = Stream()
    main = stream.place(body(TALK))
    other = stream.place(body([*TALK[:2], {"role": "user", "content": "Use the container instead."}]))
    assert (other.relation, other.before, other.parent) == ("branch", None, main.conversation)


def test_a_fan_out_on_one_document_is_branches() -> None:
    document = {"type": "text", "text": "Chapter one. " * 100}
    asked = [
        body([{"role": "user", "content": [document, {"type": "text", "text": text}]}])
        for text in ("Who is the hero?", "Where is it set?", "When was it written?")
    ]
    assert relations(*asked) == ["new", "branch", "branch"]


def test_another_conversation_of_one_agent_is_new() -> None:
    other = body(said("What does the lexer do with tabs?"))
    assert relations(body(TALK), other) == ["new", "new"]
    assert relations(body(TALK, "s"), {**other, "metadata": {"session_id": "s"}}) == ["new", "new"]


TITLE = {"tools": [], "system": "Write a title of three words."}


def test_a_title_of_the_session_is_a_side_call() -> None:
    stream = Stream()
    main = stream.place(body(TALK, "s"))
    title = stream.place(body(said(QUESTION), "s", **TITLE))
    assert (title.relation, title.parent) == ("side_call", main.conversation)
    assert stream.place(body([*TALK, *said("x", "They pass.")[1:], *said("Good.")], "s")).relation == "continues"
    assert stream.place(body(said(QUESTION), "t", **TITLE)).relation == "new"  # the first call of its session
    assert stream.place(body(TALK[:1], "t")).relation == "new"  # the main agent behind its title


def test_tools_and_instructions_of_its_own_are_a_sub_agent() -> None:
    agent = {"tools": TOOLS[:1], "system": "Search the repository for what you are asked, and answer in one line."}
    assert relations(body(TALK, "s"), body(said("Find the lexer."), "s", **agent)) == ["new", "sub_agent"]
    assert relations(body(TALK), body(said("Find the lexer."), **agent)) == ["new", "new"]  # nothing names a session


def test_an_agent_that_the_client_names_is_a_sub_agent() -> None:
    def codex(thread: str, *texts: str) -> Json:
        items = [{"type": "message", **message} for message in said(*texts)]
        names = {"session_id": "s", "thread_id": thread, "x-codex-window-id": f"{thread}:0"}
        return {"model": "gpt-6", "instructions": SYSTEM, "input": items, "client_metadata": names}

    assert relations(codex("s", QUESTION), codex("t", QUESTION), codex("t", QUESTION, "Yes.", "And?")) == [
        "new",
        "sub_agent",
        "continues",
    ]


def test_another_session_that_repeats_replies_is_a_resume() -> None:
    assert relations(body(TALK[:3], "s"), body(TALK, "t"), body(TALK[:1], "u")) == ["new", "resume", "new"]


def test_a_summary_in_place_of_the_history_is_a_compaction() -> None:
    history = said(*(f"{QUESTION} {index}" for index in range(9)))
    summary = "This session is continued from a previous conversation. Summary: the compiler was missing."
    assert relations(body(history, "s"), body(said(summary), "s")) == ["new", "compaction"]


def test_another_context_window_is_a_compaction() -> None:
    def codex(window: int, text: str) -> Json:
        names = {"session_id": "s", "thread_id": "s", "x-codex-window-id": f"s:{window}"}
        items = [{"type": "message", "role": "user", "content": text}]
        return {"model": "gpt-6", "instructions": SYSTEM, "input": items, "client_metadata": names}

    assert relations(codex(0, QUESTION), codex(1, "Nothing of it is left.")) == ["new", "compaction"]
