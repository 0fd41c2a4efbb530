"""Names the changes that a replay can make, and what each of them is.

A change by causes undoes misses: what their verdicts say was lost is read. The others are of time: another lifetime, or
a compaction before a pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from contextkit.ledger.verdict import Cause

LONGER, SHORTER, COMPACT = "longer-lifetime", "shorter-lifetime", "compact-first"
CURES: Mapping[str, frozenset[Cause]] = MappingProxyType(
    {
        "fixed-tools": frozenset({"tools_changed"}),
        "fixed-system": frozenset({"system_changed"}),
        "append-only": frozenset({"messages_changed"}),
        "fixed-settings": frozenset({"params_changed"}),
        "breakpoints": frozenset({"no_breakpoint", "breakpoint_place", "out_of_reach"}),
        "leader-first": frozenset({"cold_fan_out"}),
        "routing-key": frozenset({"other_server"}),
    }
)
"""Name of a change → the causes that it ends."""
TIMED: Mapping[str, frozenset[Cause]] = MappingProxyType(
    {LONGER: frozenset({"ttl_expired"}), SHORTER: frozenset(), COMPACT: frozenset({"cold_start"})}
)
"""Name of a change of time → the causes that it may end."""
CHANGES = (*TIMED, *CURES)
"""All names, in the order in which they are listed."""
MAIN, SUB_AGENTS = "main", "sub-agents"
"""Kinds of conversations that take a lifetime of their own: programs have a setting for each."""
