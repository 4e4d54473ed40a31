"""A Llama-shaped model in NumPy's float64, written for tests alone: all tokens at once, no caches.

Names of arrays are those of .safetensors files; `gguf_arrays` renames and permutes them as
converters to GGUF do.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def random_weights(raw: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays of a config.json's dictionary."""
    rng = np.random.default_rng(seed)
    w, h, n = raw["hidden_size"], raw["intermediate_size"], raw["num_attention_heads"]
    kv, d = raw["num_key_value_heads"], raw.get("head_dim", w // n)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.normal(size=(rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def scale() -> np.ndarray:
        return rng.uniform(0.5, 1.5, w).astype(np.float32)

    made = {"model.embed_tokens.weight": matrix(raw["vocab_size"], w) * np.float32(np.sqrt(w)),
            "model.norm.weight": scale()}
    if not raw.get("tie_word_embeddings"):
        made["lm_head.weight"] = matrix(raw["vocab_size"], w) * np.float32(3)
    for i in range(raw["num_hidden_layers"]):
        p = f"model.layers.{i}."
        made |= {p + "input_layernorm.weight": scale(),
                 p + "post_attention_layernorm.weight": scale(),
                 p + "self_attn.q_proj.weight": matrix(n * d, w),
                 p + "self_attn.k_proj.weight": matrix(kv * d, w),
                 p + "self_attn.v_proj.weight": matrix(kv * d, w),
                 p + "self_attn.o_proj.weight": matrix(w, n * d),
                 p + "mlp.gate_proj.weight": matrix(h, w), p + "mlp.up_proj.weight": matrix(h, w),
                 p + "mlp.down_proj.weight": matrix(w, h)}
    return made


def inverse_frequencies(raw: dict[str, Any]) -> np.ndarray:
    """Angles a position, one for each pair; Llama 3's stretched ones by cases."""
    d = raw.get("head_dim", raw["hidden_size"] // raw["num_attention_heads"])
    made = []
    for j in range(d // 2):
        f = raw.get("rope_theta", 10000.0) ** (-2 * j / d)
        s = raw.get("rope_scaling")
        if s:
            length, old = 2 * np.pi / f, s["original_max_position_embeddings"]
            if length > old / s["low_freq_factor"]:
                f = f / s["factor"]
            elif length >= old / s["high_freq_factor"]:
                part = (old / length - s["low_freq_factor"]) / (
                    s["high_freq_factor"] - s["low_freq_factor"])
                f = (1 - part) * f / s["factor"] + part * f
        made.append(f)
    return np.array(made)


def logits(raw: dict[str, Any], weights: dict[str, np.ndarray], tokens: list[int],
           given: Callable[[np.ndarray], np.ndarray] = lambda x: x) -> np.ndarray:
    """(tokens, vocabulary) of one sequence; `given`: what products read of their left operand."""
    get = {k: np.asarray(v, np.float64) for k, v in weights.items()}
    n, kv = raw["num_attention_heads"], raw["num_key_value_heads"]
    d = raw.get("head_dim", raw["hidden_size"] // n)
    angle = np.outer(np.arange(len(tokens)), inverse_frequencies(raw))

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + raw["rms_norm_eps"]) * get[name]

    def turned(x: np.ndarray) -> np.ndarray:  # of one head
        z = (x[:, :d // 2] + 1j * x[:, d // 2:]) * np.exp(1j * angle)
        return np.hstack([z.real, z.imag])

    x = get["model.embed_tokens.weight"][tokens]
    for i in range(raw["num_hidden_layers"]):
        p = f"model.layers.{i}."
        y = norm(x, p + "input_layernorm.weight")
        q, k, v = (given(y) @ get[f"{p}self_attn.{r}_proj.weight"].T for r in "qkv")
        heads = []
        for head in range(n):
            own = slice(head * d, head * d + d)
            other = slice(head // (n // kv) * d, (head // (n // kv)) * d + d)
            scores = turned(q[:, own]) @ turned(k[:, other]).T / np.sqrt(d)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            e = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(e / e.sum(-1, keepdims=True) @ v[:, other])
        x = x + given(np.hstack(heads)) @ get[p + "self_attn.o_proj.weight"].T
        y = norm(x, p + "post_attention_layernorm.weight")
        gate = given(y) @ get[p + "mlp.gate_proj.weight"].T
        up = given(y) @ get[p + "mlp.up_proj.weight"].T
        x = x + given(gate / (1 + np.exp(-gate)) * up) @ get[p + "mlp.down_proj.weight"].T
    head = "model.embed_tokens.weight" if raw.get("tie_word_embeddings") else "lm_head.weight"
    return given(norm(x, "model.norm.weight")) @ get[head].T


def greedy(raw: dict[str, Any], weights: dict[str, np.ndarray], prompt: list[int], most: int
           ) -> list[int]:
    """The most probable tokens behind a prompt."""
    tokens = list(prompt)
    for _ in range(most):
        tokens.append(int(logits(raw, weights, tokens)[-1].argmax()))
    return tokens[len(prompt):]


_GGUF = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def gguf_arrays(raw: dict[str, Any], weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays under GGUF's names; rows of q and k so that pairs are neighbours."""
    whole = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
             "model.norm.weight": "output_norm.weight"}
    made = {}
    for name, value in weights.items():
        if name in whole:
            made[whole[name]] = value
            continue
        _, _, layer, rest = name.split(".", 3)
        role = rest.removesuffix(".weight")
        if role in ("self_attn.q_proj", "self_attn.k_proj"):
            heads = raw["num_attention_heads" if "q_proj" in role else "num_key_value_heads"]
            value = value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        made[f"blk.{layer}.{_GGUF[role]}.weight"] = value
    return made
