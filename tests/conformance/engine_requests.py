"""Requests that carry a mask, and what vLLM and SGLang make of them.

    CONTEXTKIT_PEERS=SITE_PACKAGES python -m tests.conformance.engine_requests

Asks the request types of the engines themselves (vLLM 0.33 with XGrammar behind its structural tags, SGLang 0.5.23),
whichever of them SITE_PACKAGES has: every lowering of every mask in every call format is taken, what a `Context` sends
by itself too, and every body of `CASES` is taken or refused as the table says. What SGLang checks behind its types, in
its server, is not asked. The same table is what the local provider is held to."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from contextkit import Context, Phase, Phases, Toolbox
from contextkit.canonical import parse
from contextkit.providers.call_formats import FORMATS, prefill
from contextkit.providers.engine_masks import engine_fields
from contextkit.providers.openai_compatible import OpenAICompatible
from contextkit.tools.mask import Mask, Permit
from tests.conformance.grammars import SCHEMAS, TOOLS

BOX = Toolbox(list(TOOLS.values()))
ASKED = {
    "model": "m",
    "messages": [{"role": "user", "content": "Go."}],
    "tools": [
        {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()
    ],
}
PHASES: dict[str, dict[str, Any]] = {
    "auto": {},
    "none": {"allow": []},
    "required": {"require": True},
    "one": {"allow": ["browser_open"], "require": True},
    "some, required": {"allow": ["browser_*"], "require": True},
    "some": {"allow": ["browser_*"]},
}
"""A mask of each kind."""
ALLOWED_TOOLS = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "notes"}}]}
TAG = {"type": "structural_tag", "format": {"type": "any_text", "excludes": ["<tool_call>"]}}
UNTRIGGERED = {
    "type": "triggered_tags",
    "triggers": ["<a>"],
    "tags": [{"begin": "<b>", "content": {"type": "any_text"}, "end": "</b>"}],
}
NAMED = {"type": "function", "function": {"name": "notes"}}
TAKEN, REFUSED, SERVER = True, False, None
"""None: refused by the engine's server, behind its request type."""
CASES: list[tuple[dict[str, Any], dict[str, bool | None]]] = [
    ({"tool_choice": "auto"}, {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": TAKEN}),
    ({"tool_choice": None}, {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": TAKEN}),
    ({"tool_choice": "any"}, {"vllm": REFUSED, "sglang": REFUSED, "llamacpp": REFUSED}),
    ({"tool_choice": NAMED}, {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": TAKEN}),
    (
        {"tool_choice": {"type": "function", "function": {"name": "other"}}},
        {"vllm": REFUSED, "sglang": SERVER, "llamacpp": TAKEN},
    ),
    ({"tool_choice": {"type": "function", "function": {}}}, {"vllm": REFUSED, "sglang": SERVER, "llamacpp": TAKEN}),
    (
        {"tool_choice": {"type": "custom", "function": {"name": "notes"}}},
        {"vllm": REFUSED, "sglang": REFUSED, "llamacpp": TAKEN},
    ),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED_TOOLS}},
        {"vllm": REFUSED, "sglang": REFUSED, "llamacpp": TAKEN},
    ),
    ({"tool_choice": "required", "tools": None}, {"vllm": REFUSED, "sglang": SERVER, "llamacpp": TAKEN}),
    ({"tool_choice": NAMED, "tools": None}, {"vllm": REFUSED, "sglang": SERVER, "llamacpp": TAKEN}),
    ({"tool_choice": "none", "tools": []}, {"vllm": REFUSED, "sglang": TAKEN, "llamacpp": TAKEN}),
    ({"response_format": TAG}, {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": REFUSED}),
    ({"response_format": TAG, "tool_choice": "none"}, {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": REFUSED}),
    ({"response_format": TAG, "tool_choice": "required"}, {"vllm": TAKEN, "sglang": SERVER, "llamacpp": REFUSED}),
    ({"response_format": {"type": "structural_tag"}}, {"vllm": REFUSED, "sglang": REFUSED, "llamacpp": REFUSED}),
    (
        {"response_format": {"type": "structural_tag", "format": {"type": "x"}}},
        {"vllm": REFUSED, "sglang": REFUSED, "llamacpp": REFUSED},
    ),
    (
        {"response_format": {"type": "structural_tag", "format": UNTRIGGERED}},
        {"vllm": REFUSED, "sglang": SERVER, "llamacpp": REFUSED},
    ),
    ({"response_format": {"type": "x"}}, {"vllm": REFUSED, "sglang": REFUSED, "llamacpp": REFUSED}),
    ({"response_format": {"type": "json_object"}}, {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": TAKEN}),
    ({"grammar": 'root ::= "a"'}, {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": REFUSED}),
    ({"grammar": 'root ::= "a"', "tool_choice": "none"}, {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": TAKEN}),
    (
        {"continue_final_message": True, "add_generation_prompt": False},
        {"vllm": TAKEN, "sglang": TAKEN, "llamacpp": TAKEN},
    ),
    (
        {"continue_final_message": True, "add_generation_prompt": True},
        {"vllm": REFUSED, "sglang": TAKEN, "llamacpp": REFUSED},
    ),
]
"""Fields beside `ASKED` → what each engine makes of them. llama.cpp's column is what a real server of it
says (`tests/engines/test_running_masks.py`)."""
PROTOCOLS = {
    "vllm": "vllm.entrypoints.openai.chat_completion.protocol",
    "sglang": "sglang.srt.entrypoints.openai.protocol",
}


def masks() -> dict[str, Mask]:
    return {name: Permit(Phases({"a": Phase(**fields)}, "a"), BOX).mask("a") for name, fields in PHASES.items()}


def lowered(engine: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mask in every format, as a whole request body."""
    for name, mask in masks().items():
        for form in FORMATS.values():
            yield (
                f"{name}, {form.name}",
                {**ASKED, **engine_fields(engine, mask, [BOX[tool] for tool in mask.allowed], form)},
            )
            if mask.mode == "specified":
                begun = prefill(form, mask.allowed)
                message, fields = OpenAICompatible("a-model", host=engine).prefilled(begun)
                yield f"{name}, {form.name}, prefill", {**ASKED, "messages": [*ASKED["messages"], message], **fields}


def conversing(engine: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a `Context` sends to the engine by itself, in every phase and format, with everything its row has a field
    for."""
    session: Any = 3 if engine == "llamacpp" else "run-7"
    salt = {} if engine == "llamacpp" else {"salt": "tenant-1"}
    thought = {"role": "assistant", "content": "So.", "reasoning_content": "Hm."}
    said = [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "Go."},
        thought,
        {"role": "user", "content": "On."},
    ]
    for name, fields in PHASES.items():
        for form in (None, *FORMATS):
            provider = OpenAICompatible("m", host=engine, session=session, call_format=form, max_tokens=64, **salt)
            body = {**ASKED, "messages": said}
            context = Context.from_messages(provider, body, phases=Phases({"a": Phase(**fields)}, "a"))
            yield f"{name}, {form}, context", parse(context.request().body)


def wrong(engine: str, request: Any) -> list[str]:
    """What the engine's own request type says otherwise."""
    refused = [name for name, body in (*lowered(engine), *conversing(engine)) if not _is_taken(request, body)]
    cases = [(fields, expected[engine]) for fields, expected in CASES if expected[engine] is not SERVER]
    return refused + [str(fields) for fields, expected in cases if _is_taken(request, {**ASKED, **fields}) != expected]


def _is_taken(request: Any, body: dict[str, Any]) -> bool:
    try:
        request.model_validate(body)
    except Exception as refusal:  # vLLM's own error is no ValueError
        if type(refusal).__name__ not in ("ValidationError", "VLLMValidationError"):
            raise
        return False
    return True


def main() -> int:
    sys.path[:0] = filter(None, os.environ.get("CONTEXTKIT_PEERS", "").split(os.pathsep))
    n_wrong = 0
    for engine, name in PROTOCOLS.items():
        try:
            request = importlib.import_module(name).ChatCompletionRequest
        except ImportError as missing:
            print(f"{engine}: not here ({missing})")
            continue
        found = wrong(engine, request)
        n_cases, n_lowered = (
            sum(expected[engine] is not SERVER for _, expected in CASES),
            len([*lowered(engine), *conversing(engine)]),
        )
        print(
            f"{engine} {importlib.import_module(engine).__version__}  {n_lowered} lowerings and {n_cases} cases, {len(found)} wrong"
        )
        print("".join(f"    {line[:200]}\n" for line in found), end="")
        n_wrong += len(found)
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
