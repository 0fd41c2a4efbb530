"""The calls of models in an HTTP archive, and what each read from the cache.

    mitmdump -s … --set hardump=session.har       (or "Save all as HAR" in a browser)
    python examples/report_har.py session.har

Without a path it reads a made-up archive of one call and a picture. No header reaches what is printed.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall


def made_up() -> str:
    """An archive as mitmproxy writes it, in short."""
    body = {"model": "gpt-5.1", "messages": [{"role": "user", "content": "Hi"}]}
    usage = {"prompt_tokens": 2006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 1920}}
    answer = {"id": "chatcmpl-1", "choices": [{"finish_reason": "stop"}], "usage": usage}
    entry = {
        "startedDateTime": "2026-09-21T14:13:20.000Z",
        "time": 900,
        "request": {
            "method": "POST",
            "url": "https://api.openai.com/v1/chat/completions",
            "postData": {"text": json.dumps(body)},
        },
        "response": {"status": 200, "content": {"mimeType": "application/json", "text": json.dumps(answer)}},
    }
    picture = {"request": {"method": "GET", "url": "https://example.com/cat.png"}, "response": {"status": 200}}
    return json.dumps({"log": {"version": "1.2", "creator": {"name": "made up"}, "entries": [entry, picture]}})


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "session.har"
    path.write_text(made_up(), encoding="utf-8")
    faults = Faults()
    for call in records_in(sys.argv[1:] or [str(path)], faults):
        if isinstance(call, ModelCall):
            print(f"{call.id}: {call.provider}/{call.model}, read {call.usage.read if call.usage else '?'} tokens")
    for fault in faults.kept:
        print(fault)
