"""Checks that calls, arguments and counters in the files of `contextkit/lint/knowledge` are those of the installed SDKs."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.lint.source.test_knowledge import rows


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
            ["input_tokens", "output_tokens"],
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
