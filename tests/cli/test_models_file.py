"""A file of models and prices: where it is named, which of several counts, and what is said of a fault in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from contextkit import Usage, register_models, register_price
from contextkit.errors import UsageError
from contextkit.facts.load import _MODEL
from contextkit.models import Model, model_named
from contextkit.prices import cost_usd
from tests.cli.conftest import Run
from tests.cli.test_without_price import UNPRICED, call, recorded

CALL = call(0, UNPRICED, Usage(fresh=1_000_000, read=0, output=0))


def priced(folder: Path, dollars: float, name: str = "models.toml") -> Path:
    path = folder / name
    path.write_text(
        f'[[prices]]\nprovider = "*"\nmodel = "our-azure-deployment"\ninput = {dollars}\noutput = 1\n', "utf-8"
    )
    return path


def spent(run: Run, *args: object) -> float | None:
    ended = run(*args)
    assert ended.code == 0, ended.err
    cost: float | None = json.loads(ended.out)["total"]["cost_usd"]
    return cost


def test_the_flag_comes_before_the_environment_and_that_before_the_project(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, project = recorded(tmp_path, CALL), tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    monkeypatch.chdir(project / "inner")
    assert spent(run, "report", ledger, "--json") is None
    (project / "pyproject.toml").write_text('[tool.contextkit]\nmodels = "facts/ours.toml"\n', "utf-8")
    (project / "facts").mkdir()
    priced(project / "facts", 1.0, "ours.toml")
    million = "Usage(10**6, 0, 0, 0, 0)"
    code = f"from contextkit.prices import *; from contextkit import Usage; print(cost_usd('openai', 'our-azure-deployment', {million}))"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert asked.stdout == "1.0\n"
    monkeypatch.setenv("CONTEXTKIT_MODELS", str(priced(tmp_path, 2.0, "environment.toml")))
    assert spent(run, "report", ledger, "--json") == 2.0
    flag = priced(tmp_path, 3.0, "flag.toml")
    assert spent(run, "report", ledger, "--json", "--models", flag) == 3.0
    assert spent(run, "--models", flag, "report", ledger, "--json") == 3.0
    assert spent(run, "report", ledger, "--json") == 2.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[[models]]\nname = "m"\nlike = "gpt-5.5"\nmin_token = 5\n',
            "row 1 (line 1): unknown key 'min_token' (did you mean 'min_tokens'?)",
        ),
        (
            '\n[[prices]]\nprovider = "openai"\nmodel = "m"\ninput = -1\noutput = 1\n',
            "[[prices]] row 1 (line 2): input must be dollars",
        ),
        ('[[models]]\nname = "m"\nlike = "gtp-5.5"\n', "like: the table has no model 'gtp-5.5'; close to it are"),
        (
            '[[models]]\nname = "m"\nprovider = "openai"\n',
            "'cache' is missing; give it, or begin with another row's columns",
        ),
        (
            '[[models]]\nname = "m"\nlike = "gpt-5.5"\ncache = "sometimes"\n',
            "cache must be one of breakpoints, implicit, billed, units",
        ),
        ('[[prices]]\nprovider="o"\nmodel="m"\ninput=1\noutput=1\ntiers=[{input=2}]\n', "tiers[0]: 'above' is missing"),
        ("[[models]\n", "not TOML"),
    ],
)
def test_a_fault_is_one_line_with_file_row_and_key(run: Run, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text, "utf-8")
    ended = run("report", recorded(tmp_path, CALL), "--models", path)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "models.toml" in ended.err and said in ended.err


def test_a_file_that_is_not_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "absent.toml: No such file" in run("report", "x.jsonl", "--models", tmp_path / "absent.toml").err
    monkeypatch.setenv("CONTEXTKIT_MODELS", str(tmp_path / "gone.toml"))
    assert "gone.toml: No such file" in run("report", "x.jsonl").err


def test_rules_begin_as_another_rows(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(
        '[[models]]\nname = "gateway-sonnet"\nlike = "claude-sonnet-5-5"\nwindow_tokens = 500_000\nsource = "ours"\n',
        "utf-8",
    )
    register_models(path)
    model = model_named("gateway-sonnet")
    assert (model.window_tokens, model.min_tokens, model.source, model.is_assumed) == (500_000, 512, "ours", False)


def test_a_programs_price_comes_before_a_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTKIT_MODELS", str(priced(tmp_path, 2.0)))
    million = Usage(fresh=1_000_000, read=0, output=0)
    assert cost_usd("azure", "our-azure-deployment", million) == 2.0
    register_price("azure", "our-azure-deployment", input=5.0, output=1.0)
    assert cost_usd("azure", "our-azure-deployment", million) == 5.0
    assert cost_usd("other", "our-azure-deployment", million) == 2.0
    with pytest.raises(UsageError, match="input must be dollars"):
        register_price("azure", "x", input=float("nan"), output=1.0)


def test_a_price_has_days_and_tiers() -> None:
    register_price("ours", "dated", input=1.0, output=1.0, tiers=[{"above": 1000, "input": 10.0}])
    register_price("ours", "stepped", input=4.0, output=1.0, valid_from="2026-12-01")
    assert cost_usd("ours", "dated", Usage(1000, 0, 0, 0, 0)) == pytest.approx(0.001)
    assert cost_usd("ours", "dated", Usage(1001, 0, 0, 0, 0)) == pytest.approx(0.01001)
    assert cost_usd("ours", "stepped", Usage(1_000_000, 0, 0, 0, 0), 1_796_083_200.0) == 4.0  # 2026-12-01


def test_the_rows_of_the_package_have_their_step_of_december() -> None:
    million = Usage(1_000_000, 0, 0, 0, 0)
    assert cost_usd("google", "gemini-4-carbon", million, 1_795_132_800.0) == 2.0  # 2026-11-20
    assert cost_usd("google", "gemini-4-carbon", million, 1_796_169_600.0) == 4.0  # 2026-12-02
    assert cost_usd("openai", "gpt-6.2-sol-2026-11-18", Usage(0, 100_000, 0, 0, 0)) == pytest.approx(0.01)
    assert cost_usd("openai", "gpt-6.2-astra", Usage(0, 0, 100_000, 100_000, 0)) == pytest.approx(1.0 + 2.0)
    assert cost_usd("openai", "gpt-6.2-sol", Usage(300_000, 0, 0, 0, 0)) == pytest.approx(1.2)


def test_every_column_of_a_model_can_be_given() -> None:
    assert set(Model.__dataclass_fields__) <= set(_MODEL)
