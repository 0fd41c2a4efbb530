"""Definitions a request body declared, joined with the functions that run them.

The body's own bytes stay: a function's signature may have changed since, and its definition must not move the prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import InvalidTool
from contextkit.tools.tool import Tool, Toolbox


def adopted(definitions: Sequence[Json], tools: Iterable[Any]) -> list[Tool]:
    """One tool a definition, in its order, run by the one of `tools` that has its name.

    Raises `InvalidTool` for a function the body does not declare: the model could not call it.
    """
    given = Toolbox.sorted(tools)  # found by name only: the order is the body's
    declared = [Tool.raw(definition) for definition in definitions]
    unknown = sorted(set(given.names) - {tool.name for tool in declared})
    if unknown:
        names = ", ".join(unknown)
        raise InvalidTool(
            f"{names}: not among the tools of this request; declare them there, or open an epoch with context.retool(...)"
        )
    return [_run_by(given[tool.name], tool) if tool.name in given else tool for tool in declared]


def _run_by(own: Tool, declared: Tool) -> Tool:
    """The declared tool, run by our own; one that is called with text fills our only parameter with it."""
    taken = list((own.parameters or {}).get("properties", {}))
    text = own.text_parameter or (taken[0] if declared.text_parameter and len(taken) == 1 else "")
    return replace(own, body=declared.body, text_parameter=text if declared.text_parameter else "")
