"""The examples that need no fixture of their own run as they stand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

SHOWS = {
    "whatif": "longer-lifetime: saves $0.15",
    "report_claude_code": "ttl_expired",
    "report_codex": "2 calls",
    "report_prometheus": "93.8 %",
    "report_pi": "call 2: ttl_expired",
    "report_block_trace": "2 requests, 5 blocks, 0.2000 of them read",
    "report_ledger": "2 calls: 49.5 % of input read from cache",
    "report_copilot": "1 calls: 48.3 % of input read from cache",
    "report_gemini_cli": "2 calls: 48.2 % of input read from cache",
    "report_opencode": "2 calls, $0.04 by the log: 48.9 % of input read from cache",
    "report_qwen_code": "2 calls: 49.4 % of input read from cache",
    "report_cline": "2 calls: 48.9 % of input read from cache",
    "report_swe_agents": "2 calls: 47.4 % of input read from cache",
    "report_openhands": "2 calls: 47.4 % of input read from cache",
    "report_inspect": "2 calls: 48.8 % of input read from cache",
    "report_aider": "2 calls, $0.03 by the log: hit rate unknown",
}


@pytest.mark.parametrize("name", SHOWS)
def test_an_example_reads_what_it_made_up(name: str, example: Callable[[str], str]) -> None:
    assert SHOWS[name] in example(name)
