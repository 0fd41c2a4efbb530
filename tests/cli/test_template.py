"""`contextkit template check`: files in, findings and an exit code out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextkit import Context
from contextkit.providers.openai_compatible import OpenAICompatible
from tests.cli.conftest import Run
from tests.providers.templates.families import BODY, FAMILIES

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
def test_every_form_of_a_conversation_says_the_same(conversation: str, files: Path, run: Run) -> None:
    ended = run("template", "check", "drops.jinja", conversation)
    assert (ended.code, ended.err) == (1, "")
    assert (
        ended.out.startswith("thinking: reasoning of earlier turns leaves the prompt") and "in message 2" in ended.out
    )
    assert (
        "helps (rendered again to see): chat_template_kwargs={'preserve_thinking': True}; the last prompt becomes"
        in ended.out
    )
    assert (
        run("template", "check", "stable.jinja", conversation).out
        == "every prompt of 3 calls is gone on with by the next\n"
    )


def test_an_option_is_tried_by_hand_and_json_holds_everything(files: Path, run: Run) -> None:
    mended = run("template", "check", "tokenizer_config.json", "body.json", "--set", "preserve_thinking=true", "--json")
    assert (mended.code, json.loads(mended.out)) == (0, {"calls": 3, "is_stable": True, "findings": []})
    (found,) = json.loads(run("template", "check", "dated.jinja", "body.json", "--now", "2026-11-20", "--json").out)[
        "findings"
    ]
    assert (found["cause"], found["message"], found["was"][:4], found["now"][:4]) == ("date", -1, "0 No", "1 No")
    assert found["remedies"][0]["options"] == {"date_string": "01 Jan 2026"}


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
