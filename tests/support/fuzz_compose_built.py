"""Programs that pack many small arrays, write loops out, and nest transformations of branches.

Each is one Case for a compiled module (see fuzz_compose.py).  Its oracle is the same text on NumPy,
its gradients by imaginary steps, or, for branches, derivatives written by hand.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from calque.flatten_util import ravel_pytree
from support.fuzz_compose_draw import Trial, near, pick, slopes, smooth
from support.harness import Case

COUNTS = [1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 96, 127, 128, 129, 130]
LEAVES: list[tuple[int, ...]] = [(), (), (1,), (2,), (3,), (2, 2), (1, 3), (0,)]


# ---- packing
def packed(rng: Any) -> Trial:
    """Many small leaves, joined, and perhaps taken apart; perhaps differentiated."""
    count = pick(rng, COUNTS) if rng.integers(3) else int(rng.integers(1, 131))
    how = pick(rng, ["stack", "array", "concatenate", "ravel", "hstack", "column", "nested"])
    kind = pick(rng, ["float32", "float32", "float32", "float64", "int32", "bool", "bfloat16"])
    shapes = [pick(rng, LEAVES) for _ in range(count)]
    if how in ("stack", "array", "column", "nested"):
        shapes = [shapes[0] if how in ("stack", "array") else ()] * count
    source = pick(rng, ["arguments", "items", "chain", "constants"])
    after = pick(rng, ["", "sum", "apart", "twice", "reverse"])
    differentiated = kind in ("float32", "float64") and bool(rng.integers(3) == 0)
    if source in ("items", "chain"):
        shapes = [()] * count
    name, g = smooth(rng)
    axis = int(rng.integers(0, len(shapes[0]) + 1))
    xs = [_values(rng, s, kind) for s in shapes] if source != "items" else [
        _values(rng, (count,), kind)]
    if source == "chain":
        xs = xs[:1]
    weights = rng.uniform(-1, 1, 1 + sum(max(math.prod(s), 1) for s in shapes))

    def leaves(api: Any, args: Sequence[Any]) -> list[Any]:
        apply = (lambda x: x) if kind in ("int32", "bool", "bfloat16") else (lambda x: g(api, x))
        if source == "items":
            return [apply(args[0][i]) for i in range(count)]
        if source == "chain":
            made = [args[0]]
            while len(made) < count:
                made.append(apply(made[-1]))
            return made
        if source == "constants":
            return [apply(x) if i % 3 else xs[i] for i, x in enumerate(args)]
        return [apply(x) for x in args]

    def f(api: Any, *args: Any) -> list[Any]:
        every = leaves(api, args)
        joined = _joined(api, how, every, axis)
        outs = [joined]
        if after == "sum":
            outs.append(api.sum(joined, axis=0))
        elif after == "apart" and joined.ndim == 1:
            outs += [joined[i] for i in range(0, joined.shape[0], 7)]
        elif after == "twice":
            outs.append(api.concatenate([joined.reshape(-1), joined.reshape(-1)[::-1]]))
        elif after == "reverse":
            outs.append(_joined(api, how, every[::-1], axis))
        return outs

    def loss(api: Any, *args: Any) -> Any:
        total = 0.
        for out in f(api, *args):
            flat = out.reshape(-1)
            w = np.resize(weights, flat.shape)
            total = total + api.sum(flat * (w if api is np else w.astype(flat.dtype)))
        return total

    def run(*args: Any) -> list[Any]:
        if differentiated:
            return list(calque.grad(lambda *a: loss(jnp, *a), tuple(range(len(args))))(*args))
        return f(jnp, *args)

    exact = [x.astype(float) if kind in ("float32", "float64", "bfloat16") else x for x in xs]
    wants = slopes(lambda *a: loss(np, *a), exact) if differentiated else f(np, *exact)
    told = (f"packed: {count} leaves {sorted(set(shapes))} of {kind} from {source}, by {how} "
            f"(axis {axis}) of {name}; {after or 'returned'}{', grad' * differentiated}")
    return Trial(told, case=Case(told, run, xs, lambda outs: near(outs, wants)))


def _values(rng: Any, shape: tuple[int, ...], kind: str) -> Any:
    if kind == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if kind == "int32":
        return np.asarray(rng.integers(-5, 6, shape)).astype(np.int32)
    return np.asarray(rng.uniform(-1, 1, shape)).astype(np.dtype(kind))


def _joined(api: Any, how: str, leaves: list[Any], axis: int) -> Any:
    flat = [x.reshape(-1) for x in leaves]
    if how == "stack":
        return api.stack(leaves, axis=axis)
    if how == "array":
        return api.array(leaves)
    if how == "nested":
        return api.array([[x, y] for x, y in zip(leaves, leaves[::-1])])
    if how == "column":
        return api.stack([api.stack([x, y]) for x, y in zip(leaves, leaves[::-1])], axis=1)
    if how == "hstack":
        return api.hstack(flat)
    if how == "ravel" and api is jnp:
        return ravel_pytree({"b": leaves[1:], "a": leaves[0]})[0]
    return api.concatenate(flat)


# ---- loops written out
def unrolled(rng: Any) -> Trial:
    """A scan, fori_loop or Python loop over a tree of carries, all or k steps written out."""
    parts, length = int(rng.integers(1, 7)), pick(rng, [1, 2, 3, 4, 7, 8, 9, 12, 16, 33])
    length = length if parts * length < 50 else 4
    how = pick(rng, ["scan", "scan", "scan", "fori", "python", "map", "nested"])
    unroll = pick(rng, [True, 1, 2, 3, 4, 5, length, length + 3])
    reverse = bool(rng.integers(2))
    shape = pick(rng, [(), (), (3,), (2, 2)])
    kind = pick(rng, ["float32", "float32", "float64"])
    steps = [(smooth(rng), int(rng.integers(parts)), int(rng.integers(parts)))
             for _ in range(parts)]
    differentiated = bool(rng.integers(2)) and parts * length * max(math.prod(shape), 1) < 200
    init = [_values(rng, shape, kind) for _ in range(parts)]
    xs = _values(rng, (length, *shape), kind)

    def body(api: Any, carry: Sequence[Any], x: Any) -> tuple[list[Any], Any]:
        new = [g(api, carry[i]) + carry[j] * x * .25 for (_, g), i, j in steps]
        return new, new[0] - new[-1] * .5

    def by_calque(carry: list[Any], xs: Any) -> tuple[Any, Any]:
        if how == "scan":
            return lax.scan(lambda c, x: body(jnp, c, x), carry, xs, unroll=unroll, reverse=reverse)
        if how == "nested":
            def outer(c: Any, x: Any) -> Any:
                return lax.scan(lambda d, y: body(jnp, d, y), c, jnp.stack([x, x * .5]), unroll=2)
            return lax.scan(outer, carry, xs, unroll=unroll, reverse=reverse)
        if how == "fori":
            return lax.fori_loop(0, length, lambda i, c: body(jnp, c, xs[i])[0], carry,
                                 unroll=unroll), xs
        if how == "map":
            return carry, lax.map(lambda x: body(jnp, carry, x)[1], xs)
        return by_numpy(jnp, carry, xs)

    def by_numpy(api: Any, carry: list[Any], xs: Any) -> tuple[Any, Any]:
        order = range(length)[::-1] if reverse and how in ("scan", "nested") else range(length)
        start, ys = carry, [None] * length
        for i in order:
            if how == "map":
                ys[i] = body(api, start, xs[i])[1]
            elif how == "nested":
                carry, first = body(api, carry, xs[i])
                carry, second = body(api, carry, xs[i] * .5)
                ys[i] = api.stack([first, second])
            else:
                carry, ys[i] = body(api, carry, xs[i])
        return carry, xs if how == "fori" else api.stack(ys)

    def loss(api: Any, *args: Any) -> Any:
        end, ys = (by_calque if api is jnp else lambda *a: by_numpy(api, *a))(
            list(args[:-1]), args[-1])
        return sum(api.sum(c) * (.5 + k) for k, c in enumerate(end)) + api.sum(ys * ys)

    def run(*args: Any) -> list[Any]:
        if differentiated:
            return list(calque.grad(lambda *a: loss(jnp, *a), tuple(range(parts + 1)))(*args))
        end, ys = by_calque(list(args[:-1]), args[-1])
        return [*end, ys]

    wide = [x.astype(float) for x in (*init, xs)]
    if differentiated:
        wants = slopes(lambda *a: loss(np, *a), wide)
    else:
        end, ys = by_numpy(np, wide[:-1], wide[-1])
        wants = [*end, ys]
    names = [(name, i, j) for (name, _), i, j in steps]
    told = (f"unrolled: {how} of {length} steps, unroll={unroll}, reverse={reverse}, carries "
            f"{shape} of {kind}: {names}{', grad' * differentiated}")
    return Trial(told, case=Case(told, run, [*init, xs], lambda outs: near(outs, wants, 10.)))


# ---- branches with infinite derivatives
# name: (of calque, then f, f', f'' of NumPy, points where all are finite)
Piece = tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any],
              Callable[[Any], Any], list[float]]
PIECES: dict[str, Piece] = {
    "sqrt": (jnp.sqrt, np.sqrt, lambda x: .5 / np.sqrt(x), lambda x: -.25 * x**-1.5, [1., 4.]),
    "log": (jnp.log, np.log, lambda x: 1 / x, lambda x: -1 / x**2, [1., .5]),
    "reciprocal": (lambda x: 1 / x, lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3,
                   [1., -1., 2.]),
    "power": (lambda x: x**1.5, lambda x: x**1.5, lambda x: 1.5 * np.sqrt(x),
              lambda x: .75 / np.sqrt(x), [1., 4.]),
    "cbrt": (jnp.cbrt, np.cbrt, lambda x: 1 / (3 * np.cbrt(x)**2),
             lambda x: -2 / (9 * np.cbrt(x)**5), [1., -1., 8.]),
    "asin": (jnp.arcsin, np.arcsin, lambda x: (1 - x * x)**-.5,
             lambda x: x * (1 - x * x)**-1.5, [0., .5, -.5]),
    "acosh": (jnp.arccosh, np.arccosh, lambda x: (x * x - 1)**-.5,
              lambda x: -x * (x * x - 1)**-1.5, [2., 3.]),
    "norm": (lambda x: jnp.sqrt(x * x), np.abs, np.sign, lambda x: 0 * x, [1., -2., .5]),
    "entropy": (lambda x: x * jnp.log(x), lambda x: x * np.log(x), lambda x: np.log(x) + 1,
                lambda x: 1 / x, [1., .5, 2.]),
    "overflow": (lambda x: jnp.exp(1 / x), lambda x: np.exp(1 / x),
                 lambda x: -np.exp(1 / x) / x**2,
                 lambda x: np.exp(1 / x) * (1 + 2 * x) / x**4, [1., -1., 2.]),
    "sin": (jnp.sin, np.sin, np.cos, lambda x: -np.sin(x), [0., 1., -1., 2.]),
    "constant": (lambda x: jnp.full_like(x, 2.), lambda x: 0 * x + 2, lambda x: 0 * x,
                 lambda x: 0 * x, [0., 1., -1.]),
    "identity": (lambda x: x, lambda x: x, lambda x: 0 * x + 1, lambda x: 0 * x, [0., 1., -1.]),
}
MODES = ["value", "grad", "grad grad", "jvp of grad", "grad of jvp", "hessian", "vmap", "vmap grad",
         "vmap grad grad", "jit grad", "checkpoint", "vjp", "scan", "vmap hessian", "jacobian"]


def branches(rng: Any) -> Trial:
    """Derivatives of a branch that is taken, where others have none; nested and mapped."""
    names = [pick(rng, list(PIECES)) for _ in range(int(rng.integers(2, 4)))]
    mode, kind = pick(rng, MODES), pick(rng, ["float32", "float64"])
    deep, chosen_by = bool(rng.integers(2)), pick(rng, ["index", "index", "bool"])
    if chosen_by == "bool" or deep:
        names = names[:2] if chosen_by == "bool" else names
    rows = int(rng.integers(1, 4))
    takes = [int(rng.integers(len(names))) for _ in range(rows)]
    xs = np.array([pick(rng, PIECES[names[t]][4]) for t in takes])

    def choose(i: Any, x: Any) -> Any:
        fs = [PIECES[n][0] for n in names]
        if deep:  # a branch inside every branch: the other one has no finite derivative at x
            fs = [lambda y, f=f: lax.cond(y == y, f, lambda z: jnp.sqrt(z - z) * z, y) for f in fs]
        if chosen_by == "bool":
            return lax.cond(i == 1, fs[1], fs[0], x)
        return lax.switch(i, fs, x)

    def f(i: Any, x: Any) -> Any:
        y = choose(i, x)
        return y * 2 + y * y * .25 if kind == "float64" else y * 2

    def outer(y: Any) -> tuple[Any, Any, Any]:
        return (y * 2 + y * y * .25, 2 + y * .5, .5 + 0 * y) if kind == "float64" else (
            y * 2, 2 + 0 * y, 0 * y)

    def expected() -> tuple[Any, Any, Any]:
        y, first, second = np.array([[p(x) for p in PIECES[names[t]][1:4]]
                                     for t, x in zip(takes, xs)]).T
        s, ds, dds = outer(y)
        return s, ds * first, dds * first**2 + ds * second

    run = _derived(f, mode)
    with np.errstate(all="ignore"):
        value, first, second = expected()
    want = {"value": value, "vmap": value, "scan": first, "hessian": np.diag(second),
            "vmap hessian": second, "jacobian": np.diag(first)}.get(
                mode, second if mode.count("grad") > 1 or "jvp" in mode else first)
    close = 30. * (1 + float(np.max(np.abs(want), initial=0., where=np.isfinite(want))))
    told = f"branches {names}, {chosen_by}, at {xs} taking {takes}, nested {deep}, {kind}: {mode}"
    args = [np.array(takes, np.int32), xs.astype(kind)]

    def check(outs: Sequence[Any]) -> str:
        return near(outs, [want], close)

    return Trial(told, case=Case(told, run, args, check))


def _derived(f: Callable[..., Any], mode: str) -> Callable[..., list[Any]]:
    """A function of all indices and points, whose one result is an array of what the mode gives."""
    grad = calque.grad

    def each(g: Callable[[Any, Any], Any]) -> Callable[..., list[Any]]:
        return lambda i, x: [jnp.stack([g(i[k], x[k]) for k in range(x.shape[0])])]

    def total(i: Any, x: Any) -> Any:
        return sum(f(i[k], x[k]) for k in range(x.shape[0]))

    first = grad(f, 1)
    second = grad(first, 1)
    one = {
        "value": f, "grad": first, "grad grad": second, "jit grad": calque.jit(first),
        "jvp of grad": lambda i, x: calque.jvp(lambda y: first(i, y), (x,), (x * 0 + 1,))[1],
        "grad of jvp": grad(lambda i, x: calque.jvp(
            lambda y: f(i, y), (x,), (jnp.ones_like(x),))[1], 1),
        "checkpoint": grad(calque.checkpoint(f), 1),
        "vjp": lambda i, x: calque.vjp(lambda y: f(i, y), x)[1](jnp.ones_like(x))[0]}
    if mode in one:
        return each(one[mode])
    mapped = {"vmap": f, "vmap grad": first, "vmap grad grad": second,
              "vmap hessian": calque.hessian(f, 1)}
    if mode in mapped:
        return lambda i, x: [calque.vmap(mapped[mode])(i, x)]
    if mode == "hessian":
        return lambda i, x: [calque.hessian(total, 1)(i, x)]
    if mode == "jacobian":
        return lambda i, x: [calque.jacrev(lambda y: jnp.stack(
            [f(i[k], y[k]) for k in range(y.shape[0])]))(x)]
    assert mode == "scan", mode

    def looped(i: Any, x: Any) -> Any:
        def step(c: Any, ix: Any) -> tuple[Any, Any]:
            return c + f(*ix), None
        return lax.scan(step, jnp.zeros((), x.dtype), (i, x))[0]
    return lambda i, x: [grad(looped, 1)(i, x)]
