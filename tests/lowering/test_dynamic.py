"""Programs whose sizes are known at the call only: families of primitives, each compiled once,
against NumPy at many sizes, between guard pages; what cannot be had is an error that names it.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest
from support.guard import Guarded

import calque
import calque.numpy as jnp
from calque import aot, lax, nn
from calque.core.dims import symbolic_shape
from calque.core.primitive import registry
from calque.errors import InconclusiveDimensionOperation
from calque.lowering.passes import cost
from calque.runtime.buffer import Buffer

SIZES = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 100, 1000)
F32 = np.float32

# ---- families: (name, calque's, NumPy's); x (b, 4), y (b, 4), w (4, 3), i (c,) within and beyond


def softmax(x: Any, axis: int) -> Any:
    if not x.size:
        return x
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def tanh_mlp(x: Any, w: Any, library: Any) -> Any:
    return library.tanh(x @ w).sum()


ANY_SIZE = {
    "elementwise": (lambda x, y, w: jnp.sin(x) * y + 2, lambda x, y, w: np.sin(x) * y + 2),
    "broadcast": (
        lambda x, y, w: x[:, None] + y[:, :, None],
        lambda x, y, w: x[:, None] + y[:, :, None],
    ),
    "where": (lambda x, y, w: jnp.where(x > y, x, -y), lambda x, y, w: np.where(x > y, x, -y)),
    "sum": (lambda x, y, w: x.sum(), lambda x, y, w: x.sum()),
    "sum_0": (lambda x, y, w: x.sum(0), lambda x, y, w: x.sum(0)),
    "sum_1": (lambda x, y, w: x.sum(1), lambda x, y, w: x.sum(1)),
    "mean": (lambda x, y, w: x.mean(0), lambda x, y, w: x.mean(0)),
    "var": (lambda x, y, w: x.var(0), lambda x, y, w: x.var(0)),
    "prod": (lambda x, y, w: (x / 4 + 1).prod(1), lambda x, y, w: (x / 4 + 1).prod(1)),
    "max_1": (lambda x, y, w: x.max(1), lambda x, y, w: x.max(1)),
    "any": (lambda x, y, w: (x > 1).any(0), lambda x, y, w: (x > 1).any(0)),
    "softmax": (lambda x, y, w: nn.softmax(x, 1), lambda x, y, w: softmax(x, 1)),
    "reshape": (lambda x, y, w: x.reshape(-1, 2), lambda x, y, w: x.reshape(-1, 2)),
    "ravel": (lambda x, y, w: x.T.ravel(), lambda x, y, w: x.T.ravel()),
    "transpose": (lambda x, y, w: x.T, lambda x, y, w: x.T),
    "concatenate": (
        lambda x, y, w: jnp.concatenate([x, y[:, :2]], 1),
        lambda x, y, w: np.concatenate([x, y[:, :2]], 1),
    ),
    "join": (
        lambda x, y, w: jnp.concatenate([x, jnp.ones((3, 4)), y]),
        lambda x, y, w: np.concatenate([x, np.ones((3, 4), F32), y]),
    ),
    "stack": (lambda x, y, w: jnp.stack([x, y], 1), lambda x, y, w: np.stack([x, y], 1)),
    "slice": (lambda x, y, w: x[:, 1:3], lambda x, y, w: x[:, 1:3]),
    "reverse": (lambda x, y, w: x[:, ::-1], lambda x, y, w: x[:, ::-1]),
    "pad": (
        lambda x, y, w: jnp.pad(x, ((1, 2), (0, 1))),
        lambda x, y, w: np.pad(x, ((1, 2), (0, 1))),
    ),
    "tile": (lambda x, y, w: jnp.tile(x, (2, 1)), lambda x, y, w: np.tile(x, (2, 1))),
    "repeat": (lambda x, y, w: jnp.repeat(x, 2, 0), lambda x, y, w: np.repeat(x, 2, 0)),
    "arange": (
        lambda x, y, w: jnp.arange(x.shape[0]) * 3,
        lambda x, y, w: np.arange(x.shape[0], dtype=np.int32) * 3,
    ),
    "zeros": (
        lambda x, y, w: jnp.zeros((x.shape[0], 3)),
        lambda x, y, w: np.zeros((x.shape[0], 3), F32),
    ),
    "dimension": (lambda x, y, w: x.shape[0] * 2.5, lambda x, y, w: F32(x.shape[0] * 2.5)),
    "matmul": (lambda x, y, w: x @ w, lambda x, y, w: x @ w),
    "inner": (lambda x, y, w: x.T @ y, lambda x, y, w: x.T @ y),
    "rows": (
        lambda x, y, w: jnp.einsum("bi,bi->b", x, y),
        lambda x, y, w: np.einsum("bi,bi->b", x, y),
    ),
    "outer": (
        lambda x, y, w: jnp.einsum("bi,bj->bij", x, y),
        lambda x, y, w: np.einsum("bi,bj->bij", x, y),
    ),
    "vector": (lambda x, y, w: x[:, 0] @ y, lambda x, y, w: x[:, 0] @ y),
    "cumsum": (lambda x, y, w: jnp.cumsum(x, 1), lambda x, y, w: np.cumsum(x, 1)),
    "cummax": (lambda x, y, w: lax.cummax(x, 0), lambda x, y, w: np.maximum.accumulate(x, 0)),
    "sort": (lambda x, y, w: jnp.sort(x, 0), lambda x, y, w: np.sort(x, 0)),
    "argsort": (
        lambda x, y, w: jnp.argsort(x[:, 1]),
        lambda x, y, w: np.argsort(x[:, 1], kind="stable").astype(np.int32),
    ),
    "top_k": (lambda x, y, w: lax.top_k(x, 2)[0], lambda x, y, w: -np.sort(-x, 1)[:, :2]),
    "conv": (
        lambda x, y, w: lax.conv(x.reshape(-1, 1, 2, 2), w.reshape(3, 1, 2, 2), (1, 1), "VALID"),
        lambda x, y, w: (x @ w.reshape(3, 4).T).reshape(-1, 3, 1, 1),
    ),
    "cond": (
        lambda x, y, w: lax.cond(w[0, 0] > 0, lambda v: v * 2, lambda v: -v, x),
        lambda x, y, w: x * 2 if w[0, 0] > 0 else -x,
    ),
    "while": (
        lambda x, y, w: lax.fori_loop(0, 5, lambda i, v: v * 0.5 + i, x),
        lambda x, y, w: functools.reduce(lambda v, i: v * F32(0.5) + F32(i), range(5), x),
    ),
    "scan": (
        lambda x, y, w: lax.scan(lambda c, r: (c + r, c * r), w[:, 0], x)[1],
        lambda x, y, w: np.cumsum(np.concatenate([w[None, :, 0], x]), 0, dtype=F32)[:-1] * x,
    ),
    "vmap": (
        lambda x, y, w: calque.vmap(lambda r: jnp.tanh(r @ w).sum())(x),
        lambda x, y, w: np.tanh(x @ w).sum(1),
    ),
    "grad": (
        lambda x, y, w: calque.grad(lambda w: jnp.tanh(x @ w).sum())(w),
        lambda x, y, w: x.T @ (1 - np.tanh(x @ w) ** 2),
    ),
    "grad_of_mean": (
        lambda x, y, w: calque.grad(lambda v: (v**2).mean())(x),
        lambda x, y, w: 2 * x / F32(max(1, x.size)),
    ),
    "jvp": (lambda x, y, w: calque.jvp(jnp.exp, (x,), (y,))[1], lambda x, y, w: np.exp(x) * y),
    "cholesky": (
        lambda x, y, w: jnp.linalg.cholesky(x[:, :, None] * x[:, None] + jnp.eye(4)),
        lambda x, y, w: np.linalg.cholesky(x[:, :, None] * x[:, None] + np.eye(4, dtype=F32)),
    ),
    "singular": (
        lambda x, y, w: jnp.linalg.svd(x.reshape(-1, 2, 2), compute_uv=False),
        lambda x, y, w: np.linalg.svd(x.reshape(-1, 2, 2), compute_uv=False),
    ),
    "fft": (
        lambda x, y, w: jnp.fft.fft(x, axis=1),
        lambda x, y, w: np.fft.fft(x, axis=1).astype(np.complex64),
    ),
    "int8": (
        lambda x, y, w: jnp.concatenate([x.astype("uint8") * 3, y.astype("uint8")]),
        lambda x, y, w: np.concatenate([np.abs(x).astype("u1") * 3, np.abs(y).astype("u1")]),
    ),
    "complex": (
        lambda x, y, w: (x + 1j * y) * (y - 1j * x),
        lambda x, y, w: ((x + 1j * y) * (y - 1j * x)).astype(np.complex64),
    ),
}

# these take an element of the axis, so it must have one
NOT_EMPTY = {
    "first": (lambda x, y, i: x[0] - x[-1], lambda x, y, i: x[0] - x[-1]),
    "tail": (lambda x, y, i: x[1:] * x[:-1], lambda x, y, i: x[1:] * x[:-1]),
    "far": (lambda x, y, i: x[5:], lambda x, y, i: x[5:]),
    "stride": (lambda x, y, i: x[::3], lambda x, y, i: x[::3]),
    "flip": (lambda x, y, i: x[::-1], lambda x, y, i: x[::-1]),
    "clamped": (lambda x, y, i: x[6], lambda x, y, i: x[min(6, len(x) - 1)]),
    "max": (lambda x, y, i: x.max(0), lambda x, y, i: x.max(0)),
    "argmax": (lambda x, y, i: jnp.argmax(x, 0), lambda x, y, i: np.argmax(x, 0).astype(np.int32)),
    "take": (
        lambda x, y, i: jnp.take(x, i, 0, mode="clip"),
        lambda x, y, i: np.take(x, np.clip(i, 0, len(x) - 1), 0),
    ),
    "gather": (lambda x, y, i: x[i % x.shape[0]], lambda x, y, i: x[i % len(x)]),
    "dynamic_slice": (
        lambda x, y, i: lax.dynamic_slice_in_dim(x, i[0], 1, 0),
        lambda x, y, i: x[np.clip(i[0] + (i[0] < 0) * len(x), 0, len(x) - 1)][None],
    ),
    "update": (
        lambda x, y, i: x.at[0].set(9.0),
        lambda x, y, i: np.concatenate([x[:1] * 0 + 9, x[1:]]),
    ),
    "scatter": (
        lambda x, y, i: x.at[jnp.clip(i, 0, x.shape[0] - 1)].add(1.0),
        lambda x, y, i: _added(x, np.clip(i, 0, len(x) - 1)),
    ),
    "scatter_drops": (
        lambda x, y, i: x.at[i].add(1.0),
        lambda x, y, i: _added(x, _kept(i, len(x))),
    ),
    "vector_add": (
        lambda x, y, i: x[:, 1].at[i].add(1.0),
        lambda x, y, i: _added(x[:, 1], _kept(i, len(x))),
    ),
    "vector_set": (lambda x, y, i: x[:, 1].at[0].set(3.0), lambda x, y, i: _replaced(x[:, 1])),
    "vector_take": (
        lambda x, y, i: jnp.take(y[:, 0], i, mode="clip"),
        lambda x, y, i: np.take(y[:, 0], np.clip(i, 0, len(x) - 1)),
    ),
    "linspace": (
        lambda x, y, i: jnp.linspace(1.0, 3.0, x.shape[0]),
        lambda x, y, i: np.linspace(1, 3, len(x), dtype=F32),
    ),
    "hessian": (
        lambda x, y, i: calque.hessian(lambda v: (v**3).sum())(x[:, 0])[:, 0],
        lambda x, y, i: np.diag(6 * x[:, 0])[:, 0],
    ),
    "interior": (
        lambda x, y, i: lax.pad(x, F32(7), ((1, 0, 2), (0, 0, 0))),
        lambda x, y, i: _interior(x),
    ),
    "roll": (lambda x, y, i: jnp.roll(x, 1, 0), lambda x, y, i: np.roll(x, 1, 0)),
    # of one value, several updates: each has memory of its own
    "zeros": (lambda x, y, i: jnp.zeros(x.shape).at[0].set(1.0), lambda x, y, i: _marked(x, 0)),
    "zeros_again": (
        lambda x, y, i: jnp.zeros(x.shape).at[-1].set(1.0),
        lambda x, y, i: _marked(x, -1),
    ),
    "zeros_alone": (lambda x, y, i: jnp.zeros(x.shape), lambda x, y, i: np.zeros(x.shape, F32)),
    "grad_of_slices": (
        lambda x, y, i: calque.grad(lambda v: (v[1:] * v[:-1]).sum())(x),
        lambda x, y, i: np.pad(x[1:], ((0, 1), (0, 0))) + np.pad(x[:-1], ((1, 0), (0, 0))),
    ),
}


def _kept(i: Any, n: int) -> Any:
    i = np.where(i < 0, i + n, i)
    return i[(i >= 0) & (i < n)]


def _added(x: Any, i: Any) -> Any:
    out = x.copy()
    np.add.at(out, i, F32(1))
    return out


def _replaced(x: Any) -> Any:
    out = x.copy()
    out[0] = 3
    return out


def _marked(x: Any, at: int) -> Any:
    out = np.zeros(x.shape, F32)
    out[at] = 1
    return out


def _interior(x: Any) -> Any:
    out = np.full((1 + len(x) + 2 * max(0, len(x) - 1), 4), 7, F32)
    out[1::3] = x
    return out


def _all(rows: dict[str, Any]) -> Any:
    def family(*args: Any) -> dict[str, Any]:
        return {name: ours(*args) for name, (ours, _) in rows.items()}

    return family


@functools.cache
def _loaded(which: str) -> Any:
    rows, specs = {
        "any": (ANY_SIZE, ("f32[b,4]", "f32[b,4]", "f32[4,3]")),
        "some": (NOT_EMPTY, ("f32[b,4]", "f32[b,4]", "i32[c]")),
    }[which]
    return aot.load(aot.compile(_all(rows), *specs, name="family").vmfb).family


def _check(which: str, rows: dict[str, Any], args: list[Any], label: str) -> None:
    call = _loaded(which)
    names = sorted(rows)  # a dictionary's order as a tree
    for at_end in (False, True):
        guards = [Guarded(a, at_end) for a in args]
        got = [r.numpy() for r in call(*[Buffer.alias_numpy(g.array, call.device) for g in guards])]
        assert not any(g.changed() for g in guards), label
    for name, value in zip(names, got, strict=True):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = np.asarray(rows[name][1](*args))
        assert value.shape == want.shape and value.dtype == want.dtype, (
            name,
            label,
            value.shape,
            want.shape,
        )
        # sums of up to 4000 f32 in another order
        np.testing.assert_allclose(
            value,
            want,
            rtol=3e-5,
            atol=3e-5 * max(1, len(args[0]) ** 0.5),
            err_msg=f"{name} {label}",
        )


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_families_for_any_size(size: int) -> None:
    rng = np.random.default_rng(size)
    args = [
        np.abs(rng.normal(size=(size, 4))).astype(F32),
        np.abs(rng.normal(size=(size, 4))).astype(F32),
        rng.normal(size=(4, 3)).astype(F32),
    ]
    _check("any", ANY_SIZE, args, f"b={size}")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_families_of_axes_with_elements(size: int, count: int) -> None:
    rng = np.random.default_rng(size)
    args = [
        rng.normal(size=(size, 4)).astype(F32),
        rng.normal(size=(size, 4)).astype(F32),
        rng.integers(-2 * size - 2, 2 * size + 2, count).astype(np.int32),
    ]
    if not count:
        args[2] = np.zeros(1, np.int32)  # dynamic_slice reads i[0]
    _check("some", NOT_EMPTY, args, f"b={size}, c={count}")


@pytest.mark.slow
def test_a_size_of_0_is_refused_where_an_element_is_read() -> None:
    with pytest.raises(ValueError, match="b >= 1 must hold of the arguments' sizes, got b = 0"):
        _loaded("some")(np.zeros((0, 4), F32), np.zeros((0, 4), F32), np.zeros(1, np.int32))


SOME = {
    name: ANY_SIZE[name]
    for name in ("elementwise", "sum", "mean", "softmax", "matmul", "join", "dimension", "grad")
}


def test_one_compile_for_all_sizes() -> None:
    specs = [
        calque.ShapeDtypeStruct(shape, "float32") for shape in (symbolic_shape("b, 4"),) * 2
    ] + [calque.ShapeDtypeStruct((4, 3), "float32")]
    call = aot.load(aot.compile(_all(SOME), *specs, name="family").vmfb).family
    for size in SIZES:
        x, y = np.random.default_rng(size).normal(size=(2, size, 4)).astype(F32)
        w = np.ones((4, 3), F32)
        got = [r.numpy() for r in call(x, y, w)]
        for name, value in zip(sorted(SOME), got, strict=True):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                want = np.asarray(SOME[name][1](x, y, w))
            assert value.shape == want.shape
            np.testing.assert_allclose(value, want, rtol=3e-5, atol=1e-3, err_msg=f"{name} {size}")


@pytest.mark.parametrize(
    "function, spec, first",
    [
        (
            lambda x: jnp.fft.fft(x, axis=0),
            "f32[b,3]",
            "Symbolic dimension comparison 'b' > '1'",
        ),
        (
            lambda x: lax.conv(x, x[:1], (1, 1), "SAME"),  # a kernel of unknown size
            "f32[2,1,h,h]",
            "conv_general_dilated of",
        ),
        (
            lambda x: jnp.convolve(x, jnp.ones(3)),
            "f32[b]",
            "Symbolic dimension comparison 'b' < '3'",
        ),
        (
            lambda x: jnp.zeros(int(x.shape[0])),
            "f32[b]",
            "Symbolic dimension 'b' used in a context",
        ),
    ],
)
def test_what_cannot_be_had_says_so(function: Any, spec: str, first: str) -> None:
    with pytest.raises(InconclusiveDimensionOperation) as caught:
        aot.compile(function, spec)
    text = str(caught.value)
    assert text.startswith(first), text
    assert "test_dynamic.py" in text and "Fix: " in text


def test_dimensions_must_be_solvable() -> None:
    with pytest.raises(ValueError, match="Cannot solve for values of dimension variables"):
        aot.compile(lambda x: x, "f32[b*b]")
    (n,), (m,) = symbolic_shape("n"), symbolic_shape("n")
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        aot.compile(
            lambda x, y: x,
            calque.ShapeDtypeStruct((n,), "float32"),
            calque.ShapeDtypeStruct((m,), "float32"),
        )


def test_donation_and_other_targets() -> None:
    def step(x: Any, y: Any) -> Any:
        return x.at[0].add(y[0])

    call = aot.load(aot.compile(step, "f32[b,4]", "f32[b,4]", donate_argnums=0, name="f").vmfb).f
    for size in (1, 5):
        x = Buffer.from_numpy(np.ones((size, 4), F32), call.device)
        got = call(x, np.ones((size, 4), F32))[0].numpy()
        assert x.is_deleted() and got.sum() == 4 * size + 4
    made = aot.compile(
        lambda x: (jnp.tanh(x) @ x.T).sum(0),
        "f32[b,4]",
        targets=["cuda:sm_80", "vulkan:lavapipe"],
    )
    assert made.targets == ("cuda:sm_80", "vulkan:lavapipe")
    with pytest.raises(InconclusiveDimensionOperation,
                       match=r"sort of float32\[b\] needs to know b"):
        aot.compile(jnp.sort, "f32[b]", targets=["cuda:sm_80"])


def test_the_queue_goes_by_the_sizes() -> None:
    call = aot.load(aot.compile(lambda x: jnp.sin(x), "f32[b,4]", name="f").vmfb).f
    assert str(call.record.call.work) == f"{4 * registry['sin'].weight}*b"
    for size in (3, 100_000):
        x = np.full((size, 4), 0.5, F32)
        np.testing.assert_allclose(call(x)[0].numpy(), np.sin(x), rtol=1e-6)


def test_large_results_beside_one_of_unknown_size() -> None:
    """They are written into memory of ours."""
    made = aot.compile(lambda x, w: (x + 1, jnp.sin(w) @ w), "f32[b]", "f32[300,300]", name="f")
    call = aot.load(made.vmfb).f
    assert call.record.call.output_buffers == (1,)
    w = np.random.default_rng(0).random((300, 300), F32)
    small, large = (r.numpy() for r in call(np.zeros(3, F32), w))
    assert small.tolist() == [1, 1, 1]
    np.testing.assert_allclose(large, np.sin(w) @ w, rtol=1e-4)  # sums of 300 positive products


def test_the_queue_is_that_of_jit() -> None:
    """By the same threshold, which counts sums and products, too."""
    def f(x: Any) -> Any:
        return ((x @ x.T).sum(0) @ x).sum()

    call = aot.load(aot.compile(f, "f32[b,4]", name="f").vmfb).f.record.call
    for size, inline in ((100, True), (840, True), (860, False), (2000, False)):
        program = calque.make_jaxpr(f)(np.ones((size, 4), F32)).jaxpr
        assert call.runs_inline({"b": size}) == cost.runs_inline(program) == inline


def test_damaged_dimensions_are_refused() -> None:
    from calque.runtime.dims import parse

    for text in (
        "",
        "b +",
        "b^99999999",
        "b b",
        "mod(b)",
        "mod(b, 2",
        "f(b, 2)",
        "1.5",
        "__import__",
    ):
        if text == "__import__":
            assert parse(text).variables == {"__import__"}  # a name like any other
            continue
        with pytest.raises(ValueError):
            parse(text)


EQUAL = {  # what StableHLO folds to a constant, which has no unknown size
    "eq": lambda i: i == i,
    "ne": lambda i: i != i,
    "bool": lambda i: (i > 2) == (i > 2),
    "difference": lambda i: (i + 1) - (i + 1),
    "sum": lambda i: (i == i).sum(),
    "mean": lambda i: (i == i).mean(),
    "sum_0": lambda i: (i[:, None] <= i[:, None]).sum(0),
    "cumsum": lambda i: (i == i).cumsum(),
    "product": lambda i: (i == i).astype("float32") @ (i == i).astype("float32"),
    "zeros": lambda i: (i - i).sum(),
    # (the zero that hides a fold was once made of what nobody had written)
    "an axis more": lambda i: i[:, None].sum(0),
    "two axes more": lambda i: (i[None, :, None] + 1).sum(1),
}


def test_integers_compared_with_themselves() -> None:
    spec = calque.ShapeDtypeStruct(symbolic_shape("n"), "int32")
    rows = {name: (f, None) for name, f in EQUAL.items()}
    call = aot.load(aot.compile(_all(rows), spec, name="family").vmfb).family
    for size in (0, 1, 7, 33):
        i = np.arange(size, dtype=np.int32)
        for name, got in zip(sorted(EQUAL), call(i), strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the mean of nothing
                want = EQUAL[name](i)
            np.testing.assert_array_equal(got.numpy(), want, err_msg=f"{name} {size}")


def test_sums_along_an_axis_that_a_constraint_bounds() -> None:
    """There is no whole block of 1,024 then: a reshape to such blocks was refused by IREE."""
    made = aot.compile(lambda x: x.sum(1), "f32[b,n,3]", constraints=["n <= 64"], name="sums")
    for shape in ((2, 5, 3), (1, 64, 3), (3, 1, 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(aot.load(made).sums(x)[0].numpy(), x.sum(1))
