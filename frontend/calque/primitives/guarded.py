"""Changes of an array that are made or not: steps of a loop that goes on in some rows of a batch
only, and what lowering finds (passes/choices), without a choice over whole arrays.

`vmap` of a while loop goes on while one row does, and keeps what the other rows have: a choice
between old and new for each array of the carry, in every step.  Where a step writes a few elements
of a large one (`x.at[i].set(v)`), that choice is all of the work.  So the other rows write what is
there already, and no choice is needed.  Start reading at `step`, then `writing`.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, ndim_of, shape_of
from calque.core.config import config
from calque.core.evaluate import each
from calque.core.program import Atom, Equation, Program
from calque.core.words import forms
from calque.primitives import elementwise as ew
from calque.primitives import index as ix
from calque.primitives import shape as sh
from calque.primitives.gather import GatherDimensionNumbers, gather
from calque.transforms.stage import stage

FEW = 4  # times the elements that are written: an array is large from here on
# what changes no element (-0.0 + 0.0 is 0.0)
_NOTHING: dict[str, complex] = {"scatter-add": complex(-0.0, -0.0), "scatter-sub": 0,
                                "scatter-mul": 1}
_UPDATES = frozenset((*_NOTHING, "scatter", "scatter-min", "scatter-max", "dynamic_update_slice"))


def step(body: Program, go: Any, consts: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
    """What a step of `body` gives in the rows that go on, and the others' carry: rows are along the
    first axes of each array, `go` says for each whether it goes on.

    A value that the body makes of a member of the carry by writing into it holds the others' rows
    as they are; whatever else is computed of it there is not used.  A loop within could wait for
    what was written: it is not where one reads it.
    """
    read = _read_beside_loops(body)
    came = {id(x): i for i, x in enumerate(carry)}  # of which member a value is a later state
    kept = list(carry)  # (an id is a value's as long as it lives)

    def one(e: Equation, xs: list[Any]) -> Sequence[Any]:
        guarded = _updates(e, go) if xs and id(xs[0]) in came and read.isdisjoint(e.outputs) else (
            None)
        if guarded is not None:
            xs = [xs[0], *guarded(*xs[1:], x=xs[0])]
        out = e.primitive.bind(*xs, **e.params)
        if guarded is not None:
            came[id(out)] = came[id(xs[0])]
            kept.append(out)
        made: Sequence[Any] = out if e.primitive.multiple_results else [out]
        return made

    made = each(body, [*body.consts, *consts, *carry], lambda a: a.value, one)
    return [new if came.get(id(new)) == i else ew.select_n(_spread(go, shape_of(old)), old, new)
            for i, (old, new) in enumerate(zip(carry, made))]


def holds_updates(body: Program, rows: int) -> bool:
    """Whether a step writes a small part of an array whose first axes are the rows."""
    read = _read_beside_loops(body)
    return any(e.name in _UPDATES and _places(e, rows) is not None and read.isdisjoint(e.outputs)
               for e in body.equations)


def _read_beside_loops(p: Program) -> set[Atom]:
    """What is read by others than updates, where the data decides when something ends."""
    if not _waits(p):
        return set()
    return {a for e in p.equations for k, a in enumerate(e.inputs) if k or e.name not in _UPDATES}


def _waits(p: Program) -> bool:
    return any(e.name == "while" or any(map(_waits, e.inner)) for e in p.equations)


def _updates(e: Equation, go: Any) -> Any:
    """What makes the other operands of an update those that leave the rows alone which do not go
    on; None where the rows of what is written are not known, or it is no small part."""
    places = _places(e, ndim_of(go)) if e.name in _UPDATES else None
    return None if places is None else functools.partial(_guarded, e, go, places)


def _guarded(e: Equation, go: Any, places: Sequence[int] | None, *others: Any, x: Any,
             axes: Sequence[int] = ()) -> list[Any]:
    scatters = e.name != "dynamic_update_slice"
    new, *at = others[::-1] if scatters else others

    def there(x: Any) -> Any:
        return _gathered(e, x, at[0]) if scatters else ix.dynamic_slice(x, at, shape_of(new))

    mask = there(_spread(go, shape_of(x), axes)) if places is None else sh.broadcast_in_dim(
        go, shape_of(new), tuple(places))
    if e.name in _NOTHING:
        exact = not dtypes.is_inexact(aval_of(new).dtype)
        number = _NOTHING[e.name]
        old = ew.match_shape(ew.const(new, int(number.real) if exact else number), shape_of(new))
    else:
        old = there(x)
    chosen = ew.select_n(mask, old, new)
    return [at[0], chosen] if scatters else [chosen, *at]


def writing(e: Equation, axes: Sequence[int]) -> Program | None:
    """From whether an update is to be, for each place along these axes of the array, and its
    operands: all but the first so that what is not to be leaves the array as it is.  None where it
    is no small part of that."""
    x, *others = [a.aval for a in e.inputs]
    new = others[0 if e.name == "dynamic_update_slice" else 1]
    if e.is_dynamic or x.size < FEW * new.size or dtypes.is_key(x.dtype):
        return None
    go = ShapedArray(tuple(x.shape[i] for i in axes), dtypes.bool_)
    first = list(axes) == list(range(len(axes)))
    places = _places(e, len(axes)) if first else None
    with config.context("jax_enable_x64", True):  # (every number has the dtype that it says)
        return stage(lambda go, x, *others: _guarded(e, go, places, *others, x=x, axes=axes),
                     [go, x, *others], "guarded")


def _gathered(e: Equation, x: Any, indices: Any) -> Any:
    """What is at the places that a scatter writes to."""
    d = e.params["dimension_numbers"]
    single = {*d.inserted_window_dims, *d.operand_batching_dims}
    window = iter(d.update_window_dims)
    updates = e.inputs[2].aval.shape
    return gather(x, indices, GatherDimensionNumbers(
        d.update_window_dims, d.inserted_window_dims, d.scatter_dims_to_operand_dims,
        d.operand_batching_dims, d.scatter_indices_batching_dims),
        [1 if i in single else updates[next(window)] for i in range(ndim_of(x))],
        mode=e.params["mode"])


def _places(e: Equation, rows: int) -> list[int] | None:
    """Which axes of what an update writes are the rows, the first axes of what it writes into."""
    x = e.inputs[0].aval
    new = e.inputs[1 if e.name == "dynamic_update_slice" else 2].aval
    if e.is_dynamic or x.ndim < rows or x.size < FEW * new.size:
        return None
    if e.name == "dynamic_update_slice":
        return list(range(rows)) if new.shape[:rows] == x.shape[:rows] else None
    d = e.params["dimension_numbers"]
    windows = [i for i in range(x.ndim)
               if i not in d.inserted_window_dims and i not in d.operand_batching_dims]
    others = [i for i in range(new.ndim) if i not in d.update_window_dims]
    found = []
    for row in range(rows):
        if row in d.operand_batching_dims:
            k = d.operand_batching_dims.index(row)
            found.append(others[d.scatter_indices_batching_dims[k]])
        elif row in windows and row not in d.scatter_dims_to_operand_dims:
            axis = d.update_window_dims[windows.index(row)]
            if new.shape[axis] != x.shape[row]:
                return None
            found.append(axis)
        else:
            return None
    return found if found == sorted(found) else None


def _spread(go: Any, shape: Sequence[int], axes: Sequence[int] | None = None) -> Any:
    return sh.broadcast_in_dim(go, tuple(shape), tuple(
        range(ndim_of(go)) if axes is None else axes))


forms.writes_rows, forms.guarded = holds_updates, writing

__all__ = ["step"]
