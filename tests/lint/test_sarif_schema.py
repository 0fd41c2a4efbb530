"""Our SARIF stands up to the published schema of version 2.1.0, and so does the restatement the other tests use.

The schema is the one Microsoft's `@microsoft/sarif-matcher-utils` brings along, fetched once with npm and kept in
pytest's cache: no Python package carries it. Where npm or its registry is missing, the restatement is what there is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from contextkit.cli.main import cli
from tests.lint.sarif_schema import SCHEMA

PACKAGE = "@microsoft/sarif-matcher-utils@1.0.0-beta.0"
MEMBER = "package/lib/schemas/sarif-2.1.0-rtm.5.json"
CASES = Path(__file__).resolve().parents[1] / "lint_cases"
LIMITS = ("type", "enum", "minimum", "maximum", "minItems", "uniqueItems", "format", "$ref")


@pytest.fixture(scope="module")
def published(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The schema as it was published."""
    folder = pytestconfig.cache.mkdir("sarif") if pytestconfig.cache else tmp_path_factory.mktemp("sarif")
    kept, npm = folder / Path(MEMBER).name, shutil.which("npm")
    if not kept.exists():
        if npm is None:
            pytest.skip("no npm here, which fetches the published schema")
        work = tmp_path_factory.mktemp("npm")
        ran = subprocess.run(
            [npm, "pack", "--silent", PACKAGE], cwd=work, capture_output=True, text=True, check=False, timeout=60
        )
        if ran.returncode:
            pytest.skip(f"npm cannot fetch {PACKAGE}: {ran.stderr.strip()[:200]}")
        with tarfile.open(next(work.glob("*.tgz"))) as packed:
            member = packed.extractfile(MEMBER)
            assert member is not None
            new = work / kept.name
            new.write_bytes(member.read())
        shutil.copyfile(new, kept)
    schema: dict[str, Any] = json.loads(kept.read_bytes())
    return schema


def test_a_log_with_every_source_finding_is_valid(published: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES)
    ran = CliRunner().invoke(cli, ["lint", "source", "--format", "sarif", "--exit-zero"], catch_exceptions=False)
    log = json.loads(ran.stdout)
    validator = jsonschema.Draft4Validator(published, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    assert [f"{list(fault.path)}: {fault.message}" for fault in validator.iter_errors(log)] == []
    results = log["runs"][0]["results"]
    assert (
        len(results) > 100
        and any("fixes" in result for result in results)
        and any("codeFlows" in result for result in results)
    )


def test_the_restated_schema_says_what_the_published_one_says(published: dict[str, Any]) -> None:
    for name, restated in SCHEMA["definitions"].items():
        original = published["definitions"][name]
        assert set(restated.get("required", ())) >= set(original.get("required", ())), name
        for key, one in restated.get("properties", {}).items():
            other = original["properties"][key]
            differing = {limit for limit in LIMITS if limit in other and limit in one and one[limit] != other[limit]}
            assert differing == set(), f"{name}.{key}"
