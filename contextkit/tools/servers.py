"""The tools of an MCP server, and what became of them, as events: nothing here edits a prompt.

Takes an MCP session and its notifications; gives a toolbox, and then what is new, gone or different. Whether a
conversation takes a new tool in (`context.late_tools`), or opens an epoch (`context.retool`), is its own decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contextkit.errors import UsageError
from contextkit.tools.tool import Tool, Toolbox

_NOTICES = frozenset({"ToolListChangedNotification", "ToolsListChanged"})
"""Types that say so: `mcp.types` of the handshake revisions, and the event of `client.listen` from 2026-07-28 on."""


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """A server lists other tools than before."""

    added: tuple[Tool, ...]
    """Tools it did not list; `context.late_tools(event.added)` takes them in behind the prompt."""
    removed: tuple[str, ...]
    """Names it no longer lists. Their definitions stay where they are: a call is answered with the server's error."""
    changed: tuple[Tool, ...]
    """Tools with another definition now. What the conversation was told stays; a new one costs an epoch, or another
    name."""

    @classmethod
    def between(cls, before: Toolbox, after: Toolbox) -> ToolsChanged | None:
        """What changed, None where nothing did; the order of a list, or of keys, is no change.

        >>> event = ToolsChanged.between(Toolbox([{"name": "a"}, {"name": "b"}]), Toolbox([{"name": "c"}, {"name": "a"}]))
        >>> [tool.name for tool in event.added], event.removed, event.changed
        (['c'], ('b',), ())
        """
        after = after.declared_as(before.definitions())
        event = cls(
            tuple(tool for tool in after if tool.name not in before),
            tuple(name for name in before.names if name not in after),
            tuple(tool for tool in after if tool.name in before and before[tool.name].body != tool.body),
        )
        return event if event.added or event.removed or event.changed else None


class ServerTools:
    """The tools of one MCP server, and what becomes of them while its session is open.

    ```
    github = ServerTools(prefix="github_")
    async with mcp.Client(url, message_handler=github.notice) as client:
        context = Context(provider, tools=await github.read(client))
        …
        if event := await github.changes():
            context.late_tools(event.added)
    ```
    """

    __slots__ = ("_is_stale", "_session", "prefix", "toolbox")

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        """Put before every name, so that two servers' tools never have one."""
        self.toolbox: Toolbox | None = None
        """What was listed last; None before `read`."""
        self._session: Any = None
        self._is_stale = False

    async def read(self, session: Any) -> Toolbox:
        """All tools of the server `session` is open to; again after a reconnect, when those that it lists with other keys
        first keep the bytes they had. Raises as `Toolbox.from_mcp`.
        """
        self._is_stale = False
        listed = await Toolbox.from_mcp(session, prefix=self.prefix)
        self._session = session
        self.toolbox = listed if self.toolbox is None else listed.declared_as(self.toolbox.definitions())
        return self.toolbox

    async def notice(self, message: object) -> None:
        """The session's `message_handler`: remembers that the list has changed, asks nothing (a handler may not wait
        for its session).
        """
        self._is_stale = self._is_stale or type(getattr(message, "root", message)).__name__ in _NOTICES

    async def changes(self) -> ToolsChanged | None:
        """What became of the tools since they were listed last: listed again only when the server said so, None where
        nothing did.
        """
        if self.toolbox is None:
            raise UsageError("nothing was listed yet: await server.read(session) first")
        if not self._is_stale:
            return None
        before = self.toolbox
        return ToolsChanged.between(before, await self.read(self._session))
