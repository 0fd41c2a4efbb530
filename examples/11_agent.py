"""A whole agent: phases, files for large results, sub-agents, a budget, compaction. It is killed in a tool, and goes on.

The first process dies in `send_report`; the second opens the same session of the same SQLite file and runs the same loop.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anthropic
from provider import SYSTEM, anthropic_client, asks, says

from contextkit import AnthropicMessages, Budget, Compaction, Context, FileMemory, Phase, Phases, tool
from contextkit.memory import Memory, Offload, Residency

REPLIES = [
    asks(("fetch", {"url": "https://example.com/squares"})),
    asks(("fetch", {"url": "https://example.com/cubes"})),
    says("Two tables were read, of squares and of cubes."),  # the summary that the compaction asks for
    asks(("research", {"questions": ["Who wrote the table of squares?", "Who wrote that of cubes?"]})),
    says("Ada wrote it."),  # one agent
    says("Ada wrote it."),  # the other
    asks(("send_report", {"text": "Both tables are Ada's."})),  # the first process is killed here
    asks(
        ("send_report", {"text": "Both tables are Ada's."})
    ),  # told that its call was interrupted, the model repeats it
    says("Le rapport est parti."),
]
PHASES = Phases(
    {
        "read": Phase(allow=["fetch", "research"], then={"research:ok": "write"}),
        "write": Phase(allow=["send_report"], then={"send_report:ok": "done"}),
        "done": Phase(allow=[]),
    },
    start="read",
)


@tool
def fetch(url: str) -> str:
    """Get a page."""
    power = 3 if url.endswith("cubes") else 2
    return "\n".join(f"row {number}: {number**power}" for number in range(4_000))


@tool
def research(questions: list[str]) -> list[str]:
    """Give each question to a researcher of its own, and return what they say."""
    team = lead.spawn_all(questions, tools=[fetch])  # they read the head of this conversation from the cache
    team.send(client)  # the first request of each: one writes what they share, the others read it
    for agent in team:
        for _ in agent.run(client, max_steps=10):  # and what each of them still has to do
            pass
    return [agent.last_text for agent in team]


@tool
def send_report(text: str) -> str:
    """Send the report."""
    if is_first:
        os.kill(os.getpid(), signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
    return "sent"


def opened(folder: str) -> Context:
    """The conversation kept in `folder`, begun or continued: a log holds no functions, so everything is given again."""
    return Context.open(
        f"sqlite:///{Path(folder, 'agent.db')}?session=report",
        AnthropicMessages("claude-sonnet-5-5", max_tokens=1024),
        system=SYSTEM,
        tools=[fetch, research, send_report],
        phases=PHASES,
        memory=Memory(
            FileMemory(Path(folder, "memory")), residency=Residency("auto"), offload=Offload(preview_tokens=1_200)
        ),
        compact=Compaction(at_tokens=4_000, keep_tokens=500),
        budget=Budget(usd=0.50),  # what the first process spent, and the agents, counts too
    )


def work() -> None:
    """The loop, the same at every start."""
    lead.user("Read both tables, ask who wrote them, and send a report.", once=True)
    lead.pin("Answer in French.")  # once, too
    for step in lead.run(client, max_steps=20):
        print(f"{step.number} {lead.phase:6}{[call.name for call in step.calls]} ${step.cost_usd:.4f}", flush=True)


is_first = len(sys.argv) > 1
if is_first:
    client = anthropic.Anthropic()
    lead = opened(sys.argv[1])
    work()
else:
    with tempfile.TemporaryDirectory() as folder, anthropic_client(REPLIES) as client:
        same = {**os.environ, "ANTHROPIC_BASE_URL": str(client.base_url), "ANTHROPIC_API_KEY": client.api_key}
        died = subprocess.run([sys.executable, __file__, folder], check=False, env=same)  # noqa: S603 - this very file
        print(f"the first process ended with code {died.returncode}")
        with opened(folder) as lead:
            print(f"open: {[(call.name, call.was_started) for call in lead.calls]}")
            print(f"agents: {[state.status for state in lead.agent_states]}")
            work()
            print(lead.last_text)
            print(lead.survival())
            print(lead.summary())
