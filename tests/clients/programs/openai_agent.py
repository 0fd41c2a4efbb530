"""The OpenAI Agents SDK: `openai_agent.py MODEL PROMPT…`."""

import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled


@function_tool
def look(page: int) -> str:
    """Return a page of the notes."""
    return f"Page {page}. " + "The tide was measured at the pier at noon. " * 40


set_tracing_disabled(True)
agent, items = Agent(name="reader", instructions="You read notes. " * 300, model=sys.argv[1], tools=[look]), []
for prompt in sys.argv[2:]:
    result = Runner.run_sync(agent, [*items, {"role": "user", "content": prompt}])
    items = result.to_input_list()
    print(result.final_output)
