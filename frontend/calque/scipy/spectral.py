"""csd, welch, stft, istft and detrend: spectra of segments of a signal, under SciPy's names.

Segments are gathered along a new axis, tapered and transformed at once; an inverse adds them up by
whole steps.  Start reading at `_spectra`.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.types import Ndarray
from calque.numpy import fft, frequencies, means, util
from calque.numpy import reductions as rd
from calque.numpy.creation import asarray
from calque.numpy.join import concatenate
from calque.numpy.logic import where
from calque.numpy.padding import pad
from calque.numpy.parts import conj
from calque.numpy.shapes import moveaxis
from calque.numpy.statistics import median
from calque.primitives import elementwise as ew
from calque.scipy.tapers import taper

_EXTENSIONS: dict[str, dict[str, Any]] = {
    "even": {"mode": "reflect"}, "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"}, "zeros": {"mode": "constant"}}


def _axis(name: str, axis: int, ndim: int) -> int:
    found = operator.index(axis)
    if not -ndim <= found < ndim:
        raise ValueError(explain(f"{name}: axis {axis} is out of bounds for array of dimension "
                                 f"{ndim}", fix="name one of the array's axes."))
    return found % ndim


# ---- trends
@util.planned
def detrend(data: Any, axis: int = -1, type: str = "linear",
            bp: int | Sequence[int] | Ndarray = 0,
            overwrite_data: None = None) -> Any:
    """Takes a linear trend, the trends of several pieces, or the mean away.

    Args:
      data: array.
      axis: along which.
      type: 'linear' (least squares) or 'constant' (the mean).
      bp: of 'linear': indices at which a new piece begins.
      overwrite_data: not supported.

    Returns:
      An array of data's shape and inexact dtype.

    Raises:
      IndexError: axis is out of bounds.
      NotImplementedError: overwrite_data is given.
      ValueError: type is another one, or a break lies outside.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import signal
      >>> signal.detrend(jnp.array([1.0, 2.0, 4.0, 5.0]), type="constant")
      Array([-2., -1.,  1.,  2.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError(explain("overwrite_data argument not implemented.",
                                          fix="leave it out: arrays are immutable."))
    if type not in ("constant", "linear"):
        raise ValueError(explain("Trend type must be 'linear' or 'constant'.", fix="use one."))
    x = util.inexact_arrays("detrend", asarray(data))[0]
    ndim = ndim_of(x)
    if not -ndim <= axis < ndim:
        raise IndexError(explain(f"detrend: axis {axis} is out of bounds for array of dimension "
                                 f"{ndim}", fix="name one of the array's axes."))
    size = shape_of(x)[axis]
    if type == "constant" or not size:
        return x - means.mean(x, axis=axis, keepdims=True) if size else x
    breaks = np.sort(np.unique(np.concatenate([
        [0, size], np.atleast_1d(util.needed("detrend", bp, "bp", "pass integers.")
                                 if hasattr(bp, "aval") else np.asarray(bp))]))).astype(int)
    if breaks[0] < 0 or breaks[-1] > size:
        raise ValueError(explain(
            "Breakpoints must be non-negative and less than length of data along given axis.",
            fix=f"pass indices from 0 to {size - 1}."))
    with util.lazy_eval("detrend"):
        x = moveaxis(x, axis, -1)
        pieces = [_without_trend(x[..., i:j]) for i, j in zip(breaks[:-1], breaks[1:])]
        return moveaxis(concatenate(pieces, -1) if len(pieces) > 1 else pieces[0], -1, axis)


def _without_trend(x: Any) -> Any:
    """Less the line of least squares along the last axis, by moments about the middle."""
    n = shape_of(x)[-1]
    real = np.dtype(dtype_of(x).type(0).real.dtype)
    t = (np.arange(n) - (n - 1) / 2) / n
    square = float(t @ t) or 1.0
    x = x - means.mean(x, axis=-1, keepdims=True)
    slope = rd.sum(x * (t / square).astype(real), axis=-1, keepdims=True)
    return x - slope * t.astype(real)


# ---- segments
def _segments(name: str, window: Any, nperseg: Any, size: int) -> tuple[Any, int]:
    """The window's values and how many they are."""
    if nperseg is not None:
        nperseg = int(nperseg)
        if nperseg < 1:
            raise ValueError(explain("nperseg must be a positive integer", fix="pass 1 or more."))
    if isinstance(window, (str, tuple, float, int)):
        count = 256 if nperseg is None else nperseg
        if count > size:
            util.warn(f"nperseg={count} is greater than input_length={size}, using "
                      f"nperseg={size}")
            count = size
        return taper(window, count), count
    win = asarray(window)
    shape = shape_of(win)
    if len(shape) != 1:
        raise ValueError(explain("window must be 1-D", fix="pass a name, or one value a sample."))
    if shape[0] > size:
        raise ValueError(explain(f"{name}: window is longer than input signal ({shape[0]} > "
                                 f"{size})", fix="pass a shorter window."))
    if nperseg is not None and nperseg != shape[0]:
        raise ValueError(explain("value specified for nperseg is different from length of window",
                                 fix="leave nperseg out."))
    return win, shape[0]


def _counts(nperseg: int, noverlap: Any, nfft: Any) -> tuple[int, int]:
    noverlap = nperseg // 2 if noverlap is None else int(noverlap)
    if noverlap >= nperseg:
        raise ValueError(explain("noverlap must be less than nperseg.",
                                 fix=f"pass at most {nperseg - 1}."))
    nfft = nperseg if nfft is None else int(nfft)
    if nfft < nperseg:
        raise ValueError(explain("nfft must be greater than or equal to nperseg.",
                                 fix=f"pass {nperseg} or more, or leave it out."))
    return noverlap, nfft


def _operands(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Both of one inexact dtype and rank, y None where it is x."""
    given = util.check_arrays(name, x, *([] if y is None else [y]))
    made = util.inexact_arrays(name, *given)
    if dtype_of(made[0]).itemsize < 4:
        raise ValueError(explain(
            f"{name}: RFFT input must be float32 or float64, got {dtype_of(made[0])}",
            fix="use x.astype('float32')."))
    shapes = [shape_of(v) for v in made]
    if len({len(s) for s in shapes}) > 1:
        raise ValueError(explain(
            f"{name}: two-arguments must have the same rank ({len(shapes[0])} vs "
            f"{len(shapes[1])}).", fix="give the smaller one axes of size 1."))
    return made[0], made[1] if len(made) > 1 else None


def _framed(x: Any, nperseg: int, step: int) -> Any:
    """Segments along a new axis before the last."""
    count = (shape_of(x)[-1] - nperseg) // step + 1
    if step == nperseg:
        return x[..., :count * step].reshape(*shape_of(x)[:-1], count, nperseg)
    return x[..., np.arange(count)[:, None] * step + np.arange(nperseg)]


def _trend(kind: Any, axis: int) -> Callable[[Any], Any]:
    """What is applied to segments: of a function, with the signal's axis where it was."""
    if callable(kind):
        if axis == -1:
            function: Callable[[Any], Any] = kind
            return function
        return lambda d: moveaxis(kind(moveaxis(d, -1, axis)), axis, -1)
    if isinstance(kind, str):
        return lambda d: detrend(d, axis=-1, type=kind)
    return lambda d: d


def _spectra(name: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any,
             nfft: Any, trend: Any, onesided: bool, scaling: str, axis: int, boundary: Any,
             padded: bool, amplitudes: bool) -> tuple[Any, Any, Any]:
    """Frequencies, times, and products of spectra (amplitudes: spectra) with time as last axis."""
    if boundary is not None and boundary not in _EXTENSIONS:
        raise ValueError(explain(f"Unknown boundary option {boundary!r}, must be one of: "
                                 f"{[*_EXTENSIONS, None]}", fix="use one of these."))
    if scaling not in ("density", "spectrum"):
        raise ValueError(explain(f"Unknown scaling: {scaling}",
                                 fix="use 'density' or 'spectrum'."))
    x, y = _operands(name, x, y)
    place = _axis(name, axis, ndim_of(x))
    signals = [moveaxis(v, place, -1) for v in (x, y) if v is not None]
    outer = [shape_of(v)[:-1] for v in signals]
    try:
        np.broadcast_shapes(*outer)
    except ValueError:
        raise ValueError(explain(f"{name}: x and y cannot be broadcast together.",
                                 fix="give them equal sizes along the other axes.")) from None
    kind = dtype_of(x)
    real = np.dtype(kind.type(0).real.dtype)
    if any(0 in shape_of(v) for v in signals):
        shape = list(np.broadcast_shapes(*outer)) + [min(shape_of(v)[-1] for v in signals)]
        none = np.zeros(np.moveaxis(np.empty(shape), -1, place).shape, real)
        complexes = none.astype(np.result_type(real, np.complex64))
        return (asarray(none), asarray(none),
                asarray(complexes if amplitudes or y is not None else none))
    size = max(shape_of(v)[-1] for v in signals)
    signals = [_ended(v, size - shape_of(v)[-1]) for v in signals]
    win, nperseg = _segments(name, window, nperseg, size)
    noverlap, nfft = _counts(nperseg, noverlap, nfft)
    step = nperseg - noverlap
    if boundary is not None:
        outside = [(0, 0)] * (ndim_of(x) - 1) + [(nperseg // 2,) * 2]
        signals = [pad(v, outside, **_EXTENSIONS[boundary]) for v in signals]
        size = shape_of(signals[0])[-1]
    if padded:
        more = (-(size - nperseg) % step) % nperseg
        signals, size = [_ended(v, more) for v in signals], size + more
    if kind.kind == "c" and onesided:
        util.warn("Input data is complex, switching to return_onesided=False")
        onesided = False
    win = ew.convert(asarray(win), kind if util.is_complex(asarray(win)) else real)
    scale = 1 / (fs * rd.sum(win * win)) if scaling == "density" else 1 / rd.sum(win) ** 2
    settle = _trend(trend, axis if axis < 0 else axis - ndim_of(x))
    transform = fft.rfft if onesided else fft.fft
    spectra = [transform(settle(_framed(v, nperseg, step)) * win, nfft) for v in signals]
    if amplitudes:
        result = spectra[0] * ew.sqrt(scale)
    else:
        first = spectra[0]
        result = (conj(first) * spectra[1] if y is not None else
                  ew.real(first) ** 2 + ew.imag(first) ** 2) * scale
        if onesided:
            twice = np.ones(shape_of(result)[-1], real)
            twice[1:None if nfft % 2 else -1] = 2
            result = result * twice
    freqs = (frequencies.rfftfreq if onesided else frequencies.fftfreq)(nfft, 1 / fs, dtype=real)
    moments = np.arange((size - nperseg) // step + 1) * float(step) + nperseg / 2
    times = asarray((moments - (nperseg / 2 if boundary is not None else 0)).astype(real)) / fs
    # frequencies where the signal was, times last
    return freqs, util.cast(times, real), moveaxis(moveaxis(result, -2, -1), -2, place)


def _ended(x: Any, more: int) -> Any:
    return pad(x, [(0, 0)] * (ndim_of(x) - 1) + [(0, more)]) if more else x


@util.planned
def csd(x: Any, y: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None,
        noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant",
        return_onesided: bool = True, scaling: str = "density", axis: int = -1,
        average: str = "mean") -> tuple[Any, Any]:
    """Cross power spectral density by Welch's method: the mean over segments of conj(X) Y.

    Args:
      x: array: a signal along axis.
      y: array with as many axes, the shorter one gets zeros at its end; None for x itself.
      fs: sampling frequency.
      window: a name as in SciPy, a tuple of a name and parameters, or an array of values.
      nperseg: length of a segment (256; of an array for window its length).
      noverlap: how many values two segments share (half of them).
      nfft: length of the transform, filled with zeros (nperseg).
      detrend: 'constant', 'linear', a function of segments, or False.
      return_onesided: only frequencies >= 0, of real signals.
      scaling: 'density' (per frequency) or 'spectrum'.
      axis: along which.
      average: 'mean', or 'median' (without its bias).

    Returns:
      Frequencies, a float array, and the densities: complex, of float dtype where y is None, with
      frequencies along axis.

    Raises:
      TypeError: x or y is no array.
      ValueError: nperseg, noverlap, nfft, window, scaling, average, axis or shapes do not fit.

    Source: Welch, IEEE Trans. Audio Electroacoust. 15, 1967.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import signal
      >>> x = jnp.array([1.0, -1.0, 1.0, -1.0])
      >>> f, p = signal.csd(x, x, window="boxcar", nperseg=4)
      >>> p.real
      Array([0., 0., 4.], dtype=float32)
    """
    return _averaged("csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided,
                     scaling, axis, average)


def _averaged(name: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any,
              nfft: Any, trend: Any, onesided: bool, scaling: str, axis: int,
              average: str) -> tuple[Any, Any]:
    if average not in ("mean", "median"):
        raise ValueError(explain(f'average must be "median" or "mean", got {average}',
                                 fix="use one of these."))
    with util.lazy_eval(name):
        freqs, _, products = _spectra(name, x, y, fs, window, nperseg, noverlap, nfft, trend,
                                      onesided, scaling, axis, None, False, False)
        shape = shape_of(products)
        if 0 in shape:
            return freqs, products
        if average == "mean":
            return freqs, means.mean(products, axis=-1)
        # the median of n exponential values, by their mean (Allen et al. 2012, appendix B)
        even = 2 * np.arange(1, (shape[-1] - 1) // 2 + 1)
        bias = 1 + float(np.sum(1 / (even + 1) - 1 / even))
        if not util.is_complex(products):
            return freqs, median(products, axis=-1) / bias
        parts = [median(f(products), axis=-1) for f in (ew.real_p.bind, ew.imag_p.bind)]
        return freqs, ew.complex_(*parts) / bias


@util.planned
def welch(x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None,
          noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant",
          return_onesided: bool = True, scaling: str = "density", axis: int = -1,
          average: str = "mean") -> tuple[Any, Any]:
    """Power spectral density by Welch's method: the mean over segments of |X|^2.

    Args:
      x: array: a signal along axis.
      fs: sampling frequency.
      window: a name as in SciPy, a tuple of a name and parameters, or an array of values.
      nperseg: length of a segment (256; of an array for window its length).
      noverlap: how many values two segments share (half of them).
      nfft: length of the transform, filled with zeros (nperseg).
      detrend: 'constant', 'linear', a function of segments, or False.
      return_onesided: only frequencies >= 0, of real signals.
      scaling: 'density' (per frequency) or 'spectrum'.
      axis: along which.
      average: 'mean', or 'median' (without its bias).

    Returns:
      Frequencies and densities, float arrays, with frequencies along axis.

    Raises:
      TypeError: x is no array.
      ValueError: as csd.

    Source: Welch, IEEE Trans. Audio Electroacoust. 15, 1967.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import signal
      >>> signal.welch(jnp.array([1.0, -1.0, 1.0, -1.0]), window="boxcar", nperseg=4)[1]
      Array([0., 0., 4.], dtype=float32)
    """
    return _averaged("welch", x, None, fs, window, nperseg, noverlap, nfft, detrend,
                     return_onesided, scaling, axis, average)


@util.planned
def stft(x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int = 256,
         noverlap: int | None = None, nfft: int | None = None, detrend: Any = False,
         return_onesided: bool = True, boundary: str | None = "zeros", padded: bool = True,
         axis: int = -1) -> tuple[Any, Any, Any]:
    """Short-time Fourier transform: the spectrum of each segment.

    Args:
      x: array: a signal along axis.
      fs: sampling frequency.
      window: a name as in SciPy, a tuple of a name and parameters, or an array of values.
      nperseg: length of a segment.
      noverlap: how many values two segments share (half of them).
      nfft: length of the transform, filled with zeros (nperseg).
      detrend: False, 'constant', 'linear', or a function of segments.
      return_onesided: only frequencies >= 0, of real signals.
      boundary: what half a segment on either side is filled with: 'zeros', 'even', 'odd',
        'constant', or None for no extension.
      padded: zeros at the end up to a whole segment.
      axis: along which.

    Returns:
      Frequencies, times and the complex transform, frequencies along axis, times last.

    Raises:
      TypeError: x is no array.
      ValueError: nperseg, noverlap, nfft, window, boundary or axis do not fit.

    Source: Allen and Rabiner, Proc. IEEE 65, 1977.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import signal
      >>> f, t, z = signal.stft(jnp.ones(8), window="boxcar", nperseg=4, noverlap=0)
      >>> z.real.round(3)[0]
      Array([0.5, 1. , 0.5], dtype=float32)
    """
    with util.lazy_eval("stft"):
        return _spectra("stft", x, None, fs, window, nperseg, noverlap, nfft, detrend,
                        return_onesided, "spectrum", axis, boundary, padded, True)


def _added(pieces: Any, step: int) -> Any:
    """Segments (..., count, n) added up, each a step later: by shifts of whole steps."""
    *outer, count, n = shape_of(pieces)
    parts = -(-n // step)
    pieces = _ended(pieces, parts * step - n).reshape(*outer, count, parts, step)
    total = sum(pad(pieces[..., j, :], [(0, 0)] * len(outer) + [(j, parts - 1 - j), (0, 0)])
                for j in range(parts))
    return total.reshape(*outer, -1)[..., :n + (count - 1) * step]


@util.planned
def istft(Zxx: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None,
          noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True,
          boundary: bool = True, time_axis: int = -1, freq_axis: int = -2) -> tuple[Any, Any]:
    """The signal of a short-time Fourier transform, by weighted overlapping and adding.

    Args:
      Zxx: array: the transform.
      fs: sampling frequency.
      window: of stft: a name, a tuple of a name and parameters, or an array of values.
      nperseg: length of a segment (as many as there are frequencies for).
      noverlap: how many values two segments share (half of them; 0 is taken as that, as in JAX).
      nfft: length of the transform.
      input_onesided: whether Zxx has only frequencies >= 0.
      boundary: whether stft extended the signal at both ends.
      time_axis: along which the segments are.
      freq_axis: along which the frequencies are.

    Returns:
      Times (as many as the signal's first axis has, as in SciPy and JAX) and the signal: of float
      dtype where input_onesided, else complex.

    Raises:
      TypeError: Zxx is no array.
      ValueError: axes, nperseg, noverlap, nfft or window do not fit.

    Source: Griffin and Lim, IEEE Trans. ASSP 32, 1984.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import signal
      >>> f, t, z = signal.stft(jnp.arange(8.0), nperseg=4)
      >>> signal.istft(z)[1].round(3)
      Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    util.check_arrays("istft", Zxx)
    z = util.inexact_arrays("istft", Zxx)[0]
    shape = shape_of(z)
    if len(shape) < 2:
        raise ValueError(explain("Input stft must be at least 2d!", fix="pass stft's result."))
    times, freqs = (_axis("istft", a, len(shape)) for a in (time_axis, freq_axis))
    if times == freqs:
        raise ValueError(explain("Must specify differing time and frequency axes!",
                                 fix="name two axes."))
    default = 2 * (shape[freqs] - 1) if input_onesided else shape[freqs]
    nperseg = int(nperseg) if nperseg else default
    if nperseg < 1:
        raise ValueError(explain("nperseg must be a positive integer", fix="pass 1 or more."))
    if nfft is None:
        nfft = nperseg if input_onesided and nperseg == default + 1 else default
    elif nfft < nperseg:
        raise ValueError(explain(f"FFT length ({nfft}) must be longer than nperseg ({nperseg}).",
                                 fix="leave nfft out."))
    noverlap = int(noverlap) if noverlap else nperseg // 2
    if noverlap >= nperseg:
        raise ValueError(explain("noverlap must be less than nperseg.",
                                 fix=f"pass at most {nperseg - 1}."))
    step = nperseg - noverlap
    win: Any = taper(window, nperseg) if isinstance(window, (str, tuple, float, int)) else window
    win = asarray(win)
    if shape_of(win) != (nperseg,):
        raise ValueError(explain(f"window must have length of {nperseg}",
                                 fix="pass stft's window."))
    with util.lazy_eval("istft"):
        z = moveaxis(z, (times, freqs), (-2, -1))
        pieces = (fft.irfft if input_onesided else fft.ifft)(z, nfft)[..., :nperseg]
        kind = np.dtype(dtype_of(pieces).type(0).real.dtype)
        win = ew.convert(win, kind)
        x = _added(pieces * win * rd.sum(win), step)
        norm = _added(util.broadcast_to(win * win, (shape[times], nperseg)), step)
        if boundary:
            inner = slice(nperseg // 2, -(nperseg // 2) or None)
            x, norm = x[..., inner], norm[inner]
        x = x / where(norm > 1e-10, norm, 1)
        if times != len(shape) - 1 and len(shape) > 2:
            x = moveaxis(x, -1, times - (freqs < times))
        made = np.arange(shape_of(x)[0]).astype(kind)  # (the first axis, as SciPy and JAX)
        return util.cast(asarray(made) / fs, kind), x
