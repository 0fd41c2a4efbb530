"""The only breakpoint stands behind the first message, and results of tools pile up behind it."""

import anthropic
from parts import CLAUDE, GUIDE, REPORT, reply, text, tool, user


def test_answers():
    client, tools = anthropic.Anthropic(), [tool("read"), tool("list")]
    messages = [user([text("Why is the build slow?", marked=True)])]
    for number in range(4):
        client.messages.create(model=CLAUDE, max_tokens=100, system=GUIDE, tools=tools, messages=messages)
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"path": f"log{number}"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"{number}: {REPORT}"}
        messages += [reply([call]), user([result])]
