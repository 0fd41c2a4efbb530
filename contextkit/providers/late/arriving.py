"""Whether tools can join a conversation, found out before its log says that they did.

Takes a provider, the definitions in the head and the body of a `tools` entry; raises, or says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contextkit.canonical import Json, canonical
from contextkit.log.entry import Entry
from contextkit.providers.late.mechanisms import Asked, check_possible, is_direct, is_possible
from contextkit.providers.provider import Provider
from contextkit.tools.mask import Permit
from contextkit.tools.tool import Tool
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


def widened(permit: Permit | None, late: Iterable[Tool], provider: Provider) -> Permit | None:
    """A permit that speaks of late tools too, where the model calls them by name; behind the bridge they are calls of `call_tool`."""
    joined = {tool.name: tool for tool in late}
    if permit is None or not joined or not is_direct(_asked(provider)):
        return permit
    return Permit(permit.phases, Toolbox([*(tool for tool in permit.toolbox if tool.name not in joined), *joined.values()]))


def _asked(provider: Provider) -> Asked:
    return Asked(provider.wire, provider.model, provider.betas)
