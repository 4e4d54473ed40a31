"""Hamiltonian Monte Carlo (Neal, 2011) on a banana, with vmap over chains.

The density is x ~ N(0, 1), y | x ~ N(x^2 / 2, 0.5^2): its moments are known, so the draws can be
checked: E y = 0.5, var y = 0.75. One chain is written; vmap runs all of them side by side.

    python examples/hmc.py --chains 64 --draws 1000 --plot hmc.png
"""
from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from report import plot, steps

import calque
import calque.numpy as jnp
from calque import lax, random

EXACT = {"E x": 0.0, "var x": 1.0, "E y": 0.5, "var y": 0.75}


def energy(q: Any) -> Any:
    """Minus the logarithm of the density, up to a constant."""
    x, y = q
    return 0.5 * x ** 2 + 0.5 * ((y - 0.5 * x ** 2) / 0.5) ** 2


def leapfrog(q: Any, p: Any, size: Any, n: int) -> Any:
    def step(_: Any, state: Any) -> Any:
        q, p = state
        p = p - size / 2 * calque.grad(energy)(q)
        q = q + size * p
        return q, p - size / 2 * calque.grad(energy)(q)
    return lax.fori_loop(0, n, step, (q, p))


def move(q: Any, key: Any, size: float, n: int) -> Any:
    """One transition: (new position, whether the proposal was taken)."""
    for_p, for_size, for_accept = random.split(key, 3)
    p = random.normal(for_p, q.shape)
    jitter = size * random.uniform(for_size, minval=0.7, maxval=1.3)
    new_q, new_p = leapfrog(q, p, jitter, n)
    gain = energy(q) + p @ p / 2 - energy(new_q) - new_p @ new_p / 2
    taken = jnp.log(random.uniform(for_accept)) < gain
    return jnp.where(taken, new_q, q), taken


@partial(calque.jit, static_argnames=("draws", "n"))
def sample(starts: Any, keys: Any, size: Any, *, draws: int, n: int) -> Any:
    """All chains: positions (chains, draws, 2) and the share of accepted proposals."""
    def chain(q: Any, key: Any) -> Any:
        def step(q: Any, key: Any) -> Any:
            q, taken = move(q, key, size, n)
            return q, (q, taken)
        return lax.scan(step, q, random.split(key, draws))[1]
    return calque.vmap(chain)(starts, keys)


def split_rhat(draws: np.ndarray) -> np.ndarray:
    """Split R-hat per coordinate (Gelman et al., BDA3, section 11.4)."""
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, half:2 * half]]).astype(np.float64)
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt((within * (half - 1) / half + between) / within)


def run(chains: int = 64, draws: int = 1000, size: float = 0.25, n: int = 12) -> dict[str, Any]:
    """Blocks of 100 draws a program; the first block is thrown away."""
    start = time.perf_counter()
    block = min(100, draws)
    q = random.normal(random.key(0), (chains, 2)) * 2
    kept, accepted = [], []
    for i in steps(-(-draws // block) + 1, "sampling"):
        keys = random.split(random.key(1 + i), chains)
        found, taken = sample(q, keys, size, draws=block, n=n)
        q = found[:, -1]
        if i:
            kept.append(found)
            accepted.append(taken.mean())
    draws_ = np.concatenate([np.asarray(k) for k in kept], axis=1)
    x, y = draws_[..., 0].ravel(), draws_[..., 1].ravel()
    return {"draws": draws_, "accepted": float(np.mean([float(a) for a in accepted])),
            "rhat": split_rhat(draws_), "seconds": time.perf_counter() - start,
            "moments": dict(zip(EXACT, (x.mean(), x.var(), y.mean(), y.var())))}


def main(chains: Annotated[int, typer.Option()] = 64,
         draws: Annotated[int, typer.Option(help="per chain")] = 1000,
         size: Annotated[float, typer.Option(help="of a leapfrog step")] = 0.25,
         n: Annotated[int, typer.Option("--leaps", help="leapfrog steps per draw")] = 12,
         path: Annotated[Path | None, typer.Option("--plot", help="PNG")] = None) -> None:
    """Draw from a banana."""
    found = run(chains, draws, size, n)
    print(f"{chains} chains, {found['draws'].shape[1]} draws each: {found['accepted']:.0%} "
          f"accepted, R-hat {found['rhat'].max():.3f}, {found['seconds']:.1f} s")
    for name, value in found["moments"].items():
        print(f"{name:6} {value:7.3f}   exact {EXACT[name]:5.2f}")

    def draw(cloud: Any, trace: Any) -> None:
        some = found["draws"].reshape(-1, 2)[:: max(1, found["draws"].size // 20_000)]
        x, y = np.meshgrid(np.linspace(-3.5, 3.5, 200), np.linspace(-2, 7, 200))
        level = 0.5 * x ** 2 + 0.5 * ((y - 0.5 * x ** 2) / 0.5) ** 2
        cloud.plot(some[:, 0], some[:, 1], ".", ms=1.5)
        cloud.contour(x, y, level, levels=[0.5, 2, 4.5], colors="k", linewidths=0.8)
        cloud.set(xlabel="x", ylabel="y", title="draws and levels of the density")
        for c in range(3):
            trace.plot(found["draws"][c, :300, 1], lw=0.8)
        trace.set(xlabel="draw", ylabel="y", title="three chains")
    plot(path, draw, 11, 4.5, 2)


if __name__ == "__main__":
    typer.run(main)
