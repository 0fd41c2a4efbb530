"""A growing conversation that nobody marks, through libraries."""

import litellm
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage

MODEL = "anthropic/claude-sonnet-5-5"
llm = ChatAnthropic(model="claude-sonnet-5-5", max_tokens=2000)


def agent(messages, tools, run):
    for _ in range(30):
        reply = litellm.completion(model=MODEL, messages=messages, tools=tools)  # expect: CKB01
        messages.append(reply.choices[0].message.model_dump())
        messages.extend(run(reply))


def agent_on_another(messages, tools, run):
    for _ in range(30):
        reply = litellm.completion(model="gpt-5.5", messages=messages, tools=tools)
        messages.append(reply.choices[0].message.model_dump())
        messages.extend(run(reply))


def title_each(texts):
    for text in texts:
        messages = [{"role": "user", "content": f"A title for: {text}"}]
        yield litellm.completion(model=MODEL, messages=messages)


class Bot:
    def __init__(self):
        self.messages = []

    def ask(self, text):
        self.messages.append(HumanMessage(text))
        reply = llm.invoke(self.messages)
        self.messages.append(reply)
        return reply.content

    def ask_once(self, text):
        return llm.invoke([HumanMessage(text)]).content
