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

from contextkit.lint.source.knowledge import KINDS, ORDER, Knowledge
from contextkit.lint.source.program import Program
from contextkit.lint.source.scopes import ANY, At, Binding, Frame, Path, Place, Scope, Target, last_name, variable

_MOST_STEPS: Final = 1_500
_MOST_HOPS: Final = 3
_MOST_CALLERS: Final = 2
"""Callers that are gone back to, one from another."""
_DEEPEST: Final = 8
"""Calls that are entered from one another."""
_TIME_OF_DAY: Final = ("%H", "%M", "%S", "%f", "%I", "%p", "%s", "%T", "%X", "%c", "%r", "%R", "HH", "mm", "ss")
_DAY_PARTS: Final = frozenset(
    {"date", "year", "month", "day", "weekday", "isoweekday", "isocalendar", "toordinal", "today"}
)
_CLOCK: Final = frozenset({"clock"})
_CONTENT: Final = KINDS - ORDER
"""What does not get into a list by the order of what it is made from."""
_SAME_SHAPE: Final = frozenset(
    """list tuple sorted reversed iter next filter copy deepcopy cast chain islice set frozenset model_copy model_dump run wait_for
    values keys""".split()  # noqa: SIM905 - a list of words
)
"""Last names of calls whose result has the keys and items of what they are given."""


class UnknownArgument(ast.Name):
    """A parameter that no call in view gives."""


@dataclass(eq=False, slots=True)
class Step:
    """An expression on the way, and how it was reached."""

    node: ast.expr
    at: At
    path: Path = ()
    """Keys that are still to be read from it."""
    once: bool = False
    """Whether it is made once for a process or a session."""
    removed: frozenset[str] = frozenset()
    """Kinds that do not get through from here."""
    parent: Step | None = None
    binding: Binding | None = None
    """The change of a variable by which it was reached."""
    role: str = ""
    """`condition`: it decides which value is taken, and is no part of it; `object`: it is the object whose attribute is
    read, of a class that is not known."""
    is_open: bool = False
    """Whether nothing is known of what it is made of."""
    n_hops: int = 0
    """Changes of the file on the way: to a helper or base in another one, and back."""

    @property
    def scope(self) -> Scope:
        """The function it stands in."""
        return self.at.scope

    @property
    def is_condition(self) -> bool:
        """Whether it decides which value is taken."""
        return self.role == "condition"

    def chain(self) -> Iterator[Step]:
        """Yield the step and those before it, back to the beginning of the walk."""
        step: Step | None = self
        while step is not None:
            yield step
            step = step.parent

    def to(self, node: ast.expr, path: Path | None = None, at: At | None = None, **changes: object) -> Step:
        """Return the step to a part, by default one that stands there too and is read alike."""
        path = self.path if path is None else path
        step = Step(node, at or self.at, path, self.once, self.removed, self)
        step.n_hops = self.n_hops + (step.scope.module is not self.scope.module)
        for name, value in changes.items():
            setattr(step, name, value)
        return step

    def decided_by(self, test: ast.expr, at: At | None = None, binding: Binding | None = None) -> Step:
        """Return the step to what decides which value is taken."""
        return self.to(test, (), at, role="condition", binding=binding)


class Tracer:
    """Walks values of one program."""

    def __init__(self, program: Program, knowledge: Knowledge) -> None:
        self.program = program
        self.knowledge = knowledge

    def walk(self, first: Step, *, selects: bool = False, stops: Callable[[Step], bool] | None = None) -> list[Step]:
        """Return the steps that a value is made of, nearest first; with `selects` what decides which value is taken,
        too.

        What `stops` says True of is visited and not followed.
        """
        steps, seen = [first], {_key(first)}
        for step in steps:
            is_far = step.n_hops > _MOST_HOPS or len(steps) > _MOST_STEPS
            if step.is_condition or is_far or (stops is not None and stops(step)):
                continue
            step.is_open = True
            for one in self.parts(step):
                step.is_open = step.is_open and bool(one.role)
                if (selects or not one.is_condition) and (key := _key(one)) not in seen:
                    seen.add(key)
                    steps.append(one)
        return steps

    def parts(self, step: Step) -> Iterator[Step]:
        """Yield what an expression is made of."""
        node, below = step.node, step.path[1:]
        wanted = step.path[0] if step.path else ANY
        match node:
            case UnknownArgument() | ast.Constant():
                return
            case ast.Name():
                yield from self._name(step, node)
            case ast.Attribute():
                yield from self._attribute(step, node)
            case ast.Call():
                yield from self._call(step, node)
            case ast.JoinedStr(values=values):
                for one in values:
                    if isinstance(one, ast.FormattedValue):
                        is_day = one.format_spec is not None and _is_of_days(ast.unparse(one.format_spec))
                        yield step.to(one.value, removed=step.removed | (_CLOCK if is_day else set()))
            case ast.BinOp():
                yield step.to(node.left)
                yield step.to(node.right)
            case ast.BoolOp(values=values):
                yield from map(step.to, values)
            case ast.IfExp():
                yield from (step.to(node.body), step.to(node.orelse), step.decided_by(node.test))
            case ast.Subscript(slice=ast.Slice() as bounds):
                is_day = bounds.lower is None and getattr(bounds.upper, "value", 0) == len("2026-11-29")
                yield step.to(node.value, removed=step.removed | (_CLOCK if is_day else set()))
                yield from (step.decided_by(one) for one in (bounds.lower, bounds.upper) if one is not None)
            case ast.Subscript():
                is_key = isinstance(node.slice, ast.Constant)
                is_day = isinstance(node.value, ast.Call) and last_name(node.value.func) == "split" and wanted == ANY
                removed = step.removed | (_CLOCK if is_day and getattr(node.slice, "value", None) == 0 else set())
                yield step.to(node.value, (getattr(node.slice, "value", ANY), *step.path), removed=removed)
                if not is_key:
                    yield step.decided_by(node.slice)
            case ast.List() | ast.Tuple() | ast.Set():
                for number, one in enumerate(node.elts):
                    if isinstance(one, ast.Starred):
                        yield step.to(one.value)
                    elif wanted in (ANY, number) or not isinstance(wanted, int):
                        yield step.to(one, below)
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if key is None:
                        yield step.to(value)
                    elif wanted == ANY or not isinstance(key, ast.Constant) or key.value == wanted:
                        yield step.to(value, below)
            case ast.DictComp() if wanted != ANY:
                items = node.generators[0].iter  # `{key: value for key, value in options.items()}` keeps the keys
                if isinstance(items, ast.Call) and isinstance(items.func, ast.Attribute) and items.func.attr == "items":
                    yield step.to(items.func.value)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                yield step.to(node.value if isinstance(node, ast.DictComp) else node.elt, below)
                for generator in node.generators:
                    yield step.to(generator.iter, (ANY,), removed=step.removed | _CONTENT)
                    yield from map(step.decided_by, generator.ifs)
            case ast.Await(value=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
                yield step.to(value)
            case ast.UnaryOp() if not isinstance(node.op, ast.Not):
                yield step.to(node.operand)
            case ast.Lambda():
                yield step.to(node.body)

    # Variables and attributes

    def _name(self, step: Step, node: ast.Name) -> Iterator[Step]:
        bindings = self.program.bindings_of(node, step.at)
        for binding in bindings:
            if binding.operation == "sort" and binding.at.place.is_around(step.at.place):
                step = replace(step, removed=step.removed | ORDER)
            yield from self._bound(step, binding)
        function = None if bindings else self.program.resolve(node.id, step.scope)
        is_given = isinstance(function, Scope) and step.at.frame is None and not step.path
        if isinstance(function, Scope) and is_given and not any(isinstance(one.node, ast.Dict) for one in step.chain()):
            yield from self._returned(step, function, None)  # given to a framework, which calls it on each request

    def _returned(self, step: Step, function: Scope, frame: Frame | None, once: bool = False) -> Iterator[Step]:
        """Yield what a function returns, and what decides which of its results that is."""
        path = step.path[1:] if function.yields else step.path
        for value, at in function.returns:
            inner = step.to(value, path, at._replace(frame=frame), once=once)
            yield inner
            if _may_hold(value, path):
                yield from (inner.decided_by(test) for test in at.place.tests())

    def _bound(self, step: Step, binding: Binding) -> Iterator[Step]:
        """Yield the value of a variable, or a change to it."""
        scope, path, removed, place = binding.scope, step.path, step.removed, binding.at.place
        if binding.kind == "param":
            yield from self._argument(step, binding)
        if binding.kind in ("param", "take") or binding.value is None or self._is_left_out(binding, step.at.frame):
            return
        if binding.kind in ("set", "for", "comp"):
            path = (*binding.path, *path)
            removed |= ORDER if binding.kind != "set" else set()  # each of the items, whatever their order
        elif binding.kind == "item":
            is_other = path and binding.path[0] == ANY and path[0] not in (ANY, 0)  # `options[name] = value`
            if is_other or any(
                ANY not in pair and pair[0] != pair[1] for pair in zip(binding.path, path, strict=False)
            ):
                return
            path = path[len(binding.path) :]
        elif binding.operation not in ("extend", "update", "+=", "-="):
            path = path[1:]
        is_own = scope is step.scope
        at = binding.at._replace(frame=step.at.frame if is_own or scope in step.scope.around() else None)
        once = step.once or (scope.is_module and not is_own) or _is_lazy(binding)
        made = {"once": once, "removed": removed, "binding": binding}
        yield step.to(binding.value, path, at, **made)
        for loop in place.loops() if binding.kind == "add" and binding.operation[1:] != "=" else ():
            if (
                isinstance(loop, ast.For | ast.AsyncFor)
                and _is_made_of(binding, loop)
                and not (is_own and loop in step.at.place.loops())
            ):
                yield step.to(loop.iter, (ANY,), at, **made | {"removed": step.removed | _CONTENT})
        if binding.kind == "item" or _may_hold(binding.value, step.path):
            around = step.at.place.tests() if is_own else []
            yield from (step.decided_by(test, at, binding) for test in place.tests() if test not in around)

    def _is_left_out(self, binding: Binding, frame: Frame | None) -> bool:
        """Return whether a binding stands in a branch that is not taken: of a flag that the call entered does not give,
        or for a parameter that all calls give: `if now is None: now = datetime.now()`.
        """
        scope = binding.scope
        for block, branch in binding.at.place.blocks:
            test = block.test if isinstance(block, ast.If) else None
            is_none = (
                isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and _is_none(test.comparators[0])
            )
            name = test.left if isinstance(test, ast.Compare) and is_none else test
            if not isinstance(name, ast.Name) or name.id not in scope.params:
                continue
            own = [one for one in (frame.outer() if frame is not None else ()) if one.target.scope is scope][:1]
            calls = [(one.call, one.target) for one in own] or [
                (site.node, target) for site, target in self.program.callers(scope)
            ]
            if not calls or (not own and self.program.has_other_callers(scope)):
                continue
            values = [next((value for value, _ in arguments_of(call, target, name.id)), None) for call, target in calls]
            given = [scope.bindings[name.id][0].value if value is None else value for value in values]
            if is_none:
                taken = [value is None or _is_none(value) for value in given]
            else:
                taken = [
                    not isinstance(value, ast.Constant) or bool(value.value) == (branch == "body") for value in given
                ]
            if not any(taken):
                return True
        return False

    def _argument(self, step: Step, binding: Binding) -> Iterator[Step]:
        """Yield what a parameter is given: by the call that was entered, else by the calls in view."""
        scope, name = binding.scope, binding.node.arg  # type: ignore[attr-defined]
        frames = step.at.frame.outer() if step.at.frame is not None else ()
        frame = next((one for one in frames if one.target.scope is scope), None)
        if name == scope.receiver:
            if frame is not None and frame.target.receiver is not None:
                yield step.to(frame.target.receiver, None, frame.at)
            return
        calls = [] if frame is None else [(frame.call, frame.at, frame.target)]
        n_before = sum(one.binding is not None and one.binding.kind == "param" for one in step.chain())
        if frame is None and n_before < _MOST_CALLERS:
            calls = [(site.node, site.at, target) for site, target in self.program.callers(scope)]
        is_given = False
        for call, at, target in calls:
            for value, path in arguments_of(call, target, name):
                is_given = True
                yield step.to(value, (*path, *step.path), at, binding=binding, once=step.once or at.scope.is_module)
        if not is_given and binding.value is not None:
            yield step.to(binding.value, None, At(scope, Place(0)), once=True)
        if not calls or (frame is None and self.program.has_other_callers(scope)):
            unknown = ast.copy_location(UnknownArgument(name, ast.Load()), binding.node)
            yield step.to(unknown, None, At(scope, Place(-1)), binding=binding)

    def _attribute(self, step: Step, node: ast.Attribute) -> Iterator[Step]:
        owner = self.program.class_of(node.value, step.at)
        if owner is None:
            found = self.program.named(node, step.scope)
            for binding in found if isinstance(found, list) else ():
                yield from self._bound(step, binding)
            if not isinstance(found, list):
                removed = step.removed | (_CLOCK if node.attr in _DAY_PARTS else set())
                yield step.to(node.value, (f".{node.attr}", *step.path), removed=removed, role="object")
            return
        for cls in self.program.family(owner):
            method = cls.methods.get(node.attr)
            if method is not None:
                if {"property", "cached_property"} & set(method.decorators()):
                    yield from self._returned(step, method, step.at.frame, step.once or self.is_frozen(method))
                return
            reaching = {id(one) for one in step.scope.reaching(f"{step.scope.receiver}.{node.attr}", step.at.place)}
            for binding in cls.attributes.get(node.attr, ()):
                scope, frame = binding.scope, step.at.frame
                if scope is step.scope:
                    if id(binding) not in reaching:
                        continue
                elif scope.name == "__init__":
                    frame = self._construction(step, node.value)
                else:
                    frame = None
                is_kept = frame is None and self._is_once(scope, step.scope)
                once = step.once or scope.is_module or is_kept
                use = replace(step, at=At(scope, Place(10**6), frame), once=once)
                for one in self._bound(use, binding):
                    one.parent = step
                    yield one

    def _construction(self, step: Step, node: ast.expr) -> Frame | None:
        """Return the call that made an object, as a frame of its `__init__`; None where it is not made for the request."""
        for one in self.walk(Step(node, step.at), stops=lambda one: isinstance(one.node, ast.Call)):
            if isinstance(one.node, ast.Call) and not one.once and not one.scope.is_module:
                for target in self.program.targets(one.node, one.at):
                    if target.constructs is not None:
                        return Frame(one.node, one.at, target)
        return None

    def _is_once(self, scope: Scope, use: Scope) -> bool:
        """Return whether what a method does is done once for a session, seen from another that does not call it."""
        is_start = scope is not use and scope.cls is not None and self.knowledge.matches("once", scope.name)
        return is_start and scope.name not in {last_name(site.node.func) for site in use.calls}

    def is_frozen(self, function: Scope) -> bool:
        """Return whether a function is run once and its result kept."""
        return any(self.knowledge.matches("freezing", name) for name in (function.name, *function.decorators()))

    # Calls

    def _call(self, step: Step, node: ast.Call) -> Iterator[Step]:
        targets = self.program.targets(node, step.at)
        if targets:
            yield from self._entered(step, node, targets)
            return
        name, last = self.program.dotted(node.func, step.at), last_name(node.func)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        given = [*node.args, *(one.value for one in node.keywords)]
        removed = step.removed | (ORDER if self.knowledge.sorts.find(name) else set())
        if last in _DAY_PARTS or self.writes_the_day(node, step):
            removed |= _CLOCK
        if last in ("enumerate", "zip") and step.path:
            number = step.path[1] if len(step.path) > 1 and isinstance(step.path[1], int) else 0
            for one in node.args[max(number - (last == "enumerate"), 0) :][:1]:
                yield step.to(one, (step.path[0], *step.path[2:]))
        elif last in ("get", "pop", "setdefault") and receiver is not None and node.args:
            yield step.to(receiver, (getattr(node.args[0], "value", ANY), *step.path))
            yield from (step.to(one, once=step.once or last == "setdefault") for one in node.args[1:])
        elif last == "items" and receiver is not None:
            yield step.to(receiver, (*step.path[:1], *step.path[2:]))
        elif name == "dict" or (step.path and step.path[0] != ANY and not self.knowledge.passes.find(name)):
            yield from self._keywords(step, node)
            yield from map(step.to, node.args if name == "dict" else ())
        elif self.knowledge.passes.find(name) or self.knowledge.sorts.find(name):
            path = step.path if last in _SAME_SHAPE else ()
            is_module = isinstance(receiver, ast.Name) and receiver.id in step.scope.module.imports
            for one in [*([receiver] if receiver is not None and not is_module else []), *given]:
                yield step.to(one, path, removed=removed)
        else:
            yield from map(step.decided_by, given)  # `index.search(question)`: it may decide what is found

    def writes_the_day(self, node: ast.Call, step: Step) -> bool:
        """Return whether a call writes a time by a format that has nothing smaller than a day."""
        if last_name(node.func) not in ("strftime", "format"):
            return False
        formats = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
        named = [
            one.value
            for part in formats
            if isinstance(part, ast.Name)
            for one in self.program.bindings_of(part, step.at)
        ]
        return any(_is_of_days(str(one.value)) for one in [*formats, *named] if isinstance(one, ast.Constant))

    def _keywords(self, step: Step, node: ast.Call) -> Iterator[Step]:
        """Yield what an object of an unknown class, or a `dict(…)`, holds under a key."""
        wanted = str(step.path[0]).removeprefix(".") if step.path else ANY
        for one in node.keywords:
            if one.arg is None:
                yield step.to(one.value)
            elif wanted in (one.arg, ANY):
                yield step.to(one.value, step.path[1:])

    def _entered(self, step: Step, node: ast.Call, targets: Iterable[Target]) -> Iterator[Step]:
        """Yield what the functions return that a call runs."""
        around = [*step.at.frame.outer()] if step.at.frame is not None else []
        if len(around) >= _DEEPEST or any(frame.call is node for frame in around):
            return
        for target in targets:
            if target.constructs is None:
                once = step.once or self.is_frozen(target.scope)
                yield from self._returned(step, target.scope, Frame(node, step.at, target), once)
            elif step.path and str(step.path[0]).startswith("."):
                attribute = ast.Attribute(node, str(step.path[0])[1:], ast.Load())
                yield step.to(ast.copy_location(attribute, node), step.path[1:])
            elif written := self.program.method(target.constructs, "__str__"):
                yield from self._returned(step, written, None, step.once)
            else:
                yield from self._keywords(step, node)


def arguments_of(call: ast.Call, target: Target, name: str) -> Iterator[tuple[ast.expr, Path]]:
    """Yield what a call gives for a parameter, and the path into it (`**options`)."""
    params, arguments = target.scope.params, target.scope.node.args  # type: ignore[union-attr]
    is_bound = target.receiver is not None or target.constructs is not None
    offset = 1 if target.scope.receiver and is_bound else 0
    named = [one.value for one in call.keywords if one.arg == name]
    index = params.index(name) - offset if name in params else -1
    starred = next((number for number, one in enumerate(call.args) if isinstance(one, ast.Starred)), len(call.args))
    if named:
        yield named[0], ()
    elif 0 <= index < starred:
        yield call.args[index], ()
    elif index >= 0 and starred < len(call.args):
        yield call.args[starred], (ANY,)
    elif arguments.kwarg is not None and arguments.kwarg.arg == name:
        rest = [one for one in call.keywords if one.arg not in params]
        keys = [ast.Constant(one.arg) if one.arg else None for one in rest]
        yield ast.copy_location(ast.Dict(keys, [one.value for one in rest]), call), ()  # type: ignore[arg-type]
    elif arguments.vararg is not None and arguments.vararg.arg == name:
        yield ast.copy_location(ast.Tuple(call.args[len(arguments.args) - offset :], ast.Load()), call), ()
    else:
        yield from ((one.value, (name,)) for one in call.keywords if one.arg is None)


def _may_hold(value: ast.expr, path: Path) -> bool:
    """Return whether what decides about a value decides about what is read from it: not about a key that is not seen in
    it.
    """
    keys = [getattr(key, "value", None) for key in getattr(value, "keys", ())]
    return not path or path[0] == ANY or path[0] in keys


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_made_of(binding: Binding, loop: ast.For | ast.AsyncFor) -> bool:
    """Return whether what is added is another thing in each pass of a loop."""
    items = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    used = {one.id for one in ast.walk(binding.value or loop.target) if isinstance(one, ast.Name)}
    return not items.isdisjoint(used) or any(
        one.kind == "set" and loop in one.loops() for name in used for one in binding.scope.bindings.get(name, ())
    )


def _is_lazy(binding: Binding) -> bool:
    """Return whether a name gets its value only where it has none: `if self.tools is None: …`, `if key not in cache:
    cache[key] = …`.
    """
    target = binding.node.value if isinstance(binding.node, ast.Subscript) else binding.node
    name = variable(target).rpartition(".")[2]
    for test in binding.at.place.tests() if name and binding.kind in ("set", "item") else ():
        for one in ast.walk(test):
            is_asked = isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Is | ast.NotIn)
            is_asked = is_asked or (isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.Not))
            if is_asked and any(last_name(part) in (name, "hasattr") for part in ast.walk(one)):
                return not isinstance(target, ast.Name) or binding.kind == "item" or name in binding.scope.globals
    return False


def _is_of_days(text: str) -> bool:
    """Return whether a format of a time has nothing smaller than a day."""
    is_format = any(mark in text for mark in ("%d", "%j", "%x", "%D", "%F", "%-d", "%B", "%Y", "YYYY", "DD"))
    return is_format and not any(part in text.replace("%-", "%").replace("%#", "%") for part in _TIME_OF_DAY)


def _key(step: Step) -> tuple[object, ...]:
    call = id(step.at.frame.call) if step.at.frame is not None else 0
    return id(step.node), step.path, call, step.once, step.removed, step.role
