"""The head and the tail of a content, chosen by its kind."""

from __future__ import annotations


def preview(content: bytes, kind: str, most_characters: int) -> str:
    """At most about `most_characters` of `content` that tell what it is."""
    text = content.decode("utf-8", "replace")
    half = most_characters // 2
    return text if len(text) <= most_characters else f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"
