"""scipy.signal against SciPy: every mode and method, any number of axes, derivatives."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import signal as oracle
from support.harness import both_ways, by_each

import calque
import calque.numpy as jnp
from calque.scipy import signal

SHAPES = [((7,), (3,)), ((7,), (4,)), ((3,), (5,)), ((1,), (1,)), ((4, 5), (2, 3)),
          ((2, 3), (4, 4)), ((3, 2, 4), (2, 2, 2)), ((), ())]
MODES = ("full", "same", "valid")


def values(shape: tuple[int, ...], kind: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if kind == "i":
        return rng.integers(-5, 6, shape)
    made = rng.standard_normal(shape)
    return np.asarray(made + 1j * rng.standard_normal(shape) if kind == "c" else made)


EVERY = by_each([(m, n, mode) for m, n in SHAPES for mode in MODES], 0.08)
COMPILED = [("convolve", "f"), ("correlate", "c"), ("fftconvolve", "f")]  # by default, some


@pytest.mark.parametrize("name, kind, jit, cases", [
    pytest.param(name, kind, *p.values, id=f"{p.id}-{name}-{kind}",
                 marks=[pytest.mark.slow] if p.id == "some" and (name, kind) not in COMPILED
                 else p.marks)
    for name in ("convolve", "correlate", "fftconvolve") for kind in "fci" for p in EVERY])
def test_every_mode_is_scipys(name: str, kind: str, jit: Any, cases: Any, x64: None) -> None:
    cases = [c for c in cases if name != "fftconvolve" or c[0]]
    pairs = [(values(m, kind, 0), values(n, kind, 1)) for m, n, _ in cases]
    methods = ("direct", "fft") if name != "fftconvolve" else ("",)

    def program(pairs: Any) -> Any:
        return [getattr(signal, name)(a, b, mode=mode, **({"method": m} if m else {}))
                for (a, b), (*_, mode) in zip(pairs, cases) for m in methods]

    found = iter(jit(program)(pairs))
    for (a, b), (*_, mode) in zip(pairs, cases):
        wide = [v.astype(np.complex128 if kind == "c" else np.float64) for v in (a, b)]
        want = getattr(oracle, name)(*wide, mode=mode)
        for method in methods:
            got = np.asarray(next(found))
            assert got.shape == np.shape(want)
            # sums of at most 24 products of size 25: some eps of the largest
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * 25,
                                       err_msg=f"{a.shape} {b.shape} {mode} {method}")


SHAPES_2D = [((4, 5), (2, 3)), ((2, 3), (4, 5)), ((3, 3), (2, 2))]


@pytest.mark.parametrize("jit, cases", by_each([
    (name, *shapes, mode) for shapes, mode in itertools.product(SHAPES_2D, MODES)
    for name in ("convolve2d", "correlate2d")], 0.1, lambda c: c[0]))
def test_two_dimensional_forms(jit: Any, cases: Any) -> None:
    cases = [(name, values(m, "f", 0).astype(np.float32), values(n, "f", 1).astype(np.float32),
              mode) for name, m, n, mode in cases]
    found = jit(lambda pairs: [getattr(signal, name)(a, b, mode) for (name, *_, mode), (a, b)
                               in zip(cases, pairs)])([(a, b) for _, a, b, _ in cases])
    for (name, *args), got in zip(cases, found):
        np.testing.assert_allclose(got, getattr(oracle, name)(*args), rtol=1e-5, atol=1e-5,
                                   err_msg=f"{name} {args[0].shape} {args[2]}")


@both_ways
def test_fftconvolve_along_some_axes(jit: Any) -> None:
    a, b = values((3, 6), "f", 0), values((1, 4), "f", 1)
    want = oracle.fftconvolve(a, b, axes=1)
    found = jit(lambda a, b: signal.fftconvolve(a, b, axes=1))(jnp.asarray(a), jnp.asarray(b))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@both_ways
def test_derivative_is_the_correlation(x64: None, jit: Any) -> None:
    a, b, w = values((6,), "f", 0), values((3,), "f", 1), values((8,), "f", 2)
    found = jit(calque.grad(lambda a: (signal.convolve(a, jnp.asarray(b)) * w).sum()))(
        jnp.asarray(a))
    np.testing.assert_allclose(found, oracle.correlate(w, b, mode="valid"), rtol=1e-12)


@pytest.mark.parametrize("call, text", [
    (lambda: signal.convolve(np.ones((3, 3)), np.ones(2)), "same number of dimensions"),
    (lambda: signal.convolve(np.ones(0), np.ones(2)), "zero-size arrays not supported"),
    (lambda: signal.convolve(np.ones(3), np.ones(2), mode="x"), "mode must be one of"),
    (lambda: signal.convolve(np.ones(3), np.ones(2), method="x"), "expected 'auto', 'fft'"),
    (lambda: signal.correlate(np.ones((2, 3)), np.ones((3, 2)), mode="valid"),
     "smaller than the other in every dimension"),
    (lambda: signal.convolve2d(np.ones(3), np.ones(3)), "only supports 2-dimensional inputs"),
    (lambda: signal.fftconvolve(np.ones((2, 3)), np.ones((3, 3)), axes=1), "incompatible shapes"),
])
def test_bad_input(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){text}.*Fix: "):
        call()


def test_other_boundaries() -> None:
    with pytest.raises(NotImplementedError, match="(?s)only supports boundary='fill'.*Fix"):
        signal.convolve2d(np.ones((3, 3)), np.ones((2, 2)), boundary="wrap")
