"""What a program of tests/fuzz_compose.py is, and the functions that it is composed of.

Names and arithmetic that NumPy and calque share are written once and given either (`api`), so the
oracle is NumPy in double precision, or in complex numbers: an analytic function's derivative is
Im f(x + ih) / h, exact to the last digits for a small h (Squire and Trapp, SIAM Review 40, 1998).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.harness import Case

STEP = 1e-30


@dataclass(frozen=True, slots=True)
class Trial:
    """One program: a Case that is compiled with others, or an act that runs and says what is wrong.

    Attributes:
      told: the program in words or as text, for the report.
      case: a function of arrays with its check.
      act: returns '' or what is wrong.
      question: the text that JAX is asked too, and which `answered` compares.
      answered: what differs from JAX's answer.
    """

    told: str
    case: Case | None = None
    act: Callable[[], str] | None = None
    question: str = ""
    answered: Callable[[Any], str] | None = None


# analytic near the real line, and bounded on what they are given
SMOOTH: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda api, x: api.sin(x),
    "cos": lambda api, x: api.cos(x),
    "tanh": lambda api, x: api.tanh(x),
    "cube": lambda api, x: api.tanh(x * x * x),
    "bell": lambda api, x: api.exp(-x * x),
    "half": lambda api, x: x * .5 - .25,
    "wave": lambda api, x: x * api.sin(x * 2) * .5,
}


def pick(rng: Any, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def smooth(rng: Any) -> tuple[str, Callable[[Any, Any], Any]]:
    name = pick(rng, list(SMOOTH))
    return name, SMOOTH[name]


def slopes(f: Callable[..., Any], xs: Sequence[Any]) -> list[Any]:
    """The gradient of an analytic function of NumPy arrays, by imaginary steps."""
    wide = [np.asarray(x, complex) for x in xs]
    found = []
    for k, x in enumerate(wide):
        slope = np.zeros(x.shape)
        for at in np.ndindex(*x.shape):
            moved = x.copy()
            moved[at] += 1j * STEP
            slope[at] = np.imag(f(*wide[:k], moved, *wide[k + 1:])) / STEP
        found.append(slope)
    return found


def near(gots: Sequence[Any], wants: Sequence[Any], scale: float = 1.) -> str:
    """'' where results are NumPy's within rounding, measured against the largest element."""
    if len(gots) != len(wants):
        return f"{len(gots)} results instead of {len(wants)}"
    for k, (got, want) in enumerate(zip(gots, wants)):
        got, want = np.asarray(got), np.asarray(want)
        if got.shape != want.shape:
            return f"result {k}: shape {got.shape} instead of {want.shape}"
        if got.dtype.kind in "biu":
            if not np.array_equal(got, want):
                return f"result {k}: {got} instead of {want}"
            continue
        close = scale * CLOSE[got.dtype.name]
        size = np.max(np.abs(want), initial=1.)
        if not np.all(np.abs(got.astype(want.dtype) - want) <= close * size):
            return f"result {k}: {got} instead of {want}"
    return ""


# sums of up to 130 terms and some 40 steps of bounded functions
CLOSE = {"float32": 3e-5, "float64": 1e-12, "bfloat16": .1, "float16": 2e-2}
