"""Odd values and trees: what NumPy and Python give a program, residuals as trees, float0.

Trees of NumPy's leaves and linear maps are judged by NumPy.  What has no meaning in NumPy (which
error, which dtype, weak or not) is text that JAX evaluates as well (fuzz_compose_jax.py), where
CALQUE_FUZZ_JAX names a Python that has it.
"""
from __future__ import annotations

import collections
import decimal
import enum
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from support.fuzz_compose_draw import Trial, near, pick, slopes, smooth

Point = collections.namedtuple("Point", "x y")
Leaf = tuple[Any, Any]  # a leaf and the array that it means; an error class for one that is refused


# ---- trees of leaves of NumPy and Python
def _array(rng: Any, x64: bool) -> Leaf:
    shape = pick(rng, [(), (1,), (3,), (2, 3), (0,), (4, 1), (17,)])
    kind = pick(rng, ["f4", "f8", "i4", "i8", "u1", "?", "i1", "f2", "c8", "u4", "bfloat16"])
    base = np.asarray(rng.integers(-3, 4, (*shape, 2))).astype(np.dtype(kind))
    form = int(rng.integers(9))
    x = base[..., 0]  # strided
    if form == 1:
        x = np.ascontiguousarray(x)
    elif form == 2:
        x = np.asfortranarray(x)
    elif form == 3 and x.ndim:
        x = x[::-1]
    elif form == 4:
        x = np.broadcast_to(base.reshape(-1)[:1].reshape(()) if base.size else np.zeros(
            (), base.dtype), shape)
    elif form == 5:
        x = x.copy()
        x.flags.writeable = False
    elif form == 6:
        raw = bytearray(x.nbytes + 1)
        away = np.frombuffer(raw, x.dtype, x.size, offset=1).reshape(shape)  # not aligned
        away[...] = x
        x = away
    elif form == 7:
        x = x.T
    elif form == 8 and x.ndim == 0:
        x = x[()]  # NumPy's scalar
    narrow = {"f8": "f4", "i8": "i4"}.get(kind, kind) if not x64 else kind
    return x, np.array(x).astype(np.dtype(narrow))


def _number(rng: Any, x64: bool) -> Leaf:
    x = pick(rng, [True, False, 0, -1, 7, 2**31 - 1, -2**31, .5, -0.0, float("inf"), float("nan"),
                   1e40, 2.5e-45, 1j, complex(1, -0.0), IntOf(3), FloatOf(.25), Colour.RED])
    wide = {bool: "?", int: "i8", float: "f8", complex: "c16"}
    kind = wide[next(t for t in type(x).__mro__ if t in wide)]
    if not x64:
        kind = {"i8": "i4", "f8": "f4", "c16": "c8"}.get(kind, kind)
    with np.errstate(over="ignore"):
        return x, np.asarray(complex(x) if "c" in kind else x).astype(kind)


class IntOf(int):
    """A subclass of int."""


class FloatOf(float):
    """A subclass of float."""


class Colour(enum.IntEnum):
    """A subclass of int that is an enumeration."""

    RED = 3


def _refused(rng: Any, x64: bool) -> Leaf:
    some: list[Leaf] = [
        (2**63, OverflowError), (-2**63 - 1, OverflowError), (10**30, OverflowError),
        (fractions.Fraction(1, 2), TypeError), (decimal.Decimal(1), TypeError), ("a", TypeError),
        (np.ma.masked_array([1., 2.], [True, False]), ValueError), (b"a", TypeError),
        (np.array([1, None]), TypeError), (np.array(["a"]), TypeError),
        (np.zeros(2, ">f4"), TypeError), (np.datetime64("2020-01-01"), TypeError),
        (np.zeros(2, [("a", "f4")]), TypeError), (np.str_("a"), TypeError), ({1}, TypeError)]
    if not x64:
        some += [(2**31, OverflowError), (-2**31 - 1, OverflowError), (2**40, OverflowError)]
    return pick(rng, some)


def _nest(rng: Any, leaves: list[Any]) -> Any:
    """The leaves, in their order, in containers."""
    if len(leaves) == 1 and rng.integers(2):
        return leaves[0]
    parts: list[Any] = list(leaves)
    while len(parts) > 6 or rng.integers(2):
        n = min(int(rng.integers(1, 40)), len(parts))
        at = int(rng.integers(0, len(parts) - n + 1))
        some = parts[at:at + n]
        kind = int(rng.integers(5))
        made = {0: list, 1: tuple, 2: lambda s: {f"k{i:03d}": v for i, v in enumerate(s)},
                3: lambda s: [None, *s, None], 4: lambda s: Point(s[0], tuple(s[1:]))}[kind](some)
        parts[at:at + n] = [made]
        if len(parts) == 1:
            break
    return parts


def tree(rng: Any) -> Trial:
    """1 to 300 leaves through jit, device_put and a map: NumPy's bits come out, or one error."""
    count = int(pick(rng, [1, 2, 3, 5, 17, 32, 33, 64, 65, 130, 300])) if rng.integers(2) else (
        int(rng.integers(1, 301)))
    x64 = bool(rng.integers(2))
    drawn = [(_number if rng.integers(3) == 0 else _array)(rng, x64) for _ in range(count)]
    refused = rng.integers(4) == 0
    if refused:
        drawn[int(rng.integers(count))] = _refused(rng, x64)
    nested = _nest(rng, [x for x, _ in drawn])
    how = pick(rng, ["jit", "jit", "device_put", "map", "some", "aot"])
    wants = [w for _, w in drawn]
    told = f"tree of {count} leaves, x64 {x64}, {how}: {str(nested)[:1500]}"

    def act() -> str:
        before = [np.array(x, copy=True).tobytes() for x, w in drawn if isinstance(w, np.ndarray)]
        with calque.enable_x64(x64):
            try:
                out = _through(how, nested)
            except Exception as e:
                wrong = [w for w in wants if not isinstance(w, np.ndarray)]
                if wrong and isinstance(e, wrong[0]):
                    return "" if "Fix:" in str(e) else f"no Fix in {type(e).__name__}: {e}"
                return f"{type(e).__name__}: {e}; expected {wrong}"
            if refused:
                return f"{[w for w in wants if not isinstance(w, np.ndarray)]} was not raised"
            said = _same(out, nested, wants)
        after = [np.array(x, copy=True).tobytes() for x, _ in drawn]
        return said or "an argument changed" * (before != after)

    return Trial(told, act=act)


def _through(how: str, nested: Any) -> Any:
    if how == "device_put":
        return calque.device_put(nested)
    if how == "map":
        return calque.tree.map(jnp.asarray, nested)
    if how == "some":  # one leaf is computed with
        def f(t: Any) -> Any:
            leaves, structure = calque.tree.flatten(t)
            return structure.unflatten([jnp.flip(leaves[0]) if jnp.ndim(leaves[0]) else leaves[0],
                                        *leaves[1:]])
        out = calque.jit(f)(nested)
        leaves, structure = calque.tree.flatten(out)
        first = np.asarray(leaves[0])
        return structure.unflatten([jnp.asarray(np.flip(first)) if first.ndim else leaves[0],
                                    *leaves[1:]])
    if how == "aot":
        return calque.jit(lambda t: t).lower(nested).compile()(nested)
    return calque.jit(lambda t: t)(nested)


def _same(out: Any, nested: Any, wants: list[Any]) -> str:
    structure = calque.tree.structure(nested)
    if calque.tree.structure(out) != structure:
        return f"structure {calque.tree.structure(out)} instead of {structure}"
    for k, (got, want) in enumerate(zip(calque.tree.leaves(out), wants, strict=True)):
        x = np.asarray(got)
        if (x.dtype, x.shape) != (want.dtype, want.shape):
            return f"leaf {k}: {x.dtype}{x.shape} instead of {want.dtype}{want.shape}"
        same = x.tobytes() == want.tobytes() or want.dtype.kind in "fcV" and np.array_equal(
            x.astype(complex), want.astype(complex), equal_nan=True)
        if not same:
            return f"leaf {k}: {x!r} instead of {want!r}"
    return ""


# ---- linear maps as trees
def linear_map(rng: Any) -> Trial:
    """What vjp, linearize and linear_transpose return, through transformations and mappings."""
    kind, how = pick(rng, ["vjp", "vjp", "linearize", "transpose"]), pick(rng, [
        "call", "jit", "returned", "tree", "scan", "carry", "vmap", "cond", "put", "checkpoint"])
    if kind == "transpose" and how in ("vmap", "returned"):  # it has no residuals
        how = "tree"
    (n1, g1), (n2, g2) = smooth(rng), smooth(rng)
    size, scale = pick(rng, [(), (3,), (2, 2)]), float(rng.uniform(.5, 2))
    x = np.asarray(rng.uniform(-1, 1, size)).astype("float32")
    y = np.asarray(rng.uniform(-1, 1, size)).astype("float32")
    told = f"{kind} through {how} of {n1}(x) * {n2}(y * {scale}) + x * y at {x!r}, {y!r}"

    def f(api: Any, x: Any, y: Any) -> Any:
        if kind == "transpose":
            return x * scale + y * 3
        return g1(api, x) * g2(api, y * scale) + x * y

    def make(x: Any, y: Any) -> Any:
        if kind == "vjp":
            return calque.vjp(lambda x, y: f(jnp, x, y), x, y)[1]
        if kind == "linearize":
            return calque.linearize(lambda x, y: f(jnp, x, y), x, y)[1]
        return calque.linear_transpose(lambda x, y: f(jnp, x, y), x, y)

    def act() -> str:
        dx, dy = slopes(lambda x, y: np.sum(f(np, x, y)), [x.astype(float), y.astype(float)])
        wants = [np.asarray(2 * dx + 1 * dy)] if kind == "linearize" else [2 * dx, 2 * dy]
        outs = calque.tree.leaves(_used(how, make, kind, x, y))
        return near(outs, wants)

    return Trial(told, act=act)


def _used(how: str, make: Callable[[Any, Any], Any], kind: str, x: Any, y: Any) -> Any:
    """The map on cotangents of 2, or tangents 2 and 1."""
    two = np.full(np.shape(x), 2, "float32")

    def call(m: Any, scale: Any = 1) -> Any:
        return m(two * scale, two * scale / 2) if kind == "linearize" else m(two * scale)

    if how == "returned":
        return call(calque.jit(make)(x, y))
    if how == "vmap":
        every = calque.vmap(make)(np.stack([x, x * .5]), np.stack([y, y]))
        return calque.tree.map(lambda a: a[0], calque.vmap(call)(every))
    m = make(x, y)
    if how == "jit":
        return calque.jit(call)(m)
    if how == "tree":
        leaves, structure = calque.tree.flatten(calque.tree.map(lambda a: a * 1, m))
        return call(structure.unflatten(leaves))
    if how == "scan":
        outs = lax.scan(lambda c, s: (c, call(m, s)), 0., jnp.arange(1., 4))[1]
        return calque.tree.map(lambda a: a[2] / 3, outs)
    if how == "carry":
        def step(c: Any, s: Any) -> Any:
            return c, call(c, s)
        held, outs = lax.scan(step, m, jnp.arange(1., 4), unroll=2)
        return calque.tree.map(lambda a, b: a[1] / 2 * .5 + b * .5, outs, call(held))
    if how == "cond":
        return calque.jit(lambda p, m: lax.cond(p, call, lambda m: call(m, 5), m))(True, m)
    if how == "put":
        return call(calque.device_put(m))
    if how == "checkpoint":
        return calque.checkpoint(call)(m)
    return call(m)
