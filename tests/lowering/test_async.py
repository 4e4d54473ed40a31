"""No form of a straight-line program makes IREE wait for the device inside the call.

What waits shows as `hal.fence.await` in the host code, so the test reads that instead of a clock.
"""
import re

import numpy as np
import pytest
from support.harness import partly_slow

import calque
import calque.numpy as jnp
from calque.lowering.compiler.compile import compile_to
from calque.lowering.target.targets import cpu_target

N = 3000


def host_waits(f, *args) -> int:
    text = compile_to(calque.jit(f).lower(*args).as_text(), cpu_target(), "hal")
    start = re.search(r"util\.func public @\w+", text)
    assert start, text[:500]
    return text[start.start():].count("hal.fence.await")


def square(dtype):
    return np.ones((64, 64), dtype)


def wide(*arrays):
    out = arrays[0]
    for a in arrays[1:]:
        out = out * a + 1
    return out


def added_at_zero(shape):  # the window's bounds are asked of a number that nobody folds
    where = (slice(None), np.zeros(1, "i4"))
    return lambda v: jnp.zeros(shape).at[where].add(jnp.sin(v)[:, None])


FORMS = {
    "column chosen by a number": (added_at_zero((128, 1)), [np.ones(128, "f")]),
    "array chosen by a number": (
        lambda x, n: jnp.where(n > 2, jnp.sin(x), jnp.zeros(N)), [np.ones(N, "f"), np.int32(3)]),
    "long sum": (jnp.sum, [np.ones(100_000, "f")]),
    "sum of columns": (lambda x: x.sum(0), [np.ones((5000, 64), "f")]),
    "int8 product": (jnp.matmul, [square("i1")] * 2),
    "uint16 product": (jnp.matmul, [square("u2")] * 2),
    "int32 product": (jnp.matmul, [square("i4")] * 2),
    "bool product": (jnp.matmul, [square("?")] * 2),
    "complex product": (jnp.matmul, [square("c8")] * 2),
    "wide expression": (wide, [np.full(N, 0.5, "f")] * 40),
    "wide expression of unsigned": (wide, [np.full(N, 3, "u4")] * 40),
    "wide expression of bytes": (wide, [np.full(N, 3, "u1")] * 40),
    "wide expression of complex": (wide, [np.full(N, 3j, "c8")] * 40),
    "wide expression of bfloat16": (wide, [np.full(N, 3).astype(jnp.bfloat16)] * 40),
    "reversed strided slice": (lambda x: jnp.flip(x[::3]), [np.ones(N, "f")]),
    "reversed unsigned": (jnp.flip, [np.ones(N, "u4")]),
    "argmax": (jnp.argmax, [np.ones(N, "f")]),
    "random bits": (lambda k: calque.random.bits(k, (N,)), [np.zeros(2, "u4")]),
    "gradient": (calque.grad(lambda x: jnp.sum(jnp.tanh(x) @ x)), [np.ones((64, 64), "f")]),
    **{f"complex {name}": (getattr(jnp, name), [np.ones(N, "c8")]) for name in (
        "exp", "exp2", "log", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "arctan", "arcsin",
        "arccosh", "abs", "reciprocal")},
    "scan": (lambda x: calque.lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x), [np.ones(N, "f")]),
    "while": (lambda x: calque.lax.while_loop(lambda c: c < 1e6, lambda c: c * 1.5, x),
              [np.float32(1)]),
    "vmapped while": (calque.vmap(lambda x: calque.lax.while_loop(
        lambda c: c < 1e6, lambda c: c * 1.5, x)), [np.ones(N, "f")]),
    "complex power": (jnp.power, [np.ones(N, "c8")] * 2),
    "fft": (jnp.fft.fft, [np.ones(1 << 14, "c8")]),
    "fft of planes": (jnp.fft.fft2, [np.ones((3, 40, 50), "c8")]),
    "fft of prime length": (jnp.fft.ifft, [np.ones(1009, "c8")]),
    "real fft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), [np.ones(N, "f")]),
    "bits of a state": (lambda k: calque.lax.rng_bit_generator(k, (N,)), [np.zeros(4, "u4")]),
    "barrier": (lambda x: calque.lax.optimization_barrier((x + 1, x * 2)), [np.ones(N, "f")]),
    "ragged product": (calque.lax.ragged_dot, [np.ones((64, 8), "f"), np.ones((3, 8, 8), "f"),
                                               np.ones(3, "i4")]),
}


@pytest.mark.parametrize("form", partly_slow(list(FORMS), 0.08))
def test_the_host_does_not_wait(form) -> None:
    f, args = FORMS[form]
    assert host_waits(f, *args) == 0


def test_the_probe_sees_a_wait() -> None:
    """A cond whose predicate is computed does wait: the host reads it."""
    def heavy(x):
        return jnp.sin(x @ x @ x)
    waits = host_waits(lambda x: calque.lax.cond(x[0, 0] > 0, heavy, lambda y: y, x),
                       np.ones((64, 64), "f"))
    assert waits > 0


def test_a_callback_without_results_keeps_nobody_waiting() -> None:
    """Where the host waited for its end, IREE moved the wait before the call that ends it when
    a later step reads a number on the host: the program stood still for ever."""
    def f(x):
        calque.debug.callback(lambda v: None, x.sum())
        return x * 2
    assert host_waits(f, np.ones(N, "f")) == 0


def test_iree_still_waits_for_calls_without_results() -> None:
    """call_host in lowering/rules/callback.py: they give a number."""
    text = """
      func.func private @py.call0(%x: tensor<f32>)
      func.func @main(%x: tensor<f32>) -> tensor<f32> {
        func.call @py.call0(%x) : (tensor<f32>) -> ()
        %y = stablehlo.add %x, %x : tensor<f32>
        return %y : tensor<f32>
      }"""
    assert "hal.fence.await" in compile_to(text, cpu_target(), "abi")
