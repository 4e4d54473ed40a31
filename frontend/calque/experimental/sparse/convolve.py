"""Convolution of two sparse signals: each element of one meets each element of the other once.

Start reading at `bcoo_conv_general_dilated`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.errors import explain
from calque.dispatch.staging import eval_shape
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.experimental.sparse.array import BCOO, in_range, masked, whole
from calque.experimental.sparse.shapes import bcoo_update_layout
from calque.lax.conv import conv_general_dilated
from calque.lax.window import padtype_to_pads
from calque.numpy import where


def bcoo_conv_general_dilated(lhs: BCOO, rhs: BCOO, *, window_strides: Sequence[int], padding: Any,
                              lhs_dilation: Sequence[int] | None = None,
                              rhs_dilation: Sequence[int] | None = None,
                              dimension_numbers: Any = None, feature_group_count: int = 1,
                              batch_group_count: int = 1, precision: Any = None,
                              preferred_element_type: Any = None,
                              out_sharding: Any = None) -> BCOO:
    """lax.conv_general_dilated of one sparse signal with one sparse kernel, of shapes (1, 1, n).

    Args:
      lhs: a BCOO array (1, 1, n).
      rhs: a BCOO array (1, 1, k).
      window_strides, padding, lhs_dilation, rhs_dilation: as for lax.conv_general_dilated.
      dimension_numbers: None: batch, feature, place.
      feature_group_count, batch_group_count: 1.
      precision, out_sharding: accepted and not used.
      preferred_element_type: the result's dtype, or None.

    Returns:
      A BCOO array (1, 1, m) of n_batch 2 with lhs.nse * rhs.nse elements, places that are met more
      than once among them; those beyond the ends are padding.

    Raises:
      NotImplementedError: more axes, batches, features or groups, or an order of axes of one's own.
      TypeError, ValueError: lax.conv_general_dilated does not take these shapes.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> signal = sparse.BCOO.fromdense(jnp.array([[[1., 0., 2.]]]))
      >>> kernel = sparse.BCOO.fromdense(jnp.array([[[1., 3.]]]))
      >>> sparse.bcoo_conv_general_dilated(signal, kernel, window_strides=(1,),
      ...                                  padding="VALID").todense()
      Array([[[1., 6.]]], dtype=float32)
    """
    out = eval_shape(
        lambda x, y: conv_general_dilated(
            x, y, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
            feature_group_count, batch_group_count, None, preferred_element_type),
        *[ShapeDtypeStruct(m.shape, m.dtype) for m in (lhs, rhs)])
    if (lhs.ndim != 3 or (*lhs.shape[:2], *rhs.shape[:2]) != (1, 1, 1, 1)
            or dimension_numbers is not None or (feature_group_count, batch_group_count) != (1, 1)):
        raise NotImplementedError(explain(
            f"bcoo_conv_general_dilated: shapes {lhs.shape} and {rhs.shape}, dimension_numbers="
            f"{dimension_numbers}, {feature_group_count} feature and {batch_group_count} batch "
            "groups.",
            fix="give one signal (1, 1, n) and one kernel (1, 1, k), or dense arrays to "
            "lax.conv_general_dilated."))
    (stride,) = window_strides
    apart, across = (lhs_dilation or (1,))[0], (rhs_dilation or (1,))[0]
    if isinstance(padding, str):
        sizes = [(m.shape[2] - 1) * step + 1 for m, step in ((lhs, apart), (rhs, across))]
        padding = padtype_to_pads(sizes[:1], sizes[1:], window_strides, padding)
    ((low, _),) = padding
    (x, at), (y, by) = (_signal(m) for m in (lhs, rhs))
    inside = (in_range(at, lhs.shape[2:])[:, None] & in_range(by, rhs.shape[2:])[None, :])
    first = at[:, :1] * apart + low - by[None, :, 0] * across  # where the kernel starts
    place = first // stride
    met = inside & (first % stride == 0) & (place >= 0) & (place < out.shape[2])
    data = masked((x.astype(out.dtype)[:, None] * y.astype(out.dtype)[None, :]).reshape(-1),
                  met.reshape(-1))
    places = where(met, place, out.shape[2]).reshape(1, 1, -1, 1)
    return BCOO((data.reshape(1, 1, -1), places), shape=out.shape)


def _signal(mat: BCOO) -> tuple[Any, Any]:
    """(data, indices [nse, 1]) of an array (1, 1, n)."""
    data, indices = whole(bcoo_update_layout(mat, n_batch=2, n_dense=0, on_inefficient=None))
    return data[0, 0], indices[0, 0]
