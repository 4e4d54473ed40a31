"""lax reductions with a function of the user's, over axes and over windows, and reduce_precision.

The function is traced on scalars.  A sum, product, extremum or logical fold becomes the primitive
of that name; anything else is applied to whole arrays, in log2(size) steps.
Start reading at `reduce`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, shape_of
from calque.core.dims import as_size, max_dim
from calque.core.errors import explain
from calque.core.lists import types_of
from calque.core.primitive import Primitive, registry
from calque.core.program import Program
from calque.core.trace import Tracer
from calque.core.types import Axes, Function, Shape
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_axis, as_operand, as_sizes
from calque.lax.shape import unchanged
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives import window as wi
from calque.transforms.stage import replay, stage
from calque.transforms.vmap import to_front, vmap_flat
from calque.trees import util as tree_util

# primitive of the function -> (reduction, is v its identity)
_MONOIDS: dict[str, Primitive] = {
    "add": rd.reduce_sum_p, "mul": rd.reduce_prod_p, "max": rd.reduce_max_p,
    "min": rd.reduce_min_p, "and": rd.reduce_and_p, "or": rd.reduce_or_p, "xor": rd.reduce_xor_p}
_WINDOWED = {"add": wi.reduce_window_sum_p, "max": wi.reduce_window_max_p,
             "min": wi.reduce_window_min_p}


# ---- the user's function
class _Function:
    """A function of two trees of scalars, as a Program."""

    def __init__(self, name: str, f: Function, tree: Any,
                 avals: Sequence[ShapedArray]) -> None:
        found: list[Any] = []
        n = len(avals)

        def run(*values: Any) -> list[Any]:
            out = f(tree.unflatten(values[:n]), tree.unflatten(values[n:]))
            leaves, out_tree = tree_util.tree_flatten(out)
            found.append(out_tree)
            return [as_operand(name, x) for x in leaves]

        self.program: Program = stage(run, [*avals, *avals], name)
        made = types_of(self.program.out_avals)
        if found[0] != tree or made != [((), a.dtype) for a in avals]:
            text = ", ".join(a.short() for a in self.program.out_avals)
            raise ValueError(explain(
                f"{name}: the computation must return scalars of the operands' dtypes, got {text} "
                f"for operands of dtypes {', '.join(a.dtype.name for a in avals)}.",
                fix="return one scalar for each operand, in the same structure."))

    def monoid(self) -> str:
        """The primitive, when the function is one primitive of its two arguments."""
        p = self.program
        if len(p.equations) != 1 or len(p.inputs) != 2:
            return ""
        (e,) = p.equations
        plain = set(e.inputs) == set(p.inputs) and list(p.outputs) == list(e.outputs)
        return e.name if plain and e.name in _MONOIDS else ""

    def __call__(self, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        """On arrays of one shape, element by element."""
        values, p = [*a, *b], self.program
        shape = shape_of(values[0])
        if 0 in shape:
            return list(a)
        if all(e.name in _PLAIN for e in p.equations):
            outs = replay(p, *values)
        else:
            size = int(np.prod(shape))
            flat = [sh.reshape(v, (size,)) for v in values]
            made, axes = vmap_flat(lambda *xs: replay(p, *xs), size, flat, [0] * len(flat))
            outs = [sh.reshape(to_front(o, d, size), shape) for o, d in zip(made, axes)]
        return [ew.match_shape(o, shape) for o in outs]


_PLAIN = frozenset(("add", "sub", "mul", "div", "neg", "max", "min", "and", "or", "xor", "not",
                    "abs", "exp", "log", "sqrt", "square", "sign", "integer_pow"))


def _operands(name: str, operands: Any, init_values: Any) -> tuple[list[Any], list[Any], Any]:
    """Flat operands and initial values."""
    leaves, tree = tree_util.tree_flatten(operands)
    inits, init_tree = tree_util.tree_flatten(init_values)
    if tree != init_tree:
        raise ValueError(explain(
            f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}",
            fix="give one initial value for each operand."))
    if not leaves:
        raise ValueError(explain(f"{name} must have at least one operand."))
    xs = [as_operand(name, x, i) for i, x in enumerate(leaves)]
    if any(shape_of(x) != shape_of(xs[0]) for x in xs):
        raise ValueError(explain(
            f"{name} operands must have the same shapes, got "
            f"{', '.join(str(shape_of(x)) for x in xs)}."))
    return xs, [_scalar(name, i) for i in inits], tree


def _scalar(name: str, init: Any) -> Any:
    init = as_operand(name, init)
    shape = shape_of(init)
    if shape and name == "reduce":
        raise ValueError(explain(f"reduce found non-scalar initial value: [{shape}]",
                                 fix="pass a scalar."))
    if shape:
        raise TypeError(explain(f"{name} expected init_values to be scalars but init_values have "
                                f"shapes [{shape}].", fix="pass a scalar."))
    return init


def _check_inits(name: str, xs: Sequence[Any], inits: Sequence[Any]) -> None:
    """An initial value that changes something has the operand's dtype: no cast is the right one."""
    for x, init in zip(xs, inits):
        want, have = dtype_of(x), dtype_of(init)
        if want != have:
            raise TypeError(explain(
                f"{name}: operands and initial values must have the same dtypes, got "
                f"{want.name} and {have.name}.",
                fix=f"cast the initial value: np.asarray(init, {want.name!r})."))


def is_identity(name: str, init: Any) -> bool:
    """Whether a known initial value changes nothing, in its own dtype: so an infinity is the
    identity of max or min for operands of every dtype."""
    if isinstance(init, Tracer):
        return False
    dtype = dtype_of(init)
    v = np.asarray(init).astype(dtype)
    if name in ("add", "xor", "or"):
        return not bool(v) if name != "add" or v.dtype.kind == "c" else bool(v == 0)
    if name == "mul":
        return bool(v == 1)
    if name == "and":
        return bool(v) if dtype == dtypes.bool_ else bool(v == np.array(-1).astype(dtype))
    return bool(v == dtypes.extreme(dtype, largest=name == "min"))


def _monoid(f: _Function, x: Any) -> str:
    """The name of a monoid that x's dtype has, or ''."""
    found = f.monoid()
    dtype = dtype_of(x)
    if found in ("max", "min") and dtype.kind == "c":
        return ""
    return found if found != "mul" or dtype != dtypes.bool_ else ""


def reduce(operands: Any, init_values: Any, computation: Function, dimensions: Any,
           out_sharding: Any = None) -> Any:
    """Elements along axes, combined by any associative and commutative function.

    Args:
      operands: array or tree of arrays of one shape.
      init_values: a scalar for each operand: what empty reductions give.
      computation: function of two trees of scalars that returns such a tree.
      dimensions: the axes to reduce (non-negative, each once).
      out_sharding: of every result, over Explicit axes.

    Returns:
      A tree of arrays without those axes.

    Raises:
      ValueError: structures differ, an axis is out of bounds or repeated, an initial value is not
        a scalar, or the computation returns something else than scalars of the operands' dtypes.
      TypeError: an initial value has another dtype.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.reduce(np.array([1, 2, 3]), 10, lax.add, (0,))
      Array(16, dtype=int32)
    """
    if out_sharding is not None:
        return resharded("reduce", out_sharding, reduce, operands, init_values, computation,
                         dimensions)
    xs, inits, tree = _operands("reduce", operands, init_values)
    axes = tuple(map(int, dimensions))
    a = aval_of(xs[0])
    if len(set(axes)) != len(axes):
        raise ValueError(explain(f"duplicate value in 'axes' of reduction: {axes}"))
    if any(not 0 <= i < a.ndim for i in axes):
        raise ValueError(explain(
            f"reduction axes {axes} contains out-of-bounds indices for {a.short()}.",
            fix=f"use axes from 0 to {a.ndim - 1}."))
    avals = [ShapedArray((), dtype_of(x)) for x in xs]
    with lazy_eval("reduce"):
        f = _Function("reduce", computation, tree, avals)
        name = _monoid(f, xs[0]) if len(xs) == 1 else ""
        if name and (name not in ("max", "min") or all(a.shape[i] for i in axes)):
            outs = [_known_reduction(name, xs[0], inits[0], axes)]
        else:
            _check_inits("reduce", xs, inits)
            outs = wi.general_reduce(xs, inits, f, axes)
        weak = [aval_of(x).weak_type and aval_of(i).weak_type for x, i in zip(xs, inits)]
        return tree.unflatten([unchanged(ew.convert(o, dtype_of(o), w))
                               for o, w in zip(outs, weak)])


def _known_reduction(name: str, x: Any, init: Any, axes: Axes) -> Any:
    if not is_identity(name, init):
        _check_inits("reduce", [x], [init])
    if not axes:
        return x
    prim = _MONOIDS[name]
    params = {"out_sharding": None} if prim is rd.reduce_sum_p else {}
    out = prim.bind(x, axes=axes, **params)
    if is_identity(name, init):
        return out
    return registry[name].bind(ew.match_shape(init, shape_of(out)), out)


# ---- windows
def padtype_to_pads(in_shape: Any, window_shape: Any, window_strides: Any,
                    padding: Any) -> list[tuple[int, int]]:
    """The explicit padding that 'SAME', 'SAME_LOWER' or 'VALID' stands for.

    Args:
      in_shape: sizes of the operand's axes.
      window_shape: sizes of the window.
      window_strides: steps between windows.
      padding: 'VALID' (none), 'SAME' (as many windows as steps; the odd one behind) or
        'SAME_LOWER' (the odd one in front).

    Returns:
      A list of (low, high), one for each axis.

    Raises:
      RuntimeError: padding has another name.

    Example:
      >>> from calque import lax
      >>> lax.padtype_to_pads((5,), (2,), (1,), "SAME")
      [(0, 1)]
    """
    kind = padding.upper() if isinstance(padding, str) else getattr(padding, "name", padding)
    if kind == "VALID":
        return [(0, 0)] * len(tuple(in_shape))
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(explain(
            f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}.",
            fix="use one of these, or (low, high) pairs."))
    pads = []
    for n, k, s in zip(in_shape, window_shape, window_strides):
        n, k, s = as_size(n), as_size(k), as_size(s)
        total = max_dim((-(-n // s) - 1) * s + k - n, 0) if s else 0
        low = total // 2 if kind == "SAME" else total - total // 2
        pads.append((low, total - low))
    return pads


def int_pairs(padding: Any) -> list[tuple[int, int]]:
    """Padding as (low, high) pairs of Python integers."""
    return [(int(low), int(high)) for low, high in padding]


def window_of(name: str, shape: Shape, dimensions: Any, strides: Any, padding: Any,
              base: Any, dilation: Any) -> wi.Window:
    """The arguments of a window reduction, checked."""
    k = as_sizes(name, dimensions)
    if len(k) != len(shape):
        raise TypeError(explain(
            f"{name} got the wrong number of window_dimensions for operand: got operand shape "
            f"{shape} with window_dimensions {k}.", fix="give one size for each axis."))
    ones = (1,) * len(k)
    s, b, d = (ones if v is None else as_sizes(name, v) for v in (strides, base, dilation))
    for what, v in (("window_strides", s), ("base_dilation", b), ("window_dilation", d)):
        if len(v) != len(k):
            raise TypeError(explain(f"{name} got inconsistent {what} and window_dimensions: got "
                                    f"{what} {v} and window_dimensions {k}."))
    for what, v in (("window_dimensions", k), ("window_strides", s), ("base_dilation", b),
                    ("window_dilation", d)):
        if any(n < 1 for n in v):
            raise TypeError(explain(
                f"{name} {what} must have every element be strictly positive, got {v}."))
    if isinstance(padding, str) or not isinstance(padding, Sequence):
        # as JAX: from the size without holes
        pads = padtype_to_pads(shape, [wi.dilated(n, i) for n, i in zip(k, d)], s, padding)
    else:
        pads = int_pairs(padding)
        if len(pads) != len(k):
            raise ValueError(explain(
                f"{name}: padding {pads} has length {len(pads)}, the operand has {len(k)} axes.",
                fix="give one (low, high) for each axis."))
    return wi.Window(k, s, tuple(pads), b, d)


def reduce_window(operand: Any, init_value: Any, computation: Function,
                  window_dimensions: Any, window_strides: Any = None, padding: Any = "VALID",
                  base_dilation: Any = None, window_dilation: Any = None) -> Any:
    """Elements of each window, combined by any associative and commutative function.

    Args:
      operand: array or tree of arrays of one shape.
      init_value: a scalar for each operand; also what padding and holes hold.
      computation: function of two trees of scalars that returns such a tree.
      window_dimensions: size of the window along each axis.
      window_strides: steps between windows; 1 by default.
      padding: 'VALID', 'SAME', 'SAME_LOWER', or (low, high) for each axis; negative amounts cut.
      base_dilation: distance that the operand's elements are moved apart; 1 by default.
      window_dilation: distance between the elements of a window; 1 by default.

    Returns:
      A tree of arrays with one element for each window.

    Raises:
      TypeError: lengths do not fit the operand, or a size is not positive.
      ValueError: structures differ, or the computation returns something else than scalars.
      RuntimeError: padding has an unknown name.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.reduce_window(np.array([1, 2, 3, 4]), 0, lax.add, (2,), (1,), "VALID")
      Array([3, 5, 7], dtype=int32)
    """
    xs, inits, tree = _operands("reduce_window", operand, init_value)
    shape = shape_of(xs[0])
    w = window_of("reduce_window", shape, window_dimensions, window_strides, padding,
                  base_dilation, window_dilation)
    w.check("reduce_window", shape)
    avals = [ShapedArray((), dtype_of(x)) for x in xs]
    with lazy_eval("reduce_window"):
        f = _Function("reduce_window", computation, tree, avals)
        name = _monoid(f, xs[0]) if len(xs) == 1 else ""
        dtype = dtype_of(xs[0])
        if name in ("or", "and") and dtype == dtypes.bool_:
            name = "max" if name == "or" else "min"
        if name in _WINDOWED and is_identity(name, inits[0]) and (
                name != "add" or dtype != dtypes.bool_):
            outs = [_WINDOWED[name].bind(xs[0], **w.params())]
        else:
            _check_inits("reduce_window", xs, inits)
            outs = wi.general_window(xs, inits, f, w)
        return tree.unflatten([unchanged(ew.convert(o, dtype_of(o))) for o in outs])


def reduce_window_shape_tuple(operand_shape: Any, window_dimensions: Any, window_strides: Any,
                              padding: Any, base_dilation: Any = None,
                              window_dilation: Any = None) -> Shape:
    """The shape of a window reduction.

    Args:
      operand_shape: sizes of the operand's axes.
      window_dimensions: size of the window along each axis.
      window_strides: steps between windows.
      padding: (low, high) for each axis.
      base_dilation: distance that the operand's elements are moved apart.
      window_dilation: distance between the elements of a window.

    Returns:
      A tuple of sizes.

    Raises:
      TypeError: lengths do not fit the operand, or a size is not positive.

    Example:
      >>> from calque import lax
      >>> lax.reduce_window_shape_tuple((5,), (2,), (1,), ((0, 0),))
      (4,)
    """
    shape = as_sizes("reduce_window", operand_shape)
    w = window_of("reduce_window", shape, window_dimensions, window_strides, padding,
                  base_dilation, window_dilation)
    return w.result(shape)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounded to a float format with fewer bits, in operand's dtype.

    Args:
      operand: array of float dtype.
      exponent_bits: bits of the exponent, at least 1; beyond its range values become 0 or infinite.
      mantissa_bits: bits of the mantissa, at least 0; rounded to nearest, ties to even.

    Returns:
      An array of operand's shape and dtype.

    Raises:
      TypeError: operand is not of float dtype, or a count is not an integer.
      ValueError: a count is too small.

    Example:
      >>> from calque import lax
      >>> lax.reduce_precision(1.1, 8, 3)
      Array(1.125, dtype=float32, weak_type=True)
    """
    x = as_operand("reduce_precision", operand)
    return wi.reduce_precision_p.bind(x, exponent_bits=as_axis(exponent_bits, "exponent_bits"),
                                      mantissa_bits=as_axis(mantissa_bits, "mantissa_bits"))


__all__ = ["padtype_to_pads", "reduce", "reduce_precision", "reduce_window",
           "reduce_window_shape_tuple"]
