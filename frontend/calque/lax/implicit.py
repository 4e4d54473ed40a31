"""Roots and linear systems found by any method, differentiated by the implicit function theorem.

Start reading at `custom_root`; the primitive lies in primitives/implicit.py.
"""
from __future__ import annotations

from typing import Any

from calque.api.autodiff import jvp, linearize
from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import aval_of, shape_of
from calque.core.errors import explain
from calque.core.lists import flagged
from calque.core.primitive import UndefinedPrimal
from calque.core.program import Program
from calque.core.types import Function
from calque.core.zeros import instantiate, is_zero
from calque.primitives.custom import without_derivative
from calque.primitives.elementwise import neg
from calque.primitives.implicit import linear_solve_p
from calque.transforms.linearize import linearize_flat
from calque.transforms.stage import closed, replay, stage
from calque.transforms.transpose import backward
from calque.trees import util as tree_util


def custom_root(f: Function, initial_guess: Any, solve: Function,
                tangent_solve: Function, has_aux: bool = False) -> Any:
    """The root of f that `solve` finds, differentiable by what f captures.

    Args:
      f: maps a tree to one of the same structure; 0 at the root.
      initial_guess: tree of arrays; the root does not depend on it by derivative.
      solve: solve(f, initial_guess) -> root, or (root, aux) with has_aux.
      tangent_solve: tangent_solve(g, y) -> x with g(x) = y for the linear g; transposable
        (custom_linear_solve, or operations that are linear in y) for reverse mode.
      has_aux: whether solve returns something besides.

    Returns:
      What solve returned.

    Raises:
      TypeError: f's result has another structure than its argument.

    Example:
      >>> import calque
      >>> from calque import lax
      >>> def secant(f, x):
      ...     step = lambda i, x: x - f(x) / ((f(x + 0.01) - f(x)) / 0.01)
      ...     return lax.fori_loop(0, 30, step, x)
      >>> def sqrt(a):
      ...     return lax.custom_root(lambda x: x * x - a, 1.0, secant, lambda g, y: y / g(1.0))
      >>> print(sqrt(4.0), calque.grad(sqrt)(4.0))
      2.0 0.25
    """
    guess, tree = tree_util.flatten(initial_guess)

    def flat(*xs: Any) -> list[Any]:
        found, out_tree = tree_util.flatten(f(tree.unflatten(xs)))
        _same_tree("f()", out_tree, tree)
        return found

    avals = [aval_of(x) for x in guess]
    program, consts = closed(stage(flat, avals, "root"))

    def at(values: Any, x: Any) -> Any:
        return tree.unflatten(replay(program, *values, *tree_util.flatten(x)[0]))

    trees: list[Any] = []

    def solved(*xs: Any) -> list[Any]:
        out = solve(lambda x: at(consts, x), tree.unflatten(xs))
        leaves, out_tree = tree_util.flatten(out)
        trees.append(out_tree)
        _same_tree("solve()", tree_util.tree_structure(_first(out, has_aux)), tree)
        return leaves

    def moved(*values: Any) -> list[Any]:
        x, right = (tree.unflatten(half) for half in (values[:len(guess)], values[len(guess):]))
        found, out_tree = tree_util.flatten(
            tangent_solve(linearize(lambda y: at(consts, y), x)[1], right))
        _same_tree("tangent_solve()", out_tree, tree)
        return found

    # what the solvers close over are operands: they may be traced by who differentiates this
    solver, held = closed(stage(solved, avals, "solve"))
    tangent, more = closed(stage(moved, [*avals, *avals], "tangent_solve"))

    @custom_jvp
    def root(values: Any, held: Any, more: Any, start: Any) -> Any:
        return trees[0].unflatten(replay(solver, *held, *start))

    @root.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        out = root(*primals)
        values, _, more, _ = primals
        x, *aux = out if has_aux else (out,)
        _, change = jvp(lambda v: at(v, x), (values,), (tangents[0],))
        right = map(neg, tree_util.tree_leaves(change))
        found = tree.unflatten(replay(tangent, *more, *tree_util.tree_leaves(x), *right))
        if not has_aux:
            return out, found
        none = tree_util.tree_map(lambda v: instantiate(_zero(v)), aux[0])
        return out, (found, none)

    return root(list(consts), list(held), list(more), guess)


def _same_tree(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise TypeError(explain(
            f"{what} output pytree structure must match initial_guess, got {found} and {wanted}."))


def _zero(x: Any) -> Any:
    from calque.core.zeros import zero_like
    return zero_like(x)


def custom_linear_solve(matvec: Function, b: Any, solve: Function,
                        transpose_solve: Function | None = None,
                        symmetric: bool = False, has_aux: bool = False) -> Any:
    """The x with matvec(x) = b that `solve` finds, differentiable by b and what matvec captures.

    Args:
      matvec: a linear function of trees like b.
      b: tree of arrays.
      solve: solve(matvec, b) -> x, or (x, aux) with has_aux.
      transpose_solve: transpose_solve(vecmat, y) -> x with vecmat(x) = y, for reverse mode.
      symmetric: matvec is its own transpose; solve serves for both.
      has_aux: whether solve returns something besides.

    Returns:
      What solve returned.

    Raises:
      TypeError: structures differ, or reverse mode lacks transpose_solve.
      ValueError: shapes differ.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque import lax
      >>> a = jnp.array([[2.0, 0.0], [0.0, 4.0]])
      >>> x = lax.custom_linear_solve(lambda x: a @ x, jnp.ones(2),
      ...                             lambda f, b: jnp.linalg.solve(a, b), symmetric=True)
      >>> print(x)
      [0.5  0.25]
    """
    leaves, tree = tree_util.flatten(b)
    avals = [aval_of(x) for x in leaves]
    kept: list[Any] = []

    def flat(what: str, fun: Function, extra: bool = False) -> Any:
        def run(*xs: Any) -> list[Any]:
            out = fun(tree.unflatten(xs))
            aux: list[Any] = []
            if extra and has_aux:
                out, more = out
                aux, aux_tree = tree_util.flatten(more)
                kept.append(aux_tree)
            found, out_tree = tree_util.flatten(out)
            if out_tree != tree:
                raise TypeError(explain(
                    f"{what}() output pytree structure must match that of b, got {out_tree} and "
                    f"{tree}."))
            shapes = [[shape_of(x) for x in values] for values in (found, leaves)]
            if shapes[0] != shapes[1]:
                raise ValueError(explain(
                    f"{what}() output shapes must match b, got {shapes[0]} and {shapes[1]}",
                    fix="return an array of b's shape for each."))
            return [*found, *aux]
        return closed(stage(run, avals, what))

    mv, mv_consts = flat("matvec", matvec)
    call = _caller(mv, mv_consts, tree)
    forward, forward_consts = flat("solve", lambda y: solve(call, y), True)
    vm: Program | None = None
    back: Program | None = None
    vm_consts: list[Any] = []
    back_consts: list[Any] = []
    if symmetric:
        vm, vm_consts = mv, mv_consts
        back, back_consts = flat("solve", lambda y: _first(solve(call, y), has_aux))
    elif transpose_solve is not None:
        vm, vm_consts = _transposed(mv, mv_consts, avals)
        turned = _caller(vm, vm_consts, tree)
        back, back_consts = flat("transpose_solve",
                                 lambda y: _first(transpose_solve(turned, y), has_aux))
    groups = (mv_consts, vm_consts, forward_consts, back_consts)
    outs = linear_solve_p.bind(
        *[c for g in groups for c in g], *leaves, counts=tuple(len(g) for g in groups),
        matvec=mv, vecmat=vm, solve=forward, transpose_solve=back,
        aux=len(forward.outputs) - len(leaves))
    x = tree.unflatten(outs[:len(leaves)])
    return (x, kept[0].unflatten(outs[len(leaves):])) if has_aux else x


def linear_call(fun: Function, fun_transpose: Function, residual_args: Any, linear_args: Any
                ) -> Any:
    """fun(residual_args, linear_args), a function that is linear in its second argument, and of
    which fun_transpose says what its transpose is.

    Args:
      fun: fun(residuals, x) -> y, linear in x.
      fun_transpose: fun_transpose(residuals, ct) -> a cotangent of x, linear in ct; its own
        transpose is fun.
      residual_args: tree of arrays and numbers, which both take and no derivative goes through.
      linear_args: tree of floats, complex numbers among them.

    Returns:
      What fun returns.

    Raises:
      TypeError: fun or fun_transpose is no function; or, when it is transposed, fun_transpose
        returns another tree than linear_args.
      ValueError: it returns other shapes or dtypes.
      NotImplementedError: a derivative by residual_args, or by what the functions close over.

    Example:
      >>> import calque
      >>> from calque.custom_derivatives import linear_call
      >>> def halved(x):
      ...     return linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 2.0, x)
      >>> calque.linear_transpose(halved, 1.0)(3.0)
      (Array(1.5, dtype=float32, weak_type=True),)
    """
    for name, f in (("fun", fun), ("fun_transpose", fun_transpose)):
        if not callable(f):
            raise TypeError(explain(f"linear_call: {name} must be callable, got {f!r}.",
                                    fix="pass a function of (residuals, linear values)."))
    residuals = tree_util.tree_map(lambda r: without_derivative(r, _by_residual)[0], residual_args)
    leaves, tree = tree_util.flatten(linear_args)
    avals = [aval_of(x) for x in leaves]
    trees: list[Any] = []

    def forth(*xs: Any) -> list[Any]:
        outs, out_tree = tree_util.flatten(fun(residuals, tree.unflatten(xs)))
        trees.append(out_tree)
        return outs

    def back(*cts: Any) -> list[Any]:
        found, found_tree = tree_util.flatten(fun_transpose(residuals, trees[0].unflatten(cts)))
        if found_tree != tree:
            raise TypeError(explain(
                "transpose output pytree structure must match that of linear inputs, got output "
                f"structure {found_tree} and input structure {tree}.",
                fix="fun_transpose returns a tree like linear_args."))
        for i, (value, wanted) in enumerate(zip(found, avals)):
            got, cotangent = aval_of(value), wanted.cotangent()
            if (got.shape, got.dtype) != (cotangent.shape, cotangent.dtype):
                raise ValueError(explain(
                    f"Expected cotangent type {cotangent.str_short()} but got {got.str_short()} "
                    f"from fun_transpose, result {i}.",
                    fix="fun_transpose returns an array of the linear value's shape and dtype."))
        return found

    forward = stage(forth, avals, "linear_call")
    backward_ = stage(back, [o.cotangent() for o in forward.out_avals], "linear_call transpose")
    programs, consts = [], []
    for p in (forward, backward_):
        program, captured = closed(p)
        programs.append(program)
        consts.append([without_derivative(c, _by_residual)[0] for c in captured])
    outs = linear_solve_p.bind(
        *consts[0], *consts[1], *leaves, counts=(0, 0, len(consts[0]), len(consts[1])),
        matvec=None, vecmat=None, solve=programs[0], transpose_solve=programs[1], aux=0)
    return trees[0].unflatten(outs)


def _by_residual(*_: Any) -> Any:
    raise NotImplementedError(explain(
        "linear_call: derivative by residual_args, or by a value that fun closes over, which its "
        "transpose says nothing of.",
        fix="put linear_call into the rule of a custom_jvp, where only tangents are linear_args."))


def _first(out: Any, has_aux: bool) -> Any:
    return out[0] if has_aux else out


def _caller(program: Program, consts: list[Any], tree: Any) -> Function:
    def call(x: Any) -> Any:
        return tree.unflatten(replay(program, *consts, *tree_util.flatten(x)[0]))
    return call


def _transposed(program: Program, consts: list[Any], avals: Any) -> tuple[Program, list[Any]]:
    """The transpose of a linear Program, with what it captures."""
    def run(*cts: Any) -> list[Any]:
        zeros = [instantiate(_zero(c)) for c in cts]
        _, mask, linear = linearize_flat(
            lambda *xs: replay(program, *consts, *xs), zeros, [True] * len(zeros))
        given = flagged(cts, mask)
        found = backward(linear, [UndefinedPrimal(v.aval) for v in linear.inputs], given)
        return [instantiate(f) if is_zero(f) else f for f in found]

    return closed(stage(run, avals, "vecmat"))


__all__ = ["custom_linear_solve", "custom_root"]
