"""The description of a tool says what it was used for last."""

import anthropic
from parts import CLAUDE, GUIDE, reply, text, tool, user


def test_answers():
    client, messages, last = anthropic.Anthropic(), [], "nothing yet"
    for path in ("setup.py", "main.py", "tests.py"):
        messages.append(user(f"What does {path} do?"))
        tools = [tool("list"), tool("read", f"Read a file. Last read: {last}. {GUIDE[:400]}")]
        system = [text(GUIDE, marked=True)]
        answer = client.messages.create(model=CLAUDE, max_tokens=100, system=system, tools=tools, messages=messages)
        messages.append(reply(answer.content[0].text))
        last = path
