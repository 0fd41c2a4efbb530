"""What a person, a program and a code host are told about findings, and what --fix makes of a file."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.lint.catalogue import page
from contextkit.lint.finding import CodePlace, Edit, Finding, Fix, RequestPlace
from contextkit.lint.output.fixes import diff, mended, write
from contextkit.lint.output.formats import FORMS
from contextkit.lint.output.results import LintResults, groups, ranges
from contextkit.lint.output.text import as_text, statistics
from tests.lint.sarif_schema import SCHEMA
from tests.scale import n_examples

SOURCE = """import json
from datetime import datetime


def build(state):
\tnow = datetime.now()
\treturn f"Ünïcode {now}" + json.dumps(state)
"""
# Names of places: line, column, end
CLOCK = (6, 8, 6, 22)


def at(file: object, line: int, column: int, end_line: int, end_column: int, note: str = "") -> CodePlace:
    return CodePlace(str(file), line, column, end_line, end_column, note)


def in_code(
    place: CodePlace, code: str = "CKS01", fix: Fix | None = None, trail: tuple[CodePlace, ...] = ()
) -> Finding:
    return Finding(code, "`datetime.now()` reaches the system prompt", place, "source", trail, fix)


def in_request(turn: int, session: str = "run-1", code: str = "CKS01", verdict: str = "", **extra: Any) -> Finding:
    place = RequestPlace(session, turn, f"msg_{turn}", "system", "system[0]", 8, "It is 10:00", "It is 10:01", **extra)
    facts: dict[str, Any] = {"cost_tokens": 1000, "cost_usd": 0.002, "verdict": verdict}
    facts |= {"cause": "system_changed", "advice": "Freeze it."}
    return Finding(code, "the system text differs in a time", place, "requests", **facts)


def told(*findings: Finding, n_fixed: int = 0) -> LintResults:
    return LintResults(findings, n_fixed)


def text_of(*findings: Finding) -> str:
    return as_text(told(*findings))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.py"
    path.write_text(SOURCE, "utf-8")
    return path


def sorted_keys(file: Path) -> Finding:
    """The finding on `json.dumps(state)`, with its safe change."""
    raw = file.read_bytes()
    end = raw.index(b"dumps(state") + len(b"dumps(state")
    return in_code(at(file, 7, 27, 7, 44), "CKT07", Fix("sort the keys", (Edit(end, end, ", sort_keys=True"),)))


# For people
# ---------------------------------------------------------------------------------------------------------------


def test_a_finding_shows_the_lines_around_it_with_carets_under_the_expression(file: Path) -> None:
    step = at(file, 7, 20, 7, 23, "returned by build")
    shown = text_of(in_code(at(file, *CLOCK), trail=(at(file, *CLOCK, "datetime.now()"), step)))
    assert shown.splitlines()[:8] == [
        f"{file}:6:8: CKS01 `datetime.now()` reaches the system prompt",
        "  |",
        "5 | def build(state):",
        "6 | \tnow = datetime.now()",
        "  | \t      ^^^^^^^^^^^^^^",
        '7 | \treturn f"Ünïcode {now}" + json.dumps(state)',
        "  |",
        f"  = from: {file}:6:8  datetime.now()",
    ]
    assert shown.splitlines()[8:] == [
        f"  = then: {file}:7:20  returned by build",
        "  = help: contextkit lint --explain CKS01",
        "",
        "Found 1 hazard.",
    ]


def test_a_file_that_is_gone_or_shorter_is_told_without_its_lines(tmp_path: Path, file: Path) -> None:
    for place in (at(tmp_path / "gone.py", 1, 1, 1, 2), at(file, 400, 1, 400, 2)):
        shown = text_of(in_code(place))
        assert f"{place}: CKS01" in shown and " | " not in shown


def test_what_a_terminal_would_obey_is_shown_instead(tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text('x = "\x1b[31m\u202e"\x0c\ny = 1\n', "utf-8")
    place = RequestPlace("run", 2, "m", "system", "system[0]", 0, "a\nb\x1b[2J", "")
    shown = text_of(in_code(at(path, 2, 1, 2, 2)), Finding("CKS01", "m", place, "requests"))
    assert "\x1b" not in shown and "\u202e" not in shown
    assert r"  | was: a\nb\x1b[2J" in shown
    assert "2 | y = 1" in shown  # a form feed ends no line


@pytest.mark.parametrize(
    ("costs", "line"),
    [
        ([(4000, 0.008), (1000, 0.002)], "  = lost: 5,000 tokens, $0.0100 (system_changed)\n"),
        ([(4000, 0.008), (None, None)], "  = lost: ≥ 4,000 tokens, ≥ $0.0080 (system_changed)\n"),
        ([(4000, 0.008), (1000, None)], "  = lost: 5,000 tokens, price unknown (system_changed)\n"),
        ([(None, None)], ""),
        ([(0, 0.0), (None, None)], ""),
        ([(0, 0.0)], "  = lost: nothing beyond the other findings of the call\n"),
    ],
)
def test_an_unknown_cost_is_never_shown_as_zero(costs: list[tuple[int | None, float | None]], line: str) -> None:
    place = RequestPlace("run", 2, "m", "system", "system[0]", 0, "", "")
    findings = [
        replace(in_request(2), place=replace(place, turn=turn), cost_tokens=tokens, cost_usd=usd)
        for turn, (tokens, usd) in enumerate(costs, 2)
    ]
    shown = text_of(*findings)
    assert line in shown and shown.count("= lost") == bool(line)


def test_what_came_or_went_whole_is_shown_alone(tmp_path: Path) -> None:
    def shown(was: str, now: str) -> str:
        place = RequestPlace("run", 2, "m", "system", "system[0]", 0, was, now)
        return text_of(Finding("CKS01", "m", place, "requests"))

    assert "system[0]: CKS01 m\n  | was: gone\n  = help" in shown("gone", "")
    assert "system[0]: CKS01 m\n  | now: new\n  = help" in shown("", "new")
    assert "system[0]: CKS01 m\n  = help" in shown("", "")


def test_a_trail_that_never_leaves_the_place_is_left_out(file: Path) -> None:
    here = at(file, *CLOCK, "datetime.now()")
    for trail, is_told in (((here,), False), ((here, here), False), ((here, at(file, 7, 20, 7, 23, "returned")), True)):
        assert ("= from" in text_of(in_code(at(file, *CLOCK), trail=trail))) is is_told


def test_a_very_long_line_is_cut_around_the_place(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("x = [" + "1, " * 5000 + "now(), " + "1, " * 5000 + "]\n", "utf-8")
    column = path.read_text("utf-8").index("now()") + 1
    shown = text_of(in_code(at(path, 1, column, 1, column + 5))).splitlines()
    line, carets = shown[2], shown[3]
    assert len(line) < 200
    assert line[carets.index("^") : carets.rindex("^") + 1] == "now()"


def test_a_hazard_of_many_turns_is_told_once(file: Path) -> None:
    findings = [in_request(turn, verdict="system_changed" if turn == 14 else "") for turn in (14, 12, 13, 40)]
    shown = text_of(*findings)
    assert shown.count("It is 10:00") == 1
    assert shown.splitlines() == [
        "run-1 turns 12-14, 40 system[0] byte 8: CKS01 the system text differs in a time",
        "  | was: It is 10:00",
        "  | now: It is 10:01",
        "  = lost: 4,000 tokens, $0.0080 (system_changed)",
        "  = provider: system_changed",
        "  = fix: Freeze it.",
        "  = help: contextkit lint --explain CKS01",
        "",
        "Found 4 hazards in 1 place.",
    ]
    others = [in_request(2, "run-2"), in_request(3, "run-2", caller="app.py:48")]
    assert [group.where for group in groups([*findings, *others])] == [
        "run-1 turns 12-14, 40 system[0] byte 8",
        "run-2 turns 2-3 system[0] byte 8",
    ]
    assert "  = sent by: app.py:48\n" in text_of(others[1])


def test_a_fix_is_named_and_marked_if_it_is_safe(file: Path) -> None:
    safe = sorted_keys(file)
    assert safe.fix is not None
    shown = text_of(safe)
    assert f"{file}:7:27: CKT07 [*] " in shown and "  = fix: sort the keys\n" in shown
    assert shown.endswith("\nFound 1 hazard.\n[*] 1 fixable with --fix.")
    shown = text_of(replace(safe, fix=replace(safe.fix, is_safe=False)))
    assert "[*]" not in shown and "  = fix: sort the keys (--fix --unsafe-fixes)\n" in shown


@given(st.sets(st.integers(1, 60)))
def test_ranges_say_all_numbers_and_no_other(numbers: set[int]) -> None:
    said = set()
    for run in filter(None, ranges(numbers).split(", ")):
        first, _, last = run.partition("-")
        said |= set(range(int(first), int(last or first) + 1))
    assert said == numbers


def test_statistics_count_by_code_the_most_frequent_first(file: Path) -> None:
    shown = statistics(told(in_request(2), in_request(3), sorted_keys(file))).splitlines()
    assert shown == [
        "2  CKS01  [ ]  clock-in-system",
        "1  CKT07  [*]  schema-key-order-drift",
        "Found 3 hazards in 2 places.",
        "[*] 1 fixable with --fix.",
    ]


def test_finding_nothing_is_one_line_that_says_how_much_was_looked_at() -> None:
    assert FORMS["text"](told()) == "No hazards found."
    for (n_files, n_calls), says in {
        (12, 40): "No hazards found in 12 Python files, 40 recorded calls.",
        (1, None): "No hazards found in 1 Python file.",
        (None, 2000): "No hazards found in 2,000 recorded calls.",
        (0, None): "Nothing to look at: no Python file.",
        (0, 0): "Nothing to look at: no Python file and no recorded call.",
        (0, 3): "No hazards found in 0 Python files, 3 recorded calls.",
    }.items():
        for tell in (FORMS["text"], statistics):
            assert tell(replace(told(), n_files=n_files, n_calls=n_calls)) == says
            assert tell(replace(told(n_fixed=2), n_files=n_files, n_calls=n_calls)) == f"Fixed 2 hazards. {says}"


def test_the_count_is_of_hazards_and_of_the_places_they_are_told_at(file: Path) -> None:
    turns = [in_request(turn) for turn in range(1, 1501)]
    assert text_of(*turns).splitlines()[-1] == "Found 1,500 hazards in 1 place."
    assert statistics(told(*turns)).splitlines()[0] == "1,500  CKS01  [ ]  clock-in-system"
    apart = [in_code(at(file, *CLOCK)), in_request(1), in_request(2), in_request(3, "run-2")]
    assert text_of(*apart).splitlines()[-1] == "Found 4 hazards in 3 places."


# For programs
# -------------------------------------------------------------------------------------------------------------


def test_json_holds_every_field_of_every_finding(file: Path) -> None:
    fixable, seen = sorted_keys(file), in_request(12, verdict="system_changed")
    read = json.loads(FORMS["json"](told(fixable, seen, n_fixed=1)))
    first, second = read["findings"]
    assert (first["code"], first["name"], first["severity"], first["grade"]) == (
        "CKT07",
        "schema-key-order-drift",
        "error",
        "A",
    )
    assert (first["place"]["kind"], first["place"]["line"], first["fix"]["title"]) == ("code", 7, "sort the keys")
    assert (second["place"]["kind"], second["place"]["turn"], second["cost_tokens"]) == ("request", 12, 1000)
    assert (second["cause"], second["advice"]) == ("system_changed", "Freeze it.")
    assert (read["version"], read["fixed"], [count["count"] for count in read["statistics"]]) == (1, 1, [1, 1])
    assert read["looked_at"] == {"files": None, "calls": None}


def sarif(*findings: Finding) -> Any:
    log = json.loads(FORMS["sarif"](told(*findings)))
    validator = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    problems = [f"{'/'.join(map(str, fault.path))}: {fault.message}" for fault in validator.iter_errors(log)]
    assert problems == []
    return log["runs"][0]


def test_sarif_is_valid_with_everything_a_finding_can_hold(file: Path) -> None:
    trail = (at(file, *CLOCK, "datetime.now()"), at(file, 7, 20, 7, 23, "returned by build"))
    unknown = replace(in_code(at("broken.py", 1, 1, 1, 1)), code="CK000", message="this file cannot be read")
    findings = [
        sorted_keys(file),
        in_code(at("src/a b.py", *CLOCK), trail=trail),
        in_request(12, caller=f"{file}:80"),
        in_request(13),
    ]
    run = sarif(*findings, unknown)
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["CK000", "CKS01", "CKT07"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    mend, clock, called, logical, _ = run["results"]
    assert mend["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": ", sort_keys=True"}
    steps = clock["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"] for step in steps] == ["datetime.now()", "returned by build"]
    assert clock["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/a%20b.py"
    assert called["locations"][0]["physicalLocation"]["region"] == {"startLine": 80}
    assert logical["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "run-1/turn 13/system[0]"
    assert (logical["properties"]["cause"], logical["properties"]["advice"]) == ("system_changed", "Freeze it.")


def test_sarif_carries_the_page_of_each_rule() -> None:
    run = sarif(in_request(2, code="CKB01"))
    [rule] = run["tool"]["driver"]["rules"]
    assert rule["help"]["markdown"] == page("CKB01").strip()
    assert rule["fullDescription"]["text"].startswith("Claude (its own API")


def test_the_restated_schema_refuses_what_is_wrong() -> None:
    log = json.loads(FORMS["sarif"](told(in_request(2))))
    validator = jsonschema.Draft4Validator(SCHEMA)
    for spoil in (
        lambda run: run.pop("tool"),
        lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0].update(level="fatal"),
        lambda run: run["results"][0].update(colour="red"),
        lambda run: run["results"][0]["locations"][0].update(physicalLocation={"region": {"startLine": 0}}),
    ):
        copy = json.loads(json.dumps(log))
        spoil(copy["runs"][0])
        assert not validator.is_valid(copy)


def test_annotations_stand_on_their_lines_and_escape_what_would_end_them(file: Path) -> None:
    odd = replace(in_code(at("a,b:c.py", 1, 2, 1, 9)), message="100% odd\nsecond line")
    lines = FORMS["github"](told(odd, in_request(12), in_request(13), in_request(2, code="CKL05"))).splitlines()
    place = "file=a%2Cb%3Ac.py,line=1,col=2,endLine=1,endColumn=9"
    assert lines[0] == f"::error title=CKS01 clock-in-system,{place}::100%25 odd%0Asecond line"
    where = "run-1 turns 12-13 system[0] byte 8"
    assert lines[1] == f"::error title=CKS01 clock-in-system::{where}: the system text differs in a time"
    assert lines[2].startswith("::notice title=CKL05 unexplained-miss::")


# Changes
# ------------------------------------------------------------------------------------------------------------------


def test_a_change_is_shown_and_made(file: Path) -> None:
    file.chmod(0o640)
    [change] = mended([sorted_keys(file)])
    shown = diff(change)
    assert '-\treturn f"Ünïcode {now}" + json.dumps(state)\n' in shown
    assert '+\treturn f"Ünïcode {now}" + json.dumps(state, sort_keys=True)\n' in shown
    assert file.read_text("utf-8") == SOURCE
    write(change)
    assert file.read_text("utf-8") == SOURCE.replace("dumps(state)", "dumps(state, sort_keys=True)")
    assert os.name == "nt" or file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["prompts.py"]


def test_a_diff_is_one_that_patch_takes(file: Path) -> None:
    file.write_text(SOURCE.rstrip("\n"), "utf-8")  # no newline at its end
    [change] = mended([sorted_keys(file)])
    try:
        ran = subprocess.run(
            ["patch", "-s", "-p0", str(file)], input=diff(change).encode(), check=False, capture_output=True
        )
    except FileNotFoundError:
        pytest.skip("no patch program here")
    assert (ran.returncode, file.read_bytes()) == (0, change.after), ran.stderr


def test_a_change_that_would_break_the_file_is_left_out_and_the_others_are_made(file: Path) -> None:
    broken = replace(sorted_keys(file), fix=Fix("breaks it", (Edit(0, 0, "def (:"),)))
    [change] = mended([broken, sorted_keys(file)])
    assert [finding.fix.title for finding in change.findings if finding.fix] == ["sort the keys"]
    assert list(mended([broken])) == []


def test_of_changes_that_touch_the_same_bytes_the_first_is_made(file: Path) -> None:
    first = sorted_keys(file)
    assert first.fix
    [edit] = first.fix.edits
    other = replace(first, fix=Fix("something else", (Edit(edit.start - 5, edit.end, "x"), Edit(0, 6, "import"))))
    [change] = mended([first, other])
    assert change.findings == (first,)
    [twice] = mended([first, replace(first, code="CKM14")])
    assert (len(twice.findings), twice.after) == (2, change.after)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(file)
    [change] = mended([sorted_keys(link)])
    write(change)
    assert link.is_symlink() and "sort_keys" in file.read_text("utf-8")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written_stays_as_it_is(file: Path) -> None:
    [change] = mended([sorted_keys(file)])
    file.chmod(0o400)
    with pytest.raises(PermissionError, match=r"prompts\.py"):
        write(change)
    assert file.read_bytes() == change.before


@settings(max_examples=n_examples(15, 200), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SOURCE)), st.integers(0, 9), st.sampled_from(["", "x", "(", "1 + ", "\n"])),
        max_size=6,
    )
)
def test_no_set_of_changes_leaves_a_file_that_does_not_parse(
    tmp_path_factory: pytest.TempPathFactory, edits: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "prompts.py"
    path.write_text(SOURCE, "utf-8")
    size = len(path.read_bytes())
    fixes = [Fix("any", (Edit(start, min(size, start + length), text),)) for start, length, text in edits]
    for change in mended([in_code(at(path, 1, 1, 1, 1), fix=fix) for fix in fixes]):
        write(change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `"text"(x)` is Python, if odd
        compile(path.read_bytes(), str(path), "exec")
