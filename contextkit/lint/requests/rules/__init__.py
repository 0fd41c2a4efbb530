"""The rules of the request detector, by the code of their hazard.

Each module has the rules of one level; the functions return evidence or nothing and know no other level.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.lint.requests.rule import RequestRule
from contextkit.lint.requests.rules import (
    accounting,
    breakpoints,
    engine,
    lifetime,
    messages,
    parameters,
    routing,
    system,
    tools,
)

RULES: Mapping[str, tuple[RequestRule, ...]] = {
    code: rules
    for level in (tools, system, messages, breakpoints, parameters, routing, lifetime, engine, accounting)
    for code, rules in level.RULES.items()
}
"""Code → its rules, of all levels."""
