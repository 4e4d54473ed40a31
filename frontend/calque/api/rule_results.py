"""What functions with rules of their own say of results that do not fit: JAX's phrases.

Used by custom_derivatives.  Start reading at `primal_error`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.trees import util as tree_util

_FIRST = {
    "JVP": "the primal output (equal in value to the output of the custom_jvp-decorated function "
           "{name}{same})",
    "VJP fwd": "the primal output (equal to the output of the custom_vjp-decorated function {name})"
               " and the second element represents residuals (i.e. values stored from the forward "
               "pass for use on the backward pass)"}


def primal_error(kind: str, rule: str, name: str, have: tuple[Any, Sequence[Any]],
                 want: tuple[Any, Sequence[ShapedArray]]) -> TypeError | None:
    """The error where a rule's primal results are not of the function's structure and types; kind:
    "JVP" or "VJP fwd"; have, want: structures and leaves."""
    (tree, leaves), (want_tree, avals) = have, want
    found = [aval_of(x) for x in leaves]
    if tree != want_tree:
        what, same = "container/pytree structure", ", and in particular of the same {what}"
    elif [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in avals]:
        what, same = "shapes/dtypes", ", and in particular with leaves of the same shape/dtype"
    else:
        return None
    first = _FIRST[kind].format(name=name, same=same.format(what=what))
    verb, of = ("", " of") if what == "shapes/dtypes" else ("", "")
    output = f"{'fwd' if kind == 'VJP fwd' else 'JVP'} rule output's first element"
    return TypeError(explain(
        f"Custom {kind} rule {rule} for function {name} must produce a pair (list or tuple of "
        f"length two) where the first element represents {first}, but instead the {output} had "
        f"{what}{of}:{verb}\n    {_shown(tree, found)}\nwhile the custom_{kind[:3].lower()}-"
        f"decorated function {name} had output {what}{of}:\n    {_shown(want_tree, avals)}.",
        fix="return what the function returns as the first element of the pair."))


def _shown(tree: Any, avals: Sequence[ShapedArray]) -> str:
    return str(tree_util.tree_map(_Text, tree.unflatten(list(avals))))


class _Text:
    """A type as it stands in a tree's text."""

    def __init__(self, aval: ShapedArray) -> None:
        self.text = str(aval)

    def __repr__(self) -> str:
        return self.text


def cotangent_error(path: str, have: ShapedArray, want: ShapedArray, argument: ShapedArray,
                    symbolic: bool) -> ValueError:
    """The error of a backward rule whose cotangent does not fit the argument; path: where."""
    if symbolic:
        return ValueError(explain(
            "Custom VJP bwd rule produced a SymbolicZero with a shape/dtype that does not match "
            f"the corresponding input tangent shape/dtype: at output{path} the SymbolicZero had "
            f"shape/dtype {have} while the corresponding input had shape/dtype "
            f"{want}. Consider just returning a None here instead of a SymbolicZero "
            "object.", fix="return None there."))
    what = "shapes" if have.shape != want.shape else (
        "dtypes" if have.dtype != want.dtype else "manual axis types")
    return ValueError(explain(
        "Custom VJP bwd rule must produce an output with the same type as the args tuple of the "
        f"primal function, but at output{path} the bwd rule produced an output of type "
        f"{have} corresponding to an input of type {argument}, so the "
        f"{what} do not match", fix=f"return a cotangent of type {want} there."))
