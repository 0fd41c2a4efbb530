"""The body of a request whose beginning the server has: its fields, its tools, and the segments from one on.

Takes a layout and where to begin, gives bytes; what is copied is what is sent, however long the conversation is.
"""

from __future__ import annotations

from contextkit.layout.layout import Layout
from contextkit.layout.segment import LEVELS


def tail(layout: Layout, start: int, params: bytes) -> bytes:
    """`params` is the JSON object of everything that is not a segment.

    Segment `start` opens a message, and none of its level is before it.

    Tools are sent each time: the server carries over what was said, nothing else.
    """
    track = layout.track
    kept = Layout(track, layout.n, tuple(mark for mark in layout.breakpoints if mark.segment >= start))
    opening = track.grammar.bracket(LEVELS[track.levels[start]])[0]
    behind = (
        track.ends[start - 1] + len(track.closers[start - 1]) + 1
    )  # the bracket that closes the message before, and a comma
    fields = [params[1:-1], _tools(layout), opening + b"".join(kept.slices(behind))]
    return b"{%b}" % b",".join(field for field in fields if field)


def _tools(layout: Layout) -> bytes:
    track = layout.track
    n = min(track.level_ends[0], layout.n)
    return (
        bytes(track.wire[: track.ends[n - 1]]) + track.closers[n - 1] + track.grammar.bracket("tools")[1] if n else b""
    )
