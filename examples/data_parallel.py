"""A network learns on eight devices: each has a part of the batch, all have the parameters.

Two ways to write it give the losses of one device: jit over a batch that is spread over a mesh,
where nothing else changes, and shard_map, where a step is written for one device's part and
gradients are averaged by pmean.

    python examples/data_parallel.py --steps 300 --plot data_parallel.png
"""
from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from report import plot

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.sharding import Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

DEVICES = 8


def init(widths: list[int], key: Any) -> list[dict[str, Any]]:
    keys = random.split(key, len(widths) - 1)
    return [{"W": random.normal(k, (n, m)) * np.sqrt(2 / n), "b": jnp.zeros(m)}
            for k, n, m in zip(keys, widths[:-1], widths[1:])]


def loss(params: Any, x: Any, y: Any) -> Any:
    *hidden, last = params
    for layer in hidden:
        x = jnp.tanh(x @ layer["W"] + layer["b"])
    return jnp.mean((x @ last["W"] + last["b"] - y) ** 2)


def train(step: Any, params: Any, x: Any, y: Any, rate: float, n: int) -> tuple[Any, Any]:
    """n steps: (params, the loss before each); step gives the loss and its gradient."""
    def one(params: Any, _: Any) -> Any:
        value, grads = step(params, x, y)
        return calque.tree.map(lambda p, g: p - rate * g, params, grads), value
    return lax.scan(one, params, length=n)


def averaged(params: Any, x: Any, y: Any) -> Any:
    """The loss of this device's part and its gradient, averaged over the devices."""
    return lax.pmean(calque.value_and_grad(loss)(params, x, y), "data")


def run(rows: int = 512, width: int = 64, n: int = 300, rate: float = 0.02) -> dict[str, Any]:
    mesh = Mesh(np.array(calque.devices()[:DEVICES]), ("data",))
    params = init([2, width, width, 1], random.key(0))
    x = random.uniform(random.key(1), (rows, 2), minval=-2.0, maxval=2.0)
    y = jnp.sin(x[:, :1]) * x[:, 1:]
    copies = calque.device_put(params, NamedSharding(mesh, P()))
    parts = calque.device_put((x, y), NamedSharding(mesh, P("data")))
    mapped = calque.shard_map(averaged, mesh=mesh, in_specs=(P(), P("data"), P("data")),
                              out_specs=P(), check_vma=False)
    whole = calque.value_and_grad(loss)
    found: dict[str, Any] = {"curves": {}, "seconds": {}}
    for name, step, start, batch in [("one device", whole, params, (x, y)),
                                     ("jit", whole, copies, parts),
                                     ("shard_map", mapped, copies, parts)]:
        trained = calque.jit(partial(train, step, rate=rate, n=n))
        trained(start, *batch)  # compiles
        begun = time.perf_counter()
        last, curve = trained(start, *batch)
        found["curves"][name] = np.asarray(curve)
        found["seconds"][name] = time.perf_counter() - begun
        found[name] = last
    found["parts"] = [s.data.shape for s in parts[0].addressable_shards]
    return found


def main(rows: Annotated[int, typer.Option(help="of the batch, in all")] = 512,
         width: Annotated[int, typer.Option(help="of the hidden layers")] = 64,
         n: Annotated[int, typer.Option("--steps")] = 300,
         path: Annotated[Path | None, typer.Option("--plot", help="PNG")] = None) -> None:
    """Train in three ways."""
    calque.config.update("jax_num_cpu_devices", DEVICES)
    found = run(rows, width, n)
    print(f"each of {DEVICES} devices has {found['parts'][0]} of {(rows, 2)}; parameters lie on "
          f"{found['jit'][0]['W'].sharding.spec} of {found['jit'][0]['W'].sharding.num_devices}")
    for name, curve in found["curves"].items():
        print(f"{name:10}  loss {curve[0]:.5f} -> {curve[-1]:.5f} in "
              f"{found['seconds'][name]:.2f} s")

    def draw(axes: Any) -> None:
        for i, (name, curve) in enumerate(found["curves"].items()):  # one on top of the other
            axes.semilogy(curve, label=name, lw=6 - 2 * i, color=("C0", "C1", "k")[i % 3],
                          ls=("-", "--", ":")[i % 3])
        axes.set(xlabel="step", ylabel="loss (mean squared error)",
                 title="the same losses, however it is spread")
        axes.legend()
    plot(path, draw, 6, 4)


if __name__ == "__main__":
    typer.run(main)
