"""Programs that are partitioned: what tests of several processes run, and what they may send."""
from __future__ import annotations

from typing import Any

import numpy as np
from support.oracle import interpret

import calque as jax
import calque.numpy as jnp
from calque import lax
from calque.sharding import Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

rng = np.random.default_rng(0)


def N(*shape: int) -> Any:  # noqa: N802
    return rng.normal(size=shape).astype("f4")


def loss(p: Any, x: Any, y: Any) -> Any:
    for w, b in p[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = p[-1]
    return jnp.mean((x @ w + b - y) ** 2)


def step(p: Any, x: Any, y: Any) -> Any:
    return jax.tree.map(lambda a, b: a - .1 * b, p, jax.grad(loss)(p, x, y))


def attention(q: Any, k: Any, v: Any) -> Any:
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4.0
    s = s - lax.stop_gradient(s.max(-1, keepdims=True))
    w = jnp.exp(s)
    return jnp.einsum("bhqk,bkhd->bqhd", w / w.sum(-1, keepdims=True), v)


def norm(x: Any) -> Any:
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x.reshape(8, 4, 4)


def rnn(w: Any, h: Any, xs: Any) -> Any:
    def one(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x)
        return h, h.sum(-1)
    return lax.scan(one, h, xs)


params = [(N(16, 32), N(32)), (N(32, 32), N(32)), (N(32, 8), N(8))]
x, y, q = N(64, 16), N(64, 8), N(4, 8, 4, 16)
four, grid = {"d": 4}, {"d": 2, "m": 2}
by_model = [P(None, "m"), P("m"), P("m", None), P(), P(None, "m"), P("m"), P("d"), P("d", "m")]
# name: program, arguments, specs, mesh, messages at most, specs of the first results
CASES: dict[str, Any] = {
    "MLP by batch": (step, (params, x, y), [P()] * 6 + [P("d")] * 2, four, 1, [P(), P()]),
    "MLP by batch and model": (step, (params, x, y), by_model, grid, 3,
                               [P(None, "m"), P("m")]),
    "contraction": (lambda a, b: a @ b, (N(8, 16), N(16, 12)), [P(None, "d"), P("d")], four,
                    1, [P()]),
    "attention": (attention, (q, q + 1, q * 2), [P("d", None, "m")] * 3, grid, 0,
                  [P("d", None, "m")]),
    "its gradient": (jax.grad(lambda *a: attention(*a).sum(), (0, 1, 2)), (q, q + 1, q * 2),
                     [P("d", None, "m")] * 3, grid, 0, [P("d", None, "m")] * 2),
    "layernorm by rows": (norm, (N(8, 16),), [P("d")], four, 0, [P("d")]),
    "layernorm by features": (norm, (N(8, 16),), [P(None, "d")], four, 2, [P(None, "d")]),
    "sort and gather": (lambda x, i: jnp.sort(x, 0)[i] * 2, (N(8, 16), np.array([3, 1, 2, 0])),
                        [P("d"), P()], four, 3, [P()]),
    "scan by batch": (rnn, (N(8, 8), N(4, 8), N(6, 4, 8)), [P(), P("d"), P(None, "d")], four,
                      0, [P("d"), P(None, "d")]),
    "scan by features": (rnn, (N(8, 8), N(4, 8), N(3, 4, 8)),
                         [P("d"), P(None, "d"), P(None, None, "d")], four, 6, None),
    "while, cond": (lambda x: (
        lax.while_loop(lambda s: (s ** 2).sum() < 1e3, lambda s: s * 1.5, x),
        lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v[::-1], x)), (N(8),), [P("d")], four,
        20, None),
    "conv and its gradient": (lambda k, x: (
        lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        jax.grad(lambda k: (lax.conv_general_dilated(x, k, (1, 1), "SAME") ** 2).sum())(k)),
        (N(3, 2, 3, 3), N(4, 2, 6, 6)), [P(), P("d")], four, 1, [P("d"), P()]),
    "embedding and its gradient": (lambda t, i: (t[i].sum(1), jax.grad(
        lambda t: (t[i].sum(1) ** 2).sum())(t)), (N(16, 8), rng.integers(0, 16, (8, 3))),
        [P(), P("d")], four, 2, [P("d"), P()]),
    "moves": (lambda a: (jnp.concatenate([a, a * 2], 1), jnp.pad(a, ((0, 0), (1, 1))),
                         a[:, 2:5], a[1:7:2], a.T @ a, a.reshape(4, 2, 8), a.reshape(64),
                         a.reshape(2, 32), jnp.cumsum(a, 0), jnp.cumsum(a, 1)),
              (N(8, 8),), [P("d", "m")], grid, 20, None),
    "reductions": (lambda a: (jnp.argmax(a, 1), jnp.argmax(a, 0), a.max(), a.min(0), a.prod(),
                              (a > 0).any(0), (a > 0).all(), jnp.linalg.norm(a)),
                   (N(8, 8),), [P("d")], four, 20, None),
    "a split that moves": (lambda a: lax.with_sharding_constraint(
        jnp.sin(a), NamedSharding(meshes[0], P(None, "d"))), (N(8, 8),), [P("d")], four, 1,
        [P(None, "d")]),
    "rematerialized": (jax.grad(lambda w, x: jax.checkpoint(
        lambda w, x: jnp.sin(x @ w).sum())(w, x)), (N(8, 4), N(8, 8)), [P(), P("d")], four, 1,
        [P()])}
meshes: list[Mesh] = []  # the one that a program mentions


def mesh_of(devices: Any, sizes: dict[str, int]) -> Mesh:
    """A mesh of these axes over all devices, of which there may be fewer than the sizes say."""
    shape = tuple(sizes.values()) if len(devices) == 4 else (
        len(devices), *[1] * (len(sizes) - 1))
    return Mesh(np.array(devices).reshape(shape), tuple(sizes))


def placed(name: str, mesh: Mesh) -> Any:
    """The arguments of a program, spread."""
    leaves, tree = jax.tree.flatten(CASES[name][1])
    return tree.unflatten([jax.device_put(a, NamedSharding(mesh, s))
                           for a, s in zip(leaves, CASES[name][2])])


def expected(name: str) -> Any:
    """What a program gives for whole arrays, in NumPy."""
    f, args = CASES[name][:2]
    if name == "a split that moves":
        return [np.sin(args[0])]
    program = jax.make_jaxpr(f)(*args).jaxpr
    return interpret(program.consts_as_inputs(), [*program.consts, *jax.tree.leaves(args)])
