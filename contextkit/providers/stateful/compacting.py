"""A reply in which the server summed up what was before: what stands for it from now on, and what was said behind it.

Takes the body of an entry to be, gives items. `client.responses.compact` returns a summary alone; so does a response to
an input that ends with a `compaction_trigger`; with `context_management` a summary stands before what the model says
(responses/response_create_params.py:367, response_input_item_param.py:734). Items before the summary may be left out of
later inputs (https://developers.openai.com/api/docs/guides/compaction).
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json


def summed_up(body: Mapping[str, Json]) -> tuple[list[Json], list[Json]] | None:
    """Items that stand for everything before, and items said behind them; None where nothing was summed up.

    >>> said = [{"type": "compaction", "encrypted_content": "…"}, {"type": "message", "role": "assistant", "content": "Done."}]
    >>> [len(part) for part in summed_up({"native": {"wire": "openai_responses", "body": said}, "stop": "done"})]
    [1, 1]
    """
    native = body["native"]
    items = list(native["body"])
    if body["stop"] == "compacted":
        return items, []
    if native["wire"] != "openai_responses":
        return None
    places = [index for index, item in enumerate(items) if item.get("type") == "compaction"]
    return ([items[places[-1]]], items[places[-1] + 1 :]) if places else None
