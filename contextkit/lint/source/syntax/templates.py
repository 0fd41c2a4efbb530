"""What is filled into system messages: the places of LangChain's templates.

Takes a parsed file, gives names; knows nothing of what is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import is_system_role, last_name, walk

_PLACE = re.compile(r"(?<!\{)\{(\w+)\}")


def places_in_system(tree: ast.Module, source: bytes) -> frozenset[str]:
    """`{"time"}` for a template of `("system", "It is {time}.")`.

    >>> text = "ChatPromptTemplate.from_messages([('system', 'It is {time}. {{no}}'), ('human', '{question}')])"
    >>> places_in_system(ast.parse(text), text.encode())
    frozenset({'time'})
    """
    if b"from_messages" not in source and b"SystemMessagePromptTemplate" not in source:
        return frozenset()
    stored = {last_name(part.targets[0]): part.value for part in tree.body if type(part) is ast.Assign}
    texts = (stored.get(last_name(text), text) for text in _system_texts(tree))
    parts = (part.value for text in texts for part in walk(text) if type(part) is ast.Constant)
    return frozenset(place for part in parts if isinstance(part, str) for place in _PLACE.findall(part))


def _system_texts(tree: ast.Module) -> Iterator[ast.expr]:
    for part in walk(tree):
        if type(part) is ast.Tuple and len(part.elts) == 2 and is_system_role(part.elts[0]):
            yield part.elts[1]
        elif (
            type(part) is ast.Call
            and type(part.func) is ast.Attribute
            and last_name(part.func.value) == "SystemMessagePromptTemplate"
        ):
            yield from part.args[:1] or [given.value for given in part.keywords if given.arg == "template"]
