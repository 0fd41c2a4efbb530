"""tool-defs-re-rendered: definitions are made anew after a refresh or reconnect, and come out with other bytes.

## What it does
A token is refreshed, a language server crashes and returns, a client object is recreated. The handler rebuilds the
registry, and the new definitions differ in spacing, order, defaults or version text from the old ones. Often the next
turn changes back.

## Why it costs you
The names are equal, so nobody notices, yet each change of bytes in `tools` costs the tools, system and message levels
once; a change and its reversal cost two writes of the whole conversation at 1.25 times the input price (Anthropic,
five-minute entries).

## Example
    class Registry:
        async def on_reconnect(self, server):
            self.tools = [render(tool) for tool in await server.list_tools()]

    client.messages.create(model=MODEL, max_tokens=2048, tools=registry.tools, messages=messages)

## Use instead
Keep the bytes of a definition with a digest of what it was made of, and render again only when that differs:

    def render_once(tool):
        key = hashlib.sha256(json.dumps(tool, sort_keys=True).encode()).digest()
        return rendered.setdefault((tool["name"], key), render(tool))

A contextkit `Toolbox` is sealed: reconnecting replaces the connection behind a tool, never its definition, and
`Toolbox.digest` says whether two are the same.

## Detected by
- source: tools of an object filled again in a handler for refresh, reconnect or a changed list.
- requests: definitions of the same names differ and no narrower hazard explains it, often to change back a call
  later; also tools that only got other names.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/90584
- https://github.com/rynfar/meridian/issues/367
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import last_name
from contextkit.lint.source import sinks
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_AGAIN = re.compile(
    r"^_*(?:\w+_)?(?:refresh|reconnect|reload|restart|rebuild|resync|re_?register|re_?initiali[sz]e)(?:_\w+)?$|^_*(?:on|handle)_(?:\w+_)?(?:list_)?changed$"
)
_IN_AGAIN = ("refresh", "reconnect", "reload", "restart", "rebuild", "resync", "register", "initiali", "changed")
"""One of these stands in every name that `_AGAIN` matches."""
_OWNERS = ("self", "cls", "session", "state")
_COPIES = ("list", "dict", "set", "tuple", "sorted", "get", "copy", "deepcopy")


def _rendered(step: Step, change: Change) -> Evidence | None:
    """Whatever else differs in the tools."""
    if change.level != "tools" or not change.is_first:
        return None
    older = [block.body for sent in step.earlier[-3:-1] for block in sent.blocks if block.level == "tools"]
    is_back = bool(change.now) and all(block.body in older for block in change.now)
    count = max(len(change.was), len(change.now))
    name = (change.now or change.was)[0].role
    what = f"{count} tool definition{'s' * (count != 1)}"
    return Evidence(
        f"{what} back to what stood there before: {name}" if is_back else f"{what} made anew with other words: {name}"
    )


def _again(node: ast.FunctionDef | ast.AsyncFunctionDef, view: View) -> Iterator[Hit]:
    """A handler for refresh or reconnect that fills the tools again."""
    if not _AGAIN.match(node.name):
        return
    for part in walk(node):
        if isinstance(part, ast.Assign) and _is_made(part.value) and any(map(_is_kept_tools, part.targets)):
            yield Hit(part, f"`{node.name}` makes the tool definitions anew; what comes out may have other bytes")


def _is_kept_tools(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Attribute)
        and bool(sinks.TOOLS.match(target.attr))
        and last_name(target.value) in _OWNERS
    )


def _is_made(value: ast.expr) -> bool:
    inner = value.value if isinstance(value, ast.Await) else value
    if isinstance(inner, ast.ListComp | ast.DictComp):
        return True
    return isinstance(inner, ast.Call) and last_name(inner.func) not in _COPIES


HAZARD = Hazard(
    "CKT10",
    "tool-defs-re-rendered",
    "A",
    "warning",
    source=(Pattern((ast.FunctionDef, ast.AsyncFunctionDef), _again, _IN_AGAIN, is_near=True),),
    requests=(RequestRule("change", _rendered, 90),),
    confirmed_by=("tools_changed",),
)
