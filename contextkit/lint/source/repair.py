"""Leaves out of a file the statements that are no Python, so that the rest is read.

Takes the statements of a text, gives a tree and a note for each statement that is not in it. Blocks are taken apart
from the outside to the inside: what parses is kept whole, a head that does not parse is replaced and its block kept,
a statement that does not parse is left out. A text is parsed once for each level of blocks that holds a fault.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from contextkit.lint.source.newer import Code, Statement, as_tree

REFUSALS = (SyntaxError, ValueError, MemoryError, RecursionError)
"""What the interpreter raises for a text it does not parse."""
_MAX_LEVELS = 90
"""Blocks in one another that are taken apart; the interpreter refuses 100."""
_MAX_TRIES = 20
"""Statements outside of blocks that are left out where the parts parse and the whole does not."""
_CLAUSES = frozenset({b"elif", b"else", b"except", b"finally"})
_CONTINUED = frozenset({b"if", b"elif", b"else", b"for", b"while", b"async", b"try", b"except"})
"""Words of heads that a clause may follow."""
_BEFORE = {
    b"elif": "if 1:\n pass\n",
    b"else": "if 1:\n pass\n",
    b"except": "try:\n pass\n",
    b"finally": "try:\n pass\n",
}
"""Word of a clause → what it may follow."""
_INSTEAD = {b"elif": "elif 1:", b"else": "else:", b"except": "except ():", b"finally": "finally:", b"match": "match 1:"}
"""Word of a head that does not parse → what stands there instead; `if 1:` for any other."""


class Note(NamedTuple):
    """What is not in a tree."""

    line: int
    """From 1."""
    message: str
    """`not read: invalid syntax`."""


def reason(error: BaseException) -> str:
    """Why the interpreter does not parse it, on one line."""
    if isinstance(error, SyntaxError):
        return " ".join((error.msg or "invalid syntax").split())
    return "nested too deeply" if isinstance(error, MemoryError | RecursionError) else " ".join(str(error).split())


def repaired(code: Code) -> tuple[ast.Module, tuple[Note, ...]]:
    """A tree without what does not parse, and notes by line."""
    repair = _Repair(code)
    repair.blocks(_nested(code.statements), 0)
    return repair.tree()


@dataclass(slots=True)
class _Block:
    """A statement and those indented below it."""

    head: Statement
    inside: list[_Block] = field(default_factory=list)
    last: int = 0
    """Its last line, from 0."""


def _nested(statements: Sequence[Statement]) -> list[_Block]:
    top: list[_Block] = []
    above: list[_Block] = []
    for statement in statements:
        while above and above[-1].head.indent >= statement.indent:
            above.pop()
        block = _Block(statement, last=statement.last)
        (above[-1].inside if above else top).append(block)
        for outer in above:
            outer.last = statement.last
        above.append(block)
    return top


def _groups(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Blocks that are one statement together: decorators and what they decorate, `if` and its `else`."""
    group: list[_Block] = []
    for block in blocks:
        before = group[-1].head.word if group else b""
        if group and not (before == b"@" or (block.head.word in _CLAUSES and before in _CONTINUED)):
            yield group
            group = []
        group.append(block)
    if group:
        yield group


class _Repair:
    def __init__(self, code: Code) -> None:
        self._code = code
        self._lines = code.text.split("\n")
        self._notes: dict[int, str] = {}

    def tree(self) -> tuple[ast.Module, tuple[Note, ...]]:
        """What is left parses, except where parts parse that do not go together."""
        for _ in range(_MAX_TRIES):
            try:
                tree = as_tree(replace(self._code, text="\n".join(self._lines)))
            except REFUSALS as error:
                line = getattr(error, "lineno", None)
                block = next((one for one in _nested(self._code.statements) if line and line <= one.last + 1), None)
                if block is None:
                    break
                self._leave_out(block.head.first, block.last, reason(error), is_empty=True)
            else:
                return tree, tuple(Note(line + 1, text) for line, text in sorted(self._notes.items()))
        return ast.Module([], []), (Note(1, "not read: no part of it is Python"),)

    def blocks(self, blocks: Sequence[_Block], level: int) -> None:
        """Mend blocks beside one another; those that are indented otherwise than most are left out."""
        widths = Counter[int]()
        for block in blocks:
            widths[block.head.indent] += block.last - block.head.first + 1
        width = max(widths, key=widths.__getitem__, default=0) if level else 0
        for block in blocks:
            if block.head.indent != width:
                self._leave_out(block.head.first, block.last, "unexpected indent", is_empty=True)
        for group in _groups([block for block in blocks if block.head.indent == width]):
            if fault := self._fault(group):
                self._mend(group, fault, level)

    def _fault(self, group: Sequence[_Block]) -> str:
        """Why it does not parse; empty where it does."""
        text = "\n".join(self._lines[group[0].head.first : group[-1].last + 1])
        return _fault(text, group[0].head)

    def _mend(self, group: Sequence[_Block], fault: str, level: int) -> None:
        if level == _MAX_LEVELS:
            self._leave_out(group[0].head.first, group[-1].last, fault)
            return
        for block in group:
            self._mend_shape(block)
        if self._skeleton_fault(group):
            for block in group:
                if why := _fault(self._with_body(block, " "), block.head, is_alone=True):
                    self._set_head(block, why)
        if why := self._skeleton_fault(group):
            self._note(group[0].head.first, why)
            for block in group:
                self._put_head(block, "if 1:")
        for block in group:
            self.blocks(block.inside, level + 1)

    def _mend_shape(self, block: _Block) -> None:
        """A head without a block, and a block without a head."""
        head = block.head
        if head.is_opener and not block.inside:
            self._set_head(block, "expected an indented block")
        elif block.inside and not head.is_opener:
            why = _fault("\n".join(self._lines[head.first : head.last + 1]), head, is_alone=True)
            if not why and block.last - block.inside[0].head.first <= head.last - head.first:
                self._leave_out(block.inside[0].head.first, block.last, "unexpected indent", is_empty=True)
                block.inside.clear()
            else:
                self._set_head(block, why or "unexpected indent")

    def _skeleton_fault(self, group: Sequence[_Block]) -> str:
        """Why the heads do not parse, whatever their blocks hold."""
        return _fault("\n".join(self._with_body(block, " ") for block in group), group[0].head)

    def _with_body(self, block: _Block, more: str) -> str:
        head = self._lines[block.head.first : block.head.last + 1]
        indent = _indent(head[0])
        if not block.inside:
            return "\n".join(head)
        body = "case 1:\n" + indent + more * 2 + "pass" if block.head.word == b"match" else "pass"
        return "\n".join([*head, indent + more + body])

    def _set_head(self, block: _Block, fault: str) -> None:
        """Another head in place of one that does not parse."""
        word = block.head.word
        instead = "case _:" if word == b"case" and block.inside else _INSTEAD.get(word, "if 1:")
        self._put_head(block, instead)
        self._note(block.head.first, fault)

    def _put_head(self, block: _Block, words: str) -> None:
        head = block.head
        if head.word == b"@":
            words = ""
        elif not block.inside:
            words = f"{words} pass" if head.word in _CLAUSES and words != "if 1:" else "pass"
        self._put(head.first, head.last, words)

    def _leave_out(self, first: int, last: int, fault: str, *, is_empty: bool = False) -> None:
        self._put(first, last, "" if is_empty else "pass")
        self._note(first, fault)

    def _note(self, line: int, fault: str) -> None:
        self._notes.setdefault(line, f"not read: {fault}")

    def _put(self, first: int, last: int, words: str) -> None:
        self._lines[first] = _indent(self._lines[first]) + words
        for line in range(first + 1, last + 1):
            self._lines[line] = ""


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def _fault(text: str, head: Statement, *, is_alone: bool = False) -> str:
    """Why a statement does not parse where its indent allows one; empty where it does.

    Alone, a clause is looked at behind what it may follow.
    """
    before = ""
    if is_alone and head.word in _BEFORE:
        before = _BEFORE[head.word].replace("\n", "\n" + _indent(text)).rstrip(" \t\f")
        before = _indent(text) + before
    if is_alone and head.word == b"@":
        text = f"{text}\n{_indent(text)}def f(): pass"
    if is_alone and head.word == b"try":
        text = f"{text}\n{_indent(text)}finally: pass"
    if head.word == b"case":
        before = "match 1:\n"
    elif head.indent:
        before = "if 1:\n" + before
    try:
        ast.parse(before + text)
    except REFUSALS as error:
        return reason(error) or "invalid syntax"
    return ""
