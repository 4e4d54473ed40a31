"""A small random Llama and a small random Bert, for the examples that run them."""
from __future__ import annotations

import numpy as np

from calque import models

CONFIG = models.LlamaConfig(vocabulary=48, width=32, layers=1, heads=4, kv_heads=2, head_size=8,
                            hidden=64, tied=True, stop=(0,))


def weights() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {name: draw.normal(0, 0.4, shape).astype(np.float32)
            for name, shape in CONFIG.shapes().items()}


ENCODER = models.BertConfig(vocabulary=48, width=32, layers=1, heads=4, hidden=64, positions=16)


def encoder() -> models.Bert:
    draw = np.random.default_rng(1)
    return models.Bert(ENCODER, {name: draw.normal(0, 0.4, shape).astype(np.float32)
                                 for name, shape in ENCODER.shapes().items()})


BERT = encoder()
MODEL = models.Llama(CONFIG, weights(), sequences=2, capacity=24, chunks=(4,))
