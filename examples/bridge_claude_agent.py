"""The Claude Agent SDK, whose CLI builds every request: hooks note where it writes, and a report is made of that."""

import asyncio
import sys
import tempfile
from importlib.util import find_spec

from provider import SYSTEM, says

from contextkit.bridges.claude_agent import Transcripts
from contextkit.server import LocalServer

if not find_spec("claude_agent_sdk"):
    print('The Claude Agent SDK is not installed: pip install "contextkit-sdk[claude-agent]"')
    sys.exit()

from claude_agent_sdk import ClaudeAgentOptions, query


async def main(url: str, home: str) -> None:
    """One prompt, answered by the CLI in a home of its own."""
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "local",
        "HOME": home,
        "CLAUDE_CONFIG_DIR": home,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
    }
    options = ClaudeAgentOptions(
        model="claude-sonnet-5-5", system_prompt=SYSTEM, tools=[], setting_sources=[], cwd=home, env=environment
    )
    transcripts = Transcripts()
    async for message in query(prompt="Say hello.", options=transcripts.watch(options)):
        print(getattr(message, "result", None) or type(message).__name__)
    print(transcripts.report())


with LocalServer([says("Hello.")]) as server, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    asyncio.run(main(server.url, folder))
