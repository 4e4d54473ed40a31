"""lax convolutions: one primitive, conv_general_dilated, and the functions that call it.

Start reading at `conv_dimension_numbers` (layouts) and `conv_general_dilated`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, shape_of
from calque.core.errors import explain
from calque.core.types import Axes, Shape
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_operand, as_sizes, user_dtype
from calque.lax.window import int_pairs, padtype_to_pads
from calque.primitives import contract as ct
from calque.primitives import conv as cv
from calque.primitives import shape as sh
from calque.primitives.conv import ConvDimensionNumbers
from calque.primitives.window import dilated

ConvGeneralDilatedDimensionNumbers = (
    None | tuple[str, str, str] | ConvDimensionNumbers)


# ---- layouts
def conv_general_permutations(dimension_numbers: Any) -> tuple[Axes, ...]:
    """The axes of lhs, rhs and result in the order batch, feature, spatial (rhs: output, input).

    Args:
      dimension_numbers: three strings such as ('NHWC', 'HWIO', 'NHWC'); spatial letters are those
        of the second, in its order.

    Returns:
      Three permutations.

    Raises:
      TypeError: a letter is missing or repeated, or spatial letters differ.

    Example:
      >>> from calque import lax
      >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
      ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    pairs = (("N", "C"), ("O", "I"), ("N", "C"))
    for i, ((a, b), spec) in enumerate(zip(pairs, (lhs, rhs, out))):
        if spec.count(a) != 1 or spec.count(b) != 1:
            raise TypeError(explain(
                f"convolution dimension_numbers[{i}] must contain the characters '{a}' and '{b}' "
                f"exactly once, got {spec}."))
        if len(spec) != len(set(spec)):
            raise TypeError(explain(
                f"convolution dimension_numbers[{i}] cannot have duplicate characters, got "
                f"{spec}."))
    if not (set(lhs) - {"N", "C"} == set(rhs) - {"O", "I"} == set(out) - {"N", "C"}):
        raise TypeError(explain(
            "convolution dimension_numbers elements must each have the same set of spatial "
            f"characters, got {tuple(dimension_numbers)}."))
    space = [letter for letter in rhs if letter not in "OI"]

    def order(spec: str, a: str, b: str) -> Axes:
        return tuple(spec.index(letter) for letter in (a, b, *space))

    return order(lhs, "N", "C"), order(rhs, "O", "I"), order(out, "N", "C")


def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any,
                           dimension_numbers: Any) -> ConvDimensionNumbers:
    """The layout of a convolution as axis numbers.

    Args:
      lhs_shape: sizes of the operand.
      rhs_shape: sizes of the kernel.
      dimension_numbers: None (batch, feature, spatial; output, input, spatial), three strings such
        as ('NHWC', 'HWIO', 'NHWC'), or a ConvDimensionNumbers.

    Returns:
      A ConvDimensionNumbers.

    Raises:
      TypeError: ranks differ, or the strings do not describe a layout.

    Example:
      >>> from calque import lax
      >>> lax.conv_dimension_numbers((1, 9, 2), (3, 2, 4), ("NHC", "HIO", "NHC"))
      ConvDimensionNumbers(lhs_spec=(0, 2, 1), rhs_spec=(2, 1, 0), out_spec=(0, 2, 1))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    lhs_shape, rhs_shape = tuple(lhs_shape), tuple(rhs_shape)
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(explain(
            "convolution requires lhs and rhs ndim to be equal, got "
            f"{len(lhs_shape)} and {len(rhs_shape)}.", fix="add axes of size 1."))
    if len(lhs_shape) < 2:
        raise TypeError(explain(
            "convolution operands need a batch and a feature axis, got shapes "
            f"{lhs_shape} and {rhs_shape}."))
    if dimension_numbers is None:
        axes = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(axes, axes, axes)
    if not isinstance(dimension_numbers, (list, tuple)):
        raise TypeError(explain("convolution dimension_numbers must be tuple/list or None, got "
                                f"{type(dimension_numbers)}."))
    if len(dimension_numbers) != 3:
        raise TypeError(explain("convolution dimension_numbers list/tuple must be length 3, got "
                                f"{len(dimension_numbers)}."))
    if not all(isinstance(s, str) for s in dimension_numbers):
        raise TypeError(explain("convolution dimension_numbers elements must be strings, got "
                                f"{tuple(map(type, dimension_numbers))}."))
    for i, s in enumerate(dimension_numbers):
        if len(s) != len(lhs_shape):
            raise TypeError(explain(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and "
                f"rhs, got {len(s)} for lhs and rhs shapes {lhs_shape} and {rhs_shape}."))
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


# ---- the general function
def conv_general_dilated(lhs: Any, rhs: Any, window_strides: Any, padding: Any,
                         lhs_dilation: Any = None, rhs_dilation: Any = None,
                         dimension_numbers: Any = None, feature_group_count: int = 1,
                         batch_group_count: int = 1, precision: Any = None,
                         preferred_element_type: Any = None, out_sharding: Any = None) -> Any:
    """Convolution (without mirroring the kernel) over any number of spatial axes.

    Args:
      lhs: array with a batch and a feature axis and spatial axes.
      rhs: kernel of the same dtype, with an output and an input feature axis and spatial axes.
      window_strides: steps of the kernel, one for each spatial axis.
      padding: 'VALID', 'SAME', 'SAME_LOWER', or (low, high) for each spatial axis; negative amounts
        cut off.
      lhs_dilation: distance that the operand's elements are moved apart; 1 by default.
      rhs_dilation: distance that the kernel's elements are moved apart; 1 by default.
      dimension_numbers: the layout: None, three strings such as ('NHWC', 'HWIO', 'NHWC'), or a
        ConvDimensionNumbers.
      feature_group_count: in how many groups input and output features are divided.
      batch_group_count: in how many groups the batch and output features are divided.
      precision: accepted; products are computed in the operands' dtype.
      preferred_element_type: the dtype of the result; that of the operands by default.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array with a batch, a feature and spatial axes.

    Raises:
      TypeError: ranks or dtypes differ, or the layout is no layout.
      ValueError: feature, batch and group sizes do not fit, or padding cuts off too much.
      RuntimeError: padding has an unknown name.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
      >>> lax.conv_general_dilated(x, np.ones((1, 1, 2), np.float32), (1,), "VALID")
      Array([[[1., 3., 5.]]], dtype=float32)
    """
    if out_sharding is not None:
        return resharded("conv_general_dilated", out_sharding, conv_general_dilated, lhs, rhs,
                         window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
                         feature_group_count, batch_group_count, precision, preferred_element_type)
    x = as_operand("conv_general_dilated", lhs)
    y = as_operand("conv_general_dilated", rhs, 1)
    a, k = aval_of(x), aval_of(y)
    dn = conv_dimension_numbers(a.shape, k.shape, dimension_numbers)
    rank = a.ndim - 2
    ones = (1,) * rank
    strides = as_sizes("conv_general_dilated", window_strides)
    ld = ones if lhs_dilation is None else as_sizes("conv_general_dilated", lhs_dilation)
    rd = ones if rhs_dilation is None else as_sizes("conv_general_dilated", rhs_dilation)
    if len(strides) != rank:
        raise ValueError(explain(
            "conv_general_dilated window and window_strides must have the same number of "
            f"dimensions, but got {rank} and {len(strides)}", fix=f"give {rank} strides."))
    preferred = _preferred(a.dtype, preferred_element_type)
    pads = _pads(a.shape, k.shape, dn, strides, padding, ld, rd)
    return cv.conv(x, y, window_strides=strides, padding=pads, lhs_dilation=ld, rhs_dilation=rd,
                   dimension_numbers=dn, feature_group_count=int(feature_group_count),
                   batch_group_count=int(batch_group_count), precision=_precision(precision),
                   preferred=preferred)


def _precision(precision: Any) -> Any:
    from calque.lax.contract import canonical_precision
    return canonical_precision(precision)


def _preferred(dtype: Any, preferred: Any) -> Any:
    if preferred is None:
        return None
    wanted = user_dtype("conv_general_dilated", preferred)
    fits = (dtypes.is_complex(dtype) == dtypes.is_complex(wanted)
            and not (dtypes.is_float(dtype) and not dtypes.is_inexact(wanted)))
    if not fits and not (dtype == wanted):
        raise TypeError(explain(
            "Input type is incompatible with `preferred_element_type`. The compatible combinations "
            "of (input_type, preferred_element_type) are (integral, integral), (integral, "
            f"floating), (floating, floating), (complex, complex), got ({dtype.name}, "
            f"{wanted.name})."))
    if wanted.itemsize < dtype.itemsize:
        raise TypeError(explain(
            "`preferred_element_type` must not be narrower than the original type.",
            fix="convert the result with .astype."))
    return wanted


def _no_padding(given: Any) -> ValueError:
    return ValueError(explain(
        "padding argument to conv_general_dilated should be a string or a sequence of (low, high) "
        f"pairs, got {given}", fix="give 'SAME', 'VALID', or one (low, high) for each axis."))


def _pads(lhs: Sequence[int], rhs: Sequence[int], dn: ConvDimensionNumbers,
          strides: Sequence[int], padding: Any, ld: Sequence[int],
          rd: Sequence[int]) -> list[tuple[int, int]]:
    rank = len(lhs) - 2
    if isinstance(padding, str) or isinstance(getattr(padding, "name", None), str):
        if any(d != 1 for d in ld):
            raise ValueError(explain(
                "String padding is not implemented for transposed convolution using this op. "
                "Please either exactly specify the required padding or use conv_transpose.",
                fix="give (low, high) pairs."))
        spans = [dilated(rhs[i], d) for i, d in zip(dn.rhs_spec[2:], rd)]
        return padtype_to_pads([lhs[i] for i in dn.lhs_spec[2:]], spans, strides, padding)
    if not isinstance(padding, Sequence) or not all(
            isinstance(p, Sequence) and len(p) == 2 for p in padding):
        raise _no_padding(padding)
    pads = int_pairs(padding)
    if len(pads) != rank:
        raise TypeError(explain(f"Wrong number of explicit pads for convolution: expected {rank}, "
                                f"got {len(pads)}.", fix="give one (low, high) for each axis."))
    return pads


def conv(lhs: Any, rhs: Any, window_strides: Any, padding: Any, precision: Any = None,
         preferred_element_type: Any = None) -> Any:
    """conv_general_dilated in the layout batch, feature, spatial, without dilation.

    Args:
      lhs: array (batch, feature, spatial...).
      rhs: kernel (output feature, input feature, spatial...).
      window_strides: steps of the kernel.
      padding: 'VALID', 'SAME' or 'SAME_LOWER'.
      precision: accepted.
      preferred_element_type: the dtype of the result.

    Returns:
      An array (batch, feature, spatial...).

    Raises:
      TypeError: ranks or dtypes differ.
      ValueError: sizes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> one = np.ones((1, 1, 3), np.float32)
      >>> lax.conv(one, one, (1,), "SAME")
      Array([[[2., 3., 2.]]], dtype=float32)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision,
                                preferred_element_type=preferred_element_type)


def conv_with_general_padding(lhs: Any, rhs: Any, window_strides: Any, padding: Any,
                              lhs_dilation: Any, rhs_dilation: Any, precision: Any = None,
                              preferred_element_type: Any = None) -> Any:
    """conv_general_dilated in the layout batch, feature, spatial.

    Args:
      lhs: array (batch, feature, spatial...).
      rhs: kernel (output feature, input feature, spatial...).
      window_strides: steps of the kernel.
      padding: a name or (low, high) pairs.
      lhs_dilation: distance of the operand's elements, or None.
      rhs_dilation: distance of the kernel's elements, or None.
      precision: accepted.
      preferred_element_type: the dtype of the result.

    Returns:
      An array (batch, feature, spatial...).

    Raises:
      TypeError: ranks or dtypes differ.
      ValueError: sizes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> one = np.ones((1, 1, 3), np.float32)
      >>> lax.conv_with_general_padding(one, one, (1,), [(0, 0)], None, None)
      Array([[[3.]]], dtype=float32)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation,
                                precision=precision,
                                preferred_element_type=preferred_element_type)


# ---- transposed convolution
def _transposed_pads(k: int, s: int, padding: Any) -> tuple[int, int]:
    """Padding with which a convolution of an operand dilated by s is the transpose of one."""
    if padding == "SAME":
        total = k + s - 2
        low = k - 1 if s > k - 1 else -(-total // 2)
    elif padding == "VALID":
        total = k + s - 2 + max(k - s, 0)
        low = k - 1
    else:
        raise ValueError(explain("Padding mode must be `SAME` or `VALID`.",
                                 fix="use one of these, or (low, high) pairs."))
    return low, total - low


def conv_transpose(lhs: Any, rhs: Any, strides: Any, padding: Any, rhs_dilation: Any = None,
                   dimension_numbers: Any = None, transpose_kernel: bool = False,
                   precision: Any = None, preferred_element_type: Any = None,
                   use_consistent_padding: bool = False) -> Any:
    """Transposed ("fractionally strided") convolution: the gradient of a strided one.

    Args:
      lhs: array; channels last by default ('NHWC', 'HWIO', 'NHWC').
      rhs: kernel.
      strides: how far the operand's elements are moved apart.
      padding: 'SAME', 'VALID', or (low, high) pairs.
      rhs_dilation: distance of the kernel's elements; 1 by default.
      dimension_numbers: the layout.
      transpose_kernel: mirror the kernel and exchange its feature axes, so that this is the
        gradient of the convolution with the same kernel.
      precision: accepted.
      preferred_element_type: the dtype of the result.
      use_consistent_padding: count explicit padding as that of the convolution this transposes.

    Returns:
      An array with larger spatial axes.

    Raises:
      TypeError: ranks or dtypes differ.
      ValueError: sizes do not fit, or padding has an unknown name.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> one = np.ones((1, 2, 1), np.float32)
      >>> lax.conv_transpose(one, np.ones((2, 1, 1), np.float32), (2,), "VALID")[0, :, 0]
      Array([1., 1., 1., 1.], dtype=float32)
    """
    x, y = as_operand("conv_transpose", lhs), as_operand("conv_transpose", rhs, 1)
    a, k = aval_of(x), aval_of(y)
    if a.ndim != k.ndim:
        raise TypeError(explain("convolution requires lhs and rhs ndim to be equal, got "
                                f"{a.ndim} and {k.ndim}."))
    rank = a.ndim - 2
    if dimension_numbers is None:
        space = "HWD"[:rank] if rank <= 3 else "".join(chr(ord("a") + i) for i in range(rank))
        dimension_numbers = (f"N{space}C", f"{space}IO", f"N{space}C")
    dn = conv_dimension_numbers(a.shape, k.shape, dimension_numbers)
    strides = as_sizes("conv_transpose", strides)
    rd = (1,) * rank if rhs_dilation is None else as_sizes("conv_transpose", rhs_dilation)
    spans = [dilated(k.shape[i], d) for i, d in zip(dn.rhs_spec[2:], rd)]
    if isinstance(padding, str) and padding in ("SAME", "VALID"):
        pads: Any = [_transposed_pads(m, s, padding) for m, s in zip(spans, strides)]
    elif isinstance(padding, str):
        pads = padding
    else:
        pads = int_pairs(padding)
        if use_consistent_padding:
            pads = [(m - 1 - low, m - 1 - high) for m, (low, high) in zip(spans, pads)]
    ones = (1,) * rank
    with lazy_eval("conv_transpose"):
        if transpose_kernel:
            o, i, *space_axes = dn.rhs_spec
            order = list(range(k.ndim))
            order[o], order[i] = i, o
            y = sh.rev(y, tuple(space_axes)) if space_axes else y
            y = sh.transpose(y, order)
        return conv_general_dilated(x, y, ones, pads, strides, rd, dn, precision=precision,
                                    preferred_element_type=preferred_element_type)


# ---- patches
def conv_general_dilated_patches(lhs: Any, filter_shape: Any, window_strides: Any, padding: Any,
                                 lhs_dilation: Any = None, rhs_dilation: Any = None,
                                 dimension_numbers: Any = None, precision: Any = None,
                                 preferred_element_type: Any = None) -> Any:
    """The elements under each position of a window, as features.

    Args:
      lhs: array with a batch and a feature axis and spatial axes.
      filter_shape: sizes of the window.
      window_strides: steps of the window.
      padding: a name or (low, high) pairs.
      lhs_dilation: distance of the operand's elements.
      rhs_dilation: distance of the window's elements.
      dimension_numbers: the layout.
      precision: accepted.
      preferred_element_type: the dtype of the result.

    Returns:
      An array with feature size lhs features * prod(filter_shape), features major.

    Raises:
      TypeError: lengths do not fit.
      ValueError: sizes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> x = np.arange(3, dtype=np.float32).reshape(1, 1, 3)
      >>> lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")
      Array([[[0., 1.],
              [1., 2.]]], dtype=float32)
    """
    x = as_operand("conv_general_dilated_patches", lhs)
    a = aval_of(x)
    window = as_sizes("conv_general_dilated_patches", filter_shape)
    dn = conv_dimension_numbers(a.shape, (1, 1, *window), dimension_numbers)
    features, taps = a.shape[dn.lhs_spec[1]], int(np.prod(window))
    kind = a.dtype
    eye = np.tile(np.eye(taps), (features, 1)).reshape((features * taps, 1, *window)).astype(kind)
    kernel = np.transpose(eye, np.argsort(dn.rhs_spec))
    with lazy_eval("conv_general_dilated_patches"):
        return conv_general_dilated(
            x, kernel, window_strides, padding, lhs_dilation, rhs_dilation, dn,
            feature_group_count=features, precision=precision,
            preferred_element_type=preferred_element_type)


def conv_general_dilated_local(lhs: Any, rhs: Any, window_strides: Any, padding: Any,
                               filter_shape: Any, lhs_dilation: Any = None,
                               rhs_dilation: Any = None, dimension_numbers: Any = None,
                               precision: Any = None) -> Any:
    """Convolution with a kernel of its own at each position.

    Args:
      lhs: array with a batch and a feature axis and spatial axes.
      rhs: kernels; along its spatial axes one for each result position, along its input feature
        axis input features * prod(filter_shape), features major.
      window_strides: steps of the window.
      padding: a name or (low, high) pairs.
      filter_shape: sizes of the window.
      lhs_dilation: distance of the operand's elements.
      rhs_dilation: distance of the window's elements.
      dimension_numbers: the layout.
      precision: accepted.

    Returns:
      An array with a batch, a feature and spatial axes.

    Raises:
      TypeError: ranks or dtypes differ.
      ValueError: sizes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> x = np.arange(3, dtype=np.float32).reshape(1, 1, 3)
      >>> lax.conv_general_dilated_local(x, np.ones((1, 2, 2), np.float32), (1,), "VALID", (2,))
      Array([[[1., 3.]]], dtype=float32)
    """
    x = as_operand("conv_general_dilated_local", lhs)
    y = as_operand("conv_general_dilated_local", rhs, 1)
    dn = conv_dimension_numbers(shape_of(x), shape_of(y), dimension_numbers)
    with lazy_eval("conv_general_dilated_local"):
        # patches in lhs' layout, so that their positions are lhs' spatial axes
        layout = ConvDimensionNumbers(dn.lhs_spec, dn.rhs_spec, dn.lhs_spec)
        patches = conv_general_dilated_patches(
            x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, layout,
            precision)
        (_, c, *space), (_, i, *taps) = dn.lhs_spec, dn.rhs_spec
        out = ct.dot_general(patches, y, (((c,), (i,)), (tuple(space), tuple(taps))),
                             _precision(precision))
        # spatial..., batch, output feature
        rank = len(space)
        order = [0] * (rank + 2)
        for place, axis in enumerate((rank, rank + 1, *range(rank))):
            order[dn.out_spec[place]] = axis
        return sh.transpose(out, order)


# ---- shapes
def conv_general_shape_tuple(lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any,
                             dimension_numbers: Any) -> Shape:
    """The shape of a convolution without dilation.

    Args:
      lhs_shape: sizes of the operand.
      rhs_shape: sizes of the kernel.
      window_strides: steps of the kernel.
      padding: a name or (low, high) pairs.
      dimension_numbers: the layout.

    Returns:
      A tuple of sizes.

    Raises:
      TypeError: ranks differ.

    Example:
      >>> from calque import lax
      >>> lax.conv_general_shape_tuple((1, 2, 5), (3, 2, 2), (1,), "VALID", ("NCH", "OIH", "NCH"))
      (1, 3, 4)
    """
    dn = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    return _shape(lhs_shape, rhs_shape, dn, window_strides, padding, (1,) * (len(lhs_shape) - 2))


def _shape(lhs: Any, rhs: Any, dn: ConvDimensionNumbers, strides: Any, padding: Any, ld: Any,
           batches: int = 1) -> Shape:
    ones = (1,) * (len(lhs) - 2)
    pads = padding if not isinstance(padding, str) else _pads(lhs, rhs, dn, strides, padding, ones,
                                                              ones)
    inner = cv.spatial_result(cv.picked(lhs, dn.lhs_spec)[2:], cv.picked(rhs, dn.rhs_spec)[2:],
                              strides, pads, ld, ones)
    out = [0] * len(lhs)
    for axis, n in zip(dn.out_spec, (lhs[dn.lhs_spec[0]] // batches, rhs[dn.rhs_spec[0]], *inner)):
        out[axis] = n
    return tuple(out)


def conv_shape_tuple(lhs_shape: Any, rhs_shape: Any, strides: Any, pads: Any,
                     batch_group_count: int = 1) -> Shape:
    """The shape of a convolution in the layout batch, feature, spatial.

    Args:
      lhs_shape: sizes of the operand.
      rhs_shape: sizes of the kernel.
      strides: steps of the kernel.
      pads: a name or (low, high) pairs.
      batch_group_count: groups of the batch.

    Returns:
      A tuple of sizes.

    Raises:
      TypeError: ranks differ.

    Example:
      >>> from calque import lax
      >>> lax.conv_shape_tuple((1, 2, 5), (3, 2, 2), (1,), ((0, 0),))
      (1, 3, 4)
    """
    dn = conv_dimension_numbers(lhs_shape, rhs_shape, None)
    return _shape(lhs_shape, rhs_shape, dn, strides, pads, (1,) * (len(lhs_shape) - 2),
                  batch_group_count)


def conv_transpose_shape_tuple(lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any,
                               dimension_numbers: Any) -> Shape:
    """The shape of a transposed convolution.

    Args:
      lhs_shape: sizes of the operand.
      rhs_shape: sizes of the kernel.
      window_strides: how far the operand's elements are moved apart.
      padding: 'SAME', 'VALID', or (low, high) pairs.
      dimension_numbers: the layout.

    Returns:
      A tuple of sizes.

    Raises:
      TypeError: ranks differ.

    Example:
      >>> from calque import lax
      >>> lax.conv_transpose_shape_tuple((1, 5, 2), (2, 2, 3), (2,), "VALID",
      ...                                ("NHC", "HIO", "NHC"))
      (1, 10, 3)
    """
    dn = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    if isinstance(padding, str):
        padding = [_transposed_pads(rhs_shape[i], s, padding)
                   for i, s in zip(dn.rhs_spec[2:], window_strides)]
    return _shape(lhs_shape, rhs_shape, dn, (1,) * (len(lhs_shape) - 2), padding, window_strides)


__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv", "conv_dimension_numbers",
    "conv_general_dilated", "conv_general_dilated_local", "conv_general_dilated_patches",
    "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose",
    "conv_transpose_shape_tuple", "conv_with_general_padding"]
