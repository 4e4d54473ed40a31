"""Matrices of a few bits: quantize makes them, `@` multiplies by them as they lie.

A matrix is cut, along the axis that products sum over, into blocks of 32 numbers that share a
float16 scale, in the layouts of GGUF files: 8.5 bits a number (q8_0), 4.5 (q4_0), 5 (q4_1: with an
offset), and, from files only, 4.5 in blocks of 256 (q4_k).  A product of up to 16 rows unpacks
blocks in registers while it reads them, once; a larger one unpacks the matrix before.
Source of the layouts: https://github.com/ggml-org/ggml, ggml-quants.c.
Start reading at `quantize`.
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.blocks import GROUP, check_activations
from calque.core.errors import explain
from calque.core.types import Ndarray, Shape
from calque.dispatch.array import Array
from calque.lax.elementwise import convert_element_type
from calque.numpy.creation import asarray
from calque.numpy.picking import take
from calque.numpy.shapes import moveaxis, transpose
from calque.primitives import quantized as prims
from calque.trees.nodes import GetAttrKey, register_pytree_with_keys_class
from calque.trees.util import keystr, tree_map_with_path

__all__ = ["QuantizedArray", "quantize"]

LARGEST = 65504.0  # of float16


@register_pytree_with_keys_class
class QuantizedArray:
    """A matrix whose numbers are a few bits each: a pytree of its bytes, which is constant in
    derivatives.

    `x @ q`, `q @ x` and `q.rows(indices)` are float32; other functions take `q.dequantize()`.

    Args:
      blocks: uint8[..., n, bytes of a row], rows of blocks (leading axes: of a stack, for scan and
        vmap).
      kind: 'q8_0', 'q4_0', 'q4_1' or 'q4_k'.
      transposed: whether its shape is (k, n) rather than (n, k).
      activations: what products read of the other operand: 'float32', or 'int8': up to 16 rows are
        rounded to integers of 8 bits times a scale in each block of 32, by half a step of 1/127 of
        its largest number, and integers are multiplied; more rows stay float32.

    Raises:
      ValueError: kind or activations is another.
      TypeError: blocks are not uint8, or rows are no whole blocks.

    Example:
      >>> import numpy as np
      >>> import calque
      >>> w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(32, 2)
      >>> q = calque.quantize(w, "q8_0")
      >>> q
      QuantizedArray(shape=(32, 2), kind='q8_0')
      >>> q.nbytes, bool(abs(q.dequantize() - w).max() < 0.004)
      (68, True)
    """

    def __init__(self, blocks: Any, kind: str, transposed: bool = False,
                 activations: str = "float32") -> None:
        shape = getattr(blocks, "shape", None)
        if shape is not None and hasattr(blocks, "dtype"):  # (not where a tree is put together)
            blocks = _checked(blocks, kind)
        check_activations("QuantizedArray", activations)
        self.blocks, self.kind, self.transposed = blocks, kind, transposed
        self.activations = activations

    def tree_flatten_with_keys(self) -> Any:
        """Its child, with the child's key, and what is static; tree_unflatten takes them.

        Returns:
          [(key, blocks)], (kind, transposed, activations).
        """
        return [(GetAttrKey("blocks"), self.blocks)], (self.kind, self.transposed, self.activations)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> QuantizedArray:
        """The array of such parts, whatever the child is.

        Args:
          aux: (kind, transposed, activations).
          children: (blocks,).

        Returns:
          A QuantizedArray.
        """
        made = object.__new__(cls)
        (made.blocks,), (made.kind, made.transposed, made.activations) = children, aux
        return made

    @property
    def shape(self) -> Shape:
        """Of the numbers: (..., n, k), turned round where it is transposed."""
        *lead, n, size = shape_of(self.blocks)
        k = prims.numbers_in(size, self.kind)
        return (*lead, k, n) if self.transposed else (*lead, n, k)

    @property
    def ndim(self) -> int:
        """Axes."""
        return ndim_of(self.blocks)

    @property
    def dtype(self) -> Any:
        """Of products: float32."""
        return dtypes.float32

    @property
    def size(self) -> int:
        """How many numbers it stands for."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of its blocks."""
        return int(np.prod(shape_of(self.blocks), dtype=np.int64))

    @property
    def T(self) -> QuantizedArray:
        """The transposed matrix, of the same blocks."""
        return QuantizedArray(self.blocks, self.kind, not self.transposed, self.activations)

    def __repr__(self) -> str:
        more = "" if self.activations == "float32" else f", activations={self.activations!r}"
        return f"QuantizedArray(shape={self.shape}, kind={self.kind!r}{more})"

    def dequantize(self) -> Any:
        """The numbers that it stands for.

        Returns:
          float32 of its shape.
        """
        x = prims.dequantize(self.blocks, self.kind)
        return _turned(x) if self.transposed else x

    __array_ufunc__ = None  # (NumPy leaves `array @ q` to it)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Ndarray:
        return np.asarray(self.dequantize(), dtype)

    def rows(self, indices: Any) -> Any:
        """Some of its rows, as floats: of an embedding.  Only they are read.

        Args:
          indices: integers of any shape, clipped to those that there are.

        Returns:
          float32[*indices.shape, k].

        Raises:
          ValueError: blocks lie along its columns, or it is a stack.

        Example:
          >>> import numpy as np
          >>> import calque
          >>> q = calque.quantize(np.eye(32, dtype=np.float32), "q8_0", axis=1)
          >>> q.rows(np.array([3, 1])).argmax(axis=1)
          Array([3, 1], dtype=int32)
        """
        if self.transposed or self.ndim != 2:
            raise ValueError(explain(f"rows of {self!r}, whose blocks do not lie along rows.",
                                     fix="quantize it along its last axis: quantize(w, axis=1)."))
        return prims.dequantize(take(self.blocks, indices, axis=0, mode="clip"), self.kind)

    def __rmatmul__(self, x: Any) -> Any:
        if not self.transposed or self.ndim != 2:
            return _float32(x) @ self.dequantize()
        return prims.quantized_dot(_checked_product(x, self), self.blocks, self.kind,
                                   self.activations)

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, QuantizedArray):
            x = x.dequantize()
        if self.transposed or self.ndim != 2 or ndim_of(x) > 2:
            return self.dequantize() @ _float32(x)
        out = prims.quantized_dot(_checked_product(transpose(x), self.T), self.blocks, self.kind,
                                  self.activations)
        return transpose(out)


def _checked(blocks: Any, kind: str) -> Any:
    """Blocks of a kind, or the error."""
    prims.check("QuantizedArray", shape_of(blocks), np.dtype(dtype_of(blocks)), kind, 2)
    return blocks


def _checked_product(x: Any, q: QuantizedArray) -> Any:
    if not ndim_of(x) or shape_of(x)[-1] != q.shape[0]:
        raise TypeError(explain(
            f"matmul got incompatible shapes for contracting dimension: {shape_of(x)} and "
            f"{q.shape}."))
    return _float32(x)


def _float32(x: Any) -> Any:
    x = asarray(x)
    if not dtypes.is_float(x.dtype) and x.dtype.kind not in "iub":
        raise TypeError(explain(f"a product of {x.dtype.name} with a QuantizedArray.",
                                fix="give real numbers."))
    return convert_element_type(x, dtypes.float32)


def _turned(x: Any) -> Any:
    return moveaxis(x, -1, -2)


# ---- making them
def quantize(tree: Any, rules: str | Mapping[str, str | None] = "q8_0", *, axis: int = 0,
             activations: str = "float32") -> Any:
    """Matrices of a tree in a few bits.

    Args:
      tree: arrays, of float32, float16, bfloat16 or float64, in containers of any kind.
      rules: one kind ('q8_0', 'q4_0', 'q4_1') for every matrix whose `axis` is a multiple of 32; or
        {pattern: kind, or None to leave it as it is}: the first pattern (a regular expression) that
        is found in an array's path, such as "['layers'][3]['w']", decides, and what none is found
        in stays as it is.
      axis: the one that products sum over: 0 where they are `x @ w`, 1 where rows are outputs
        (`x @ w.T`; embeddings).
      activations: of the QuantizedArrays: 'float32', or 'int8', which is faster for up to 16 rows
        and rounds them (by 0.4 % of the largest of 32 numbers at most).

    Returns:
      The tree with QuantizedArrays.

    Raises:
      ValueError: a kind or activations is not known, or an array that a pattern names cannot be cut
        into blocks, is no matrix or is not finite.

    Example:
      >>> import numpy as np
      >>> import calque
      >>> params = {"layer": {"w": np.ones((64, 8), np.float32), "b": np.zeros(8, np.float32)}}
      >>> small = calque.quantize(params, {"'w'": "q4_0"})
      >>> small["layer"]["w"].nbytes, small["layer"]["b"].dtype.name
      (288, 'float32')
      >>> calque.jit(lambda p, x: x @ p["layer"]["w"])(small, np.ones(64, np.float32))[0]
      Array(64., dtype=float32)
    """
    if axis not in (0, 1, -1, -2):
        raise ValueError(explain(f"quantize: axis is {axis!r}.", fix="give 0 or 1."))
    check_activations("quantize", activations)
    chosen = {"": rules} if isinstance(rules, str) else rules
    for kind in chosen.values():
        if kind is not None and kind not in MADE:
            raise ValueError(explain(f"quantize: kind is {kind!r}.",
                                     fix=f"give one of {', '.join(MADE)}, or None."))

    def one(path: Any, x: Any) -> Any:
        name = keystr(path)
        kind = next((k for pattern, k in chosen.items() if re.search(pattern, name)), None)
        if kind is None or isinstance(x, QuantizedArray):
            return x
        why = _why_not(x, axis)
        if not why:
            return _quantized(np.asarray(x, np.float32), kind, axis, name, activations)
        if isinstance(rules, str):
            return x
        raise ValueError(explain(f"quantize: {name or 'the array'} {why}.",
                                 fix="leave it as it is by a pattern before: {...: None}."))

    return tree_map_with_path(one, tree, is_leaf=lambda x: isinstance(x, QuantizedArray))


def _why_not(x: Any, axis: int) -> str:
    """Why an array cannot be cut into blocks; "" where it can."""
    if not isinstance(x, Array | np.ndarray):
        return f"is a {type(x).__name__}, no array of numbers"
    if x.ndim != 2 or not dtypes.is_float(x.dtype):
        return f"is {x.dtype.name}{list(x.shape)}, no matrix of floats"
    return "" if x.shape[axis] % GROUP == 0 else (
        f"is {list(x.shape)}, whose axis {axis} is no multiple of {GROUP}")


def _quantized(x: Ndarray, kind: str, axis: int, name: str, activations: str) -> QuantizedArray:
    if not np.isfinite(x).all():
        raise ValueError(explain(f"quantize: {name or 'the array'} has numbers that are not "
                                 "finite.", fix="correct them, or leave it as it is."))
    rows = np.ascontiguousarray(x.T if axis in (0, -2) else x)
    made = MADE[kind](rows.reshape(-1, GROUP))
    blocks = np.ascontiguousarray(made).reshape(rows.shape[0], -1)
    return QuantizedArray(asarray(blocks), kind, axis in (0, -2), activations)


def _inverse(d: Ndarray) -> Ndarray:
    return np.divide(1, d, out=np.zeros_like(d), where=d != 0)


def _scales(*scales: Ndarray) -> list[Ndarray]:
    if any(np.abs(s).max(initial=0) > LARGEST for s in scales):
        raise ValueError(explain("quantize: a scale is beyond float16's numbers.",
                                 fix="divide the matrix by its largest number, and multiply what "
                                     "it gives by that."))
    return [s.astype(np.float16).view(np.uint8) for s in scales]


def _halves(q: Ndarray) -> Ndarray:
    """Numbers of 4 bits: the first half of them in the lower bits."""
    return q[:, :16] | q[:, 16:] << np.uint8(4)


def _q8_0(x: Ndarray) -> Ndarray:
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    q = x * _inverse(d)
    q = np.sign(q) * np.floor(np.abs(q) + np.float32(0.5))  # (halves away from 0)
    return np.concatenate([*_scales(d), q.astype(np.int8).view(np.uint8)], axis=1)


def _q4_0(x: Ndarray) -> Ndarray:
    d = np.take_along_axis(x, np.abs(x).argmax(axis=1)[:, None], axis=1) / np.float32(-8)
    q = np.minimum((x * _inverse(d) + np.float32(8.5)).astype(np.uint8), 15)
    return np.concatenate([*_scales(d), _halves(q)], axis=1)


def _q4_1(x: Ndarray) -> Ndarray:
    least = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - least) / np.float32(15)
    q = np.minimum(((x - least) * _inverse(d) + np.float32(0.5)).astype(np.uint8), 15)
    return np.concatenate([*_scales(d, least), _halves(q)], axis=1)


MADE = {"q8_0": _q8_0, "q4_0": _q4_0, "q4_1": _q4_1}  # of numbers, by GROUP in each row
