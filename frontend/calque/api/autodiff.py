"""Differentiation for users: grad, value_and_grad, jvp, vjp, linearize, on functions of trees.
Outside jit each call records the Python body once and runs one program.  Jacobians: jacobians.py.

Start reading at `_vjp` (reverse mode).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.api.linear_maps import (
    VJP,
    Linearized,
    Transposed,
    apart_from_refs,
    check_tangent,
    shown,
)
from calque.core import dtypes
from calque.core.avals import HasAval, ShapedArray, aval_of, dtype_of
from calque.core.errors import explain
from calque.core.lists import flagged
from calque.core.naming import name_of
from calque.core.program import Program
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.core.zeros import is_zero
from calque.dispatch import strings
from calque.dispatch.array import as_values, to_array
from calque.dispatch.eager import as_given, lazy_eval, operands, remembered, results
from calque.dispatch.jit import jit
from calque.dispatch.tracing import (
    argument_path,
    check_arguments,
    check_callable,
    check_outputs,
    described,
    name_at,
    trace_to_program,
    wrapped,
)
from calque.primitives import elementwise as ew
from calque.primitives.collectives import cotangent_for
from calque.transforms import jvp as jvp_module
from calque.transforms import linearize as linearize_module
from calque.transforms.transpose import typed_as
from calque.trees import util as tree_util


class _Flat:
    """A function of trees as one of flat values; remembers the output's structure."""

    def __init__(self, fun: Function, in_tree: Any, has_aux: bool = False) -> None:
        self.fun, self.in_tree, self.has_aux = fun, in_tree, has_aux
        self.out_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        out = self.fun(*self.in_tree.unflatten(leaves))
        if self.has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError(explain(
                    f"{name_of(self.fun)}: expected output of function to be a two-element tuple "
                    f"(output, aux) because has_aux=True, got {type(out).__name__}."))
            out, aux = out
        flat, self.out_tree = tree_util.flatten(out)
        check_outputs(name_of(self.fun), flat, self.out_tree)
        if self.has_aux:
            found, self._aux_tree = tree_util.flatten(aux)
            arrays = [isinstance(x, HasAval) for x in found]
            self._aux = [(a, None if a else x) for a, x in zip(arrays, found)]  # no tracers
            return [*flat, *(x for a, x in zip(arrays, found) if a)]
        return flat

    def aux(self, values: Sequence[Any]) -> Any:
        """aux of the values of its arrays; what else is in it, of any type, is handed on."""
        given = iter(values)
        return self._aux_tree.unflatten([
            next(given) if is_array else x for is_array, x in self._aux])


def check_real_input(name: str, leaves: Sequence[Any], holomorphic: bool,
                     allow_int: bool) -> None:
    """TypeError where an argument cannot be differentiated by; reverse mode takes complex ones."""
    for x in leaves:
        strings.refuse(x)
        dtype = dtype_of(x)
        if holomorphic:
            if not dtypes.is_complex(dtype):
                raise TypeError(explain(
                    f"{name} with holomorphic=True requires inputs with complex dtype, but got "
                    f"{dtype.name}.", fix="cast the input to complex64 or complex128."))
        elif dtypes.is_key(dtype) or not dtypes.is_inexact(dtype):
            if not allow_int:
                raise TypeError(explain(
                    f"{name} requires real- or complex-valued inputs (input dtype that is a "
                    f"sub-dtype of np.inexact), but got {dtype.name}. If you want to use "
                    "Boolean- or integer-valued inputs, use vjp or set allow_int to True.",
                    fix="pass floats, for example 3.0 instead of 3."))
        elif dtypes.is_complex(dtype) and name == "jacfwd":
            raise TypeError(explain(
                f"{name} requires real-valued inputs (input dtype that is a sub-dtype of "
                f"np.floating), but got {dtype.name}. For holomorphic differentiation, pass "
                "holomorphic=True. For differentiation of non-holomorphic functions involving "
                "complex inputs, use jvp directly.",
                fix="pass holomorphic=True, use jacrev, or differentiate by the real and "
                    "imaginary parts."))


def check_real_output(name: str, avals: Sequence[ShapedArray], holomorphic: bool) -> None:
    """TypeError where an output has no derivative of its own by real numbers."""
    for aval in avals:
        if holomorphic:
            if not dtypes.is_complex(aval.dtype):
                raise TypeError(explain(
                    f"{name} with holomorphic=True requires outputs with complex dtype, but got "
                    f"{aval.dtype.name}.", fix="leave holomorphic out for real outputs."))
        elif not dtypes.is_float(aval.dtype):
            raise TypeError(explain(
                f"{name} requires real-valued outputs (output dtype that is a sub-dtype of "
                f"np.floating), but got {aval.dtype.name}.",
                fix="take .real or jnp.abs of a complex output, or cast integers to float."))


def check_argnums(argnums: Any) -> None:
    """TypeError when a derivative is made by what are no positions."""
    if not isinstance(argnums, (int, np.integer)) and not (
            isinstance(argnums, Sequence) and all(isinstance(i, int) for i in argnums)):
        raise TypeError(explain(
            f"argnums must be an int or a sequence of ints, got {argnums!r}: it cannot be "
            "interpreted as an integer.", fix="pass positions, for example argnums=(0, 1)."))


def argument_places(args: Sequence[Any], argnums: int | Sequence[int],
                    missing: type[Exception] = ValueError) -> list[int]:
    """The positions that argnums names, from 0; `missing` is raised beyond the last argument, a
    ValueError before the first."""
    numbers = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    if not numbers:
        raise ValueError(explain("argnums is empty: nothing to differentiate by.",
                                 fix="name the position of an argument."))
    if len({i % max(1, len(args)) for i in numbers}) != len(numbers) <= len(args):
        raise TypeError(explain(f"argnums={argnums} names an argument twice.",
                                fix="name each position once."))
    for i in numbers:
        if not -len(args) <= i < len(args):
            raise (missing if i >= 0 else ValueError)(explain(
                f"differentiating with respect to argnums={argnums} requires at least "
                f"{max(numbers) + 1 if min(numbers) >= 0 else -min(numbers)} positional "
                f"arguments to be passed by the caller, but got only {len(args)} positional "
                "arguments.", fix="pass it by position, or name another argument in argnums."))
    return [int(i) % len(args) for i in numbers]


# ---- reverse mode
def _vjp(flat: _Flat, leaves: Sequence[Any], nonzero: Sequence[bool], in_tree: Any
         ) -> tuple[list[Any], VJP]:
    """Outputs (aux included) and the pullback, under the current trace; in_tree: of its results."""
    outs, mask, program = linearize_module.linearize_flat(flat, leaves, nonzero)
    count = flat.out_tree.num_leaves
    avals = [aval_of(o) for o in outs[:count]]
    if len(outs) > count:  # tangents of aux are dropped
        keep = [i < count for i, m in enumerate(mask) if m]
        program = Program(program.inputs, program.equations,
                          flagged(program.outputs, keep), program.const_vars,
                          program.consts, program.name)
        mask = mask[:count]
    return outs, VJP(program, tuple(mask), tuple(nonzero), tuple(map(aval_of, leaves)),
                     tuple(avals), in_tree, flat.out_tree)


def vjp(fun: Function, *primals: Any, has_aux: bool = False,
        reduce_axes: Any = ()) -> Any:
    """(fun(*primals), pullback): the pullback maps output cotangents to input cotangents.

    Args:
      fun: function of arrays and trees of them.
      *primals: where to linearize; integers and bools have cotangents of dtype float0.
      has_aux: fun returns (output, aux); aux is returned as third value.
      reduce_axes: accepted for compatibility.

    Returns:
      The output, and a function of one cotangent of the output's structure, shapes and dtypes; it
      returns a tuple of cotangents, one per primal.  The function is a tree whose leaves are its
      residuals: jit, scan and vmap take and return it.

    Raises:
      TypeError: an argument is not an array, a number or a tree of them.
      ValueError: (by the pullback) a cotangent has not the structure, shape or dtype of the output.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> y, back = calque.vjp(jnp.sin, 0.0)
      >>> back(1.0)
      (Array(1., dtype=float32, weak_type=True),)
    """
    leaves, in_tree = tree_util.flatten(primals)
    check_arguments(name_of(fun), leaves, tree_util.flatten((primals, {}))[1], refs=True)
    for x in leaves:
        strings.refuse(x)
    name = name_of(fun)
    fun, leaves, in_tree, whole_tree = apart_from_refs(fun, leaves, in_tree, lambda i: name_at(
        fun, tree_util.tree_structure((primals, {})), i))
    with lazy_eval("vjp"):
        flat = _Flat(fun, in_tree, has_aux)
        leaves = _undifferentiated(leaves, operands(leaves))
        outs, pullback = _vjp(flat, leaves, [_differentiable(x) for x in leaves], whole_tree)
        count = flat.out_tree.num_leaves
        out = flat.out_tree.unflatten(results(outs[:count]))
        pullback.program = pullback.program.replace(name=name)
        if has_aux:
            return out, pullback.split(leaves), flat.aux(outs[count:])
        return out, pullback.split(leaves)


def fwd_and_bwd(fun: Function, argnums: int | Sequence[int], has_aux: bool = False,
                jitted: bool = True) -> tuple[Function, Function]:
    """The forward and the backward pass of fun as two functions, which are compiled once however
    often they are called (what `vjp` returns is another function at each call).

    Args:
      fun: function of arrays and trees of them.
      argnums: position or positions of the arguments to differentiate with respect to.
      has_aux: fun returns (output, aux).
      jitted: whether both are jitted.

    Returns:
      fwd(*args) -> (output, residuals), or (output, residuals, aux); and bwd(residuals, cotangent)
      -> a cotangent, or a tuple of them where argnums is a sequence.

    Raises:
      ValueError: (by fwd) argnums name an argument that is not there.

    Example:
      >>> import calque
      >>> fwd, bwd = calque.fwd_and_bwd(lambda x, w: x * w, argnums=(0, 1))
      >>> out, residuals = fwd(2.0, 3.0)
      >>> bwd(residuals, 1.0)
      (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun)

    def fwd(*args: Any) -> Any:
        places = argument_places(args, argnums)

        def of_some(*some: Any) -> Any:
            given = dict(zip(places, some))
            return fun(*[given.get(i, a) for i, a in enumerate(args)])
        return vjp(of_some, *[args[i] for i in places], has_aux=has_aux)

    def bwd(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if isinstance(argnums, (int, np.integer)) else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


def _undifferentiated(leaves: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The values, but True and False as they are: functions within may ask for a static argument,
    which is hashed.  (Other numbers may differ in each call, which is not to be compiled anew.)"""
    return [x if type(x) is bool else v for x, v in zip(leaves, values)]


def _differentiable(x: Any) -> bool:
    dtype = dtype_of(x)
    return not dtypes.is_key(dtype) and dtypes.is_inexact(dtype)


def value_and_grad(fun: Function, argnums: int | Sequence[int] = 0,
                   has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False,
                   reduce_axes: Any = ()) -> Function:
    """A function that returns the value of scalar-valued fun and its gradient (see `grad`).

    Args:
      fun: function whose output is a scalar (and aux, with has_aux).
      argnums: position or positions of the arguments to differentiate with respect to.
      has_aux: fun returns (output, aux); the value is then (output, aux).
      holomorphic: fun is complex-differentiable.
      allow_int: allow integer inputs; their gradients have dtype float0.
      reduce_axes: accepted for compatibility.

    Returns:
      A function of fun's arguments that returns (value, gradient).

    Raises:
      TypeError: fun is not callable; (by the function) the output is not a real scalar, an input is
        not real, or there are fewer arguments than argnums names.

    Example:
      >>> import calque
      >>> calque.value_and_grad(lambda x: x ** 2)(3.0)
      (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    check_argnums(argnums)

    def run(*args: Any, **kwargs: Any) -> Any:
        name = name_of(fun)
        places = argument_places(args, argnums, TypeError)
        chosen = tuple(args[i] for i in places)
        leaves, in_tree = tree_util.flatten(chosen)
        check_arguments(name, leaves, tree_util.flatten((chosen, {}))[1], refs=True)

        def partial(*values: Any) -> Any:
            full = list(args)
            for i, v in zip(places, values):
                full[i] = v
            return fun(*full, **kwargs)

        of_arrays, leaves, in_tree, whole_tree = apart_from_refs(
            partial, leaves, in_tree, lambda i: argument_path(
                tree_util.tree_structure((chosen, {})), i))
        check_real_input("grad", leaves, holomorphic, allow_int)
        with lazy_eval(f"grad_{name}"):
            value, grads = _value_and_grad(of_arrays, leaves, in_tree, has_aux, holomorphic)
            whole = whole_tree.unflatten(grads)
        return value, whole[0] if isinstance(argnums, (int, np.integer)) else whole

    return wrapped(fun, run, "Value and gradient")


def _value_and_grad(fun: Any, leaves: Sequence[Any], in_tree: Any, has_aux: bool,
                    holomorphic: bool) -> tuple[Any, list[Any]]:
    """The value (and aux), and the gradients of all leaves."""
    flat = _Flat(fun, in_tree, has_aux)
    values = operands(leaves)
    outs, pullback = _vjp(flat, values, [_differentiable(x) for x in values], in_tree)
    _check_scalar(flat, outs, holomorphic)
    one = ew.const(outs[0], 1)
    seed = cotangent_for(outs[0], ew.match_shape(one, ())) if isinstance(outs[0], Tracer) else (
        to_array(one))
    if (kind := aval_of(outs[0]).cotangent()).has_sums:
        seed = typed_as(seed, kind)
    cts = pullback.flat([seed])
    grads = [shown(c, aval_of(x)) for c, x in zip(cts, values)]
    value = as_values(outs[:1])[0]
    return (value, flat.aux(outs[1:])) if has_aux else value, grads


def _check_scalar(flat: _Flat, outs: Sequence[Any], holomorphic: bool) -> None:
    if not tree_util.treedef_is_leaf(flat.out_tree):
        shown = flat.out_tree.unflatten(list(outs[:flat.out_tree.num_leaves]))
        raise TypeError(explain(
            f"Gradient only defined for scalar-output functions. Output was {shown}.",
            fix="return one scalar; return other values with has_aux=True."))
    aval = aval_of(outs[0])
    if aval.shape:
        raise TypeError(explain(
            f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}.",
            fix="reduce the output (for example with .sum()), or use vmap(grad(f)) or jacrev."))
    check_real_output("grad", [aval], holomorphic)


def grad(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
         holomorphic: bool = False, allow_int: bool = False,
         reduce_axes: Any = ()) -> Function:
    """A function that returns the gradient of scalar-valued fun.

    Args:
      fun: function whose output is a scalar (and aux, with has_aux).
      argnums: position or positions of the arguments to differentiate with respect to.
      has_aux: fun returns (output, aux); the result is (gradient, aux).
      holomorphic: fun is complex-differentiable.
      allow_int: allow integer inputs; their gradients have dtype float0.
      reduce_axes: accepted for compatibility.

    Returns:
      A function of fun's arguments; gradients have the structure of those arguments.

    Raises:
      TypeError: fun is not callable; (by the function) the output is not a real scalar, an input is
        not real, or there are fewer arguments than argnums names.

    Example:
      >>> import calque
      >>> calque.grad(lambda x: x ** 3)(2.0)
      Array(12., dtype=float32, weak_type=True)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    def run(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped(fun, run, "Gradient")


# ---- forward mode
def _no_weaker(t: Any, primal: ShapedArray) -> Any:
    """A tangent as strong as its argument: so JAX's functions of jnp take it, which are jitted."""
    if is_zero(t) or primal.weak_type or not aval_of(t).weak_type:
        return t
    return ew.convert(t, dtype_of(t))


def jvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any],
        has_aux: bool = False) -> Any:
    """(fun(*primals), directional derivative along tangents).

    Args:
      fun: function of arrays and trees of them.
      primals: tuple or list of its arguments.
      tangents: the direction, of the primals' structure, shapes and dtypes (float0 for integers).
      has_aux: fun returns (output, aux); aux is returned as third value.

    Returns:
      The output, and its tangent, of the same structure, shapes and dtypes.

    Raises:
      TypeError: primals or tangents are no tuple or list, or differ in structure or dtype.
      ValueError: they differ in shape.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.jvp(jnp.sin, (0.0,), (2.0,))[1]
      Array(2., dtype=float32, weak_type=True)
    """
    if not (isinstance(primals, (tuple, list)) and isinstance(tangents, (tuple, list))):
        raise TypeError(explain(
            "primal and tangent arguments to jax.jvp must be tuples or lists; found "
            f"{type(primals).__name__} and {type(tangents).__name__}.",
            fix="pass (x,) and (t,) for one argument."))
    leaves, in_tree = tree_util.flatten(tuple(primals))
    t_leaves, t_tree = tree_util.flatten(tuple(tangents))
    if in_tree != t_tree or isinstance(primals, list) != isinstance(tangents, list):
        raise TypeError(explain(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals "
            f"have tree structure {tree_util.tree_structure(primals)} whereas tangents have tree "
            f"structure {tree_util.tree_structure(tangents)}.",
            fix="pass one tangent per primal, in the same containers."))
    check_arguments("jvp", leaves, tree_util.flatten((tuple(primals), {}))[1])
    with lazy_eval("jvp"):
        values = operands(leaves)
        ts = remembered(t_leaves, [check_tangent(t, aval_of(x)) for t, x in zip(t_leaves, values)])
        ts = [_no_weaker(t, aval_of(x)) for t, x in zip(ts, values)]
        flat = _Flat(fun, in_tree, has_aux)
        outs, out_ts = jvp_module.jvp_flat(flat, values, ts)
        count = flat.out_tree.num_leaves
        primal_out = flat.out_tree.unflatten(results(outs[:count]))
        tangent_out = flat.out_tree.unflatten([
            as_given(shown(t, aval_of(o))) for t, o in zip(out_ts[:count], outs)])
        if has_aux:
            return primal_out, tangent_out, flat.aux(outs[count:])
        return primal_out, tangent_out


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """(fun(*primals), the linear map of tangents at primals).

    Args:
      fun: function of arrays and trees of them.
      *primals: where to linearize.
      has_aux: fun returns (output, aux); aux is returned as third value.

    Returns:
      The output, and a function of as many tangents as there are primals; fun is not run again.
      The function is a tree whose leaves are its residuals: jit, scan and vmap take and return it.

    Raises:
      TypeError: an argument is not an array, a number or a tree of them; (by the linear map) a
        tangent's structure or dtype is not that of its primal.
      ValueError: (by the linear map) a tangent's shape is not that of its primal.

    Example:
      >>> import calque
      >>> y, f_lin = calque.linearize(lambda x: x * x, 3.0)
      >>> f_lin(1.0)
      Array(6., dtype=float32, weak_type=True)
    """
    leaves, in_tree = tree_util.flatten(primals)
    check_arguments(name_of(fun), leaves, tree_util.flatten((primals, {}))[1])
    with lazy_eval("linearize"):
        values = _undifferentiated(leaves, operands(leaves))
        nonzero = [_differentiable(x) for x in values]
        flat = _Flat(fun, in_tree, has_aux)
        outs, mask, program = linearize_module.linearize_flat(flat, values, nonzero)
        count = flat.out_tree.num_leaves
        out_avals = [aval_of(o) for o in outs]

        apply = Linearized(program, tuple(map(aval_of, values)), tuple(nonzero), tuple(mask),
                           tuple(out_avals), in_tree, flat.out_tree)
        out = flat.out_tree.unflatten(results(outs[:count]))
        return (out, apply, flat.aux(outs[count:])) if has_aux else (out, apply)


def linear_transpose(fun: Function, *primals: Any, reduce_axes: Any = ()) -> Any:
    """The transpose of a linear function; primals give shapes and dtypes only.

    Args:
      fun: linear function of arrays and trees of them.
      *primals: arrays or ShapeDtypeStructs like its arguments.
      reduce_axes: accepted for compatibility.

    Returns:
      A function of one cotangent of fun's output; it returns a tuple of cotangents, one per primal.

    Raises:
      TypeError: fun maps floats to integers or integers to floats; (by the transpose) the
        cotangent's structure is not that of fun's output.
      ValueError: (by the transpose) its shape or dtype is not.

    Example:
      >>> import calque
      >>> calque.linear_transpose(lambda x: 3 * x, 1.0)(2.0)
      (Array(6., dtype=float32, weak_type=True),)
    """
    leaves, in_tree = tree_util.flatten(primals)
    avals = [aval_of(described(x)) for x in leaves]
    program, out_tree = trace_to_program(fun, tree_util.flatten((primals, {}))[1], avals)
    ins, outs = [a.dtype for a in avals], [a.dtype for a in program.out_avals]
    if not any(all(map(kind, [*ins, *outs])) for kind in (dtypes.is_inexact, dtypes.is_integer)):
        raise TypeError(explain(
            "linear_transpose only supports [float or complex] -> [float or complex], and integer "
            f"-> integer functions, but got {ins} -> {outs}.",
            fix="convert outside of the function."))
    return Transposed(program, tuple(avals), in_tree, out_tree)
