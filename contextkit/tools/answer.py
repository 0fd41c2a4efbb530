"""What a tool gave, as the body of a result entry.

Takes any value or exception, gives parts and whether they are an error. Failures are kept for good: a model that sees what went wrong
does not repeat it.
"""

from __future__ import annotations

from contextkit.canonical import Json
from contextkit.tools.render import render_error, render_result


def answer(value: object) -> dict[str, Json]:
    """`content` and `is_error` of a result.

    >>> answer(ValueError("no such file"))
    {'content': [{'type': 'text', 'text': 'ValueError: no such file'}], 'is_error': True}
    """
    if isinstance(value, BaseException):
        return {"content": [{"type": "text", "text": render_error(value)}], "is_error": True}
    return {"content": render_result(value), "is_error": False}
