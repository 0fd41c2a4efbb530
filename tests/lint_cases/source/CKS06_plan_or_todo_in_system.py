"""A plan or a counter in front, and at the tail."""

import anthropic

client = anthropic.Anthropic()
CACHED = {"cache_control": {"type": "ephemeral"}}
INSTRUCTIONS = "You work step by step."


def step(state, messages):
    system = INSTRUCTIONS + "\n".join(f"- {todo}" for todo in state.todos)  # expect: CKS06
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages, **CACHED)


def step_at_the_tail(state, messages):
    messages.append({"role": "user", "content": "Still to do: " + "; ".join(state.todos)})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


def countdown(messages):
    for turn in range(20):  # expect: CKS06
        system = f"{INSTRUCTIONS} This is turn {turn + 1} of 20."
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})


def spend(messages, budget):
    while budget > 0:
        system = f"{INSTRUCTIONS} You have {budget} tokens left."
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)
        budget -= reply.usage.output_tokens  # expect: CKS06
        messages.append({"role": "assistant", "content": reply.content})


class Counting:
    def __init__(self):
        self.messages, self.n_turns = [], 0

    def ask(self, text):
        self.n_turns += 1  # expect: CKS06
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self.system(), messages=self.messages)

    def system(self):
        return f"{INSTRUCTIONS} Turn {self.n_turns}."


def one_of_many(chapters):
    drafts = []
    for n, chapter in enumerate(chapters):  # each is a request of its own
        system = f"You write chapter {n}."
        asked = [{"role": "user", "content": chapter}]
        drafts.append(client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=asked))
    return drafts


def remembered(sources, messages):
    told = ""
    for n, source in enumerate(sources):  # of each other conversation
        told += f"From source {n}: {source}. "
        messages.append({"role": "user", "content": source})
    system = INSTRUCTIONS + told
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def limit(messages, limit):
    n = 0
    while n < limit:
        n += 1
        system = f"{INSTRUCTIONS} You have {limit} turns in all."
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})


def in_front(messages, todos):
    messages.insert(1, {"role": "user", "content": f"To do: {todos}"})  # expect: CKS06
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


def part_by_part(chunks):
    for n, chunk in enumerate(chunks):  # a conversation each
        messages = [{"role": "user", "content": chunk}]
        system = f"{INSTRUCTIONS} Summarise part {n + 1}."
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})


def nothing_to_count(messages):
    for () in enumerate(messages):
        messages.append({"role": "user", "content": "?"})
        client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


def work_off(plan, messages):
    while not plan.done:
        system = INSTRUCTIONS + " Tasks: " + "; ".join(f"{task.state} {task.title}" for task in plan.task_list)  # expect: CKS06
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=2048, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})


class Planned:
    def run(self, messages):
        while self.plan.is_open():
            system = INSTRUCTIONS + self.current_plan.render()  # expect: CKS06
            reply = client.messages.create(model="claude-opus-4-5", max_tokens=2048, system=system, messages=messages)
            messages.append({"role": "assistant", "content": reply.content})


def with_a_plan_made_before(plan, messages):
    system = INSTRUCTIONS + "; ".join(task.title for task in plan.tasks)
    while not plan.done:
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=2048, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})


def named_after_the_plan(plan, messages):
    while not plan.done:
        system = f"{INSTRUCTIONS} The plan {plan.title} is that of {plan.owner}."
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=2048, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
