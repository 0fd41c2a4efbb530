"""Law 3 for what comes from outside: a tool server writes keys in another order after each connection, and a dict built
from a set has another order in each process. Neither changes a request; a real change is named by its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit import Context, tool
from contextkit.cache.usage import ZERO
from contextkit.canonical import canonical, parse
from contextkit.errors import HeadChanged, InvalidTool
from contextkit.log.log import Log
from contextkit.tools.late import call_tool
from contextkit.tools.tool import Tool
from tests.laws.wires import PROVIDERS, answer

ROOT = Path(__file__).resolve().parents[2]
Json = Any

RUN = """
import hashlib, json
from contextkit import Context, tool
from contextkit.cache.usage import ZERO
from contextkit.tools.tool import Tool, Toolbox
from tests.laws.wires import PROVIDERS, answer

WORDS = "alpha beta gamma delta epsilon zeta eta theta".split()
SCHEMA = {"type": "object", "title": "Query", "required": ["q"], "additionalProperties": False,
          "properties": {"q": {"type": "string", "minLength": 1, "title": "Q"}, "n": {"type": "integer", "default": 3}}}


def shuffled(value):
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in {*value}}  # the order of a set
    return [shuffled(one) for one in value] if isinstance(value, list) else value


def of_a_set():
    '''Count.'''
    return {word: {letter: word.count(letter) for letter in {*word}} for word in {*WORDS}}


def connected(schema):
    rows = [{"name": name, "description": "Find.", "inputSchema": schema} for name in ("b.find", "a")]
    return Toolbox.sorted(Tool.from_mcp({"tools": rows}, call=lambda name, arguments: of_a_set()))


def bodies(provider, sort_keys, sort_results):
    own = tool(sort_keys=sort_keys)(of_a_set)
    options = {"system": "Careful.", "sort_results": sort_results, "clock": lambda: 0.0}
    context = Context(provider, tools=[*connected(SCHEMA), own], **options)
    context.user("Count.")
    yield context.request().body
    for number in range(3):
        names = ["of_a_set", "b_find"][: 1 + sort_results]
        calls = [("call", f"c{number}{name}", name, {"q": "x"} if name == "b_find" else {}) for name in names]
        context.receive(answer(provider.wire, f"r{number}", calls, ZERO), context.request())
        for call in context.calls:
            context.result(call, call.run())
        before, n = context.request().body, len(context.log)
        again = [*connected(shuffled(SCHEMA)), own]
        if number == 1:
            context.retool(again)  # the server was connected anew
        if number == 2:
            context = Context(provider, log=context.log, tools=again, **options)
        assert context.request().body == before and len(context.log) == n
        yield before


ways = {"tool": (True, False), "context": (False, True), "unsorted": (False, False)}
print(json.dumps({
    f"{name} {way}": [hashlib.sha256(body).hexdigest() for body in bodies(make(), *how)]
    for name, make in PROVIDERS.items() for way, how in ways.items()
}))
"""


def test_no_hash_seed_and_no_reconnect_changes_a_request_of_any_adapter() -> None:
    runs = []
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run([sys.executable, "-c", RUN], capture_output=True, env=environment, cwd=ROOT, check=True)
        runs.append(json.loads(ran.stdout))
    for name in PROVIDERS:
        for way in ("tool", "context"):
            assert runs[0][f"{name} {way}"] == runs[1][f"{name} {way}"] == runs[2][f"{name} {way}"]
        first, *rest = zip(*(run[f"{name} unsorted"] for run in runs), strict=True)
        assert len({*first}) == 1 and all(len({*bodies}) == 3 for bodies in rest), "the seeds do shuffle"


# Definitions of any form
# ----------------------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["items", "limit", "properties", "title", "anyOf", "x"])
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab", max_size=3) | st.none(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=4),
    max_leaves=12,
)
SCHEMAS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4).map(lambda schema: {"type": "object", **schema})


def shuffled(value: Json, order: Random) -> Json:
    """The same JSON value with its keys in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], order) for key in order.sample(list(value), len(value))}
    return [shuffled(one, order) for one in value] if isinstance(value, list) else value


def places(value: Json, path: str) -> Iterator[tuple[str, Json, Json]]:
    """Path, holder and key of everything inside a value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in steps:
        at = f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}"
        yield at, value, key
        yield from places(inside, at)


def tools_of(schemas: list[Json], order: Random | None = None) -> list[Tool]:
    """A tool of each schema."""
    written = schemas if order is None else [shuffled(schema, order) for schema in schemas]
    return [
        Tool.raw({"name": f"t{n}", "description": "Do.", "parameters": schema}, run=lambda arguments: arguments)
        for n, schema in enumerate(written)
    ]


@given(st.lists(SCHEMAS, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_definitions_with_keys_in_another_order_have_the_bytes_of_the_log(schemas: list[Json], order: Random) -> None:
    begun = Context(PROVIDERS["anthropic"](), system="Careful.", tools=tools_of(schemas))
    begun.user("Go.")
    body, n = begun.request().body, len(begun.log)
    again = Context(PROVIDERS["anthropic"](), system="Careful.", log=begun.log, tools=tools_of(schemas, order))
    assert again.request().body == body and len(again.log) == n
    for agent in again.spawn("Look."), again.spawn("Look.", tools=tools_of(schemas, order)[:1]):
        assert canonical(parse(agent.log[0].body)["tools"]) == canonical(parse(begun.log[0].body)["tools"])


@given(st.lists(SCHEMAS, min_size=1, max_size=3), st.randoms(use_true_random=False), st.booleans())
def test_a_real_change_is_named_by_its_path(schemas: list[Json], order: Random, is_removed: bool) -> None:
    begun = Context(PROVIDERS["anthropic"](), tools=tools_of(schemas))
    changed = deepcopy(schemas)
    index = order.randrange(len(changed))
    path, holder, key = order.choice([*places(changed[index], f"tools[{index}].parameters")][1:])
    if is_removed and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = "something else"
    with pytest.raises(HeadChanged) as caught:
        Context(PROVIDERS["anthropic"](), log=begun.log, tools=tools_of(changed, order))
    assert f" at {path} (was " in str(caught.value) and "something else" not in str(caught.value)


def test_late_tools_come_again_with_other_keys_and_are_bound() -> None:
    schema = {"type": "object", "title": "Q", "properties": {"limit": {"type": "integer", "title": "L"}}}
    context = Context(PROVIDERS["chat"](), system="Careful.", tools=[call_tool])
    context.late_tools(tools_of([schema]))
    context.user("Go.")
    body, n = context.request().body, len(context.log)
    ran: list[Json] = []
    again = Tool.raw({"name": "t0", "description": "Do.", "parameters": shuffled(schema, Random(3))}, run=ran.append)
    assert list(again.parameters) != list(schema)
    context.late_tools([again])
    assert context.request().body == body and len(context.log) == n
    call = ("call", "c1", "call_tool", {"name": "t0", "arguments": {"limit": 3}})
    context.receive(answer("openai_chat", "r", [call], ZERO), context.request())
    context.calls[0].run()
    assert ran == [{"limit": 3}]
    schema["properties"] = {"limit": {"type": "number", "title": "L"}}
    with pytest.raises(InvalidTool, match=r"it differs at t0\.parameters\.properties\.limit\.type"):
        context.late_tools(tools_of([schema], Random(3)))


def test_a_tool_that_sorts_its_results_does_so_through_call_tool_too() -> None:
    @tool(sort_keys=True)
    def look() -> Json:
        """Look."""
        return {"b": {"d": 1, "c": [{"z": 1, "y": 2}]}, "a": "{}"}

    context = Context(PROVIDERS["chat"](), log=Log(), tools=[call_tool])
    context.late_tools([look])
    context.user("Go.")
    call = ("call", "c1", "call_tool", {"name": "look", "arguments": {}})
    context.receive(answer("openai_chat", "r", [call], ZERO), context.request())
    entry = context.result(context.calls[0], context.calls[0].run())
    assert parse(entry.body)["content"][0]["text"] == '{"a":"{}","b":{"c":[{"y":2,"z":1}],"d":1}}'
