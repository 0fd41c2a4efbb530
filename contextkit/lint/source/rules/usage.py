"""Finds code that gets a usage wrong: cached counters that are lost (CKA03), counted twice (CKA01), summed over repeated
lines of a session file (CKA02).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.graph import ANY, Class, Function, Key, Module, Node
from contextkit.lint.source.usages import LOGS, MOST_HOPS, QUIET, Path, Read, Scope, Usages, read_of

CODES: Final = frozenset({"CKA01", "CKA02", "CKA03"})
_PLAIN: Final = frozenset({"dict", "any", "mapping"})
"""Annotations that say of no class."""
_SESSION_FILES: Final = (b".claude", b"requestId", b"claude_code", b"claude-code")
"""What a module that reads session files of Claude Code says; other programs write a call's usage once."""
_IDS: Final = frozenset({"requestId", "request_id", "message_id", "id"})
"""What a line of a session file is told apart by."""


def find(analysis: Analysis) -> Iterator[Hit]:
    """All findings of these codes."""
    usages = Usages(analysis)
    known = usages.known
    for module in analysis.modules:
        text = module.text
        is_copied = any(
            name.encode() in text and any(other.encode() in text for other in others)
            for name, others in known.pairs.items()
        )
        if not is_copied and not (b"_tokens" in text and b"usage" in text):
            continue
        for scope in usages.scopes_of(module).values():
            if scope.reads:
                yield from _mixed(usages, scope)
                yield from _repeated(usages, scope)
                if is_copied:
                    yield from _dropped(usages, scope)


# CKA03


class _Copy(NamedTuple):
    """Values that are written together."""

    place: Node
    what: str
    slots: list[tuple[Key, Node]]


def _dropped(usages: Usages, scope: Scope) -> Iterator[Hit]:
    known = usages.known
    if not any(read.name in known.inputs for read in scope.reads) or _is_uncached(usages, scope.function):
        return
    reads = {id(read.node): read for read in scope.reads}
    done: list[frozenset[Path]] = []
    for copy in _copies(usages, scope, reads):
        read_slots = [(key, [reads[id(one)] for one in _counters_in(value, reads)]) for key, value in copy.slots]
        if any(known.is_cached(read.name) for _, slot in read_slots for read in slot):
            continue
        inputs = [read for _, slot in read_slots for read in slot if _is_one(slot) and read.name in known.inputs]
        for read in inputs:
            outputs = [
                other
                for _, slot in read_slots
                for other in slot
                if _is_one(slot) and other.name in known.pairs[read.name] and other.usage & read.usage
            ]
            if not outputs or any(read.usage & one for one in done):
                continue
            if _is_unmarked(usages, scope.function.module, read.name) or not _is_reported(usages, read):
                continue
            if _is_stored(usages, read):
                continue
            if _is_with_whole(usages, copy, read) or usages.is_preserved(scope.function, read.usage):
                continue
            done.append(read.usage)
            yield _hit(usages, copy, read, outputs[0])
            break


def _is_stored(usages: Usages, read: Read) -> bool:
    """Return whether the usage comes out of a file of the program's own: what was left out there cannot be copied."""
    search = usages.analysis.search
    for state in search.objects(read.base):
        name = state.node.name if state.node.kind == "call" else ""
        if name in {"json.load", "yaml.safe_load"}:
            return True
        if name in {"json.loads", "orjson.loads"} and state.node.value:
            return bool(search.origins(state.node.value[0][1], kinds=frozenset({"file", "notes"}), most=200))
    return False


def _hit(usages: Usages, copy: _Copy, read: Read, output: Read) -> Hit:
    names = usages.known.lost[read.name, output.name]
    lost = f"`{next(iter(names))}`" if len(names) == 1 else "its cached counters"
    base = _visible_part(read.base)
    source = text_of(base)
    message = (
        f"`{read.name}` and `{output.name}` of `{source}` are written to {copy.what} without {lost}: "
        "what was read from the cache is lost from here on"
    )
    trail = (
        (base, f"the usage: `{source}`"),
        (read.node, f"`{read.name}` is read"),
        (copy.place, f"written to {copy.what}"),
    )
    return Hit("CKA03", message, copy.place, trail, None, copy.place)


def _visible_part(node: Node) -> Node:
    """The part of a value that stands in the text: of several the first."""
    for _ in range(8):
        if node.position is not None and node.kind != "phi":
            break
        node = next((one for one in node.inputs if one.kind != "const"), node)
    return node


def _is_one(slot: list[Read]) -> bool:
    """Return whether a value is one counter, and no total."""
    return len({read.name for read in slot}) == 1


def _copies(usages: Usages, scope: Scope, reads: dict[int, Read]) -> Iterator[_Copy]:
    """What is written in a function, most telling first; not what a log or a trace is told."""
    reported: set[int] = set()
    for node in scope.nodes:
        if node.kind == "call" and (
            (last := node.name.rpartition(".")[2].lower()) in LOGS
            or any(word in last for word in usages.known.telling_calls)
        ):
            reported.update(id(part) for part in (node, *(supplied for _, supplied in node.value)))
    added: list[tuple[Key, Node]] = []
    sums: list[_Copy] = []
    for node in scope.nodes:
        if id(node) in reported:
            continue
        if node.kind == "dict":
            yield _Copy(node, "a dict", list(zip(node.value, node.inputs, strict=True)))
        elif node.kind == "call" and len(node.value) > 1 and read_of(node) is None:
            last = node.name.rpartition(".")[2]
            if any(_is_telling(usages, target.function.module) for target in usages.program.targets(node)):
                continue
            if last not in QUIET and last not in LOGS and last not in {"append", "format"}:
                yield _Copy(node, f"`{last}(…)`", list(node.value))
        elif (
            node.kind == "update"
            and (node.inputs[0].kind in {"attr", "item"} or node.value)
            and not _is_logged(usages, node)
        ):
            old = node.inputs[0]
            key = (
                old.name
                if old.kind == "attr"
                else node.value[-1]
                if node.value
                else old.value
                if old.kind == "item"
                else None
            )
            added += [(key, one) for one in node.inputs[1:2]]
        elif (
            node.kind == "join"
            and node.name == "+"
            and len(node.inputs) > 1
            and any(_is_priced(one) for one in node.inputs)
        ):
            sums.append(_Copy(node, "a cost", [(index, one) for index, one in enumerate(node.inputs)]))
    yield from sums
    slots = [*added, *scope.stored]
    placed = [one for _, value in slots for one in _counters_in(value, reads)]
    if placed:
        names = dict.fromkeys(key for key, value in slots if isinstance(key, str) and _counters_in(value, reads))
        what = ", ".join(f"`{name}`" for name in names) or "a record"
        yield _Copy(min(placed, key=lambda node: node.position or (0,)), what, slots)
    for returned in [*scope.function.returns, *scope.function.yields]:
        if returned.kind == "tuple":
            yield _Copy(returned, "the result", list(enumerate(returned.inputs)))


def _is_logged(usages: Usages, update: Node) -> bool:
    """Return whether what is changed belongs to a trace, by its name."""
    roots = [usages.roots[root] for root, _ in usages.paths(update)]
    return any(word in one.name.lower() for one in roots if one.kind == "param" for word in usages.known.telling_calls)


def _is_priced(node: Node) -> bool:
    return node.kind == "join" and node.name in {"*", "/", "arith"}


def _counters_in(value: Node, reads: dict[int, Read]) -> list[Node]:
    """The reads of counters that a number is made of."""
    results: list[Node] = []
    work = [value]
    visited: set[int] = set()
    while work and len(visited) < 60:
        node = work.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if id(node) in reads:
            results.append(node)
        elif node.kind in {"phi", "join"}:
            work += node.inputs
        elif node.kind == "update" and not node.value:
            work += node.inputs[1:] if node.name == "+=" else ()
            work += node.inputs[:1] if node.inputs[0].kind in {"update", "phi"} else ()
        elif node.kind == "call" and len(node.value) <= 2:
            work += [supplied for _, supplied in node.value if supplied.kind not in {"const", "func"}]
    return results


def _is_with_whole(usages: Usages, copy: _Copy, read: Read) -> bool:
    """Return whether the usage, or the answer it is of, is written beside its counters; or the answer is one of the program's own."""
    wholes = {(root, keys[:length]) for root, keys in read.usage for length in range(len(keys) + 1)}
    wholes |= {(root, (*keys, "cost")) for root, keys in wholes - read.usage}  # no provider's answer says what it cost
    return any(
        usages.paths(value) & wholes for _, value in copy.slots if value.kind not in {"const", "join", "compare"}
    )


def _is_reported(usages: Usages, read: Read) -> bool:
    """Return whether a value is a usage as a provider gives it, or one of the program's own that has cached
    counters.
    """
    if read.base.kind == "param" and _is_self(read.base):
        return False  # an object that tells of itself in parts
    classes = _classes_of(usages, read)
    if classes:
        return any(usages.known.is_cached(name) for cls in classes for name in _fields(usages, cls))
    return any(_is_usage(usages, root, keys) for root, keys in read.usage)


def _is_self(param: Node) -> bool:
    """Return whether a parameter is the object that a method is called on."""
    function: Function = param.value
    is_first = next(iter(function.params)) == param.name
    return function.cls is not None and is_first and "staticmethod" not in set(function.decorated())


def _is_usage(usages: Usages, root: int, keys: tuple[Key, ...], hops: int = 0) -> bool:
    names = [key for key in keys if isinstance(key, str) and key != ANY]
    node = usages.roots[root]
    if names and names[-1] not in usages.known.holders:
        return False
    is_of_answer = any(word in str(name).lower() for name in names[:-1] for word in usages.known.answers)
    if node.kind == "param":
        function: Function = node.value
        if _is_self(node):
            return len(names) > 1
        annotation = function.annotations.get(node.name, "")
        own = _named(usages, annotation, node.module)
        is_plain = not annotation or annotation.rpartition(".")[2].lower() in _PLAIN
        if names and not own and not is_plain:
            return True  # an object of a library
        callers = list(usages.above(function, frozenset({(root, keys)})))
        if callers and hops < MOST_HOPS:
            return any(_is_usage(usages, r, k, hops + 1) for _, above in callers for r, k in above)
        declared = [
            one.fields[names[0]]
            for cls in own
            for one in usages.program.family(cls, up_only=True)
            if names and names[0] in one.fields
        ]
        if own and (not names or not all(name and name.rpartition(".")[2].lower() not in _PLAIN for name in declared)):
            return False  # a value of the program's own that is no usage of a provider, as far as can be told
        if names:
            return is_of_answer or any(word in node.name.lower() for word in usages.known.answers)
        return node.name in usages.known.holders and not (annotation and is_plain)
    return bool(names) and (is_of_answer or not (node.kind == "call" and usages.program.targets(node)))


def _classes_of(usages: Usages, read: Read) -> tuple[Class, ...]:
    """The classes of the program that a usage is an object of."""
    results = usages.program.classes_of(read.base)
    if results:
        return results
    for root, keys in read.usage:
        node = usages.roots[root]
        classes = usages.program.classes_of(node)
        for key in keys:
            classes = tuple(
                one
                for cls in classes
                for above in usages.program.family(cls, up_only=True)
                if isinstance(key, str) and key in above.fields
                for one in _named(usages, above.fields[key], above.module)
            )
        if classes:
            return classes
    return ()


def _named(usages: Usages, name: str, module: Module) -> list[Class]:
    return [node.value for node in usages.program.lookup(f"~{name}", module) if node.kind == "class"] if name else []


def _fields(usages: Usages, cls: Class) -> Iterator[str]:
    for one in usages.program.family(cls, up_only=True):
        yield from one.fields
        yield from one.attributes
        yield from one.stores


def _is_uncached(usages: Usages, function: Function) -> bool:
    """Return whether what a function asks reports no cached tokens."""
    known, module = usages.known, function.module
    names = [function.name, function.cls.name if function.cls else "", *function.annotations.values()]
    names += [node.name for node in usages.scope(function).nodes if node.kind == "call" and read_of(node) is None]
    if _is_telling(usages, module):
        return True
    if any(word in name.lower() for name in names for word in known.uncached_words):
        return True
    return any(package in module.name for package in known.uncached_packages) or not usages.imports(module).isdisjoint(
        known.uncached_packages
    )


def _is_telling(usages: Usages, module: Module) -> bool:
    """Return whether a module only tells a log or a trace what others count."""
    return any(word in module.name.lower() for word in usages.known.telling_words)


def _is_unmarked(usages: Usages, module: Module, counter: str) -> bool:
    """Return whether a service caches only what is marked, and no module of its folder marks anything."""
    for row in usages.known.marked:
        packages = usages.imports(module)
        is_of = not packages.isdisjoint(row["packages"]) and packages.isdisjoint(row["unless"])
        is_of = is_of or counter in row["counters"] or any(word in module.name.lower() for word in row["modules"])
        if is_of and usages.keys_of(module.name.rpartition(".")[0]).isdisjoint(row["keys"]):
            return True
    return False


# CKA01


def _mixed(usages: Usages, scope: Scope) -> Iterator[Hit]:
    known = usages.known
    reads = {id(read.node): read for read in scope.reads}
    for node in scope.nodes:
        if node.kind != "join" or node.name not in {"+", "/"}:
            continue
        parts = [[reads[id(one)] for one in _counters_in(part, reads)] for part in node.inputs]
        names = [{read.name for read in part} for part in parts]
        if (
            node.name == "/"
            and len(parts) == 2
            and names[0]
            and names[0] <= known.apart
            and len(names[1]) == 1
            and names[1] <= known.inputs
        ):
            if parts[0][0].usage & parts[1][0].usage:
                divisor = text_of(node.inputs[1])
                yield Hit(
                    "CKA01", f"`{divisor}` leaves out what was read from the cache: this share can exceed 100 %", node
                )
        elif node.name == "+":
            for whole in (read for part in parts for read in part if _is_one(part) and read.name in known.inputs):
                inside = {(root, (*keys, name)) for root, keys in whole.usage for name in known.inside}
                if any(read.usage & inside for part in parts for read in part if _is_one(part)):
                    yield Hit(
                        "CKA01",
                        f"`{text_of(whole.node)}` holds the cached tokens already: adding them counts them twice",
                        node,
                    )
                    break


# CKA02


def _repeated(usages: Usages, scope: Scope) -> Iterator[Hit]:
    """Sums of the usage in lines that have a `message` with a `usage`, where no id of the call is looked at."""
    lines = {
        id(read.node): read for read in scope.reads if read.name and any(_is_of_line(keys) for _, keys in read.usage)
    }
    if (
        not lines
        or not any(word in scope.function.module.text for word in _SESSION_FILES)
        or _looks_at_ids(usages, scope)
    ):
        return
    for node in scope.nodes:
        if node.kind == "call" and node.name == "sum" and node.value and node.value[0][1].kind == "comp":
            summed = [node.value[0][1].inputs[0]]
        elif node.kind == "update" and node.name == "+=" and not node.value and node.context.loops():
            summed = [node.inputs[1]]
        elif (
            node.kind == "join"
            and node.name == "+"
            and any(one.kind == "phi" and one.name == "loop" for one in node.inputs)
        ):
            summed = [one for one in node.inputs if one.kind != "phi"]
        else:
            continue
        counters = [one for part in summed for one in _counters_in(part, lines)]
        if counters:
            read = lines[id(counters[0])]
            message = (
                f"`{read.name}` is summed over the lines of a session file, which holds a call's usage once for each content "
                "block: count each `requestId` with its `message.id` once"
            )
            yield Hit("CKA02", message, node, ((read.node, f"`{read.name}` of a line"), (node, "summed")), None, node)


def _is_of_line(keys: tuple[Key, ...]) -> bool:
    return len(keys) > 2 and keys[-2:] == ("message", "usage") and ANY in keys[:-2]


def _looks_at_ids(usages: Usages, scope: Scope) -> bool:
    """Return whether a function, one that calls it, or one that it calls, reads what tells calls apart."""
    around = [call.context.function for call, _ in usages.program.callers(scope.function)]
    around += [
        target.function for node in scope.nodes if node.kind == "call" for target in usages.program.targets(node)
    ]
    return any(
        (read := read_of(node)) is not None and read[1] in _IDS
        for one in [scope, *(usages.scope(function) for function in around)]
        for node in one.nodes
    )
