"""Tools and a table of phases that the tests of masks share."""

from __future__ import annotations

from typing import Any

from contextkit import Phase, Phases

FAMILIES = {"browser": ("open", "read", "close"), "notes": ("read", "write"), "report": ("draft", "send")}
NAMES = tuple(f"{family}_{verb}" for family, verbs in FAMILIES.items() for verb in verbs)
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": f"{name}.", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}
    for name in NAMES
]


def phases(**more: Any) -> Phases:
    """Browse, then report; a pause and a free phase by hand. `more` are fields of the first phase."""
    return Phases(
        {
            "browse": Phase(
                allow=["browser_*", "notes_read"],
                then={"browser_close:ok": "report", "browser_read:error": "stuck"},
                **more,
            ),
            "stuck": Phase(allow=["browser_open"], require=True, then={"browser_open": "browse"}),
            "report": Phase(allow=["report_*", "notes_write"], then={"report_send": "done"}),
            "done": Phase(allow=[], by_hand=True),
            "free": Phase(by_hand=True),
        },
        start="browse",
    )
