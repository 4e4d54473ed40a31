"""custom_partitioning in random nestings of transformations, against dual numbers.

Its function and what each device does of it are two computations of one thing over a row that is
split in two (elementwise, or a sum with a psum), around and inside the nestings of
support/nestings.py.  Start reading at `partitioned`.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from meshes import mesh_of
from support import nestings

import calque
import calque.numpy as jnp
from calque import lax
from calque.experimental.custom_partitioning import custom_partitioning
from calque.sharding import NamedSharding
from calque.sharding import PartitionSpec as P

MESH = mesh_of(i=2)
ROW = np.array([0.3, -0.7, 1.1, 0.4])
PARTS: list[tuple[int, ...]] = []  # shapes that devices got


@dataclass(frozen=True)
class Scope(nestings.Scope):
    """inside: whether what is drawn is a partitioned function's."""
    inside: bool = False


def partitioned(rng: Any, depth: int, scope: Any) -> nestings.Node:
    if scope.inside:
        return nestings.draw(rng, depth, scope)
    how = nestings.pick(rng, ["elementwise", "sum"])
    f = nestings.draw(rng, depth, replace(scope.staged(), inside=True))

    def on(x: Any, env: Any) -> Any:
        return calque.vmap(lambda v: f.ours(v, list(env)))(x)

    def fun(x: Any, *env: Any) -> Any:
        y = on(x, env)
        return y.sum() if how == "sum" else y

    def lower(x: Any, *env: Any) -> Any:
        PARTS.append(x.shape)
        y = on(x[::-1], env)[::-1]
        return lax.psum(y.sum(), "i") if how == "sum" else y

    def ours(x: Any, env: Any) -> Any:
        made = custom_partitioning(fun)

        def partition(mesh: Any, args: Any, result: Any) -> Any:
            split, whole = NamedSharding(mesh, P("i")), NamedSharding(mesh, P())
            return (mesh, lower, whole if how == "sum" else split,
                    (split, *[whole] * (len(args) - 1)))
        given = [jnp.asarray(e, float) for e in env]
        made.def_partition(
            partition, sharding_rule=f"i{', ' * len(given)} -> {'' if how == 'sum' else 'i'}",
            reduction_factors=("i",) if how == "sum" else ())
        row = lax.with_sharding_constraint(jnp.asarray(x, float) * ROW,
                                           NamedSharding(MESH, P("i")))
        y = made(row, *given)
        return y if how == "sum" else y.sum()

    def meant(x: Any, env: Any) -> Any:
        return sum((f.meant(x * v, env) for v in ROW.tolist()), 0.0)
    return nestings.Node(ours, meant, f"partitioned[{how}]({f.told})")


def program(seed: int, depth: int) -> tuple[nestings.Node, list[float]]:
    """The first nesting from a seed that has a partitioned function."""
    rng = np.random.default_rng(seed)
    while True:
        node = nestings.draw(rng, depth, Scope((False, False)))
        if "partitioned" in node.told:
            return node, [round(float(v), 3) for v in rng.uniform(0.2, 1.4, 3)]


@pytest.mark.parametrize("run, depth, seeds", [
    (calque.jit, 2, range(8)), (calque.jit, 3, range(100, 104)), (lambda f: f, 2, range(200, 204))],
    ids=["jit", "jit depth 3", "eager"])
def test_nestings_mean_what_they_say(run: Callable[..., Any], depth: int, seeds: range,
                                     monkeypatch: Any) -> None:
    PARTS.clear()
    monkeypatch.setattr(nestings, "KINDS", [*nestings.KINDS, *[partitioned] * 6])
    monkeypatch.setattr(nestings, "program", lambda seed: program(seed, depth))
    found = [text for seed in seeds if (text := nestings.wrong(seed, run))]
    assert not found, "\n".join(found)
    assert (2,) in PARTS or run is not calque.jit  # (a device does half a row)
