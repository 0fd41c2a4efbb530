"""Request rules on request parameters (`CKP…`)."""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json
from contextkit.lint.requests.parameters import (
    ParameterChange,
    first_parameter_change,
    had_cached,
    has_tool_change,
    is_claude,
    is_other_model,
    sent_model,
)
from contextkit.lint.requests.rule import Evidence, RequestRule, Step

# CKP01 model-switch-or-fallback
# ---------------------------------------------------------------------------------------------------------------------


def _model_switch_or_fallback(step: Step) -> Evidence | None:
    if not is_other_model(step) or not had_cached(step, "tools"):
        return None
    was, now = sent_model(step.before), sent_model(step.after)
    return ParameterChange("model", was, now).evidence(f"{now} is asked after {was}, and shares no cache with it")


# CKP02 effort-change
# ---------------------------------------------------------------------------------------------------------------------

_EFFORT_PATHS = {
    "anthropic_messages": ("output_config.effort",),
    "bedrock_converse": ("additionalModelRequestFields.output_config.effort",),
    "openai_chat": ("reasoning_effort", "reasoning.effort"),
    "openai_responses": ("reasoning.effort",),
}

_EFFORT_PROVIDERS = ("openai", "azure", "")
"""Providers that make it a part of the key, and self-hosted models, whose templates print it; others have published
nothing."""

_EFFORT_IF_OMITTED = {"anthropic_messages": "high", "bedrock_converse": "high"}
"""What leaving it out means. OpenAI's default depends on the model."""

_EFFORT_DEFAULTS = ("medium", "none")


def _effort_change(step: Step) -> Evidence | None:
    unsaid = _EFFORT_IF_OMITTED.get(step.after.endpoint)
    difference = first_parameter_change(step, _EFFORT_PATHS, lambda value: unsaid if value is None else value)
    if difference is None or not _is_effort_cached(step, difference.was, difference.now):
        return None
    return difference.evidence(f"the effort changed between calls {step.turn - 1} and {step.turn}")


def _is_effort_cached(step: Step, was: Json, now: Json) -> bool:
    if is_claude(step.after):
        return had_cached(step, "messages")
    is_default = (was is None and now in _EFFORT_DEFAULTS) or (now is None and was in _EFFORT_DEFAULTS)
    return step.after.row.provider in _EFFORT_PROVIDERS and not is_default and had_cached(step, "tools")


# CKP03 thinking-config-change
# ---------------------------------------------------------------------------------------------------------------------

_THINKING_PATHS = {
    "anthropic_messages": ("thinking",),
    "bedrock_converse": ("additionalModelRequestFields.thinking", "additionalModelRequestFields.reasoning_config"),
}

_TASK_BUDGET_PATHS = {
    "anthropic_messages": ("output_config.task_budget",),
    "bedrock_converse": ("additionalModelRequestFields.output_config.task_budget",),
}

_THINKING_KEYS = ("type", "budget_tokens")

_THINKING_OFF: Json = {"type": "disabled"}


def _thinking_mode(value: Json) -> Json:
    """What is rendered of it: mode and budget. How thinking is shown in the reply is not."""
    if not isinstance(value, dict):
        return _THINKING_OFF if value is None else value
    return {name: value[name] for name in _THINKING_KEYS if value.get(name) is not None}


def _thinking_config_change(step: Step) -> Evidence | None:
    if not is_claude(step.after) or not had_cached(step, "messages"):
        return None
    mode, budget = (
        first_parameter_change(step, _THINKING_PATHS, _thinking_mode),
        first_parameter_change(step, _TASK_BUDGET_PATHS),
    )
    difference, what = (mode, "the thinking mode or its budget") if mode else (budget, "the task budget")
    return difference.evidence(f"{what} changed between calls {step.turn - 1} and {step.turn}") if difference else None


# CKP04 tool-choice-change
# ---------------------------------------------------------------------------------------------------------------------

_TOOL_CHOICE_PATHS = {
    "anthropic_messages": ("tool_choice",),
    "bedrock_converse": ("toolConfig.toolChoice",),
    "openai_chat": ("parallel_tool_calls",),
    "openai_responses": ("parallel_tool_calls",),
}
"""OpenAI's own `tool_choice` is in no key, whatever it says; whether calls may be parallel is in it."""

_TOOL_CHOICE_DEFAULTS: tuple[Json, ...] = (None, {"type": "auto"}, {"auto": {}}, True)


def _tool_choice_meaning(value: Json) -> Json:
    """Without what is the default anyway."""
    if isinstance(value, dict) and value.get("disable_parallel_tool_use") is False:
        value = {name: item for name, item in value.items() if name != "disable_parallel_tool_use"}
    return None if any(value == unsaid and type(value) is type(unsaid) for unsaid in _TOOL_CHOICE_DEFAULTS) else value


def _tool_choice_change(step: Step) -> Evidence | None:
    difference = first_parameter_change(step, _TOOL_CHOICE_PATHS, _tool_choice_meaning)
    if difference is None or has_tool_change(step):
        return None
    if not (had_cached(step, "messages") if is_claude(step.after) else step.after.row.provider == "openai"):
        return None
    what = (
        "whether tools may be called in parallel" if difference.path == "parallel_tool_calls" else "the choice of tools"
    )
    return difference.evidence(f"{what} changed between calls {step.turn - 1} and {step.turn}")


# CKP05 output-schema-change
# ---------------------------------------------------------------------------------------------------------------------

_SCHEMA_PATHS = {
    "anthropic_messages": ("output_config.format", "output_format"),
    "openai_chat": ("response_format",),
    "openai_responses": ("text.format",),
    "bedrock_converse": ("outputConfig.textFormat",),
    "gemini": tuple(
        f"{config}.{name}"
        for config in ("generationConfig", "generation_config")
        for name in ("responseSchema", "responseJsonSchema", "response_schema", "response_json_schema")
    ),
}

_SCHEMA_PROVIDERS = ("openai", "azure", "google")

_PLAIN_TEXT_FORMAT: Json = {"type": "text"}


def _output_schema_change(step: Step) -> Evidence | None:
    difference = first_parameter_change(
        step, _SCHEMA_PATHS, lambda value: None if value == _PLAIN_TEXT_FORMAT else value
    )
    if difference is None or not (
        had_cached(step, "messages") if is_claude(step.after) else step.after.row.provider in _SCHEMA_PROVIDERS
    ):
        return None
    return difference.evidence(f"the schema of the answer changed between calls {step.turn - 1} and {step.turn}")


# CKP06 speed-or-header-flag
# ---------------------------------------------------------------------------------------------------------------------

_SPEED_PATHS = {
    "anthropic_messages": ("speed", "betas", "anthropic_beta", "inference_geo"),
    "bedrock_converse": ("additionalModelRequestFields.speed", "additionalModelRequestFields.anthropic_beta"),
    "openai_chat": ("service_tier", "verbosity"),
    "openai_responses": ("service_tier", "text.verbosity"),
}

_SPEED_DEFAULTS: tuple[Json, ...] = ("standard", "auto", "default", "medium", "global", [])

_SPEED_LABELS = {
    "speed": "the speed",
    "service_tier": "the service tier",
    "verbosity": "the verbosity",
    "inference_geo": "where it is computed",
}


def _speed_meaning(value: Json) -> Json:
    """Betas are a set; a default is as good as leaving it out."""
    if isinstance(value, list):
        value = sorted(map(str, value))
    return None if value in _SPEED_DEFAULTS else value


def _speed_or_header_flag(step: Step) -> Evidence | None:
    difference = first_parameter_change(step, _SPEED_PATHS, _speed_meaning)
    if difference is None or not (
        had_cached(step, "system") if is_claude(step.after) else step.after.row.provider == "openai"
    ):
        return None
    what = _SPEED_LABELS.get(difference.path.rpartition(".")[2], "the list of betas")
    return difference.evidence(f"{what} changed between calls {step.turn - 1} and {step.turn}")


# CKP07 template-kwargs-at-head
# ---------------------------------------------------------------------------------------------------------------------

_TEMPLATE_NAMES = ("chat_template_kwargs", "chat_template", "enable_thinking", "template_kwargs")

_TEMPLATE_PATHS = dict.fromkeys(("openai_chat", "openai_responses", "anthropic_messages"), _TEMPLATE_NAMES)


def _template_kwargs_at_head(step: Step) -> Evidence | None:
    difference = first_parameter_change(step, _TEMPLATE_PATHS, lambda value: value or None)
    if difference is None or not had_cached(step, "tools"):
        return None
    return difference.evidence(
        f"what the template prints at the head of the prompt changed between calls {step.turn - 1} and {step.turn}"
    )


RULES: Mapping[str, tuple[RequestRule, ...]] = {
    "CKP01": (RequestRule("step", _model_switch_or_fallback),),
    "CKP02": (RequestRule("step", _effort_change),),
    "CKP03": (RequestRule("step", _thinking_config_change),),
    "CKP04": (RequestRule("step", _tool_choice_change),),
    "CKP05": (RequestRule("step", _output_schema_change),),
    "CKP06": (RequestRule("step", _speed_or_header_flag),),
    "CKP07": (RequestRule("step", _template_kwargs_at_head),),
}
"""Code → its rules."""
