"""A tiny random Llama as a Hugging Face folder, for vLLM and SGLang: `write_hf(folder, special=…, template=…)`.

With `window=64` it is a Mistral, all of whose layers have a sliding window.

Weights are seeded; token ids are those of `tiny_gguf`: the 256 bytes in order, tokens nobody writes, the special tokens
that are asked for, and the two that begin and end a text.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.engines.tiny_gguf import N_LAYERS, N_VOCABULARY, byte_letters

WIDTH, N_HEADS, N_INNER = 128, 4, 256
"""vLLM's attention on a CPU takes no head of less than 32."""


def write_hf(
    folder: Path,
    *,
    special: Sequence[str] = (),
    template: str = "",
    context_tokens: int = 4096,
    window: int | None = None,
) -> None:
    """Write configuration, tokenizer, template and weights."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = [*special, "<|bos|>", "<|eos|>"]
    first = N_VOCABULARY - len(ends)
    config = {
        "architectures": ["MistralForCausalLM" if window else "LlamaForCausalLM"],
        "model_type": "mistral" if window else "llama",
        "dtype": "float32",
        "vocab_size": N_VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": N_INNER,
        "num_hidden_layers": N_LAYERS,
        "num_attention_heads": N_HEADS,
        "num_key_value_heads": N_HEADS,
        "head_dim": WIDTH // N_HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": context_tokens,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "bos_token_id": N_VOCABULARY - 2,
        "eos_token_id": N_VOCABULARY - 1,
    } | ({"sliding_window": window} if window else {})
    letters = byte_letters()
    words = [*letters, *(f"<|{number}|>" for number in range(len(letters), first)), *ends]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": first + index,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": name not in special,
            }
            for index, name in enumerate(ends)
        ],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": {word: number for number, word in enumerate(words)}, "merges": []},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|bos|>",
        "eos_token": "<|eos|>",
        "model_max_length": context_tokens,
    }
    for name, content in {
        "config.json": config,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": settings,
    }.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_weights())


def _weights() -> bytes:
    """Seeded weights in the format of `safetensors`: the length of a JSON header, the header, the numbers."""
    import numpy as np

    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (N_VOCABULARY, WIDTH),
        "model.norm.weight": (WIDTH,),
        "lm_head.weight": (N_VOCABULARY, WIDTH),
    }
    for layer in range(N_LAYERS):
        name = f"model.layers.{layer}"
        shapes |= {f"{name}.{norm}_layernorm.weight": (WIDTH,) for norm in ("input", "post_attention")}
        shapes |= {f"{name}.self_attn.{part}_proj.weight": (WIDTH, WIDTH) for part in "qkvo"}
        shapes |= {f"{name}.mlp.{part}_proj.weight": (N_INNER, WIDTH) for part in ("gate", "up")}
        shapes[f"{name}.mlp.down_proj.weight"] = (WIDTH, N_INNER)
    random, header, data = np.random.default_rng(0), dict[str, Any](), bytearray()
    for name, shape in shapes.items():
        numbers = np.ones(shape) if len(shape) == 1 else random.standard_normal(shape) * 0.05
        start = len(data)
        data += numbers.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(data)]}
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + bytes(data)
