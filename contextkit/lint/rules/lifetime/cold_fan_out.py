"""cold-fan-out: siblings start before the first of them has begun to answer, and all of them miss.

## What it does
Finds parallel calls with a common prefix whose starts lie before the first response began.

## Why it costs you
An entry becomes readable when the first response begins (Claude; SGLang when a request is through; vLLM at once). N siblings sent
together are N misses, and on Claude N writes of the same text: with eight agents on a prefix of 50,000 tokens eight writes at 1.25
times input instead of one and seven reads at a tenth or less. Reported from OpenHands and crewAI, and described in Claude Code's own
documentation.

## Example
    results = await asyncio.gather(*(ask(task) for task in tasks))

## Use instead
Send one ahead, and the others when its answer has begun. A call that generates nothing does as well:

    context.receive(await context.request(max_tokens=0).asend(client))
    results = await asyncio.gather(*(ask(context.fork(), task) for task in tasks))

## Detected by
- source: `asyncio.gather`, a task group or a pool of threads over calls of one function that sends instructions or tools, none made ahead.
- requests: a call that starts before the first with the same marked beginning has begun to answer.
- guard: not before sending: it compares a conversation with itself.
- provider: silent: each sibling is a first request.

## References
- https://github.com/OpenHands/software-agent-sdk/issues/2972
- https://github.com/crewAIInc/crewAI/issues/5921
- https://code.claude.com/docs/en/prompt-caching#subagents-and-the-cache
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.bills import began, by_session, common, read
from contextkit.lint.rules.callsites import is_model_call, keyword, last_name, text_of
from contextkit.lint.rules.marking import module_of, resolved
from contextkit.lint.rules.marks import estimated, is_reached, marks_of, n_tokens
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import functions_in, walk

_READ = 0.5
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


def _cold(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    for mine in by_session(calls).values():
        flying: list[RecordedCall] = []
        landed: list[RecordedCall] = []
        for sent in mine:
            landed += [one for one in flying if (began(one) or 0.0) <= sent.exchange.at]
            flying = [one for one in flying if (began(one) or 0.0) > sent.exchange.at]
            if flying and (found := _beside(sent, flying, landed)) is not None:
                yield found
            if sent.row.cache == "breakpoints" and began(sent) is not None and not sent.exchange.error:
                flying.append(sent)


def _beside(sent: RecordedCall, flying: Sequence[RecordedCall], landed: Sequence[RecordedCall]) -> Evidence | None:
    """The longest entry that a call under way is only about to write, and that nobody wrote before."""
    ends = {_entry(one, sent): one for one in flying}
    end = max(ends)
    if (
        end <= 0
        or estimated(sent, 0, end) < sent.row.min_tokens
        or max((_live(one, sent) for one in landed), default=0) >= end
    ):
        return None
    size = n_tokens(sent, 0, end)
    if (read(sent) or 0) >= _READ * size:
        return None
    return Evidence(
        f"sent while a call with the same first {size:,} tokens had not begun to answer: both write them",
        path=sent.blocks[end - 1].path,
        sent=sent,
    )


def _entry(one: RecordedCall, other: RecordedCall) -> int:
    """Blocks up to the last marker of `one` that `other` begins with and looks up."""
    if one.row.name != other.row.name:
        return 0
    shared = common(one.blocks, other.blocks)
    ends = [mark.index for mark in marks_of(one) if mark.index < shared]
    mine = marks_of(other)
    return max((end + 1 for end in ends if any(is_reached(other, mark.index, end) for mark in mine)), default=0)


def _live(one: RecordedCall, other: RecordedCall) -> int:
    is_alive = other.exchange.at - one.exchange.at <= one.row.default_ttl_seconds
    return _entry(one, other) if is_alive else 0


HAZARD = Hazard(
    "CKL03",
    "cold-fan-out",
    "A",
    "warning",
    source=(
        Pattern((ast.Call,), _gathered, ("asyncio",), also=(("gather", "as_completed", ".wait", "wait("),)),
        Pattern((ast.Call,), _grouped, ("TaskGroup",), also=(("create_task",),)),
        Pattern((ast.Call,), _pooled, ("ThreadPool",), also=((".map", ".imap", ".submit"),)),
    ),
    requests=(RequestRule("session", _cold),),
)
