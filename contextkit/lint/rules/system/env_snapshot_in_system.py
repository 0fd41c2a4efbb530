"""env-snapshot-in-system: the working folder, git state or machine is rendered into the system prompt.

## What it does
A coding agent describes its surroundings in the system text: path, branch, `git status`, operating system, host name,
a listing of the folder, the size of the terminal. Often it is taken once per session, sometimes per call.

## Why it costs you
Taken once, the session itself is fine, but no other session, worktree or machine shares the system prompt, and a
fan-out of ten agents in ten folders writes it ten times at 1.25 times the input price. Taken per call, each commit or
edited file changes the system text and the conversation behind it is written again. Caches are shared within a
workspace on Anthropic, within an organisation on Bedrock: the sharing is there to be used.

## Example
    status = subprocess.run(["git", "status", "--short"], capture_output=True, text=True).stdout
    system = f"{INSTRUCTIONS} Folder: {os.getcwd()}. Platform: {platform.platform()}. Status: {status}"
    client.messages.create(model=MODEL, max_tokens=4096, system=system, messages=messages)

## Use instead
Keep the system text the same on every machine and put the surroundings into the first user message, taken once:

    surroundings = f"Folder: {os.getcwd()}. Platform: {platform.platform()}. Status at the start: {status}"
    messages = [{"role": "user", "content": [{"type": "text", "text": surroundings}, {"type": "text", "text": task}]}]

Claude's agent SDK has the flag `exclude_dynamic_sections` for this. With contextkit: a constant `system`, then
`context.notice(surroundings)` before the first `context.user(task)`.

## Detected by
- source: `os.getcwd`, a git process, `platform`, a folder's listing, the host name or the terminal's size that
  reaches the system text; but not at the very end of it, in an f-string handed over as it is or a block behind the
  last marker, where nothing that others could share follows.
- requests: the system text is equal within a session and differs between sessions only in a path, branch or machine.
- guard: a change within one conversation, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI), where it changes within a session.

## References
- https://github.com/can1357/oh-my-pi/issues/6963
- https://code.claude.com/docs/en/prompt-caching#cache-scope
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import GIT_LINE, PATH, Edited, between, edited, front_name, is_front
from contextkit.lint.rules.openings import Calls, Opening, openings
from contextkit.lint.rules.shapes import differs_only_in
from contextkit.lint.source.rule import Flow

_ENDS = re.compile(r"^\s*</[\w-]+>\s*$", re.MULTILINE)
"""A line that only ends a section: where the last line before it came or went, it is the first that differs."""
_SHARED = 0.5
"""Share of two system texts from which on one would read the other's, were it not for their surroundings."""


def _is_place(found: Edited) -> bool:
    """Whether all that differs tells where the program runs."""
    texts = [text for text in (_ENDS.sub("", found.was), _ENDS.sub("", found.now)) if text.strip()]
    is_path = differs_only_in(PATH, found.was, found.now) and all(map(PATH.search, texts))
    return bool(texts) and (is_path or found.is_about("place") or all(map(GIT_LINE.search, texts)))


def _moved(step: Step, change: Change) -> Evidence | None:
    if not is_front(change) or not _is_place(edited(change)):
        return None
    return Evidence(f"{front_name(change)} differs in what it says of the folder, the repository or the machine")


def _apart(calls: Calls) -> Iterator[Evidence]:
    """The first conversation whose system text differs from another's in nothing but its surroundings."""
    first: dict[tuple[str, ...], Opening] = {}
    for opening in openings(calls):
        other = first.setdefault(opening.kind, opening)
        found = between(other.text, opening.text)
        if other.text != opening.text and _is_place(found) and found.share > _SHARED:
            text = f"system text agrees with that of {other.name} but for the folder, the repository or the machine"
            yield Evidence(text, opening.path, found.was[:100], found.now[:100], opening.sent)
            return


HAZARD = Hazard(
    "CKS04",
    "env-snapshot-in-system",
    "A",
    "warning",
    source=(
        Flow(
            ("place",),
            ("system",),
            "{source} tells where the program runs and reaches {sink}: nothing behind it is shared",
        ),
        Flow(
            ("entries",),
            ("system",),
            "{source} lists what stands in a folder and reaches {sink}: each new file rewrites it",
        ),
    ),
    requests=(RequestRule("change", _moved, 26), RequestRule("session", _apart)),
    confirmed_by=("system_changed", "input_changed"),
)
