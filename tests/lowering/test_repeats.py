"""Layers that differ by a number are one kernel that is given it (passes/repeats): the same bits as
where each has its number written into its code."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.lowering import compile as compiling
from calque.lowering.module import lower, module_text
from calque.lowering.passes import repeats
from calque.lowering.targets import cpu_target

N = 24  # 12 layers of this size are more than a kernel of ours takes whole
NUMBERS = [0.5, -0.0, 0.0, np.inf, -np.inf, np.nan, 1e-30, 3.0, -7.25, 1e30, 0.1, 2.0]
GIVEN = "util.optimization_barrier"


def layers(x: Any, numbers: Any) -> Any:
    """Each layer alone, so that nothing large is left behind infinity and NaN."""
    return [jnp.maximum((x @ x) * n, n) / 2 for n in numbers]


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


def test_every_number_arrives() -> None:
    """Values as they are in NumPy, bit for bit, of f32 and i32, of numbers on either side."""
    x = jnp.asarray(np.arange(N * N, dtype=np.float32).reshape(N, N) % 7 - 3)
    k = jnp.asarray(np.arange(N * N, dtype=np.int32).reshape(N, N) % 5)
    whole = [1, -3, 7, 2**31 - 1, -2**31, 0, 5, 9, 11, 13]

    def f(x: Any, k: Any) -> Any:
        return (layers(x, NUMBERS), [n - x @ x for n in NUMBERS], [(k @ k) * n for n in whole])

    assert text(f, x, k).count(GIVEN) >= 3 * 10
    first, second, third = calque.jit(f)(x, k)
    product, counts = np.asarray(x) @ np.asarray(x), np.asarray(k) @ np.asarray(k)
    with np.errstate(all="ignore"):
        for n, y, z in zip(map(np.float32, NUMBERS), first, second):
            np.testing.assert_array_equal(y, np.maximum(product * n, n) / np.float32(2))
            np.testing.assert_array_equal(z, n - product)
        for i, w in zip(whole, third):
            np.testing.assert_array_equal(w, counts * np.int32(i))


def test_same_bits_as_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (N, N)).astype(np.float32))
    with calque.enable_x64(True):
        wide = jnp.asarray(np.asarray(x), "float64")
        given = [calque.jit(chain(12))(v) for v in (x, wide)]
        gradient = calque.jit(calque.grad(lambda x: chain(12)(x).sum()))(x)
        monkeypatch.setattr(repeats, "LEAST", 1000)
        assert GIVEN not in text(chain(13), x)
        written = [calque.jit(lambda v: chain(12)(v))(v) for v in (x, wide)]
        other = calque.jit(calque.grad(lambda x: chain(12)(x).sum()))(x)
    for a, b in zip((*given, gradient), (*written, other)):
        np.testing.assert_array_equal(np.asarray(a).view(np.uint8), np.asarray(b).view(np.uint8))


def test_a_hundred_layers_are_few_kernels() -> None:
    made = lower(calque.make_jaxpr(chain(100))(jnp.ones((N, N))), cpu_target())
    assert made.module is not None
    flow = compiling.compile_to(made.module, cpu_target(), "flow")
    assert flow.count("flow.executable private") <= 3
    assert flow.count("= flow.dispatch @") >= 100


@pytest.mark.parametrize("f", [
    chain(repeats.LEAST - 1),  # too few
    lambda x: layers(x, [3.0] * 20),  # one number
    lambda x: [sum((n * x + n + i for n in map(float, range(9))), x @ x)  # too many at once
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
