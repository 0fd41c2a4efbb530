"""LangChain's agent: `langchain_agent.py MODEL PROMPT…`, with a model such as anthropic:claude-sonnet-5-5."""

import sys

from langchain.agents import create_agent


def look(page: int) -> str:
    """Return a page of the notes."""
    return f"Page {page}. " + "The tide was measured at the pier at noon. " * 40


agent, messages = create_agent(sys.argv[1], tools=[look], system_prompt="You read notes. " * 300), []
for prompt in sys.argv[2:]:
    messages = agent.invoke({"messages": [*messages, {"role": "user", "content": prompt}]})["messages"]
    print(messages[-1].content)
