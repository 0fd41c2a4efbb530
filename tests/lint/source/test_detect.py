"""Files as they come: unreadable ones are findings, comments silence, the settings select."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source.detect import find_in_code
from tests.lint.source.conftest import HAZARDS, named

ROOT = Path(__file__).resolve().parents[3]
SEND = "    return client.messages.create(model='m', system=system, messages=messages)\n"
CLOCK = f"import time\ndef ask(client, messages):\n    system = f'{{time.time()}}'\n{SEND}"

BROKEN: dict[str, bytes] = {
    "syntax error": b"def system_prompt(:\n",
    "syntax error where no prompt is": b"def f(:\n",
    "syntax error in a template": b"def f(:\n    x = '{{ name }}'\n",
    "null bytes": b"x = 1\x00\n",
    "binary": bytes(range(256)) * 20,
    "unknown encoding": b"# -*- coding: nonsense -*-\nsystem_prompt = 1\n",
    "not the encoding it says": b"# -*- coding: utf-8 -*-\nsystem_prompt = '\xff'\n",
    "too deep": b"system_prompt = " + b"(" * 5000 + b")" * 5000,
    "too deep to parse": b"system_prompt = " + b"-" * 200_000 + b"1",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_cannot_be_read_is_one_finding(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "prompt.py").write_bytes(text)
    (tmp_path / "other.py").write_bytes(b"system_prompt = 1\n")
    (finding,) = find_in_code([tmp_path], LintConfig(), ())
    assert finding.code == "CK000" and "\n" not in finding.message
    assert isinstance(finding.place, CodePlace) and finding.place.file.endswith("prompt.py")


def test_a_chain_of_three_thousand_additions_is_read(lint: Callable[..., list[Finding]]) -> None:
    found = lint(
        "import time\ndef ask(client, messages):\n    system = "
        + " + ".join(["'a'"] * 3000)
        + f" + str(time.time())\n{SEND}"
    )
    assert [finding.code for finding in found] == ["CKS01"]


class Numbers(ast.NodeTransformer):
    """Another value wherever a number stands."""

    def __init__(self, value: object) -> None:
        self.value = value

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.parse(f"({self.value})", mode="eval").body if type(node.value) in {int, float} else node


@pytest.mark.parametrize("value", ["9" * 400, "None"], ids=lambda value: value[:5])
def test_odd_values_where_numbers_are_expected_are_no_traceback(value: str, tmp_path: Path) -> None:
    cases = sorted((ROOT / "tests/lint_cases/source").glob("*.py"))
    for case in cases:
        tree = Numbers(value).visit(ast.parse(case.read_text(encoding="utf-8")))
        (tmp_path / case.name).write_text(ast.unparse(tree), encoding="utf-8")
    found = list(find_in_code([tmp_path], LintConfig(), hazards()))
    assert len(cases) > 40 and found and not [finding for finding in found if finding.code == "CK000"]


def test_a_long_attribute_chain_is_no_traceback(lint: Callable[..., list[Finding]]) -> None:
    found = lint("system_prompt = a" + ".b()" * 20_000)
    assert {finding.code for finding in found} <= {"CK000"}


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "data.py").open("wb") as file:
        file.truncate(200_000_000)
    (finding,) = find_in_code([tmp_path], LintConfig(), ())
    assert finding.code == "CK000" and "200,000,000" in finding.message


def test_a_missing_file_is_a_finding(tmp_path: Path) -> None:
    (finding,) = find_in_code([tmp_path / "none.py"], LintConfig(), ())
    assert finding.code == "CK000" and "No such file" in finding.message


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege there")
def test_a_loop_of_links_ends(tmp_path: Path, lint: Callable[..., list[Finding]]) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "itself.py").symlink_to(tmp_path / "itself.py")
    assert [finding.code for finding in lint(CLOCK)] == ["CKS01"]


@pytest.mark.skipif(sys.platform == "win32", reason="neither links nor pipes without a privilege there")
def test_what_is_met_in_a_folder_and_holds_no_text_is_passed_by(
    tmp_path: Path, lint: Callable[..., list[Finding]]
) -> None:
    (tmp_path / ".#app.py").symlink_to("ada@host.example:1")  # an editor's lock
    os.mkfifo(tmp_path / "pipe.py")  # would be waited for
    assert [finding.code for finding in lint(CLOCK)] == ["CKS01"]


def test_latin_1_with_a_cookie_points_at_the_right_column(tmp_path: Path, lint: Callable[..., list[Finding]]) -> None:
    text = (
        "# -*- coding: latin-1 -*-\nimport time\ndef ask(client, messages):\n    system = 'é' + str(time.time())\n"
        + SEND
    )
    (tmp_path / "old.py").write_bytes(text.encode("latin-1"))
    (finding,) = lint("")
    assert isinstance(finding.place, CodePlace) and finding.place.column == text.splitlines()[3].index("time.time") + 1


def test_a_noqa_of_another_code_silences_nothing(lint: Callable[..., list[Finding]]) -> None:
    other = CLOCK.replace("()}'", "()}'  # noqa: E501")
    assert [finding.code for finding in lint(other)] == ["CKS01"]
    assert lint(CLOCK.replace("()}'", "()}'  # noqa: E501, CKS01")) == []


def test_a_noqa_behind_a_text_of_several_lines_counts(lint: Callable[..., list[Finding]]) -> None:
    text = 'import time\ndef ask(client, messages):\n    system = f"""\n    {{time.time()}}\n    """{}\n' + SEND
    assert [finding.code for finding in lint(text.format(""))] == ["CKS01"]
    assert lint(text.format("  # noqa: CKS01")) == []


def test_a_frozen_function_is_said_on_its_def_line(lint: Callable[..., list[Finding]]) -> None:
    text = (
        "import time\ndef stamp():{}\n    return time.time()\ndef ask(client, messages):\n    system = str(stamp())\n"
        + SEND
    )
    assert [finding.code for finding in lint(text.format(""))] == ["CKS01"]
    assert lint(text.format("  # contextkit: frozen")) == []


def test_config_selects_ignores_and_excludes(lint: Callable[..., list[Finding]]) -> None:
    for config in (
        LintConfig(select=("CKT",)),
        LintConfig(ignore=("CKS",)),
        LintConfig(exclude=("app.py",)),
        LintConfig(per_file_ignores={"app.py": ("CKS01",)}),
    ):
        assert lint(CLOCK.replace("f'{time.time()}'", "str(time.time())"), config) == []
    assert lint(CLOCK, LintConfig(select=("CKS01",), ignore=("CKS",)))


def test_templates_of_projects_are_not_read_as_python(tmp_path: Path) -> None:
    for name in ("{{cookiecutter.project}}", "project"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "app.py").write_text("{% if cookiecutter.with_prompt %\n")
    found = [finding.place for finding in find_in_code([tmp_path], LintConfig(), [])]
    assert [place.file for place in found if isinstance(place, CodePlace)] == [str(tmp_path / "project" / "app.py")]


def test_a_template_of_a_module_is_not_read_as_python(tmp_path: Path) -> None:
    (tmp_path / "crew.py").write_text(
        "from {{folder}}.crew import {{name}}Crew\n{% if tools %}\nprint({{name}}Crew())\n{% endif %}\n"
    )
    assert list(find_in_code([tmp_path], LintConfig(), [])) == []


TESTS = ("tests/helper.py", "test/unit/helper.py", "test_app.py", "app_test.py", "pkg/tests.py", "conftest.py")
NO_TESTS = ("app.py", "testing.py", "latest/app.py", "contest.py", "protests/app.py", "test.py")


def test_tests_are_left_out_and_told_unless_they_are_wanted(tmp_path: Path, lint: Callable[..., list[Finding]]) -> None:
    files = {name.removesuffix(".py"): CLOCK for name in (*TESTS, *NO_TESTS)}
    lint(**files)
    for config, wanted in ((LintConfig(), NO_TESTS), (LintConfig(tests=True), (*TESTS, *NO_TESTS))):
        left_out: list[str] = []
        found = find_in_code([tmp_path], config, HAZARDS, left_out=left_out.append)
        assert {place.file for finding in found if isinstance(place := finding.place, CodePlace)} == {
            str(tmp_path / one) for one in wanted
        }
        assert {*left_out} == {str(tmp_path / one) for one in {*TESTS, *NO_TESTS} - {*wanted}}


@pytest.mark.parametrize("named", ["test_app.py", "tests", "tests/unit", "tests/unit/test_app.py"])
def test_tests_that_are_named_are_looked_at(named: str, tmp_path: Path, lint: Callable[..., list[Finding]]) -> None:
    lint(**{"test_app": CLOCK, "tests/unit/test_app": CLOCK})
    assert len(list(find_in_code([tmp_path / named], LintConfig(), HAZARDS))) == 1


USES = {
    "a keyword": "c.ask(preface=ours.weather())",
    "an attribute": "c.preface = ours.weather()",
    "a key": "c.ask({'preface': ours.weather()})",
    "an argument of a call": "ours.call_it(c, head=ours.weather())",
}

OURS = """
[[source]]
kind = "clock"
calls = ["ours.weather"]
[[prompt_name]]
names = ["preface"]
sink = "system"
where = ["any"]
[[request]]
calls = ["ours.call_it"]
arguments = { head = "system" }
"""


@pytest.mark.parametrize("name", named(USES))
def test_a_project_names_its_own_sources_and_sinks(
    name: str, tmp_path: Path, lint: Callable[..., list[Finding]]
) -> None:
    text = f"import ours\ndef f(c):\n    {USES[name]}\n"
    assert lint(text) == []
    (tmp_path / "ours.toml").write_text(OURS, "utf-8")
    config = LintConfig(knowledge=("ours.toml",), path=str(tmp_path / "pyproject.toml"))
    found = [finding.place for finding in lint(text, config)]
    assert [place.line for place in found if isinstance(place, CodePlace)] == [3]


def test_each_file_is_read_once(tmp_path: Path, lint: Callable[..., list[Finding]]) -> None:
    lint(CLOCK)
    assert len(list(find_in_code([tmp_path, tmp_path / "app.py"], LintConfig(), HAZARDS))) == 1
