"""Hamiltonian Monte Carlo on eight devices: pmap over devices, vmap over the chains of each.

The density and a chain's transition are those of hmc.py. While chains warm up, all devices agree
on the size of a step: they average their acceptance by pmean and follow it (Robbins and Monro).

    python examples/chains.py --chains 8 --draws 500
"""
from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

import hmc
import numpy as np
import typer

import calque
import calque.numpy as jnp
from calque import lax, random

DEVICES = 8
WANTED = 0.8  # share of proposals that should be taken


def moved(q: Any, key: Any, size: Any, leaps: int) -> Any:
    """One transition of a device's chains: positions, and how often proposals were taken."""
    keys = random.split(key, q.shape[0])
    q, taken = calque.vmap(partial(hmc.move, size=size, n=leaps))(q, keys)
    return q, taken.mean()


@partial(calque.pmap, axis_name="device", static_broadcasted_argnums=(2, 3, 4))
def sample(q: Any, key: Any, warmup: int, draws: int, leaps: int) -> Any:
    """A device's chains: draws (draws, chains, 2), acceptance, the size of a step."""
    def adapt(state: Any, row: Any) -> Any:
        q, size = state
        i, key = row
        q, taken = moved(q, key, size, leaps)
        gain = (lax.pmean(taken, "device") - WANTED) / jnp.sqrt(i + 1.0)
        return (q, size * jnp.exp(gain)), None

    def draw(q: Any, key: Any) -> Any:
        q, taken = moved(q, key, size, leaps)
        return q, (q, taken)

    first, second = random.split(key)
    (q, size), _ = lax.scan(adapt, (q, 0.1), (jnp.arange(warmup), random.split(first, warmup)))
    _, (found, taken) = lax.scan(draw, q, random.split(second, draws))
    return found, taken.mean(), size


def run(chains: int = 8, draws: int = 500, warmup: int = 100, leaps: int = 12) -> dict[str, Any]:
    start = time.perf_counter()
    q = 2 * random.normal(random.key(0), (DEVICES, chains, 2))
    found, taken, size = sample(q, random.split(random.key(1), DEVICES), warmup, draws, leaps)
    # (devices, draws, chains, 2) to (all chains, draws, 2)
    rows = np.asarray(found).swapaxes(1, 2).reshape(DEVICES * chains, draws, 2)
    x, y = rows[..., 0].ravel(), rows[..., 1].ravel()
    return {"draws": rows, "sharding": found.sharding, "accepted": np.asarray(taken),
            "sizes": np.asarray(size), "rhat": hmc.split_rhat(rows),
            "moments": dict(zip(hmc.EXACT, (x.mean(), x.var(), y.mean(), y.var()))),
            "seconds": time.perf_counter() - start}


def main(chains: Annotated[int, typer.Option(help="on each device")] = 8,
         draws: Annotated[int, typer.Option(help="per chain")] = 500,
         leaps: Annotated[int, typer.Option(help="leapfrog steps per draw")] = 12) -> None:
    """Draw from a banana on eight devices."""
    calque.config.update("jax_num_cpu_devices", DEVICES)
    found = run(chains, draws, leaps=leaps)
    print(f"{DEVICES} devices x {chains} chains, {draws} draws each: steps of "
          f"{found['sizes'][0]:.3f}, {found['accepted'].mean():.0%} accepted, "
          f"R-hat {found['rhat'].max():.3f}, {found['seconds']:.1f} s")
    for name, value in found["moments"].items():
        print(f"{name:6} {value:7.3f}   exact {hmc.EXACT[name]:5.2f}")


if __name__ == "__main__":
    typer.run(main)
