"""Hazards of the tools array, as they show in requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.lint.injection.mutations.mutation import CLAUDE, EVERY, RESPONSES, Mutation
from tests.lint.injection.tape import SCHEMA, Call, Tape, arguments, inner, new_tool, part, requests, results, say

Json = Any
VERBS = ("search", "list", "create", "update", "delete", "fetch", "comment_on", "close", "label", "assign")
SERVERS = ("github", "linear", "slack", "notion", "sentry", "postgres")
_WORDS = {
    "query": {"type": "string"},
    "limit": {"type": "integer"},
    "id": {"type": "string"},
    "body": {"type": "string"},
}


def server_tools(call: Call, server: str, n: int) -> list[Json]:
    """Definitions as an MCP client names them."""
    made = []
    for verb in VERBS[:n]:
        properties = {
            key: _WORDS[key] for key in (("query", "limit") if verb in ("search", "list") else ("id", "body"))
        }
        made.append(
            new_tool(
                call,
                f"mcp__{server}__{verb}_items",
                f"{verb.replace('_', ' ').capitalize()} items of {server}.",
                properties,
            )
        )
    return made


def own_tools(call: Call, n: int) -> list[Json]:
    """Definitions of a program's own."""
    nouns = (
        "invoice",
        "ticket",
        "contact",
        "meeting",
        "file",
        "page",
        "order",
        "report",
        "alert",
        "branch",
        "query",
        "chart",
    )
    properties = {"name": {"type": "string", "description": "Which one."}, "depth": {"type": "integer"}}
    return [new_tool(call, f"get_{noun}", f"Look up one {noun} by its name.", properties) for noun in nouns[:n]]


def in_map_order(tape: Tape, turn: int, rng: Random) -> int | None:
    """A registry that is a hash map: another order for each request."""
    for call in tape.calls[turn:]:
        before = list(call.body["tools"])
        while call.body["tools"] == before:
            rng.shuffle(call.body["tools"])
    return turn


def server_connects_late(tape: Tape, turn: int, rng: Random) -> int | None:
    """The tools of a server come once it has connected; some clients sort them in, others append them."""
    server, n, is_sorted = rng.choice(SERVERS), rng.randint(2, 8), rng.random() < 0.5
    for i, call in enumerate(tape.calls):
        call.body["tools"] += server_tools(call, "filesystem", 3) + (server_tools(call, server, n) if i >= turn else [])
        if is_sorted:
            call.body["tools"].sort(key=lambda tool: inner(tool)["name"])
    return turn


def chosen_per_turn(tape: Tape, turn: int, rng: Random) -> int | None:
    """A retriever gives the tools nearest to the last question, always as many."""
    size = rng.randint(3, 6)
    pool = own_tools(tape.calls[0], 12)
    chosen = rng.sample(range(12), size)
    for i, call in enumerate(tape.calls):
        if i == turn or (i > turn and rng.random() < 0.3):
            old = set(chosen)
            while set(chosen) == old:
                chosen = rng.sample(range(12), size)
        call.body["tools"] += [pool[k] for k in sorted(chosen)]
    return turn


def dropped_at_the_end(tape: Tape, turn: int, rng: Random) -> int | None:
    """The last call of a run has no tools, or only the one that ends it."""
    del tape.calls[turn + 1 :]
    call = tape.calls[turn]
    say(
        call,
        part(
            call,
            rng.choice(
                ("Give your final answer now.", "You have reached the maximum number of steps. Summarize your work.")
            ),
        ),
    )
    way = rng.randrange(3)
    if way == 0:
        del call.body["tools"]
    else:
        call.body["tools"] = (
            [new_tool(call, "submit_answer", "End the run.", {"answer": {"type": "string"}})] if way == 1 else []
        )
    return turn


def defer_above_a_threshold(tape: Tape, turn: int, rng: Random) -> int | None:
    """One server more, and everything of servers is deferred behind a search."""
    one, other = rng.sample(SERVERS, 2)
    search = {
        CLAUDE: {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        RESPONSES: {"type": "tool_search"},
    }
    for i, call in enumerate(tape.calls):
        tools = server_tools(call, one, 8)
        if i >= turn:
            tools = [{**tool, "defer_loading": True} for tool in tools + server_tools(call, other, 6)] + [
                search[call.wire]
            ]
        call.body["tools"] += tools
    return turn


def promoted_after_a_search(tape: Tape, turn: int, rng: Random) -> int | None:
    """The newest call was a search for tools; what it found is put among the tools."""
    found = own_tools(tape.calls[0], 12)[rng.randrange(12)]
    name = inner(found)["name"]
    asked = [requests(call) for call in tape.calls]
    place = len(asked[turn]) - 1
    if place < 0 or len(asked[turn - 1]) > place or len(results(tape.calls[turn])) <= place:
        return None
    for i, call in enumerate(tape.calls):
        call.body["tools"].insert(
            0, new_tool(call, "search_tools", "Find a tool by what it should do.", {"query": {"type": "string"}})
        )
        if i >= turn and place < min(len(asked[i]), len(results(call))):
            asked[i][place]["name"] = "search_tools"
            given = {"query": name.replace("_", " ")}
            slot = arguments(asked[i][place])
            slot.holder[slot.key] = given if call.wire == CLAUDE else json.dumps(given)
            results(call)[place].text = f"1 tool found: {name} - {inner(found)['description']}"
            call.body["tools"].append(found)
    return turn


def _each_tool(
    change: Callable[[Json, str, Random], None], *, is_anew: bool
) -> Callable[[Tape, int, Random], int | None]:
    """From a turn on all definitions are spelled in another way, in the same one for each call or in a new one."""

    def mutate(tape: Tape, turn: int, rng: Random) -> int | None:
        seed = rng.random()
        for call in tape.calls[turn:]:
            mine = rng if is_anew else Random(seed)
            before = json.dumps(call.body["tools"])
            for _ in range(20):
                for tool in call.body["tools"]:
                    change(inner(tool), SCHEMA[call.wire], mine)
                if json.dumps(call.body["tools"]) != before:
                    break
        return turn

    return mutate


def _shuffled(value: Json, rng: Random) -> Json:
    if isinstance(value, dict):
        keys = rng.sample(list(value), len(value))
        return {key: _shuffled(value[key], rng) for key in keys}
    return value


def _schema_in_map_order(tool: Json, schema: str, rng: Random) -> None:
    tool[schema] = _shuffled(tool[schema], rng)


def _as_jsonb(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _as_jsonb(value[key]) for key in sorted(value, key=lambda key: (len(key.encode()), key.encode()))}
    return [_as_jsonb(item) for item in value] if isinstance(value, list) else value


def _from_the_registry(tool: Json, schema: str, rng: Random) -> None:
    tool[schema] = _as_jsonb(tool[schema])


def through_a_registry(tape: Tape, turn: int, rng: Random) -> int | None:
    """From a restart on the definitions are read from a JSON column."""
    n = rng.randint(3, 8)
    for call in tape.calls:
        call.body["tools"] += own_tools(call, n)
    tape.shift(turn, rng.uniform(300, 3000))
    return _each_tool(_from_the_registry, is_anew=False)(tape, turn, rng)


def _re_rendered(tool: Json, schema: str, rng: Random) -> None:
    way = rng.randrange(3)
    if way == 0:
        tool[schema] = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **tool[schema],
            "additionalProperties": False,
        }
    elif way == 1:
        properties = tool[schema].get("properties", {})
        tool[schema]["properties"] = {
            key: {"title": key.replace("_", " ").title(), **item} for key, item in properties.items()
        }
        tool[schema]["title"] = f"{tool['name']}Arguments"
    else:
        tool["description"] += " Results are limited to the first hundred. Ask again with an offset for more of them."


def made_anew(tape: Tape, turn: int, rng: Random) -> int | None:
    """A server came back in another version and describes itself in other words; some go back at the next reconnect."""
    last = len(tape.calls) if rng.random() < 0.5 else turn + rng.randint(1, 3)
    kept, tape.calls = tape.calls, tape.calls[:last]
    _each_tool(_re_rendered, is_anew=False)(tape, turn, rng)
    tape.calls = kept
    return turn


_VALUES: tuple[Callable[[Random], str], ...] = (
    lambda rng: f"Runs in /tmp/session-{rng.getrandbits(64):016x}.",
    lambda rng: f"The preview is at http://localhost:{rng.randint(20000, 65000)}/.",
    lambda rng: f"Today is 2026-0{rng.randint(1, 9)}-{rng.randint(10, 28)}.",
    lambda rng: (
        f"Files of this run lie in /home/{rng.choice(('ana', 'ben', 'eva'))}{rng.randint(1, 99)}/runs/{rng.randint(1, 9999)}."
    ),
)


def value_in_a_description(tape: Tape, turn: int, rng: Random) -> int | None:
    """A description holds a folder, an address or a date that is another one after a resume, or for each request."""
    make, is_each = rng.choice(_VALUES), rng.random() < 0.5
    place, value = rng.randrange(len(tape.calls[0].body["tools"])), make(rng)
    for i, call in enumerate(tape.calls):
        if i == turn or (i > turn and is_each):
            old = value
            while value == old:
                value = make(rng)
        tool = inner(call.body["tools"][place])
        tool["description"] += f" {value} Use absolute names."
    return turn


def skill_added(tape: Tape, turn: int, rng: Random) -> int | None:
    """The tool that runs skills lists them, and one is installed or removed."""
    skills = rng.sample(
        ["pdf", "xlsx", "review", "release-notes", "triage", "figma", "sql", "translate", "deploy", "forms"], 7
    )
    form = rng.choice(("\n- {}: use it for {} work", "<skill>{}</skill>", None))
    changed = [*skills[:3], *skills[4:]] if rng.random() < 0.5 else skills
    for i, call in enumerate(tape.calls):
        mine = changed if i >= turn else skills[: len(skills) - (changed is skills)]
        text = f" Known: {', '.join(mine)}" if form is None else "".join(form.format(name, name) for name in mine)
        if form and form.startswith("<"):
            text = "".join(f"\n- {name}" for name in mine)
        call.body["tools"].append(new_tool(call, "skill", f"Run a skill.{text}", {"name": {"type": "string"}}))
    return turn


def plan_mode(tape: Tape, turn: int, rng: Random) -> int | None:
    """The user goes into a mode that may not write; its tools go, and a notice says so."""
    back = turn + rng.randint(1, 4)
    names = [inner(tool)["name"] for tool in tape.calls[0].body["tools"]]
    gone = set(rng.sample(names, max(1, len(names) // 2)))
    notice = "Plan mode is active. You must not edit files or run commands that change anything."
    place = len(tape.calls[turn].said) - tape.calls[turn].first
    for i, call in enumerate(tape.calls[turn:], turn):
        if i < back:
            call.body["tools"] = [tool for tool in call.body["tools"] if inner(tool)["name"] not in gone]
        if i == turn:
            say(call, part(call, notice))
        elif call.wire == CLAUDE and place <= len(call.said):
            call.said[place - 1]["content"].append(part(call, notice))
        elif call.wire != CLAUDE:
            call.said.insert(call.first + place, {"role": "user", "content": [part(call, notice)]})
    return turn


def search_switched_on(tape: Tape, turn: int, rng: Random) -> int | None:
    """The provider's web search is on for some turns."""
    tool = {
        CLAUDE: {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        RESPONSES: {"type": "web_search"},
    }[tape.wire]
    for call in tape.calls[turn : turn + rng.randint(1, 5)]:
        call.body["tools"].append(tool)
    return turn


MUTATIONS = (
    Mutation("CKT01", "tools in the order of a hash map", in_map_order),
    Mutation("CKT02", "a server's tools come in mid-session", server_connects_late),
    Mutation("CKT03", "tools retrieved for each question", chosen_per_turn),
    Mutation("CKT04", "no tools at the last call", dropped_at_the_end),
    Mutation("CKT02", "tools deferred above a threshold", defer_above_a_threshold, (CLAUDE, RESPONSES)),
    Mutation("CKT02", "a tool that was searched is put in front", promoted_after_a_search),
    Mutation("CKT07", "schema keys in the order of a hash map", _each_tool(_schema_in_map_order, is_anew=True)),
    Mutation("CKT08", "folder, address or date in a description", value_in_a_description),
    Mutation("CKT08", "list of skills in a description", skill_added),
    Mutation("CKT10", "definitions made anew by a server", made_anew),
    Mutation("CKT11", "a mode takes tools away", plan_mode),
    Mutation("CKT07", "definitions read from a JSON column", through_a_registry, EVERY),
    Mutation("CKT13", "the provider's search switched on", search_switched_on, (CLAUDE, RESPONSES)),
)
