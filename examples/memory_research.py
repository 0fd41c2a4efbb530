"""Research in a window of 20,000 tokens: 24 papers of 11,000 tokens each are read, and the first one still answers at
the end.

What a tool returns goes to a file when it is large; the window gets its head, its tail and a reference. The window is
summed up when it is nearly full, and the reference of the first paper is still named in it. The model is the local
provider, its replies written here.
"""

import tempfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import anthropic
from provider import SYSTEM, asks, says

from contextkit import AnthropicMessages, Context, FileMemory, tool
from contextkit.memory import Memory, Offload
from contextkit.models import model_named, register
from contextkit.server import LocalServer

N_PAPERS, FULL = 24, 15_000
register(replace(model_named("claude-sonnet-5-5"), window_tokens=20_000))  # the same model, as if it could see no more


def paper(number: int) -> str:
    """About 44 kB: what it is in the first lines, its measurements further down."""
    head = [
        f"Paper {number}: catalysts at low temperature",
        "Contents: samples 4 to 1103, one a line, numbered as the lines are",
        "",
    ]
    rows = [
        f"{line}  sample {line}  yield {number * line * 37 % 1_000 / 10:.1f} %  at {300 + line % 50} K"
        for line in range(4, 1_104)
    ]
    return "\n".join([*head, *rows])


@tool
def read_paper(number: int) -> str:
    """Read one paper of the folder."""
    return Path(folder, f"{number}.txt").read_text(encoding="utf-8")


FIRST = sha256(paper(1).encode()).hexdigest()[:16]  # what a model would copy from the window
READING = [asks(("read_paper", {"number": number})) for number in range(1, N_PAPERS + 1)]
ANSWER = [
    asks(("read_reference", {"id": FIRST, "start_line": 700, "n_lines": 2})),
    says("Sample 700 of the first paper yielded 90.0 %."),
]

with (
    tempfile.TemporaryDirectory() as folder,
    LocalServer() as server,
    anthropic.Anthropic(base_url=server.url, api_key="any") as client,
):
    print("the local provider answers, with scripted replies")
    for number in range(1, N_PAPERS + 1):
        Path(folder, f"{number}.txt").write_text(paper(number), encoding="utf-8")
    memory = Memory(FileMemory(f"{folder}/memory"), offload=Offload(above_tokens=1_000, preview_tokens=400))
    context = Context(
        AnthropicMessages("claude-sonnet-5-5", max_tokens=1_000), system=SYSTEM, tools=[read_paper], memory=memory
    )

    def turn() -> None:
        """Open calls, one request, its reply; a summary before it where the window is nearly full."""
        for call in context.calls:
            context.result(call, call.run())
        request = context.request()
        if (request.predicted.prompt or 0) > FULL:
            server.script(
                [says("The papers so far measure yields of catalysts; each one lists its samples line by line.")]
            )
            side = context.summarising()
            side.receive(side.request().send(client))  # reads the whole conversation from the cache
            context.compact(side)
            print("        the window is nearly full: summed up, a new epoch begins")
            request = context.request()
        assert request.overflow is None, request.overflow
        server.script([script.pop(0)])
        context.receive(request.send(client), request)
        sizes.append(request.predicted.prompt or 0)
        print(f"turn {len(sizes):>2}: window {sizes[-1]:>6,} tokens, {len(memory.references):>2} papers outside")

    script, sizes = [*READING, says("All are read."), *ANSWER], list[int]()
    context.user("Read every paper in the folder.")
    while not context.finished:
        turn()
    assert FIRST in str(context.request()["messages"])  # what was summed up is still named
    context.user("What did sample 700 of the first paper yield?")
    while not context.finished:
        turn()

    shown = [context.restore(entry)[0]["text"] for entry in context.log if entry.kind == "result"]
    assert shown[:N_PAPERS] == [
        paper(number) for number in range(1, N_PAPERS + 1)
    ]  # every byte, though the window never held them
    print(f"read: {shown[-1].splitlines()[0]}")
    print(f"answered: {context.last_text}")
    print(
        f"{sum(map(len, shown)):,} characters read, the largest window was {max(sizes):,} tokens; all results restored"
    )
    print(context.summary())
