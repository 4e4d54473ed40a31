"""A small random Llama, for the example that generates tokens."""
from __future__ import annotations

import numpy as np

from calque import models

CONFIG = models.LlamaConfig(vocabulary=48, width=32, layers=1, heads=4, kv_heads=2, head_size=8,
                            hidden=64, tied=True, stop=(0,))


def weights() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {name: draw.normal(0, 0.4, shape).astype(np.float32)
            for name, shape in CONFIG.shapes().items()}


MODEL = models.Llama(CONFIG, weights(), sequences=2, capacity=24, chunks=(4,))
