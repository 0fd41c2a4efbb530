"""`[tool.contextkit.lint]`: read from the nearest pyproject.toml; what is wrong in it is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contextkit.errors import UsageError
from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig, config_of, read_config
from contextkit.lint.source.detect import find_in_code

WHOLE = """
[tool.contextkit.lint]
select = ["CKS", "CKT01"]
ignore = ["CKS02"]
exclude = ["build/*"]
tests = true
knowledge = ["ours.toml"]
[tool.contextkit.lint.per-file-ignores]
"tests/*" = ["CKS"]
"""


def test_the_nearest_table_holds(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(WHOLE, encoding="utf-8")
    inner = tmp_path / "pkg" / "sub"
    inner.mkdir(parents=True)
    (tmp_path / "pkg" / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    config = read_config(inner / "file.py")
    assert config.path == str(tmp_path / "pyproject.toml") and config.tests
    assert (config.exclude, config.knowledge) == (("build/*",), ("ours.toml",))
    assert config.is_selected("CKS01") and not config.is_selected("CKS02") and not config.is_selected("CKM01")
    assert not config.is_selected("CKS01", str(tmp_path / "tests" / "a.py")) and config.is_selected(
        "CKT01", "tests/a.py"
    )


def test_the_longer_beginning_wins_and_only_its_whole_name_hides_what_cannot_be_read() -> None:
    config = LintConfig(select=("CKS01",), ignore=("CKS", "CK0"))
    assert [code for code in ("CK000", "CKS01", "CKS02", "CKT01") if config.is_selected(code)] == ["CK000", "CKS01"]
    assert not LintConfig(ignore=("CK000",)).is_selected("CK000")
    assert not LintConfig(select=("CKS",), ignore=("CKS",)).is_selected("CKS01")


def test_no_table_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.contextkit.lint]\n", encoding="utf-8")
    assert read_config(tmp_path).select == LintConfig().select


WRONG: dict[str, dict[str, Any]] = {
    "unknown key 'selct'": {"selct": ["CKS"]},
    "select must be a list": {"select": "CKS"},
    "ignore must be a list": {"ignore": [1]},
    "unknown key 'sinks'": {"sinks": {"preface": "system"}},
    "knowledge must be a list": {"knowledge": "ours.toml"},
    "tests must be true or false": {"tests": "yes"},
    "per-file-ignores must be a table": {"per-file-ignores": []},
    "per-file-ignores.a must be a list": {"per-file-ignores": {"a": "CKS"}},
}


@pytest.mark.parametrize(("text", "table"), WRONG.items(), ids=WRONG.keys())
def test_what_is_wrong_is_named(text: str, table: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        config_of(table)
    assert text in str(error.value) and "[tool.contextkit.lint]" in str(error.value)


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool", encoding="utf-8")
    with pytest.raises(UsageError, match=r"pyproject\.toml: not TOML"):
        read_config(tmp_path)


def test_the_knowledge_of_a_project_stands_beside_its_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.contextkit.lint]\nknowledge = ["lint.toml"]\n', "utf-8")
    app = tmp_path / "app.py"
    app.write_text(
        "import anthropic, mine\nclient = anthropic.Anthropic()\ndef ask(messages):\n"
        "    return client.messages.create(model='m', max_tokens=9, system=mine.now(), messages=messages)\n",
        "utf-8",
    )
    with pytest.raises(UsageError, match=r"lint\.toml: .*knowledge names it"):
        list(find_in_code([app], read_config(app), hazards()))
    (tmp_path / "lint.toml").write_text('[[source]]\nkind = "clock"\ncalls = ["mine.now"]\n', "utf-8")
    assert "CKS01" in {finding.code for finding in find_in_code([app], read_config(app), hazards())}
