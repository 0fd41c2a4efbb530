"""Rules about markers: none at all (CKB01), frozen (CKB04), moving (CKB05), too many (CKB08), in the wrong order (CKB09), on too little
(CKB11), on what carries none (CKB12), and families of models that need one (CKB13).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.flows import frequency_of
from contextkit.lint.source.graph import ANY, Context, Node
from contextkit.lint.source.knowledge import Request
from contextkit.lint.source.rules import edits
from contextkit.lint.source.rules.marks import (
    Block,
    Markers,
    blocks,
    conditions_of,
    is_bounded,
    least_length,
    length_of,
    loop_of,
    marks_in,
    parts_of,
)
from contextkit.lint.source.search import Origin, base_of
from contextkit.lint.source.sinks import Conversation, Sink, is_begun_in
from contextkit.models import find_model

CODES: Final = frozenset({"CKB01", "CKB04", "CKB05", "CKB08", "CKB09", "CKB11", "CKB12", "CKB13"})
_MUCH_TEXT: Final = 4000
"""Characters of constant prefix that are above the smallest prefix a provider caches."""
_SHORT: Final = 8
"""Names of options up to this length mean something else, too: `cache`."""
_VARYING: Final = frozenset({"clock", "id", "recall", "choice"})
_COUNTS: Final = re.compile(r"mark|cache|breakpoint", re.IGNORECASE)
_CACHING: Final = re.compile(
    r"cache_?(?:control|point|breakpoint|marker)|(?:add|apply|with|set|insert|inject|enable|put)\w*_cach|caching|breakpoint|prompt_?cach",
    re.IGNORECASE,
)
"""Names of functions outside of the program that mark."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request and everything it is given."""

    call: Node
    request: Request
    conversation: Conversation
    sinks: list[Sink]


def find(analysis: Analysis) -> Iterator[Hit]:
    """All findings."""
    markers = Markers.of(analysis.knowledge)
    words = [name.encode() for name in markers.keys | {name for name in markers.automatic if len(name) > _SHORT}]
    saying = {module.package for module in analysis.modules if any(word in module.text for word in words)}
    requests: dict[int, Sent] = {}
    for sink in analysis.sinks:
        if sink.call is not None and sink.request is not None and sink.conversation is not None and not sink.stack:
            requests.setdefault(id(sink.call), Sent(sink.call, sink.request, sink.conversation, [])).sinks.append(sink)
    adapters: set[int] = set()
    for sent in requests.values():
        is_said = sent.call.module.package in saying  # else nothing near the request marks
        for hit in _of_request(analysis, markers, sent, is_said=is_said):
            function = sent.call.context.function
            adapter = id(function.cls or function)
            if hit.code != "CKB01" or hit.fix is not None or adapter not in adapters:
                yield hit  # a class that sends requests in several places is mended in one
            if hit.code == "CKB01":
                adapters.add(adapter)
    for module in analysis.modules:
        for node in marks_in(module, markers):
            yield from _of_mark(analysis, markers, node)


def _of_request(analysis: Analysis, markers: Markers, sent: Sent, *, is_said: bool) -> Iterator[Hit]:
    yield from _unmarked(analysis, markers, sent, is_said=is_said)
    yield from _exact(analysis, markers, sent)
    yield from _piled_up(analysis, markers, sent)
    ordered = {"tools": 0, "system": 1, "messages": 2}
    prompt = sorted(
        (one for one in sent.sinks if one.kind in ordered and not one.path and one.label.startswith("`")),
        key=lambda one: ordered[one.kind],
    )
    results = [block for sink in prompt for block in blocks(sink.node, analysis.search, markers, sink.stack)]
    marked = [block for block in results if block.marker is not None]
    n_automatic = any(key in markers.automatic for key, _ in sent.call.value)
    if len(marked) + n_automatic > markers.maximum:
        where = sent.call if sent.call.position is not None else marked[markers.maximum].node
        yield Hit(
            "CKB08",
            f"{len(marked) + n_automatic} blocks of one request are marked, {markers.maximum} may be: the request is refused",
            where,
        )
    yield from _order(analysis, markers, marked)
    yield from _short(analysis, sent, results)


# CKB01, CKB13: a sent.request without markers


def _unmarked(analysis: Analysis, markers: Markers, sent: Sent, *, is_said: bool) -> Iterator[Hit]:
    """CKB01: a request to an explicit cache that grows, or has a long constant prefix, and marks nothing."""
    if sent.call.position is None or not _needs_markers(analysis, sent):
        return
    if sent.call.context.function.is_top or any(context.kind == "except" for context in sent.call.context.chain()):
        return
    grows = sent.conversation.kind == "loop" or (sent.conversation.kind == "kept" and sent.conversation.grows)
    prefix = [sink for sink in sent.sinks if sink.kind in {"system", "tools"}]
    if not any(sink.kind == "messages" for sink in sent.sinks):
        return
    if (
        not grows
        and sum(least_length(sink.node, analysis.search, sink.stack) for sink in prefix if not sink.path) < _MUCH_TEXT
    ):
        return
    if any(key in markers.automatic for key, _ in sent.call.value):
        return
    if is_said and (_is_marked(analysis, markers, sent) or _may_be_passed(analysis, markers, sent.call)):
        return
    if not grows:
        yield Hit(
            "CKB01",
            "this request repeats a long constant prompt and marks nothing for caching: it is billed in full each time",
            sent.call,
        )
        return
    varying = _varying_in_front(analysis, prefix)
    message = (
        "this request sends a growing conversation and marks nothing for caching: all of it is billed in full each time"
    )
    if varying is not None:
        message += f" (`{text_of(varying.node)}` varies in front of it: mend that first)"
    yield Hit("CKB01", message, sent.call, (), None if varying is not None else edits.add_marker(sent.call, analysis))


def _needs_markers(analysis: Analysis, sent: Sent) -> bool:
    """Return whether its provider caches only what is marked, as far as the model is known."""
    row = next(
        (
            row
            for row in analysis.knowledge.sections.get("explicit_cache", ())
            if row["provider"] == sent.request.provider
        ),
        None,
    )
    if (
        row is None
        or sent.request.lifetime != "call"
        or (sent.request.provider == "anthropic" and "messages." not in sent.call.name)
    ):
        return False
    names = [
        str(name).lower()
        for sink in sent.sinks
        if sink.kind == "model"
        for name in _constants(analysis, sink)
        if isinstance(name, str) and name
    ]
    if row.get("unknown_models", False) and len(names) != 1:
        return True  # a client of its own: another model is written out
    return any(word in name for name in names for word in row["models"])


def _constants(analysis: Analysis, sink: Sink) -> set[Any]:
    return analysis.search.constants(sink.node, path=sink.path, stack=sink.stack)


def _is_marked(analysis: Analysis, markers: Markers, sent: Sent) -> bool:
    """Return whether a marker is, or may be, in what a request holds."""
    if markers.in_module(sent.call.module):
        return True
    for sink in sent.sinks:
        if sink.kind not in {"system", "messages", "tools", "headers"}:
            continue
        for state in analysis.search.visited(sink.node, path=sink.path, stack=sink.stack):
            if _may_mark(analysis, markers, state.node, sent.call):
                return True
    return False


def _may_mark(analysis: Analysis, markers: Markers, node: Node, call: Node) -> bool:
    """Return whether a value is marked, or comes out of a function nobody can see that may have."""
    if markers.of_node(node) is not None:
        return True
    called = node if node.kind == "call" else node.inputs[1] if node.kind == "out" else None
    if called is None or analysis.program.targets(called):
        return False
    if _CACHING.search(called.name.rpartition(".")[2]):
        return True
    return (
        node.kind == "out" and called.inputs[0].kind == "param" and called.context.function is call.context.function
    )  # handed over


def _may_be_passed(analysis: Analysis, markers: Markers, call: Node) -> bool:
    """Return whether arguments nobody can see hold one: `**options`."""
    for key, value in call.value:
        if key != "**":
            continue
        for name in markers.automatic:
            results = analysis.search.origins(value, path=(name,), mode="object")
            if any(origin.kind in {"object", "open"} for origin in results):
                return True
        if any(
            _may_mark(analysis, markers, state.node, call) or _is_handed_over(state.node)
            for state in analysis.search.visited(value)
        ):
            return True
    return False


def _is_handed_over(node: Node) -> bool:
    """Return whether a value was given to a function nobody can see, which may change it."""
    return node.kind == "out" and node.inputs[1].inputs[0].kind == "param"


def _varying_in_front(analysis: Analysis, prefix: list[Sink]) -> Origin | None:
    for sink in prefix:
        for origin in analysis.search.origins(
            sink.node, path=sink.path, kinds=_VARYING, stack=sink.stack, lifetime=sink.lifetime
        ):
            if (
                origin.kind in _VARYING
                and origin.node.position is not None
                and frequency_of(origin, sink, analysis.search) in {"call", "turn", "request"}
            ):
                return origin
    return None


def _exact(analysis: Analysis, markers: Markers, sent: Sent) -> Iterator[Hit]:
    """CKB13: long instructions that cannot carry a breakpoint, for a model that reads up to one only."""
    for row in analysis.knowledge.sections.get("exact_breakpoints", ()):
        if row["provider"] != sent.request.provider or markers.in_module(sent.call.module):
            continue
        names = [
            name.rpartition("/")[2]
            for sink in sent.sinks
            if sink.kind == "model"
            for name in _constants(analysis, sink)
            if isinstance(name, str)
        ]
        if not names or not all(name.startswith(tuple(row["models"])) for name in names):
            continue
        for sink in sent.sinks:
            is_given = any(
                sent.request.arguments.get(key) == "system" and f"`{key}=`" in sink.label for key in row["unmarkable"]
            )
            if sink.kind == "system" and is_given and _is_long(analysis, sink, row["minimum_characters"]):
                message = f"{names[0]} reads up to a breakpoint only, and {sink.label} cannot carry one: every conversation writes it again"
                yield Hit("CKB13", message, sink.place if not sink.path else sent.call, sink=sent.call)


def _is_long(analysis: Analysis, sink: Sink, least: int) -> bool:
    """Return whether a text that stays is long: written out, or read from a file once."""
    if not sink.path and least_length(sink.node, analysis.search, sink.stack) >= least:
        return True
    states = analysis.search.objects(sink.node, path=sink.path, stack=sink.stack)
    if any(
        least_length(state.node, analysis.search, state.stack) >= least
        for state in states
        if state.node.kind in {"const", "join"}
    ):
        return True
    results = analysis.search.origins(sink.node, path=sink.path, kinds=frozenset({"file"}), stack=sink.stack)
    return any(origin.kind == "file" for origin in results)


# CKB08: too many


def _piled_up(analysis: Analysis, markers: Markers, sent: Sent) -> Iterator[Hit]:
    """A marker that comes with every message of a history, of which none is taken off."""
    if sent.conversation.kind not in {"kept", "loop"}:
        return
    loops = {id(loop) for loop in sent.call.context.loops()}
    for origin in sent.conversation.origins:
        above = origin.state.parent
        if (
            origin.kind != "item"
            or above is None
            or above.node.kind != "update"
            or above.node.name != "append"
            or above.node.value
        ):
            continue
        append = above.node
        if any(context.kind in {"if", "else", "except"} for context in append.context.chain()):
            continue
        is_repeated = any(id(loop) in loops for loop in append.context.loops()) and not is_begun_in(append, loops)
        if sent.conversation.kind == "kept":
            is_repeated = not analysis.search.runs_once(append.context.function) and base_of(append).kind in {
                "attr",
                "param",
                "ref",
                "phi",
            }
        if not is_repeated or any(map(markers.is_removal, (*append.module.updates, *sent.call.module.updates))):
            continue
        for block in blocks(origin.node, analysis.search, markers, origin.state.stack):
            if block.marker is not None:
                yield Hit(
                    "CKB08",
                    f"a marker comes with every message and none is taken off: after {markers.maximum} the request is refused",
                    block.node,
                )


def _of_mark(analysis: Analysis, markers: Markers, node: Node) -> Iterator[Hit]:
    if node.position is None:
        return
    if node.kind == "update":
        yield from _frozen(analysis, markers, node)
        yield from _moving(node)
        loop = loop_of(node)
        if loop is not None and (ANY in node.value[:-1] or _is_element(node, loop)):
            yield from _in_loop(analysis, markers, node, loop)
    elif node.kind == "dict":
        yield from _unmarkable(markers, node)
        if node.context.kind == "comprehension":
            yield from _in_loop(analysis, markers, node, node.context)
        elif (loop := loop_of(node)) is not None and any(
            _is_appended(update, node, loop) for update in node.module.updates
        ):
            yield from _in_loop(analysis, markers, node, loop)


def _is_element(node: Node, loop: Context) -> bool:
    """Return whether what is changed is what a loop goes through: `block["cache_control"] = …`."""
    while node.kind in {"update", "out", "phi"}:
        node = node.inputs[0]
    return node.kind == "iter" and node.context is loop and node.inputs[0] is loop.iterable


def _is_appended(update: Node, block: Node, loop: Context) -> bool:
    return update.name == "append" and block in update.inputs[1:] and not is_begun_in(update, {id(loop)})


def _in_loop(analysis: Analysis, markers: Markers, node: Node, loop: Context) -> Iterator[Hit]:
    """A marker for every element."""
    marker = markers.of_node(node)
    if (
        marker is not None
        and loop.iterable is not None
        and marker.kind not in {"phi", "item", "attr", "iter"}
        and not loop.has_exits
        and not is_bounded(loop.iterable, analysis.search, markers.maximum)
    ):
        yield Hit(
            "CKB08",
            f"every element of `{text_of(loop.iterable)}` gets a marker, and a request may hold {markers.maximum}",
            node,
        )


# CKB04, CKB05: where a marker goes


def _frozen(analysis: Analysis, markers: Markers, node: Node) -> Iterator[Hit]:
    """CKB04: set while fewer than the maximum exist, and never taken off."""
    for test in conditions_of(node):
        if test.kind != "compare" or test.name not in {"lt", "lte"} or len(test.inputs) != 2:
            continue
        right = test.inputs[1]
        if analysis.search.constants(right) & {markers.maximum, markers.maximum - 1} and any(
            _COUNTS.search(one.name or "") for one in parts_of(test)
        ):
            if not markers.removes(node.context.function, analysis.program):
                yield Hit(
                    "CKB04",
                    f"markers are only added, up to {markers.maximum}: what comes behind the last is never written",
                    test,
                )
            return


def _moving(node: Node) -> Iterator[Hit]:
    """CKB05: at a share of the history's length."""
    holder = node.inputs[3] if len(node.inputs) > 3 else None
    while holder is not None and holder.inputs:
        if holder.kind == "item" and len(holder.inputs) > 1 and _is_share(holder.inputs[1]):
            message = f"the marker's place `{text_of(holder.inputs[1])}` moves: no request marks what an earlier one has written"
            yield Hit("CKB05", message, node)
            return
        holder = holder.inputs[0] if holder.kind in {"item", "attr", "update", "out"} else None


def _is_share(index: Node) -> bool:
    """`len(messages) // 2`."""
    return any(
        part.kind == "join"
        and part.name in {"//", "/", "*"}
        and any(one.kind == "call" and one.name == "len" for one in parts_of(part))
        for part in parts_of(index)
    )


# CKB09, CKB11, CKB12: what the marked blocks are


def _order(analysis: Analysis, markers: Markers, marked: list[Block]) -> Iterator[Hit]:
    """CKB09: a longer lifetime behind a shorter one."""
    least: int | None = None
    for block in marked:
        rank = _lifetime(analysis, markers, block)
        if rank is None:
            return
        if least is not None and rank > least:
            yield Hit(
                "CKB09",
                "a marker with a longer lifetime stands behind one with a shorter: the request is refused",
                block.node,
            )
            return
        least = rank


def _lifetime(analysis: Analysis, markers: Markers, block: Block) -> int | None:
    """The rank of the lifetime a block is marked with, None where it is not known."""
    states = [] if block.marker is None else analysis.search.objects(block.marker, stack=block.stack)
    if len(states) != 1 or states[0].node.kind != "dict":
        return None
    marker: Node = states[0].node
    if "ttl" not in marker.value:
        return None if "**" in marker.value else markers.lifetimes.get(markers.default_lifetime)
    stated = analysis.search.constants(marker.inputs[marker.value.index("ttl")], stack=states[0].stack)
    return markers.lifetimes.get(str(next(iter(stated)))) if len(stated) == 1 else None


def _short(analysis: Analysis, sent: Sent, results: list[Block]) -> Iterator[Hit]:
    """CKB11: all that is marked is shorter than the model caches at all."""
    marks = [index for index, block in enumerate(results) if block.marker is not None]
    if not marks or sent.conversation.kind != "single":
        return
    if any(sink.path or sink.kind == "tools" for sink in sent.sinks if sink.kind in {"system", "messages", "tools"}):
        return
    names = {name for sink in sent.sinks if sink.kind == "model" for name in _constants(analysis, sink)}
    row = find_model(next(iter(names))) if len(names) == 1 and isinstance(next(iter(names)), str) else None
    if row is None:
        return
    lengths = [
        length_of(text, analysis.search, block.stack) if (text := block.text) is not None else None
        for block in results[: marks[-1] + 1]
    ]
    if None in lengths:
        return
    size = sum(length or 0 for length in lengths) / row.bytes_per_token
    if size < 0.6 * row.min_tokens:
        block = results[marks[-1]]
        yield Hit(
            "CKB11",
            f"about {size:,.0f} tokens are marked, and {row.name} caches nothing below {row.min_tokens:,}",
            block.node,
        )


def _unmarkable(markers: Markers, node: Node) -> Iterator[Hit]:
    """CKB12: thinking, or a text that may be empty."""
    marker = markers.of_node(node)
    if marker is None or marker.kind == "phi":
        return
    for key, value in zip(node.value, node.inputs, strict=True):
        if key == "type" and value.kind == "const" and value.value in markers.not_on:
            yield Hit(
                "CKB12",
                f"a block of type `{value.value}` carries no marker: the request is refused or the marker is ignored",
                node,
            )
        elif key == "text" and _may_be_empty(value, node):
            yield Hit(
                "CKB12", "a text that may be empty is marked: a request with an empty marked block is refused", node
            )


def _may_be_empty(text: Node, block: Node) -> bool:
    if text.kind == "const":
        return bool(text.value == "")
    if text.kind != "phi" or text.name not in {"or", "if"}:
        return False
    if text.inputs[-1].kind != "const" or text.inputs[-1].value != "":
        return False
    known = [one for test in conditions_of(block) for one in parts_of(test)]
    return not any(one is text.inputs[0] for one in known)
