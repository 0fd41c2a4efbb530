"""catalogue-in-tool-description: a list of skills, agents or models is rendered into one tool's description.

## What it does
A tool such as `use_skill` or `spawn_agent` lists in its description what can be passed to it. Installing a skill,
reloading a folder or adding an agent edits that text, and with it the definition.

## Why it costs you
The list changes rarely, but when it does, the whole prompt is behind it: on Anthropic tools, system and messages are
written again. Hot reload makes it frequent, for instance when the model itself writes a skill in the middle of its
run. Anthropic's documentation warns of the same effect for the skills of a container.

## Example
    skills = load_skills(folder)
    listing = ", ".join(skill.name for skill in skills)
    tools = [{"name": "use_skill", "description": "Load a skill. Known: " + listing, "input_schema": NAME}]
    client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Keep the description constant and announce the list in the conversation, later only what came and went:

    tools = [{"name": "use_skill", "description": "Load a skill by name; the known ones are announced.", "input_schema": NAME}]
    messages.append({"role": "user", "content": "New skill: " + ", ".join(sorted(new))})

With contextkit: `context.notice("New skill: changelog")`, written once and never moved.

## Detected by
- source: names of skills, agents or models joined into a `description` where requests are made.
- requests: one definition's text differs by entries of a list put in or taken out.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/tintinweb/pi-subagents/issues/91
- https://github.com/gpambrozio/ClaudeDocs (docs change log: changing the Skills list of a container breaks the cache)
"""

from __future__ import annotations

import orjson

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.shapes import differing_strings, paired
from contextkit.lint.rules.toolsets import list_edit
from contextkit.lint.source.rule import Flow


def _entry(step: Step, change: Change) -> Evidence | None:
    """One definition whose text gained or lost entries of a list."""
    pairs = paired(change) if change.level == "tools" else []
    if len(pairs) != 1 or pairs[0][0].role != pairs[0][1].role:
        return None
    texts = differing_strings(*(orjson.loads(block.body) for block in pairs[0])) or []
    edits = [list_edit(*pair) for pair in texts]
    if not edits or not all(came or went for came, went in edits):
        return None
    came, went = ([item for edit in edits for item in edit[side]] for side in (0, 1))
    what = [f"{came[0][:40]!r} came" if came else "", f"{went[0][:40]!r} went" if went else ""]
    return Evidence(f"a list in the description of {pairs[0][1].role} changed: {', '.join(filter(None, what))}")


HAZARD = Hazard(
    "CKT09",
    "catalogue-in-tool-description",
    "B",
    "warning",
    source=(
        Flow(
            ("listing",),
            ("tool",),
            "{source} stands in a tool's description and changes it with every entry",
            in_loop_only=True,
        ),
    ),
    requests=(RequestRule("change", _entry, 22),),
    confirmed_by=("tools_changed",),
)
