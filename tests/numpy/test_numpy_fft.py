"""numpy.fft and lax.fft: arguments, dtypes and errors as in JAX; values against NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import both_ways, by_each

import calque
import calque.numpy as jnp
from calque import lax

CLOSE = 4e-6  # of the largest element, in f32: sizes up to 60

LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
REAL = ("rfft", "ihfft", "rfft2", "rfftn")


def array(name: str, *shape: int) -> Any:
    rng = np.random.default_rng(5)
    x = rng.standard_normal(shape).astype(np.float32)
    return x if name in REAL else (x + 1j * rng.standard_normal(shape)).astype(np.complex64)


def wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def agree(jit: Any, calls: list[tuple[str, Any, dict[str, Any]]]) -> None:
    """All calls in one program."""
    outs = jit(lambda xs: [getattr(jnp.fft, name)(x, **kw) for (name, _, kw), x in
                           zip(calls, xs)])([x for _, x, _ in calls])
    for (name, x, kw), out in zip(calls, outs):
        want = getattr(np.fft, name)(wide(x), **kw)
        assert out.shape == want.shape, (name, kw)
        assert out.dtype == (np.float32 if want.dtype.kind == "f" else np.complex64)
        gap = np.abs(np.asarray(out) - want).max(initial=0)
        assert gap <= CLOSE * np.abs(want).max(initial=0), (name, x.shape, kw)


@pytest.mark.parametrize("jit, calls", by_each([
    (name, n, axis, norm) for name in LINES for n, axis, norm in (
        (None, -1, None), (7, 0, "ortho"), (16, 1, "forward"), (9, -1, "backward"))],
    0.25, lambda c: c[0]))
def test_lines(jit: Any, calls: list[tuple[str, int | None, int, str | None]]) -> None:
    agree(jit, [(name, array(name, 3, 10), {"n": n, "axis": axis, "norm": norm})
                for name, n, axis, norm in calls])


SEVERAL: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    (name, shape, kw) for name in MANY for shape, kw in (
        ((3, 4, 5), {}), ((3, 4, 5), {"axes": (2, 0), "norm": "ortho"}),
        ((3, 4, 5), {"s": (6, 3), "axes": (0, 1), "norm": "forward"}), ((2, 3, 2, 2, 4), {}),
        ((3, 4, 5), {"axes": (1,)}))
    if name.endswith("n") or shape == (3, 4, 5) and kw.get("axes") != (1,)]


@pytest.mark.parametrize("jit, calls", by_each(SEVERAL, 0.1, lambda c: c[0]))
def test_several_axes(jit: Any, calls: list[tuple[str, tuple[int, ...], dict[str, Any]]]) -> None:
    agree(jit, [(name, array(name, *shape), kw) for name, shape, kw in calls])


def test_dtypes() -> None:
    assert calque.eval_shape(jnp.fft.fft, np.arange(4)).dtype == jnp.complex64
    assert calque.eval_shape(jnp.fft.fft, np.ones(4, bool)).dtype == jnp.complex64
    assert calque.eval_shape(jnp.fft.rfft, np.arange(4, dtype=np.int8)).dtype == jnp.complex64
    assert calque.eval_shape(jnp.fft.irfft, np.ones(3, np.float16)).dtype == jnp.float32
    with calque.enable_x64(True):
        assert calque.eval_shape(jnp.fft.fft, np.arange(4)).dtype == jnp.complex128
        assert calque.eval_shape(jnp.fft.irfft, np.ones(3, np.complex128)).dtype == jnp.float64
    assert jnp.fft.rfftn(np.ones(3, np.float32), axes=()).dtype == jnp.float32


def test_frequencies_and_shifts() -> None:
    for n in (1, 4, 7):
        for d in (1.0, 0.25):
            np.testing.assert_allclose(jnp.fft.fftfreq(n, d), np.fft.fftfreq(n, d), rtol=2e-7)
            np.testing.assert_allclose(jnp.fft.rfftfreq(n, d), np.fft.rfftfreq(n, d), rtol=2e-7)
        np.testing.assert_allclose(jnp.fft.fftfreq(n, jnp.float32(2)), np.fft.fftfreq(n, 2),
                                   rtol=2e-7)
    assert jnp.fft.fftfreq(4, dtype="float16").dtype == jnp.float16
    x = np.arange(24).reshape(2, 3, 4)
    for axes in (None, 0, (0, 2), [1], -1, ()):
        np.testing.assert_array_equal(jnp.fft.fftshift(x, axes), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(jnp.fft.ifftshift(x, axes), np.fft.ifftshift(x, axes))


C = np.ones(6, np.complex64)
BAD = [
    (lambda: jnp.fft.fft([1.0, 2.0]), TypeError, "requires ndarray or scalar arguments"),
    (lambda: jnp.fft.fft(2.0), ValueError, "axis -1 is out of bounds"),
    (lambda: jnp.fft.fft(C, n=0), ValueError, "Shape should be positive"),
    (lambda: jnp.fft.fft(C, axis=(0,)), ValueError, "does not support multiple axes"),
    (lambda: jnp.fft.fft(C, norm="x"), ValueError, "Invalid norm value x"),
    (lambda: jnp.fft.rfft(C), ValueError, "only real valued inputs supported for rfft"),
    (lambda: jnp.fft.rfft(np.ones(4, np.float16)), ValueError, "got float16"),
    (lambda: jnp.fft.rfft(np.ones(0, np.float32)), ValueError, "at least one element"),
    (lambda: jnp.fft.fftn(C, axes=(0, 0)), ValueError, "repeated axes. Got axes .0, 0."),
    (lambda: jnp.fft.fftn(C, axes=[0, 0]), ValueError, r"repeated axes. Got axes \[0, 0\]"),
    (lambda: jnp.fft.fftn(C, s=(2,), axes=()), ValueError, "Shape and axes have different"),
    (lambda: jnp.fft.fftn(C, s=(2, 3)), ValueError, "fewer axes than"),
    (lambda: jnp.fft.fft2(C, axes=(0,)), ValueError, "only supports 2 axes"),
    (lambda: jnp.fft.fft2(C), ValueError, "axis -2 is out of bounds"),
    (lambda: jnp.fft.fftfreq([1, 2]), ValueError, "only takes an int"),
    (lambda: jnp.fft.fftfreq(4, [1, 2]), ValueError, "only takes a single value"),
    (lambda: jnp.fft.fftshift(C, 3), IndexError, "out of range"),
    (lambda: lax.fft(C, 0, (6,)), TypeError, "Unknown FFT type value '0'"),
    (lambda: lax.fft(C, "x", (6,)), ValueError, "Unknown FFT type 'x'"),
    (lambda: lax.fft(C, "FFT", (5,)), ValueError, "must be equal to fft_lengths"),
    (lambda: lax.fft(C, "FFT", 6), TypeError, "has no len"),
    (lambda: lax.fft(C, "FFT", (1, 6)), ValueError, "at least as many input dimensions"),
    (lambda: lax.fft(C.reshape(1, 1, 1, 6), "FFT", (1, 1, 1, 6)), ValueError, "between 1 and 3"),
    (lambda: lax.fft(C, "IRFFT", (6,)), ValueError, "requires innermost dimension"),
    (lambda: lax.fft(C.reshape(2, 3), "IRFFT", (3, 4)), ValueError, "all except the last"),
]


@pytest.mark.parametrize("f, kind, text", BAD)
def test_errors(f: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match="(?s)" + text.replace("(", r"\(")):
        f()


def test_lax_takes_names_and_no_axes() -> None:
    np.testing.assert_array_equal(lax.fft(C, "fft", (6,)), lax.fft(C, lax.FftType.FFT, [6]))
    assert lax.fft(np.float32(3), "FFT", ()).dtype == jnp.complex64
    assert lax.fft(C[:0], "FFT", (0,)).shape == (0,)
    assert lax.fft(C[:1], "IRFFT", (0,)).shape == (0,)
    assert int(lax.FftType.IRFFT) == 3


@both_ways
def test_gradient_of_power_is_parseval(jit: Any) -> None:
    """sum |X[k]|^2 = n sum x[j]^2: the gradient is 2 n x."""
    x = np.random.default_rng(6).standard_normal(30).astype(np.float32)
    power = jit(calque.grad(lambda x: (jnp.abs(jnp.fft.fft(x)) ** 2).sum()))
    np.testing.assert_allclose(power(x), 60 * x, rtol=1e-4, atol=1e-4)
