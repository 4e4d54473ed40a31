"""A European call by Monte Carlo in several processes, beside the formula of Black and Scholes.

Each process draws its own paths; the estimate is one mean over all of them, one message.  The same
paths are drawn whatever the number of processes, so the price is the same to rounding.

    calque run-many -n 2 examples/option_processes.py --paths 4000000
    python examples/option_processes.py --address localhost:23456 --processes 2 --process 0 &
    python examples/option_processes.py --address localhost:23456 --processes 2 --process 1

examples/launchers starts it by Slurm, Ray and Dask.
"""
from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import typer

import calque
import calque.numpy as jnp
from calque import random
from calque.distributed.cluster import detected
from calque.sharding import Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

SPOT, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.2, 1.0
BLOCKS = 240  # of paths, each with a key of its own; divides by 1 to 6, 8, 10 and 12 devices


def black_scholes() -> float:
    """The price in closed form (Black and Scholes 1973)."""
    spread = VOLATILITY * math.sqrt(YEARS)
    d = (math.log(SPOT / STRIKE) + (RATE + VOLATILITY ** 2 / 2) * YEARS) / spread

    def normal(v: float) -> float:
        return (1 + math.erf(v / math.sqrt(2))) / 2
    return SPOT * normal(d) - STRIKE * math.exp(-RATE * YEARS) * normal(d - spread)


def payoffs(key: Any, paths: int) -> Any:
    """The mean of a block's payoffs, and of their squares, discounted."""
    z = random.normal(key, (paths,))
    drift = (RATE - VOLATILITY ** 2 / 2) * YEARS
    end = SPOT * jnp.exp(drift + VOLATILITY * math.sqrt(YEARS) * z)
    paid = math.exp(-RATE * YEARS) * jnp.maximum(end - STRIKE, 0)
    return jnp.stack([paid.mean(), (paid ** 2).mean()])


def price(paths: int) -> tuple[float, float]:
    """The estimate and its standard error, from `paths` paths in all processes together."""
    mesh = Mesh(np.array(calque.devices()), ("paths",))
    rows = NamedSharding(mesh, P("paths"))
    keys = np.asarray(random.key_data(random.split(random.key(1), BLOCKS)))
    mine = calque.make_array_from_callback(keys.shape, rows, lambda i: keys[i])
    block = paths // BLOCKS

    def estimate(words: Any) -> Any:
        means = calque.vmap(lambda w: payoffs(random.wrap_key_data(w), block))(words)
        return calque.lax.pmean(means.mean(0), "paths")

    mean, square = np.asarray(calque.jit(calque.shard_map(
        estimate, mesh=mesh, in_specs=P("paths"), out_specs=P()))(mine))
    return float(mean), math.sqrt((square - mean ** 2) / (block * BLOCKS))


def main(paths: Annotated[int, typer.Option(help="in all processes together")] = 2_400_000,
         address: Annotated[str | None, typer.Option(help="host:port of process 0")] = None,
         processes: Annotated[int | None, typer.Option(help="how many")] = None,
         process: Annotated[int | None, typer.Option(help="which of them this is")] = None) -> None:
    """Price the option, in one process or as one of several."""
    if address is None and processes is None and detected(None) is None:
        processes, process = 1, 0
    calque.distributed.initialize(address, processes, process)
    found, error = price(paths)
    if calque.process_index() == 0:
        print(f"{calque.process_count()} processes: {found:.4f} +- {error:.4f}, "
              f"in closed form {black_scholes():.4f}", flush=True)


if __name__ == "__main__":
    typer.run(main)
