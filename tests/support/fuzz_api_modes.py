"""What is done with a drawn program: run, differentiated, vectorized, looped (see fuzz_api.py).

Written against JAX's API, with the package as an argument, so that calque's worker and JAX's use
the same text.  Imports NumPy only.  Start reading at `transformed`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CHUNK = 5  # programs that JAX compiles and answers together
NAMES = ["jit", "constants", "vmap", "grad", "vmap_grad", "jvp", "scan_grad"]
WEIGHTS = [.26, .16, .14, .16, .1, .1, .08]


@dataclass(slots=True)
class Mode:
    """One of NAMES; axes: of each argument under vmap; argnums: by which is differentiated."""

    name: str
    axes: tuple[int | None, ...] = ()
    argnums: tuple[int, ...] = ()


def MODES(rng: Any, args: Sequence[Any], floats: Sequence[int]) -> Mode:  # noqa: N802
    """A mode that the arguments allow."""
    name = str(rng.choice(NAMES, p=WEIGHTS))
    if not args:
        return Mode("jit")
    if name in ("grad", "jvp", "vmap_grad", "scan_grad") and not floats:
        name = "vmap"
    axes = tuple(None if rng.random() < .25 else int(rng.integers(0, len(a.shape) + 1))
                 for a in args)
    if all(a is None for a in axes):
        axes = (0, *axes[1:])
    return Mode(name, axes, tuple(floats))


def arguments(mode: Mode, arrays: Sequence[Any]) -> list[Any]:
    """What the transformed function takes: under vmap each array in three variants."""
    if mode.name not in ("vmap", "vmap_grad"):
        return [] if mode.name == "constants" else list(arrays)
    made = []
    for x, axis in zip(arrays, mode.axes):
        x = np.asarray(x)
        rolled = [np.roll(x, k).reshape(x.shape) if x.ndim else x for k in range(3)]
        if not x.ndim and x.dtype.kind not in "bc":
            rolled = [(x + np.asarray(k).astype(x.dtype)).astype(x.dtype) for k in range(3)]
        made.append(x if axis is None else np.stack(rolled, axis))
    return made


def transformed(api: Any, f: Callable[..., Any], mode: Mode, arrays: Sequence[Any]
                ) -> Callable[..., Any]:
    """The function of `arguments(mode, arrays)` that the mode makes of f."""
    jnp = api.numpy
    if mode.name == "jit":
        return f
    if mode.name == "constants":
        return lambda: f(*[jnp.asarray(x) for x in arrays])
    if mode.name == "vmap":
        return api.vmap(f, in_axes=mode.axes)

    def loss(*xs: Any) -> Any:
        total = jnp.float32(0)
        for k, o in enumerate(f(*xs)):
            o = jnp.asarray(o)
            if o.dtype.kind in "iub":
                continue
            if o.dtype.kind == "c":
                o = jnp.real(o) + 2 * jnp.imag(o)
            total = total + jnp.sum(o).astype("float32") * (.5 * k + 1)
        return total

    if mode.name == "grad":
        return api.grad(loss, argnums=mode.argnums)
    if mode.name == "vmap_grad":
        return api.vmap(api.grad(loss, argnums=mode.argnums), in_axes=mode.axes)
    if mode.name == "jvp":
        def moved(*xs: Any) -> Any:
            def inner(*ys: Any) -> Any:
                full = list(xs)
                for k, y in zip(mode.argnums, ys):
                    full[k] = y
                outs = [jnp.asarray(o) for o in f(*full)]
                return [o for o in outs if o.dtype.kind not in "iub"]
            some = [xs[k] for k in mode.argnums]
            return api.jvp(inner, some, [jnp.ones_like(x) * .5 for x in some])
        return moved
    assert mode.name == "scan_grad"

    def looped(*xs: Any) -> Any:
        k = mode.argnums[0]

        def total(x0: Any) -> Any:
            def step(c: Any, t: Any) -> Any:
                full = list(xs)
                full[k] = c
                s = jnp.tanh(loss(*full) * .1)
                return (c * .5 + s.astype(c.dtype) * t.astype(c.dtype)).astype(c.dtype), s
            end, every = api.lax.scan(step, x0, jnp.arange(3, dtype="float32"))
            return jnp.sum(end).astype("float32") + jnp.sum(every)
        return api.grad(total)(xs[k])
    return looped
