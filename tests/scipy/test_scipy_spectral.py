"""csd, welch, stft, istft, detrend and windows against SciPy: axes, lengths, boundaries, errors."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import signal as oracle
from support.harness import both_ways, numpys

import calque
import calque.numpy as jnp
from calque.scipy import signal, tapers

WINDOWS = [*sorted(tapers._COSINES), "triang", "bartlett", "bohman", "parzen", "barthann",
           "cosine", "lanczos", "tukey", "exponential", ("tukey", 0.3), ("kaiser", 3.0), 4.0,
           ("gaussian", 2.0), ("general_gaussian", 1.5, 2.0), ("general_hamming", 0.6),
           ("general_cosine", [0.5, 0.3, 0.2]), ("exponential", None, 2.0), "han", "tri"]
SIGNALS = [((50,), -1), ((2, 33, 3), 1), ((2, 33, 3), -2), ((3, 41), -1)]
# nperseg, noverlap, nfft, detrend, boundary, padded
CASES: list[Any] = [(7, 0, None, False, "zeros", True), (8, None, 10, "constant", "odd", False),
                    (9, 5, None, "linear", "even", True), (17, None, None, False, None, False),
                    (8, 7, 16, lambda d: d * 2, "constant", True)]


def _close(got: Any, want: Any) -> None:
    for g, w in zip(got, want, strict=True):
        size = np.abs(w).max(initial=1.0)
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-9, atol=1e-12 * size)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window: Any) -> None:
    for n in (1, 2, 7, 8, 33):
        np.testing.assert_allclose(tapers.taper(window, n), oracle.get_window(window, n),
                                   atol=1e-12)


def _spectra(module: Any, x: Any, y: Any, case: Any, axis: int) -> list[Any]:
    nperseg, noverlap, nfft, trend, boundary, padded = case
    options = {"nperseg": nperseg, "noverlap": noverlap, "nfft": nfft, "axis": axis, "fs": 3.0,
               "detrend": trend}
    made = [module.stft(x, boundary=boundary, padded=padded, **options)]
    for scaling, average in (("density", "mean"), ("spectrum", "median")):
        options |= {"scaling": scaling, "average": average}
        made += [module.welch(x, **options), module.csd(x, y, **options)]
    made.append(module.csd(x, y * 1j + x, return_onesided=False, **options))
    return made


@pytest.mark.parametrize("shape, axis, jit", [
    *[(*s, numpys) for s in SIGNALS],
    *[pytest.param(*s, calque.jit, marks=pytest.mark.slow) for s in SIGNALS]])
def test_spectra(shape: tuple[int, ...], axis: int, jit: Any, x64: None) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, *shape))
    found = jit(lambda x, y: [_spectra(signal, x, y, c, axis) for c in CASES])(x, y)
    for case, results in zip(CASES, found):
        for got, want in zip(results, _spectra(oracle, x, y, case, axis)):
            _close(got, want)


@both_ways
@pytest.mark.parametrize("shape, axis", SIGNALS[1:])
def test_the_way_back(shape: tuple[int, ...], axis: int, jit: Any, x64: None) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    place = axis if axis >= 0 else axis - 1
    cases = [(True, 7, True), (True, 1, False), (False, 7, False)]
    spectra = {(one, n): oracle.stft(x, nperseg=8, noverlap=n, axis=axis, return_onesided=one)[2]
               for one in (True, False) for n in (1, 7)}

    def back(module: Any, z: Any) -> list[Any]:
        return [module.istft(z[one, n], noverlap=n, input_onesided=one, boundary=b,
                             freq_axis=place) for one, n, b in cases]

    with warnings.catch_warnings():  # SciPy's, where windows do not add up at the ends
        warnings.simplefilter("ignore")
        wanted = back(oracle, spectra)
    found, again = jit(lambda z, x: (
        back(signal, dict(zip(spectra, z))),
        signal.istft(signal.stft(x, nperseg=8, axis=axis)[2], freq_axis=place)[1]))(
            list(spectra.values()), x)
    for got, want in zip(found, wanted):
        _close(got, want)
    _close([again[..., :x.shape[axis]]], [np.moveaxis(x, axis, -1)])


def test_a_compiled_way_and_back(x64: None) -> None:
    x = np.random.default_rng(0).standard_normal(50)

    def both(x: Any) -> Any:
        spectrum = signal.stft(x, nperseg=8)[2]
        return spectrum, signal.istft(spectrum)[1], signal.csd(x, x[::-1], nperseg=8)[1]

    spectrum, again, cross = calque.jit(both)(x)
    _close([spectrum, again[:50], cross], [
        oracle.stft(x, nperseg=8)[2], x, oracle.csd(x, x[::-1], nperseg=8)[1]])


def test_trends(x64: None) -> None:
    x = np.random.default_rng(0).standard_normal((3, 20)).cumsum(1)
    for axis, breaks in ((-1, 0), (1, 5), (-1, [0, 7, 20]), (0, 0)):
        _close([signal.detrend(x, axis, bp=breaks)], [oracle.detrend(x, axis, bp=breaks)])
    _close([signal.detrend(x + 1j * x[::-1], type="constant")],
           [oracle.detrend(x + 1j * x[::-1], type="constant")])
    assert signal.detrend(jnp.zeros((2, 0))).shape == (2, 0)
    slope = calque.grad(lambda v: (signal.detrend(v) * x[0]).sum())(jnp.asarray(x[1]))
    _close([slope], [oracle.detrend(x[0])])


def test_dtypes_and_empty_signals() -> None:
    shapes = calque.eval_shape
    assert shapes(signal.detrend, jnp.arange(5)).dtype == "float32"
    f, p = shapes(lambda: signal.welch(jnp.arange(20), nperseg=8))
    assert f.dtype == p.dtype == "float32"
    assert shapes(lambda: signal.csd(jnp.ones(20), jnp.ones(15), nperseg=8))[1].dtype == "complex64"
    assert shapes(lambda: signal.csd(jnp.ones(20), None, nperseg=8))[1].dtype == "float32"
    assert [v.shape for v in signal.stft(jnp.zeros((2, 0)), nperseg=8)] == [(2, 0)] * 3
    assert signal.csd(jnp.ones(20), jnp.zeros(0))[1].dtype == "complex64"
    with pytest.warns(UserWarning, match="nperseg=256 is greater than input_length=20"):
        assert shapes(lambda: signal.welch(jnp.ones(20)))[0].shape == (11,)
    with pytest.warns(UserWarning, match="switching to return_onesided=False"):
        assert shapes(lambda: signal.welch(1j * jnp.ones(20), nperseg=8))[0].shape == (8,)


X, Z = jnp.ones(20), jnp.ones((5, 6)) * 1j


@pytest.mark.parametrize("call, error, text", [
    (lambda: signal.detrend(X, type="foo"), ValueError, "must be 'linear' or 'constant'"),
    (lambda: signal.detrend(X, bp=[0, 30]), ValueError, "Breakpoints must be non-negative"),
    (lambda: signal.detrend(X, bp=-3), ValueError, "Breakpoints must be non-negative"),
    (lambda: signal.detrend(X, axis=2), IndexError, "axis 2 is out of bounds"),
    (lambda: signal.detrend(X, overwrite_data=True), NotImplementedError, "overwrite_data"),
    (lambda: signal.stft(X, nperseg=8, window="zzz"), ValueError, "Invalid window name 'zzz'"),
    (lambda: signal.stft(X, nperseg=8, window="kaiser"), ValueError, "one or more parameters"),
    (lambda: signal.stft(X, nperseg=8, window=jnp.ones(7)), ValueError, "different from length"),
    (lambda: signal.stft(X, nperseg=8, window=jnp.ones((2, 4))), ValueError, "window must be 1-D"),
    (lambda: signal.welch(X, window=jnp.ones(21)), ValueError, "window is longer than input"),
    (lambda: signal.stft(X, nperseg=0), ValueError, "nperseg must be a positive integer"),
    (lambda: signal.stft(X, nperseg=8, noverlap=8), ValueError, "noverlap must be less"),
    (lambda: signal.stft(X, nperseg=8, nfft=4), ValueError, "nfft must be greater than or equal"),
    (lambda: signal.stft(X, nperseg=8, boundary="foo"), ValueError, "Unknown boundary option"),
    (lambda: signal.stft(X, nperseg=8, axis=3), ValueError, "axis 3 is out of bounds"),
    (lambda: signal.stft(X, nperseg=8, detrend="zz"), ValueError, "Trend type must be"),
    (lambda: signal.stft(X.astype("bfloat16"), nperseg=8), ValueError, "got bfloat16"),
    (lambda: signal.stft([1.0] * 20, nperseg=8), TypeError, "requires ndarray or scalar"),
    (lambda: signal.welch(X, nperseg=8, scaling="foo"), ValueError, "Unknown scaling: foo"),
    (lambda: signal.welch(X, nperseg=8, average="foo"), ValueError, "average must be"),
    (lambda: signal.csd(jnp.ones((2, 20)), X, nperseg=8), ValueError, "must have the same rank"),
    (lambda: signal.csd(jnp.ones((2, 20)), jnp.ones((3, 20)), nperseg=8), ValueError,
     "cannot be broadcast together"),
    (lambda: signal.istft(Z[0]), ValueError, "must be at least 2d"),
    (lambda: signal.istft(Z, time_axis=0, freq_axis=0), ValueError, "differing time and freq"),
    (lambda: signal.istft(Z, nfft=6), ValueError, "must be longer than nperseg"),
    (lambda: signal.istft(Z, noverlap=9), ValueError, "noverlap must be less than nperseg"),
    (lambda: signal.istft(Z, window=jnp.ones(7)), ValueError, "window must have length of 8"),
])
def test_what_is_refused(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()
