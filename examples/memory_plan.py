"""A plan the model keeps with a tool, said again at the tail as it changes.

A change told once; a summary that begins a new epoch.

The model is the local provider, its replies written here.
"""

import tempfile

import anthropic
from provider import SYSTEM, asks, says

from contextkit import AnthropicMessages, Context, FileMemory, tool
from contextkit.canonical import parse
from contextkit.log.entry import DateChanged
from contextkit.memory import Memory, Recitation
from contextkit.server import LocalServer


@tool
def price(gpu: str) -> str:
    """What a GPU costs an hour."""
    return {"H200": "2.10 $", "B300": "3.40 $"}[gpu]


REPLIES = [
    asks(("todo", {"action": "add", "items": ["price of H200", "price of B300", "write the report"]})),
    asks(("price", {"gpu": "H200"})),
    asks(("todo", {"action": "done", "numbers": [1]}), ("price", {"gpu": "B300"})),
    asks(("todo", {"action": "done", "numbers": [2]})),
    says("Both prices are known; I can write now."),
]

with tempfile.TemporaryDirectory() as folder, LocalServer(REPLIES) as server:
    print("the local provider answers, with scripted replies")
    memory = Memory(FileMemory(folder), recitation=Recitation(every_replies=8))  # and whenever the list changes
    context = Context(
        AnthropicMessages("claude-sonnet-5-5", max_tokens=1_000), system=SYSTEM, tools=[price], memory=memory
    )
    with anthropic.Anthropic(base_url=server.url, api_key="any") as client:
        context.user("What do an H200 and a B300 cost an hour? Write me a report.")
        context.notice(DateChanged("2026-11-21"))
        context.notice(DateChanged("2026-11-21"))  # said already: nothing is appended
        while not context.finished:
            for call in context.calls:
                context.result(call, call.run())
            context.receive(client.messages.create(**context.request()))

        server.script([says("An H200 costs 2.10 $ an hour, a B300 3.40 $. The report is not written yet.")])
        side = context.summarising()  # the unchanged conversation and one instruction
        side.receive(client.messages.create(**side.request()))
        before = context.request().predicted.prompt
        epoch = context.compact(side)

    for entry in context.log:
        if entry.kind == "notice":
            print(f"told at entry {entry.sequence}: {parse(entry.body)['text'].splitlines()}")
    read = side.ledger[-1].usage
    print(
        f"the summary was asked for with {read.read:,} tokens from the cache and {read.fresh + read.write_5m + read.write_1h:,} others"
    )
    print(f"a new epoch, {before:,} tokens before, {context.request().predicted.prompt:,} after, begins with:")
    for part in parse(epoch.body)["summary"]:
        print("  " + part["text"].replace("\n", "\n  "))
    assert memory.todo is not None
    print(memory.todo.markdown.rstrip())
