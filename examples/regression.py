"""Linear, ridge and lasso regression by gradient descent: the losses differ, the loop is one.

The data have the shape of the tutorial's: 500 rows, four normal features, a factor of three
levels and one more feature. Linear and ridge are compared with their closed forms, lasso with
the condition that its minimum must satisfy.

    python examples/regression.py --steps 2000 --plot regression.png
"""
from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from report import plot, steps

import calque
import calque.numpy as jnp
from calque import lax

TRUE = np.array([1, 2, 0, -3, 0.5, 0.1, -0.3, 1], np.float32)


def data(rows: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.standard_normal((rows, 4)), np.eye(3)[rng.integers(0, 3, rows)],
                        rng.standard_normal((rows, 1))], 1).astype(np.float32)
    y = x @ TRUE + 0.3 * rng.standard_normal(rows).astype(np.float32)
    return jnp.asarray(x), jnp.asarray(y)


def linear_loss(b: Any, x: Any, y: Any, strength: Any) -> Any:
    return jnp.mean((x @ b - y) ** 2)


def ridge_loss(b: Any, x: Any, y: Any, strength: Any) -> Any:
    return linear_loss(b, x, y, strength) + strength * jnp.sum(b ** 2)


def lasso_loss(b: Any, x: Any, y: Any, strength: Any) -> Any:
    return linear_loss(b, x, y, strength) + strength * jnp.sum(jnp.abs(b))


LOSSES = {"linear": linear_loss, "ridge": ridge_loss, "lasso": lasso_loss}


@partial(calque.jit, static_argnames=("loss", "n"))
def fit(b: Any, x: Any, y: Any, strength: Any, rate: Any, *, loss: Any, n: int) -> Any:
    """n steps of gradient descent as one program: (b, the loss before each step)."""
    def step(b: Any, _: Any) -> Any:
        value, gradient = calque.value_and_grad(loss)(b, x, y, strength)
        return b - rate * gradient, value
    return lax.scan(step, b, length=n)


def distance(name: str, b: np.ndarray, x: Any, y: Any, strength: float) -> float:
    """How far b is from the minimum (by the coefficients, for lasso by its condition)."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if name == "lasso":  # |slope of the squares| <= strength, = -strength sign(b) where b != 0
        slope = 2 * x.T @ (x @ b - y) / len(y)
        far = np.where(np.abs(b) > 0.02, np.abs(slope + strength * np.sign(b)),
                       np.maximum(np.abs(slope) - strength, 0))
        return float(far.max())
    ridge = strength if name == "ridge" else 0.0
    exact = np.linalg.solve(x.T @ x / len(y) + ridge * np.eye(x.shape[1]), x.T @ y / len(y))
    return float(np.abs(b - exact).max())


def run(rows: int = 500, n: int = 2000, rate: float = 0.05, strength: float = 0.1
        ) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """For each loss: coefficients, losses along the way, distance from the minimum."""
    x, y = data(rows)
    start = calque.random.normal(calque.random.key(1234), (len(TRUE),))
    found = {}
    for i in steps(len(LOSSES), "fitting"):
        name, loss = list(LOSSES.items())[i]
        b, losses = fit(start, x, y, strength, rate, loss=loss, n=n)
        b = np.asarray(b)
        found[name] = b, np.asarray(losses), distance(name, b, x, y, strength)
    return found


def main(rows: Annotated[int, typer.Option(help="of the data")] = 500,
         n: Annotated[int, typer.Option("--steps", help="of gradient descent")] = 2000,
         rate: Annotated[float, typer.Option(help="learning rate")] = 0.05,
         strength: Annotated[float, typer.Option(help="of ridge's and lasso's penalty")] = 0.1,
         path: Annotated[Path | None, typer.Option("--plot", help="PNG")] = None) -> None:
    """Linear, ridge and lasso regression."""
    found = run(rows, n, rate, strength)
    print(f"{'true':8}" + " ".join(f"{v:7.3f}" for v in TRUE))
    for name, (b, losses, far) in found.items():
        print(f"{name:8}" + " ".join(f"{v:7.3f}" for v in b)
              + f"   loss {losses[-1]:.4f}, from the minimum {far:.1e}")

    def draw(curves: Any, bars: Any) -> None:
        for i, (name, (b, losses, _)) in enumerate(found.items()):
            curves.loglog(np.arange(1, len(losses) + 1), losses, label=name)
            bars.bar(np.arange(len(b)) + 0.25 * (i - 1), b, 0.25, label=name)
        bars.plot(np.arange(len(TRUE)), TRUE, "k_", markersize=24, label="true")
        curves.set(xlabel="step", ylabel="loss (mean squared error + penalty)",
                   title="gradient descent")
        bars.set(xlabel="number of the coefficient", ylabel="value", title=f"strength {strength}")
        bars.legend()
        curves.legend()
    plot(path, draw, 11, 4, 2)


if __name__ == "__main__":
    typer.run(main)
