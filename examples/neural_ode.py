"""A neural ODE: a network that is the right-hand side learns a damped pendulum from trajectories.

Runge-Kutta steps in a scan, mapped over trajectories; the gradient goes back through the solver
(Chen et al., 2018, but discretize first, differentiate then).

    python examples/neural_ode.py --steps 500 --plot neural_ode.png
"""
from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from report import adam, adam_init, plot, steps

import calque
import calque.numpy as jnp
from calque import lax, random

EVERY = 25  # steps of training in one program
STEP = 0.1


def pendulum(state: Any) -> Any:
    angle, speed = state
    return jnp.stack([speed, -0.15 * speed - jnp.sin(angle)])


def solve(field: Any, start: Any, n: int) -> Any:
    """States after 0 to n steps of the classical Runge-Kutta method, (n + 1, 2)."""
    def step(y: Any, _: Any) -> Any:
        a = field(y)
        b = field(y + STEP / 2 * a)
        c = field(y + STEP / 2 * b)
        d = field(y + STEP * c)
        new = y + STEP / 6 * (a + 2 * b + 2 * c + d)
        return new, new
    return jnp.concatenate([start[None], lax.scan(step, start, length=n)[1]])


def init(key: Any, width: int) -> Any:
    sizes = (2, width, width, 2)
    return [{"w": random.normal(k, (n, m)) / np.sqrt(n), "b": jnp.zeros(m)}
            for k, n, m in zip(random.split(key, 3), sizes[:-1], sizes[1:])]


def network(params: Any, y: Any) -> Any:
    *hidden, last = params
    for layer in hidden:
        y = jnp.tanh(y @ layer["w"] + layer["b"])
    return y @ last["w"] + last["b"]


def solutions(params: Any, starts: Any, n: int) -> Any:
    return calque.vmap(lambda s: solve(partial(network, params), s, n))(starts)


def loss(params: Any, paths: Any) -> Any:
    return jnp.mean((solutions(params, paths[:, 0], paths.shape[1] - 1) - paths) ** 2)


@partial(calque.jit, static_argnames="n")
def truth(starts: Any, *, n: int) -> Any:
    return calque.vmap(lambda s: solve(pendulum, s, n))(starts)


@partial(calque.jit, static_argnames="n")
def train(params: Any, state: Any, pieces: Any, rate: Any, key: Any, *, n: int) -> Any:
    """n steps, each on 32 of the pieces of trajectories."""
    def step(carry: Any, key: Any) -> Any:
        params, state = carry
        rows = random.randint(key, (32,), 0, len(pieces))
        value, grads = calque.value_and_grad(loss)(params, pieces[rows])
        return adam(params, grads, state, rate), value

    (params, state), values = lax.scan(step, (params, state), random.split(key, n))
    return params, state, values


def run(n: int = 1000, width: int = 32, length: int = 10, horizon: int = 150) -> dict[str, Any]:
    """Train on pieces of `length` steps, then follow three unseen starts for `horizon` steps."""
    start = time.perf_counter()
    # too slow to turn over: the angle stays bounded
    starts = random.uniform(random.key(0), (64, 2), minval=-1.0) * jnp.array([2.0, 1.0])
    whole = truth(starts, n=4 * length)
    pieces = jnp.concatenate([whole[:, i * length:(i + 1) * length + 1] for i in range(4)])
    params = init(random.key(1), width)
    state, curve = adam_init(params), []
    for i in steps(-(-n // EVERY), "training"):
        rate = 5e-3 * (0.5 + 0.5 * np.cos(np.pi * i * EVERY / n))
        params, state, values = train(params, state, pieces, rate, random.key(i + 2),
                                      n=min(EVERY, n - i * EVERY))
        curve.append(values)
    unseen = jnp.array([[1.9, 0.0], [-1.0, 1.0], [0.5, -0.8]])
    return {"losses": np.concatenate([np.asarray(v) for v in curve]),
            "truth": np.asarray(truth(unseen, n=horizon)),
            "learned": np.asarray(calque.jit(solutions, static_argnums=2)(params, unseen, horizon)),
            "seconds": time.perf_counter() - start}


def main(n: Annotated[int, typer.Option("--steps")] = 1000,
         width: Annotated[int, typer.Option(help="of the two hidden layers")] = 32,
         path: Annotated[Path | None, typer.Option("--plot", help="PNG")] = None) -> None:
    """A network learns a pendulum."""
    found = run(n, width)
    off = np.sqrt(np.mean((found["truth"] - found["learned"]) ** 2))
    print(f"loss {found['losses'][0]:.1e} before, {found['losses'][-25:].mean():.1e} after {n} "
          f"steps; unseen trajectories over {(found['truth'].shape[1] - 1) * STEP:.0f} s: off by "
          f"{off:.3f} (rms), {found['seconds']:.0f} s")

    def draw(curve: Any, phases: Any, times: Any) -> None:
        curve.semilogy(found["losses"])
        curve.set(xlabel="step", ylabel="loss (mean squared error)", title="training")
        t = np.arange(found["truth"].shape[1]) * STEP
        for i in range(3):
            for kind, style in (("truth", "-"), ("learned", "--")):
                y = found[kind][i]
                label = kind if i == 0 else None
                phases.plot(y[:, 0], y[:, 1], f"C{i}{style}", lw=1, label=label)
                times.plot(t, y[:, 0], f"C{i}{style}", lw=1, label=label)
        phases.set(xlabel="angle (rad)", ylabel="speed (rad/s)", title="unseen starts")
        times.set(xlabel="time (s)", ylabel="angle (rad)", title="the same over time")
        phases.legend()
    plot(path, draw, 14, 4, 3)


if __name__ == "__main__":
    typer.run(main)
