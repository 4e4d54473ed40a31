"""Windows along axes whose sizes are known at the call only: scatter, gather and their gradients,
each family compiled once, against NumPy at many sizes, between guard pages.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.guard import Guarded

import calque
import calque.numpy as jnp
from calque import aot, lax, random
from calque.errors import InconclusiveDimensionOperation
from calque.runtime.buffer import Buffer

F32 = np.float32
JOINS: dict[str, Callable[..., Any]] = {
    "set": lambda x, i, u: x.__setitem__(i, u),
    "add": np.add.at,
    "multiply": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}
Row = tuple[Callable[..., Any], Callable[..., Any]]


def wrote(x: Any, i: Any, u: Any, name: str = "set") -> Any:
    """NumPy's x with the windows at i joined with u, one after the other; those outside dropped."""
    out = np.array(x)
    i = i.astype(np.int64)
    i = np.where(i < 0, i + len(x), i)
    kept = (i >= 0) & (i < len(x))
    u = np.broadcast_to(u, (*i.shape, *x.shape[1:]))[kept].astype(x.dtype)
    JOINS[name](out, i[kept], u)
    return out


def put(x: Any, i: Any, u: Any, name: str) -> Any:
    return getattr(x.at[i], name)(u)


def column(x: Any, at: Any, c: Any, name: str = "set") -> Any:
    return wrote(x.T, np.asarray(at)[None], np.asarray(c)[None], name).T


def _grad_taken(x: Any, i: Any, r: Any) -> Any:
    """Of sum(x[i] * r): jnp's plain indexing clips, and what is outside gets nothing back."""
    i = np.where(i < 0, i + len(x), i)
    return wrote(np.zeros_like(x), i[(i >= 0) & (i < len(x))], r, "add")


# x (b, n), u (k, n), r (n,), c (b,), i (k,) within and beyond; b >= 1
WINDOWS: dict[str, Row] = {
    **{
        f"rows_{name}": (
            lambda x, u, r, c, i, name=name: put(x, i, u, name),
            lambda x, u, r, c, i, name=name: wrote(x, i, u, name),
        )
        for name in JOINS
    },
    "first": (
        lambda x, u, r, c, i: x.at[0].set(r),
        lambda x, u, r, c, i: wrote(x, np.array([0]), r),
    ),
    "last_add": (
        lambda x, u, r, c, i: x.at[-1].add(r),
        lambda x, u, r, c, i: wrote(x, np.array([-1]), r, "add"),
    ),
    "one_row": (
        lambda x, u, r, c, i: x.at[i[0]].multiply(r),
        lambda x, u, r, c, i: wrote(x, i[:1], r, "multiply"),
    ),
    "column": (lambda x, u, r, c, i: x.at[:, 0].set(c), lambda x, u, r, c, i: column(x, 0, c)),
    "column_far": (
        lambda x, u, r, c, i: x.at[:, i[0]].max(c),
        lambda x, u, r, c, i: column(x, i[0], c, "max"),
    ),
    "columns": (
        lambda x, u, r, c, i: x.at[:, i].add(u[:, :1].T + c[:, None]),
        lambda x, u, r, c, i: wrote(x.T, i, u[:, :1] + c, "add").T,
    ),
    "clipped": (
        lambda x, u, r, c, i: x.at[i].add(u, mode="clip"),
        lambda x, u, r, c, i: wrote(
            x, np.clip(np.where(i < 0, i + len(x), i), 0, len(x) - 1), u, "add"
        ),
    ),
    "elements": (
        lambda x, u, r, c, i: x.at[i, 0].add(1.0),
        lambda x, u, r, c, i: np.concatenate(
            [wrote(x[:, :1], i, F32(1), "add"), x[:, 1:]], axis=1
        ),
    ),
    "segments": (
        lambda x, u, r, c, i: jnp.zeros((5, x.shape[1])).at[i].add(u),
        lambda x, u, r, c, i: wrote(np.zeros((5, x.shape[1]), F32), i, u, "add"),
    ),
    "constant": (
        lambda x, u, r, c, i: x.at[jnp.array([0, -1, 0])].add(r),
        lambda x, u, r, c, i: wrote(x, np.array([0, -1, 0]), r, "add"),
    ),
    "strided": (
        lambda x, u, r, c, i: x.at[::2].set(r),
        lambda x, u, r, c, i: wrote(x, np.arange(0, len(x), 2), r),
    ),
    "taken": (
        lambda x, u, r, c, i: x[i],
        lambda x, u, r, c, i: x[np.clip(np.where(i < 0, i + len(x), i), 0, len(x) - 1)],
    ),
    "filled": (
        lambda x, u, r, c, i: jnp.take(x, i, 0, mode="fill", fill_value=7),
        lambda x, u, r, c, i: np.stack(
            [x[j] if -len(x) <= j < len(x) else np.full(x.shape[1], 7, F32) for j in i]
        ),
    ),
    "grad_first": (
        lambda x, u, r, c, i: calque.grad(lambda v: (v[0] * r).sum())(x),
        lambda x, u, r, c, i: wrote(np.zeros_like(x), np.array([0]), r),
    ),
    "grad_taken": (
        lambda x, u, r, c, i: calque.grad(lambda v: (v[i] * r).sum())(x),
        lambda x, u, r, c, i: _grad_taken(x, i, r),
    ),
    "grad_columns": (
        lambda x, u, r, c, i: calque.grad(lambda v: (v[:, i] * c[:, None]).sum())(x),
        lambda x, u, r, c, i: _grad_taken(x.T, i, c).T,
    ),
    "grad_of_values": (
        lambda x, u, r, c, i: calque.grad(lambda v: (x.at[i].add(v) * x).sum())(u),
        lambda x, u, r, c, i: np.stack(
            [x[j] if -len(x) <= j < len(x) else np.zeros(x.shape[1], F32) for j in i]
        ),
    ),
    "jvp": (
        lambda x, u, r, c, i: calque.jvp(lambda v: v.at[i].add(v[i]), (x,), (x,))[1],
        lambda x, u, r, c, i: wrote(
            x, i, x[np.clip(np.where(i < 0, i + len(x), i), 0, len(x) - 1)], "add"
        ),
    ),
    "vmap": (
        lambda x, u, r, c, i: calque.vmap(lambda v, a: v.at[i].add(a))(x, c),
        lambda x, u, r, c, i: wrote(x.T, i, c, "add").T,
    ),
    "vmap_windows": (
        lambda x, u, r, c, i: calque.vmap(lambda j, v: x.at[j].add(v))(i, u),
        lambda x, u, r, c, i: np.stack(
            [wrote(x, i[j : j + 1], u[j], "add") for j in range(len(i))]
        ),
    ),
    "vmap_rows": (
        lambda x, u, r, c, i: calque.vmap(lambda v, j: v.at[j].set(u, mode="drop"))(
            jnp.stack([x, -x]), jnp.stack([i, i // 2])
        ),
        lambda x, u, r, c, i: np.stack([wrote(x, i, u), wrote(-x, i // 2, u)]),
    ),
    "twice": (
        lambda x, u, r, c, i: x.at[i].set(u).at[0].add(r) - x,
        lambda x, u, r, c, i: wrote(wrote(x, i, u), np.array([0]), r, "add") - x,
    ),
    "own": (
        lambda x, u, r, c, i: x.at[i].set(x[i]),
        lambda x, u, r, c, i: wrote(
            x, i, x[np.clip(np.where(i < 0, i + len(x), i), 0, len(x) - 1)]
        ),
    ),
}


def _moved(x: Any, starts: Any) -> Any:
    """Each row with all but its last element, doubled, written from 0 or 1 on."""
    out = x.copy()
    for row, start in zip(out, np.clip(starts, 0, 1)):
        row[start : start + x.shape[1] - 1] = 2 * row[:-1].copy()
    return out


WINDOWS["vmap_update"] = (
    lambda x, u, r, c, i: calque.vmap(
        lambda v, j: lax.dynamic_update_slice(v, 2 * v[:-1], (j,))
    )(x, jnp.argsort(c)),
    lambda x, u, r, c, i: _moved(x, np.argsort(c)),
)
WINDOWS["vmap_slice"] = (
    lambda x, u, r, c, i: calque.vmap(
        lambda v, j: lax.dynamic_slice(v, (j,), (x.shape[1] - 1,))
    )(x, jnp.argsort(c)),
    lambda x, u, r, c, i: np.stack(
        [v[min(j, 1) :][: x.shape[1] - 1] for v, j in zip(x, np.argsort(c))]
    ),
)
SOME = ("rows_set", "rows_add", "first", "column", "grad_taken", "vmap_windows")


def guarded(call: Any, args: list[Any], label: str) -> list[Any]:
    """What a call gives of arrays before and behind guard pages; they stay as they are."""
    for at_end in (False, True):
        guards = [Guarded(a, at_end) for a in args]
        outs = [r.numpy() for r in call(*[Buffer.alias_numpy(g.array, call.device)
                                          for g in guards])]
        assert not any(g.changed() for g in guards), label
    return outs


def family(rows: dict[str, Row], *specs: str) -> Any:
    def every(*args: Any) -> dict[str, Any]:
        return {name: ours(*args) for name, (ours, _) in rows.items()}

    return aot.load(aot.compile(every, *specs, name="family").vmfb).family


SPECS = ("f32[b,n]", "f32[k,n]", "f32[n]", "f32[b]", "i32[k]")


@functools.cache
def _windows(small: bool) -> Any:
    return family({k: v for k, v in WINDOWS.items() if not small or k in SOME}, *SPECS)


def _check(small: bool, b: int, n: int, k: int) -> None:
    rng = np.random.default_rng([b, n, k])
    args = [
        rng.normal(size=shape).astype(F32) for shape in ((b, n), (k, n), (n,), (b,))
    ] + [rng.integers(-b - 2, b + 2, k).astype(np.int32)]
    if k > 2:  # far out, and twice the same
        args[4][:3] = (np.iinfo(np.int32).max, np.iinfo(np.int32).min, 0)
        args[4][-1] = 0
    label = f"b={b}, n={n}, k={k}"
    names = sorted(SOME if small else WINDOWS)
    for name, got in zip(names, guarded(_windows(small), args, label), strict=True):
        want = WINDOWS[name][1](*args)
        assert got.shape == want.shape and got.dtype == want.dtype, (name, label, got.shape)
        # a product and a few sums of f32 in another order
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=f"{name} {label}")


def test_windows_of_unknown_size() -> None:
    for sizes in ((1, 1, 1), (3, 16, 2), (7, 33, 9), (64, 100, 40), (5, 1000, 3)):
        _check(True, *sizes)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 1000])
@pytest.mark.parametrize("b, k", [(1, 1), (1, 3), (2, 1), (7, 9), (33, 40), (1000, 5)])
def test_every_family_of_windows(b: int, n: int, k: int) -> None:
    _check(False, b, n, k)


DTYPES = ["bool"]
DTYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@functools.cache
def _dtypes() -> Any:
    def every(x: Any, u: Any, i: Any, narrow: Any, small: Any) -> list[Any]:
        made = []
        for name in DTYPES:
            a, b = (v.astype(name) for v in (x, u))
            made += [a.at[i].set(b), a.at[i].max(b), a.at[:, 0].set(a[:, 0]), a.at[0].set(b[0])]
            if name != "bool":
                made += [a.at[narrow].add(b), a.at[small].multiply(b)]
        return made

    with calque.enable_x64(True):
        specs = ("i32[b,n]", "i32[k,n]", "i32[k]", "i8[k]", "u8[k]")
        return aot.load(aot.compile(every, *specs, name="dtypes").vmfb).dtypes


@pytest.mark.slow
@pytest.mark.parametrize("b, n, k", [(1, 1, 1), (3, 7, 2), (5, 64, 4), (200, 67, 9), (4, 5, 0)])
def test_windows_of_every_dtype(b: int, n: int, k: int) -> None:
    rng = np.random.default_rng([b, n, k])
    x, u = (rng.integers(0, 4, shape).astype(np.int32) for shape in ((b, n), (k + 1, n)))
    i = rng.integers(-b - 2, b + 2, k + 1).astype(np.int32)
    narrow, small = i.astype(np.int8), rng.integers(0, min(b + 2, 255), k + 1).astype(np.uint8)
    args = [x, u, i, narrow, small]
    got = iter(guarded(_dtypes(), args, f"b={b}, n={n}, k={k}"))
    for name in DTYPES:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        a, v = x.astype(dtype), u.astype(dtype)
        wants = [wrote(a, i, v), wrote(a, i, v, "max"), a, wrote(a, np.array([0]), v[:1])]
        if name != "bool":
            wants += [wrote(a, narrow, v, "add"), wrote(a, small, v, "multiply")]
        for want in wants:  # small integers: exact
            out = next(got)
            assert out.dtype == want.dtype and np.array_equal(out, want), (name, b, n, k)


def test_windows_where_a_size_is_0() -> None:
    def every(x: Any, u: Any, i: Any, one: Any) -> list[Any]:
        numbers = lax.ScatterDimensionNumbers((0,), (0,), (0,))
        return [
            x.at[i].add(u),
            jnp.zeros((5, x.shape[1])).at[i].set(u),
            lax.scatter_add(x, one, u.sum(0), numbers),
            x.at[:, one].multiply(2.0),
        ]

    call = aot.load(
        aot.compile(every, "f32[b,n]", "f32[k,n]", "i32[k]", "i32[1]", name="empty").vmfb
    ).empty
    for b, n, k in ((0, 4, 3), (3, 0, 2), (3, 4, 0), (0, 0, 0), (2, 3, 2)):
        x, u = np.ones((b, n), F32), np.full((k, n), 2, F32)
        i, one = np.arange(k, dtype=np.int32) - 1, np.array([1], np.int32)
        got = guarded(call, [x, u, i, one], f"b={b}, n={n}, k={k}")
        wants = [
            wrote(x, i, u, "add"),
            wrote(np.zeros((5, n), F32), i, u),
            wrote(x, one, u.sum(0), "add"),
            wrote(x.T, one, 2 * x.T[1:2], "set").T if n > 1 else x,
        ]
        for out, want in zip(got, wants, strict=True):
            np.testing.assert_array_equal(out, want, err_msg=f"b={b}, n={n}, k={k}")


def test_other_targets_say_what_they_cannot() -> None:
    with pytest.raises(InconclusiveDimensionOperation, match=r"scatter-add of float32\[b,n\]"):
        aot.compile(lambda x, i: x.at[i].add(1.0), "f32[b,n]", "i32[k]", targets=["cuda:sm_80"])


# sizes about those from which on one more round of sorting is made (1625, 2642245)
@pytest.mark.slow
def test_random_orders_of_unknown_size() -> None:
    def draws(key: Any, x: Any, r: Any) -> list[Any]:
        n = x.shape[0]
        return [
            random.permutation(key, x),
            random.permutation(key, n),
            random.permutation(key, r),
            random.permutation(key, r, independent=True),
            random.choice(key, x, (3,)),
            random.choice(key, n, (1,), replace=False),
            random.randint(key, (4,), 0, n),  # (DynamicBuilder.number: as an unsigned number, too)
        ]

    call = aot.load(aot.compile(draws, "u32[2]", "f32[b]", "f32[b,2]", name="draws").vmfb).draws
    for n in (1, 2, 3, 100, 812, 813, 1625, 1626, 2642245, 2642246):
        key, x = np.array([3, n], np.uint32), np.arange(n, dtype=F32)
        args = [key, x, np.arange(2 * n, dtype=F32).reshape(n, 2)]
        found = guarded(call, args, f"b={n}")
        for got, want in zip(found, draws(*map(jnp.asarray, args)), strict=True):
            assert got.dtype == want.dtype and np.array_equal(got, want), n  # as of a known size
        for order in found[:2]:
            assert np.array_equal(np.sort(order), np.arange(n))
