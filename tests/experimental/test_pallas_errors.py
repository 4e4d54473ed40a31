"""Pallas: what is refused, in three parts, before anything is compiled; names that are absent."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.experimental import pallas as pl

S, B = calque.ShapeDtypeStruct, pl.BlockSpec
X = np.arange(8, dtype=np.float32)
SUMMAND = jnp.arange(3.0)
HALF = B((4,), lambda i: (i,))


def _copy(i: Any, o: Any) -> None:
    o[...] = i[...]


def _call(kernel: Any = _copy, x: Any = X, out: Any = S((8,), "float32"), **params: Any) -> Any:
    given = {"grid": (2,), "in_specs": [HALF], "out_specs": HALF, **params}
    return pl.pallas_call(kernel, out, **given)(x)


def _whole(kernel: Any, **params: Any) -> Any:
    return pl.pallas_call(kernel, S((8,), "float32"), **params)(X)


def _store(value: Callable[[Any], Any], at: Any = ...) -> Callable[[], Any]:
    def kernel(i: Any, o: Any) -> None:
        o[at] = value(i)
    return lambda: _whole(kernel)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # blocks and index maps
    "results of an index map": (lambda: _call(in_specs=[B((4,), lambda i: (i, 0))]), ValueError,
                                "must return 1 values to match block_shape=.* returning 2 values"),
    "arguments of an index map": (lambda: _call(in_specs=[B((4,), lambda i, j: i)]), TypeError,
                                  "missing 1 required positional argument: 'j'"),
    "an index map of floats": (lambda: _call(in_specs=[B((4,), lambda i: i * 1.0)]), ValueError,
                               "must return integer scalars. Output.0. has type .*float32"),
    "an index map of arrays": (lambda: _call(in_specs=[B((4,), lambda i: jnp.zeros(1, int))]),
                               ValueError, "must return integer scalars"),
    "an index map of nothing": (lambda: _call(in_specs=[B((4,), lambda i: None)]), ValueError,
                                "has type NoneType"),
    "an index map that captures": (
        lambda: _call(in_specs=[B((4,), lambda i: i + SUMMAND[0].astype(int))]), ValueError,
        "must not capture constants"),
    "an index map with a loop": (
        lambda: _call(in_specs=[B((4,), lambda i: lax.while_loop(
            lambda c: c > 1, lambda c: c - 1, i))]), NotImplementedError, "computes while"),
    "axes of a block": (lambda: _call(in_specs=[B((4, 2), lambda i: (i, 0))]), ValueError,
                        "must have the same number of dimensions as the array shape"),
    "a block of 0": (lambda: _call(in_specs=[B((0,), lambda i: i)]), ValueError, "size below 1"),
    "a block below 0": (lambda: _call(out_specs=B((-4,), lambda i: i)), ValueError,
                        r"outputs \(= \(-4,\)\) has a size below 1"),
    "a padding below 0": (lambda: _call(in_specs=[B((pl.Element(4, (-1, 0)),), lambda i: i)]),
                          ValueError, "size below 1"),
    "a block beyond sense": (lambda: _call(in_specs=[B((1 << 40,), lambda i: i)]), ValueError,
                             "larger than makes sense"),
    "an axis of a block": (lambda: _call(in_specs=[B((4.0,), lambda i: i)]), ValueError,
                           "Unsupported block dim type: <class 'float'>"),
    "no block_shape": (lambda: B(4, lambda i: i), TypeError, "block_shape must be a sequence"),
    # specs, grids, shapes
    "too few specs": (lambda: _call(in_specs=[]), ValueError,
                      "Pytree for `in_specs` and `inputs` do not match"),
    "too many specs": (lambda: _call(in_specs=[HALF, HALF]), ValueError,
                       "`in_specs` is a tuple of length 2 but `inputs` is a tuple of length 1"),
    "specs of results": (lambda: _call(out_specs=[HALF, HALF]), ValueError,
                         "There are 1 mismatches, including:\n.*`out_specs` is a "
                         "<class 'tuple'> but `out_shape` is a pytree leaf, so their Python types"),
    "no spec": (lambda: _call(in_specs=[3]), TypeError, "must hold BlockSpecs, got 3"),
    "a grid of floats": (lambda: _call(grid=(2.0,)), ValueError,
                         "Grid must be a tuple of integers"),
    "a traced grid": (lambda: calque.jit(lambda n: _call(grid=(n,)))(2), ValueError,
                      "Grid must be a tuple of integers that are known"),
    "a grid without end": (lambda: _call(grid=(1 << 30,)), ValueError, "at most 16777216"),
    "a grid twice": (lambda: _call(grid_spec=pl.GridSpec(grid=(2,))), ValueError,
                     r"If `grid_spec` is specified, then `grid` must be `\(\)`"),
    "specs twice": (lambda: _call(grid=(), grid_spec=pl.GridSpec(grid=(2,))), ValueError,
                    "If `grid_spec` is specified, then `in_specs` must be `no_block_spec`"),
    "out_shape": (lambda: _call(out=3), ValueError, "Invalid out_shape type: <class 'int'>"),
    "symbolic sizes": (lambda: calque.export.export(calque.jit(
        lambda x: pl.pallas_call(_copy, x)(x)))(S(calque.export.symbolic_shape("n"), "float32")),
        NotImplementedError, "known at the call only"),
    "keys": (lambda: pl.pallas_call(_copy, S((), random.key(0).dtype))(random.key(0)),
             NotImplementedError, "PRNG keys"),
    "a text": (lambda: _call(x="a"), TypeError, "not a valid|as an abstract array"),
    # kernels
    "too few references": (lambda: _whole(lambda i: None), TypeError,
                           r"takes 1 positional argument but 2 were given"),
    "too many references": (lambda: _whole(lambda i, o, k: None), TypeError,
                            "missing 1 required positional argument: 'k'"),
    "far too many references": (lambda: _whole(lambda i, o, a, b, c: None), TypeError,
                                "missing 3 required positional arguments: 'a', 'b', and 'c'"),
    "scratch by another name": (lambda: _whole(
        lambda i, o: None, scratch_shapes={"s": pl.ANY((2,), "float32")}), TypeError,
        "and s by name"),
    "scratch without a type": (lambda: _whole(
        lambda i, o, s: None, scratch_shapes=[S((2,), "float32")]), TypeError,
        "must be a MemoryRef"),
    "a kernel that returns a tuple of nothing": (
        lambda: _whole(lambda i, o: ()), ValueError, "should return None. It returns a PyTree"),
    "a reference to an operation": (_store(lambda i: lax.sin(i)), ValueError,
                                    "Attempting to pass a Ref .* to a primitive: sin"),
    "a kernel that returns": (lambda: _whole(lambda i, o: i[...]), ValueError,
                              "should return None. It returns a PyTree"),
    "an array from outside": (_store(lambda i: i[...] + SUMMAND.sum()), ValueError,
                              r"captures constants \[f32\[3\]\]. You should pass them as inputs"),
    "a traced value from outside": (
        lambda: calque.jit(lambda z: _store(lambda i: i[...] + z)())(1.0), ValueError,
        r"captures constants \[f32\[\]\]"),
    "a reference from outside": (
        lambda: _whole(lambda i, o, r=calque.new_ref(1.0): o.__setitem__(..., i[...] * r[...])),
        ValueError, r"captures constants \[Ref\{f32\[\]\}\]"),
    "no kernel": (lambda: pl.pallas_call(3, S((8,), "float32")), TypeError, "callable"),
    # stores and places
    "a dtype": (_store(lambda i: i[...].astype(int)), ValueError,
                "Invalid dtype for `swap`. Ref dtype: float32. Value dtype: int32"),
    "a shape": (_store(lambda i: i[:2]), ValueError,
                r"Invalid shape for `swap`. Ref shape: \(8,\). Expected shape: \(8,\). Value "),
    "a number for an array": (_store(lambda i: 1.0), ValueError, "Invalid shape for `swap`"),
    "a reference": (_store(lambda i: i), ValueError, "Cannot store a Ref into another Ref"),
    "a slice outside": (_store(lambda i: i[...], pl.ds(4, 8)), ValueError, "Out of bound slice"),
    "an index outside": (_store(lambda i: 1.0, 9), ValueError, "index 9 is outside"),
    "program_id outside": (lambda: pl.program_id(0), AssertionError, "outside of a kernel"),
    "num_programs outside": (lambda: pl.num_programs(0), AssertionError, "outside of a kernel"),
    "an axis of the grid": (_store(lambda i: i[...] + pl.program_id(0)), ValueError,
                            r"Axis 0 is out of bounds for grid \(\)"),
    "when of arrays": (_store(lambda i: pl.when(i[...] > 0)(lambda: None)), TypeError,
                       "Pred must be a scalar"),
    "when with a result": (_store(lambda i: pl.when(i[0] > 0)(lambda: 3)), TypeError,
                           "cond branch outputs must have the same pytree structure"),
    # aliases
    "an aliased argument": (lambda: _call(input_output_aliases={1: 0}), ValueError,
                            r"'1:0' with input index 1 outside the range \[0, 1\)"),
    "an aliased result": (lambda: _call(input_output_aliases={0: 1}), ValueError,
                          r"'0:1' with output index 1 outside the range \[0, 1\)"),
    "aliases of shapes": (lambda: pl.pallas_call(
        _copy, S((9,), "float32"), input_output_aliases={0: 0})(X), ValueError,
        r"to output\[0\] with a different abstract value"),
    "aliases of one result": (lambda: pl.pallas_call(
        lambda a, b, o: None, S((8,), "float32"), input_output_aliases={0: 0, 1: 0})(X, X),
        ValueError, "names a result twice"),
    "next_power_of_2": (lambda: pl.next_power_of_2(-1), ValueError,
                        "`next_power_of_2` requires a non-negative integer"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    f, kind, text = WRONG[name]
    with pytest.raises(kind, match=text) as raised:
        f()
    said = str(raised.value)
    if name not in ("no kernel", "an index map with a loop"):
        assert "\n  In " in said and "test_pallas_errors.py:" in said, said
    if name != "no kernel":
        assert "\n  Fix: " in said, said


@pytest.mark.parametrize("name", ["triton", "tpu", "mosaic_gpu", "core_map", "semaphore_signal",
                                  "BoundedSlice", "load"])
def test_what_is_absent(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(pl, name)
