"""Which call goes on from which, where sessions were recorded and where the text alone says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from contextkit.ledger.calls import ModelCall
from contextkit.lint.catalogue import hazards
from contextkit.lint.requests.detect import Calls, Detector, find_in_requests
from contextkit.lint.requests.rule import Evidence
from tests.lint.trace.calls import WORDS, anthropic, assistant, call, hazard, text, tool, user

Json = Any
TOOLS = [tool("read"), tool("write")]
A = [
    user("build a parser"),
    assistant("reading"),
    user("here is the file " * 30),
    assistant("done reading"),
    user("go on"),
]
B = [
    user("write the docs"),
    assistant("which ones"),
    user("all of them, please " * 30),
    assistant("fine"),
    user("thanks"),
]


def grouped(recorded_calls: Iterable[ModelCall]) -> list[list[int]]:
    """Numbers of the calls of each conversation."""
    seen: list[Calls] = []

    def look(calls: Calls) -> list[Evidence]:
        seen.append(calls)
        return []

    detector = Detector([hazard("CKM01", "session", look)], has_costs=False)
    for recorded in recorded_calls:
        list(detector.feed(recorded))
    list(detector.finish())
    return [[sent.index for sent in calls] for calls in seen[0].conversations.values()]


def said(*bodies: Json, session: str = "s") -> list[ModelCall]:
    return [call(body, number, session=session) for number, body in enumerate(bodies)]


def body(messages: list[Json], **more: Json) -> Json:
    return anthropic(*messages, **{"tools": TOOLS, **more})


def test_two_conversations_in_one_session_are_told_apart_by_their_text() -> None:
    assert grouped(said(body(A[:1]), body(B[:1]), body(A[:3]), body(B[:3]), body(B), body(A))) == [[0, 2, 5], [1, 3, 4]]


def test_lanes_are_believed() -> None:
    calls = [call(body(A[:1]), 0), call(body(A[:3]), 1, lane="fork@2"), call(body(A[:3]), 2)]
    assert grouped(calls) == [[0, 2], [1]]


def test_lanes_that_a_reader_inferred_are_looked_at_again() -> None:
    edited = [user("build a parser " + "in Rust"), *A[1:]]
    calls = [
        call(body(A[:1]), 0),
        call(body(edited[:3]), 1, lane="conversation 2"),
        call(body(B[:1]), 2, lane="conversation 3"),
    ]
    assert grouped(calls) == [[0, 1], [2]]


def test_a_first_question_that_is_filled_in_anew_stays_with_its_conversation() -> None:
    def asked(memories: str, *more: Json) -> Json:
        return body([user(f"<memories>{memories}</memories> Build a parser. " + "It is to be small. " * 30), *more])

    turns = (
        asked("tea"),
        asked("tea, a dog", assistant("Which?"), user("C")),
        asked("a dog", assistant("Which?"), user("C"), *A[1:3]),
    )
    for session in ("s", ""):
        assert grouped(said(*turns, session=session)) == [[0, 1, 2]]


def test_another_question_in_the_same_words_is_a_conversation_of_its_own() -> None:
    first, second = (
        user(f"Review {name}. " + "Be thorough and say what is wrong. " * 30) for name in ("parser.py", "lexer.py")
    )
    calls = said(body([first]), body([second]), body([second, *A[1:3]]), body([first, *B[1:3]]))
    assert grouped(calls) == [[0, 3], [1, 2]]


def test_a_title_is_a_conversation_of_its_own() -> None:
    title = anthropic(A[0], system="Write a title of five words.")
    assert grouped(said(body(A[:1]), title, body(A[:3]))) == [[0, 2], [1]]


def test_a_summary_of_the_whole_history_under_another_prompt_is_one_too() -> None:
    summary = anthropic(*A, assistant("so"), user("summarise"), system="You summarise conversations.", tools=[])
    assert grouped(said(body(A[:3]), body(A), summary)) == [[0, 1], [2]]


def test_an_edited_a_cut_and_a_compacted_history_stay() -> None:
    edited = [A[0], assistant("reading "), *A[2:], assistant("x"), user("y")]
    compacted = [
        user("Summary of the conversation so far: a parser was built. " * 3),
        *A[4:],
        assistant("x"),
        user("y"),
    ]
    assert grouped(said(body(A), body(edited), body(edited[2:]))) == [[0, 1, 2]]
    assert grouped(said(body(A), body(compacted))) == [[0, 1]]


def test_a_changed_head_stays() -> None:
    others = (
        body(A, system=f"{WORDS} It is 10:01."),
        body(A, tools=[]),
        body(A, tools=[tool("x"), *TOOLS]),
        body(A, system="All is new."),
    )
    for other in others:
        assert grouped(said(body(A[:3]), other)) == [[0, 1]]


def test_agents_given_the_same_words_are_told_apart_by_their_prompts() -> None:
    plan, code = ({"system": text} for text in ("You plan what others do. " * 90, "A coder writes code only. " * 90))
    second = [A[0], assistant("planned"), user("go on")]
    calls = (
        body(A[:1], **plan),
        body(A[:1], **code),
        body(second, **plan),
        body(A[:3], **code),
        body([*second, *A[3:]], **plan),
    )
    assert grouped(said(*calls, session="")) == [[0, 2, 4], [1, 3]]


def test_what_users_with_prompts_of_their_own_say_alike_breaks_nothing() -> None:
    alice, bob = ({"system": f"{WORDS}You talk to {user}."} for user in ("Alice", "Bob"))
    calls = said(*(body(A[:n], **user) for n in (1, 3, 5) for user in (alice, bob)))
    found = [finding for finding in find_in_requests(calls, hazards()) if finding.place.level in {"system", "tools"}]  # type: ignore[union-attr]
    assert [finding.place.turn for finding in found] == [2]  # type: ignore[union-attr]


def test_an_image_sent_anew_stays_with_its_conversation_however_large_and_others_do_not() -> None:
    def seen(data: str, *more: Json) -> Json:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data * 5000}}
        return body([{"role": "user", "content": [image, text("what is this?")]}, *more])

    assert grouped(said(seen("aa"), seen("bb", assistant("a parcel"), user("whose?")), session="")) == [[0, 1]]
    assert grouped(said(*(seen(data) for data in ("aa", "bb", "cc")), session="")) == [[0], [1], [2]]


def test_siblings_of_a_fan_out_are_conversations_of_their_own() -> None:
    first, second, third = ([*A[:4], user(f"review file {name}.py")] for name in "xyz")
    on = [[*said, assistant(f"fine {said[-1]}"), user("go on")] for said in (first, second, third)]
    calls = said(body(A[:3]), body(first), body(second), body(third), *(body(messages) for messages in on))
    assert grouped(calls) == [[0, 1, 4], [2, 5], [3, 6]]


def test_going_back_starts_anew_and_breaks_nothing() -> None:
    calls = said(body(A[:1]), body(A[:3]), body(A), body(A[:3]))
    assert grouped(calls) == [[0, 1, 2], [3]]


def test_a_question_asked_anew_further_up_is_a_branch_and_breaks_nothing() -> None:
    asked = [user("all of it, in Rust " * 9)]
    turns = (
        [*A[:2], user("here is the file " * 30), *A[3:], assistant("x"), user("y")],
        [*A[:2], *asked],
        [*A[:2], *asked, *B[3:]],
    )
    for session in ("s", ""):
        calls = said(body(A[:1]), body(A[:3]), body(A), *map(body, turns), session=session)
        assert grouped(calls) == [[0, 1, 2, 3], [4, 5]]
        assert not [finding.code for finding in find_in_requests(calls, hazards()) if finding.cost_tokens]


def test_what_stands_for_a_history_behind_its_first_question_is_no_question() -> None:
    short = user("Sum up what you found so far.")
    for what, groups in (
        (user("Summary of the conversation so far: a parser was built. " * 5), [[0, 1]]),
        (short, [[0], [1]]),
    ):
        assert grouped(said(body([*A, *B[1:]]), body([*A[:2], what]))) == groups
    assert grouped(said(body([*A, *B[1:]]), body([*A[:2], B[4]]))) == [
        [0, 1]
    ]  # said further down: what was between is gone


def test_without_sessions_strangers_are_told_apart() -> None:
    assert grouped(said(body(A[:3]), body(B[:3]), body(A), body(B), session="")) == [[0, 2], [1, 3]]


def test_a_stateful_request_goes_on_from_the_response_it_names() -> None:
    def asked(words: str, **more: Json) -> Json:
        return {"model": "gpt-5.1", "instructions": WORDS, "input": [{"role": "user", "content": words}], **more}

    bodies = asked("a"), asked("b"), asked("c", previous_response_id="r0"), asked("d", previous_response_id="r1")
    calls = [call(each, number, "openai_responses") for number, each in enumerate(bodies)]
    assert grouped(calls) == [[0, 2], [1, 3]]


def test_a_conversation_of_the_provider_s_is_one() -> None:
    def asked(words: str, name: Json) -> Json:
        return {"model": "gpt-5.1", "instructions": WORDS, "input": words, "conversation": name}

    bodies = asked("a", "conv_1"), asked("b", "conv_2"), asked("c", {"id": "conv_1"}), asked("d", "conv_2")
    calls = [call(each, number, "openai_responses") for number, each in enumerate(bodies)]
    assert grouped(calls) == [[0, 2], [1, 3]]


def items(*spoken: str, ids: str = "c") -> list[Json]:
    """Items of Responses: what a user says, then calls and what they gave."""
    found: list[Json] = [{"role": "user", "content": [{"type": "input_text", "text": spoken[0]}]}]
    for number, given in enumerate(spoken[1:]):
        found.append({"type": "function_call", "call_id": f"{ids}{number}", "name": "read", "arguments": "{}"})
        found.append({"type": "function_call_output", "call_id": f"{ids}{number}", "output": given})
    return found


def on_responses(*inputs: list[Json]) -> list[ModelCall]:
    bodies = ({"model": "gpt-5.1", "instructions": WORDS, "input": each} for each in inputs)
    return [call(each, number, "openai_responses") for number, each in enumerate(bodies)]


def test_calls_that_are_items_answer_too() -> None:
    reminder = [{"role": "user", "content": [{"type": "input_text", "text": "Keep it short."}]}]
    assert grouped(on_responses(items("build it") + reminder, items("build it", "done") + reminder)) == [[0, 1]]


def test_new_ids_or_shapes_are_no_new_conversation_in_a_recorded_session() -> None:
    results = ["the file " * 40, "the other file " * 40, "a third one " * 40]
    assert grouped(on_responses(items("go", *results), items("go", *results, "x", ids="call_"))) == [[0, 1]]
    shortened = [result[:20] + "[cut]" for result in results]
    assert grouped(on_responses(items("go", *results), items("go", *shortened, "x"))) == [[0, 1]]
    other = on_responses(
        items("go", *results), items("bake bread", "flour " * 90, "water " * 90, "salt " * 90, "x", ids="call_")
    )
    assert grouped(other) == [[0], [1]]


def test_the_frame_of_a_system_block_is_no_likeness() -> None:
    one, other = ([{"type": "text", "text": words}] for words in ("You are an agent.", "You summarize conversations."))
    retold = anthropic(user("Summary of: " + "the file " * 40), system=other)
    assert grouped(said(anthropic(*A, *A, system=one), retold)) == [[0], [1]]
