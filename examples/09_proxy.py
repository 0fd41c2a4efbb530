"""The proxy: a client in any language, its base URL changed, and what it lost on the terminal and in a ledger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anthropic
from provider import SYSTEM

from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.server import LocalServer

TOOLS = [
    {"name": name, "description": f"Use {name}.", "input_schema": {"type": "object"}}
    for name in ("read", "write", "search")
]


def agent(url: str, key: str) -> None:
    """An agent as many are: its tools come in another order after each reconnect, and nothing marks what may be cached."""
    messages: list[dict[str, str]] = []
    with anthropic.Anthropic(base_url=url, api_key=key) as client:
        for turn in range(3):
            messages.append({"role": "user", "content": "And now?"})
            tools = TOOLS[turn:] + TOOLS[:turn]
            reply = client.messages.create(
                model="claude-sonnet-5-5", max_tokens=200, system=SYSTEM, tools=tools, messages=messages
            )
            messages.append({"role": "assistant", "content": reply.content[0].text})


key = os.environ.get("ANTHROPIC_API_KEY", "")
print("" if key else "ANTHROPIC_API_KEY is not set: using the local provider")
with tempfile.TemporaryDirectory() as folder, LocalServer() as local:
    upstream = "https://api.anthropic.com" if key else local.url
    for repairs in ("", "sort-tools,place-breakpoints"):
        print(f"\n--repair {repairs or 'nothing'}")
        record = Path(folder) / f"{repairs or 'plain'}.jsonl"
        command = [
            sys.executable,
            "-m",
            "contextkit.cli.main",
            "proxy",
            "--upstream",
            upstream,
            "--port",
            "0",
            "--json",
        ]
        options = ["--record", str(record), *(["--repair", repairs] if repairs else [])]
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as proxy:  # noqa: S603
            assert proxy.stdout
            agent(json.loads(proxy.stdout.readline())["url"], key or "local")
            proxy.send_signal(signal.SIGINT if os.name != "nt" else signal.SIGTERM)
            *calls, _ = map(json.loads, proxy.stdout)  # the last line is the summary
        for call in calls:
            print(f"{call['call']['usage']['read']:>6} tokens read from cache", *call["repairs"])
        print(summarise(Ledger.read(record)))
