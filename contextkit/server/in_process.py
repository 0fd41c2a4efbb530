"""The local provider's Messages endpoint without a port: an HTTP client whose requests it answers in this process.

For what runs without the extra `server`.
"""

from __future__ import annotations

import httpx2

from contextkit.server.answer import answer
from contextkit.server.endpoints.table import MESSAGES
from contextkit.server.state import State


def http_client(state: State) -> httpx2.Client:
    """Return a client for anthropic's SDK."""

    def answered(request: httpx2.Request) -> httpx2.Response:
        outcome = answer(state, MESSAGES, request.headers, request.content)
        return httpx2.Response(outcome.status, headers=list(outcome.headers), content=b"".join(outcome.chunks))

    return httpx2.Client(transport=httpx2.MockTransport(answered))
