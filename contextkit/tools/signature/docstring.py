"""What a docstring tells a model: what the function does, and what each parameter is.

Takes a docstring in Google, NumPy or Sphinx style, gives the text before its first section and one text per parameter;
knows nothing of functions or schemas. The parser is our own because its output stands in every request: another
library's release must not move it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_PARAMETERS = "Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters"
_OTHERS = "Returns?|Yields?|Raises|Warns|Receives|Except|Exceptions"
_GOOGLE = re.compile(rf"(?:(?P<parameters>{_PARAMETERS})|{_OTHERS}):\s*")
"""A Google heading, alone on a line that is not indented."""
_GOOGLE_ITEM = re.compile(r"\*{0,2}(?P<names>\w+)(?:\s*\(.*?\))?\s*:(?:\s+(?P<text>.*))?")
"""`name (type): text`."""
_NUMPY = re.compile(rf"(?:(?P<parameters>{_PARAMETERS})|{_OTHERS})\s*")
"""A NumPy heading, underlined by the line after it."""
_NUMPY_ITEM = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)(?:\s*:.*)?")
"""`name : type` or `one, two : type`; the text stands below, indented."""
_UNDERLINE = re.compile(r"\s*-{3,}\s*")
_SPHINX = re.compile(
    r":(?:(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*?\s)?\*{0,2}(?P<names>\w+)"
    r"|(?:type|returns?|rtype|yields?|ytype|raises?|except|exception)\b[^:]*):(?:\s+(?P<text>.*))?"
)
"""`:param type name: text`, or a field that is not about a parameter."""


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a docstring a model is shown."""

    description: str
    """Summary and body, up to the first section about parameters, returns or errors."""
    parameters: dict[str, str]
    """Parameter name → its text, line breaks kept."""


def read_docstring(text: str) -> Docstring:
    """The description and the parameter texts of a docstring.

    >>> read_docstring('''Search the web.
    ...
    ...     Args:
    ...         query (str): What to look for,
    ...             in plain words.
    ...     ''')
    Docstring(description='Search the web.', parameters={'query': 'What to look for,\\nin plain words.'})
    """
    lines = inspect.cleandoc(text).splitlines()
    description: list[str] = []
    for number, line in enumerate(lines):
        if _opens_section(lines, number):
            break
        description.append(line)
    return Docstring("\n".join(description).strip(), dict(_parameters(lines)))


def _opens_section(lines: list[str], number: int) -> bool:
    return bool(_GOOGLE.fullmatch(lines[number]) or _SPHINX.fullmatch(lines[number]) or _numpy_heading(lines, number))


def _numpy_heading(lines: list[str], number: int) -> re.Match[str] | None:
    is_underlined = number + 1 < len(lines) and _UNDERLINE.fullmatch(lines[number + 1])
    return _NUMPY.fullmatch(lines[number]) if is_underlined else None


def _parameters(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        if (heading := _numpy_heading(lines, number)) and heading["parameters"]:
            yield from _items(_until_heading(lines, number + 2), _NUMPY_ITEM)
        elif (heading := _GOOGLE.fullmatch(line)) and heading["parameters"]:
            yield from _items(
                inspect.cleandoc("\n" + "\n".join(_indented(lines[number + 1 :]))).splitlines(), _GOOGLE_ITEM
            )
        elif (field := _SPHINX.fullmatch(line)) and field["names"]:
            yield field["names"], _joined([field["text"] or "", *_until_blank(lines[number + 1 :])])


def _items(lines: Iterable[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Lines that are not indented open an item; the indented ones below belong to it."""
    names: list[str] = []
    texts: list[str] = []
    for line in [*lines, "end"]:
        if line and not line[0].isspace():
            yield from ((name, _joined(texts)) for name in names)
            item = pattern.fullmatch(line)
            names = re.findall(r"\w+", item["names"]) if item else []
            texts = [item.groupdict().get("text") or ""] if item else []
        else:
            texts.append(line)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line and not line[0].isspace():
            return
        yield line


def _until_heading(lines: list[str], start: int) -> Iterator[str]:
    """A NumPy section ends at the next line that is underlined, whatever its name."""
    for number in range(start, len(lines)):
        if number + 1 < len(lines) and lines[number] and _UNDERLINE.fullmatch(lines[number + 1]):
            return
        yield lines[number]


def _until_blank(lines: Iterable[str]) -> Iterator[str]:
    """The lines that continue a Sphinx field."""
    for line in lines:
        if not line.strip() or _SPHINX.fullmatch(line):
            return
        yield line


def _joined(lines: list[str]) -> str:
    """The first line as it stands, the others without their common indent."""
    return inspect.cleandoc("\n".join(lines)).strip()
