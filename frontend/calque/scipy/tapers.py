"""Windows for spectra, under SciPy's names: values of one period, computed with NumPy.

Start reading at `taper`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core.errors import explain

Values = np.ndarray[Any, Any]

# sums of cosines: a_0 - a_1 cos(t) + a_2 cos(2 t) - ... (Harris 1978; Nuttall 1981)
_COSINES = {
    "boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368)}
_SHORT = {"box": "boxcar", "ones": "boxcar", "rect": "boxcar", "rectangular": "boxcar",
          "han": "hann", "hamm": "hamming", "ham": "hamming",
          "black": "blackman", "blk": "blackman", "nutt": "nuttall", "nut": "nuttall",
          "blackharr": "blackmanharris", "bkh": "blackmanharris", "flat": "flattop",
          "flt": "flattop", "tri": "triang", "triangle": "triang", "bart": "bartlett",
          "brt": "bartlett", "bohm": "bohman", "bmn": "bohman", "parz": "parzen", "par": "parzen",
          "bth": "barthann", "brthan": "barthann", "halfcosine": "cosine", "sinc": "lanczos",
          "poisson": "exponential", "tuk": "tukey", "ksr": "kaiser", "gauss": "gaussian",
          "gss": "gaussian", "general gaussian":
          "general_gaussian", "general_gauss": "general_gaussian", "ggs": "general_gaussian"}


def _cosines(n: int, a: Any) -> Values:
    t = np.linspace(-math.pi, math.pi, n)
    made: Values = np.asarray(sum(c * np.cos(k * t) for k, c in enumerate(a)))
    return made * np.ones(n)


def _triang(n: int) -> Values:
    k = np.arange(1, (n + 1) // 2 + 1)
    half = (2 * k - 1) / n if n % 2 == 0 else 2 * k / (n + 1)
    return np.concatenate([half, half[::-1][n % 2:]])


def _apart(n: int) -> Values:
    """Distance from the middle, 1 at both ends."""
    return np.abs(np.linspace(-1, 1, n))


def _bohman(n: int) -> Values:
    d = _apart(n)
    made = (1 - d) * np.cos(math.pi * d) + np.sin(math.pi * d) / math.pi
    made[[0, -1]] = 0
    return made


def _parzen(n: int) -> Values:
    d = 2 * np.abs(np.arange(n) - (n - 1) / 2) / n
    return np.where(d <= 0.5, 1 - 6 * d * d * (1 - d), 2 * (1 - d) ** 3)


def _barthann(n: int) -> Values:
    d = _apart(n) / 2
    return 0.62 - 0.48 * d + 0.38 * np.cos(2 * math.pi * d)


def _tukey(n: int, alpha: float = 0.5) -> Values:
    if alpha <= 0:
        return np.ones(n)
    edge = np.maximum(_apart(n) - (1 - min(alpha, 1)), 0) / min(alpha, 1)
    return 0.5 * (1 + np.cos(math.pi * edge))


def _exponential(n: int, center: float | None = None, tau: float = 1.0) -> Values:
    middle = (n - 1) / 2 if center is None else center
    return np.exp(-np.abs(np.arange(n) - middle) / tau)


def _gaussian(n: int, std: float) -> Values:
    return _general_gaussian(n, 1, std)


def _general_gaussian(n: int, p: float, sig: float) -> Values:
    made: Values = np.exp(-0.5 * np.abs((np.arange(n) - (n - 1) / 2) / sig) ** (2 * p))
    return made


_OTHER: dict[str, Callable[..., Values]] = {
    "triang": _triang, "bartlett": lambda n: 1 - _apart(n), "bohman": _bohman, "parzen": _parzen,
    "barthann": _barthann, "cosine": lambda n: np.sin(math.pi * (np.arange(n) + 0.5) / n),
    "lanczos": lambda n: np.sinc(np.linspace(-1, 1, n)), "tukey": _tukey,
    "exponential": _exponential, "kaiser": np.kaiser, "gaussian": _gaussian,
    "general_gaussian": _general_gaussian, "general_cosine": _cosines,
    "general_hamming": lambda n, alpha: _cosines(n, (alpha, 1 - alpha))}
_NEEDY = ("kaiser", "gaussian", "general_gaussian", "general_cosine", "general_hamming")


def taper(window: Any, n: int) -> Values:
    """n values, the first of a period: of a name, a name with parameters, or a Kaiser window's
    beta."""
    given = window
    if isinstance(window, (int, float)):
        window = ("kaiser", float(window))
    name, *parameters = (window,) if isinstance(window, str) else window
    name = _SHORT.get(name, name) if isinstance(name, str) else name
    if name in _COSINES and not parameters:
        f: Callable[..., Values] = _cosines
        parameters = [_COSINES[name]]
    elif name in _OTHER:
        f = _OTHER[name]
        if name in _NEEDY and not parameters:
            raise ValueError(explain(f"The '{name}' window needs one or more parameters -- pass "
                                     "a tuple.", fix=f"use window=({name!r}, value)."))
    else:
        raise ValueError(explain(
            f"Invalid window name {name!r} in parameter window={given!r}!",
            fix=f"use one of {', '.join(sorted([*_COSINES, *_OTHER]))}, or an array of values."))
    if n <= 1:
        return np.ones(n)
    return f(n + 1, *parameters)[:-1]
