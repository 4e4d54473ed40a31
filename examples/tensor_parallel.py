"""A transformer block on a mesh of 2 x 2 devices: rows of it share the batch, columns the weights.

Attention heads and hidden units are split over the axis "model" (Shoeybi et al., 2019): the first
matrix of a pair by columns, the second by rows, so that a block needs one sum after each pair. The
batch is split over "data". Written once for one device's part, with psum (shard_map), and once for
whole arrays whose weights say where they are (jit): output and gradients are those of one device.

    python examples/tensor_parallel.py --width 256 --window 64
"""
from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
import typer

import calque
import calque.numpy as jnp
from calque import lax, nn, random
from calque.sharding import Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

# where each weight is: heads and hidden units over "model"
SPECS = {"q": P(None, "model", None), "k": P(None, "model", None), "v": P(None, "model", None),
         "out": P("model", None, None), "up": P(None, "model"), "down": P("model", None),
         "norms": P()}
BATCH = P("data", None, None)


def init(key: Any, width: int, heads: int) -> dict[str, Any]:
    keys, size = random.split(key, 6), width // heads
    made = {name: random.normal(k, (width, heads, size)) / np.sqrt(width)
            for name, k in zip("qkv", keys)}
    return {**made, "out": random.normal(keys[3], (heads, size, width)) / np.sqrt(width),
            "up": random.normal(keys[4], (width, 4 * width)) / np.sqrt(width),
            "down": random.normal(keys[5], (4 * width, width)) / np.sqrt(4 * width),
            "norms": jnp.ones((2, width))}


def block(w: dict[str, Any], x: Any, total: Any) -> Any:
    """The block on (batch, window, width); total adds up the parts of a sum over heads or units."""
    normed = nn.standardize(x, axis=-1) * w["norms"][0]
    q, k, v = (jnp.einsum("bnw,whd->bhnd", normed, w[name]) for name in "qkv")
    scores = jnp.einsum("bhnd,bhmd->bhnm", q, k) / np.sqrt(q.shape[-1])
    weights = nn.softmax(jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -1e9))
    mixed = jnp.einsum("bhnm,bhmd->bhnd", weights, v)
    x = x + total(jnp.einsum("bhnd,hdw->bnw", mixed, w["out"]))
    hidden = nn.gelu((nn.standardize(x, axis=-1) * w["norms"][1]) @ w["up"])
    return x + total(hidden @ w["down"])


def whole(w: Any, x: Any) -> Any:
    return block(w, x, lambda part: part)


def mapped(mesh: Mesh) -> Any:
    """The block as each device runs it."""
    return calque.shard_map(lambda w, x: block(w, x, lambda part: lax.psum(part, "model")),
                            mesh=mesh, in_specs=(SPECS, BATCH), out_specs=BATCH)


def step(f: Any) -> Any:
    """Output, and gradients of a loss of it, in one program."""
    def loss(w: Any, x: Any) -> Any:
        out = f(w, x)
        return (out ** 2).mean(), out

    @calque.jit
    def both(w: Any, x: Any) -> Any:
        grads, out = calque.grad(loss, has_aux=True)(w, x)
        return out, grads

    return both


def run(width: int = 128, heads: int = 8, window: int = 32, batch: int = 8) -> dict[str, Any]:
    mesh = Mesh(np.array(calque.devices()[:4]).reshape(2, 2), ("data", "model"))
    w = init(random.key(0), width, heads)
    x = random.normal(random.key(1), (batch, window, width))
    spread = {name: calque.device_put(w[name], NamedSharding(mesh, s)) for name, s in SPECS.items()}
    rows = calque.device_put(x, NamedSharding(mesh, BATCH))
    found: dict[str, Any] = {"seconds": {}, "local": {
        name: v.addressable_shards[0].data.shape for name, v in spread.items()}}
    for name, f, args in [("one device", whole, (w, x)), ("jit", whole, (spread, rows)),
                          ("shard_map", mapped(mesh), (spread, rows))]:
        g = step(f)
        g(*args)  # compiles
        begun = time.perf_counter()
        out, grads = g(*args)
        out.block_until_ready()
        found["seconds"][name] = time.perf_counter() - begun
        found[name] = out, grads
    return found


def difference(one: Any, other: Any) -> float:
    """The largest difference relative to the largest value, over the leaves of trees."""
    pairs = zip(calque.tree.leaves(one), calque.tree.leaves(other))
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(a)).max())
               for a, b in pairs)


def main(width: Annotated[int, typer.Option()] = 128,
         heads: Annotated[int, typer.Option()] = 8,
         window: Annotated[int, typer.Option(help="places of a sequence")] = 32,
         batch: Annotated[int, typer.Option(help="sequences")] = 8) -> None:
    """Run a block and its gradients in three ways."""
    calque.config.update("jax_num_cpu_devices", 4)
    found = run(width, heads, window, batch)
    for name, shape in found["local"].items():
        print(f"{name:6} {SPECS[name]!s:24} each device has {shape}")
    for name in ("jit", "shard_map"):
        out, grads = found[name]
        away = difference(found["one device"], found[name])
        print(f"{name:10} differs from one device by {away:.0e}; output "
              f"{out.sharding.spec}, gradient of up {grads['up'].sharding.spec}")
    for name, seconds in found["seconds"].items():
        print(f"{name:10} {1e3 * seconds:.1f} ms")


if __name__ == "__main__":
    typer.run(main)
