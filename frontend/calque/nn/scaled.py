"""Products of matrices in few bits whose runs of contracted elements share a scale (mxfp8, nvfp4).

A block of an operand is stored as elements of 8 or 4 bits and one factor; products are taken in
float32.  Source: the Open Compute Project's Microscaling Formats, version 1.0.
Start reading at `scaled_matmul` and `quantized`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from calque.api.custom_derivatives import custom_vjp
from calque.core import dtypes
from calque.core.errors import explain
from calque.lax.contract import dot_general
from calque.lax.dots import scaled_dot
from calque.lax.elementwise import bitcast_convert_type
from calque.numpy.arithmetic import absolute
from calque.numpy.creation import asarray
from calque.numpy.logic import where
from calque.numpy.reductions import max as largest
from calque.numpy.rounding import clip
from calque.numpy.shapes import transpose

__all__ = ["get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"]


@dataclass(frozen=True)
class BlockScaleConfig:
    """How an operand is stored: the length of a block, the dtypes of elements and of scales."""

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None
    infer_only: bool = False


def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """How `scaled_dot_general` stores an operand.

    Args:
      mode: "mxfp8": blocks of 32 of float8_e4m3fn, scales that are powers of two; "nvfp4": blocks
        of 16 of float4_e2m1fn, scales of float8_e4m3fn.
      global_scale: nvfp4: one more factor of the whole operand, float32[1].

    Returns:
      A record for `configs`.

    Raises:
      ValueError: mode is another.

    Example:
      >>> from calque import nn
      >>> nn.get_scaled_dot_general_config("mxfp8").block_size
      32
    """
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu)
    if mode == "nvfp4":
        one = np.ones(1, np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn,
                                asarray(one))
    raise ValueError(explain(f"Unsupported mode: {mode}", fix="pass 'mxfp8' or 'nvfp4'."))


def scaled_matmul(lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any,
                  preferred_element_type: Any = np.float32) -> Any:
    """einsum('bmk,bnk->bmn') of operands times their scales, each for a run of elements of k.

    Args:
      lhs: (b, m, k), of any dtype.
      rhs: (b, n, k).
      lhs_scales: (b, m, k_a), k_a divides k.
      rhs_scales: (b, n, k_b), likewise.
      preferred_element_type: of the result.

    Returns:
      (b, m, n).

    Raises:
      ValueError: an operand has not three axes.
      TypeError: sizes do not fit.

    Notes:
      Computed in float32 on every platform; JAX has it on Blackwell GPUs.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> a, scale = jnp.array([[[1, 2, 3]]]), jnp.array([[[0.5]]])
      >>> nn.scaled_matmul(a, jnp.array([[[4, 5, 6]]]), scale, scale)
      Array([[[8.]]], dtype=float32)
    """
    given = [asarray(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    if any(x.ndim != 3 for x in given):
        raise ValueError(explain("scaled_matmul requires all inputs to be 3-dimensional arrays",
                                 fix="add an axis of batches of size 1."))
    a, b, a_scales, b_scales = given
    out = scaled_dot(a, b, lhs_scale=a_scales, rhs_scale=b_scales,
                     dimension_numbers=(((2,), (2,)), ((0,), (0,))),
                     preferred_element_type=np.float32)
    return out.astype(preferred_element_type)


def quantized(x: Any, config: BlockScaleConfig) -> tuple[Any, Any]:
    """Elements and scales of x along its last axis."""
    size = config.block_size
    if x.shape[-1] % size or not x.shape[-1]:
        raise ValueError(explain(
            f"scaled_dot_general: {x.shape[-1]} contracted elements are no blocks of {size}.",
            fix="pad the axis with zeros; that of the results too where it is differentiated."))
    blocks = x.reshape(*x.shape[:-1], x.shape[-1] // size, size).astype(np.float32)
    if config.global_scale is not None:
        blocks = blocks / config.global_scale
    top = float(dtypes.finfo(config.data_type).max)
    wanted = largest(absolute(blocks), axis=-1, keepdims=True) / top
    if config.scale_type == ml_dtypes.float8_e8m0fnu:
        exponents = _power_above(wanted)
        scales = bitcast_convert_type(exponents.astype(np.uint8), config.scale_type)
        spread = blocks * bitcast_convert_type((254 - exponents) << 23, np.float32)
    else:
        scales = clip(wanted, 0, float(dtypes.finfo(config.scale_type).max)
                      ).astype(config.scale_type)
        factor = scales.astype(np.float32)
        spread = blocks / where(factor == 0, np.float32(1), factor)  # (0: nothing counts)
    stored = clip(spread, -top, top).astype(config.data_type)
    return stored.reshape(x.shape), scales[..., 0]


def _power_above(x: Any) -> Any:
    """The biased exponent of the least power of two that is not below x (of 2**-127 at least)."""
    bits = bitcast_convert_type(x, np.uint32)
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    up = (fraction > 0) & (exponent != 254) & ~((exponent == 0) & (fraction <= 1 << 22))
    return where(up, exponent + 1, exponent)


def _product(a: Any, b: Any, a_config: BlockScaleConfig, b_config: BlockScaleConfig,
             dtype: Any) -> Any:
    (x, x_scales), (y, y_scales) = quantized(a, a_config), quantized(b, b_config)
    out = scaled_matmul(x, y, x_scales, y_scales, dtype)
    for config in (a_config, b_config):
        if config.global_scale is not None:
            out = (out * config.global_scale).astype(dtype)
    return out


def scaled_dot_general(lhs: Any, rhs: Any, dimension_numbers: Any,
                       preferred_element_type: Any = np.float32,
                       configs: Sequence[BlockScaleConfig] | None = None,
                       implementation: str | None = None) -> Any:
    """lax.dot_general of operands that are stored in few bits first.

    Args:
      lhs, rhs: arrays.
      dimension_numbers: ((contracted of lhs, of rhs), (batch of lhs, of rhs)).
      preferred_element_type: float32, bfloat16 or float16.
      configs: from get_scaled_dot_general_config, for lhs, rhs and what comes back in derivatives;
        None: lax.dot_general itself.
      implementation: accepted.

    Returns:
      As lax.dot_general: batch axes, the rest of lhs, the rest of rhs.

    Raises:
      ValueError: the contracted elements are no whole blocks.

    Notes:
      Derivatives are products of the same kind, of values that are stored in few bits again.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
      >>> x = jnp.ones((1, 2, 32))
      >>> nn.scaled_dot_general(x, x, (((2,), (2,)), ((0,), (0,))), configs=configs)[0, 0]
      Array([32., 32.], dtype=float32)
    """
    if configs is None:
        return dot_general(lhs, rhs, dimension_numbers,
                           preferred_element_type=preferred_element_type)
    a, b = asarray(lhs), asarray(rhs)
    (a_sums, b_sums), (a_batch, b_batch) = [[tuple(axes) for axes in pair]
                                            for pair in dimension_numbers]
    flat_a, rest_a = _in_three(a, a_batch, a_sums)
    flat_b, rest_b = _in_three(b, b_batch, b_sums)
    a_config, b_config, ct_config = configs

    def product(x: Any, y: Any) -> Any:
        return _product(x, y, a_config, b_config, preferred_element_type)

    def backward(kept: Any, ct: Any) -> tuple[Any, Any]:
        x, y = kept
        back = _product(ct, y.swapaxes(1, 2), ct_config, b_config, x.dtype)
        other = _product(ct.swapaxes(1, 2), x.swapaxes(1, 2), ct_config, a_config, y.dtype)
        return back, other

    rule = custom_vjp(product)
    rule.defvjp(lambda x, y: (product(x, y), (x, y)), backward)
    return rule(flat_a, flat_b).reshape(*[a.shape[i] for i in a_batch], *rest_a, *rest_b)


def _in_three(x: Any, batch: tuple[int, ...], sums: tuple[int, ...]) -> tuple[Any, list[int]]:
    """x with the axes (batch, others, contracted), and the sizes of the others."""
    others = [i for i in range(x.ndim) if i not in (*batch, *sums)]
    sizes = [[x.shape[i] for i in axes] for axes in (batch, others, sums)]
    moved = transpose(x, (*batch, *others, *sums))
    return moved.reshape([math.prod(s) for s in sizes]), sizes[1]
