"""Shape primitives on key arrays: a key is uint32[n], so every shape has one axis more in memory.

`physical_params` rewrites the parameters; the rules then see plain uint32 arrays.  `forms` is what
lowering asks for whole Programs on words, or on the parts of complex numbers.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.primitive import registry
from calque.core.program import Equation, Program
from calque.core.types import Params


class _Forms:
    """What primitives/words sets: core stands below it, lowering beside it."""

    # (p, masked) -> p on words instead of keys, in operations that kernels have; None where an
    # equation has no such form.  masked: loops with a predicate for each element go on while one
    # of them does
    program: Callable[[Program, bool], Program | None]
    # p on words, with what rules write around their kernels as equations (primitives/outside);
    # None where an equation has no such form
    outside: Callable[[Program], Program | None]
    # p on the real and imaginary parts of complex numbers; None where an equation has no such form
    pairs: Callable[[Program], Program | None]
    # the same between complex inputs and results, with transforms as they are
    over_pairs: Callable[[Program], Program | None]
    # (p, rows) -> whether a step writes a small part of an array whose first axes are the rows
    writes_rows: Callable[[Program, int], bool]
    # (update, axes) -> from whether it is to be, for each place along these axes of the array, and
    # its operands, those but the first that leave the others as they are; None where it is no small
    # part (primitives/guarded)
    guarded: Callable[[Equation, Sequence[int]], Program | None]


forms = _Forms()


def has_transforms(p: Program) -> bool:
    """Whether a Program has Fourier transforms, at any depth."""
    return p.derived("has transforms", lambda: any(
        e.name in ("fft", "fft_axis") or any(map(has_transforms, e.inner))
        for e in p.equations))


def has_keys(avals: Sequence[ShapedArray]) -> bool:
    return any(dtypes.is_key(a.dtype) for a in avals)


def _words(a: ShapedArray) -> int:
    return a.dtype.words


def physical_params(name: str, params: Params, ins: Sequence[ShapedArray],
                    outs: Sequence[ShapedArray]) -> Params:
    """The parameters for the words of keys; the operation itself if keys cannot take it."""
    if not registry[name].keys:
        raise TypeError(explain(
            f"{name}: PRNG keys cannot be used here.",
            fix="use random.key_data(key) to work on the words of a key."))
    n = ins[0].ndim
    if name == "transpose":
        return {**params, "permutation": (*params["permutation"], n)}
    if name == "broadcast_in_dim":
        return {**params, "broadcast_dimensions": (*params["broadcast_dimensions"],
                                                   outs[0].ndim)}
    if name == "gather":
        d = params["dimension_numbers"]
        return {**params, "slice_sizes": (*params["slice_sizes"], _words(ins[0])),
                "dimension_numbers": d._replace(offset_dims=(*d.offset_dims, outs[0].ndim))}
    if name == "scatter":
        d = params["dimension_numbers"]
        window = (*d.update_window_dims, ins[2].ndim)
        return {**params, "dimension_numbers": d._replace(update_window_dims=window)}
    if name == "slice":
        strides = params["strides"]
        return {"start_indices": (*params["start_indices"], 0),
                "limit_indices": (*params["limit_indices"], _words(ins[0])),
                "strides": None if strides is None else (*strides, 1)}
    return params
