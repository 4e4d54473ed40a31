"""sparsify: functions of dense arrays, applied to sparse ones.

The function is traced on the shapes of its arguments; an interpreter runs its equations, by the
rules below where an operand is a BCOO array.  Start reading at `_run`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.api.control import scan, switch
from calque.api.loops import while_loop
from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.core.evaluate import each, literal_value
from calque.core.naming import name_of
from calque.core.program import Equation, Program
from calque.core.types import Function
from calque.dispatch.staging import eval_shape
from calque.dispatch.tracing import check_callable, trace_to_program, wrapped
from calque.experimental.sparse import elementwise
from calque.experimental.sparse.array import BCOO, JAXSparse
from calque.experimental.sparse.convolve import bcoo_conv_general_dilated
from calque.experimental.sparse.dots import bcoo_dot_general
from calque.experimental.sparse.making import DENSE_MARK
from calque.experimental.sparse.rows import BCSR, as_bcoo
from calque.experimental.sparse.shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_squeeze,
    bcoo_transpose,
    bcoo_update_layout,
)
from calque.experimental.sparse.slices import bcoo_dynamic_slice, bcoo_gather, bcoo_rev, bcoo_slice
from calque.numpy import asarray
from calque.trees import util as tree_util

Rule = Callable[[Equation, list[Any]], Any]
RULES: dict[str, Rule] = {}

# f(0) = 0: what they make of a sparse array has its places; LINEAR ones need no sums first
ZERO_TO_ZERO = ("abs asin asinh atan atanh bessel_i1e cbrt ceil erf expm1 floor integer_pow log1p "
                "round sign sin sinh sqrt square tan tanh reduce_precision")
LINEAR = "neg real imag conj convert_element_type copy name optimization_barrier stop_gradient"
_CONVOLUTION = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers",
                "feature_group_count", "batch_group_count", "preferred_element_type")
DENSE_RESULT = ("acos acosh cos cosh eq exp exp2 ge gt is_finite le log logistic lt ne not pow "
                "reduce_max reduce_min max min digamma lgamma erfc")


def is_sparse(x: Any) -> bool:
    """Whether a leaf is a sparse array."""
    return isinstance(x, JAXSparse)


def sparsify(f: Function, use_tracer: bool = False) -> Function:
    """f, of dense arrays, as a function that takes sparse ones as well.

    Args:
      f: function of arrays, made of operations that keep sparse arrays sparse.
      use_tracer: accepted; there is one way.

    Returns:
      A function of f's arguments, any of which may be sparse; its results are sparse where f's are
      made of sparse arrays alone, by operations that take zeros to zeros: BCSR arrays where all
      sparse arguments are, else BCOO.

    Raises:
      TypeError: f is no function.
      NotImplementedError: (when called) an operation has no rule, or its result would be dense.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.BCOO.fromdense(jnp.arange(12).reshape(3, 4))
      >>> sparse.sparsify(lambda M, v: 2 * M.T @ v)(M, jnp.array([3, 4, 2]))
      Array([ 64,  82, 100, 118], dtype=int32)
    """
    check_callable(f)

    def sparsified(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_util.tree_flatten((args, kwargs), is_leaf=is_sparse)
        values = [as_bcoo(x) if is_sparse(x) else x if hasattr(x, "dtype") else asarray(x)
                  for x in leaves]
        avals = [ShapedArray(x.shape, x.dtype) if isinstance(x, BCOO) else aval_of(x)
                 for x in values]
        program, out_tree = trace_to_program(f, tree, avals, name_of(f), "sparsify")
        return out_tree.unflatten(_as_given(_run(program, values), leaves, values))
    return wrapped(f, sparsified, "sparsify")


def _as_given(results: list[Any], leaves: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Results in the format of the sparse arguments, where all of them are BCSR."""
    given = [(x, v) for x, v in zip(leaves, values) if is_sparse(x)]
    if not given or not all(isinstance(x, BCSR) for x, _ in given):
        return results

    def row_by_row(made: Any) -> Any:
        if not isinstance(made, BCOO) or made.n_sparse != 2:
            return made
        for x, v in given:
            if made.indices is v.indices and made.shape == x.shape:  # the places are the same
                return BCSR((made.data, x.indices, x.indptr), shape=x.shape,
                            indices_sorted=x.indices_sorted, unique_indices=x.unique_indices)
        return BCSR.from_bcoo(made)
    return [row_by_row(made) for made in results]


def _run(program: Program, values: Sequence[Any], consts: Sequence[Any] | None = None
         ) -> list[Any]:
    """The results of a Program on values some of which are BCOO arrays."""
    return each(program, [*(program.consts if consts is None else consts), *values],
                literal_value, _equation)


def _equation(e: Equation, xs: list[Any]) -> Sequence[Any]:
    if not any(isinstance(x, BCOO) for x in xs):
        out = e.primitive.bind(*xs, **e.params)
        return out if e.primitive.multiple_results else [out]
    rule = RULES.get(e.name)
    if rule is None:
        why = " because it would result in dense output" if e.name in DENSE_RESULT.split() else ""
        raise NotImplementedError(explain(
            f"sparse rule for {e.name} is not implemented{why}.",
            where=f"In {e.source}." if e.source else None, fix=elementwise.DENSE_FIX))
    out = rule(e, xs)
    return out if e.primitive.multiple_results else [out]


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def note(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule
    return note


def _bound(e: Equation) -> Function:
    return lambda x: e.primitive.bind(x, **e.params)


@_rule(*ZERO_TO_ZERO.split())
def _zero_to_zero(e: Equation, xs: list[Any]) -> BCOO:
    if e.name == "integer_pow" and e.params["y"] <= 0:
        raise NotImplementedError(explain(
            f"sparse rule for integer_pow with non-positive exponent {e.params['y']} is not "
            "implemented because it would result in dense output.", fix=elementwise.DENSE_FIX))
    return elementwise.applied(xs[0], _bound(e))


@_rule(*LINEAR.split())
def _linear(e: Equation, xs: list[Any]) -> Any:
    if e.name == "name" and e.params.get("name") == DENSE_MARK:
        return xs[0].todense()
    if e.name == "optimization_barrier":
        return xs
    return elementwise.applied(xs[0], _bound(e), linear=True)


@_rule("add", "add_any")
def _add(e: Equation, xs: list[Any]) -> Any:
    return elementwise.add(*xs)


@_rule("sub")
def _sub(e: Equation, xs: list[Any]) -> Any:
    return elementwise.subtract(*xs)


@_rule("mul")
def _mul(e: Equation, xs: list[Any]) -> Any:
    return elementwise.multiply(*xs)


@_rule("div")
def _div(e: Equation, xs: list[Any]) -> Any:
    return elementwise.divide(xs[0], xs[1], lambda a, b: e.primitive.bind(
        a, asarray(b, a.dtype), **e.params))


@_rule("dot_general")
def _dot(e: Equation, xs: list[Any]) -> Any:
    return bcoo_dot_general(*xs, dimension_numbers=e.params["dimension_numbers"],
                            preferred_element_type=e.params["preferred_element_type"])


@_rule("conv_general_dilated")
def _convolution(e: Equation, xs: list[Any]) -> Any:
    """A dense operand has an element at each of its places."""
    lhs, rhs = (x if isinstance(x, BCOO) else BCOO.fromdense(x, nse=x.size) for x in xs)
    params = {k: v for k, v in e.params.items() if k in _CONVOLUTION}
    if all(spec == (0, 1, 2) for spec in params["dimension_numbers"]):
        params["dimension_numbers"] = None
    return bcoo_conv_general_dilated(lhs, rhs, **params)


@_rule("transpose")
def _transpose(e: Equation, xs: list[Any]) -> Any:
    return bcoo_transpose(xs[0], permutation=e.params["permutation"])


@_rule("reduce_sum")
def _reduce_sum(e: Equation, xs: list[Any]) -> Any:
    made = bcoo_reduce_sum(xs[0], axes=e.params["axes"])
    return made if made.shape else made.todense()


@_rule("reshape")
def _reshape(e: Equation, xs: list[Any]) -> Any:
    return bcoo_reshape(xs[0], new_sizes=e.params["new_sizes"])


@_rule("broadcast_in_dim")
def _broadcast(e: Equation, xs: list[Any]) -> Any:
    return bcoo_broadcast_in_dim(xs[0], shape=e.params["shape"],
                                 broadcast_dimensions=e.params["broadcast_dimensions"])


@_rule("squeeze")
def _squeeze(e: Equation, xs: list[Any]) -> Any:
    return bcoo_squeeze(xs[0], dimensions=e.params["dimensions"])


@_rule("slice")
def _slice(e: Equation, xs: list[Any]) -> Any:
    return bcoo_slice(xs[0], **e.params)


@_rule("dynamic_slice")
def _dynamic_slice(e: Equation, xs: list[Any]) -> Any:
    return bcoo_dynamic_slice(xs[0], xs[1:], e.params["slice_sizes"])


@_rule("rev")
def _rev(e: Equation, xs: list[Any]) -> Any:
    return bcoo_rev(xs[0], e.params["dimensions"])


@_rule("gather")
def _gather(e: Equation, xs: list[Any]) -> Any:
    p = e.params
    return bcoo_gather(xs[0], xs[1], p["dimension_numbers"], p["slice_sizes"], mode=p["mode"],
                       fill_value=p["fill_value"])


@_rule("concatenate")
def _concatenate(e: Equation, xs: list[Any]) -> Any:
    if not all(isinstance(x, BCOO) for x in xs):
        raise NotImplementedError(explain(
            "sparse rule for concatenate of sparse and dense arrays is not implemented.",
            fix=elementwise.DENSE_FIX))
    n_batch, n_dense = min(x.n_batch for x in xs), min(x.n_dense for x in xs)
    return bcoo_concatenate([bcoo_update_layout(x, n_batch=n_batch, n_dense=n_dense) for x in xs],
                            dimension=e.params["dimension"])


@_rule("jit", "checkpoint", "custom_partitioning")
def _call(e: Equation, xs: list[Any]) -> Any:
    return _run(e.params["jaxpr"], xs)


@_rule("custom_jvp_call", "custom_vjp_call")
def _custom(e: Equation, xs: list[Any]) -> Any:
    return _run(e.params["call_jaxpr"], xs)


@_rule("cond")
def _cond(e: Equation, xs: list[Any]) -> Any:
    branches = [lambda *ops, b=b: _run(b, ops) for b in e.params["branches"]]
    kinds = [tree_util.flatten(eval_shape(b, *xs[1:]))[1] for b in branches]
    if any(k != kinds[0] for k in kinds):
        names = ("false_fun", "true_fun") if len(kinds) == 2 else ("branch 0", "another branch")
        raise TypeError(explain(
            f"sparsified {names[1]} output must have same type structure as sparsified {names[0]} "
            f"output, got {', '.join(map(str, kinds))}.",
            fix="let all branches give sparse arrays of one format and layout, or dense ones."))
    return switch(xs[0], branches, *xs[1:])


@_rule("while")
def _while(e: Equation, xs: list[Any]) -> Any:
    p = e.params
    n, m = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    return while_loop(lambda c: _run(p["cond_jaxpr"], [*xs[:n], *c])[0],
                      lambda c: _run(p["body_jaxpr"], [*xs[n:m], *c]), xs[m:])


@_rule("scan")
def _scan(e: Equation, xs: list[Any]) -> Any:
    p = e.params
    n, m = p["num_consts"], p["num_consts"] + p["num_carry"]

    def body(carry: Any, row: Any) -> Any:
        outs = _run(p["jaxpr"], [*xs[:n], *carry, *row])
        return outs[:m - n], outs[m - n:]
    carry, rows = scan(body, xs[n:m], xs[m:], p["length"], reverse=p["reverse"],
                       unroll=p["unroll"])
    return [*carry, *rows]
