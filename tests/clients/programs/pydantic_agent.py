"""Pydantic AI's agent: `pydantic_agent.py MODEL PROMPT…`, with a model such as openai:gpt-5.5."""

import sys

from pydantic_ai import Agent

agent = Agent(sys.argv[1], instructions="You read notes. " * 300)


@agent.tool_plain
def look(page: int) -> str:
    """Return a page of the notes."""
    return f"Page {page}. " + "The tide was measured at the pier at noon. " * 40


history = []
for prompt in sys.argv[2:]:
    result = agent.run_sync(prompt, message_history=history)
    history = result.all_messages()
    print(result.output)
