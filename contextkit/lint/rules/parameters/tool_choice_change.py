"""tool-choice-change: the choice of tools changes, and with it the key of the messages.

## What it does
Finds a `tool_choice`, or a `disable_parallel_tool_use`, that differs from the call before.

## Why it costs you
On Claude it belongs to the level of the messages: tools and system are still read, the history is computed again. Some open templates
(Kimi K3) print it into the prompt. On OpenAI `none` and the list of allowed tools are neutral. It is still cheaper than taking the
tools away, which loses all three levels: one project measured 632 tokens read and 23,943 written after keeping the tools and setting
the choice, where before nothing was read.

## Example
    choice = {"type": "tool", "name": "finish"} if step == LAST else {"type": "auto"}
    client.messages.create(model=MODEL, max_tokens=4096, tools=TOOLS, tool_choice=choice, messages=history)

## Use instead
Leave the choice alone and say it in the newest message; the newest Claude models refuse a forced choice anyway:

    context.user("Finish now: call `finish` with your result.")
    client.messages.create(**context.request())

## Detected by
- source: a condition on the turn, or the user's text, decides `tool_choice` of a call that is not OpenAI's, or whether calls may be
  parallel.
- requests: the choice differs on a Claude model that had its messages cached and has the same tools; on OpenAI only
  `parallel_tool_calls`.
- guard: the same, before it is sent.
- provider: Anthropic has no word of its own for it (`unavailable` or `messages_changed`).

## References
- https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-use-with-prompt-caching
"""

from __future__ import annotations

import ast
import re

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import last_name
from contextkit.lint.rules.chosen import chosen
from contextkit.lint.rules.settings import differs, had_cached, has_tool_change, is_claude
from contextkit.lint.source.rule import Flow, View

_PATHS = {
    "anthropic_messages": ("tool_choice",),
    "bedrock_converse": ("toolConfig.toolChoice",),
    "openai_chat": ("parallel_tool_calls",),
    "openai_responses": ("parallel_tool_calls",),
}
"""OpenAI's own `tool_choice` is in no key, whatever it says; whether calls may be parallel is in it."""
_OPENAI = re.compile(r"(?:completions|responses)\.(?:create|parse|stream)$")
_METHODS = frozenset({"create", "parse", "stream"})
_UNSAID: tuple[Json, ...] = (None, {"type": "auto"}, {"auto": {}}, True)


def _is_neutral(name: str, node: ast.AST, view: View) -> bool:
    """OpenAI's own choice of tools, given to one of its calls, or stored in a function that makes one."""
    if name != "tool_choice":
        return False
    if isinstance(node, ast.Call) and last_name(node.func) in _METHODS:
        return bool(_OPENAI.search(view.dotted(node)))
    function = view.function()
    return function is not None and any(_OPENAI.search(view.dotted(call)) for call in view.nodes(function, ast.Call))


def _choice(value: Json) -> Json:
    """Without what is the default anyway."""
    if isinstance(value, dict) and value.get("disable_parallel_tool_use") is False:
        value = {name: item for name, item in value.items() if name != "disable_parallel_tool_use"}
    return None if any(value == unsaid and type(value) is type(unsaid) for unsaid in _UNSAID) else value


def _changed(step: Step) -> Evidence | None:
    found = differs(step, _PATHS, _choice)
    if found is None or has_tool_change(step):
        return None
    if not (had_cached(step, "messages") if is_claude(step.after) else step.after.row.provider == "openai"):
        return None
    what = "whether tools may be called in parallel" if found.path == "parallel_tool_calls" else "the choice of tools"
    return found.evidence(f"{what} changed between calls {step.turn - 1} and {step.turn}")


HAZARD = Hazard(
    "CKP04",
    "tool-choice-change",
    "D",
    "warning",
    source=(
        *chosen(
            ("tool_choice", "toolChoice", "parallel_tool_calls"),
            "the choice of tools is set per call by {source}",
            _is_neutral,
        ),
        Flow(
            ("user", "choice"), ("tool_choice",), "the choice of tools is set per call by {source}", in_loop_only=True
        ),
    ),
    requests=(RequestRule("step", _changed),),
)
