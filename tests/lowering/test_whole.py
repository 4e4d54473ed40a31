"""Small programs as one kernel of ours (cost.is_whole, kernels.emit_whole): which they are, and
what they return beside NumPy.  Random ones: `python tests/fuzz.py --whole`.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.lowering.driver import module
from calque.lowering.passes import cost, loops

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 7)).astype(np.float32)
N = (np.arange(35).reshape(5, 7) * 37 % 11 - 5).astype(np.int32)


def dispatches(f: Any, *args: Any) -> int:
    text = calque.jit(f).lower(*args)._text(whole=True)
    return text.count("flow.dispatch @")  # other dispatches are IREE's to form


def holds(f: Any, *args: Any, close: float = 0.0) -> None:
    """f(np, ...) is what f(jnp, ...) returns, as one dispatch; close: units of eps."""
    assert dispatches(lambda *xs: f(jnp, *xs), *args) == 1
    outs = calque.jit(lambda *xs: f(jnp, *xs))(*args)
    for o, w in zip(outs, f(np, *args), strict=True):
        assert o.dtype == np.asarray(w).dtype or close
        eps = np.finfo(np.float32).eps * close
        np.testing.assert_allclose(np.asarray(o), w, rtol=eps, atol=eps)


def test_sums_products_joins() -> None:
    def f(np: Any, x: Any, n: Any) -> Any:
        total = n.sum(axis=0)
        return [np.concatenate([n, n[::-1, ::-1]], 1), total, (n * total).max(), n @ n.T,
                np.where(n > 0, n, 0).min(1), n.T.reshape(5, 7), (n > 2).any(0)]

    def g(np: Any, x: Any, n: Any) -> Any:
        e = np.exp(x - x.max(1, keepdims=True))  # 8: a dozen roundings of exp, sums and quotients
        y = (x - x.mean(0)) / x.std(0)
        return [e / e.sum(1, keepdims=True), y, x @ x.T, np.linalg.norm(x)]

    outs = f(np, X, N)
    assert [o.dtype for o in outs[:2]] == [np.int32, np.int64]  # NumPy's sums are of 64 bits
    compiled = calque.jit(lambda x, n: f(jnp, x, n))(X, N)
    assert dispatches(lambda x, n: f(jnp, x, n), X, N) == 1
    for o, w in zip(compiled, outs, strict=True):
        np.testing.assert_array_equal(np.asarray(o), w)
    holds(g, X, N, close=8)


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", *[
    pytest.param(d, marks=pytest.mark.slow) for d in ("int8", "uint32")]])
def test_reductions_of_every_kind(dtype: str) -> None:
    """What they start from: minima of bools started from False."""
    reductions = ("sum", "prod", "min", "max", "all", "any")
    rows = np.array([[1, 0, 2, 1, 0], [1, 1, 3, 1, 0]])

    def folds(x: Any) -> list[Any]:
        full = jnp.ones((3, 5), dtype).at[jnp.array([0, 2])].set(x.astype(dtype))
        return [getattr(jnp, r)(full, axis=axis) for r in reductions for axis in (0, 1)]

    assert dispatches(folds, rows) == 1
    got = iter(calque.jit(folds)(rows))
    whole = np.stack([rows[0], np.ones(5, int), rows[1]])
    whole = whole != 0 if dtype == "bool" else whole
    for r in reductions:
        for axis in (0, 1):
            np.testing.assert_array_equal(np.asarray(next(got)).astype(float), getattr(np, r)(
                whole, axis=axis).astype(float), err_msg=f"{r} of {dtype} along {axis}")


def test_pads() -> None:
    configs = [((a, b, i), (b, a, 2 - i)) for a in (-3, 0, 2) for b in (-1, 0, 1)
               for i in (0, 1, 2)]

    def spread(x: Any, axis: int, low: int, high: int, interior: int) -> Any:
        n = x.shape[axis]
        x = np.moveaxis(x, axis, 0)
        wide = np.full((n + (n - 1) * interior, *x.shape[1:]), 7, x.dtype)
        wide[::interior + 1] = x
        wide = np.concatenate([np.full((max(0, low), *wide.shape[1:]), 7, x.dtype), wide,
                               np.full((max(0, high), *wide.shape[1:]), 7, x.dtype)])
        wide = wide[max(0, -low):len(wide) - max(0, -high)]
        return np.moveaxis(wide, 0, axis)

    for i in range(0, len(configs), 14):
        part = configs[i:i + 14]
        f = calque.jit(lambda x, part=part: [lax.pad(x, np.int32(7), c) for c in part])
        assert dispatches(lambda x, part=part: [lax.pad(x, np.int32(7), c) for c in part], N) == 1
        for o, (a, b) in zip(f(N), part, strict=True):
            np.testing.assert_array_equal(np.asarray(o), spread(spread(N, 0, *a), 1, *b))


def test_results_that_are_nothing_new() -> None:
    """Arguments, the same value twice, numbers, captured arrays, views of them."""
    captured = jnp.arange(7)

    def f(n: Any, k: Any) -> Any:
        s = n.sum(0)
        return (n, s, s, 3, captured, n[1:3, ::2], k, n.T, jnp.zeros(4, int), n @ n.T, k + 1,
                s[None], jnp.broadcast_to(k, (3,)))

    assert dispatches(f, N, 4) == 1
    s = N.sum(0)
    wants = (N, s, s, 3, np.arange(7), N[1:3, ::2], 4, N.T, np.zeros(4), N @ N.T, 5, s[None],
             [4, 4, 4])
    for o, w in zip(calque.jit(f)(N, 4), wants, strict=True):
        np.testing.assert_array_equal(np.asarray(o), w)


def test_loops_and_branches_inside() -> None:
    def f(n: Any, k: Any) -> Any:
        total = lax.fori_loop(0, k, lambda i, c: c + n[:, 0] * i, n[:, 1])
        last, rows = lax.scan(lambda c, r: (c + r, c.max()), n[0], n)
        return total, last, rows, lax.cond(k > 3, lambda: n.sum(0), lambda: n[0]), n.min(0)

    assert dispatches(f, N, 4) == 1
    for k in (0, 4):
        sums = np.cumsum(np.concatenate([N[:1], N]), 0)
        wants = (N[:, 1] + sum(range(k)) * N[:, 0], sums[-1], sums[:-1].max(1),
                 N.sum(0) if k > 3 else N[0], N.min(0))
        for o, w in zip(calque.jit(f)(N, k), wants, strict=True):
            np.testing.assert_array_equal(np.asarray(o), w)


def test_updates_leave_arguments() -> None:
    def f(n: Any) -> Any:
        m = lax.dynamic_update_slice(n, n[:2, :2] * 10, (1, 2))
        return m, n.sum(), m.sum(1), lax.dynamic_update_slice(m, n[:1], (9, 9))

    assert dispatches(f, N) == 1
    x = calque.device_put(N)
    m, total, sums, late = map(np.asarray, calque.jit(f)(x))
    want = N.copy()
    want[1:3, 2:4] = N[:2, :2] * 10
    np.testing.assert_array_equal(m, want)
    assert total == N.sum()
    np.testing.assert_array_equal(sums, want.sum(1))
    np.testing.assert_array_equal(late, np.concatenate([want[:4], N[:1]]))
    np.testing.assert_array_equal(np.asarray(x), N)


def test_donation_and_arguments_under_way() -> None:
    step = calque.jit(lambda w, n: (w - n.sum(0), (w * n).max()), donate_argnums=0)
    w = jnp.zeros(7, int)
    for _step in range(3):
        w, _ = step(w, N)
    np.testing.assert_array_equal(np.asarray(w), -3 * N.sum(0))
    slow = calque.jit(lambda a: jnp.tanh(a @ a) * 0)(jnp.ones((700, 700)))
    out = calque.jit(lambda a, n: (a.sum() + n.sum(), n.max(0)))(slow[:2, :2], N)
    assert float(out[0]) == N.sum()


def test_gradients_of_a_network() -> None:
    def loss(p: Any, x: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"] - 1) ** 2)

    p = {"a": X.T[:, :3].copy(), "b": X[:3, :1].copy()}
    grads = calque.jit(calque.grad(loss))(p, X)
    assert dispatches(calque.grad(loss), p, X) == 1
    a, b, x = (v.astype(np.float64) for v in (p["a"], p["b"], X))
    h = np.tanh(x @ a)
    d = 2 * (h @ b - 1) / len(x)
    # 20 eps: chains of a dozen rounded operations on numbers near 1
    np.testing.assert_allclose(np.asarray(grads["b"]), h.T @ d, rtol=0, atol=2.4e-6)
    np.testing.assert_allclose(np.asarray(grads["a"]), x.T @ (d @ b.T * (1 - h * h)), rtol=0,
                               atol=2.4e-6)


def layers(np: Any, x: Any, w: Any, many: int) -> Any:
    for i in range(many):
        x = x @ w - w @ x[::-1].T if i % 2 else x @ w
    return x


def test_products_are_written_once() -> None:
    """A function for each pair of shapes and orders, however often they are multiplied; a product
    of its own, and those in loops, stand where they are used."""
    w = (np.arange(9).reshape(3, 3) % 4 - 1).astype(np.int32)
    texts = [calque.jit(lambda x, w, k=k: [layers(jnp, x, w, k)]).lower(N[:3, :3], w)._text(
        whole=True) for k in (2, 4, 12)]
    written = [t.count("func.func private @calque_function") for t in texts]
    assert written[0] > 0 and written[1] == written[2]
    assert texts[2].count("arith.muli") < 1.2 * texts[1].count("arith.muli")
    for k in (2, 4, 12):
        holds(lambda np, x, w, k=k: [layers(np, x, w, k)], N[:3, :3], w)
    holds(lambda np, x: [x @ x.T, x.max(0)], N)
    looped = calque.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c @ c @ c, x)).lower(w)
    assert "calque_function" not in looped._text(whole=True)


def test_products_of_windows_and_rows() -> None:
    """Operands whose place is known when the kernel runs, and others than the first's, share a
    function only with those that lie as they do."""
    def f(np: Any, x: Any, k: Any) -> Any:
        rows = [x[i] if np is not jnp else lax.dynamic_index_in_dim(x, k + i, keepdims=False)
                for i in range(4)]
        return [rows[0] @ rows[1], rows[2] @ rows[3].T, rows[1] @ rows[3], rows[3] @ x[0],
                (x[:, :2, :2] @ x[:, 1:, 1:]).max(0)]

    x = (np.arange(36).reshape(4, 3, 3) * 7 % 11 - 5).astype(np.int32)
    assert dispatches(lambda x, k: f(jnp, x, k), x, np.int32(0)) == 1
    for o, w in zip(calque.jit(lambda x, k: f(jnp, x, k))(x, np.int32(0)), f(np, x, 0),
                    strict=True):
        np.testing.assert_array_equal(np.asarray(o), w)


SINGLE = {
    "numbers": lambda np, x, n: [n * 2 + n[0, 0]],
    "functions": lambda np, x, n: [np.tanh(x) * np.exp(-x * x)],
    "choices": lambda np, x, n: [np.where(n > 0, n, -n), x < n],
    "moves": lambda np, x, n: [n.T[::-1], np.pad(x, 1)[1:, ::2]],
    "rows": lambda np, x, n: [x[np.array([3, 0, 3])]],
    "a product": lambda np, x, n: [n @ n.T],
    "conversions": lambda np, x, n: [n.astype(np.float32), x.astype(np.int32), x.astype(np.bool_)],
    "special values": lambda np, x, n: [
        np.maximum(np.array([np.nan, -0.0, np.inf, 1], np.float32) * x[:4, :4], 0),
        np.sqrt(x - 1), np.float32(1) / (x - x)]}


@pytest.mark.parametrize("name", SINGLE)
def test_of_a_single_dispatch(name: str) -> None:
    """What IREE would make one dispatch of, too."""
    with np.errstate(all="ignore"):
        holds(SINGLE[name], X, N, close=8)  # exp, tanh and a product of both


def test_the_text_is_stablehlo_until_it_is_compiled() -> None:
    lowered = calque.jit(lambda x: x + 1).lower(X)
    assert "stablehlo.add" in lowered.as_text() and "stream." not in lowered.as_text()
    assert "stablehlo.add" in str(lowered.compiler_ir())
    assert "flow.dispatch @" in lowered.compile().as_text()


def test_an_update_that_reads_what_it_writes() -> None:
    """Indices and updates that are views of the operand are what they were before."""
    a = (np.arange(16) * 5 % 7).astype(np.uint32)

    def f(a: Any) -> Any:
        x = jnp.maximum(a, a)  # memory of the kernel's own
        return [x.at[x].add(x), a.max()]

    assert dispatches(f, a) == 1
    want = a.copy()
    np.add.at(want, a, a)
    np.testing.assert_array_equal(calque.jit(f)(a)[0], want)
    np.testing.assert_array_equal(calque.jit(lambda a: f(a)[0])(a), want)


@pytest.fixture
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no kernel as a whole is none in parts either (passes/rows)."""
    monkeypatch.setattr(module, "grouped", lambda p, closing=False: p)


@pytest.mark.parametrize("f, why", [
    (lambda n: n.sum(), "one kernel anyway"),
    (lambda n: jnp.tile(n, (20, 20)) + 1, "more work than is small for one dispatch"),
    (lambda n: (n[:0].sum(0), n[:0].sum(), n.sum(0)), "an empty operand"),
    (lambda n: (jnp.tile(n, (40, 40)).sum(0), n.max()), "more work than is small"),
    (lambda n: (lax.bitcast_convert_type(n, "uint8").sum(), n.max()), "bytes of numbers")])
def test_others_are_left_to_iree(f: Any, why: str, no_groups: None) -> None:
    assert dispatches(f, N) == 0, why


def test_portable_form(monkeypatch: pytest.MonkeyPatch, no_groups: None) -> None:
    def f(n: Any) -> Any:
        return n.sum(0) * 2, n.max(1)

    assert dispatches(f, N) == 1
    with monkeypatch.context() as patch:
        patch.setattr(loops, "enabled", False)
        assert dispatches(f, N) == 0
    monkeypatch.setattr(cost, "WHOLE_WORK", -1)
    assert dispatches(f, N) == 1  # of few elements
    monkeypatch.setattr(cost, "FEW_EQUATIONS", 0)
    assert dispatches(f, N) == 0


@pytest.mark.parametrize("n", [3, 128])
def test_many_equations_of_few_elements(n: int, no_groups: None) -> None:
    def f(x: Any) -> Any:
        for _ in range(200):
            x = x * 0.75 + x.sum() / 1024
        return x

    x = np.arange(1, n + 1, dtype=np.float32)
    assert dispatches(f, x) == 1
    assert dispatches(f, np.resize(x, 30_000)) != 1
    want = x.astype(np.float64)
    for _ in range(200):
        want = want * 0.75 + want.sum() / 1024
    # each of 200 steps rounds a few times, all of one sign: 600 half units of the last place
    np.testing.assert_allclose(calque.jit(f)(x), want, rtol=600 * 2.0 ** -24)


@pytest.mark.parametrize("n", [30, 60])
def test_many_sums_are_one_kernel(n: int) -> None:
    """The gradient through stacked sums, written one after another: sums of pads, too."""
    x = np.random.default_rng(0).standard_normal((n, 100)).astype(np.float32)

    def f(x: Any) -> Any:
        return (jnp.array([jnp.sin(x[i]).sum() for i in range(n)]) ** 2).sum()

    g = calque.jit(calque.grad(f))
    assert [r.family for r in g.lower(x).plan().regions] == ["program"]
    wide = x.astype(np.float64)
    want = 2 * np.sin(wide).sum(1, keepdims=True) * np.cos(wide)
    # sums of 100 sines in float32: some 100 eps of their largest partial sum, times 2
    np.testing.assert_allclose(g(x), want, rtol=1e-4, atol=1e-4)


def test_layers_cut_out_of_a_stack() -> None:
    """A part of an array costs what is read of it: 50 layers of a stack are one kernel."""
    w = (np.random.default_rng(0).standard_normal((50, 16, 16)) / 4).astype(np.float32)
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)

    def f(x: Any, w: Any, xp: Any) -> Any:
        for i in range(50):
            x = xp.tanh(x @ w[i])
        return x

    g = calque.jit(lambda x, w: f(x, w, jnp))
    assert [r.family for r in g.lower(x, w).plan().regions] == ["program"]
    want = f(x.astype(np.float64), w.astype(np.float64), np)
    np.testing.assert_allclose(g(x, w), want, rtol=1e-4, atol=1e-5)  # 50 layers' roundings


def test_draws() -> None:
    """An environment's step: keys are words in the kernel, and the draws those of eager calls."""
    def step(key: Any, state: Any, action: Any) -> Any:
        key, noise, start = random.split(key, 3)
        force = jnp.where(action == 1, 10.0, -10.0) + random.normal(noise)
        state = state + 0.02 * jnp.stack([state[1], force, state[3], jnp.sin(state[2])])
        best = jnp.argmax(state)
        again = random.uniform(start, (4,), minval=-0.05, maxval=0.05)
        return key, jnp.where(jnp.abs(state[0]) > 2.4, again, state), best, random.bits(noise)

    key = random.key(3)
    for x in (0.1, 5.0):
        args = (key, jnp.full(4, x), 1)
        assert dispatches(step, *args) == 1
        got, want = calque.jit(step)(*args), step(*args)
        assert got[0].dtype == key.dtype
        np.testing.assert_array_equal(random.key_data(got[0]), random.key_data(want[0]))
        np.testing.assert_allclose(got[1], want[1], rtol=1e-6)  # (sums may be fused)
        assert got[2] == want[2] and got[3] == want[3]


def test_keys_in_and_out() -> None:
    key = random.key(1)
    keys, same, again, none = calque.jit(
        lambda k: (random.split(k, 2), k, k, random.split(k, 2)[:0]))(key)
    np.testing.assert_array_equal(random.key_data(keys), random.key_data(random.split(key)))
    for k in (same, again):
        np.testing.assert_array_equal(random.key_data(k), random.key_data(key))
    assert none.shape == (0,) and none.dtype == key.dtype
    other = random.key(1, impl="rbg")  # (goes another way)
    np.testing.assert_array_equal(calque.jit(random.uniform)(other), random.uniform(other))


def test_sorts_stay_in_c() -> None:
    def f(x: Any) -> Any:
        return jnp.sort(x), jnp.cumsum(x), x.sum() * x.max()

    x = jnp.asarray([3.0, 1.0, 2.0])
    assert "sort" in str(calque.jit(f).lower(x).plan())
    np.testing.assert_array_equal(calque.jit(f)(x)[0], [1, 2, 3])


def physics(state: dict[str, Any], count: int) -> dict[str, Any]:
    """Many small sums and products over a state of many leaves."""
    made = {}
    for i in range(count):
        x, m = state[f"x{i}"], state[f"m{i}"]
        force = (m @ x) * (x * x).sum() + x[::-1]
        made[f"x{i}"] = x + 0.1 * force / (1 + abs(force).max())
        made[f"m{i}"] = m.T * x.mean()
        made[f"e{i}"] = (force * x).sum()
    return made


def test_states_of_many_leaves() -> None:
    """More arrays than a dispatch has bindings are a kernel for as many as fit (passes/bundles)."""
    count = 20
    state = {f"{n}{i}": RNG.normal(size=s).astype(np.float32)
             for i in range(count) for n, s in (("x", (4,)), ("m", (4, 4)))}
    state["n"] = N
    assert dispatches(lambda s: physics(s, count), state) <= count // 3
    got = calque.jit(lambda s: physics(s, count))(state)
    want = physics(state, count)
    for k, v in want.items():  # some ten roundings each
        np.testing.assert_allclose(got[k], v, rtol=1e-5, atol=1e-6)


def turned(state: Any, angle: Any, axis: int, np: Any) -> Any:
    """A qubit of a state turned about x."""
    gate = np.cos(angle / 2) * np.eye(2) - 1j * np.sin(angle / 2) * np.array([[0, 1], [1, 0]])
    return np.moveaxis(np.tensordot(gate, state, ((1,), (axis,))), 0, axis)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_circuits(dtype: Any) -> None:
    """Complex numbers are pairs in the kernel; arguments and results are as they were."""
    with calque.enable_x64(dtype == np.complex128):
        def f(np: Any, state: Any, angles: Any) -> Any:
            for i in range(3):
                state = turned(state, angles[i], i, np)
            kept = (np.abs(state) ** 2).sum(axis=(1, 2))
            return state, kept[0] - kept[1], np.conj(state).ravel()[::-1], np.exp(1j * angles)

        start = (RNG.normal(size=8) + 1j * RNG.normal(size=8)).astype(dtype).reshape(2, 2, 2)
        angles = RNG.normal(size=3).astype(np.zeros(0, dtype).real.dtype)
        assert dispatches(lambda *xs: f(jnp, *xs), start, angles) == 1
        got = calque.jit(lambda *xs: f(jnp, *xs))(start, angles)
        for o, w in zip(got, f(np, start, angles), strict=True):
            assert o.dtype.kind == np.asarray(w).dtype.kind and o.dtype.itemsize <= dtype().itemsize
            eps = np.finfo(dtype).eps * 16  # a dozen roundings each
            np.testing.assert_allclose(o, w, rtol=eps, atol=eps)
        slope = calque.jit(calque.grad(lambda a: f(jnp, jnp.asarray(start), a)[1]))(angles)
        step = 1e-3
        for i in range(3):
            ahead, behind = (f(np, start.astype(complex), angles + sign * step * np.eye(3)[i])[1]
                             for sign in (1, -1))
            np.testing.assert_allclose(slope[i], (ahead - behind) / (2 * step), rtol=1e-4,
                                       atol=1e-4)  # central differences: step ** 2


def test_complex_results_that_are_arguments_or_constants() -> None:
    z = (RNG.normal(size=4) + 1j * RNG.normal(size=4)).astype(np.complex64)
    known = jnp.asarray(z[::-1].copy())

    def f(x: Any) -> Any:
        return x, known * x, (known * x).sum() * known, jnp.where(x.real > 0, x, -x), x[:0]

    same, product, sums, chosen, none = calque.jit(f)(z)
    np.testing.assert_array_equal(same, z)
    np.testing.assert_allclose(product, z * z[::-1], rtol=1e-6)
    np.testing.assert_allclose(sums, (z * z[::-1]).sum() * z[::-1], rtol=1e-5)
    np.testing.assert_array_equal(chosen, np.where(z.real > 0, z, -z))
    assert none.shape == (0,) and none.dtype == np.complex64
    huge = jnp.asarray([np.inf, 1e30, np.nan, -0.0], np.complex64)
    for g in (lambda x: x * x, lambda x: x / (x + 1), jnp.abs, jnp.exp, jnp.sqrt):
        def both(x: Any, g: Any = g) -> Any:
            return g(x), g(x[::-1]).sum()
        np.testing.assert_array_equal(np.asarray(calque.jit(both)(huge)[0]), np.asarray(g(huge)))


def test_complex_parts_of_constants_and_of_one_element() -> None:
    """IREE takes one part for both where it computes them itself."""
    one = jnp.full(1, 3, "complex64")
    assert complex(calque.jit(lambda: (one / 2) / (1 + 1j) + one)()[0]) == 3.75 - 0.75j
    for n in (1, 7):
        x = (RNG.normal(size=n) + 1j * RNG.normal(size=n)).astype(np.complex64)
        known, kept = calque.jit(lambda x: ((one / 2) / (1 + 1j), x * one + 1j))(x)
        np.testing.assert_allclose(known, [0.75 - 0.75j], rtol=1e-6)
        np.testing.assert_allclose(kept, x * 3 + 1j, rtol=1e-6)
