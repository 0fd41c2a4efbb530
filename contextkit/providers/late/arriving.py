"""Whether tools can join a conversation, found out before its log says that they did.

Takes a provider, the definitions in the head and the body of a `tools` entry; raises, or says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from contextkit.canonical import Json, canonical
from contextkit.log.entry import Entry
from contextkit.providers.late.late_tools import LateTools
from contextkit.providers.late.mechanisms import BY_NAME, Asked, check_possible, is_direct, is_possible, searching
from contextkit.providers.provider import Provider
from contextkit.tools.late.search import catalogues
from contextkit.tools.mask import Permit
from contextkit.tools.toolbox import Toolbox


def can_join(provider: Provider, head: Sequence[Json]) -> bool:
    """Whether a tool can be announced behind this head."""
    return is_possible(_asked(provider), head)


def check_joining(provider: Provider, head: Sequence[Json], body: Json) -> None:
    """Say an announcement once before it is kept for good.

    Raises `UsageError` where nothing can be announced, `InvalidTool` for a tool this provider has no words for.
    """
    check_possible(_asked(provider), head)
    list(provider.pieces(Entry(0, "tools", canonical(body), 0.0, b"")))


def widened(permit: Permit | None, late: LateTools, provider: Provider, toolbox: Toolbox) -> Permit | None:
    """A permit that speaks too of tools that came late or are found now, where the model calls them by name, not
    through `call_tool`.
    """
    if permit is None:
        return None
    found = late.found(toolbox).values() if searching(_asked(provider)).calls == BY_NAME else ()
    joined = {tool.name: tool for tool in (*found, *(late.tools if is_direct(_asked(provider)) else ()))}
    apart = {*joined, *catalogues(toolbox)}
    held = [tool for tool in permit.toolbox if tool.name not in apart]
    if not joined and len(held) == len(permit.toolbox):
        return permit
    return permit.over(Toolbox([*held, *joined.values()]))


def _asked(provider: Provider) -> Asked:
    return Asked(provider.wire, provider.model, provider.betas)
