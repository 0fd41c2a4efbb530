"""Source rules of CKS07 instruction-file-reload."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import AnyFunction, text_in
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import is_system_message, last_name, walk

_FILES = (
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "MEMORY.md",
    "SOUL.md",
    "AGENT.md",
    ".cursorrules",
    ".windsurfrules",
    "copilot-instructions",
)

_READS = frozenset({"read_text", "open", "read", "read_file", "load_file", "read_bytes"})

_BY_NAME = ("read_text", "open", "read_file", "load_file", "read_bytes")
"""Those that are told of where the file's name stands elsewhere."""

_SYSTEM = re.compile(r"^(?:system\w*|instructions?|developer)$")

_PROMPTS = re.compile(r"system|prompt|instruction", re.IGNORECASE)

_MAKES_PROMPTS = re.compile(r"system|instruction|^_*(?:build|make|render|compose|create|get)_\w*prompt", re.IGNORECASE)
"""Functions that make what a request begins with; one that is merely about a prompt may run once, where a session
begins."""

_ANEW = "an instruction file is read again where the prompt is made: an edit rewrites every open session"


def _read_anew(call: ast.Call, view: View) -> Iterator[Hit]:
    """An instruction file that is read where the prompt is made."""
    if last_name(call.func) not in _READS or _is_opened(call) or not _names_one(text_in(call)):
        return
    function = view.function()
    if function and function.name not in sanitizers.ONCE and _PROMPTS.search(f"{function.name} {_meant_for(view)}"):
        yield Hit(call, _ANEW)


def _read_by_name(call: ast.Call, view: View) -> Iterator[Hit]:
    """The same, where the file's name stands in a variable, or in a list that is gone through."""
    function = view.function() if last_name(call.func) in _BY_NAME else None
    if not function or function.name in sanitizers.ONCE or _is_opened(call) or _names_one(text_in(call)):
        return
    names = {part.id for part in walk(call) if isinstance(part, ast.Name)}
    if not any(_names_one(text_in(value)) for value in _values_of(names, function, view)):
        return
    read = _variables_holding(call, view)
    if _MAKES_PROMPTS.search(function.name) or (read and view.calls_model() and _is_sent(read, function, view)):
        yield Hit(call, _ANEW)


def _values_of(names: set[str], function: AnyFunction, view: View) -> Iterator[ast.expr]:
    """What is stored in some variables, and what they go through, through two names at most."""
    top = next((node.body for node in view.parents() if isinstance(node, ast.Module)), [])
    stored = [
        (target, node.value)
        for node in (*view.nodes(function, ast.Assign), *(node for node in top if isinstance(node, ast.Assign)))
        for target in node.targets
    ]
    stored += [(loop.target, loop.iter) for loop in view.nodes(function, ast.For)]
    stored += [(loop.target, loop.iter) for loop in view.nodes(function, ast.comprehension)]
    for _ in range(2):
        values = [value for target, value in stored if isinstance(target, ast.Name) and target.id in names]
        yield from values
        names = {part.id for value in values for part in walk(value) if isinstance(part, ast.Name)}


def _names_one(text: str) -> bool:
    return any(name in text for name in _FILES)


def _variables_holding(call: ast.Call, view: View) -> set[str]:
    """The variables that hold what is read, or the file that is opened."""
    around = view.parents()
    opened = [
        item.optional_vars for node in around if isinstance(node, ast.With | ast.AsyncWith) for item in node.items
    ]
    statement = next((node for node in reversed(around) if isinstance(node, ast.stmt)), None)
    stored = statement.targets if isinstance(statement, ast.Assign) else []
    return {last_name(node) for node in (*stored, *opened) if node is not None}


def _is_sent(names: set[str], function: AnyFunction, view: View) -> bool:
    """Whether one of some variables, or what is read from it, is handed over as a system text."""
    told = set(names)
    for node in view.nodes(function, ast.Assign):
        if any(isinstance(part, ast.Name) and part.id in told for part in walk(node.value)):
            told |= {last_name(target) for target in node.targets}
    given = [node.value for node in view.nodes(function, ast.keyword) if _SYSTEM.match(node.arg or "")]
    return any(isinstance(part, ast.Name) and part.id in told for value in given for part in walk(value))


def _is_opened(call: ast.Call) -> bool:
    """Whether what is read was opened in the same breath, `open("AGENTS.md").read()`: that is told of where it is
    opened.
    """
    holder = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(holder, ast.Call) and last_name(holder.func) in _READS


def _meant_for(view: View) -> str:
    """The words of the assignment around it, and the arguments and roles it is given as."""
    around = view.parents()
    statement = next((node for node in reversed(around) if isinstance(node, ast.stmt)), None)
    stored = [last_name(target) for target in statement.targets] if isinstance(statement, ast.Assign) else []
    given = [node.arg or "" for node in around if isinstance(node, ast.keyword) and _SYSTEM.match(node.arg or "")]
    roles = ["system" for node in around if is_system_message(node)]
    return " ".join([*stored, *given, *roles])


SOURCE = (
    Pattern((ast.Call,), _read_anew, _FILES, is_near=True),
    Pattern((ast.Call,), _read_by_name, _FILES, also=(_BY_NAME,)),
)
