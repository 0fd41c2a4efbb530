"""What goes wrong in our own code is logged with its place, never with what was said."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from contextkit.server import LocalServer
from tests.server.conftest import CLAUDE

SECRET = "what nobody else may read"


def test_a_callable_that_fails_leaves_no_prompt_in_the_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def reply(parsed: Any, body: Any) -> Any:
        raise KeyError(body["messages"][0]["content"])

    failing = pytest.raises(anthropic.InternalServerError, match="KeyError")
    with (
        LocalServer(reply) as server,
        anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as claude,
        failing as caught,
    ):
        claude.messages.create(model=CLAUDE, max_tokens=5, messages=[{"role": "user", "content": SECRET}])
    assert SECRET not in str(caught.value)
    logged = caplog.text + "".join(capfd.readouterr())
    assert "KeyError" in logged and "test_proxy_logs.py" in logged and "in reply" in logged and SECRET not in logged
