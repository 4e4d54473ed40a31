"""Products by the C kernel through jit: every layout, its plan, and what is left to IREE."""
from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot, config
from calque.lowering.kernels import forms, gemm
from calque.lowering.passes import cost, remainder
from calque.lowering.target.targets import cpu_target, host_target, parse_target

HERE = [level for level in gemm.LEVELS if host_target().arch == "x86_64" and set(
    parse_target(f"cpu:{level}").features) <= set(host_target().features)]
pytestmark = pytest.mark.skipif(
    not all(gemm.takes(parse_target(f"cpu:{level}"), "float32") for level in HERE) or not HERE,
    reason="no C kernel of this machine's levels")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def levels(slow: list[str]) -> list[Any]:
    return [pytest.param(n, marks=[pytest.mark.slow] if n in slow else []) for n in HERE]


@pytest.fixture(params=levels(HERE[:-1][:1]))  # by default without the lowest
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.context("calque_cpu", request.param):
        yield request.param


@pytest.fixture(params=levels(HERE[:-1]))  # by default the highest
def one_level(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.context("calque_cpu", request.param):
        yield request.param


@pytest.fixture
def all_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernel takes small products, too: what is looked at here is not the size."""
    monkeypatch.setattr(gemm, "refusal", lambda *sizes: None)
    calque.clear_caches()
    yield
    calque.clear_caches()


def normal(seed: int, *shape: int, dtype: Any = "float32") -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(got: Any, want: Any, k: int, dtype: Any = "float32") -> None:
    """Within what sums of k products of normal numbers lose."""
    eps = float(ml_dtypes.finfo(dtype).eps)
    sums = float(np.finfo("f8" if dtype == "float64" else "f4").eps)
    np.testing.assert_allclose(np.asarray(got).astype("f8"), want, rtol=eps,
                               atol=4 * sums * k + (0 if eps < 1e-4 else 1e-5))


def taken(f: Any, *xs: Any) -> int:
    """How many calls of the kernel a program has."""
    text = str(calque.jit(f).lower(*xs).as_text())
    return len(re.findall("flow.dispatch @calque_(gemm|direct)_", text))


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_layouts(every: bool, level: str, all_sizes: None, x64: None) -> None:
    """Everything dot_general can say, in few programs; of two levels by turns in some dtypes."""
    dtypes = ("float32", "float64", BFLOAT16)
    cases = [  # subscripts of einsum, sizes by letter
        ("ij,jk->ik", {}), ("ji,jk->ik", {}), ("ij,kj->ik", {}), ("ji,kj->ki", {}),
        ("bij,bjk->bik", {}), ("bij,bkj->bik", {}), ("ibj,jbk->bik", {}), ("bij,jk->bik", {}),
        ("bihj,bkhj->bhik", {}), ("aij,ajik->ak", {"j": 3}), ("ijc,cjk->ik", {}),
        ("abij,bajk->abik", {"b": 1}), ("ij,jkl->ikl", {}), ("i,ik->k", {})]
    sizes = {"i": 33, "j": 20, "k": 41, "l": 5, "b": 3, "a": 2, "h": 2, "c": 4}
    for dtype in dtypes if every else dtypes[HERE.index(level) % 2::2]:
        inputs, wants, depths = [], [], []
        for i, (text, other) in enumerate(cases):
            size = sizes | other
            x, y = ([normal(i + at, *[size[c] for c in part], dtype=dtype)
                     for at, part in enumerate(text.split("->")[0].split(","))])
            inputs.append((x, y))
            wants.append(np.einsum(text, x.astype("f8"), y.astype("f8")))
            depths.append(x.size * y.size)
        f = lambda *xs: [jnp.einsum(text, x, y) for (text, _), (x, y)  # noqa: E731
                         in zip(cases, xs)]
        count = taken(f, *inputs)
        assert count >= len(cases) - 1, count
        for (text, _), got, want in zip(cases, calque.jit(f)(*inputs), wants):
            eps = float(ml_dtypes.finfo(dtype).eps)
            np.testing.assert_allclose(np.asarray(got).astype("f8"), want, rtol=2 * eps,
                                       atol=100 * float(np.finfo("f4").eps), err_msg=text)


def test_sizes(level: str) -> None:
    """In the plans that the sizes get: few rows, thin, tall, square, blocks left over."""
    sizes = ((8, 1030, 515), (64, 300, 600), (130, 1000, 300), (700, 260, 65), (300, 700, 500),
             (2, 4096, 512))
    pairs = [(normal(m, m, k), normal(n, k, n)) for m, k, n in sizes]
    turned = [tuple(np.ascontiguousarray(x.T) for x in pair) for pair in pairs]
    f = lambda p, q: ([x @ y for x, y in p], [x.T @ y.T for x, y in q])  # noqa: E731
    assert taken(f, pairs, turned) == 6 + 4  # (few rows are worth it by rows as they lie)
    for made in calque.jit(f)(pairs, turned):
        for got, (x, y) in zip(made, pairs):
            close(got, x.astype("f8") @ y, len(y))


def test_a_transposition_is_read_where_it_lies(one_level: str, all_sizes: None) -> None:
    text = str(calque.jit(lambda x, y: x.T @ y.T).lower(
        normal(0, 70, 50), normal(1, 60, 70)).as_text())
    assert "stablehlo.transpose" not in text  # nor is one left that nothing reads
    assert text.count("flow.dispatch @calque_") == 1


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("float16")], ids=str)
def test_halves_are_added_up_in_f32_and_rounded_once(dtype: Any, level: str) -> None:
    x, y = normal(0, 256, 300, dtype=dtype), normal(1, 300, 256, dtype=dtype)
    want = x.astype("f8") @ y.astype("f8")
    f = lambda x, y: (x @ y, jnp.matmul(x, y, preferred_element_type="float32"))  # noqa: E731
    assert taken(f, x, y) == 2
    half, wide = calque.jit(f)(x, y)
    assert half.dtype == dtype and wide.dtype == np.float32
    close(wide, want, 300)
    np.testing.assert_array_equal(np.asarray(half), np.asarray(wide).astype(dtype))


def test_complex_products_are_real_ones(one_level: str, all_sizes: None) -> None:
    x = normal(0, 40, 50) + 1j * normal(1, 40, 50)
    y = normal(2, 50, 60) + 1j * normal(3, 50, 60)
    x, y = x.astype("c8"), y.astype("c8")
    assert taken(lambda x, y: x @ y, x, y) == 4
    np.testing.assert_allclose(np.asarray(calque.jit(lambda x, y: x @ y)(x, y)), x @ y, rtol=1e-4,
                               atol=1e-4)


def test_derivatives_and_batches(one_level: str, all_sizes: None) -> None:
    x, w = normal(0, 5, 30, 40), normal(1, 40, 20)

    def loss(w: Any, x: Any) -> Any:
        return (jnp.maximum(x @ w, 0) ** 2).sum()

    got = calque.jit(calque.vmap(calque.grad(loss), in_axes=(None, 0)))(w, x)
    z = np.maximum(x.astype("f8") @ w, 0)
    np.testing.assert_allclose(np.asarray(got), 2 * np.einsum("bij,bik->bjk", x, z), rtol=1e-4,
                               atol=1e-3)


@pytest.mark.parametrize("dims,shapes", [
    ("ij,jk->ik", ((4, 5), (5, 3))), ("bij,bjk->bik", ((2, 4, 5), (2, 5, 3))),
    ("ij,kj->ik", ((4, 5), (3, 5))), ("aij,ijk->ak", ((2, 4, 5), (4, 5, 3)))])
def test_derivatives_are_not_transposed(dims: str, shapes: tuple[Any, Any]) -> None:
    """A product of the two in the order whose result is the operand's: the gradient of weights
    was a product of the transposition before, which the optimizer read across."""
    x, y = normal(1, *shapes[0]), normal(2, *shapes[1])
    ct = normal(3, *np.einsum(dims, x, y).shape)

    def f(x: Any, y: Any) -> Any:
        if dims == "ij,jk->ik":
            return x @ y
        numbers = {"bij,bjk->bik": (((2,), (1,)), ((0,), (0,))),
                   "ij,kj->ik": (((1,), (1,)), ((), ())),
                   "aij,ijk->ak": (((1, 2), (0, 1)), ((), ()))}[dims]
        return calque.lax.dot_general(x, y, numbers)

    def pulled(x: Any, y: Any, ct: Any) -> Any:
        return calque.vjp(f, x, y)[1](ct)

    left, right, wanted = dims.replace("->", ",").split(",")
    for got, want in zip(pulled(x, y, ct), (np.einsum(f"{wanted},{right}->{left}", ct, y),
                                            np.einsum(f"{left},{wanted}->{right}", x, ct))):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)  # f32, 20 products
    names = [e.primitive.name for e in calque.make_jaxpr(pulled)(x, y, ct).jaxpr.eqns]
    assert "transpose" not in names, names


def test_constants_several_and_branches(one_level: str, all_sizes: None) -> None:
    """Products of captured arrays, of one array with itself, in a loop's and a branch's body."""
    a = normal(0, 40, 40) / 8

    def f(x: Any, flag: Any) -> Any:
        y = (x @ a) @ (a @ a) + x.T @ x
        y = calque.lax.cond(flag, lambda v: v @ a, lambda v: v - 1, y)
        return calque.lax.fori_loop(0, 3, lambda i, v: jnp.tanh(v @ a) @ v, y)

    x = normal(1, 40, 40) / 8
    assert taken(f, x, True) >= 4
    for flag in (True, False):
        y = (x @ a) @ (a @ a) + x.T @ x
        y = y @ a if flag else y - 1
        for _ in range(3):
            y = np.tanh(y @ a) @ y
        np.testing.assert_allclose(np.asarray(calque.jit(f)(x, flag)), y, rtol=2e-3, atol=2e-4)


def test_what_is_not_finite(one_level: str, all_sizes: None) -> None:
    x, y = np.ones((9, 21), "f4"), np.ones((21, 35), "f4")
    x[3, 20], y[20, 34], y[0, 7] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.asarray(calque.jit(jnp.matmul)(x, y)), x @ y)


def test_artifacts_hold_it(one_level: str) -> None:
    made = aot.compile(lambda x, y: x @ y, "f32[256,300]", "f32[300,256]", name="f",
                       targets=f"cpu:{one_level}")
    x, y = normal(0, 256, 300), normal(1, 300, 256)
    (got,) = aot.load(made.vmfb).f(x, y)
    close(got.numpy(), x.astype("f8") @ y, 300)


def test_threads_share_nothing() -> None:
    """Calls from several threads, each with work space of its own."""
    f = calque.jit(lambda x, y: x @ y)
    pairs = [(normal(i, 200, 300), normal(9 + i, 300, 250)) for i in range(3)]
    bad: list[float] = []

    def work(i: int) -> None:
        x, y = pairs[i]
        want = x.astype("f8") @ y
        for _ in range(10):
            bad.extend(e for e in [float(np.max(np.abs(np.asarray(f(x, y)) - want)))] if e > 1e-3)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


def test_direct_products_elsewhere(level: str) -> None:
    """Of constants only, in loops that carry an operand, and of memory that is given away."""
    x, y = normal(0, 96, 130), normal(1, 130, 90)
    want, zeroed = x.astype("f8") @ y, np.where(np.arange(96)[:, None] == 2, 0, x)

    def before(x: Any, y: Any) -> Any:
        x = x.at[2].set(0)
        return x, x @ y

    assert "calque_direct_f32" in str(calque.jit(jnp.matmul).lower(x, y).as_text())
    close(calque.jit(lambda: jnp.asarray(x) @ jnp.asarray(y))(), want, 130)
    got, product = calque.jit(before, donate_argnums=0)(jnp.asarray(x), y)
    close(got, zeroed, 1)
    close(product, zeroed.astype("f8") @ y, 130)
    got, product = calque.jit(lambda x, y: (x.at[2].set(0), x @ y), donate_argnums=0)(
        jnp.asarray(x), y)
    close(got, zeroed, 1)
    close(product, want, 130)
    square = normal(2, 96, 96) / 96
    made = calque.jit(lambda a, x: calque.lax.fori_loop(0, 3, lambda i, x: a @ x, x))(square, x)
    close(made, np.linalg.matrix_power(square.astype("f8"), 3) @ x, 96)


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
def test_long_sums_in_parts(level: str, name: str) -> None:
    """x.T @ x of many rows, both layouts, batches, lengths that parts do not divide; the same
    numbers each time."""
    dtype = BFLOAT16 if name == "bfloat16" else np.dtype(name)
    with calque.enable_x64(name == "float64"):
        for spec, x_shape, y_shape in (
                ("ki,kj->ij", (20011, 50), (20011, 50)), ("ik,kj->ij", (23, 9001), (9001, 20)),
                ("ik,jk->ij", (64, 8000), (40, 8000)),
                ("bki,bkj->bij", (5, 2003, 12), (5, 2003, 17)),
                ("ki,jk->ij", (10000, 13), (100, 10000))):
            x, y = normal(0, *x_shape).astype(dtype), normal(1, *y_shape).astype(dtype)
            f = calque.jit(lambda x, y, spec=spec: jnp.einsum(
                spec, x, y, preferred_element_type=np.promote_types(dtype, "float32")
                if name != "bfloat16" else np.float32))
            assert "calque_add" in str(f.lower(x, y).as_text()), spec
            k = x_shape[-1] if "ik," in spec else x_shape[-2]
            made = np.asarray(f(x, y))
            close(made, np.einsum(spec, x.astype("f8"), y.astype("f8")), k, made.dtype.name)
            assert np.array_equal(made, f(x, y))


def test_gradients_and_batches_of_long_sums() -> None:
    x, y = normal(0, 3, 6001, 11), normal(1, 3, 6001)
    f = calque.jit(calque.vmap(lambda x, y: jnp.linalg.solve(x.T @ x, x.T @ y)))
    want = np.stack([np.linalg.lstsq(a.astype("f8"), b.astype("f8"), rcond=None)[0]
                     for a, b in zip(x, y)])
    np.testing.assert_allclose(f(x, y), want, atol=2e-5)  # 6001 float32 products, condition near 1
    g = calque.jit(calque.grad(lambda x: (x.T @ x).sum()))(x[0])
    np.testing.assert_allclose(g, 2 * x[0].astype("f8").sum(1, keepdims=True) @ np.ones((1, 11)),
                               atol=1e-4)  # sums of 11 numbers, twice


def test_which_sums_are_cut() -> None:
    """Long ones of small results; parts are of more numbers than they write."""
    for batch, m, n, k, cut in ((1, 50, 50, 20000, True), (1, 50, 50, 500, False),
                                (1, 512, 512, 512, False), (1, 100, 100, 100000, True),
                                (16, 8, 8, 2000, True), (1, 200, 200, 10000, False)):
        split = gemm.split_of(batch, m, n, k, 32, 4)
        assert (split > 1) == cut, (m, n, k)
        assert split == 1 or k // split * (m + n) >= 2 * m * n


def test_what_is_left_to_iree() -> None:
    """Small ones, mixed types, sizes known at the call only, other targets."""
    x = normal(0, 256, 256)
    assert taken(jnp.matmul, x, x) == 1
    assert taken(jnp.matmul, x[:16, :16], x[:16, :16]) == 0
    assert taken(jnp.matmul, x[:16, :16].astype("i4"), x[:16, :16].astype("i4")) == 0
    assert taken(jnp.matmul, x, x.astype(BFLOAT16)) == 1  # f32, as promotion says
    assert not gemm.takes(parse_target("cuda:sm_80"), "float32")
    assert not gemm.takes(parse_target("cpu:x86-64"), "float32")
    for target in (cpu_target(), parse_target("cpu:x86-64")):
        want = "native" if gemm.takes(target, "float32") else "portable"
        assert forms.form_of("dot_general", target, np.dtype("f4")) == want


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sizes_that_iree_masks(compiled: bool, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With AVX-512 the kernel takes them early; else, or in whole tiles, IREE has small ones."""
    rng, taken = np.random.default_rng(5), []
    emit = gemm.emit_native

    def noted(*args: Any, **options: Any) -> Any:
        batch, m, n, k, *_ = args[5]
        taken.append((batch, m, k, n))
        return emit(*args, **options)
    monkeypatch.setattr(gemm, "emit_native", noted)
    masked, direct = ("x86-64-v4",), gemm.LEVELS
    sizes: dict[tuple[int, ...], tuple[str, ...]] = {
        (1, 63, 63, 63): masked, (1, 16, 64, 17): masked, (1, 48, 64, 128): (),
        (1, 15, 101, 33): (), (3, 101, 64, 101): direct, (3, 31, 31, 31): ()}
    pairs = []
    for batch, m, k, n in sizes:
        x, y = (rng.integers(-4, 5, (batch, *s)).astype("f4") for s in ((m, k), (k, n)))
        pairs.append((x[0], y[0]) if batch == 1 else (x, y))
    # (else all of it would be kernels, small products in groups of others)
    monkeypatch.setattr(remainder, "may_close", lambda p, target: False)
    f = calque.jit(lambda pairs: [jnp.matmul(*p) for p in pairs])
    calque.clear_caches()
    if compiled or level == "x86-64-v4":
        for size, out, (x, y) in zip(sizes, f(pairs), pairs):
            np.testing.assert_array_equal(np.asarray(out), x @ y, str(size))  # exact
    else:
        f.lower(pairs).as_text()
    assert taken == [s for s, levels in sizes.items() if level in levels]


def test_flags_are_for_the_products_that_iree_makes() -> None:
    program = calque.make_jaxpr(jnp.matmul)(*[np.ones((600, 600), "f4")] * 2).jaxpr
    assert cost.matmul_flags(program)
    assert not cost.matmul_flags(program, lambda *sizes: True)


def test_plans_are_small() -> None:
    """Work space is bounded, cells are spread, and nobody is without one."""
    for batch, m, n, k in ((1, 1024, 1024, 1024), (1, 4096, 4096, 4096), (1, 8, 4096, 4096),
                           (1, 128, 4096, 4096), (500, 64, 64, 64), (1, 33, 48, 100_000),
                           (1, 100_000, 48, 33), (64, 256, 256, 64)):
        for row_major in (False, True):
            for size in (4, 8):
                plan = gemm.cells(batch, m, n, k, row_major, 32, size)
                count = batch * -(-m // plan.tall) * -(-n // plan.broad)
                assert 1 <= plan.groups <= min(count, gemm.GROUPS)
                matrices = batch * (m * k + k * n + m * n) * size
                assert plan.room * size < 2 << 20 and plan.room * size * plan.groups <= max(
                    gemm.ROOMS, matrices // gemm.ROOMS_PART, 8 * plan.room * size)
                assert batch * m * n * k < 1 << 24 or plan.groups >= min(4, count)


@pytest.mark.parametrize("donated", [pytest.param((), marks=pytest.mark.slow), (0,)])
def test_an_operand_that_is_updated_afterwards(donated: tuple[int, ...]) -> None:
    """The kernel reads what a transposition is of: not what an update made of it."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 256, 256)).astype(np.float32)

    def f(x: Any, y: Any) -> Any:
        turned, made = x.T, x + 1
        other = made.T
        return turned @ y, other @ y, x.at[0].set(5.0), made.at[:, 1].set(7.0)

    first, second = x.copy(), x + 1
    first[0], second[:, 1] = 5, 7
    for name in HERE:
        with config.context("calque_cpu", name):
            outs = calque.jit(f, donate_argnums=donated)(jnp.asarray(x.copy()), jnp.asarray(y))
            for out, want in zip(outs, (x.T @ y, (x + 1).T @ y, first, second), strict=True):
                # sums of 256 products in another order
                np.testing.assert_allclose(np.asarray(out), want, rtol=1e-4, atol=1e-3)


def test_integers_wrap(level: str) -> None:
    """Of each width, by the kernel of integer products where they are large enough: exact."""
    rng = np.random.default_rng(3)
    shapes = [(70, 90, 50), (1, 300, 80), (3, 400, 120), (900, 40, 40)]
    for dtype in ("int32", "uint8", "int16"):
        limits, pairs = np.iinfo(dtype), list[Any]()
        for m, k, n in shapes:
            pairs += [rng.integers(limits.min, limits.max, s).astype(dtype) for s in (
                (m, k), (k, n))]
        f = calque.jit(lambda *xs: [x @ y for x, y in zip(xs[::2], xs[1::2])] + [xs[-2].T @ xs[-2]])
        want = [x.astype("i8") @ y.astype("i8") for x, y in zip(pairs[::2], pairs[1::2])]
        want.append(pairs[-2].T.astype("i8") @ pairs[-2].astype("i8"))
        for got, exact in zip(f(*pairs), want, strict=True):
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, exact.astype(dtype))
        assert len(re.findall("@calque_.*_(?:i32|u8|i16)_", str(f.lower(*pairs).as_text()))) >= 5


def test_integers_of_other_sums(level: str, x64: None) -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.integers(-128, 128, s).astype("int8") for s in ((60, 100), (100, 40)))
    u, v = (rng.integers(-2**62, 2**62, s) for s in ((50, 70), (70, 40)))
    f = calque.jit(lambda x, y, u, v: (calque.lax.dot(x, y, preferred_element_type="int32"), u @ v,
                                       (x > 0) @ (y > 0), u @ v[:, 0]))
    sums, wide, some, vector = f(x, y, u, v)
    np.testing.assert_array_equal(sums, x.astype("i4") @ y.astype("i4"))
    np.testing.assert_array_equal(wide, u @ v)
    np.testing.assert_array_equal(some, (x > 0) @ (y > 0))
    np.testing.assert_array_equal(vector, u @ v[:, 0])
