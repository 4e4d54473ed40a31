"""A network learns digits in several processes, and goes on from a checkpoint with another number
of them.

Each process has a part of the batch; jit over arrays that span them sends one message a step.

    calque run-many -n 4 examples/many_processes.py --folder /tmp/digits --steps 100
    calque run-many -n 2 examples/many_processes.py --folder /tmp/digits --steps 200
    python examples/many_processes.py --folder /tmp/digits --steps 300
"""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.datasets import load_digits

import calque
import calque.numpy as jnp
from calque import checkpoints, random
from calque.sharding import Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

BATCH = 240  # divides by 1 to 6, 8 and 10 devices


def init(width: int) -> dict[str, Any]:
    first, second = random.split(random.key(0))
    return {"W": random.normal(first, (64, width)) / 8, "b": jnp.zeros(width),
            "V": random.normal(second, (width, 10)) / width ** 0.5, "c": jnp.zeros(10)}


def loss(params: Any, x: Any, y: Any) -> Any:
    logits = jnp.tanh(x @ params["W"] + params["b"]) @ params["V"] + params["c"]
    return -jnp.take_along_axis(calque.nn.log_softmax(logits), y[:, None], 1).mean()


@calque.jit
def step(params: Any, x: Any, y: Any) -> Any:
    value, grads = calque.value_and_grad(loss)(params, x, y)
    return calque.tree.map(lambda p, g: p - 0.5 * g, params, grads), value


def batch(number: int, where: NamedSharding) -> tuple[Any, ...]:
    """This process's part of a batch, the same batch whatever the number of processes."""
    pixels, digits = load_digits(return_X_y=True)
    rows = np.random.default_rng(number).integers(0, len(digits), BATCH)
    x, y = (pixels[rows] / 16).astype(np.float32), digits[rows].astype(np.int32)
    return tuple(calque.make_array_from_callback(v.shape, where, lambda i, v=v: v[i])
                 for v in (x, y))


def main(folder: Annotated[Path, typer.Option(help="where the checkpoint is")],
         steps: Annotated[int, typer.Option(help="up to this one")] = 100,
         width: Annotated[int, typer.Option(help="of the hidden layer")] = 64) -> None:
    """Train, from the checkpoint if there is one, and save every 50 steps."""
    if launched():
        calque.distributed.initialize()
    else:
        calque.distributed.initialize(num_processes=1, process_id=0)
    mesh = Mesh(np.array(calque.devices()), ("data",))
    rows, copy = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    state = {"params": calque.device_put(init(width), copy), "step": 0}
    try:
        state = checkpoints.load(folder, state)
    except FileNotFoundError:
        pass
    first = state["step"]
    params, value, saved = state["params"], None, None
    for k in range(first, steps):
        params, value = step(params, *batch(k, rows))
        if (k + 1) % 50 == 0 or k + 1 == steps:  # written behind the next steps
            saved = checkpoints.save(folder, {"params": params, "step": k + 1}, background=True)
    if saved is None:
        return
    saved.wait()
    if calque.process_index() == 0:
        print(f"{calque.process_count()} processes, steps {first} to {steps}: loss {value:.5f}")


def launched() -> bool:
    """Whether mpiexec or Slurm started this process."""
    from calque.distributed.cluster import detected
    return detected(None) is not None


if __name__ == "__main__":
    typer.run(main)
