"""Checks the files of `contextkit/lint/knowledge`: they load, are documented, and name what the installed SDKs have."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from contextkit.errors import UsageError
from contextkit.lint.source.knowledge import KINDS, ORDER, SECTIONS, Knowledge, load
from tests.lint.source.conftest import named

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "contextkit" / "lint" / "source"
FILES = sorted((ROOT / "contextkit" / "lint" / "knowledge").glob("*.toml"))
DOCUMENTED = (ROOT / "docs" / "reference" / "lint-knowledge.md").read_text("utf-8")
Row = dict[str, Any]


def rows(section: str, *files: str) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a table, each with the name of its file."""
    for file in FILES:
        if not files or file.stem in files:
            for row in tomllib.loads(file.read_text("utf-8")).get(section, []):
                yield file.name, row


def documented(table: str) -> dict[str, set[str]]:
    """Return the words in the first column of a table of the page, with those in its last column."""
    part = DOCUMENTED.partition(f"<!-- {table} -->\n")[2].partition("\n\n")[0]
    cells = [line.strip("|").split("|") for line in part.splitlines() if "`" in line]
    return {name: set(re.findall(r"`(\w+)`", last)) for first, *_, last in cells for name in re.findall(r"\w+", first)}


def is_read(section: str) -> bool:
    """Return whether the engine reads a table."""
    return any(f'"{section}"' in file.read_text("utf-8") for file in SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_file_loads_alone(file: Path) -> None:
    knowledge, table = Knowledge(), tomllib.loads(file.read_text("utf-8"))
    knowledge.read(table, file.name)
    own = {"source", "sorts", "passes", "request"}
    kept = {name: len(found) for name, found in table.items() if name not in own}
    assert {name: len(found) for name, found in knowledge.sections.items()} == kept


def test_what_is_loaded_is_found() -> None:
    knowledge = load()
    assert {one.kind for one in knowledge.sources.find("datetime.datetime.now")} == {"clock"}
    (row, *_) = knowledge.requests.find("anthropic.Anthropic().messages.create")
    assert row.arguments["system"] == "system"
    assert (
        knowledge.sorts.find("sorted") and knowledge.passes.find("json.dumps") and knowledge.passes.find("text.strip")
    )


def test_each_table_is_documented_and_read() -> None:
    assert documented("tables").keys() == SECTIONS
    assert {section for section in SECTIONS if not is_read(section)} == set()


@pytest.mark.parametrize("section", documented("tables"))
def test_the_fields_of_a_table_are_documented(section: str) -> None:
    given = {field for _, row in rows(section) for field in row}
    assert given and given - documented("tables")[section] == set()


def test_kinds_are_documented() -> None:
    assert documented("kinds").keys() == KINDS == {row["kind"] for _, row in rows("source")}
    assert ORDER <= KINDS


@pytest.mark.parametrize("section", named(["request", "request_dict", "decorator"], {"decorator"}))
def test_sinks_are_documented(section: str) -> None:
    given = {
        sink for _, row in rows(section) for sink in [*row.get("arguments", {}).values(), row.get("sink", "system")]
    }
    assert given <= documented("sinks").keys()


def test_lifetimes_are_known() -> None:
    assert {row.get("lifetime", "call") for _, row in rows("request")} == {"call", "session"}


def test_no_expression_matches_everything() -> None:
    expressions = [row[key] for name in SECTIONS for _, row in rows(name) for key in ("pattern", "text") if key in row]
    assert len(expressions) > 5
    assert [one for one in expressions if re.search(one, "") or re.search(one, "x")] == []


def test_no_pattern_contradicts_itself() -> None:
    by_call: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    for file, row in rows("request"):
        for call in row["calls"]:
            by_call[call].append((file, row))
    contradictions = [
        (call, one, other, key)
        for call, those in by_call.items()
        for (one, row), (other, another) in combinations(those, 2)
        if not (row.get("packages") and another.get("packages")) or {*row["packages"]} & {*another["packages"]}
        for key in row["arguments"].keys() & another["arguments"].keys()
        if row["arguments"][key] != another["arguments"][key]
    ]
    assert not contradictions


def test_no_call_is_of_two_kinds() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for _, row in rows("source"):
        if not row.get("text"):
            for call in row.get("calls", ()):
                kinds[call].add(row["kind"])
    assert not {call: found for call, found in kinds.items() if len(found) > 1}


# A project's own
# ----------------------------------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_load(tmp_path: Path) -> None:
    examples = [one for one in re.findall(r"```toml\n(.*?)```", DOCUMENTED, re.DOTALL) if "[[" in one]
    assert examples
    for at, one in enumerate(examples):
        (tmp_path / f"{at}.toml").write_text(one, "utf-8")
        load((str(tmp_path / f"{at}.toml"),))


WRONG = {
    "no kind": '[[source]]\ncalls = ["a.b"]\n',
    "one table": '[source]\nkind = "clock"\n',
    "an unknown kind": '[[source]]\nkind = "klock"\ncalls = ["a"]\n',
    "an unknown table": "[[nothing]]\na = 1\n",
    "an unknown field": '[[source]]\nkind = "clock"\ncall = ["a"]\n',
    "not TOML": "[[request]\n",
    "no arguments": '[[request]]\ncalls = ["a"]\n',
    "an unknown sink": '[[request]]\ncalls = ["a"]\narguments = {b = "sistem"}\n',
    "an unknown field of a name": '[[once]]\npatern = "x"\n',
    "no list of calls": '[[source]]\nkind = "clock"\ncalls = "mine.now"\n',
    "no expression": '[[once]]\npattern = "("\n',
    "no table": "source = 3\n",
}
SILENT = {"an unknown sink", "an unknown field of a name", "no list of calls", "no expression"}
"""Accepted, or an error of another class, for now."""


@pytest.mark.parametrize("name", named(WRONG, SILENT))
def test_what_is_wrong_in_a_file_names_it(name: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(WRONG[name], "utf-8")
    with pytest.raises(UsageError, match=r"own\.toml"):
        load((str(file),)).matches("once", "x")


# Installed SDKs
# ----------------------------------------------------------------------------------------------------------------------


def _get(root: Any, path: str) -> Any:
    """What stands under a dotted path, None for nothing."""
    for part in path.split("."):
        try:
            root = getattr(root, part)
        except (AttributeError, ImportError):
            return None
    return root


def _parameters(function: Any) -> list[str]:
    """Names of the parameters of a function or class, without `self`; `**` for any."""
    fields = getattr(function, "model_fields", None) or (
        function.__annotations__ if hasattr(function, "__total__") else None
    )
    if fields is not None:
        return [*fields]
    parameters = inspect.signature(function).parameters.values()
    return ["**" if one.kind is one.VAR_KEYWORD else one.name for one in parameters if one.name != "self"]


def _check(file: str, roots: list[Any], absent: Callable[[str], bool] = lambda call: False) -> None:
    """Every pattern of a file leads to something below one of some roots, which takes the arguments."""
    for _, row in rows("request", file):
        found: list[list[str]] = []
        for call in row["calls"]:
            if absent(call):
                continue
            path = call.removeprefix("*.") if call.startswith("*.") else call.partition(".")[2]
            here = [_parameters(one) for one in (_get(root, path) for root in roots) if one is not None]
            assert here, f"{file}: nothing is called {call}"
            found += here
        if not found:
            continue
        known = set().union(*found)
        for key, sink in row["arguments"].items():
            if key.lstrip("-").isdigit():
                at = int(key)
                assert all(row["arguments"].get(one[at], sink) == sink for one in found if at < len(one)), (
                    file,
                    row["calls"],
                    key,
                )
            else:
                assert key.partition(".")[0] in known or "**" in known, (file, row["calls"], key)
        needs = {one for one in row.get("needs", ()) if not one.isdigit()}
        assert needs <= known or "**" in known, (file, row["calls"])


def test_anthropic_has_what_is_named() -> None:
    anthropic = pytest.importorskip("anthropic", minversion="2")
    client = anthropic.Anthropic(api_key="none")
    roots = [
        client,
        client.beta,
        anthropic,
        importlib.import_module("anthropic.types"),
        importlib.import_module("anthropic.types.beta"),
    ]
    roots.append(importlib.import_module("anthropic.types.message_create_params"))
    _check("anthropic", roots, absent=lambda call: call == "*.completions.create")


def test_openai_has_what_is_named() -> None:
    openai = pytest.importorskip("openai", minversion="3")
    client = openai.OpenAI(api_key="none")
    realtime = importlib.import_module("openai.resources.realtime.realtime").RealtimeConnection
    connection = realtime.__new__(realtime)
    connection.session = importlib.import_module("openai.resources.realtime.realtime").RealtimeSessionResource(
        connection
    )
    connection.response = importlib.import_module("openai.resources.realtime.realtime").RealtimeResponseResource(
        connection
    )
    roots = [client, client.chat, client.beta, client.beta.threads, client.realtime, connection, openai]
    roots += [
        importlib.import_module(name)
        for name in ("openai.types.chat", "openai.types.shared_params", "openai.types.responses")
    ]
    roots.append(importlib.import_module("openai.types.responses.function_tool_param"))
    _check("openai", roots, absent=lambda call: call.startswith("openai.ChatCompletion."))


def test_google_genai_has_what_is_named() -> None:
    genai = pytest.importorskip("google.genai", minversion="3")
    client = genai.Client(api_key="none")
    chat = importlib.import_module("google.genai.chats").Chat
    predecessors = ("GenerativeModel", "start_chat", "generate_content_async", "CachedContent")
    _check(
        "google",
        [client, client.aio, genai.types, chat],
        absent=lambda call: any(name in call for name in predecessors),
    )


def test_bedrock_has_what_is_named() -> None:
    boto3 = pytest.importorskip("boto3")
    services = ("bedrock-runtime", "bedrock-agent-runtime", "bedrock-agent")
    session = boto3.Session(aws_access_key_id="none", aws_secret_access_key="none", region_name="us-east-1")
    taken: dict[str, set[str]] = {}
    for client in map(session.client, services):
        for method, operation in client.meta.method_to_api_mapping.items():
            taken[method] = set(client.meta.service_model.operation_model(operation).input_shape.members)
    for _, row in rows("request", "bedrock"):
        known = set().union(*(taken[call.removeprefix("*.")] for call in row["calls"]))
        assert {key.partition(".")[0] for key in row["arguments"]} | {*row.get("needs", ())} <= known, row["calls"]


def test_contextkit_has_what_is_named() -> None:
    import contextkit

    parameters = _parameters(contextkit.Context)
    for _, row in rows("request", "contextkit"):
        if "contextkit.Context" in row["calls"]:
            assert set(row["arguments"]) <= {*parameters}


def test_the_standard_library_has_what_is_named() -> None:
    """Full names of sources whose first part is a module of Python's own."""
    import sys

    missing = []
    for _, row in rows("source", "python"):
        for call in row.get("calls", ()):
            first = call.partition(".")[0]
            if first in sys.stdlib_module_names and "()" not in call and not _is_there(call) and call not in NEWER:
                missing.append(call)
    assert not missing


NEWER = {"uuid.uuid6", "uuid.uuid7", "uuid.uuid8"}
"""Of Python 3.14."""
UNIX = {"os.uname", "os.getuid", "os.getloadavg", "os.fwalk"}
"""Not on Windows."""


def _is_there(name: str) -> bool:
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:at]))
        except ImportError:
            continue
        return _get(module, ".".join(parts[at:])) is not None or name in UNIX
    return False


@pytest.mark.parametrize(
    ("module", "name", "paths"),
    [
        (
            "anthropic.types",
            "Usage",
            ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"],
        ),
        ("openai.types", "CompletionUsage", ["prompt_tokens", "completion_tokens"]),
        ("openai.types.completion_usage", "PromptTokensDetails", ["cached_tokens"]),
        ("openai.types.responses", "ResponseUsage", ["input_tokens", "output_tokens"]),
        (
            "google.genai.types",
            "GenerateContentResponseUsageMetadata",
            ["prompt_token_count", "candidates_token_count", "cached_content_token_count"],
        ),
    ],
)
def test_counters_are_those_of_the_sdks(module: str, name: str, paths: list[str]) -> None:
    model = getattr(pytest.importorskip(module), name)
    words = {word for _, row in rows("usage") for field in row.values() for word in field}
    assert {*paths} <= model.model_fields.keys() & words
