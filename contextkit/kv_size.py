"""Size of a model's KV cache, from the keys of a Hugging Face `config.json`.

Takes a config, gives groups of layers that cache alike; a group says how many numbers it holds for a sequence. Keys
that a config leaves to its class's defaults are not guessed, but for the order of sliding layers of four models. As most
classes have it, there are as many KV heads as heads, which share the width, where a config says neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contextkit.errors import UsageError

DTYPE_BITS = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "fp4": 4, "int4": 4}
"""Data type of a cached number → its bits; scales of quantized caches are not counted."""
_TORCH_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num"),
}
"""Size → the keys that say it, by the age of the model's class."""
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}
"""Type of model → every how many layers one is not sliding, where the config does not say."""
_OWN_HEAD_WIDTH = ("gemma", "gemma2", "gemma3", "gemma3_text", "qwen3")
"""Types of model whose heads do not share the width where the config does not say theirs."""
MOST_LAYERS = 10_000
"""More are a mistake."""
_STATE_KEYS = (
    (
        "linear_num_key_heads",
        "linear_key_head_dim",
        "linear_num_value_heads",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
    ),
    ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"),
    ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel"),
    ("mamba_expand", "hidden_size", "mamba_d_state", "mamba_d_conv"),
)
"""Keys that say how large a recurrent layer's state is: of gated delta nets, Mamba 2 (two spellings), Mamba."""
FULL, SLIDING, RECURRENT = "full attention", "sliding window", "recurrent"
_KINDS = {
    **dict.fromkeys(("full_attention", "attention", "*"), FULL),
    **dict.fromkeys(("sliding_attention", "chunked_attention"), SLIDING),
    **dict.fromkeys(("linear_attention", "mamba", "mamba2", "recurrent", "conv", "M"), RECURRENT),
    **dict.fromkeys(("mlp", "moe", "-", "E"), ""),
}
"""Word of a config for a layer → its kind, empty for a layer without a cache."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers of a model that cache alike."""

    kind: str
    """`full attention`, `sliding window`, `recurrent`."""
    layers: int
    """How many."""
    elements_per_token: int
    """Numbers that one of them caches for a token; 0 of a recurrent layer."""
    window: int | None = None
    """Tokens it holds at most."""
    state_bytes: int | None = 0
    """Bytes of its state, however long the sequence; None where the config does not say."""

    def elements(self, n_tokens: int) -> int:
        """Return the numbers that all of them cache for a sequence.

        >>> Layers(FULL, 4, 2 * 4 * 16).elements(32), Layers(SLIDING, 4, 2 * 4 * 16, window=8).elements(32)
        (16384, 4096)
        """
        return self.layers * self.elements_per_token * (n_tokens if self.window is None else min(n_tokens, self.window))


def sequence_bytes(groups: Iterable[Layers], n_tokens: int, bits: int = 16) -> int:
    """Return the bytes that a sequence of so many tokens holds, known states included.

    >>> sequence_bytes(layers_of({"n_layer": 32, "n_head": 32, "n_embd": 4096}), 4096)  # Llama-2-7B: 2 GiB
    2147483648
    """
    groups = tuple(groups)
    states = sum(group.layers * (group.state_bytes or 0) for group in groups)
    return (sum(group.elements(n_tokens) for group in groups) * bits + 7) // 8 + states


def layers_of(config: Mapping[str, Any]) -> tuple[Layers, ...]:
    """Return the groups of layers of a model; raises `UsageError` for a key that is missing or makes no sense."""
    kinds = Counter(_kinds(config))
    row = _row(config) if kinds[FULL] + kinds[SLIDING] else 0
    key = "attention_chunk_size" if "chunked_attention" in (config.get("layer_types") or ()) else "sliding_window"
    groups = (
        Layers(FULL, kinds[FULL], row),
        Layers(SLIDING, kinds[SLIDING], row, whole_number(config, key) if kinds[SLIDING] else None),
        Layers(RECURRENT, kinds[RECURRENT], 0, state_bytes=_state_bytes(config) if kinds[RECURRENT] else 0),
    )
    return tuple(group for group in groups if group.layers)


def dtype_of(config: Mapping[str, Any]) -> str:
    """Return the data type of a model, which its cache has unless told otherwise; `fp16` where unknown."""
    return _TORCH_DTYPES.get(str(config.get("dtype") or config.get("torch_dtype")), "fp16")


def _kinds(config: Mapping[str, Any]) -> list[str]:
    """The kind of each layer that has a cache of its own."""
    n = whole_number(config, *_KEYS["layers"])
    if n > MOST_LAYERS:
        raise UsageError(f"{n:,} layers: give at most {MOST_LAYERS:,}")
    words: Sequence[Any] | None = next(
        (config[key] for key in ("layer_types", "layers_block_type", "hybrid_override_pattern") if config.get(key)),
        None,
    )
    if words is not None:
        if not isinstance(words, (list, str)) or len(words) != n:
            raise UsageError(f"the list of layer types is not as long as the {n} layers: correct one of the two")
        unknown = next((word for word in words if not isinstance(word, str) or word not in _KINDS), None)
        if unknown is not None:
            raise UsageError(f"layer type {unknown!r} is not known: use one of {', '.join(_KINDS)}")
        kinds = [_KINDS[word] for word in words]
    elif "attn_layer_period" in config:  # Jamba
        period, offset = whole_number(config, "attn_layer_period"), whole_number(config, "attn_layer_offset", default=0)
        kinds = [FULL if i % period == offset else RECURRENT for i in range(n)]
    elif "full_attention_interval" in config:  # Qwen3-Next
        period = whole_number(config, "full_attention_interval")
        kinds = [FULL if (i + 1) % period == 0 else RECURRENT for i in range(n)]
    elif config.get("sliding_window") and config.get("use_sliding_window", True):
        every = whole_number(
            config, "sliding_window_pattern", default=_FULL_EVERY.get(str(config.get("model_type")), n + 1)
        )
        n_full = whole_number(config, "max_window_layers") if "use_sliding_window" in config else 0
        kinds = [FULL if i < n_full or (i + 1) % every == 0 else SLIDING for i in range(n)]
    else:
        kinds = [FULL] * n
    return kinds[: n - whole_number(config, "num_kv_shared_layers", default=0)]  # the last ones read what others cached


def _row(config: Mapping[str, Any]) -> int:
    """Numbers that a layer of attention caches for a token: of MLA the latent and the rotated key of all heads."""
    if "kv_lora_rank" in config:
        return whole_number(config, "kv_lora_rank") + whole_number(config, "qk_rope_head_dim")
    heads = whole_number(config, *_KEYS["heads"])
    is_own = config.get("model_type") in _OWN_HEAD_WIDTH
    width = whole_number(config, "head_dim", default=None if is_own else 0)
    width = width or whole_number(config, *_KEYS["width"]) // heads
    is_mqa = config.get("multi_query") is True and not config.get("new_decoder_architecture")
    kv_heads = 1 if is_mqa else whole_number(config, *_KEYS["kv_heads"], default=heads)
    return kv_heads * (width + whole_number(config, "v_head_dim", default=width))


def _state_bytes(config: Mapping[str, Any]) -> int | None:
    """Bytes of a recurrent layer's state: the last inputs of its convolution, and the recurrence."""
    names = next((names for names in _STATE_KEYS if all(isinstance(config.get(name), int) for name in names)), None)
    if names is None:
        return None
    sizes = [whole_number(config, name) for name in names]
    if names[0] == "linear_num_key_heads":
        key_heads, key_width, value_heads, value_width, kernel = sizes
        inputs, state = 2 * key_heads * key_width + value_heads * value_width, value_heads * value_width * key_width
    elif len(sizes) == 5:  # Mamba 2
        heads, width, groups, d_state, kernel = sizes
        inputs, state = heads * width + 2 * groups * d_state, heads * width * d_state
    else:
        expand, model_width, d_state, kernel = sizes
        inputs, state = expand * model_width, expand * model_width * d_state
    own = dtype_of(config)
    recurrent = _TORCH_DTYPES.get(str(config.get("mamba_ssm_dtype")), own)
    return (inputs * (kernel - 1) * DTYPE_BITS[own] + state * DTYPE_BITS[recurrent]) // 8


def whole_number(config: Mapping[str, Any], *keys: str, default: int | None = None) -> int:
    """Return the whole number under the first of these keys that is there: above 0, unless 0 is its default."""
    key = next((key for key in keys if config.get(key) is not None), None)
    if key is None:
        if default is not None:
            return default
        others = f" (or {', '.join(keys[1:])})" if keys[1:] else ""
        raise UsageError(f"no {keys[0]!r}{others}: add it, as the model's class has it by default")
    value = config[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < (default != 0):
        raise UsageError(f"{key!r} is {value!r}: give a whole number above 0")
    return value
