"""The Claude Agent SDK: hooks that note where its CLI writes transcripts, and a report of them.

It watches, and keeps nothing stable.

    transcripts = Transcripts()
    async for message in query(prompt="...", options=transcripts.watch(ClaudeAgentOptions(...))):
        ...
    print(transcripts.report())

Takes the options of a session, gives the same with hooks added. The CLI is a process of its own that builds every
request; hooks show what happens, never what is sent. So the causes are those a transcript can tell (a lifetime that
passed, another model, a compaction, a changed setting, the provider's own verdict), not a changed tool or system text:
for those, and for repairs, put `contextkit proxy` between, with `env={"ANTHROPIC_BASE_URL": …}` in the options. Tried
with claude-agent-sdk 0.2.186 and the CLI it brings.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from contextkit.bridges.hook import Reported, framework
from contextkit.errors import UnreadableLog
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger

EVENTS = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStop", "PreCompact", "Stop")
"""Hooks that are listened to: the first call of a session may be cut short, so each of them is told the path."""
PATHS = ("transcript_path", "agent_transcript_path")
"""What a hook is told, of the session and of a sub-agent that has ended."""


class Transcripts(Reported):
    """What one or more sessions wrote."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        """Their transcripts, in the order they were met."""
        self.compactions: list[str] = []
        """`auto` or `manual`, one for each time the CLI was about to rewrite a history."""

    def watch(self, options: Any = None) -> Any:
        """`options` with hooks added behind the caller's own; None for the SDK's defaults.

        Raises `MissingExtra` where claude-agent-sdk is not installed.
        """
        sdk = framework("claude_agent_sdk", "the bridge to the Claude Agent SDK", "claude-agent")
        given_options = sdk.ClaudeAgentOptions() if options is None else options
        hooks = {**(given_options.hooks or {})}
        for event in EVENTS:
            hooks[event] = [*hooks.get(event, ()), sdk.HookMatcher(hooks=[self._on_stop])]
        return replace(given_options, hooks=hooks)

    async def _on_stop(self, event: Any, tool_use: str | None, context: Any) -> dict[str, Any]:
        """Note what a hook was told; no opinion on what it asks."""
        for path in (Path(event[name]) for name in PATHS if event.get(name)):
            if path not in self.paths:
                self.paths.append(path)
        if event.get("hook_event_name") == "PreCompact":
            self.compactions.append(event["trigger"])
        return {}

    @property
    def ledger(self) -> Ledger:  # type: ignore[override]
        """Every call of their transcripts by now: bills, times, lanes; read anew each time.

        Raises `UnreadableLog` where a transcript cannot be read.
        """
        ledger, faults = Ledger(), Faults()
        for record in records_in([str(path) for path in self.paths if path.is_file() and path.stat().st_size], faults):
            ledger.append(record) if isinstance(record, ModelCall) else ledger.remark(record)
        if faults.is_incomplete:
            raise UnreadableLog("; ".join(map(str, faults.kept)))
        return ledger
