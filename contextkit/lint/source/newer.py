"""Rewrites Python of up to 3.15 to what the running interpreter parses, with every line and column kept.

Takes UTF-8 text, gives `Code`: the rewritten text, its statements, and the expressions of f-strings, which are parsed
apart and put into the tree. Knows the grammar that came after 3.11:

- 3.12: `type X[T] = ...`, `def f[T](x)`, `class A[T]` (PEP 695); anything in the braces of an f-string (PEP 701)
- 3.13: defaults of type parameters (PEP 696)
- 3.14: `except A, B:` (PEP 758); t-strings, read as f-strings (PEP 750)
- 3.15: `lazy import x` (PEP 810), read as an import; `[*xs for xs in ys]` (PEP 798), read without the stars

The scanner takes one step for each token. It knows no grammar but that, so what it is given may be anything.
"""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

HAS_NESTED_STRINGS = sys.version_info >= (3, 12)
"""Whether the interpreter parses what stands in the braces of an f-string like other code."""
_MAX_LEVELS = 100
"""F-strings in one another that are looked into; the interpreter refuses 150."""
_CLOSERS = b")]}"
_NAME = rb"[^\W\d][\w\x80-\xff]*|[\x80-\xff][\w\x80-\xff]*"
_TOKEN = re.compile(
    rb"""(?P<blank>[ \t\f]+|\\\n|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<string>(?P<prefix>[bBrRuUfFtT]{0,2})(?P<quote>\"\"\"|'''|["']))
    |(?P<word>[\w\x80-\xff]+)
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])
    |(?P<other>\*\*|[:=!<>]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_INDENT = re.compile(rb"[ \t\f]*")
_BLANKS = re.compile(rb"(?:[ \t\f]|\\\n)*")
_UNPACKED = re.compile(rb"(?:[ \t\f\n]|\\\n|#[^\n]*\n)*(\*\*?)")
"""Behind a bracket: the star of its first item."""
_SOFT = re.compile(rb"(?:type(?=[ \t]+(?:" + _NAME + rb")[ \t]*(?:\[|=(?!=)))|lazy(?=[ \t]+(?:import|from)\b))[ \t]")
"""What begins a statement of a newer Python and is a name in an older one."""
_GENERIC = re.compile(rb"[ \t]*(?:" + _NAME + rb")[ \t]*(?=\[)")
"""Behind `def`, `class` or `type`: what has type parameters."""
_WORD = re.compile(rb"(?:" + _NAME + rb")|@")
_STATEMENTS = frozenset(
    b"def class import return while with try except finally raise del pass break continue global nonlocal assert elif @".split()
)
"""What begins a line only where no bracket is open."""
_HEADS = frozenset(b"def class if elif else for while with async match case".split())
"""What begins the head of a block."""
_ENDS = {
    b"'": re.compile(rb"(?:[^'\\\n]++|\\.)*+'", re.DOTALL),
    b'"': re.compile(rb'(?:[^"\\\n]++|\\.)*+"', re.DOTALL),
    b"'''": re.compile(rb"(?:[^'\\]++|\\.|'(?!''))*+'''", re.DOTALL),
    b'"""': re.compile(rb'(?:[^"\\]++|\\.|"(?!""))*+"""', re.DOTALL),
}
"""Quote → the rest of a string that began with it."""
_PARTS = {
    (quote, is_raw): re.compile(
        (rb"\\[^{}]" if is_raw else rb"\\N\{[^}\n]*\}|\\[^{}]") + rb"|[{}\n]|" + quote, re.DOTALL
    )
    for quote in _ENDS
    for is_raw in (False, True)
}
"""Quote, and whether backslashes are plain → what counts in the text of an f-string."""
_CONVERSION = re.compile(rb"![ \t]*\w+[ \t\f\n]*")
_DEBUG = re.compile(rb"=[ \t\f\n]*(?=[!:}])")
_BUDGET = 8
"""How often at most the scanner goes over a text, when it goes back behind brackets that nobody closed; then every
line is a statement."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A logical line."""

    first: int
    """Its first line, from 0."""
    last: int
    """Its last line."""
    indent: int
    """Columns in front of it, a tab counted up to the next multiple of 8."""
    word: bytes
    """Its first word, `@` for a decorator; empty where it begins with none."""
    is_opener: bool
    """Whether it ends with a colon."""


@dataclass(frozen=True, slots=True)
class Code:
    """Text that is ready for the running interpreter."""

    text: str
    """With as many lines as the text it was made from."""
    statements: tuple[Statement, ...]
    literals: tuple[_Literal, ...]
    """F-strings of `text` whose expressions are not in it, in order."""
    ends: dict[tuple[int, int], tuple[int, int]]
    """Line and column at which one of these ends in `text` → where it ends in the file, if elsewhere."""


@dataclass(slots=True)
class _Hole:
    """One replacement field of an f-string."""

    start: int
    end: int
    """Behind the expression, and behind its `=` where there is one."""
    shown: str
    """With a `=`: the text that is shown in front of the value."""
    value: ast.expr


@dataclass(frozen=True, slots=True)
class _Literal:
    """An f-string whose expressions stand apart."""

    line: int
    """From 1."""
    column: int
    holes: tuple[_Hole, ...]


_Edit = tuple[int, int, bytes]
"""Start and end in the text, and what stands there instead."""


@dataclass(slots=True)
class _Bracket:
    start: int
    star: tuple[int, int] | None
    """Where the star of the first item is."""
    is_generic: bool


@dataclass(slots=True)
class _Rewrite:
    """What is changed in a stretch of text."""

    edits: list[_Edit] = field(default_factory=list)
    literals: list[_Literal] = field(default_factory=list)

    def mark(self) -> tuple[int, int]:
        return len(self.edits), len(self.literals)

    def back_to(self, mark: tuple[int, int]) -> None:
        del self.edits[mark[0] :]
        del self.literals[mark[1] :]


class _Inner(NamedTuple):
    """A line that begins within brackets."""

    start: int
    mark: tuple[int, int]
    is_block: bool
    """Whether it may stand below the head of a block: the line in front ends with a colon."""


class _OpenStringError(Exception):
    """An f-string does not end."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position
        """How far it was read."""


def rewritten(text: bytes, cuts: Collection[int] = ()) -> Code:
    """Text for the running interpreter, with the lines and columns of the one given.

    No bracket is open across `cuts`, offsets of lines of a text without carriage returns.
    """
    return _Scanner(text.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), cuts).code()


def as_tree(code: Code) -> ast.Module:
    """Its syntax tree; raises what `ast.parse` raises."""
    tree = ast.parse(code.text)
    _put_back(tree, code.literals, code.ends)
    return tree


# Scanning
# ------------------------------------------------------------------------------------------------------------------


class _Scanner:
    def __init__(self, text: bytes, cuts: Collection[int]) -> None:
        self._cuts = cuts
        self._text = text if text.endswith(b"\n") else text + b"\n"
        self._lines = [0, *(results.end() for results in re.finditer(rb"\n", self._text))]
        self._now = _Rewrite()
        self._ends = dict[tuple[int, int], tuple[int, int]]()
        self._level = 0
        self._refused_until = 0
        """F-strings that begin in front of it are read like other strings: they have been tried."""
        self._budget = _BUDGET * len(self._text)
        self._generic = -1
        """Where a bracket of type parameters opens."""

    def code(self) -> Code:
        statements = tuple(self._statements())
        text = self._applied(0, len(self._text), self._now.edits)
        return Code(text.decode(), statements, tuple(self._now.literals), self._ends)

    def _statements(self) -> Iterator[Statement]:
        position = 0
        while position < len(self._text):
            first = _end(_INDENT, self._text, position)
            if self._text[first : first + 1] in (b"\n", b"#"):
                position = self._text.index(b"\n", first) + 1
                continue
            indent = _width(self._text[position:first])
            word = _word_at(self._text, first)
            position, is_opener = self._statement(first, indent)
            last = bisect_right(self._lines, position - 1) - 1
            yield Statement(self._line(first), last, indent, word, is_opener)

    def _statement(self, start: int, indent: int) -> tuple[int, bool]:
        """Where the next one begins, and whether this one ends with a colon."""
        text, brackets, position = self._text, list[_Bracket](), start
        lines, has_block = list[_Inner](), _word_at(text, start) in _HEADS
        previous, is_first = b"", True
        handler = _Handler() if text.startswith(b"except", start) else None
        while position < len(text):
            if is_first:
                position = self._soft(position)
            at = position
            kind, position = self._step(position, brackets)
            if kind == "newline":
                if not brackets or self._budget < 0:
                    return position, previous == b":"
                if position in self._cuts or _word_at(text, position) in _STATEMENTS:
                    break
                lines.append(_Inner(position, self._now.mark(), has_block and previous == b":"))
            elif kind != "blank":
                token = text[at:position]
                is_first = not brackets and token in (b":", b";")
                if handler is not None and not brackets:
                    handler.see(token, at, position)
                    if token == b":":
                        self._now.edits += handler.edits(text, at)
                        handler = None
                previous = token
        return self._behind_open(position, indent, lines)

    def _behind_open(self, position: int, indent: int, lines: Iterable[_Inner]) -> tuple[int, bool]:
        """Where to go on after a bracket that nobody closed: below the head of a block, or at the next line that is
        indented no further. Also whether it is the head of a block.
        """
        for inner in lines:
            first = _end(_INDENT, self._text, inner.start)
            char = self._text[first : first + 1]
            is_statement = char not in (b"\n", b"#", b"") and char not in _CLOSERS
            if inner.is_block or (is_statement and _width(self._text[inner.start : first]) <= indent):
                self._budget -= position - inner.start
                self._now.back_to(inner.mark)
                return inner.start, inner.is_block
        return position, False

    def _soft(self, position: int) -> int:
        """`type X = int` → `pass;X = int`, and `lazy import x` → `pass;import x`."""
        start = _end(_BLANKS, self._text, position)
        soft = _SOFT.match(self._text, start)
        if soft is None:
            return position
        self._now.edits.append((start, soft.end(), b"pass;"))
        if soft[0].startswith(b"type"):
            self._look_for_parameters(soft.end())
        return soft.end()

    def _look_for_parameters(self, position: int) -> None:
        results = _GENERIC.match(self._text, position)
        self._generic = results.end() if results else self._generic

    def _step(self, position: int, brackets: list[_Bracket]) -> tuple[str, int]:
        """Kind of the token there, and where the next one begins."""
        match = cast("re.Match[bytes]", _TOKEN.match(self._text, position))  # any character is a token
        kind, end = match.lastgroup or "", match.end()
        if kind == "string":
            end = self._string(match)
        elif kind == "open":
            star = _UNPACKED.match(self._text, end)
            brackets.append(_Bracket(position, star.span(1) if star else None, position == self._generic))
        elif kind == "close" and brackets:
            bracket = brackets.pop()
            if bracket.is_generic:
                edits = self._now.edits
                while edits and edits[-1][0] > bracket.start:
                    edits.pop()
                edits.append((bracket.start, end, _blanked(self._text[bracket.start : end])))
        elif kind == "word":
            if match[0] in (b"def", b"class"):
                self._look_for_parameters(end)
            elif match[0] == b"for" and brackets and brackets[-1].star:
                start, behind = brackets[-1].star
                self._now.edits.append((start, behind, b"0:" if behind - start == 2 else b" "))
                brackets[-1].star = None
        elif match[0] == b"," and brackets:
            brackets[-1].star = None
        return kind, end

    # Strings

    def _string(self, match: re.Match[bytes]) -> int:
        """Where it ends; the end of the line for one that nobody closed."""
        prefix, start = match["prefix"].lower(), match.start("string")
        if (b"f" in prefix or b"t" in prefix) and start >= self._refused_until:
            mark = self._now.mark()
            try:
                return self._f_string(start, match.end(), prefix, match["quote"])
            except _OpenStringError as error:
                if self._level:
                    raise
                self._now.back_to(mark)
                self._refused_until = error.position
        closed = _ENDS[match["quote"]].match(self._text, match.end())
        if closed is not None:
            return closed.end()
        if self._level:
            raise _OpenStringError(match.end())
        return self._text.index(b"\n", match.end())

    def _f_string(self, start: int, body: int, prefix: bytes, quote: bytes) -> int:
        if self._level == _MAX_LEVELS:
            raise _OpenStringError(start)
        outer, level = self._now, self._level
        position, parts, n_specs = body, _PARTS[quote, b"r" in prefix], 0
        holes, is_read = list[_Hole](), True
        self._level += 1
        try:
            while True:
                results = parts.search(self._text, position)
                if results is None or (results[0] == b"\n" and len(quote) == 1) or (results[0] == quote and n_specs):
                    raise _OpenStringError(len(self._text) if results is None else results.end())
                position = results.end()
                if results[0] == quote:
                    break
                if results[0] == b"{":
                    if not n_specs and self._text.startswith(b"{", position):
                        position += 1
                        continue
                    self._now = inside = _Rewrite()
                    position, hole, has_spec = self._hole(position, inside)
                    n_specs += has_spec
                    if HAS_NESTED_STRINGS:
                        outer.edits += inside.edits
                    elif hole is None:
                        is_read = False
                    else:
                        holes.append(hole)
                elif results[0] == b"}":
                    n_specs -= n_specs > 0
        finally:
            self._now, self._level = outer, level
        at = prefix.find(b"t")
        if HAS_NESTED_STRINGS:
            if at >= 0:
                self._now.edits.append((start + at, start + at + 1, b"f"))
        elif is_read:
            self._set_apart(start, position, at, holes)
        return position

    def _hole(self, start: int, inside: _Rewrite) -> tuple[int, _Hole | None, bool]:
        """Where its text goes on, the field if it can be read, and whether a format comes."""
        text, brackets, position, shown = self._text, list[_Bracket](), start, b""
        end = -1
        while True:
            if not brackets:
                char = text[position : position + 1]
                if char == b"=" and (debug := _DEBUG.match(text, position)):
                    end, position = position, debug.end()
                    shown = text[start:position]
                    break
                if char in (b"}", b":") or (char == b"!" and not text.startswith(b"!=", position)):
                    break
            if position >= len(text):
                raise _OpenStringError(position)
            position = self._step(position, brackets)[1]
        expression, behind = (start, end if end >= 0 else position), position
        if conversion := _CONVERSION.match(text, position):
            position = conversion.end()
        if text[position : position + 1] not in (b"}", b":"):
            raise _OpenStringError(position)
        hole, has_spec = None, text.startswith(b":", position)
        if not HAS_NESTED_STRINGS and (value := self._expression(*expression, inside)) is not None:
            hole = _Hole(start, behind, shown.decode(), value)
        return position + 1, hole, has_spec

    def _expression(self, start: int, end: int, inside: _Rewrite) -> ast.expr | None:
        """A tree with its place in the text; None for what is no expression."""
        text = self._applied(start, end, inside.edits).decode()
        try:
            tree = ast.parse(f"({text}\n)", mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
        line, column = self._place(start)
        for node in ast.walk(tree):
            if isinstance(node, ast.expr | ast.arg | ast.keyword):
                if node.lineno == 1:
                    node.col_offset += column - 1
                if node.end_lineno == 1 and node.end_col_offset is not None:
                    node.end_col_offset += column - 1
                node.lineno += line - 1
                node.end_lineno = (node.end_lineno or 1) + line - 1
        _put_back(tree, inside.literals, self._ends)
        return tree.body

    def _set_apart(self, start: int, end: int, t: int, holes: list[_Hole]) -> None:
        """Put a name of underscores for each expression; a line end among them comes behind the string."""
        if not holes and t < 0:
            return
        text, pieces, cursor, n_lines = self._text, list[bytes](), start, 0
        if t >= 0:
            pieces += [text[start : start + t], b"f"]
            cursor = start + t + 1
        for hole in holes:
            lines = text.count(b"\n", hole.start, hole.end)
            pieces += [text[cursor : hole.start], b"_" * max(1, hole.end - hole.start - lines)]
            cursor, n_lines = hole.end, n_lines + lines
        pieces.append(text[cursor:end])
        literal = b"".join(pieces)
        (line, column), (last, behind) = self._place(start), self._place(end)
        if n_lines:
            width = len(literal) - literal.rfind(b"\n") - 1 + (0 if b"\n" in literal else column)
            self._ends[last - n_lines, width] = last, behind
            literal += b"\\\n" * n_lines + b" " * behind
        self._now.edits.append((start, end, literal))
        self._now.literals.append(_Literal(line, column, tuple(holes)))

    # Places

    def _line(self, position: int) -> int:
        """From 0."""
        return bisect_right(self._lines, position) - 1

    def _place(self, position: int) -> tuple[int, int]:
        """Line from 1, column from 0, as syntax trees count."""
        line = self._line(position)
        return line + 1, position - self._lines[line]

    def _applied(self, start: int, end: int, edits: Iterable[_Edit]) -> bytes:
        pieces, cursor = list[bytes](), start
        for first, behind, new in sorted(edits):
            pieces += [self._text[cursor:first], new]
            cursor = behind
        return b"".join([*pieces, self._text[cursor:end]])


@dataclass(slots=True)
class _Handler:
    """`except A, B:` → `except (A, B):`."""

    start: int = -1
    """Behind `except`, or `except*`."""
    has_comma: bool = False
    has_name: bool = False

    def see(self, token: bytes, start: int, end: int) -> None:
        if self.start < 0 or (token == b"*" and not self.has_comma and self.start == start):
            self.start = end
        self.has_comma |= token == b","
        self.has_name |= token == b"as"

    def edits(self, text: bytes, colon: int) -> Iterator[_Edit]:
        """The blank in front and the one behind make room, so that no column moves; none where there is no room."""
        has_room = text.startswith(b" ", self.start) and text[colon + 1 : colon + 2] in (b" ", b"\n")
        if self.has_comma and not self.has_name and has_room:
            yield self.start, self.start + 1, b"("
            yield colon, colon + 1 + text.startswith(b" ", colon + 1), b"):"


def _word_at(text: bytes, position: int) -> bytes:
    """The first word of a line."""
    word = _WORD.match(text, _end(_INDENT, text, position))
    return word[0] if word else b""


def _end(pattern: re.Pattern[bytes], text: bytes, position: int) -> int:
    """Behind what fits there."""
    results = pattern.match(text, position)
    return results.end() if results else position


def _width(blanks: bytes) -> int:
    """Columns of an indent, as the interpreter counts them: a form feed begins anew."""
    return len(blanks.rpartition(b"\f")[2].expandtabs(8))


def _blanked(text: bytes) -> bytes:
    """Blanks of the same size, on one logical line."""
    return re.sub(rb"[^\n]", b" ", text).replace(b"\n", b"\\\n")


# Putting together
# ------------------------------------------------------------------------------------------------------------------


def _put_back(tree: ast.AST, literals: Iterable[_Literal], ends: dict[tuple[int, int], tuple[int, int]]) -> None:
    """Put the expressions of f-strings where names of underscores stand."""
    kept = sorted(literals, key=lambda literal: (literal.line, literal.column))
    if not kept:
        return
    starts = [(literal.line, literal.column) for literal in kept]
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):
            first = bisect_left(starts, (node.lineno, node.col_offset))
            last = bisect_left(starts, (node.end_lineno or 0, node.end_col_offset or 0))
            holes = iter([hole for literal in kept[first:last] for hole in literal.holes])
            _fill(node, holes)
        else:
            waiting += ast.iter_child_nodes(node)
        if ends and isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg | ast.withitem):
            at = getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
            if at in ends:
                node.end_lineno, node.end_col_offset = ends[at]  # type: ignore[union-attr]


def _fill(string: ast.JoinedStr, holes: Iterator[_Hole]) -> None:
    values = list[ast.expr]()
    for value in string.values:
        if isinstance(value, ast.FormattedValue) and (hole := next(holes, None)) is not None:
            value.value = hole.value
            if hole.shown:
                if value.conversion == -1 and value.format_spec is None:
                    value.conversion = ord("r")
                _show(values, hole.shown, value)
            if isinstance(value.format_spec, ast.JoinedStr):
                _fill(value.format_spec, holes)
        values.append(value)
    string.values = values


def _show(values: list[ast.expr], shown: str, beside: ast.expr) -> None:
    """The text that `{x=}` shows belongs to the text in front."""
    before = values[-1] if values else None
    if isinstance(before, ast.Constant) and isinstance(before.value, str):
        before.value += shown
    else:
        values.append(ast.copy_location(ast.Constant(shown), beside))
