"""The tools a model searches its memory with.

Takes an index, gives tools; their definitions belong into the head of a conversation from its first call on. Nothing
here raises at a query: what a model writes is a query, whatever it is.
"""

from __future__ import annotations

from contextkit.errors import InvalidCall, UsageError
from contextkit.memory.facts.fact import day
from contextkit.memory.recall.current import Current
from contextkit.memory.reference import passage
from contextkit.memory.search.document import SearchHit
from contextkit.memory.search.index import Index
from contextkit.tools.tool import Tool, tool

MOST_RESULTS = 20
"""A model that asks for more gets so many."""
MOST_BYTES = 16_000
"""Of one reading."""


def search_tools(index: Index | Current) -> list[Tool]:
    """`memory_search(query, limit)` and `memory_read(id, start_line, n_lines)` over `index`.

    >>> [tool.name for tool in search_tools(Index())]
    ['memory_search', 'memory_read']
    """

    def memory_search(query: str, limit: int = 8) -> str:
        """Search everything said and kept outside in this and earlier work: messages, tool results, files, pages.

        Args:
            query: Words that stand in what you look for: names, identifiers, error messages, in any order.
            limit: How many results to give at most.

        """
        found = index.search(query, max(1, min(limit, MOST_RESULTS)))
        return (
            "\n".join(map(result_line, found))
            or "Nothing is kept that holds any of these words. Try other words, or fewer."
        )

    def memory_read(id: str, start_line: int = 1, n_lines: int = 100) -> str:
        """Read lines of what memory_search found, by its id.

        Args:
            id: The id, as it was shown.
            start_line: The first line to read, counted from 1.
            n_lines: How many lines to read at most.

        """
        try:
            text = index.read(id.strip())
        except UsageError as unknown:
            raise InvalidCall(str(unknown)) from unknown
        return passage(text, start_line, n_lines, MOST_BYTES)

    return [tool(memory_search), tool(memory_read)]


def result_line(found: SearchHit) -> str:
    """A result in one line: what it is opened by, where, what it says there.

    >>> print(result_line(SearchHit("entry/12", 1.0, "the cache missed", "result", 0.0, 0, 16, 1, ("words",))))
    entry/12 line 1 (result, 1970-01-01): the cache missed
    """
    return f"{found.id} line {found.line} ({found.kind}, {day(found.at)}): {found.snippet}"
