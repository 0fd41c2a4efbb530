"""Loads what the first request of an endpoint would wait for: the SDKs' types, their schemas and the tokenizers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial

from contextkit.canonical import canonical
from contextkit.server import addressed
from contextkit.server.answer import Call, Outcome, admit, count_tokens, serve
from contextkit.server.endpoints.table import CHAT, COMPACT, COUNT, MESSAGES, RESPONSES
from contextkit.server.state import Clock, State

_CLAUDE = {"model": "claude-sonnet-5-5", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
_COUNTED = {name: value for name, value in _CLAUDE.items() if name != "max_tokens"}
_IN_PATH = {name: value for name, value in _CLAUDE.items() if name != "model"}
_GPT = {"model": "gpt-6.1-sol"}
_HEADERS = {"x-api-key": "any", "authorization": "Bearer any", "anthropic-version": "2023-06-01"}
_BEDROCK = "anthropic.claude-sonnet-5-5"


SDKS = ("anthropic", "openai", "botocore", "google.genai")
"""Modules of the SDKs whose types check requests."""


def warm_up_loaded() -> None:
    """Warm up for the SDKs that this process has imported, whose clients it will use; for all if it has imported none,
    as its clients are then other programs.
    """
    warm_up(tuple(sdk for sdk in SDKS if sdk in sys.modules) or SDKS)


@cache
def warm_up(sdks: tuple[str, ...] = SDKS) -> None:
    """Answer one request of each endpoint of these SDKs, once in a process, with a state that is thrown away."""
    state = State(Clock(0.0, is_frozen=True))
    requests: tuple[tuple[str, Callable[..., Outcome | Call], dict[str, object]], ...] = (
        ("anthropic", partial(admit, state, MESSAGES), {**_CLAUDE, "stream": True}),
        ("anthropic", partial(count_tokens, state, COUNT), _COUNTED),
        ("openai", partial(admit, state, CHAT), {**_GPT, "messages": _CLAUDE["messages"], "stream": True}),
        ("openai", partial(admit, state, RESPONSES), {**_GPT, "input": "hi", "stream": True}),
        ("openai", partial(admit, state, COMPACT), {**_GPT, "input": "hi"}),
        (
            "botocore",
            partial(addressed.converse, state, model=_BEDROCK, is_stream=True),
            {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
        ),
        (
            "anthropic",
            partial(addressed.invoke, state, model=_BEDROCK, is_stream=True),
            {**_IN_PATH, "anthropic_version": "bedrock-2023-05-31"},
        ),
        (
            "anthropic",
            partial(addressed.predict, state, model="claude-sonnet-5-5", is_stream=True),
            {**_IN_PATH, "anthropic_version": "vertex-2023-10-16"},
        ),
        (
            "anthropic",
            partial(addressed.predict, state, model="count-tokens", is_stream=False),
            {**_COUNTED, "anthropic_version": "vertex-2023-10-16"},
        ),
        (
            "google.genai",
            partial(addressed.generate, state, model="gemini-2.5-pro", is_stream=True),
            {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        ),
    )
    for sdk, act, body in requests:
        if sdk in sdks:
            begun = act(headers=_HEADERS, raw=canonical(body))
            if isinstance(begun, Call):
                serve(begun)
