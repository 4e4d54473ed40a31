"""Pallas: kernels that people write, in transformations, and on every target."""
from __future__ import annotations

import functools
import pathlib
from typing import Any

import numpy as np
import pallas_kernels as ks
import pytest
from support.oracle import interpret

import calque
import calque.numpy as jnp
from calque import aot, export, lax
from calque.core.program import Equation, Program
from calque.experimental import pallas as pl
from calque.lowering.passes.hoist import hoist
from calque.primitives import simplify

S, B = calque.ShapeDtypeStruct, pl.BlockSpec


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X, Y = _random(8, 12), _random(12, 8, seed=1)
Q, K, V = _random(4, 12, 6), _random(2, 12, 6, seed=1), _random(2, 12, 6, seed=2)
NUMBERS = np.array([3, 1, 3, 0, 2, 3], np.int32)


def _close(got: Any, want: Any, eps: float = 100.0) -> None:
    """To so many eps of the largest element."""
    want = np.asarray(want, np.float64)
    error = np.abs(np.asarray(got, np.float64) - want).max()
    assert error <= eps * 2.0 ** -23 * np.abs(want).max(), error


# those beside them are in other tests, too: in transformations, as loops of much work
FEW = ("odd", "odd softmax", "grid", "running", "picked", "counted", "smoothed")
OTHERS = ("matmul", "relu", "softmax", "flash", "causal")


def _all(names: tuple[str, ...]) -> Any:
    def f(x: Any, y: Any, q: Any, k: Any, v: Any, numbers: Any) -> dict[str, Any]:
        every = {
            "matmul": lambda: ks.matmul(x, y), "odd": lambda: ks.matmul(x[:7], y[:, :5]),
            "relu": lambda: ks.matmul_relu(x, y), "softmax": lambda: ks.softmax(x),
            "odd softmax": lambda: ks.softmax(x[:7, :5]), "flash": lambda: ks.flash(q, k, v),
            "causal": lambda: ks.flash(q, k, v, causal=True),
            "grid": lambda: ks.flash_of_grid(q[:2], k, v),
            "running": lambda: ks.running_sum(x.ravel()[:10]),
            "picked": lambda: ks.picked(y, numbers), "counted": lambda: ks.counted(numbers, 5),
            "smoothed": lambda: ks.smoothed(x[0, :10])}
        assert set(every) == {*FEW, *OTHERS}
        return {name: every[name]() for name in names}
    return f


def _check_all(got: dict[str, Any], names: tuple[str, ...]) -> None:
    line = X[0, :10].astype(np.float64)
    wanted = {
        "matmul": X.astype(np.float64) @ Y, "odd": X[:7].astype(np.float64) @ Y[:, :5],
        "relu": np.maximum(X.astype(np.float64) @ Y, 0), "softmax": ks.normalized(X),
        "odd softmax": ks.normalized(X[:7, :5]), "flash": ks.attention(Q, K, V),
        "causal": ks.attention(Q, K, V, True), "grid": ks.attention(Q[:2], K, V),
        "running": np.cumsum(X.ravel()[:10], dtype=np.float64), "picked": Y[NUMBERS],
        "counted": np.bincount(NUMBERS, minlength=5),
        "smoothed": np.convolve(line, np.ones(3))[1:-1]}
    assert set(got) == set(names)
    for name in names:
        assert np.asarray(got[name]).shape == wanted[name].shape, name
        _close(got[name], wanted[name])


@pytest.mark.parametrize("names", [FEW, pytest.param(OTHERS, marks=pytest.mark.slow)],
                         ids=["few", "others"])
def test_kernels(names: tuple[str, ...]) -> None:
    _check_all(calque.jit(_all(names))(X, Y, Q, K, V, NUMBERS), names)


@pytest.mark.vulkan
def test_kernels_on_a_gpu(gpu: Any) -> None:
    args = [calque.device_put(a, gpu) for a in (X, Y, Q, K, V, NUMBERS)]
    _check_all(calque.jit(_all((*FEW, *OTHERS)))(*args), (*FEW, *OTHERS))


@pytest.mark.parametrize("flash", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_targets(flash: bool, tmp_path: pathlib.Path) -> None:
    """One file for a CPU and for CUDA; the CPU's is run."""
    def f(x: Any, y: Any, q: Any, k: Any, v: Any) -> Any:
        return [ks.matmul_relu(x, y), ks.softmax(x), *([ks.flash(q, k, v)] if flash else [])]

    specs = [S(a.shape, a.dtype) for a in (X, Y, Q, K, V)]
    aot.compile(f, *specs, targets=["cpu", "cuda:sm_80"]).save(tmp_path / "f.vmfb")
    got = aot.load(tmp_path / "f.vmfb").f(X, Y, Q, K, V)
    assert len(got) == 2 + flash
    for a, want in zip(got, (np.maximum(X @ Y, 0), ks.normalized(X), ks.attention(Q, K, V))):
        _close(a, want)


def test_export() -> None:
    """What a kernel is on whole arrays goes into portable functions."""
    made = export.export(calque.jit(ks.matmul))(S(X.shape, X.dtype), S(Y.shape, Y.dtype))
    assert "stablehlo.dot_general" in made.mlir_module()
    _close(export.deserialize(made.serialize()).call(X, Y), X.astype(np.float64) @ Y)


# ---- what is compiled
def _equations(p: Program) -> list[Equation]:
    found = list(p.equations)
    for e in p.equations:
        for value in e.params.values():
            for q in value if isinstance(value, tuple) else (value,):
                found += _equations(q) if isinstance(q, Program) else []
    return found


def _names(p: Program) -> list[str]:
    return [e.primitive.name for e in _equations(p)]


def _hoisted(f: Any, *args: Any) -> list[str]:
    return _names(hoist(calque.make_jaxpr(f)(*args).jaxpr))


def test_grids_become_axes_and_few_steps() -> None:
    """No branch is left of what is done at the first and at the last step, no loop of cells."""
    found = _hoisted(ks.softmax, X)
    assert not {"scan", "while", "cond", "gather", "scatter", "dynamic_slice"} & set(found)
    found = _hoisted(ks.matmul_relu, X, Y)
    assert not {"while", "cond", "gather", "scatter", "dynamic_slice"} & set(found)
    assert found.count("dot_general") == 2  # of the last step, and of those before it
    found = _hoisted(lambda x, y: ks.matmul_relu(x, y, 2), X, Y)
    assert (found.count("dot_general"), found.count("scan"), found.count("cond")) == (2, 0, 0)
    found = _hoisted(ks.matmul, X, Y)  # the first step is as the others: it only sets what is added
    assert (found.count("dot_general"), found.count("scan"), found.count("cond")) == (1, 0, 0)


def test_a_first_step_of_its_own() -> None:
    """What the first step does is told from what only looks like it."""
    def kernel(x_ref: Any, o_ref: Any, p_ref: Any, q_ref: Any, r_ref: Any) -> None:
        k = pl.program_id(0)
        x = x_ref[...]

        @pl.when(k == 0)
        def start() -> None:
            o_ref[...] = jnp.ones_like(o_ref)
            p_ref[...] = x_ref[...]
            q_ref[...] = jnp.full_like(q_ref, 3)
            r_ref[...] = jnp.zeros_like(r_ref)

        o_ref[...] += x
        p_ref[...] += x
        q_ref[...] += jnp.where(k == 0, 10, 1) * x
        r_ref[...] = x - r_ref[...]

    one, every = B((None, 12), lambda k: (k, 0)), B((12,), lambda k: (0,))

    def run(pick: tuple[int, ...]) -> Any:
        def some(x_ref: Any, *refs: Any) -> None:
            left = iter(refs)
            kernel(x_ref, *[next(left) if i in pick else calque.new_ref(jnp.zeros(12))
                            for i in range(4)])
        return pl.pallas_call(some, [S((12,), "float32")] * len(pick), grid=8, in_specs=[one],
                              out_specs=[every] * len(pick))

    x = X.astype(np.float64)
    r = np.zeros(12)
    for row in x:
        r = row - r
    wanted = [1 + x.sum(0), x[0] + x.sum(0), 3 + x.sum(0) + 9 * x[0], r]
    picks = [(0,), (1,), (2,), (3,), (0, 1, 2, 3)]
    for pick, got in zip(picks, calque.jit(lambda x: [run(p)(x) for p in picks])(X)):
        for i, y in zip(pick, got):
            _close(y, wanted[i])


def test_steps_that_only_add_are_no_loop() -> None:
    """The backward pass of a linear layer in blocks of rows: gradients of the weights are sums over
    all rows (products, contracted over the steps), extrema are joined, bytes wrap around."""
    def kernel(x_ref: Any, ct_ref: Any, w_ref: Any, dx_ref: Any, dw_ref: Any, db_ref: Any,
               top_ref: Any, low_ref: Any, count_ref: Any) -> None:
        x, ct = x_ref[...], ct_ref[...]
        dx_ref[...] = ct @ w_ref[...].T

        @pl.when(pl.program_id(0) == 0)
        def start() -> None:
            dw_ref[...] = jnp.zeros_like(dw_ref)
            db_ref[...] = jnp.zeros_like(db_ref)
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            low_ref[...] = jnp.full_like(low_ref, jnp.inf)
            count_ref[...] = jnp.full_like(count_ref, 100)

        dw_ref[...] += x.T @ ct
        db_ref[...] += ct.sum(0)
        top_ref[...] = jnp.maximum(top_ref[...], ct.max(0))
        low_ref[...] = jnp.minimum(ct.min(0), low_ref[...])
        count_ref[...] += (ct > 0).sum(0).astype(jnp.int8) + jnp.int8(20)

    def f(x: Any, ct: Any, w: Any) -> Any:
        rows, whole = B((2, 12), lambda i: (i, 0)), B((6,), lambda i: (0,))
        parts = B((2, 6), lambda i: (i, 0))
        return pl.pallas_call(
            kernel, [S(x.shape, x.dtype), S(w.shape, w.dtype), *[S((6,), x.dtype)] * 3,
                     S((6,), "int8")], grid=8,
            in_specs=[rows, parts, B()], out_specs=[rows, B(), *[whole] * 4])(x, ct, w)

    x, ct, w = _random(16, 12, seed=3), _random(16, 6, seed=4), _random(12, 6, seed=5)
    assert not {"scan", "cond"} & set(_hoisted(f, x, ct, w))
    dx, dw, db, top, low, count = calque.jit(f)(x, ct, w)
    for got, want in ((dx, ct.astype(np.float64) @ w.T), (dw, x.T.astype(np.float64) @ ct),
                      (db, ct.sum(0, dtype=np.float64)), (top, ct.max(0)), (low, ct.min(0))):
        _close(got, want)
    np.testing.assert_array_equal(count, (100 + 8 * 20 + (ct > 0).sum(0)).astype(np.int8))


def test_what_no_loop_kernel_takes_leaves_the_steps() -> None:
    """A running sum adds up its blocks side by side; only what is carried is a loop."""
    p = hoist(calque.make_jaxpr(ks.running_sum)(X.ravel()).jaxpr)
    (loop,) = [e for e in _equations(p) if e.primitive.name == "scan"]
    assert "cumsum" in _names(p) and "cumsum" not in _names(loop.params["jaxpr"])


@pytest.mark.parametrize("short", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_loops_of_much_work(short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In kernels they are written out where they are short: positions are known then, rows in order
    or reversed.  Others scan the blocks that they would cut from an array."""
    monkeypatch.setattr(simplify, "MUCH", -1)
    monkeypatch.setattr(simplify, "MOST_STEPS", 32 if short else 0)

    def kernel(x_ref: Any, o_ref: Any, p_ref: Any) -> None:
        def step(i: Any, row: Any) -> Any:
            p_ref[pl.ds(i, 1)] = row.sum()[None] + i
            return i + 1, jnp.where(i == 0, row, row * 2)

        o_ref[...] = lax.scan(step, 0, x_ref[...], reverse=True)[1]

        def no_step(c: Any, row: Any) -> Any:
            return c + row, c

        p_ref[0] += lax.scan(no_step, jnp.float32(7), jnp.zeros((0,)))[0]

    def f(x: Any) -> Any:
        return pl.pallas_call(
            kernel, [S(x.shape, x.dtype), S((8,), x.dtype)], grid=2,
            in_specs=[B((4, 12), lambda i: (i, 0))],
            out_specs=[B((4, 12), lambda i: (i, 0)), B((4,), lambda i: i)])(x)

    assert ("scan" in _hoisted(f, X)) is not short
    flash = functools.partial(ks.flash, causal=False)  # a function of its own: traced anew
    assert ("scan" in _hoisted(flash, Q, K, V)) is not short
    assert "dynamic_slice" not in _hoisted(flash, Q, K, V)
    # ends that follow from the place in the grid: such loops have a derivative, too
    causal = functools.partial(ks.flash, causal=True)
    assert not {"while", "dynamic_slice"} & set(_hoisted(causal, Q, K, V))
    backwards = functools.partial(ks.flash, backwards=True)
    assert "dynamic_slice" not in _hoisted(backwards, Q, K, V)
    ct = _random(*Q.shape, seed=5)

    def every(x: Any, q: Any, k: Any, v: Any) -> Any:
        slope = () if short else calque.grad(lambda q: (causal(q, k, v) * ct).sum())(q)
        return (*f(x), [flash(q, k, v), causal(q, k, v), backwards(q, k, v)], slope)

    o, p, (plain, masked, back), got = calque.jit(every)(X, Q, K, V)
    halves = X.reshape(2, 4, 12).astype(np.float64)
    _close(o, np.where((np.arange(8) % 4 == 3)[:, None], X, 2 * X))
    _close(p, (halves.sum(2)[:, ::-1] + np.arange(4) + np.array([7, 0, 0, 0])).ravel())
    _close(plain, ks.attention(Q, K, V))
    _close(masked, ks.attention(Q, K, V, True))
    _close(back, ks.attention(Q, K, V))
    if short:  # (its gradient is long to compile)
        return
    step, way = 1e-3, _random(*Q.shape, seed=6).astype(np.float64)
    ends = [(ks.attention(Q + s * step * way, K, V, True) * ct).sum() for s in (1, -1)]
    np.testing.assert_allclose((np.asarray(got) * way).sum(), (ends[0] - ends[1]) / (2 * step),
                               rtol=1e-5)


def test_printed() -> None:
    text = str(calque.make_jaxpr(ks.matmul)(X, Y))
    assert "pallas_call[" in text and "grid=(2, 2, 3)" in text and "Block(4, 4)" in text
    text = str(calque.make_jaxpr(calque.vmap(ks.softmax))(X[None]))
    assert "grid=(1, 2)" in text and "Block(squeezed, 4, 12)" in text


def test_axes_of_a_grid_have_names(capfd: pytest.CaptureFixture[str]) -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        calque.debug.print("x = {}", x_ref)
        place = 10 * lax.axis_index("row") + lax.axis_index("half")
        inner = calque.vmap(lambda v: v + lax.axis_index("lane"), axis_name="lane")(x_ref[...])
        o_ref[...] = inner + place * lax.axis_size("row")

    block = B((None, 4), lambda i, j: (i, j))
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    got = pl.pallas_call(kernel, S((3, 8), "float32"), grid=(("row", 3), ("half", 2)),
                         in_specs=[block], out_specs=block)(x)
    row, column = np.indices((3, 8))
    np.testing.assert_array_equal(got, x + column % 4 + 3 * (10 * row + column // 4))
    calque.effects_barrier()
    assert capfd.readouterr().out.count("x = [") == 6
    with pytest.raises(NameError, match="unbound axis name: row"):
        lax.axis_size("row")


def test_estimated_cost() -> None:
    cost = pl.estimate_cost(lambda x, y: jnp.exp(x @ y) ** 3, S((4, 6), "float32"),
                            S((6, 5), "float32"))
    assert (cost.flops, cost.transcendentals) == (2 * 4 * 5 * 6 + 2 * 20, 20)
    assert cost.bytes_accessed == 4 * (24 + 30 + 20)


def test_debug_and_name(capfd: pytest.CaptureFixture[str]) -> None:
    def kernel(o_ref: Any) -> None:
        pl.debug_print("cell {}", pl.program_id(0))
        o_ref[...] = pl.program_id(0)

    got = pl.pallas_call(kernel, S((3,), "int32"), grid=3, out_specs=B((None,), lambda i: i),
                         name="places", debug=True)()
    np.testing.assert_array_equal(got, [0, 1, 2])
    calque.effects_barrier()
    said = capfd.readouterr().out
    assert "The kernel of pallas_call places:\n{ lambda ; a:i32[] " in said
    assert all(f"cell {i}\n" in said for i in range(3))


# ---- transformations
@calque.custom_vjp
def _with_rule(x: Any) -> Any:
    return ks.softmax(x)


def _backward(y: Any, ct: Any) -> Any:
    def kernel(y_ref: Any, ct_ref: Any, o_ref: Any) -> None:
        y, ct = y_ref[...], ct_ref[...]
        o_ref[...] = y * (ct - (y * ct).sum(-1, keepdims=True))

    block = B((2, y.shape[1]), lambda i: (i, 0))
    return (pl.pallas_call(kernel, S(y.shape, y.dtype), grid=len(y) // 2, in_specs=[block, block],
                           out_specs=block)(y, ct),)


_with_rule.defvjp(lambda x: (ks.softmax(x),) * 2, _backward)


def _by_numpy(f: Any, *args: Any) -> Any:
    """As NumPy evaluates the traced Program, whose kernels are loops or operations of arrays."""
    program = calque.make_jaxpr(f)(*args).jaxpr
    leaves = interpret(hoist(program.consts_as_inputs()),
                       [*map(np.asarray, program.consts), *args])
    return calque.tree.unflatten(calque.tree.structure(calque.eval_shape(f, *args)), leaves)


COMPILED = ("grads", "product", "batch", "scan")  # the others: slow
ALL = (*COMPILED, "plain", "hessian", "plain hessian", "tangent", "batch of grads", "branch",
       "while")


@pytest.mark.parametrize("compiled", [COMPILED, pytest.param(ALL, marks=pytest.mark.slow)],
                         ids=["some", "all"])
def test_transformations(compiled: tuple[str, ...]) -> None:
    """One module: gradients (of the kernel as it is, and by a rule that is a kernel), tangents,
    batches, loops, branches."""
    weights = _random(8, 12, seed=3)

    def plain(x: Any) -> Any:
        return (calque.nn.softmax(x, -1) * weights).sum()

    def f(x: Any, y: Any, weights: Any, names: tuple[str, ...] = ALL) -> dict[str, Any]:
        ours = [lambda x: (ks.softmax(x) * weights).sum(),
                lambda x: (_with_rule(x) * weights).sum()]
        every = {
            "grads": lambda: [calque.grad(g)(x) for g in ours], "plain": lambda: calque.grad(
                plain)(x),
            "hessian": lambda: calque.hessian(lambda r: ks.softmax(x.at[0].set(r))[0, 0])(x[0]),
            "plain hessian": lambda: calque.hessian(lambda r: calque.nn.softmax(r)[0])(x[0]),
            "product": lambda: calque.grad(
                lambda x, y: (ks.matmul_relu(x, y) ** 2).sum(), (0, 1))(x, y),
            "tangent": lambda: calque.jvp(ks.matmul, (x, y), (x, 2 * y))[1],
            "batch": lambda: calque.vmap(ks.matmul, (None, 2))(x, jnp.stack([y, -y], 2)),
            "batch of grads": lambda: calque.vmap(calque.grad(ours[0]))(jnp.stack([x, 2 * x]))[0],
            "scan": lambda: lax.scan(lambda c, s: (ks.softmax(c) * s, ks.softmax(c)[0, 0]), x,
                                     jnp.ones(3))[0],
            "branch": lambda: lax.cond(
                x[0, 0] > 100, lambda: ks.softmax(x), lambda: ks.softmax(-x)),
            "while": lambda: lax.while_loop(
                lambda c: c[1] < 2, lambda c: (ks.softmax(c[0]), c[1] + 1), (x, 0))[0]}
        return {name: every[name]() for name in names}

    plainly = _by_numpy(f, X, Y, weights)
    product = np.maximum(X.astype(np.float64) @ Y, 0)
    product_of, once = X.astype(np.float64) @ Y, ks.normalized(X)
    wants = {
        "grads": [plainly["plain"]] * 2, "batch of grads": plainly["plain"],
        "hessian": plainly["plain hessian"], "product": [2 * product @ Y.T, 2 * X.T @ product],
        "tangent": 3 * product_of, "batch": np.stack([product_of, -product_of]),
        "while": ks.normalized(once), "scan": ks.normalized(ks.normalized(once)),
        "branch": ks.normalized(-X), "plain": plainly["plain"],
        "plain hessian": plainly["plain hessian"]}
    for got in (plainly, calque.jit(f, static_argnums=3)(X, Y, weights, compiled)):
        for name, value in got.items():
            for a, want in zip(calque.tree.leaves(value), calque.tree.leaves(wants[name]),
                               strict=True):
                assert a.shape == want.shape, name
                _close(a, want)


@pytest.mark.slow
def test_a_copy_of_every_dtype() -> None:
    """Infinities, NaN and -0 stay what they are; what is outside is not written."""
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    def copy(x: Any) -> Any:
        block = B((3,), lambda i: 1 - i)
        return pl.pallas_call(kernel, S((5,), x.dtype), grid=2, in_specs=[block],
                              out_specs=block)(x)

    special = np.array([1, -0.0, np.inf, np.nan, -3], np.float32)
    xs = [jnp.asarray(special).astype(d) for d in ("float16", "bfloat16", "float32", "complex64")]
    xs += [jnp.asarray([1, 0, 3, 5, 7]).astype(d) for d in (
        "int8", "int16", "int32", "uint8", "uint32", "float8_e4m3fn", "float8_e5m2", "bool")]
    with calque.enable_x64(True):
        xs += [jnp.asarray(special).astype(d) for d in ("float64", "complex128")]
        got = calque.jit(lambda xs: [copy(x) for x in xs])(xs)
    for x, y in zip(xs, got):
        assert y.dtype == x.dtype
        assert np.asarray(y).tobytes() == np.asarray(x).tobytes(), x.dtype


def test_sizes_0_and_1() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    for shape in [(0,), (0, 3), (1, 1), ()]:
        x = np.ones(shape, np.float32)
        np.testing.assert_array_equal(pl.pallas_call(kernel, S(shape, "float32"))(x), x * 2)


def test_the_kernel_is_traced_once() -> None:
    count = []

    def kernel(x_ref: Any, o_ref: Any) -> None:
        count.append(1)
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, S((2,), "float32"))
    for _ in range(3):
        f(np.ones(2, np.float32))
    assert len(count) == 1
