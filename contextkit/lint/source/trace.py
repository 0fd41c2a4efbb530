"""Follows a value backward to everything it is made of.

A walk begins at what a request is given and visits the parts of each expression: the values of variables at that place,
the attributes of the object, what functions of the files return, with their parameters bound to the arguments of the
very call. What is made once for a process or a session is marked; what makes a value stable (`sorted`, a format that
writes the day only) takes kinds away. A function that is not known ends the walk.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from contextkit.lint.source.knowledge import Knowledge
from contextkit.lint.source.program import Program, Target
from contextkit.lint.source.scopes import ANY, Binding, Class, Path, Place, Scope, last_name

_MOST_STEPS: Final = 1_500
_DEEPEST: Final = 8
"""Calls that are entered from one another."""
_TIME_OF_DAY: Final = ("%H", "%M", "%S", "%f", "%I", "%p", "%s", "%T", "%X", "%c", "%r", "%R", "HH", "mm", "ss")
_DAY_PARTS: Final = frozenset(
    {"date", "year", "month", "day", "weekday", "isoweekday", "isocalendar", "toordinal", "today"}
)
_SAME_SHAPE: Final = frozenset(
    {
        "list",
        "tuple",
        "sorted",
        "reversed",
        "iter",
        "next",
        "filter",
        "copy",
        "deepcopy",
        "cast",
        "chain",
        "islice",
        "set",
        "frozenset",
        "model_copy",
        "model_dump",
        "run",
        "wait_for",
    }
)
"""Last names of calls whose result has the keys and items of what they are given."""


class Given(ast.Name):
    """A parameter of which nobody in view says what it is given."""


@dataclass(eq=False, slots=True)
class Frame:
    """A call that was entered."""

    call: ast.Call
    scope: Scope
    """Where the call stands."""
    place: Place
    target: Target
    outer: Frame | None
    once: bool
    depth: int


@dataclass(eq=False, slots=True)
class Step:
    """An expression on the way, and how it was reached."""

    node: ast.expr
    scope: Scope
    place: Place
    path: Path = ()
    """Keys that are still to be read from it."""
    frame: Frame | None = None
    once: bool = False
    """Whether it is made once for a process or a session."""
    removed: frozenset[str] = frozenset()
    """Kinds that do not get through from here."""
    parent: Step | None = None
    binding: Binding | None = None
    """The change of a variable by which it was reached."""
    is_condition: bool = False
    """Whether it decides which value is taken, and is no part of it."""
    is_object: bool = False
    """Whether it is the object whose attribute is read, of a class that is not known."""
    is_open: bool = False
    """Whether nothing is known of what it is made of."""

    def chain(self) -> Iterator[Step]:
        """The step and those before it, back to the beginning of the walk."""
        step: Step | None = self
        while step is not None:
            yield step
            step = step.parent


class Tracer:
    """Walks values of one program."""

    def __init__(self, program: Program, knowledge: Knowledge) -> None:
        self.program = program
        self.knowledge = knowledge
        self.order = knowledge.groups.get("order", frozenset())

    def walk(self, first: Step, *, selects: bool = False, stops: Callable[[Step], bool] | None = None) -> list[Step]:
        """The steps that a value is made of, nearest first; with `selects` what decides which value is taken, too.

        What `stops` says True of is visited and not followed.
        """
        steps, seen, index = [first], {_key(first)}, 0
        while index < len(steps) and index < _MOST_STEPS:
            step = steps[index]
            index += 1
            if step.is_condition or (stops is not None and stops(step)):
                continue
            step.is_open = True
            for one in self.parts(step):
                step.is_open = step.is_open and (one.is_condition or one.is_object)
                if one.is_condition and not selects:
                    continue
                key = _key(one)
                if key not in seen:
                    seen.add(key)
                    steps.append(one)
        return steps

    def parts(self, step: Step) -> Iterable[Step]:
        """What an expression is made of."""
        reader = _READERS.get(type(step.node))
        return reader(self, step, step.node) if reader is not None else ()

    # Variables

    def name(self, step: Step, node: ast.Name) -> Iterator[Step]:
        bindings = self.program.bindings_of(node, step.scope, step.place)
        for binding in bindings:
            if binding.operation == "sort" and binding.place.is_around(step.place):
                step = replace(step, removed=step.removed | self.order)
            yield from self.bound(step, binding)
        if not bindings and isinstance(value := self.program.resolve(node.id, step.scope), Scope):
            yield from self.function(step, value)

    def function(self, step: Step, function: Scope) -> Iterator[Step]:
        """What a function returns that is given where a framework calls it, on each request."""
        if step.frame is None and not step.path:
            for value, place in function.returns:
                yield Step(value, function, place, step.path, None, False, step.removed, step)

    def bound(self, step: Step, binding: Binding) -> Iterator[Step]:
        """The value of a variable, or a change to it."""
        scope, path, removed = binding.scope, step.path, step.removed
        is_own = scope is step.scope
        once = step.once or (scope.is_module and not is_own)
        frame = step.frame if is_own or _is_around(scope, step.scope) else None
        if binding.kind == "param":
            yield from self.argument(step, binding)
            return
        if binding.value is None:
            return
        match binding.kind:
            case "set" | "for" | "comp":
                path = (*binding.path, *path)
                if binding.kind != "set":
                    removed |= self.order  # each of the items, whatever their order
            case "item":
                rest = _below(binding.path, path)
                if rest is None or (binding.path[0] == ANY and path and path[0] not in (ANY, 0)):
                    return  # `options[name] = value` is hardly about this key
                path = rest
            case "add":
                if binding.operation == "insert" or binding.operation in ("append", "add", "appendleft"):
                    path = path[1:] if path and (path[0] == ANY or isinstance(path[0], int)) else path
                elif binding.operation == "setdefault":
                    path = path[1:]
            case "take":
                return
        yield Step(binding.value, scope, binding.place, path, frame, once, removed, step, binding)
        if binding.kind == "add" and binding.operation != "+=":
            for loop in binding.place.loops():
                if isinstance(loop, ast.For | ast.AsyncFor) and (not is_own or loop not in step.place.loops()):
                    yield Step(loop.iter, scope, binding.place, (ANY,), frame, once, step.removed, step, binding)
        yield from self.conditions(step, binding)

    def conditions(self, step: Step, binding: Binding) -> Iterator[Step]:
        """The tests of the branches in which a variable gets a value, where the use is outside of them."""
        wanted = step.path[0] if step.path and binding.kind != "item" else ANY
        keys = (
            [getattr(key, "value", None) for key in binding.value.keys] if isinstance(binding.value, ast.Dict) else []
        )
        if wanted != ANY and wanted not in keys:
            return  # nothing says that the value has what is asked for
        shared = {id(node) for node, _ in step.place.blocks} if binding.scope is step.scope else set()
        for node, _ in binding.place.blocks:
            if id(node) not in shared and isinstance(node, ast.If | ast.Match):
                test = node.test if isinstance(node, ast.If) else node.subject
                yield self.condition(step, test, binding.scope, binding.place, binding)

    def condition(self, step: Step, test: ast.expr, scope: Scope, place: Place, binding: Binding | None = None) -> Step:
        """What decides which value is taken."""
        return Step(test, scope, place, (), step.frame, step.once, step.removed, step, binding, is_condition=True)

    def argument(self, step: Step, binding: Binding) -> Iterator[Step]:
        """What a parameter is given: by the call that was entered, else by the calls in view."""
        scope, name = binding.scope, binding.node.arg  # type: ignore[attr-defined]
        frame = step.frame
        while frame is not None and frame.target.scope is not scope:
            frame = frame.outer
        if name == scope.receiver:
            if frame is not None and frame.target.receiver is not None:
                yield Step(
                    frame.target.receiver,
                    frame.scope,
                    frame.place,
                    step.path,
                    frame.outer,
                    step.once,
                    step.removed,
                    step,
                )
            return
        n_given = 0
        if frame is not None:
            sites = [(frame.call, frame.scope, frame.place, frame.target, frame.outer, step.once)]
        else:
            depth = sum(one.binding is not None and one.binding.kind == "param" for one in step.chain())
            callers = self.program.callers(scope) if depth <= _DEEPEST // 2 else []
            sites = [(site.node, site.scope, site.place, target, None, step.once) for site, target in callers]
        for call, caller, place, target, outer, once in sites:
            for value, path in arguments_of(call, target, name):
                n_given += 1
                yield Step(value, caller, place, (*path, *step.path), outer, once, step.removed, step, binding)
        if not n_given and binding.value is not None:
            yield Step(binding.value, scope, Place(0), step.path, None, True, step.removed, step)
        if (not n_given and not sites) or (frame is None and self.program.has_other_callers(scope)):
            given = ast.copy_location(Given(name, ast.Load()), binding.node)
            yield Step(given, scope, Place(-1), step.path, None, step.once, step.removed, step, binding)

    def attribute(self, step: Step, node: ast.Attribute) -> Iterator[Step]:
        owner = self.program.class_of(node.value, step.scope, step.place)
        if owner is None:
            removed = step.removed | {"clock"} if node.attr in _DAY_PARTS else step.removed
            value = self.program.named(node, step.scope)
            if isinstance(value, list):
                for binding in value:
                    yield from self.bound(step, binding)
            else:
                inner = self.inner(step, node.value, (f".{node.attr}", *step.path), removed)
                inner.is_object = True
                yield inner
            return
        yield from self.member(step, owner, node)

    def member(self, step: Step, owner: Class, node: ast.Attribute) -> Iterator[Step]:
        """An attribute of an object of a class of the files."""
        for cls in self.program.family(owner):
            method = cls.methods.get(node.attr)
            if method is not None:
                if {"property", "cached_property"} & set(method.decorators()):
                    once = step.once or self.is_frozen(method)
                    for value, place in method.returns:
                        yield Step(value, method, place, step.path, step.frame, once, step.removed, step)
                return
            for binding in cls.attributes.get(node.attr, ()):
                scope = binding.scope
                if scope is step.scope and binding not in scope.reaching(f"{scope.receiver}.{node.attr}", step.place):
                    continue
                made = self.receiver(step, node.value) if scope.name == "__init__" else None
                is_kept = made is None and self.is_session(scope, step.scope)
                once = step.once or scope.is_module or is_kept or self.is_lazy(binding, node.attr)
                frame = made or (step.frame if scope is step.scope else None)
                yield from self.bound(
                    Step(node, scope, Place(10**6), step.path, frame, once, step.removed, step), binding
                )

    def receiver(self, step: Step, node: ast.expr) -> Frame | None:
        """The call that made an object, as a frame of its `__init__`; None where it is made in a constructor or unknown."""
        found: list[tuple[ast.Call, Scope, Place, Frame | None]] = []
        first = Step(node, step.scope, step.place, (), step.frame)
        for one in self.walk(first, stops=lambda one: isinstance(one.node, ast.Call)):
            if isinstance(one.node, ast.Call) and not one.once:
                found.append((one.node, one.scope, one.place, one.frame))
        for call, scope, place, outer in found:
            for target in self.program.targets(call, scope, place):
                if target.constructs is not None and not scope.is_module:
                    return Frame(call, scope, place, target, outer, False, 1)
        return None

    def is_session(self, scope: Scope, use: Scope) -> bool:
        """Whether what a method does is done once for a session, seen from another that does not call it."""
        if scope is use or scope.cls is None or not self.knowledge.matches("once", scope.name):
            return False
        return scope.name not in {last_name(site.node.func) for site in use.calls}

    def is_lazy(self, binding: Binding, name: str) -> bool:
        """Whether an attribute gets its value only where it has none: `if self.tools is None: self.tools = …`."""
        tests = [node.test for node, _ in binding.place.blocks if isinstance(node, ast.If)]
        return any(last_name(one) == name for test in tests for one in ast.walk(test)) or any(
            isinstance(test, ast.Call) and last_name(test.func) == "hasattr" for test in tests
        )

    def is_frozen(self, function: Scope) -> bool:
        """Whether a function is run once and its result kept."""
        return any(self.knowledge.matches("freezing", name) for name in function.decorators())

    # Calls

    def call(self, step: Step, node: ast.Call) -> Iterator[Step]:
        scope, place = step.scope, step.place
        targets = self.program.targets(node, scope, place)
        if targets:
            yield from self.entered(step, node, targets)
            return
        cls = self.program.class_of(node, scope, place)
        if cls is not None:
            yield from self.keywords(step, node)
            return
        name = self.program.dotted(node.func, scope, place)
        last = name.rpartition(".")[2]
        removed = step.removed | self.removed_by(node, name, last)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in ("enumerate", "zip") and node.args:
            number = step.path[1] if len(step.path) > 1 and isinstance(step.path[1], int) else 0
            index = number - 1 if name == "enumerate" else number
            if 0 <= index < len(node.args):
                yield self.inner(step, node.args[index], (*step.path[:1], *step.path[2:]))
            return
        if last in ("get", "pop", "setdefault") and receiver is not None and node.args:
            key = node.args[0].value if isinstance(node.args[0], ast.Constant) else ANY
            yield self.inner(step, receiver, (key, *step.path), removed)  # type: ignore[arg-type]
            if len(node.args) > 1:
                yield self.inner(step, node.args[1], None, removed)
            return
        if last in ("values", "items", "keys", "copy") and receiver is not None:
            path = (*step.path[:1], *step.path[2:]) if last == "items" else step.path
            yield self.inner(step, receiver, path, removed)
            return
        if name in ("getattr",) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            made = ast.copy_location(ast.Attribute(node.args[0], str(node.args[1].value), ast.Load()), node)
            yield self.inner(step, made, None, removed)
            return
        if name.endswith("partial"):
            for given in node.args[:1]:
                inner = ast.copy_location(ast.Call(given, node.args[1:], node.keywords), node)
                yield self.inner(step, inner, None, removed)
            return
        if name == "dict":
            yield from self.keywords(step, node)
            yield from (self.inner(step, value) for value in node.args)
            return
        if not self.knowledge.passes.find(name):
            wanted = step.path[0] if step.path else ANY
            if wanted != ANY:
                yield from self.keywords(step, node)
                return
            for value in (*node.args, *(one.value for one in node.keywords)):
                yield self.condition(step, value, scope, place)  # `index.search(question)`: it may decide what is found
            return
        path = step.path if last in _SAME_SHAPE else ()
        if receiver is not None and self.program.dotted(receiver, scope, place) not in scope.module.imports.values():
            yield self.inner(step, receiver, path, removed)
        for value in (*node.args, *(one.value for one in node.keywords)):
            yield self.inner(step, value, path, removed)

    def keywords(self, step: Step, node: ast.Call) -> Iterator[Step]:
        """What an object of nobody knows, or a `dict(…)`, holds under a key."""
        wanted = step.path[0] if step.path else None
        name = wanted[1:] if isinstance(wanted, str) and wanted.startswith(".") else wanted
        for one in node.keywords:
            if one.arg is None:
                yield self.inner(step, one.value)
            elif wanted is None or name in (one.arg, ANY):
                yield self.inner(step, one.value, step.path[1:])

    def entered(self, step: Step, node: ast.Call, targets: Iterable[Target]) -> Iterator[Step]:
        """What the functions return that a call runs."""
        depth = step.frame.depth + 1 if step.frame is not None else 1
        frames: Frame | None = step.frame
        while frames is not None:
            if frames.call is node:
                return  # a function that calls itself
            frames = frames.outer
        if depth > _DEEPEST:
            return
        for target in targets:
            frame = Frame(node, step.scope, step.place, target, step.frame, step.once, depth)
            if target.constructs is not None:
                if step.path and isinstance(step.path[0], str) and step.path[0].startswith("."):
                    attribute = ast.copy_location(ast.Attribute(node, step.path[0][1:], ast.Load()), node)
                    yield self.inner(step, attribute, step.path[1:])
                elif written := self.program.method(target.constructs, "__str__"):
                    for value, place in written.returns:
                        yield Step(value, written, place, step.path, None, step.once, step.removed, step)
                else:
                    yield from self.keywords(step, node)
                continue
            once = step.once or self.is_frozen(target.scope)
            for value, place in target.scope.returns:
                path = step.path
                if target.scope.yields and path:
                    path = path[1:]
                yield Step(value, target.scope, place, path, frame, once, step.removed, step)
                inner = Step(value, target.scope, Place(0), path, frame, once, step.removed, step)
                for block, _ in place.blocks:
                    if isinstance(block, ast.If | ast.Match):
                        test = block.test if isinstance(block, ast.If) else block.subject
                        yield self.condition(inner, test, target.scope, place)

    def removed_by(self, node: ast.Call, name: str, last: str) -> frozenset[str]:
        """The kinds that a call takes out of what it is given."""
        given = {one.arg for one in node.keywords}
        removed = frozenset[str]()
        for row in self.knowledge.sanitizers.find(name):
            if not row.needs or given & set(row.needs):
                removed |= row.removes
        if last in _DAY_PARTS or (last in ("strftime", "format") and _writes_the_day(node.args)):
            removed |= {"clock"}
        return removed

    # Texts and containers

    def joined(self, step: Step, node: ast.JoinedStr) -> Iterator[Step]:
        for one in node.values:
            if isinstance(one, ast.FormattedValue):
                removed = step.removed
                if isinstance(one.format_spec, ast.JoinedStr) and _writes_the_day(one.format_spec.values):
                    removed |= {"clock"}
                yield self.inner(step, one.value, removed=removed)

    def inner(
        self, step: Step, node: ast.expr, path: Path | None = None, removed: frozenset[str] | None = None
    ) -> Step:
        """A part of an expression."""
        return Step(
            node,
            step.scope,
            step.place,
            step.path if path is None else path,
            step.frame,
            step.once,
            step.removed if removed is None else removed,
            step,
        )

    def operation(self, step: Step, node: ast.BinOp) -> Iterator[Step]:
        yield self.inner(step, node.left)
        if not isinstance(node.op, ast.Mult | ast.Sub | ast.Div | ast.FloorDiv) or not isinstance(node.left, ast.List):
            yield self.inner(step, node.right)

    def either(self, step: Step, node: ast.BoolOp) -> Iterator[Step]:
        yield from (self.inner(step, one) for one in node.values)

    def choice(self, step: Step, node: ast.IfExp) -> Iterator[Step]:
        yield self.inner(step, node.body)
        yield self.inner(step, node.orelse)
        yield self.condition(step, node.test, step.scope, step.place)

    def item(self, step: Step, node: ast.Subscript) -> Iterator[Step]:
        if isinstance(node.slice, ast.Slice):
            yield self.inner(step, node.value)
            for bound in (node.slice.lower, node.slice.upper):
                if bound is not None:
                    yield self.condition(step, bound, step.scope, step.place)
            return
        index = node.slice
        if isinstance(index, ast.UnaryOp) and isinstance(index.operand, ast.Constant):
            key: str | int = ANY
        else:
            key = index.value if isinstance(index, ast.Constant) and isinstance(index.value, str | int) else ANY
        yield self.inner(step, node.value, (key, *step.path))
        if not isinstance(index, ast.Constant):
            yield self.condition(step, index, step.scope, step.place)

    def sequence(self, step: Step, node: ast.List | ast.Tuple | ast.Set) -> Iterator[Step]:
        wanted = step.path[0] if step.path else ANY
        for number, one in enumerate(node.elts):
            if isinstance(one, ast.Starred):
                yield self.inner(step, one.value)
            elif wanted in (ANY, number) or not isinstance(wanted, int):
                yield self.inner(step, one, step.path[1:])

    def mapping(self, step: Step, node: ast.Dict) -> Iterator[Step]:
        wanted = step.path[0] if step.path else ANY
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                yield self.inner(step, value)
            elif wanted == ANY or not isinstance(key, ast.Constant) or key.value == wanted:
                yield self.inner(step, value, step.path[1:])

    def comprehension(self, step: Step, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Iterator[Step]:
        yield self.inner(step, node.elt, step.path[1:])
        for generator in node.generators:
            yield self.inner(step, generator.iter, (ANY,))
            for test in generator.ifs:
                yield self.condition(step, test, step.scope, step.place)

    def dict_comprehension(self, step: Step, node: ast.DictComp) -> Iterator[Step]:
        yield self.inner(step, node.value, step.path[1:])
        for generator in node.generators:
            yield self.inner(step, generator.iter, (ANY,))
            for test in generator.ifs:
                yield self.condition(step, test, step.scope, step.place)

    def wrapped(self, step: Step, node: ast.Await | ast.Starred | ast.NamedExpr | ast.YieldFrom) -> Iterator[Step]:
        yield self.inner(step, node.value)

    def unary(self, step: Step, node: ast.UnaryOp) -> Iterator[Step]:
        if not isinstance(node.op, ast.Not):
            yield self.inner(step, node.operand)

    def lambda_(self, step: Step, node: ast.Lambda) -> Iterator[Step]:
        yield self.inner(step, node.body)


def arguments_of(call: ast.Call, target: Target, name: str) -> Iterator[tuple[ast.expr, Path]]:
    """What a call gives for a parameter, and the path into it (`**options`)."""
    params = target.scope.params
    offset = 1 if target.scope.receiver else 0
    if target.scope.cls is not None and target.receiver is None and target.constructs is None:
        offset = 0
    keyword = next((one.value for one in call.keywords if one.arg == name), None)
    if keyword is not None:
        yield keyword, ()
        return
    if name in params and (index := params.index(name) - offset) >= 0:
        for number, one in enumerate(call.args):
            if isinstance(one, ast.Starred):
                yield one.value, (ANY,)
                return
            if number == index:
                yield one, ()
                return
    arguments = getattr(target.scope.node, "args", None)
    if arguments is not None and arguments.kwarg is not None and arguments.kwarg.arg == name:
        keys = [ast.Constant(one.arg) if one.arg else None for one in call.keywords if one.arg not in params]
        values = [one.value for one in call.keywords if one.arg not in params]
        yield ast.copy_location(ast.Dict(keys, values), call), ()  # type: ignore[arg-type]
        return
    if arguments is not None and arguments.vararg is not None and arguments.vararg.arg == name:
        yield ast.copy_location(ast.Tuple(call.args[len(arguments.args) - offset :], ast.Load()), call), ()
        return
    for one in call.keywords:
        if one.arg is None:
            yield one.value, (name,)


def _is_around(scope: Scope, inner: Scope) -> bool:
    around: Scope | None = inner
    while around is not None:
        if around is scope:
            return True
        around = around.parent
    return False


def _below(keys: Path, path: Path) -> Path | None:
    """The path below what was stored under some keys; None where it is elsewhere."""
    for key, wanted in zip(keys, path, strict=False):
        if (
            ANY not in (key, wanted)
            and key != wanted
            and not (isinstance(key, int) and isinstance(wanted, int) and key < 0)
        ):
            return None
    return path[len(keys) :]


def _writes_the_day(parts: Iterable[ast.expr]) -> bool:
    """Whether a format of a time has nothing smaller than a day."""
    texts = [one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    text = "".join(texts)
    if not text or not any(mark in text for mark in ("%", "YYYY", "DD")):
        return False
    return not any(part in text.replace("%-", "%").replace("%#", "%") for part in _TIME_OF_DAY)


def _key(step: Step) -> tuple[object, ...]:
    frame = step.frame
    return (
        id(step.node),
        step.path,
        id(frame.call) if frame is not None else 0,
        step.once,
        step.removed,
        step.is_condition,
    )


_READERS: Final[dict[type, Callable[[Tracer, Step, ast.expr], Iterable[Step]]]] = {
    ast.Name: Tracer.name,
    ast.Attribute: Tracer.attribute,
    ast.Call: Tracer.call,
    ast.JoinedStr: Tracer.joined,
    ast.BinOp: Tracer.operation,
    ast.BoolOp: Tracer.either,
    ast.IfExp: Tracer.choice,
    ast.Subscript: Tracer.item,
    ast.List: Tracer.sequence,
    ast.Tuple: Tracer.sequence,
    ast.Set: Tracer.sequence,
    ast.Dict: Tracer.mapping,
    ast.ListComp: Tracer.comprehension,
    ast.SetComp: Tracer.comprehension,
    ast.GeneratorExp: Tracer.comprehension,
    ast.DictComp: Tracer.dict_comprehension,
    ast.Await: Tracer.wrapped,
    ast.Starred: Tracer.wrapped,
    ast.NamedExpr: Tracer.wrapped,
    ast.UnaryOp: Tracer.unary,
    ast.Lambda: Tracer.lambda_,
}  # type: ignore[dict-item]
