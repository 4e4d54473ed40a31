"""A European call option by Monte Carlo, in float64: the exercise of "An Introduction to JAX".

The logarithm of the price makes n steps with a volatility that is itself a process, exp(h) times
the one given. The tutorial's is 1 a step, at which the price is all in a few paths; RECORDED holds
what jax 0.10.2 gives for it on the CPU (JAX_ENABLE_X64=1, JAX_THREEFRY_PARTITIONABLE=0, the
tutorial's function); tests/examples/record_option_price.py printed it.

    python examples/option_price.py --paths 10000000 --seed 1
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

STEPS, BETA, STRIKE = 20, 0.99, 100
DRIFT, RHO, NU, START, START_H = 0.0001, 0.1, 0.001, 10, 0
RECORDED = {  # (seed, paths): price
    (1, 20_000): 46657.7068815793,
    (2, 20_000): 62846.6058834727,
    (3, 20_000): 198041.44171257238,
    (1, 1_000_000): 154893.82917913943,
    (2, 1_000_000): 100155.98050268565,
    (3, 1_000_000): 147051.50058549305,
    (1, 10_000_000): 180876.48840920714,
    (2, 10_000_000): 122327.93754186998,
    (3, 10_000_000): 185129.85436123525,
}


def start(key: Any, paths: int) -> tuple[Any, Any, Any]:
    """Key, logarithm of the price, logarithm of the volatility."""
    return key, jnp.full(paths, np.log(START)), jnp.full(paths, float(START_H))


def step(state: tuple[Any, Any, Any], volatility: Any = 1.0) -> tuple[Any, Any, Any]:
    key, s, h = state
    key, sub = random.split(key)
    z = random.normal(sub, (2, len(s)))
    return key, s + DRIFT + volatility * jnp.exp(h) * z[0, :], RHO * h + NU * z[1, :]


@partial(calque.jit, static_argnames="paths")
def price(key: Any, volatility: Any, *, paths: int) -> Any:
    """(price, its standard error): all steps written out, one fused program."""
    state = start(key, paths)
    for _ in range(STEPS):
        state = step(state, volatility)
    pay = jnp.maximum(jnp.exp(state[1]) - STRIKE, 0)
    mean, square = jnp.mean(pay), jnp.mean(pay ** 2)
    return BETA ** STEPS * mean, BETA ** STEPS * jnp.sqrt((square - mean ** 2) / paths)


@partial(calque.jit, static_argnames="paths")
def histories(key: Any, volatility: Any = 1.0, *, paths: int) -> Any:
    """The price after every step, (STEPS, paths), for the plot."""
    def go(state: Any, _: Any) -> Any:
        state = step(state, volatility)
        return state, jnp.exp(state[1])
    return lax.scan(go, start(key, paths), length=STEPS)[1]


def run(paths: int, seed: int, volatility: float = 1.0) -> tuple[float, float, float]:
    """(price, its standard error, seconds of the second call)."""
    with calque.enable_x64(True):
        key = random.PRNGKey(seed)
        value, error, taken = 0.0, 0.0, 0.0
        for _ in steps(2, "compiling and running"):
            begun = time.perf_counter()
            value, error = map(float, price(key, volatility, paths=paths))
            taken = time.perf_counter() - begun
        return value, error, taken


def main(paths: Annotated[int, typer.Option()] = 10_000_000,
         seed: Annotated[int, typer.Option()] = 1,
         volatility: Annotated[float, typer.Option(help="of the logarithm, a step")] = 0.2,
         path: Annotated[Path | None, typer.Option("--plot", help="PNG")] = None) -> None:
    """The price of a call option."""
    value, error, taken = run(paths, seed, volatility)
    print(f"price {value:.4g} +- {error:.1g} (standard error) from {paths:,} paths, seed {seed}, "
          f"in {taken * 1e3:.0f} ms")
    if (seed, paths) in RECORDED and volatility == 1.0:
        want = RECORDED[seed, paths]
        print(f"jax's price {want:.8g}, relative difference {abs(value / want - 1):.1e}")

    def draw(lines: Any, mean: Any) -> None:
        with calque.enable_x64(True):
            many = np.asarray(histories(random.PRNGKey(seed), volatility,
                                        paths=min(paths, 200_000)))
        lines.semilogy(np.arange(1, STEPS + 1), many[:, :60], lw=0.6)
        lines.axhline(STRIKE, color="k", lw=1)
        lines.text(1, STRIKE * 1.05, "strike", va="bottom")
        lines.set(xlabel="step (days)", xticks=range(0, STEPS + 1, 5),
                  ylabel="price of the asset (units of currency)",
                  title="60 paths")
        pay = BETA ** STEPS * np.maximum(many[-1] - STRIKE, 0)
        count = np.arange(1, len(pay) + 1)
        mean.semilogx(count[10:], np.cumsum(pay)[10:] / count[10:], label="mean of the first paths")
        mean.axhspan(value - 2 * error, value + 2 * error, color="C1", alpha=0.4)
        mean.axhline(value, color="k", lw=1, label=f"{paths:,} paths, two standard errors")
        mean.set(xlabel="number of paths", ylabel="price of the option (units of currency)",
                 title=f"price {value:.4g} ± {error:.1g}")
        mean.legend()
    plot(path, draw, 11, 4, 2)


if __name__ == "__main__":
    typer.run(main)
