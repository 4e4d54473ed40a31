"""Numbers that are multiplied by bools: a choice between the number and 0, as under JAX.

`mask * scores` drops what the mask does not name, though a score be infinite or NaN, and
`(mask == 0) * -inf` is what is added to scores in the place of a mask: programs rely on both, where
arithmetic of floats says that 0 times infinity is NaN.  XLA reads a product with a bool that was
converted in the same program as a choice, for dtypes that it multiplies as they are; so do we.
What is broadcast behind its conversion stays a product there, and here.  Start reading at
`with_masks_chosen`.
"""
from __future__ import annotations

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.program import Atom, Equation, Literal, Program
from calque.lowering.passes.replacement import Replacement


def with_masks_chosen(p: Program) -> Program:
    """p with select_n in the place of such products, at any depth."""
    return p.derived("masks chosen", lambda: _with_masks_chosen(p))


def _with_masks_chosen(p: Program) -> Program:
    masks: dict[Atom, Atom] = {}  # a bool by the number that it was converted to
    equations: list[Equation] = []
    for e in p.equations:
        if e.name == "convert_element_type" and dtypes.chooses(
                e.inputs[0].aval.dtype, e.outputs[0].aval.dtype):
            masks[e.outputs[0]] = e.inputs[0]
        equations += _choice(e, masks) or [e.with_inner(with_masks_chosen)]
    same = len(equations) == len(p.equations) and all(
        a is b for a, b in zip(equations, p.equations))
    return p if same else p.replace(equations=equations)


def _choice(e: Equation, masks: dict[Atom, Atom]) -> list[Equation] | None:
    """The equations of a product with a mask of its result's shape."""
    if e.name != "mul":
        return None
    out, made = e.outputs[0].aval, Replacement(e)
    for number, other in (e.inputs, e.inputs[::-1]):
        if number in masks and number.aval.shape == out.shape:
            zero = Literal(out.dtype.type(0), ShapedArray((), out.dtype))
            return made.ending(made.emit("select_n", [
                masks[number], *[made.spread(a, out.shape, ()) for a in (zero, other)]],
                out.shape, out.dtype))
    return None


__all__ = ["with_masks_chosen"]
