"""Chains of compiled and eager calls without waiting, and functions that are dropped.

A chain keeps a model of every array in NumPy: compiled functions of several results, donated
arguments, views, updates and copies follow each other in random order, and all that is alive is
compared at the end.  The compiled functions are few and made once (see fuzz_compose.py).
"""
from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from support.fuzz_compose_draw import Trial, pick, smooth

SHAPES: list[tuple[int, ...]] = [(), (2, 3), (64,)]
KINDS = ["float32", "int32"]

# name: (of calque, of NumPy, how many operands, of what shape and dtype are results)
TWO: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum and difference": (lambda x, y: (x + y, x - y), lambda x, y: (x + y, x - y)),
    "swapped": (lambda x, y: (y, x), lambda x, y: (y, x)),
    "same twice": (lambda x, y: (x + 1, x + 1), lambda x, y: (x + 1, x + 1)),
    "one passed": (lambda x, y: (x, y * 2), lambda x, y: (x, y * 2)),
    "reversed": (lambda x, y: (x.reshape(-1)[::-1].reshape(x.shape), y),
                 lambda x, y: (x.reshape(-1)[::-1].reshape(x.shape), y)),
    "smaller": (lambda x, y: (jnp.minimum(x, y), jnp.maximum(x, y)),
                lambda x, y: (np.minimum(x, y), np.maximum(x, y))),
    "updated": (lambda x, y: (x.reshape(-1).at[0].set(y.reshape(-1)[-1]).reshape(x.shape), x),
                lambda x, y: (_set(x, y), x)),
    "looped": (lambda x, y: lax.fori_loop(0, 3, lambda i, c: (c[1], c[0] + 1), (x, y)),
               lambda x, y: (y + 1, x + 2)),
}


def _set(x: Any, y: Any) -> Any:
    out = x.copy().reshape(-1)
    out[0] = y.reshape(-1)[-1]
    return out.reshape(x.shape)


@functools.cache
def compiled(name: str, donated: tuple[int, ...]) -> Any:
    return calque.jit(TWO[name][0], donate_argnums=donated)


class Chain:
    """Arrays with their models; what is donated is gone from both."""

    def __init__(self, rng: Any) -> None:
        self.rng, self.told = rng, list[str]()
        self.shape, self.kind = pick(rng, SHAPES), pick(rng, KINDS)
        self.live: list[tuple[Any, Any]] = []
        self.kept: list[tuple[Any, Any]] = []  # NumPy's views of arrays, with what they held
        self.gone: list[Any] = []
        for _ in range(int(rng.integers(2, 5))):
            self.start()

    def start(self) -> None:
        model = np.asarray(self.rng.integers(-9, 10, self.shape)).astype(self.kind)
        how = pick(self.rng, ["device_put", "asarray", "array", "read-only"])
        given = model.copy()
        if how == "read-only":
            given.flags.writeable = False
        put = jnp.array if how == "array" else jnp.asarray if how == "asarray" else (
            calque.device_put)
        made = put(given)
        if how == "array":
            given[...] = 77  # a copy is not the caller's
        self.live.append((made, model))
        self.told.append(how)

    def one(self) -> int:
        return int(self.rng.integers(len(self.live)))

    def call(self) -> None:
        name, i, j = pick(self.rng, list(TWO)), self.one(), self.one()
        donated = pick(self.rng, [(), (), (0,), (0, 1)])
        if i == j or any(self.live[k][0] is x for k in (i, j) for n, (x, _) in enumerate(self.live)
                         if n != k):  # one buffer twice is not donated
            donated = ()
        (x, mx), (y, my) = self.live[i], self.live[j]
        outs = compiled(name, donated)(x, y)
        self.live += list(zip(outs, TWO[name][1](mx, my), strict=True))
        taken = [(i, j)[k] for k in donated]
        self.gone += [self.live[k][0] for k in taken]
        self.live = [v for k, v in enumerate(self.live) if k not in taken]
        self.told.append(f"{name}({i}, {j}) donating {donated}")

    def eager(self) -> None:
        i, j = self.one(), self.one()
        (x, mx), (y, my) = self.live[i], self.live[j]
        name, made, model = pick(self.rng, [
            ("add", lambda: x + y, mx + my), ("negative", lambda: -x, -mx),
            ("where", lambda: jnp.where(x > y, x, y), np.where(mx > my, mx, my)),
            ("copy", lambda: x.copy(), mx), ("ravel", lambda: x.ravel().reshape(x.shape), mx),
            ("transposed", lambda: x.T.T, mx),
            ("set", lambda: x.reshape(-1).at[0].set(5).reshape(x.shape), _set(mx, np.full(1, 5))),
            ("stack", lambda: jnp.stack([x, y])[1], my),
            ("concatenate", lambda: jnp.concatenate([x.ravel(), y.ravel()])[:x.size].reshape(
                x.shape), mx),
            ("view", lambda: jnp.broadcast_to(x, (3, *x.shape))[1], mx)])
        self.live.append((made(), model.astype(self.kind)))
        self.told.append(f"{name}({i}, {j})")

    def keep(self) -> None:
        """What NumPy holds stays, whatever happens to the array."""
        i = self.one()
        x, model = self.live[i]
        how = pick(self.rng, ["asarray", "array", "dlpack", "memoryview"])
        if how == "dlpack":
            held = np.from_dlpack(x)
        else:
            held = np.array(x) if how == "array" else np.asarray(
                x if how == "asarray" else memoryview(np.asarray(x)))
        self.kept.append((held, model.copy()))
        self.told.append(f"{how}({i})")

    def drop(self) -> None:
        if len(self.live) > 2:
            i = self.one()
            del self.live[i]
            self.told.append(f"drop {i}")
            if self.rng.integers(4) == 0:
                gc.collect()

    def look(self) -> str:
        i = self.one()
        self.told.append(f"look {i}")
        return self.compare(i)

    def compare(self, i: int) -> str:
        x, model = self.live[i]
        got = np.asarray(x)
        if got.dtype != model.dtype or got.shape != model.shape or not np.array_equal(got, model):
            return f"array {i} is {got!r} instead of {model!r}"
        return ""

    def run(self) -> str:
        for _ in range(int(self.rng.integers(4, 40))):
            step = pick(self.rng, [self.call, self.call, self.call, self.eager, self.eager,
                                   self.keep, self.drop, self.look, self.start])
            said = step()
            if said:
                return f"{said} after {self.told}"
            if len(self.live) > 12:
                self.live = self.live[-8:]
                self.told.append("the last 8")
        for i in range(len(self.live)):
            if self.compare(i):
                return f"{self.compare(i)} at the end of {self.told}"
        for held, model in self.kept:
            if not np.array_equal(held, model):
                return f"NumPy's view holds {held!r} instead of {model!r} after {self.told}"
        return ""


def chain(rng: Any) -> Trial:
    """Steps on a pool of arrays, whose models are NumPy's."""
    seed = int(rng.integers(2**31))

    def act() -> str:
        c = Chain(np.random.default_rng(seed))
        said = c.run()
        return f"{c.shape} {c.kind}: {said}" if said else ""

    return Trial(f"chain of calls {seed}", act=act)


# ---- functions that are dropped
def dropped(rng: Any) -> Trial:
    """Closures over arrays: results stay when function and arrays are gone, and both do go."""
    count, repeats = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    size = pick(rng, [(), (3,), (257,)])
    name, g = smooth(rng)
    how = pick(rng, ["closure", "default", "partial", "method", "nested", "grad", "vmap"])
    values = [np.asarray(rng.uniform(-1, 1, size)).astype("float32") for _ in range(count)]
    seed = int(rng.integers(4))
    told = f"dropped: {count} {how} of {name} over {size}, called {repeats} times, order {seed}"

    def act() -> str:
        results, remains = [], []
        functions = [_closed(how, g, calque.device_put(v.copy())) for v in values]
        for k in range(repeats):
            results += [(f(jnp.float32(k)), v, k) for f, v in zip(functions, values)]
        remains = [weakref.ref(f) for f in functions]
        if seed & 1:
            functions.reverse()
        functions.clear()
        if seed & 2:
            gc.collect()
        for out, v, k in results:
            want = _meant(how, g, v.astype(float), float(k))
            if not np.allclose(np.asarray(out), want, rtol=1e-5, atol=1e-5):
                return f"{np.asarray(out)!r} instead of {want!r}"
        del out
        results.clear()
        gc.collect()
        alive = sum(r() is not None for r in remains)
        return f"{alive} of {count} functions are alive after all references are gone" * (alive > 0)

    return Trial(told, act=act)


def _closed(how: str, g: Callable[..., Any], array: Any) -> Any:
    """A compiled function of one number over an array."""
    if how == "default":
        return calque.jit(lambda t, a=array: g(jnp, a) * t + a)
    if how == "partial":
        return calque.jit(functools.partial(lambda a, t: g(jnp, a) * t + a, array))
    if how == "method":
        class Model:
            def __init__(self, a: Any) -> None:
                self.a = a

            def __call__(self, t: Any) -> Any:
                return g(jnp, self.a) * t + self.a
        return calque.jit(Model(array).__call__)
    if how == "nested":
        inner = calque.jit(lambda t: g(jnp, array) * t)
        return calque.jit(lambda t: inner(t) + array)
    if how == "grad":
        return calque.jit(calque.grad(lambda t: jnp.sum(g(jnp, array) * t * t)))
    if how == "vmap":
        return calque.jit(lambda t: calque.vmap(lambda u: g(jnp, array) * u + array)(
            jnp.stack([t, t + 1])))
    return calque.jit(lambda t: g(jnp, array) * t + array)


def _meant(how: str, g: Callable[..., Any], a: Any, t: float) -> Any:
    if how == "grad":
        return np.sum(g(np, a)) * 2 * t
    if how == "vmap":
        return np.stack([g(np, a) * t + a, g(np, a) * (t + 1) + a])
    return g(np, a) * t + a
