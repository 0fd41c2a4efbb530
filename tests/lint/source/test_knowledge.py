"""The files of `contextkit/lint/knowledge`: they load, say documented words, and name what the installed SDKs have."""

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
from contextkit.lint.source.knowledge import KINDS, SINKS, Knowledge, load

FOLDER = Path(__file__).parents[3] / "contextkit" / "lint" / "knowledge"
FILES = sorted(FOLDER.glob("*.toml"))
DOCUMENTED = (Path(__file__).parents[3] / "docs" / "reference" / "lint-knowledge.md").read_text("utf-8")
Row = dict[str, Any]

FIELDS = {
    "source": {"is_tuple", "kind", "calls", "names", "globals", "receivers", "arguments", "without", "text", "element"},
    "sanitizer": {"calls", "removes", "needs", "passes"},
    "opaque": {"calls"},
    "request": {"calls", "arguments", "provider", "needs", "lifetime", "packages", "receivers"},
    "decorator": {"names", "sink", "packages"},
    "injection": {"calls", "argument", "kind", "sink", "packages", "source"},
    "window": {"calls", "is", "packages", "unit", "argument", "when", "absent", "off", "summarises", "source"},
    "usage": {
        "provider", "api", "holders", "answers", "input", "output", "read", "fresh", "write", "input_includes_cached", "source", "date",
    },
    "marker": {
        "provider", "key", "value", "maximum", "ttl", "default_ttl", "longest_first", "is_own_block", "places", "on", "not_on",
        "models", "lookback", "source", "date",
    },
    "automatic_marker": {"provider", "calls", "arguments", "off", "packages", "source", "date"},
}  # fmt: skip


def rows(section: str, *files: str) -> Iterator[tuple[str, Row]]:
    """The rows of a table, each with the name of its file."""
    for file in FILES:
        if not files or file.stem in files:
            for row in tomllib.loads(file.read_text("utf-8")).get(section, []):
                yield file.name, row


def words(table: str) -> set[str]:
    """The words in the first column of a table of the documentation."""
    part = DOCUMENTED.partition(f"<!-- {table} -->\n")[2].partition("\n\n")[0]
    return {word for line in part.splitlines() for word in re.findall(r"`(\w+)`", line.split("|")[1])}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_file_loads_alone(file: Path) -> None:
    knowledge, table = Knowledge(), tomllib.loads(file.read_text("utf-8"))
    knowledge.read(table, file.name)
    own = {"source", "sanitizer", "opaque", "request", "groups"}
    assert {name: len(rows) for name, rows in knowledge.sections.items()} == {
        name: len(rows) for name, rows in table.items() if name not in own
    }


def test_what_is_loaded_is_found() -> None:
    knowledge = load()
    assert [one.kind for one in knowledge.sources.find("datetime.datetime.now")] == ["clock", "clock"]
    assert {row.arguments["system"] for row in knowledge.requests.find("anthropic.Anthropic().messages.create")} == {
        "system"
    }
    assert {"unordered", "paths"} <= knowledge.sanitizers.find("sorted")[0].removes
    assert knowledge.opaque.find("logging.info")


@pytest.mark.parametrize("section", FIELDS)
def test_rows_have_known_fields(section: str) -> None:
    unknown = [
        (file, sorted(row.keys() - FIELDS[section])) for file, row in rows(section) if row.keys() - FIELDS[section]
    ]
    assert not unknown


def test_kinds_are_documented() -> None:
    kinds, groups = words("kinds"), set(load().groups)
    given = {
        row["kind"] for section in ("source", "injection", "listing_name", "filled_name") for _, row in rows(section)
    }
    removed = {kind for _, row in rows("sanitizer") for kind in row["removes"]}
    assert kinds == KINDS
    assert not given - kinds
    assert not removed - kinds - groups
    assert not set().union(*load().groups.values()) - kinds


def test_sinks_are_documented() -> None:
    sinks = words("sinks")
    given = {sink for _, row in rows("request") for sink in row["arguments"].values()}
    given |= {sink for _, row in rows("http_request") for sink in row["keys"].values()}
    given |= {sink for _, row in rows("tool_maker") for sink in row["arguments"].values()}
    given |= {
        row["sink"]
        for section in ("decorator", "injection", "prompt_name", "template_function", "tool_property")
        for _, row in rows(section)
    }
    assert sinks == SINKS
    assert not given - sinks


def test_lifetimes_units_and_dates() -> None:
    assert {row.get("lifetime", "call") for _, row in rows("request")} == {"call", "session"}
    assert {row["unit"] for _, row in rows("window")} <= {"messages", "turns", "tokens", "tool results", "share"}
    assert {row["absent"] for _, row in rows("window")} == {"cuts", "keeps"}
    assert {row["is"] for _, row in rows("window")} == {"call", "constructor"}
    undated = [
        row
        for section in ("usage", "marker", "automatic_marker")
        for _, row in rows(section)
        if "date" not in row or not row["source"]
    ]
    assert not undated


def test_no_expression_matches_everything() -> None:
    expressions = [row[field] for _, row in rows("tool_maker") for field in ("name",)]
    for section in ("source", "template_function", "history_name", "once", "side_call", "keeping", "aside"):
        expressions += [row[field] for _, row in rows(section) for field in ("pattern", "text") if field in row]
    assert len(expressions) > 10
    assert [one for one in expressions if re.search(one, "") or re.search(one, "x")] == []


def test_no_pattern_contradicts_itself() -> None:
    """The same call has one sink for an argument, among the rows of one package."""
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


def test_no_call_is_both_opaque_and_a_source() -> None:
    opaque = {call for _, row in rows("opaque") for call in row["calls"]}
    sources = {call for _, row in rows("source") for call in row.get("calls", ())}
    sanitizers = {call for _, row in rows("sanitizer") for call in row["calls"]}
    assert not opaque & (sources | sanitizers)


def test_no_call_is_of_two_kinds() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for _, row in rows("source"):
        if not row.get("receivers") and not row.get("text"):
            for call in row.get("calls", ()):
                kinds[call].add(row["kind"])
    assert not {call: found for call, found in kinds.items() if len(found) > 1}


# ------------------------------------------------------------------------------------------------------------ installed SDKs


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
    for _, row in rows("sanitizer", "contextkit"):
        for call in row["calls"]:
            module, _, name = call.rpartition(".")
            assert {*row["needs"]} <= {*_parameters(getattr(importlib.import_module(module), name))}


def test_the_standard_library_has_what_is_named() -> None:
    """Full names of sources whose first part is a module of Python's own."""
    import sys

    missing = []
    for _, row in rows("source", "python"):
        for call in [*row.get("calls", ()), *row.get("globals", ())]:
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


# ------------------------------------------------------------------------------------------------------------- usage and markers


def _field(model: Any, path: str) -> bool:
    """Whether a class of counters has a field under a path."""
    name, _, rest = path.partition(".")
    if name not in model.model_fields:
        return False
    if not rest:
        return True
    annotation = model.model_fields[name].annotation
    parts = getattr(annotation, "__args__", (annotation,))
    return any(_field(one, rest) for one in parts if hasattr(one, "model_fields"))


@pytest.mark.parametrize(
    ("provider", "api", "module", "name"),
    [
        ("anthropic", None, "anthropic.types", "Usage"),
        ("openai", "chat", "openai.types", "CompletionUsage"),
        ("openai", "responses", "openai.types.responses", "ResponseUsage"),
        ("google", None, "google.genai.types", "GenerateContentResponseUsageMetadata"),
    ],
)
def test_usage_fields_exist(provider: str, api: str | None, module: str, name: str) -> None:
    model = getattr(pytest.importorskip(module), name)
    (row,) = [row for _, row in rows("usage") if row["provider"] == provider and row.get("api") == api]
    missing = [path for field in ("input", "output", "read", "write") for path in row[field] if not _field(model, path)]
    assert not missing


def test_marker_lifetimes_are_those_of_the_sdk() -> None:
    param = pytest.importorskip("anthropic.types.cache_control_ephemeral_param").CacheControlEphemeralParam
    (row,) = [row for _, row in rows("marker", "anthropic")]
    written = inspect.getsource(inspect.getmodule(param))  # type: ignore[arg-type]
    assert all(f'"{ttl}"' in written for ttl in row["ttl"])
    blocks = importlib.import_module("anthropic.types")
    assert "cache_control" not in blocks.ThinkingBlockParam.__annotations__
    assert "cache_control" not in blocks.RedactedThinkingBlockParam.__annotations__


# -------------------------------------------------------------------------------------------------------------- a project's own


def test_examples_of_the_documentation_load(tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(.*?)```", DOCUMENTED, re.DOTALL)
    own = [one for one in examples if "[[" in one]
    assert len(own) == 2
    for at, one in enumerate(own):
        (tmp_path / f"{at}.toml").write_text(one, "utf-8")
        load((str(tmp_path / f"{at}.toml"),))


@pytest.mark.parametrize(
    "text",
    [
        '[[source]]\ncalls = ["a.b"]\n',
        '[source]\nkind = "clock"\n',
        '[[source]]\nkind = "clock"\ncall = ["a"]\n',
        "[[request]\n",
    ],
)
def test_a_row_that_is_none_names_its_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"own\.toml"):
        load((str(file),))
