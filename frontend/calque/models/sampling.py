"""The next token, chosen on the device.

The distribution is cut as is usual: by temperature, then to the top_k most probable tokens, then to
the fewest of those whose probabilities make top_p.  Start reading at `sample`.
"""
from __future__ import annotations

from typing import Any

import calque.numpy as jnp
from calque import lax, nn, random
from calque.api.batching import vmap
from calque.core.errors import explain
from calque.models.settings import ModelError


def sample(logits: Any, keys: Any, temperature: Any, top_k: Any, top_p: Any) -> Any:
    """Choose a token for each row.

    Args:
      logits: float32[n, vocabulary].
      keys: uint32[n, 2], a random key for each row.
      temperature: float32[n]; 0 takes the most probable token.
      top_k: int32[n]; how many tokens are left, 0 all.
      top_p: float32[n]; how much probability is left, 1 all.

    Returns:
      int32[n].  Tokens as probable as the last that is left are left, too.

    Raises:
      ModelError: the rows of the arguments are not as many as those of the logits.

    Example:
      >>> import numpy as np
      >>> import calque.numpy as jnp
      >>> from calque import random
      >>> from calque.models import sample
      >>> logits = jnp.log(jnp.array([[0.5, 0.3, 0.2]]))
      >>> keys = random.PRNGKey(0)[None]
      >>> sample(logits, keys, jnp.zeros(1), jnp.zeros(1, int), jnp.ones(1))
      Array([0], dtype=int32)
      >>> drawn = [int(sample(logits, random.PRNGKey(i)[None], jnp.ones(1), jnp.array([2]),
      ...                     jnp.ones(1))[0]) for i in range(10)]
      >>> sorted(set(drawn))
      [0, 1]
    """
    rows = {name: tuple(x.shape) for name, x in (
        ("keys", keys), ("temperature", temperature), ("top_k", top_k), ("top_p", top_p))}
    for name, shape in rows.items():
        if shape[:1] != logits.shape[:1]:
            raise ModelError(explain(
                f"{name} has the shape {shape}, and there are {logits.shape[0]} rows of logits.",
                "models.sample", "give one value for each row."))
    greedy = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    drawn = lax.cond(jnp.any(temperature > 0), _draw, lambda logits, *_: greedy,
                     logits, keys, temperature, top_k, top_p)
    return jnp.where(temperature > 0, drawn, greedy)


def _draw(logits: Any, keys: Any, temperature: Any, top_k: Any, top_p: Any) -> Any:
    count = logits.shape[-1]
    scaled = logits / jnp.maximum(temperature, 1e-6)[:, None]
    ordered = jnp.flip(jnp.sort(scaled, axis=-1), axis=-1)
    last = jnp.clip(jnp.where(top_k > 0, top_k, count) - 1, 0, count - 1)
    least = jnp.take_along_axis(ordered, last[:, None], axis=-1)
    left = nn.softmax(jnp.where(ordered >= least, ordered, -jnp.inf), axis=-1)
    before = jnp.cumsum(left, axis=-1) - left  # of more probable tokens
    kept = (before < top_p[:, None]) & (left > 0)
    kept = kept.at[:, 0].set(True)
    least = jnp.min(jnp.where(kept, ordered, jnp.inf), axis=-1, keepdims=True)
    noise = vmap(lambda key: random.gumbel(key, (count,)))(keys)
    return jnp.argmax(jnp.where(scaled >= least, scaled + noise, -jnp.inf),
                      axis=-1).astype(jnp.int32)
