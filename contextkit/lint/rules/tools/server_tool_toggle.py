"""server-tool-toggle: web search, web fetch or citations are switched on and off between turns.

## What it does
A setting of the user interface, or a router, decides per turn whether the provider's own search tool is offered or
whether documents are cited. The switch looks like a parameter, but the provider writes instructions for it into the
system text that nobody sees.

## Why it costs you
On Anthropic turning web search or web fetch on or off, or citations on or off, keeps the cached tools and loses
system and messages. Each change pays for the whole conversation; a user who alternates pays for it every turn, at
1.25 times the input price instead of a tenth.

## Example
    tools = [*TOOLS]
    if looks_like_news(question):
        tools.append({"type": "web_search_20250305", "name": "web_search"})
    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Decide once per session, and let the model choose not to search. If searching is rare and costly, give it a
conversation of its own and bring back only the answer:

    tools = [*TOOLS, {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]    # for the whole session

In contextkit `context.spawn(task, tools=[...])` is such a lane: its own log and cache, its cost in the same summary.

## Detected by
- source: a server tool added to the tools below a condition that is read per call, in the function that asks the
  model.
- requests: only server tools come or go, `citations` differ for a document that was sent, or the first document with
  citations comes.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` or `tools_changed` (Anthropic).

## References
- https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-use-with-prompt-caching
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import orjson

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import calls_in, field, last_name, statements, text_of
from contextkit.lint.rules.settings import had_cached, is_claude
from contextkit.lint.rules.shapes import paired
from contextkit.lint.rules.toolsets import SERVER_TOOL, is_server_tool, named, set_moves
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk
from contextkit.prompt.block import Block

_MAKERS = re.compile(r"^(?:Web(?:Search|Fetch)\w*Tool\w*|GoogleSearch|FileSearchTool|CodeInterpreterTool)$")
_WORDS = ("web_search", "web_fetch", "code_execution", "file_search", "WebSearch", "WebFetch", "GoogleSearch", "WEB")


def _toggled(step: Step, change: Change) -> Evidence | None:
    found = set_moves(step, change)
    moved = [*found.gone, *found.come] if found else []
    if found is None or not moved or found.held_back or found.promoted or not all(map(is_server_tool, moved)):
        return None
    what = [
        f"{named(found.gone)} was switched off" if found.gone else "",
        f"{named(found.come)} was switched on" if found.come else "",
    ]
    return Evidence(f"{' and '.join(filter(None, what))} at call {step.turn}")


def _cited(step: Step, change: Change) -> Evidence | None:
    """Documents that were sent before say otherwise now whether they are cited."""
    pairs = paired(change) if change.level == "messages" else []
    if not pairs or not all(_uncited(was) == _uncited(now) for was, now in pairs):
        return None
    return Evidence(
        f"citations were switched {'on' if _is_cited(pairs[0][1]) else 'off'} for a document that was sent before"
    )


def _uncited(block: Block) -> Json:
    value = _document(orjson.loads(block.body))
    is_document = isinstance(value, dict) and "source" in value
    return {key: item for key, item in value.items() if key != "citations"} if is_document else block.body.hex()


def _document(value: Json) -> Json:
    """A document without what Bedrock wraps it in: `{"document": {…}}`."""
    return value["document"] if isinstance(value, dict) and "document" in value else value


def _is_cited(block: Block) -> bool:
    value = _document(block.value)
    citations = value.get("citations") if isinstance(value, dict) and block.type == "document" else None
    return isinstance(citations, dict) and bool(citations.get("enabled"))


def _first_cited(step: Step) -> Evidence | None:
    """A new document turns citations on for the whole conversation: the provider writes instructions for them into the
    system text.
    """
    if not is_claude(step.after) or not had_cached(step, "system") or any(change.is_cached for change in step.changes):
        return None
    if any(map(_is_cited, step.before.blocks)):
        return None
    first = next((block for block in step.after.blocks if _is_cited(block)), None)
    text = "the first document with citations rewrites the system text"
    return Evidence(text, path=f"{first.path}.citations", now="enabled") if first else None


def _added(node: ast.If, view: View) -> Iterator[Hit]:
    """`if wants_search: tools.append({"type": "web_search_…"})` where the model is asked."""
    added: list[ast.AST] = [call for call in calls_in(node.body) if _adds(call, view)]
    added += [
        one
        for one in statements(node.body)
        if isinstance(one, ast.AugAssign) and _adds_to(one.target, [one.value], view)
    ]
    if added and not view.is_constant(node.test) and view.calls_model():
        why = "a server tool is switched on for some calls only; each change computes system and messages again"
        yield from (Hit(one, why) for one in added)


def _adds(call: ast.Call, view: View) -> bool:
    is_call = isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend", "insert")
    return is_call and isinstance(call.func, ast.Attribute) and _adds_to(call.func.value, call.args, view)


def _adds_to(holder: ast.expr, given: list[ast.expr], view: View) -> bool:
    return view.is_tools(holder) and any(_is_server_tool(part, view) for one in given for part in walk(one))


def _chosen(node: ast.IfExp, view: View) -> Iterator[Hit]:
    """`[WEB_SEARCH] if wants_search else []`."""
    if view.is_constant(node.test) or not any(
        _is_server_tool(part, view) for side in (node.body, node.orelse) for part in walk(side)
    ):
        return
    if view.calls_model() and any(isinstance(above, ast.keyword) and above.arg == "tools" for above in view.parents()):
        yield Hit(
            node, "a server tool is switched on for some calls only; each change computes system and messages again"
        )


def _is_server_tool(node: ast.AST, view: View) -> bool:
    """Whether it is one, written out, made, or kept in a constant of the module."""
    if isinstance(node, ast.Name) and node.id.isupper():
        stored = (one for one in getattr(view.parents()[0], "body", ()) if isinstance(one, ast.Assign))
        kept = (
            one.value
            for one in stored
            if last_name(one.targets[0]) == node.id and isinstance(one.value, ast.Dict | ast.Call)
        )
        return any(_is_server_tool(one, view) for one in kept)
    if isinstance(node, ast.Dict):
        return bool(SERVER_TOOL.match(text_of(field(node, "type"))))
    return isinstance(node, ast.Call) and bool(_MAKERS.match(last_name(node.func)))


HAZARD = Hazard(
    "CKT13",
    "server-tool-toggle",
    "D",
    "warning",
    source=(
        Pattern((ast.If,), _added, _WORDS, is_near=True),
        Pattern(
            (ast.IfExp,),
            _chosen,
            _WORDS,
            also=(("search", "Search", "fetch", "Fetch", "code_", "Code", "url", "image_generation", "WEB"),),
        ),
    ),
    requests=(
        RequestRule("change", _toggled, 11),
        RequestRule("change", _cited, 11),
        RequestRule("step", _first_cited),
    ),
    confirmed_by=("system_changed", "tools_changed"),
)
