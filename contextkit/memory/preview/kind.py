"""What sort of content some bytes are, as far as a preview is concerned.

Takes bytes and what is said of them, gives a word. Looks at the first bytes only: a wrong guess costs a worse preview,
never content.
"""

from __future__ import annotations

import re
from itertools import pairwise

from contextkit.memory.preview.outline import HEADING, plain_line, signatures, unfenced

_HEAD = 4_096
"""Bytes looked at."""
_MEDIA = {
    "application/json": "json",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/markdown": "markdown",
}
_MAGIC = (
    (b"%PDF-", "pdf"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"RIFF", "image"),
)
_HTML = re.compile(
    rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_JSON = re.compile(rb'\s*(\{\s*("|\})|\[\s*(["{\[\]\d-]|true|false|null))')
_IMPORT = re.compile(
    r"\s*(?:import\s|from\s+\S+\s+import\b|#include\b|package\s+[\w.]+;?$|using\s+[\w.]+;|use\s+\w+::|require\(|#!/)"
)
_CODE_LINE = re.compile(r".*[{};,(:\[\])]\s*$|\s*(?:#|//|/?\*|--|@\w|return\b|if\b|for\b|\w+\s*=\s)")


def kind_of(content: bytes, media_type: str | None = None, *, is_error: bool = False) -> str:
    """Return text, error, json, csv, html, markdown, code, image, pdf or binary.

    >>> kind_of(b'{"rows": []}'), kind_of(b"name,price\\nA,1\\nB,2\\n"), kind_of(b"Hello, world"), kind_of(b"\\x00\\x01")
    ('json', 'csv', 'text', 'binary')
    """
    if is_error:
        return "error"
    declared = (media_type or "").split(";")[0].strip().lower()
    head = content[:_HEAD]
    magic = next((kind for start, kind in _MAGIC if head.startswith(start)), None)
    if magic or declared in _MEDIA or declared.startswith("image/"):
        return magic or _MEDIA.get(declared, "image")
    if b"\0" in head:
        return "binary"
    if _HTML.match(head):
        return "html"
    if _JSON.match(head):
        return "json"
    lines = head.decode("utf-8", "replace").splitlines()
    if _is_code(lines):
        return "code"
    if _is_table(head):
        return "csv"
    return "markdown" if _is_markdown(lines) else "text"


def _is_table(head: bytes) -> bool:
    """Whether the first lines have one separator the same number of times; the last one seen may be cut."""
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()][:10]
    return len(lines) >= 2 and any(
        len({line.count(mark) for line in lines}) == 1 and lines[0].count(mark) for mark in (b",", b";", b"\t")
    )


def _is_code(lines: list[str]) -> bool:
    """Whether these lines are source code: one declares or imports something, and half of them look the part."""
    plain = unfenced((number, plain_line(line)) for number, line in enumerate(lines))
    written = [line for _, line in plain if line.strip()]
    is_strong = any(map(_IMPORT.match, written)) or bool(signatures(written))
    n_code = sum(1 for line in written if _CODE_LINE.match(line) or _IMPORT.match(line))
    return len(written) >= 3 and is_strong and 2 * n_code >= len(written)


def _is_markdown(lines: list[str]) -> bool:
    """Whether these lines are Markdown: a heading with an empty line behind it."""
    return any(HEADING.fullmatch(plain_line(line)) and not plain_line(after).strip() for line, after in pairwise(lines))
