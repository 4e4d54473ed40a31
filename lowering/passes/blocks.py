"""Transposed convolutions whose windows lie side by side, as products.

Where an operand has as many holes as the kernel has taps, each result sees one tap: result
q * h + r (from where the first window ends) is element q times tap h - 1 - r.  So all of them are
one product of the operand with the kernel, laid out by blocks: upsampling by a stride as wide as
the kernel, and the gradient of the patches of a picture (of 16 x 16 a convolution over zeros: 990
to 0.6 ms).  Start reading at `by_blocks`.
"""
from __future__ import annotations

import itertools
import math

from calque.core.avals import ShapedArray
from calque.core.lists import other_axes
from calque.core.program import Equation, Literal, Program
from calque.lowering.emit.dtypes import F32, F64, HALVES
from calque.lowering.passes.replacement import Replacement

_DTYPES = frozenset((F32, F64, *HALVES))


def by_blocks(p: Program) -> Program:
    """p with such convolutions written so, outside of loops."""
    if "conv_general_dilated" not in p.names() or not any(map(_is_of_blocks, p.equations)):
        return p
    equations: list[Equation] = []
    for e in p.equations:
        equations += _as_product(e) if _is_of_blocks(e) else [e]
    return p.replace(equations=equations)


def _is_of_blocks(e: Equation) -> bool:
    if e.name != "conv_general_dilated" or e.is_dynamic:
        return False
    p, (x, y) = e.params, (a.aval for a in e.inputs)
    taps = [y.shape[i] for i in p["dimension_numbers"].rhs_spec[2:]]
    return (math.prod(taps) > 1 and list(p["lhs_dilation"]) == taps
            and {*p["window_strides"], *p["rhs_dilation"], p["feature_group_count"],
                 p["batch_group_count"]} == {1} and x.dtype == y.dtype == e.outputs[0].aval.dtype
            and x.dtype in _DTYPES and 0 not in (*x.shape, *y.shape, *e.outputs[0].aval.shape))


def _as_product(e: Equation) -> list[Equation]:
    made, (x, y), d = Replacement(e), e.inputs, e.params["dimension_numbers"]
    dtype, out = x.aval.dtype, e.outputs[0].aval
    (n, f, *space), (o, i, *taps) = d.lhs_spec, d.rhs_spec
    turned = tuple(t for t in taps if y.aval.shape[t] > 1)
    y = made.emit("rev", [y], y.aval.shape, dtype, dimensions=turned)
    left, right = other_axes(x.aval.ndim, (f,)), other_axes(y.aval.ndim, (i,))
    shape = (*(x.aval.shape[a] for a in left), *(y.aval.shape[a] for a in right))
    whole = made.emit(
        "dot_general", [x, y], shape, dtype, dimension_numbers=(((f,), (i,)), ((), ())),
        precision=e.params["precision"], preferred_element_type=None, out_sharding=None)
    # where each axis is in the product: x's without its features, y's without its inputs
    of_x = {a: k for k, a in enumerate(left)}
    of_y = {a: len(left) + k for k, a in enumerate(right)}
    places = {d.out_spec[0]: [of_x[n]], d.out_spec[1]: [of_y[o]], **{
        spot: [of_x[s], of_y[t]] for spot, s, t in zip(d.out_spec[2:], space, taps)}}
    order = list(itertools.chain.from_iterable(places[a] for a in range(out.ndim)))
    sizes = [math.prod(shape[k] for k in places[a]) for a in range(out.ndim)]
    result = made.reshaped(made.transposed(whole, order), sizes)
    # what no window sees, or is cut off, before and behind
    starts = dict(zip(d.out_spec[2:], (low - y.aval.shape[t] + 1 for (low, _), t in zip(
        e.params["padding"], taps))))
    edges = [(starts.get(a, 0), out.shape[a] - n - starts.get(a, 0), 0)
             for a, n in enumerate(sizes)]
    if any(map(any, edges)):
        result = made.emit("pad", [result, Literal(dtype.type(0), ShapedArray((), dtype))],
                           out.shape, dtype, padding_config=tuple(edges))
    return made.ending(result)


__all__ = ["by_blocks"]
