"""gather and scatter are safe for any index, leave arguments alone and keep the order of updates.

Values, dtypes and derivatives of every form are tested by the samples (support/samples_gather.py);
here: whose memory is written, loops, large counts, the portable form, what plain IREE still does.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import Case, compare, drawn, expected, function, run, words
from support.samples import ROWS, Row, Sample

import calque
import calque.numpy as jnp
from calque import clear_caches, lax
from calque.dispatch.array import current_device
from calque.lowering.compiler.compile import CompileError, compile_module
from calque.lowering.rules import Context
from calque.lowering.target.targets import cpu_target
from calque.runtime import Buffer, CallSpec, Executable

Array = np.ndarray[Any, Any]
JOINS: dict[str, Callable[[Array, Any, Array], None]] = {
    "set": lambda x, i, u: x.__setitem__(i, u), "add": np.add.at, "multiply": np.multiply.at,
    "min": np.minimum.at, "max": np.maximum.at}


def wrote(x: Array, i: Any, u: Any, name: str = "set") -> Array:
    out = np.array(x)
    JOINS[name](out, i, u)
    return out


def put(x: Any, i: Any, u: Any, name: str = "set") -> Any:
    return getattr(x.at[i], name)(u)


def equal(*wants: Any) -> Callable[[list[Any]], str]:
    def check(outs: list[Any]) -> str:
        for k, (o, w) in enumerate(zip(outs, wants, strict=True)):
            if o.shape != np.shape(w) or not np.array_equal(o, w, equal_nan=o.dtype.kind in "fc"):
                return f"result {k} is {o!r} instead of {w!r}"
        return ""
    return check


I2 = np.array([1, 0], np.int32)
I3 = np.array([2, 2, 1], np.int32)


def memory_cases(n: int) -> list[Case]:
    """Every way an argument's memory may reach a scatter (run checks that arguments stay)."""
    x = np.arange(n, dtype=np.float32) + 1
    u = np.array([-1, -2, -3], np.float32)
    two = x.reshape(-1, 2)
    rows = np.array([[-5, -6], [-7, -8], [-9, -10]], np.float32)
    columns = np.stack([-x[:n // 2]] * 2)
    cases = []
    for name in JOINS:
        cases += [
            Case(f"{name}, {n}", lambda x, i, u, f=name: [put(x, i, u, f)], (x, I3, u),
                 equal(wrote(x, I3, u, name))),
            Case(f"{name} old and new, {n}", lambda x, i, u, f=name: [x + 0, put(x, i, u, f), x],
                 (x, I3, u), equal(x, wrote(x, I3, u, name), x)),
            Case(f"{name} twice, {n}", lambda x, i, u, f=name: [
                put(x, i, u, f), put(x, i + 1, u, f), put(put(x, i, u, f), i + 1, u, f)],
                (x, I3, u), equal(wrote(x, I3, u, name), wrote(x, I3 + 1, u, name),
                      wrote(wrote(x, I3, u, name), I3 + 1, u, name)))]
    cases += [
        Case(f"reshaped, {n}", lambda x, i, u: [put(x.reshape(-1, 2), i, u), x.reshape(-1, 2)],
             (x, I3, rows), equal(wrote(two, I3, rows), two)),
        Case(f"transposed, {n}", lambda x, i, u: [put(x.reshape(-1, 2).T, i, u)],
             (x, I2, columns), equal(wrote(two.T, I2, columns))),
        Case(f"intermediate used again, {n}", lambda x, i, u: [
            put(y := jnp.floor(x / 2), i, u, "add"), y], (x, I3, u),
            equal(wrote(np.floor(x / 2), I3, u, "add"), np.floor(x / 2))),
        Case(f"bits, {n}", lambda x, i, u: [put(lax.bitcast_convert_type(x, np.uint32), i, u)],
             (x, I3, np.array([1, 2, 3], np.uint32)), equal(
                 wrote(x.view(np.uint32), I3, np.array([1, 2, 3], np.uint32)))),
        Case(f"of itself, {n}", lambda x, i: [put(x, i, x[:3])], (x, I3),
             equal(wrote(x, I3, x[:3]))),
        Case(f"one window, {n}", lambda x, i: [put(x, i[None], np.float32(-1)), x],
             (x, np.int32(1)), equal(wrote(x, [1], -1), x)),
        Case(f"gathered again, {n}", lambda x, i, u: [put(x, i, u)[i], x[i]], (x, I3, u),
             equal(wrote(x, I3, u)[I3], x[I3]))]
    return cases


@pytest.mark.parametrize("n, share", [
    (16, 0.6), (400_000, 0.3), *[pytest.param(n, 1, marks=pytest.mark.slow)
                                 for n in (16, 400_000)]])
def test_arguments_stay_as_they_are(n: int, share: float) -> None:
    run(drawn(memory_cases(n), share)[0], 60)


def test_operands_of_one_element() -> None:
    i = np.array([0, 3, 0, -9], np.int32)
    cases = []
    for dtype in ("float32", "int8", "uint16", "bool", "complex64", "float16"):
        x = np.ones(1, dtype)
        u = np.array([0, 5, 3, 7]).astype(dtype)
        cases.append(Case(dtype, lambda x, i, u: [x.at[i].set(u), x], (x, i, u), equal(u[2:3], x)))
    run(cases)


def test_loops_write_their_own_carry() -> None:
    def scanned(x: Any, i: Any, n: int) -> Any:
        def body(c: Any, k: Any) -> Any:
            return c.at[i + k % 3].add(1.0), c[k % 5]
        return lax.scan(body, x, np.arange(n, dtype=np.int32))

    def by_hand(x: Array, i: Array, n: int) -> list[Array]:
        x, ys = np.array(x), []
        for k in range(n):
            ys.append(x[k % 5])
            np.add.at(x, i + k % 3, 1)
        return [x, np.array(ys)]

    def shared(x: Any, i: Any) -> Any:
        """Two loops and the program itself write to copies of one value."""
        y = x * 2
        a = lax.fori_loop(0, 70, lambda k, c: c.at[i].add(1.0), y)
        b = lax.fori_loop(0, 70, lambda k, c: c.at[i].set(c[i] + 1), y)
        return [a, b, y.at[i].set(0), y]

    x = np.arange(9, dtype=np.float32)
    cases = [Case(f"scan of {n}", lambda x, i, n=n: [*scanned(x, i, n)], (x, I3),
                  equal(*by_hand(x, I3, n))) for n in (3, 70)]
    twice, once = wrote(2 * x, I3, 0), wrote(2 * x, I3, 0)
    twice[[1, 2]] = 2 * x[[1, 2]] + 70 * np.array([1, 2])
    once[[1, 2]] = 2 * x[[1, 2]] + 70
    cases.append(Case("shared", shared, (x, I3), equal(twice, once, wrote(2 * x, I3, 0), 2 * x)))
    run(cases)


def test_donation_and_large_counts() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-5, 5, 1000).astype(np.float32)
    i = rng.integers(-1500, 1500, 300_000).astype(np.int32)
    u = rng.integers(-5, 5, i.size).astype(np.float32)
    inside = (i >= -1000) & (i < 1000)
    want = wrote(x, i[inside], u[inside], "add")
    last = wrote(x, i[inside], u[inside])
    f = calque.jit(lambda x, i, u: x.at[i].add(u), donate_argnums=0)
    for _ in range(3):  # sums of whole numbers are exact: lost or doubled updates would show
        assert np.array_equal(f(jnp.asarray(x), i, u), want)
    assert np.array_equal(calque.jit(lambda x, i, u: x.at[i].set(u))(x, i, u), last)


def test_sums_have_one_order() -> None:
    rng = np.random.default_rng(4)
    x, i = np.zeros(7, np.float32), rng.integers(0, 7, 100_000).astype(np.int32)
    u = rng.standard_normal(i.size).astype(np.float32)
    want = np.array(x)
    np.add.at(want, i, u)  # one by one, in f32
    got = np.asarray(calque.jit(lambda x, i, u: x.at[i].add(u))(x, i, u))
    assert got.tobytes() == want.tobytes()


def test_keys_are_gathered_and_scattered() -> None:
    keys = calque.random.split(calque.random.key(0), 5)
    words = np.asarray(calque.random.key_data(keys))

    def f(k: Any, i: Any) -> Any:
        read, written = k[i], k.at[i].set(k[:3])
        one = calque.vmap(lambda j: lax.dynamic_index_in_dim(k, j, keepdims=False))(i)
        return [calque.random.key_data(v) for v in (read, written, one)]

    got = calque.jit(f)(keys, I3)
    for g, w in zip(got, (words[I3], wrote(words, I3, words[:3]), words[I3])):
        assert np.array_equal(g, w)


def sample_case(row: Row, sample: Sample, dtype: Any) -> Case:
    params, arrays = sample.parameters(dtype), row.arrays(sample, dtype)
    return Case(f"{row.name} [{sample.label}] {dtype}", function(row, sample, params),
                words(row, sample, arrays), compare(expected(row, params, arrays), row))


@pytest.mark.parametrize("whole", [
    (), pytest.param(("gather", "scatter", "scatter-add"), marks=pytest.mark.slow)], ids=str)
def test_portable_form(whole: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """What other targets get: scatter and gather in StableHLO, bad rows made harmless."""
    start = Context.__init__
    monkeypatch.setattr(Context, "__init__", lambda self, b, *_: start(self, b))
    clear_caches()
    try:
        with calque.enable_x64(True):
            cases = []
            for name in ("gather", "scatter", "scatter-add", "scatter-sub", "scatter-mul",
                         "scatter-min", "scatter-max"):
                row = ROWS[name]
                samples = row.specials or row.samples[:1]
                dtypes = row.dtypes if name in whole else [row.main]
                cases += [sample_case(row, s, d) for s in samples for d in dtypes]
                cases += [sample_case(row, s, row.main) for s in row.samples[1::1 if whole else 7]]
            run(cases)
    finally:
        clear_caches()


# ---- what plain IREE still does: each test fails when its cure can go
def plain(text: str, *args: Array) -> list[Array]:
    """Run hand-written MLIR without calque's lowering: results, then arguments."""
    device = current_device()
    program = Executable(compile_module(text, cpu_target(), careful=True), device,
                         CallSpec(run_inline=True))
    buffers = [Buffer.from_numpy(a, device) for a in args]
    outs = [b.numpy() for b in program(buffers)]
    return [*outs, *[b.numpy() for b in buffers]]


def test_iree_still_gathers_outside() -> None:
    """clamped in lowering/rules/gather.py: position 40 of the first 32 elements reads others."""
    out, *_ = plain("""
      func.func @main(%x: tensor<64xf32>, %i: tensor<1x1xi32>) -> tensor<1xf32> {
        %s = stablehlo.slice %x [0:32] : (tensor<64xf32>) -> tensor<32xf32>
        %r = "stablehlo.gather"(%s, %i) {dimension_numbers = #stablehlo.gather<
            collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
            slice_sizes = array<i64: 1>, indices_are_sorted = false}
            : (tensor<32xf32>, tensor<1x1xi32>) -> tensor<1xf32>
        return %r : tensor<1xf32>
      }""", np.arange(64, dtype=np.float32), np.array([[40]], np.int32))
    assert out[0] != 31, "IREE clamps positions now: the clamp in addresses can go"


def test_iree_still_scatters_into_its_argument() -> None:
    """AliasAnalysis.owned in lowering/rules/scatter.py."""
    *_, x, _, _ = plain("""
      func.func @main(%x: tensor<8xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) -> tensor<8xf32> {
        %r = "stablehlo.scatter"(%x, %i, %u) ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            stablehlo.return %b : tensor<f32>
        }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
              scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
            indices_are_sorted = false, unique_indices = false}
            : (tensor<8xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<8xf32>
        return %r : tensor<8xf32>
      }""", np.zeros(8, np.float32), np.array([[3], [4]], np.int32), np.ones(2, np.float32))
    assert x.any(), "IREE copies the argument now: the copy can go"


@pytest.mark.parametrize("kind, dtype", [("ui32", np.uint32), ("complex<f32>", np.complex64)])
def test_iree_still_refuses_rows_of(kind: str, dtype: Any) -> None:
    """take_rows in lowering/rules/gather.py goes round both."""
    with pytest.raises(CompileError):
        plain(f"""
          func.func @main(%x: tensor<10x5x{kind}>, %i: tensor<50xi32>) -> tensor<50x5x{kind}> {{
            %e = tensor.empty() : tensor<50x5x{kind}>
            %r = iree_linalg_ext.gather dimension_map = [0] ins(%x, %i : tensor<10x5x{kind}>,
                tensor<50xi32>) outs(%e : tensor<50x5x{kind}>) -> tensor<50x5x{kind}>
            return %r : tensor<50x5x{kind}>
          }}""", np.ones((10, 5), dtype), np.zeros(50, np.int32))


def test_iree_still_refuses_to_reverse_some_slices() -> None:
    """_rev in lowering/rules/shape.py cuts every slice off."""
    with pytest.raises(CompileError):
        plain("""
          func.func @main(%x: tensor<4x5x3x2xf32>) -> tensor<4x5x3x1xf32> {
            %s = stablehlo.slice %x [0:4, 0:5, 0:3, 1:2]
                : (tensor<4x5x3x2xf32>) -> tensor<4x5x3x1xf32>
            %r = stablehlo.reverse %s, dims = [0] : tensor<4x5x3x1xf32>
            return %r : tensor<4x5x3x1xf32>
          }""", np.ones((4, 5, 3, 2), np.float32))


# ---- updates that lie in the operand's memory
def test_updates_may_be_the_operand() -> None:
    """AliasAnalysis.copy_if_shared: IREE gives both one memory, and reads what it has written."""
    n = 16
    positions = (np.arange(n) * 7 + 3)[:, None].astype(np.int32) % n
    positions[5] = -1
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    dtypes = ("f4", "i4", "u1", "bfloat16", "c8", "?")
    starts = [(np.arange(n) % 5).astype(dtype) for dtype in dtypes]

    def own(x: Any) -> Any:  # memory of the program's own
        return x ^ True if x.dtype == bool else x + np.ones((), x.dtype)

    def whole(x: Any, i: Any) -> Any:
        x = own(x)
        return lax.scatter(x, i, x, numbers, mode="drop")

    def part(x: Any, i: Any) -> Any:
        x = own(x)
        return lax.scatter(x, lax.slice(i, (0, 0), (8, 1)), lax.slice(x, (4,), (12,)), numbers,
                           mode="drop")

    results = calque.jit(lambda xs, i: [[f(x, i) for x in xs] for f in (whole, part)])(
        starts, positions)
    for found, count, first in zip(results, (n, 8), (0, 4), strict=True):
        for start, got in zip(starts, found, strict=True):
            want = own(start).copy()
            for k, at in enumerate(positions[:count, 0]):
                if at >= 0:
                    want[at] = own(start)[first + k]
            np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("at", [7, -1, 200, 999])
def test_a_single_row_of_a_large_matrix(at: int) -> None:
    """By indices of one element, which may be out of range."""
    x, row = np.ones((200, 300), np.float32), np.arange(300, dtype=np.float32)[None]
    i = np.array([at], np.int32)
    added, put = calque.jit(lambda x, i, v: (x.at[i].add(v), x.at[i].set(v)))(x, i, row)
    inside = at if at < 200 else []
    want, other = x.copy(), x.copy()
    want[inside] += row[0]
    other[inside] = row[0]
    np.testing.assert_array_equal(added, want)
    np.testing.assert_array_equal(put, other)
