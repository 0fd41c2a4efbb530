"""Source rules of CKL03 cold-fan-out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import is_model_call, keyword, last_name, text_of
from contextkit.lint.rules.marking import module_of, resolved
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import functions_in, walk

_WAITS = frozenset({"asyncio.gather", "asyncio.as_completed", "asyncio.wait"})

_NAMES = frozenset(name.rpartition(".")[2] for name in _WAITS)

_MAPS = frozenset({"map", "imap", "imap_unordered"})

_POOL = re.compile(r"pool|executor", re.IGNORECASE)

_ALONE = re.compile(rb"(?:ThreadPoolExecutor|ThreadPool)\((?:max_workers\s*=\s*)?1[,)]")
"""A pool of one thread, which makes its calls one after the other."""

_HEADS = ("system", "instructions", "tools")


def _gathered(node: ast.Call, view: View) -> Iterator[Hit]:
    """One function that asks a model, for many things at once, none of them ahead."""
    if not node.args or last_name(node.func) not in _NAMES or view.dotted(node) not in _WAITS:
        return
    given = node.args[0].value if isinstance(node.args[0], ast.Starred) else node.args[0]
    tasks = resolved(given, view)
    made = tasks.elt if isinstance(tasks, ast.ListComp | ast.GeneratorExp) else None
    call = (
        made.args[0]
        if isinstance(made, ast.Call) and last_name(made.func) in ("create_task", "ensure_future") and made.args
        else made
    )
    if not isinstance(call, ast.Call) or made is None or not isinstance(tasks, ast.ListComp | ast.GeneratorExp):
        return
    if _is_one_agent(call, tasks, view) or _shares_a_head(last_name(call.func), view):
        yield from _told(node, last_name(call.func), view)


def _told(node: ast.Call, name: str, view: View) -> Iterator[Hit]:
    if not _has_leader(name, view):
        yield Hit(node, f"all calls of `{name}` start together: none finds what another one writes; send one ahead")


def _is_one_agent(call: ast.Call, tasks: ast.ListComp | ast.GeneratorExp, view: View) -> bool:
    """`Runner.run(worker, question)` of OpenAI's agents, the worker the same for all."""
    targets = {part.id for loop in tasks.generators for part in walk(loop.target) if isinstance(part, ast.Name)}
    is_agents = view.dotted(call) == "agents.Runner.run" and bool(call.args)
    return is_agents and isinstance(call.args[0], ast.Name) and call.args[0].id not in targets


def _grouped(node: ast.Call, view: View) -> Iterator[Hit]:
    """`group.create_task(ask(task))` of an `asyncio.TaskGroup`, for each of many."""
    call = (
        node.args[0] if isinstance(node.func, ast.Attribute) and node.func.attr == "create_task" and node.args else None
    )
    if not isinstance(call, ast.Call) or view.dotted(node) == "asyncio.create_task" or not _is_for_each(view):
        return
    if _shares_a_head(last_name(call.func), view):
        yield from _told(node, last_name(call.func), view)


def _pooled(node: ast.Call, view: View) -> Iterator[Hit]:
    """`pool.map(ask, tasks)`, `pool.submit(ask, task)` for each, of several threads."""
    how = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    is_each = how in _MAPS or (how == "submit" and _is_for_each(view))
    given = node.args[0] if is_each and node.args else None
    if (
        not isinstance(given, ast.Name | ast.Attribute)
        or not _is_pool(node, view)
        or not _shares_a_head(last_name(given), view)
    ):
        return
    yield from _told(node, last_name(given), view)


def _is_pool(node: ast.Call, view: View) -> bool:
    """Whether it is called of what its name or its class says is a pool, of more than one thread."""
    held = node.func.value if isinstance(node.func, ast.Attribute) else node
    said = f"{last_name(held)} {view.dotted(held)}"
    return _POOL.search(said) is not None and _ALONE.search(view.source) is None


def _is_for_each(view: View) -> bool:
    """Whether it stands in a comprehension, or in a loop through things."""
    in_copy = any(isinstance(above, ast.ListComp | ast.GeneratorExp) for above in view.parents())
    return in_copy or isinstance(view.loop(), ast.For)


def _shares_a_head(name: str, view: View) -> bool:
    """Whether a function of the file asks a model, with instructions or tools that are the same each time."""
    found = [part for part in functions_in(module_of(view)) if part.name == name]
    calls = [call for one in found for call in walk(one) if isinstance(call, ast.Call) and is_model_call(call, view)]
    return any(keyword(call, *_HEADS) is not None or _has_system_message(one) for call in calls for one in found)


def _has_system_message(function: ast.AST) -> bool:
    dicts = (part for part in walk(function) if isinstance(part, ast.Dict))
    return any(text_of(value) in ("system", "developer") for part in dicts for value in part.values)


def _has_leader(name: str, view: View) -> bool:
    """Whether the function around awaits one such call by itself, or makes it in its own thread."""
    function = view.function()
    parts = walk(function) if function else []
    waits = [part.value for part in parts if isinstance(part, ast.Await)]
    calls = [part for part in parts if isinstance(part, ast.Call)] if isinstance(function, ast.FunctionDef) else []
    return any(isinstance(one, ast.Call) and last_name(one.func) == name for one in (*waits, *calls))


SOURCE = (
    Pattern((ast.Call,), _gathered, ("asyncio",), also=(("gather", "as_completed", ".wait", "wait("),)),
    Pattern((ast.Call,), _grouped, ("TaskGroup",), also=(("create_task",),)),
    Pattern((ast.Call,), _pooled, ("ThreadPool",), also=((".map", ".imap", ".submit"),)),
)
