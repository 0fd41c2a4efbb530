"""`contextkit lint`: what it is given, what it says, how it leaves, what it changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextkit.importers.registry import records_at
from contextkit.ledger.calls import Bodies, ModelCall, Remark
from contextkit.ledger.ledger import Ledger
from contextkit.lint.catalogue import hazards, page
from tests.cli.conftest import Run

CLEAN = "def add(a, b):\n    return a + b\n"
HAZARDOUS = """from datetime import datetime

import anthropic

client = anthropic.Anthropic()


def ask(history, question):
    return client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=100,
        system=f"It is {datetime.now()}. You are terse.",
        messages=[*history, {"role": "user", "content": question}],
    )
"""
RULES = "You are a careful researcher. " * 2000


def recording(path: Path, *systems: str, **fields: Any) -> Path:
    """A ledger of one conversation whose system prompt is that of each call, with further `fields` in each request."""
    messages: list[dict[str, Any]] = []
    with Ledger(path) as ledger:
        for number, system in enumerate(systems):
            messages.append({"role": "user", "content": [{"type": "text", "text": f"Question {number}"}]})
            block = {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
            body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "system": [block], "messages": messages, **fields}
            raw, at = json.dumps(body).encode(), 1_790_000_000.0 + 20 * number
            ledger.append(
                ModelCall(
                    f"m{number}",
                    "s",
                    "main",
                    at,
                    at + 1,
                    at + 2,
                    "anthropic",
                    "claude-sonnet-5-5",
                    Bodies(raw),
                    None,
                    None,
                    None,
                )
            )
            messages.append({"role": "assistant", "content": [{"type": "text", "text": "An answer."}]})
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "clean.py").write_text(CLEAN, "utf-8")
    (tmp_path / "bad.py").write_text(HAZARDOUS, "utf-8")
    recording(tmp_path / "broken.jsonl", f"Rules of Ada. {RULES}", f"Rules of Bob. {RULES}", f"Rules of Bob. {RULES}")
    recording(tmp_path / "steady.jsonl", RULES, RULES, RULES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def codes(said: str) -> list[str]:
    return [finding["code"] for finding in json.loads(said)["findings"]]


# Pages
# --------------------------------------------------------------------------------------------------------------------


def test_explain_as_json_holds_the_parts_of_the_page(run: Run) -> None:
    for code in ("CK000", *(row.code for row in hazards())):
        parts = json.loads(run("lint", "--explain", code, "--json").out)
        assert parts["code"] == code
        sections = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in parts["sections"].items())
        summary, _, rest = page(code).partition("\n\n## ")
        assert " ".join(summary.split()) == f"# {code} {parts['name']} {parts['title']}"
        assert f"## {rest}" == f"{sections}\n"


def test_explain_indents_code_and_prints_no_fences(run: Run) -> None:
    text = run("lint", "--explain", "CKM09").out
    assert "\n    outgoing = copy.deepcopy(messages)\n" in text
    assert "```" not in text


# How it leaves
# ------------------------------------------------------------------------------------------------------------


def test_code_without_hazards_leaves_with_0(folder: Path, run: Run) -> None:
    ended = run("lint", "src")
    assert (ended.code, ended.out, ended.err) == (0, "No hazards found in 1 Python file.\n", "")


def test_code_with_a_hazard_leaves_with_1_and_names_its_line(folder: Path, run: Run) -> None:
    ended = run("lint", "bad.py")
    assert (ended.code, ended.err) == (1, "")
    assert "bad.py:12:" in ended.out and "CKS01" in ended.out
    assert '12 |         system=f"It is {datetime.now()}. You are terse.",\n' in ended.out
    assert run("lint") == run("lint", ".")
    assert run("lint", "bad.py", "--exit-zero").code == 0


def test_a_recording_is_known_by_its_content(folder: Path, run: Run) -> None:
    broken = run("lint", "broken.jsonl")
    assert (broken.code, broken.err) == (1, "")
    assert "turn 2 system" in broken.out and "Ada" in broken.out
    steady = run("lint", "steady.jsonl", "--json")
    assert "system" not in {finding["place"]["level"] for finding in json.loads(steady.out)["findings"]}
    renamed = (folder / "broken.jsonl").rename(folder / "recording.txt")
    assert run("lint", renamed.name).out == broken.out


def test_code_and_recordings_are_told_in_one_run(folder: Path, run: Run) -> None:
    for args, kinds in ((["bad.py"], {"code", "request"}), ([], {"request"})):
        ended = run("lint", *args, "--requests", "broken.jsonl", "--json")
        assert {finding["place"]["kind"] for finding in json.loads(ended.out)["findings"]} == kinds


def test_a_recording_on_which_there_is_no_verdict_is_nothing_to_look_at(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "bare.jsonl"
    with Ledger(path) as ledger:
        ledger.append(
            ModelCall("m", "s", "main", 1.0, 2.0, 3.0, "anthropic", "claude-sonnet-5-5", None, None, None, None)
        )
    ended = run("lint", path)
    assert (ended.code, ended.out, ended.err) == (0, "Nothing to look at: no recorded call.\n", "")


def test_what_the_provider_said_of_a_call_stands_beside_its_finding(folder: Path, run: Run) -> None:
    with Ledger(folder / "told.jsonl") as ledger:
        for record in records_at("broken.jsonl")[1]:
            assert isinstance(record, ModelCall)
            ledger.remark(Remark("verdict", record.id, "system_changed" if record.id == "m1" else "unavailable"))
            ledger.append(record)
    assert "= provider: system_changed\n" in run("lint", "told.jsonl").out


def test_an_aggregator_that_moved_to_another_host_is_what_broke_the_prefix(tmp_path: Path, run: Run) -> None:
    system, talk = {"role": "system", "content": RULES}, [{"role": "user", "content": "Hello"}]
    rows = []
    for number, (host, read) in enumerate([("Alpha", 0), ("Alpha", 12_000), ("Beta", 0)]):
        usage = {"prompt_tokens": 12_100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": read}}
        request = {"model": "deepseek/deepseek-v4-pro", "session_id": "s1", "messages": [system, *talk]}
        response = {
            "id": f"gen-{number}",
            "provider": host,
            "model": "deepseek/deepseek-v4-pro",
            "usage": usage,
            "choices": [],
        }
        rows.append({"at": 1_790_000_000 + 20 * number, "request": request, "response": response})
        talk = [*talk, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": f"Question {number}"}]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (found,) = json.loads(run("lint", str(path), "--json").out)["findings"]
    assert (found["code"], found["place"]["turn"], found["message"]) == (
        "CKR01",
        3,
        "upstream Alpha → Beta",
    )
    assert found["cost_tokens"] > 10_000


@pytest.mark.parametrize(
    ("project", "region", "code", "message"),
    [
        ("beta", "us-central1", "CKR08", "project alpha → beta"),
        ("alpha", "us-east4", "CKR01", "upstream us-central1 → us-east4"),
    ],
)
def test_the_address_of_a_call_says_where_its_cache_is(
    tmp_path: Path, run: Run, project: str, region: str, code: str, message: str
) -> None:
    rows = []
    for number, (owner, place) in enumerate([("alpha", "us-central1"), ("alpha", "us-central1"), (project, region)]):
        said = [{"role": ("user", "model")[n % 2], "parts": [{"text": f"{n}"}]} for n in range(2 * number + 1)]
        request = {"contents": said, "systemInstruction": {"parts": [{"text": RULES}]}}
        usage = {
            "promptTokenCount": 12_100,
            "cachedContentTokenCount": 12_000 * (number == 1),
            "candidatesTokenCount": 9,
        }
        response = {"responseId": f"g{number}", "candidates": [], "usageMetadata": usage}
        url = f"https://x/v1/projects/{owner}/locations/{place}/publishers/google/models/gemini-2.5-pro:generateContent"
        rows.append(
            {"at": 1_790_000_000 + 20 * number, "session_id": "s", "url": url, "request": request, "response": response}
        )
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    found = json.loads(run("lint", str(path), "--json").out)["findings"]
    assert [(one["code"], one["place"]["turn"], one["message"]) for one in found] == [(code, 3, message)]


def test_what_is_wrong_with_a_recording_is_told_and_the_rest_is_looked_at(folder: Path, run: Run) -> None:
    whole = (folder / "broken.jsonl").read_bytes()
    (folder / "cut.jsonl").write_bytes(whole[:-40])
    ended = run("lint", "cut.jsonl", "--json")
    assert ended.code == 1
    assert ended.err.startswith("cut.jsonl:4: ")
    assert len(codes(ended.out)) > 0


MISTAKES = {
    "a pattern that fits nothing": (["src/*.txt"], "src/*.txt: no such file or folder; "),
    "a code that is none": (["--select", "ALL"], "--select: no hazard's code begins with 'ALL'"),
    "a page in a format it has not": (
        ["--explain", "CKS01", "--format", "sarif"],
        "--explain and --format=sarif do not go together",
    ),
    "two formats": (["--json", "--format", "sarif", "src"], "--format=json and --format=sarif do not go together"),
    "changes made and only shown": (["--diff", "--fix", "src"], "--diff and --fix do not go together"),
    "a name for nothing": (["--stdin-filename", "a.py", "src"], "give - as a path, too"),
    "a baseline that is not there": (["--baseline", "known.json", "src"], "make one with --write-baseline known.json"),
    "a baseline of another shape": (["--baseline", "broken.jsonl", "src"], "broken.jsonl: no baseline of version 1"),
    "a baseline of requests": (["--write-baseline", "known.json", "broken.jsonl"], "leave the recordings out"),
    "settings that are not there": (["--config", "absent.toml", "src"], "absent.toml"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_with_2(mistake: str, folder: Path, run: Run) -> None:
    (folder / "diary.txt").write_text("Dear diary\n", "utf-8")
    args, says = MISTAKES[mistake]
    ended = run("lint", *args)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("contextkit: ") and ended.err.count("\n") == 1
    assert says in ended.err


# Choosing, formats
# --------------------------------------------------------------------------------------------------------


def test_tests_are_left_out_of_a_folder(folder: Path, run: Run) -> None:
    (folder / "src" / "test_clean.py").write_text(HAZARDOUS, "utf-8")
    for given in (("src",), ("src", "--fix")):
        ended = run("lint", *given)
        assert (ended.code, ended.out, ended.err) == (0, "No hazards found in 1 Python file.\n", "")
    for given in (("src", "--tests"), ("src/test_clean.py",)):
        ended = run("lint", *given)
        assert (ended.code, ended.err) == (1, "") and "test_clean.py:12" in ended.out


def test_codes_are_chosen_by_their_beginning(folder: Path, run: Run) -> None:
    everything = codes(run("lint", "bad.py", "--json").out)
    assert "CKS01" in everything
    assert codes(run("lint", "bad.py", "--json", "--select", "cks").out) == [
        code for code in everything if code.startswith("CKS")
    ]
    assert "CKS01" not in codes(run("lint", "bad.py", "--json", "--ignore", "CKS01,CKT").out)
    assert codes(run("lint", "bad.py", "--json", "--select", "CK", "--ignore", "CK").out) == []


def test_every_format_tells_the_same_findings(folder: Path, run: Run) -> None:
    found = codes(run("lint", "bad.py", "--format", "json").out)
    sarif = json.loads(run("lint", "bad.py", "--format", "sarif").out)
    assert [result["ruleId"] for result in sarif["runs"][0]["results"]] == found
    github = run("lint", "bad.py", "--format", "github").out.splitlines()
    assert len(github) == len(found) and any(
        line.startswith("::error title=CKS01 clock-in-system,file=bad.py,line=12,") for line in github
    )
    assert any(line.split()[:2] == ["1", "CKS01"] for line in run("lint", "bad.py", "--statistics").out.splitlines())


def test_statistics_as_json_are_a_list(folder: Path, run: Run) -> None:
    ended = run("lint", "bad.py", "--requests", "broken.jsonl", "--statistics", "--json")
    assert (ended.code, ended.err) == (1, "")
    counts, found = json.loads(ended.out), codes(run("lint", "bad.py", "--requests", "broken.jsonl", "--json").out)
    assert {count["code"]: count["count"] for count in counts} == {code: found.count(code) for code in found}
    assert ("CKS01", "clock-in-system") in {(count["code"], count["name"]) for count in counts}
    nothing = run("lint", "src", "--statistics", "--format", "json")
    assert (nothing.code, nothing.out) == (0, "[]\n")


def test_what_the_project_says_holds_and_what_is_typed_comes_on_top(folder: Path, run: Run) -> None:
    assert run("lint", "broken.jsonl").code == 1
    (folder / "pyproject.toml").write_text('[tool.contextkit.lint]\nselect = ["CKM"]\n', "utf-8")
    assert run("lint", "broken.jsonl").code == 0
    assert run("lint", "broken.jsonl", "--select", "CK").code == 1
    (folder / "other.toml").write_text('[tool.contextkit.lint]\nignore = ["CKB"]\n', "utf-8")
    assert run("lint", "broken.jsonl", "--config", "other.toml").code == 1
    assert run("lint", "broken.jsonl", "--config", "other.toml", "--ignore", "CK").code == 0


WRONG = [
    'select = ["CKZ"]',
    '[tool.contextkit.lint.per-file-ignores]\n"a.py" = ["CKS99"]',
]


@pytest.mark.parametrize(
    "text",
    [
        "[tool",
        "[tool.contextkit]\nlint = 3",
        *(f"[tool.contextkit.lint]\n{line}" for line in WRONG),
    ],
)
def test_settings_that_are_wrong_are_one_line(text: str, folder: Path, run: Run) -> None:
    (folder / "other.toml").write_text(text, "utf-8")
    (folder / "src" / "pyproject.toml").write_text(text, "utf-8")
    for args, file in ((["--config", "other.toml"], "other.toml"), ([], "pyproject.toml")):
        ended = run("lint", "src", *args)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert file in ended.err


# Changes
# ------------------------------------------------------------------------------------------------------------------

FIXABLE = """import anthropic

client = anthropic.Anthropic()


def converse(questions: list):
    messages = []
    for question in questions:
        messages.append({"role": "user", "content": question})
        reply = client.messages.create(model="claude-sonnet-5-5", max_tokens=100, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
"""
MARKED = 'cache_control={"type": "ephemeral"}, '


def test_fix_mends_what_diff_shows(folder: Path, run: Run) -> None:
    path = folder / "fixable.py"
    path.write_text(FIXABLE, "utf-8")
    shown = run("lint", "fixable.py", "--diff")
    assert shown.code == 1 and "+        reply = " in shown.out and MARKED in shown.out
    assert path.read_text("utf-8") == FIXABLE
    fixed = run("lint", "fixable.py", "--fix", "--json")
    assert json.loads(fixed.out)["fixed"] >= 1
    assert path.read_text("utf-8").replace(MARKED, "") == FIXABLE
    again = run("lint", "fixable.py", "--diff")
    assert (again.code, again.out, again.err) == (0, "", "0 files would change.\n")
