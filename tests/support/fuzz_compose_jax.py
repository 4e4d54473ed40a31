"""Text evaluated with JAX's names, by calque in this process and by JAX in another.

Run as a program it is the worker in the other environment (CALQUE_FUZZ_JAX), which answers pickled
requests and imports nothing of calque's, as fuzz_api_jax.py.  Start reading at `evaluated`.
"""
from __future__ import annotations

import enum
import importlib
import os
import pickle
import struct
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np


class IntOf(int):
    """A subclass of int."""


class FloatOf(float):
    """A subclass of float."""


class ComplexOf(complex):
    """A subclass of complex."""


class Colour(enum.IntEnum):
    """A subclass of int that is an enumeration."""

    RED = 3


def scope(api: Any) -> dict[str, Any]:
    """The names that a text may use; api: calque or jax."""
    jnp = importlib.import_module(f"{api.__name__}.numpy")
    return {"jax": api, "jnp": jnp, "lax": api.lax, "np": np, "IntOf": IntOf, "FloatOf": FloatOf,
            "ComplexOf": ComplexOf, "Colour": Colour, "Fraction": Fraction, "Decimal": Decimal}


def evaluated(api: Any, text: str, names: dict[str, Any]) -> tuple[Any, ...]:
    """("values", structure, [(array or text, dtype, weak), ...]) or ("error", classes, text)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            leaves, structure = api.tree.flatten(eval(text, names))
            return "values", _told(structure), [_leaf(x) for x in leaves]
    except Exception as e:  # an answer like any other
        return "error", [c.__name__ for c in type(e).__mro__], str(e)[:900]


def _told(structure: Any) -> str:
    return str(structure).replace("PyTreeDef", "").strip("()")


def _leaf(x: Any) -> tuple[Any, str, bool]:
    weak = bool(getattr(x, "weak_type", False))
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return repr(x), type(x).__name__, weak
    dtype = x.dtype
    if dtype.kind == "V" and dtype.names is not None:
        return str(x.shape), "float0", weak
    if dtype.kind in "OUSMm":
        return repr(x), dtype.name, weak
    return np.asarray(x), dtype.name, weak


def main() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
    inward, outward = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    api = importlib.import_module("jax")
    names = scope(api)
    while True:
        head = inward.read(8)
        if len(head) < 8:
            return
        for text, x64 in pickle.loads(inward.read(struct.unpack("<Q", head)[0])):
            api.config.update("jax_enable_x64", x64)
            blob = pickle.dumps([evaluated(api, text, names)], protocol=4)
            outward.write(struct.pack("<Q", len(blob)) + blob)
            outward.flush()


if __name__ == "__main__":
    main()
