"""vq: the nearest code of a code book (vector quantization)."""
from __future__ import annotations

from typing import Any

from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.reductions import argmin
from calque.primitives import elementwise as ew

__all__ = ["vq"]


def __dir__() -> list[str]:
    return __all__


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The nearest code of each observation, by Euclidean distance.

    Args:
      obs: array of shape (m, d), or (m,) of observations of one number.
      code_book: array of shape (k, d), or (k,).
      check_finite: accepted; values are not looked at.

    Returns:
      The codes' indices, an integer array of shape (m,), and the distances, a float array of it.

    Raises:
      TypeError: an argument is no array, or observations and codes differ in length.
      ValueError: ranks differ, or are not 1 or 2, or there is no code.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.cluster.vq import vq
      >>> vq(jnp.array([0.1, 4.0]), jnp.array([0.0, 3.0]))[0]
      Array([0, 1], dtype=int32)
    """
    del check_finite
    obs, book = util.inexact_arrays("scipy.cluster.vq.vq", obs, code_book)
    shape, codes = shape_of(obs), shape_of(book)
    if len(shape) != len(codes):
        raise ValueError(explain("Observation and code_book should have the same rank",
                                 f"obs has shape {shape}, code_book {codes}.",
                                 fix="give both two axes."))
    if len(shape) not in (1, 2):
        raise ValueError(explain("ndim different than 1 or 2 are not supported",
                                 fix="pass arrays of shape (m, d) and (k, d)."))
    if len(shape) == 1:
        obs, book = obs[:, None], book[:, None]
    elif shape[1] != codes[1]:
        raise TypeError(explain(f"vq: sub got incompatible shapes for broadcasting: (1, {shape[1]})"
                                f", {codes}.", fix="observations and codes need one length."))
    if codes[0] == 0:
        raise ValueError(explain("attempt to get argmin of an empty sequence",
                                 fix="pass a code book with codes."))
    with util.lazy_eval("vq"):
        away = obs[:, None] - book[None]
        if util.is_complex(away):
            square = ew.real(away) ** 2 + ew.imag(away) ** 2
        else:
            square = away * away
        distance = ew.sqrt(rd.sum(square, axis=-1))
        return argmin(distance, axis=-1), rd.min(distance, axis=-1)
