"""Three ways to build the same agent's requests, each with the real Anthropic client.

Takes a client, a workspace and the turns to make; gives nothing: the local provider keeps the bills.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from contextkit.canonical import canonical
from contextkit.cli.demos.model import attachments
from contextkit.cli.demos.workspace import Workspace
from contextkit.context import Context
from contextkit.providers.anthropic.messages import AnthropicMessages
from contextkit.tools.render import answer

SYSTEM = (
    "You are a careful engineer who reads a project before speaking about it. Use the tools to look at files; quote paths; say what you "
    "have not read. " + "Prefer small steps, and explain each in one sentence. " * 30
)
TASK = "Get to know this project and tell me how it is laid out."
MAX_TOKENS = 2048

Progress = Callable[[], None]


def careless(client: Any, model: str, workspace: Workspace, clock: Callable[[], float], progress: Progress) -> None:
    """A clock in the system prompt, tools in whatever order they come, history rebuilt with old results cut short."""
    tools = [_stock(tool.definition) for tool in workspace.tools()]
    said: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    turn = 0
    while said[-1]["role"] == "user":
        tools = tools[1:] + tools[:1]
        system = f"{SYSTEM}\nThe time is {datetime.fromtimestamp(clock(), UTC):%Y-%m-%d %H:%M:%S}."
        reply = client.messages.create(
            model=model,
            max_tokens=MAX_TOKENS,
            system=system,
            tools=tools,
            messages=_shortened(said),
            cache_control={"type": "ephemeral"},
        )
        turn += 1
        progress()
        _follow(said, reply, workspace)


def careful(client: Any, model: str, workspace: Workspace, clock: Callable[[], float], progress: Progress) -> None:
    """A list that is only appended to, a fixed head, and the provider's automatic breakpoint."""
    tools = [_stock(tool.definition) for tool in workspace.tools()]
    said: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    while said[-1]["role"] == "user":
        reply = client.messages.create(
            model=model,
            max_tokens=MAX_TOKENS,
            system=SYSTEM,
            tools=tools,
            messages=said,
            cache_control={"type": "ephemeral"},
        )
        progress()
        _follow(said, reply, workspace)


def with_contextkit(
    client: Any, model: str, workspace: Workspace, clock: Callable[[], float], progress: Progress
) -> None:
    """A `Context`."""
    context = Context(
        AnthropicMessages(model, max_tokens=MAX_TOKENS), system=SYSTEM, tools=workspace.tools(), clock=clock
    )
    context.user(TASK)
    has_attached = False
    while not (context.finished and has_attached):
        if context.finished:
            context.user(attachments(workspace))
            has_attached = True
        context.receive(context.request().send(client))
        progress()
        for call in context.calls:
            context.result(call, call.run())


def _follow(said: list[dict[str, Any]], reply: Any, workspace: Workspace) -> None:
    """Append the reply and what answers it; the user's second message comes when the model first stops to ask."""
    said.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
    tools = {tool.name: tool for tool in workspace.tools()}
    calls = [block for block in reply.content if block.type == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": call.id, **answer(_ran(tools[call.name], call.input))} for call in calls
    ]
    n_spoken = sum(message["role"] == "user" and not _is_results(message) for message in said)
    if results:
        said.append({"role": "user", "content": results})
    elif n_spoken == 1:
        said.append({"role": "user", "content": [{"type": "text", "text": text} for text in attachments(workspace)]})


def _ran(tool: Any, arguments: Any) -> object:
    try:
        return tool.run(arguments)
    except Exception as error:  # noqa: BLE001 - a tool's failure is an answer
        return error


def _is_results(message: dict[str, Any]) -> bool:
    return isinstance(message["content"], list) and message["content"][0]["type"] == "tool_result"


def _stock(definition: Any) -> Any:
    return {
        "name": definition["name"],
        "description": definition["description"],
        "input_schema": definition["parameters"],
    }


def _shortened(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """History rebuilt: every result but the last four is cut to its first 400 characters."""
    old = said[:-4]
    return [
        {**message, "content": list(map(_cut, message["content"]))} if _is_results(message) else message
        for message in old
    ] + said[-4:]


def _cut(block: dict[str, Any]) -> dict[str, Any]:
    text = block["content"][0]["text"]
    return {**block, "content": [{"type": "text", "text": text[:400]}]} if len(canonical(text)) > 400 else block
