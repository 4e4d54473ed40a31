"""Layers that differ by a number are one kernel that is given it (passes/repeats): the same bits as
where each has its number written into its code."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.compiler import compile as compiling
from calque.lowering.driver.module import LowerOptions, lower, module_text
from calque.lowering.passes import cost, repeats
from calque.lowering.plan import switches
from calque.lowering.target.targets import cpu_target

N = 24  # 12 layers of this size are more than a kernel of ours takes whole
NUMBERS = [0.5, -0.0, 0.0, np.inf, -np.inf, np.nan, 1e-30, 3.0, -7.25, 1e30, 0.1, 2.0]
GIVEN = "util.optimization_barrier"


@pytest.fixture(autouse=True)
def written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers as small as these would be loops again (passes/reroll), or kernels whole."""
    monkeypatch.setattr(switches, "_OFF", switches._OFF | {"reroll", "remainder"})


def layers(x: Any, numbers: Any) -> Any:
    """Each layer alone, so that nothing large is left behind infinity and NaN; of products that are
    equal one is left."""
    return [jnp.maximum((jnp.roll(x, i, 0) @ x) * n, n) / 2 for i, n in enumerate(numbers)]


def text(f: Any, *args: Any) -> str:
    made = lower(calque.make_jaxpr(f)(*args), cpu_target())
    assert made.module is not None
    return module_text(made.module)


def chain(count: int) -> Any:
    def f(x: Any) -> Any:
        for i in range(count):
            x = jnp.tanh(x @ x) + i
        return x
    return f


def test_every_number_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values as they are in NumPy, bit for bit, of f32 and i32, of numbers on either side."""
    monkeypatch.setattr(cost, "BUNDLED_BYTES", 0)  # (it would be one kernel)
    x = jnp.asarray(np.arange(N * N, dtype=np.float32).reshape(N, N) % 7 - 3)
    k = jnp.asarray(np.arange(N * N, dtype=np.int32).reshape(N, N) % 5)
    whole = [1, -3, 7, 2**31 - 1, -2**31, 0, 5, 9, 11, 13]

    def f(x: Any, k: Any) -> Any:
        return (layers(x, NUMBERS), [n - jnp.roll(x, -i, 0) @ x for i, n in enumerate(NUMBERS)],
                [(jnp.roll(k, i, 0) @ k) * n for i, n in enumerate(whole)])

    assert text(f, x, k).count(GIVEN) >= 3 * 10
    first, second, third = calque.jit(f)(x, k)
    product, counts = np.asarray(x) @ np.asarray(x), np.asarray(k) @ np.asarray(k)
    with np.errstate(all="ignore"):
        for i, (n, y, z) in enumerate(zip(map(np.float32, NUMBERS), first, second)):
            turned = np.roll(product, i, 0)
            np.testing.assert_array_equal(y, np.maximum(turned * n, n) / np.float32(2))
            np.testing.assert_array_equal(z, n - np.roll(product, -i, 0))
        for i, (n, w) in enumerate(zip(whole, third)):
            np.testing.assert_array_equal(w, np.roll(counts, i, 0) * np.int32(n))


@pytest.mark.parametrize("form, dtype", [
    ("layers", "float32"), *[pytest.param(*p, marks=pytest.mark.slow) for p in (
        ("layers", "float64"), ("gradient", "float32"))]])
def test_same_bits_as_written_out(form: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        if form == "layers":
            return chain(12)(x)
        return calque.grad(lambda x: chain(12)(x).sum())(x)

    x = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (N, N)).astype(np.float32))
    with calque.enable_x64(True):
        x = x.astype(dtype)
        given = calque.jit(f)(x)
        monkeypatch.setattr(repeats, "LEAST", 1000)
        assert GIVEN not in text(chain(13), x)
        written = calque.jit(lambda x: f(x))(x)
    np.testing.assert_array_equal(*[np.asarray(v).view(np.uint8) for v in (given, written)])


@pytest.mark.parametrize("count", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_many_layers_are_few_kernels(count: int) -> None:
    made = lower(calque.make_jaxpr(chain(count))(jnp.ones((N, N))), cpu_target(),
                 LowerOptions(whole=False))
    assert made.module is not None
    flow = compiling.compile_to(made.module, cpu_target(), "flow")
    assert flow.count("flow.executable private") <= 3
    assert flow.count("= flow.dispatch @") >= count


def most_scalars(f: Any, *args: Any) -> int:
    """The most numbers that one dispatch is given, in words."""
    made = lower(calque.make_jaxpr(f)(*args), cpu_target())
    assert made.module is not None and module_text(made.module).count(GIVEN) > repeats.WORDS
    flow = compiling.compile_to(made.module, cpu_target(), "flow")
    operands = [line.split(" : (")[-1].split(") ->")[0].split(", ")
                for line in flow.splitlines() if "flow.dispatch @" in line]
    return max(sum({"f32": 1, "i32": 1, "f64": 2, "i64": 2}.get(o, 0) for o in row)
               for row in operands)


FUSED = {  # operations that end a layer and that IREE makes elementwise: all layers are one loop
    "sum of one": lambda x: jnp.sum(x[:, :, None], axis=2),
    "max of one": lambda x: jnp.max(x[None], axis=0),
    "product over one": lambda x: jnp.einsum("ijk,ijk->ij", x[:, :, None], x[:, :, None]) ** 0.5,
    "sums so far of one": lambda x: lax.cumsum(x[:, :, None], axis=2)[:, :, 0],
    "sorted one": lambda x: jnp.sort(x[:, :, None], axis=2)[:, :, 0],
    "window of one": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1), (1, 1), "VALID")}


@pytest.mark.parametrize("dtype, stride", [
    ("float32", 2), *[pytest.param(d, 1, marks=pytest.mark.slow) for d in ("float32", "float64")]])
def test_a_dispatch_takes_64_words(dtype: str, stride: int) -> None:
    """Beyond them a program is not loaded: 40 layers with two numbers each that IREE would fuse."""
    pairs = [(0.3 + i * 1e-3, 0.4 + i * 1e-3) for i in range(40)]

    def f(x: Any) -> Any:
        out = []
        for same in list(FUSED.values())[::stride]:
            y = x
            for k, c in pairs:
                y = same(y * k) + c
            out.append(y)
        return out

    with calque.enable_x64(True):
        x = np.linspace(0.5, 1, N * N).reshape(N, N).astype(dtype)
        assert most_scalars(f, jnp.asarray(x)) <= repeats.WORDS
        expected = x
        for k, c in pairs:
            expected = expected * x.dtype.type(k) + x.dtype.type(c)
        for y in calque.jit(f)(jnp.asarray(x)):
            # 40 steps, each a third of the one before: the rounding of the last few
            np.testing.assert_allclose(y, expected, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.slow
def test_values_of_every_kind_across_cuts() -> None:
    """Bools, unsigned and complex values, and one that is updated in place, made before a cut and
    read behind each."""
    start = np.arange(N * N, dtype=np.float32).reshape(N, N) % 5 - 2

    def f(x: Any, xp: Any, one: Any, put: Any) -> Any:
        mask, bits, spin = x > 0, (x * x).astype("uint32"), x * (1 + 2j)
        kept, y = x + 3, x
        for i in range(40):
            y = xp.where(mask, one(y * (i / 64)) + (i + 0.5), y - (i / 8))
            kept = put(kept, i % N, y[0])
        return y, kept, bits + 1, spin * 2, xp.logical_not(mask)

    def on_host(x: Any, i: int, v: Any) -> Any:
        x = x.copy()
        x[i] = v
        return x

    def ours(x: Any) -> Any:
        return f(x, jnp, lambda v: jnp.max(v[None], axis=0), lambda x, i, v: x.at[i].set(v))

    assert most_scalars(ours, jnp.asarray(start)) <= repeats.WORDS
    for a, b in zip(calque.jit(ours)(jnp.asarray(start)),
                    f(start, np, lambda v: v, on_host)):
        assert a.dtype == b.dtype or b.dtype == np.complex128
        # 40 fused products and sums, in the order of values up to 1e2
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("f", [
    chain(repeats.LEAST - 1),  # too few
    lambda x: layers(x, [3.0] * 20),  # one number
    lambda x: [sum(((n + i / 16) * x + n - i for n in map(float, range(9))), x @ x)  # too many
               for i in range(20)],
    lambda x: jnp.polyval(jnp.arange(30.0), x),  # no layers
    lambda x: [x @ x + float(i) for i in range(20)][:0] + [x + 1]])
def test_what_stays_written(f: Any) -> None:
    assert GIVEN not in text(f, jnp.ones((N, N)))


def test_no_layers_in_loops_of_the_host() -> None:
    """Within a loop the numbers would be carried."""
    def f(x: Any) -> Any:
        return calque.lax.while_loop(lambda c: c[0].sum() < 1e9,
                                     lambda c: (chain(12)(c[0]), c[1] + 1), (x, 0))[0]

    assert GIVEN not in text(f, jnp.ones((N, N)))
