"""`contextkit template check`: files in, findings and an exit code out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextkit import Context
from contextkit.providers.openai_compatible import OpenAICompatible
from tests.cli.conftest import Run
from tests.providers.chat_templates import BODY, CALL, FAMILIES, MESSAGES, OTHER, TOOL

pytest.importorskip("jinja2", reason="chat templates need the extra `templates`")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FAMILIES.items():
        (tmp_path / f"{name}.jinja").write_text(text, encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": FAMILIES["drops"], "bos_token": "<s>"})
    )
    (tmp_path / "body.json").write_text(json.dumps(BODY))
    rows: list[Any] = [
        {"request": {**BODY, "messages": BODY["messages"][:4]}, "response": {}},
        {"note": 1},
        {"request": BODY},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "empty.json").write_text("{}")
    for name, text in {
        "endless": "{% for i in range(10**9) %}{% endfor %}",
        "divides": "{{ 1/0 }}",
        "empty": "\n",
    }.items():
        (tmp_path / f"{name}.jinja").write_text(text)
    (tmp_path / "binary.jinja").write_bytes(bytes(range(255, 0, -1)))
    (tmp_path / "torn.json").write_text("{x")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "torn.jsonl").write_text('{"messages": [{"role"\n')
    with Context.from_messages(OpenAICompatible("m", host="vllm"), BODY, folder=tmp_path / "run"):
        pass
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("conversation", ["body.json", "rows.jsonl", "run", "run/log.jsonl"])
def test_every_form_of_a_conversation_is_read(conversation: str, files: Path, run: Run) -> None:
    ended = run("template", "check", "drops.jinja", conversation)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.startswith("thinking: reasoning of earlier turns leaves the prompt")
    assert "(at message 1)" in ended.out and "options of this template: preserve_thinking" in ended.out
    stable = run("template", "check", "stable.jinja", conversation).out
    assert stable == "every prompt of 3 calls is a prefix of the next\n"


LONG = {
    **BODY,
    "messages": [
        *MESSAGES,
        {"role": "assistant", "content": "Welcome. ", "reasoning_content": "Polite."},
        {"role": "user", "content": "One more "},
        {"role": "assistant", "content": None, "reasoning_content": "Again.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "again found"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Bye"},
    ],
}


def checked(run: Run, name: str, conversation: Any, *arguments: str) -> list[dict[str, Any]]:
    Path("given.json").write_text(json.dumps(conversation))
    ended = run(
        "template", "check", f"{name}.jinja", "given.json", "--now", "2026-11-20T12:00:00", "--json", *arguments
    )
    result = json.loads(ended.out)
    assert result["is_stable"] == (ended.code == 0) == (not result["findings"])
    return list(result["findings"])


@pytest.mark.parametrize(
    ("name", "cause", "message", "calls"),
    [
        ("drops", "thinking", 1, [1, 2, 4]),
        ("drops_hard", "thinking", 1, [1, 2, 4]),
        ("dated", "date", -1, []),
        ("floats", "tools_float", 0, [0, 2, 3]),
        ("opens", "generation_prompt", 1, [0, 1, 2, 3, 4]),
        ("trims", "whitespace", 1, [0, 2, 3]),
        ("prints_choice", "tool_choice", -1, []),
    ],
)
def test_each_habit_is_reported_where_it_breaks(
    name: str, cause: str, message: int, calls: list[int], files: Path, run: Run
) -> None:
    (finding,) = checked(run, name, LONG)
    assert (finding["cause"], finding["message"], finding["calls"]) == (cause, message, calls)
    assert finding["was"][:1] != finding["now"][:1] and finding["lost_chars"] > 0


def test_an_option_is_tried_with_set(files: Path, run: Run) -> None:
    assert checked(run, "drops", LONG, "--set", "preserve_thinking=true") == []
    assert checked(run, "dated", LONG, "--set", "date_string=01 Jan 2026") == []
    mended = run("template", "check", "tokenizer_config.json", "body.json", "--set", "preserve_thinking=true", "--json")
    assert (mended.code, json.loads(mended.out)) == (0, {"calls": 3, "is_stable": True, "findings": []})


def changed(**fields: Any) -> list[Any]:
    """Two calls, the second with other fields."""
    return [{**BODY, "messages": MESSAGES[:4], "chat_template_kwargs": {"preserve_thinking": True}}, {**BODY, **fields}]


@pytest.mark.parametrize(
    ("name", "conversation", "cause", "message"),
    [
        ("stable", changed(tools=[OTHER, TOOL]), "tools", -1),
        ("drops", changed(chat_template_kwargs={"preserve_thinking": False}), "kwargs", 1),
        ("stable", changed(messages=[MESSAGES[0], {"role": "user", "content": "Find this."}, *MESSAGES[2:]]), "history", 1),
        ("stable", changed(messages=MESSAGES[:1] + MESSAGES[2:]), "history", 0),
        ("prints_choice", changed(tool_choice="required"), "tool_choice", -1),
    ],
)  # fmt: skip
def test_what_the_caller_changed_is_attributed_to_the_caller(
    name: str, conversation: Any, cause: str, message: int, files: Path, run: Run
) -> None:
    (finding,) = [row for row in checked(run, name, conversation) if row["cause"] == cause]
    assert (finding["message"], finding["calls"][-1:]) == (message, [1])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["drops.jinja", "empty.json"], "no /chat/completions body in it"),
        (["drops.jinja", "torn.jsonl"], "torn.jsonl, line 1: no JSON"),
        (["empty.json", "body.json"], "holds no chat_template"),
        (["empty.jinja", "body.json"], "empty.jinja holds an empty template"),
        (["binary.jinja", "body.json"], "binary.jinja is no UTF-8 text"),
        (["torn.json", "body.json"], "torn.json: no JSON"),
        (["list.json", "body.json"], "list.json holds no chat_template"),
        (["endless.jinja", "body.json"], "the template refuses this conversation: OverflowError"),
        (["divides.jinja", "body.json"], "the template refuses this conversation: ZeroDivisionError"),
        (["drops.jinja", "body.json", "--set", "preserve_thinking"], "write NAME=JSON"),
    ],
)
def test_a_mistake_is_one_line(args: list[str], says: str, files: Path, run: Run) -> None:
    ended = run("template", "check", *args)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1) and says in ended.err


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"messages": ["hi"]}, 'messages[0] must be an object, not "hi"'),
        ({"messages": [None]}, "messages[0] must be an object, not null"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content must be text or a list, not 3"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, 'messages[0].content[0] must be an object, not "a"'),
        ({"messages": [{"content": [{"type": "text", "text": 3}]}]}, "messages[0].content[0].text must be text, not 3"),
        ({"messages": [{"role": "assistant", "tool_calls": 3}]}, "messages[0].tool_calls must be a list, not 3"),
        ({"messages": [{"tool_calls": [{"function": 3}]}]}, "messages[0].tool_calls[0].function must be an object"),
        ({"chat_template_kwargs": 3}, "chat_template_kwargs must be an object, not 3"),
        ({"tools": ["search"]}, 'tools[0] must be an object, not "search"'),
    ],
)
def test_a_malformed_body_is_refused_with_its_place(fields: Any, says: str, files: Path, run: Run) -> None:
    (files / "bodies.jsonl").write_text(json.dumps(BODY) + "\n" + json.dumps({**BODY, **fields}), "utf-8")
    ended = run("template", "check", "drops.jinja", "bodies.jsonl")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"bodies.jsonl, body 2: {says}" in ended.err
