"""BERT's layers, the mean over tokens and length 1, in NumPy's float64, text by text."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf)


def embed(raw: dict[str, Any], weights: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """float64[width] of one text; `raw` is a config.json's dictionary."""
    get = {k: np.asarray(v, np.float64) for k, v in weights.items()}
    heads, size = raw["num_attention_heads"], raw["hidden_size"] // raw["num_attention_heads"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        spread = np.sqrt(x.var(-1, keepdims=True) + raw["layer_norm_eps"])
        x = (x - x.mean(-1, keepdims=True)) / spread
        return x * get[name + ".weight"] + get[name + ".bias"]

    def product(x: np.ndarray, name: str) -> np.ndarray:
        return x @ get[name + ".weight"].T + get[name + ".bias"]

    at = "embeddings."
    x = norm(get[at + "word_embeddings.weight"][tokens]
             + get[at + "position_embeddings.weight"][:len(tokens)]
             + get[at + "token_type_embeddings.weight"][0], at + "LayerNorm")
    for i in range(raw["num_hidden_layers"]):
        at = f"encoder.layer.{i}."
        q, k, v = (product(x, f"{at}attention.self.{n}") for n in ("query", "key", "value"))
        found = []
        for h in range(heads):
            own = slice(h * size, h * size + size)
            e = np.exp(q[:, own] @ k[:, own].T / np.sqrt(size))
            found.append(e / e.sum(-1, keepdims=True) @ v[:, own])
        x = norm(x + product(np.hstack(found), at + "attention.output.dense"),
                 at + "attention.output.LayerNorm")
        h = product(x, at + "intermediate.dense")
        h = h * (1 + _erf(h / np.sqrt(2))) / 2
        x = norm(x + product(h, at + "output.dense"), at + "output.LayerNorm")
    mean = x.mean(0)
    return mean / np.sqrt(mean @ mean)
