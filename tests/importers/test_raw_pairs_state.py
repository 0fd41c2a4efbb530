"""Recorded requests that say only what is new: put together from the calls before them, where those stand in the
recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.misses import analyzed_calls
from contextkit.ledger.prompts import read_body
from contextkit.server import LocalServer
from tests.importers.test_raw_pairs import AT, calls, put, read

pytest.importorskip("uvicorn", reason="the local provider needs the extra `server`")


def recorded() -> tuple[list[dict[str, Any]], list[bytes]]:
    """Five calls as a recorder sees them, one streamed, and the end of each prompt as the server understood it."""
    rows: list[dict[str, Any]] = []
    with (
        LocalServer(now=AT) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):

        def ask(text: str, **more: Any) -> str:
            body: dict[str, Any] = {
                "model": "gpt-6.1-sol",
                "input": [{"role": "user", "content": text}],
                "instructions": "Brief.",
                **more,
            }
            server.clock.advance(1)
            if more.get("stream"):
                with client.responses.with_streaming_response.create(**body) as raw:
                    said: Any = "".join(f"{line}\n" for line in raw.iter_lines())
            else:
                said = client.responses.create(**body).to_dict()
            rows.append({"at": server.clock.now(), "request": body, "response": said})
            return server.ledger[-1].id

        first = ask("one " * 1500)
        second = ask("two", previous_response_id=first, stream=True)
        ask("three", previous_response_id=second)
        ask("four", previous_response_id=first)
        ask("five", store=False)
        return rows, [prompt.digests[prompt.n - 1] for _, prompt in server.ledger.prompts() if prompt]


def ends(found: list[ModelCall]) -> list[bytes | None]:
    """The end of each prompt, None where its body cannot be read alone."""
    bodies = [call.prompt.request for call in found if isinstance(call.prompt, Bodies)]
    assert len(bodies) == len(found)
    prompts = [read_body(body, "openai", "gpt-6.1-sol") for body in bodies]
    return [one.prompt.digests[one.prompt.n - 1] if one else None for one in prompts]


def test_a_request_that_says_only_what_is_new_is_put_together_from_the_calls_before_it(tmp_path: Path) -> None:
    rows, served = recorded()
    assert ends(calls(put(tmp_path / "a", *rows))) == served
    found = list(analyzed_calls(read(tmp_path / "a")))
    assert [call.miss.cause for call in found if call.miss] == ["first_write", "below_minimum"]
    assert [bool(call.usage and call.usage.read) for call in found] == [False, True, True, True, False]


def test_where_the_recording_begins_later_a_request_stays_as_it_was_sent(tmp_path: Path) -> None:
    rows, _ = recorded()
    assert ends(calls(put(tmp_path / "a", *rows[1:3]))) == [None, None]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "items",
    [
        [1, None, "x", {"id": 5}, {"id": "i"}],
        [{"type": "item_reference", "id": None}],
        [nested(300)],
        [{"role": "user", "content": 2**70}],
        {},
        [{"id": "i", "role": "user"}, 7],
        3.5,
        None,
    ],
)
def test_what_makes_no_sense_in_a_recording_is_read_past(tmp_path: Path, items: Any) -> None:
    counts = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1, "total_tokens": 10}
    odd: list[Any] = ["resp_0", {"id": "conv_1"}, {"id": 5}, 7, ["resp_0"]]
    rows = [
        {
            "at": AT + number,
            "request": {"model": "gpt-5.1", "input": items, **more},
            "response": {
                "id": f"resp_{number}",
                "object": "response",
                "status": "completed",
                "output": items,
                "usage": counts,
            },
        }
        for number, more in enumerate(
            [{}, *({name: value} for name in ("previous_response_id", "conversation") for value in odd)]
        )
    ]
    rows.append({**rows[1], "request": {"model": "gpt-5.1", "input": [{"type": "item_reference", "id": "i"}]}})
    found = calls(
        put(
            tmp_path / "a",
            {"at": AT - 1, "request": {"model": "gpt-5.1", "input": "hi"}, "response": {"usage": counts}},
            *rows,
        )
    )
    assert len(found) >= 1
