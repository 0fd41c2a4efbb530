"""Tiny random models as GGUF files, for a real llama.cpp server: `python -m tests.engines.tiny_gguf FILE [MEMORY]`.

Three architectures stand for the three kinds of memory: Llama keeps every token, Gemma 2 a sliding window in every
second layer, Mamba one state. Weights are seeded; the vocabulary is the 256 bytes, some pairs of letters, and the special
tokens that are asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

N_VOCABULARY, N_LAYERS, WIDTH, N_HEADS, N_INNER = 512, 2, 64, 4, 128
ARCHITECTURES = {"full": "llama", "window": "gemma2", "recurrent": "mamba"}
"""Memory → the architecture that has it."""
WINDOW_TOKENS = 64
"""Tokens of Gemma 2's window here."""


def write_gguf(
    path: Path,
    memory: str = "full",
    *,
    special: Sequence[str] = (),
    template: str | None = None,
    context_tokens: int = 8192,
) -> None:
    """Write a model whose memory is `full`, `window` or `recurrent`.

    `special`: tokens of the vocabulary that are matched whole (markers of a call format); `template`: its chat template.
    """
    import gguf
    import numpy as np

    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), ARCHITECTURES[memory])
    writer.add_name("tiny random")
    writer.add_context_length(context_tokens)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(N_LAYERS)
    writer.add_vocab_size(N_VOCABULARY)
    writer.add_file_type(0)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_vocabulary(writer, special)
    if template is not None:
        writer.add_chat_template(template)

    def matrix(name: str, *shape: int) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) * 0.05).astype(np.float32))

    def ones(name: str, n: int) -> None:
        writer.add_tensor(name, np.ones(n, np.float32))

    matrix("token_embd.weight", N_VOCABULARY, WIDTH)
    ones("output_norm.weight", WIDTH)
    if memory == "recurrent":
        _add_mamba(writer, matrix, ones)
    else:
        _add_attention(writer, matrix, ones, has_window=memory == "window")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def byte_letters() -> list[str]:
    """The letters that stand for the 256 bytes, as GPT-2 writes them.

    Printable bytes stand for themselves, the others for letters from 256 on.
    """
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return [chr(byte if byte in shown else next(hidden)) for byte in range(256)]


def _add_vocabulary(writer: Any, special: Sequence[str]) -> None:
    tokens = byte_letters()
    letters = [chr(code) for code in (*range(65, 91), *range(97, 123))]
    ends = [*special, "<|bos|>", "<|eos|>"]
    pairs = [(one, other) for one in letters for other in letters][: N_VOCABULARY - len(tokens) - len(ends)]
    tokens += [one + other for one, other in pairs]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *ends])
    writer.add_token_types([1] * len(tokens) + [4] * len(special) + [3, 3])  # 1 text, 4 written by the user, 3 control
    writer.add_token_merges([f"{one} {other}" for one, other in pairs])
    writer.add_bos_token_id(N_VOCABULARY - 2)
    writer.add_eos_token_id(N_VOCABULARY - 1)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)


def _add_attention(writer: Any, matrix: Any, ones: Any, *, has_window: bool) -> None:
    writer.add_feed_forward_length(N_INNER)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_HEADS)
    writer.add_rope_dimension_count(WIDTH // N_HEADS)
    norms = ["attn_norm", "ffn_norm"]
    if has_window:
        writer.add_key_length(WIDTH // N_HEADS)
        writer.add_value_length(WIDTH // N_HEADS)
        writer.add_sliding_window(WINDOW_TOKENS)
        writer.add_attn_logit_softcapping(50.0)
        writer.add_final_logit_softcapping(30.0)
        norms += ["post_attention_norm", "post_ffw_norm"]
    else:
        writer.add_rope_freq_base(10_000.0)
        matrix("output.weight", N_VOCABULARY, WIDTH)
    for layer in range(N_LAYERS):
        for name in norms:
            ones(f"blk.{layer}.{name}.weight", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            matrix(f"blk.{layer}.{name}.weight", N_INNER, WIDTH)
        matrix(f"blk.{layer}.ffn_down.weight", WIDTH, N_INNER)


def _add_mamba(writer: Any, matrix: Any, ones: Any) -> None:
    import numpy as np

    n_state, n_convolution, n_step = 16, 4, 4
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(n_convolution)
    writer.add_ssm_inner_size(N_INNER)
    writer.add_ssm_state_size(n_state)
    writer.add_ssm_time_step_rank(n_step)
    writer.add_ssm_dt_b_c_rms(False)
    for layer in range(N_LAYERS):
        name = f"blk.{layer}"
        ones(f"{name}.attn_norm.weight", WIDTH)
        matrix(f"{name}.ssm_in.weight", 2 * N_INNER, WIDTH)
        matrix(f"{name}.ssm_conv1d.weight", N_INNER, n_convolution)
        matrix(f"{name}.ssm_conv1d.bias", N_INNER)
        matrix(f"{name}.ssm_x.weight", n_step + 2 * n_state, N_INNER)
        matrix(f"{name}.ssm_dt.weight", N_INNER, n_step)
        matrix(f"{name}.ssm_dt.bias", N_INNER)
        writer.add_tensor(f"{name}.ssm_a", -np.ones((N_INNER, n_state), np.float32))
        ones(f"{name}.ssm_d", N_INNER)
        matrix(f"{name}.ssm_out.weight", WIDTH, N_INNER)


if __name__ == "__main__":
    write_gguf(Path(sys.argv[1]), *sys.argv[2:3])
