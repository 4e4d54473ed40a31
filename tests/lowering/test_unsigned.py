"""Products of floats that were narrow unsigned integers: what IREE reads as signed, and the cure.

Such products came out wrong where no kernel of ours takes them: colours of an image times a matrix,
`x.astype("float32") @ m` of 480 x 640 pixels of uint8.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp

PRODUCTS = {
    "as it lies": lambda f, m: f @ m,
    "a reshape between": lambda f, m: f.reshape(-1, 2, 8) @ m,
    "an image": lambda f, m: f.reshape(250, -1, 8) @ m,
}


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("source, wide, kind", [
    ("uint8", "float32", "an image"), ("uint16", "float64", "a reshape between"),
    ("uint32", "float64", "a reshape between"), ("uint8", "bfloat16", "an image"),
    ("uint8", "float32", "as it lies")])
def test_products_of_converted_integers(level: str, source: str, wide: str, kind: str) -> None:
    """One product a program: IREE takes the narrow type where nothing else reads the wide one.
    Each row of the matrix has one number, a power of two, so that results are exact."""
    x = np.random.default_rng(3).integers(0, np.iinfo(source).max, (100000, 8), source,
                                          endpoint=True)
    m = np.diag(2.0 ** np.arange(8))
    product = PRODUCTS[kind]

    def run(x: Any) -> Any:
        return product(x.astype(wide), jnp.asarray(m).astype(wide))

    with calque.enable_x64(True), at_level(level):
        found = np.asarray(calque.jit(run)(x))
    np.testing.assert_array_equal(found.astype("float64"), product(x.astype("float64"), m))
