"""Joins what the files said: where a value comes from in the end, through calls, attributes and variables of other
files.

Takes the `Module` of every file, gives the ends of a value; knows nothing of syntax and of hazards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from contextkit.lint.finding import CodePlace
from contextkit.lint.source import sanitizers, sources
from contextkit.lint.source.rule import Kind
from contextkit.lint.source.summary import (
    CALL,
    Attribute,
    Called,
    Filtered,
    Function,
    Global,
    Item,
    Module,
    ObjectText,
    Origin,
    Parameter,
    Source,
    Value,
)

DEPTH = 8
"""How many calls, attributes and variables a value is followed through."""
_HOPS = 8
"""How many re-exports a name is followed through."""
_MOST_HEIRS = 12
"""Methods written over one that does nothing, at most: with more of them a call says too little of which one it means.
"""
_WIDTH = 64
"""How many different ends of a value are kept; a value with more is everything and says nothing."""


class Atom(NamedTuple):
    """An end that a value comes from."""

    path: str
    """File."""
    origin: Source | Parameter
    """What it is."""
    is_frozen: bool
    """Whether it was made once for the session."""
    without: frozenset[Kind] = frozenset()
    """Of a parameter: kinds that do not get through from there."""


Ends = dict[Atom, tuple[CodePlace, ...]]
"""End → the steps from there, the end itself left out."""


class Program:
    """All files of the linted tree."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules: dict[str, Module] = {}
        self.owners: dict[str, tuple[Module, Function]] = {}
        for module in modules:
            self.modules.setdefault(module.name, module)
            for function in module.functions.values():
                self.owners.setdefault(function.name, (module, function))
        self._resolved: dict[str, str] = {}
        self._callees: dict[str, str] = {}
        self._runs: dict[str, list[str]] = {}
        self._returned: dict[str, Ends] = {}
        self._known: dict[tuple[str, int, int, str], Ends] = {}
        self.roots = {name.partition(".")[0] for name in self.modules}
        self._once: dict[str, bool] = {}

    # Names
    # ----------------------------------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """The full name a function, class or variable has where it stands.

        The name itself where it is not of this tree.
        """
        found = self._resolved.get(name)
        if found is None:
            self._resolved[name] = name
            found = self._resolved[name] = self._resolve(name, _HOPS)
        return found

    def _resolve(self, name: str, hops: int) -> str:
        module, rest = self._split(name)
        if module is None or not rest or not hops:
            return name
        if rest in module.functions:
            return f"{module.name}.{rest}"
        head, _, tail = rest.partition(".")
        owner, _, member = rest.rpartition(".")
        if owner in module.classes:
            return self._member(module, owner, member, hops) or f"{module.name}.{rest}"
        star = module.names.get("*", "")
        other = module.names.get(head) or (f"{star[:-1]}{head}" if star and head not in module.classes else "")
        if other and other != f"{module.name}.{head}":
            return self._resolve(f"{other}.{tail}" if tail else other, hops - 1)
        return f"{module.name}.{rest}"

    def _member(self, module: Module, owner: str, member: str, hops: int) -> str | None:
        """A method or attribute of a class, or of one of its bases."""
        if f"{owner}.{member}" in module.functions or (owner, member) in module.attributes:
            return f"{module.name}.{owner}.{member}"
        for base in module.classes[owner] if hops else ():
            full = self._resolve(base, hops - 1)
            above, rest = self._split(full)
            if above is not None and rest in above.classes and (above is not module or rest != owner):
                found = self._member(above, rest, member, hops - 1)
                if found:
                    return found
        return None

    def _split(self, name: str) -> tuple[Module | None, str]:
        """The longest module a full name begins with, and the rest; a package without its first folders is found too."""
        head = name
        while head:
            module = self.modules.get(head)
            if module is not None:
                return module, name[len(head) + 1 :]
            head = head.rpartition(".")[0]
        parts = name.split(".")
        for start in range(1, len(parts) - 2):
            if parts[start] in self.roots and ".".join(parts[start : start + 2]) in self.modules:
                return self._split(".".join(parts[start:]))
        return None, ""

    @cached_property
    def callers(self) -> dict[str, list[tuple[Module, Function, int]]]:
        """Full name of a function → who calls it: file, function, and number of the call there."""
        found: dict[str, list[tuple[Module, Function, int]]] = defaultdict(list)
        for module in self.modules.values():
            for function in module.functions.values():
                for number in function.calls:
                    origin = module.origins[number]
                    if isinstance(origin, Called):
                        for name in self.runs(self.callee(origin.callee)):
                            found[name].append((module, function, number))
        return found

    def runs(self, name: str) -> list[str]:
        """The functions that a call of a function may run: it, and where it is a method that does nothing, those
        written over it.
        """
        found = self._runs.get(name)
        if found is None:
            found = self._runs[name] = self._written_over(name) or [name]
        return found

    def _written_over(self, name: str) -> list[str]:
        owner, _, method = name.rpartition(".")
        known = self.owners.get(name) if owner in self._heirs else None
        if known is None or known[1].returned or known[1].arrivals or known[1].calls:
            return []
        heirs, waiting = {owner: None}, [owner]
        for one in waiting:
            new = [heir for heir in self._heirs.get(one, ()) if heir not in heirs]
            heirs.update(dict.fromkeys(new))
            waiting += new
        over = [full for heir in heirs if (full := f"{heir}.{method}") in self.owners]
        return over if len(over) <= _MOST_HEIRS else []

    @cached_property
    def _heirs(self) -> dict[str, list[str]]:
        """Full name of a class → the classes that name it as a base."""
        found: dict[str, list[str]] = defaultdict(list)
        for module in self.modules.values():
            for name, bases in module.classes.items():
                for base in bases:
                    found[self.resolve(base)].append(f"{module.name}.{name}")
        return found

    def callee(self, name: str) -> str:
        """The function a call of this name runs: of a class, its constructor."""
        found = self._callees.get(name)
        if found is None:
            found = self.resolve(name)
            if name.endswith(CALL) and found not in self.owners:
                found = self.resolve(name.removesuffix(CALL))
            module, rest = self._split(found)
            if module is not None and rest in module.classes:
                found = self._member(module, rest, "__init__", _HOPS) or found
            self._callees[name] = found
        return found

    def is_once(self, function: Function, depth: int = 4) -> bool:
        """Whether a session runs it once: a constructor, or called from there only."""
        if function.is_once:
            return True
        if not depth:
            return False
        known = self._once.get(function.name)
        if known is None:
            self._once[function.name] = False
            calls = self.callers.get(function.name, [])
            known = bool(calls) and all(
                origin.is_once or (number not in caller.in_loop and self.is_once(caller, depth - 1))
                for module, caller, number in calls
                if isinstance(origin := module.origins[number], Called)
            )
            self._once[function.name] = known
        return known

    # Values
    # ---------------------------------------------------------------------------------------------------------------

    def ends(self, module: Module, value: Value, depth: int = DEPTH, fresh: str = "") -> Ends:
        """Where a value comes from in the end: sources, and parameters of the function around it."""
        found: Ends = {}
        for number in value:
            if len(found) > _WIDTH:
                break
            key = module.name, number, depth, fresh
            inside = self._known.get(key)
            if inside is None:
                inside = self._known[key] = self._ends_of(module, module.origins[number], depth, fresh)
            for atom, trail in inside.items():
                if atom not in found or len(trail) < len(found[atom]):
                    found[atom] = trail
        return found

    def _ends_of(self, module: Module, origin: Origin, depth: int, fresh: str) -> Ends:
        if isinstance(origin, Source | Parameter):
            return {Atom(module.path, origin, False): ()}
        if depth <= 0:
            return {}
        if isinstance(origin, Called):
            return self._result(module, origin, depth, fresh)
        if isinstance(origin, Attribute):
            return self._held(origin, depth, fresh)
        if isinstance(origin, Global):
            return self._variable(origin, depth)
        if isinstance(origin, Item):
            return self._items(module, origin, depth, fresh)
        if isinstance(origin, ObjectText):
            method = self.owners.get(self.resolve(f"{origin.owner}.__str__"))
            return self.returned(*method, depth) if method else self.ends(module, origin.value, depth, fresh)
        inside = self.ends(module, origin.value, depth, fresh)
        if isinstance(origin, Filtered):
            return without(by_day(inside) if origin.is_daily else inside, origin.without)
        return {atom._replace(is_frozen=True): trail for atom, trail in inside.items()}

    def _unknown(self, module: Module, call: Called, name: str, depth: int, fresh: str) -> Ends:
        """What a function that is not known, or a class, gives back: its arguments, as far as they are text."""
        last = name.removesuffix(".__init__").rpartition(".")[2]
        is_class = last[:1].isupper()
        given_as = ((key, value) for key, value in call.arguments if not sources.is_aside(key))
        texts = (value for key, value in given_as if not is_class or isinstance(key, int) or key in sources.TEXT_PARTS)
        given = self._merged(self.ends(module, value, depth - 1, fresh) for value in texts)
        return without(given, sanitizers.LOOKED_UP)

    def _items(self, module: Module, origin: Item, depth: int, fresh: str) -> Ends:
        calls = (module.origins[number] for number in origin.value)
        return self._merged(
            self._result(module, call, depth, fresh, origin.place) for call in calls if isinstance(call, Called)
        )

    def _result(self, module: Module, call: Called, depth: int, fresh: str, place: int | str | None = None) -> Ends:
        """What a call gives back: the sources in the function, and what it was given where that is what it returns."""
        name = self.callee(call.callee)
        known = self.owners.get(name)
        if known is None or name.endswith(".__init__"):
            return self._unknown(module, call, name, depth, fresh)
        return self._merged(
            self._returned_by(module, call, *self.owners[one], depth, fresh, place) for one in self.runs(name)
        )

    def _returned_by(
        self,
        module: Module,
        call: Called,
        owner: Module,
        function: Function,
        depth: int,
        fresh: str,
        place: int | str | None,
    ) -> Ends:
        """What a call gives back if it runs this function."""
        step = call.site.place(module.path, f"returned by `{function.name.rpartition('.')[2]}`")
        found: Ends = {}
        if place is not None and place in function.items:
            inside = self.ends(owner, function.items[place], depth - 1)
        elif isinstance(place, str):
            return {}
        else:
            inside = (
                self._fresh_results(owner, function, depth) if call.is_fresh else self.returned(owner, function, depth)
            )
        for atom, trail in inside.items():
            if isinstance(atom.origin, Parameter) and atom.origin.function == function.name:
                given = without(
                    self.argument_ends(module, call, function, atom.origin.name, depth - 1, fresh), atom.without
                )
                found.update(
                    {
                        other._replace(is_frozen=other.is_frozen or atom.is_frozen): (*way, *trail)
                        for other, way in given.items()
                    }
                )
            else:
                found[atom] = (*trail, step)
        return {atom._replace(is_frozen=True): trail for atom, trail in found.items()} if function.is_frozen else found

    def argument_ends(
        self, module: Module, call: Called, function: Function, name: str, depth: int = DEPTH, fresh: str = ""
    ) -> Ends:
        """Where what a call gives for a parameter comes from.

        Of keywords that are only handed on, what stands under its name.
        """
        given, spread = argument_of(call, function, name)
        found = self.ends(module, given, depth, fresh)
        for atom, way in self.ends(module, spread, depth, fresh).items():
            origin = atom.origin
            known = self.owners.get(origin.function) if isinstance(origin, Parameter) else None
            if (
                isinstance(origin, Parameter)
                and known is not None
                and origin.name == known[1].extra
                and name != function.extra
            ):
                atom = atom._replace(origin=origin._replace(name=f"{SPREAD}{name.removeprefix(SPREAD)}"))  # noqa: PLW2901
            found.setdefault(atom, way)
        return found

    def returned(self, module: Module, function: Function, depth: int) -> Ends:
        """The ends of what a function gives back."""
        found = self._returned.get(function.name)
        if found is None:
            self._returned[function.name] = {}
            found = self._returned[function.name] = self.ends(module, function.returned, depth - 1)
        return found

    def _fresh_results(self, module: Module, function: Function, depth: int) -> Ends:
        """The same for a method of an object that was made just now: its constructor saw a new clock."""
        return self.ends(module, function.returned, depth - 1, function.name.rpartition(".")[0])

    def _held(self, origin: Attribute, depth: int, fresh: str) -> Ends:
        """What an attribute holds; what a constructor stored there is frozen."""
        full = self.resolve(f"{origin.owner}.{origin.name}")
        module, rest = self._split(full)
        if module is None:
            return {}
        owner, _, name = rest.rpartition(".")
        if rest in module.functions:
            method = module.functions[rest]
            given = self.returned(module, method, depth) if method.is_property else {}
            return _sources_of(given, is_frozen=False)
        found: list[Ends] = []
        for value, is_once in module.attributes.get((owner, name), ()):
            ends = self.ends(module, value, depth - 1)
            found.append(_sources_of(ends, is_frozen=is_once and fresh != f"{module.name}.{owner}"))
        return self._merged(found)

    def _variable(self, origin: Global, depth: int) -> Ends:
        module, name = self._split(self.resolve(origin.name))
        if module is None:
            return {}
        found = []
        for value, is_once in module.variables.get(name, ()):
            ends = self.ends(module, value, depth - 1)
            found.append(_sources_of(ends, is_frozen=is_once))
        return self._merged(found)

    @staticmethod
    def _merged(parts: Iterable[Ends]) -> Ends:
        found: Ends = {}
        for part in parts:
            found.update(part)
        return found


def _sources_of(ends: Ends, *, is_frozen: bool) -> Ends:
    """What does not depend on a caller nobody knows here."""
    return {
        atom._replace(is_frozen=atom.is_frozen or is_frozen): trail
        for atom, trail in ends.items()
        if isinstance(atom.origin, Source)
    }


def without(ends: Ends, kinds: frozenset[Kind]) -> Ends:
    """Ends behind a step that some kinds do not get through."""
    if not kinds:
        return ends
    return {
        atom._replace(without=atom.without | kinds) if isinstance(atom.origin, Parameter) else atom: trail
        for atom, trail in ends.items()
        if not isinstance(atom.origin, Source) or atom.origin.kind not in kinds
    }


def by_day(ends: Ends) -> Ends:
    """Ends of a value of which only the day is read; what a caller gives is judged as it comes."""
    return {_on_day(atom): trail for atom, trail in ends.items()}


def _on_day(atom: Atom) -> Atom:
    origin = atom.origin
    return (
        atom._replace(origin=Source("date", origin.site))
        if isinstance(origin, Source) and origin.kind == "clock"
        else atom
    )


SPREAD = "**"
"""In front of a name: what stands under it in the keywords that a function takes together."""


def argument_of(call: Called, function: Function, name: str) -> tuple[Value, Value]:
    """What a call gives for a parameter: by its place or name; or among what it spreads out."""
    names, key = function.parameters, name.removeprefix(SPREAD)
    given, spread, is_given = Value(), Value(), False
    for place, value in call.arguments:
        if isinstance(place, int):
            is_meant = names[place] == name if place < len(names) else name == function.rest
        else:
            is_meant = place == key or (
                name == function.extra and place not in function.named and not sources.is_aside(place)
            )
        if place in {"*", SPREAD}:
            spread |= value
        elif is_meant:
            given, is_given = given | value, True
    return given, Value() if is_given and name != function.extra else spread
