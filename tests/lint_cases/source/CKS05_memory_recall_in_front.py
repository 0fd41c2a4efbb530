"""Recalled memories in front of the history, and behind it."""

import anthropic
import openai

client = anthropic.Anthropic()
gpt = openai.AsyncOpenAI()
INSTRUCTIONS = "You know your user."


def ask(memory, messages, question):
    hits = memory.search(question, limit=5)  # expect: CKS05
    system = INSTRUCTIONS + " What you know: " + "; ".join(hit.text for hit in hits)
    messages.append({"role": "user", "content": question})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_behind(memory, messages, question):
    hits = memory.search(question, limit=5)
    recalled = "; ".join(hit.text for hit in hits)
    messages.append({"role": "user", "content": f"{question} (from memory: {recalled})"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


def ask_with_all(memories, messages):
    system = INSTRUCTIONS + "; ".join(mem.get("content") for mem in memories)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_the_last(memory, messages):
    system = INSTRUCTIONS + memory.get(k=1)[0].text
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


async def ask_with_a_function(store, messages, question):
    hits = await query_memory(store, question, 5)  # expect: CKS05
    system = INSTRUCTIONS + " What you know: " + "; ".join(hits)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


async def ask_with_a_count(store, messages, question):
    hits = await query_memory(store, question, 5)
    print(len(hits))
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


def recall(name):
    return "You have a memory tool."


def ask_with_our_own(messages):
    system = INSTRUCTIONS + recall("tool")
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_by_key(memory, messages, message):
    hits = memory.search(query=message, limit=3)  # expect: CKS05
    system = INSTRUCTIONS + "; ".join(hit["memory"] for hit in hits["results"])
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_a_store(store, state, messages):
    hits = store.search(("memories", state["name"]), query=str(messages[-1]))  # expect: CKS05
    system = INSTRUCTIONS + "; ".join(hit.value["data"] for hit in hits)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_an_index(index, embed, messages, question):
    hits = index.query(vector=embed(question), top_k=5)  # expect: CKS05
    system = INSTRUCTIONS + "; ".join(hit["metadata"]["text"] for hit in hits["matches"])
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_a_collection(notes, messages, question):
    hits = notes.query(query_texts=[question], n_results=3)  # expect: CKS05
    system = INSTRUCTIONS + "; ".join(hits["documents"][0])
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_a_setting(store, database, messages):
    settings = store.get("settings")
    tone = database.query("select tone from tones limit 1")["data"]
    system = f"{INSTRUCTIONS} {settings['tone']} {tone}"
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class Companion:
    def __init__(self, memory):
        self.memory = memory
        self.messages = []
        self.profile = memory.search("who the user is", limit=20)

    async def ask(self, text):
        found = await self.memory.asearch(text)  # expect: CKS05
        self.messages.append({"role": "user", "content": text})
        head = {"role": "system", "content": "{}\nYou remember:\n{}".format(INSTRUCTIONS, "\n".join(map(str, found)))}
        return await gpt.chat.completions.create(model="gpt-5", messages=[head] + self.messages)

    def ask_with_the_profile(self, text):
        self.messages.append({"role": "user", "content": text})
        system = f"{INSTRUCTIONS} {self.profile}"
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=self.messages)


def ask_with_a_first_message(retriever, history, question):
    found = retriever.get_relevant_documents(question)  # expect: CKS05
    context = {"role": "user", "content": "Documents:\n" + "\n\n".join(one.page_content for one in found)}
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=[context, *history])
