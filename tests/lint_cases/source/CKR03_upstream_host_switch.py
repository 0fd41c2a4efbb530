"""An aggregator without a pinned route, and a provider of its own."""

import litellm
import openai
import requests
from langchain_openai import ChatOpenAI

DIRECT = "https://api.deepseek.com/v1"
ADDRESS = "https://openrouter.ai/api/v1"


def aggregated(history):
    client = openai.OpenAI(base_url="https://openrouter.ai/api/v1")  # expect: CKR03
    return client.chat.completions.create(model="deepseek/deepseek-v4-pro", messages=history)


def direct(history):
    client = openai.OpenAI(base_url="https://api.deepseek.com/v1")
    return client.chat.completions.create(model="deepseek-v4-pro", messages=history)


class Gateway:
    def __init__(self):
        self.client = openai.AsyncOpenAI(base_url=ADDRESS)  # expect: CKR03
        self.other = openai.AsyncOpenAI(base_url=DIRECT)

    async def ask(self, messages):
        return await self.client.chat.completions.create(model="moonshotai/kimi-k2", messages=messages)


def node(state):
    llm = ChatOpenAI(model="z-ai/glm-4.6", base_url=ADDRESS)  # expect: CKR03
    return {"messages": [llm.invoke(state["messages"])]}


def converse(messages):
    while True:
        reply = litellm.completion(model="openrouter/qwen/qwen3-coder", messages=messages)  # expect: CKR03
        messages.append(reply.choices[0].message)


def title(text):
    return litellm.completion(model="openrouter/qwen/qwen3-coder", messages=[{"role": "user", "content": text}])


def converse_directly(messages):
    return litellm.completion(model="deepseek/deepseek-chat", messages=messages)


def post(history):
    return requests.post(  # expect: CKR03
        "https://openrouter.ai/api/v1/chat/completions", timeout=60, json={"model": "deepseek/deepseek-chat", "messages": history}
    )


def post_one(text):
    body = {"model": "deepseek/deepseek-chat", "messages": [{"role": "user", "content": text}]}
    return requests.post("https://openrouter.ai/api/v1/chat/completions", timeout=60, json=body)


def models():
    return requests.get("https://openrouter.ai/api/v1/models", timeout=10).json()


def node_of_others(state, **settings):
    llm = ChatOpenAI(base_url=ADDRESS, **settings)
    return {"messages": [llm.invoke(state["messages"])]}
