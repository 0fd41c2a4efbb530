"""The Claude Agent SDK: `claude_agent.py MODEL PROMPT…`."""

import asyncio
import sys

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage


async def main() -> int:
    is_error = False
    async with ClaudeSDKClient(ClaudeAgentOptions(model=sys.argv[1], allowed_tools=["Read"])) as client:
        for prompt in sys.argv[2:]:
            await client.query(prompt)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    is_error = message.is_error
                    print(message.result)
    return 3 if is_error else 0


sys.exit(asyncio.run(main()))
