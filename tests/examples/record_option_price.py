"""Prints examples/option_price.py's RECORDED: the tutorial's function in jax 0.10.2 on the CPU.

Run by hand (python tests/examples/record_option_price.py); no test imports it.
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_threefry_partitionable", False)
STEPS, BETA, STRIKE, DRIFT, RHO, NU, START, START_H = 20, 0.99, 100, 0.0001, 0.1, 0.001, 10, 0


@partial(jax.jit, static_argnames="paths")
def price(key, paths):
    s, h = jnp.full(paths, np.log(START)), jnp.full(paths, START_H)
    for _ in range(STEPS):
        key, sub = jax.random.split(key)
        z = jax.random.normal(sub, (2, paths))
        s = s + DRIFT + jnp.exp(h) * z[0, :]
        h = RHO * h + NU * z[1, :]
    return BETA ** STEPS * jnp.mean(jnp.maximum(jnp.exp(s) - STRIKE, 0))


for paths in (20_000, 1_000_000, 10_000_000):
    for seed in (1, 2, 3):
        print(f"({seed}, {paths:_}): {float(price(jax.random.PRNGKey(seed), paths))!r},",
              flush=True)
