"""Clearing without a floor, and with one."""

import anthropic

client = anthropic.Anthropic()


def ask(messages):
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 100_000}}  # expect: CKM28
    return client.beta.messages.create(
        model="claude-opus-4-5", max_tokens=4096, messages=messages, betas=["context-management-2025-06-27"],
        context_management={"edits": [edit]},
    )


def ask_with_floor(messages):
    floor = {"type": "input_tokens", "value": 20_000}
    return client.beta.messages.create(
        model="claude-opus-4-5", max_tokens=4096, messages=messages, betas=["context-management-2025-06-27"],
        context_management={"edits": [{"type": "clear_tool_uses_20250919", "clear_at_least": floor}]},
    )


def edit_with_floor_later(trigger, floor):
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": trigger}}
    edit["clear_at_least"] = {"type": "input_tokens", "value": floor}
    return edit


def edit_with_more(trigger):
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": trigger}}  # expect: CKM28
    edit["exclude_tools"] = ["memory"]
    return edit
