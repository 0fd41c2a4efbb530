"""Strands' agent: `strands_agent.py MODEL PROMPT…`, with a model such as anthropic:claude-sonnet-5-5 or openai:gpt-5.5."""

import sys

from strands import Agent, tool


@tool
def look(page: int) -> str:
    """Return a page of the notes."""
    return f"Page {page}. " + "The tide was measured at the pier at noon. " * 40


provider, name = sys.argv[1].split(":")
if provider == "anthropic":
    from strands.models.anthropic import AnthropicModel

    model = AnthropicModel(model_id=name, max_tokens=1_000)
else:
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(model_id=name)
agent = Agent(model=model, tools=[look], system_prompt="You read notes. " * 300, callback_handler=None)
for prompt in sys.argv[2:]:
    print(agent(prompt))
