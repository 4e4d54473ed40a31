"""Keys that are used twice (jax_debug_key_reuse): KeyReuseError before the draw.

Each element of a key array has a number.  Views carry numbers on, draws and splits use them up, and
what makes keys gives new ones; a Program is walked with them when it is first called, and arrays
remember which of their elements are used up.  What has no rule below (a gather at a computed
place, a primitive of somebody's own) gives new numbers: there may be reuse that is not found, none
is told that is none.  Keys of the old kind (uint32) are not looked at.  Start reading at `check`.
"""
from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.errors import KeyReuseError, explain
from calque.core.naming import name_of
from calque.core.program import Equation, Literal, Program
from calque.core.types import Ndarray
from calque.dispatch.array import Array
from calque.dispatch.tracing import trace_to_program
from calque.trees import util as tree_util

Numbers = Ndarray  # of the elements of a key array, in its shape

_DRAWS = frozenset(("random_bits", "random_split"))
CLONED = "random.clone"  # what random.clone notes in a program
_VIEWS: dict[str, Callable[[Any, list[Numbers]], Numbers]] = {
    "reshape": lambda p, xs: xs[0].reshape(p["new_sizes"]),
    "squeeze": lambda p, xs: xs[0].squeeze(tuple(p["dimensions"])),
    "transpose": lambda p, xs: xs[0].transpose(p["permutation"]),
    "rev": lambda p, xs: np.flip(xs[0], tuple(p["dimensions"])),
    "slice": lambda p, xs: xs[0][tuple(itertools.starmap(slice, zip(
        p["start_indices"], p["limit_indices"], p["strides"] or (1,) * xs[0].ndim)))],
    "concatenate": lambda p, xs: np.concatenate(xs, p["dimension"]),
    "broadcast_in_dim": lambda p, xs: _spread(xs[0], p["shape"], p["broadcast_dimensions"])}
_SAME = frozenset(("copy", "optimization_barrier", "convert_element_type", "stop_gradient",
                   "sharding_constraint", "name"))

# id of an array -> a reference that ends with it, and which of its elements are used up
_used: dict[int, tuple[weakref.ref[Any], Ndarray]] = {}


def _spread(x: Numbers, shape: Sequence[int], axes: Sequence[int]) -> Numbers:
    wide = [1] * len(shape)
    for axis, n in zip(axes, x.shape):
        wide[axis] = n
    return np.broadcast_to(x.reshape(wide), shape)


def used(x: Any) -> Ndarray:
    """Which elements of a key array are used up."""
    found = _used.get(id(x))
    return np.zeros(x.shape, bool) if found is None or found[0]() is not x else found[1]


def _use(x: Any, which: Ndarray) -> None:
    number = id(x)
    _used[number] = weakref.ref(x, lambda _: _used.pop(number, None)), used(x) | which


def check(program: Program, values: Sequence[Any]) -> Callable[[Sequence[Any]], None]:
    """Raises where a call of a Program on values (its constants first) uses a key twice; what is
    returned notes which keys of the arguments and results are used up.

    Raises:
      KeyReuseError: a key was used before, or is used twice by the Program.
    """
    walk: _Walk = program.derived("key reuse", lambda: _Walk(program))
    for i, (x, takes) in enumerate(zip(values, walk.taken)):
        if takes is not None and type(x) is Array and (used(x) & takes).any():
            raise KeyReuseError(explain(
                f"Previously-consumed key passed to jit-compiled function at index {i}",
                fix="split the key, and draw once from each of the new ones."))

    def note(results: Sequence[Any]) -> None:
        for x, takes in zip(values, walk.taken):
            if takes is not None and type(x) is Array:
                _use(x, takes)
        for x, gone in zip(results, walk.given):
            if gone is not None and type(x) is Array:
                _use(x, gone)
    return note


def _is_key(aval: Any) -> bool:
    return dtypes.is_key(aval.dtype)


class _Walk:
    """What a Program takes of its constants and inputs, and which of its results are used up."""

    def __init__(self, p: Program) -> None:
        self.next, self.gone = 0, set[int]()
        self.again = set[int]()  # what a checkpoint uses up, which its gradient computes anew
        self.inside = False  # such a gradient
        inputs = [*p.const_vars, *p.inputs]
        given = [self._new(v.aval) if _is_key(v.aval) else None for v in inputs]
        results = self.run(p, given)
        self.taken = [self._which(n) for n in given]
        self.given = [self._which(n) for n in results]

    def _new(self, aval: Any) -> Numbers:
        first, self.next = self.next, self.next + aval.size
        return np.arange(first, self.next).reshape(aval.shape)

    def _which(self, numbers: Numbers | None) -> Ndarray | None:
        return None if numbers is None else np.isin(numbers, list(self.gone))

    def _use(self, numbers: Numbers, what: str) -> None:
        gone = self.gone - self.again if self.inside else self.gone
        if not gone.isdisjoint(numbers.flat):
            raise KeyReuseError(explain(
                f"In {what}", fix="split the key, and draw once from each of the new ones."))
        self.gone.update(numbers.flat)

    def run(self, p: Program, given: Sequence[Numbers | None]) -> list[Numbers | None]:
        """The numbers of the results, for those of constants and inputs."""
        env: dict[Any, Numbers | None] = dict(zip([*p.const_vars, *p.inputs], given))

        def read(a: Any) -> Numbers | None:
            if not _is_key(a.aval):
                return None
            found = None if isinstance(a, Literal) else env.get(a)
            return self._new(a.aval) if found is None else found
        for e in p.equations:
            outs = self._equation(e, [read(a) for a in e.inputs])
            for v, n in zip(e.outputs, outs):
                env[v] = (self._new(v.aval) if n is None else n) if _is_key(v.aval) else None
        return [read(a) for a in p.outputs]

    def _equation(self, e: Equation, xs: list[Numbers | None]) -> Sequence[Numbers | None]:
        keys, p, none = [x for x in xs if x is not None], e.params, [None] * len(e.outputs)
        if e.name in _DRAWS:
            for k, x in enumerate(xs):
                if x is not None:
                    self._use(x, f"{e.name}, argument {k} is already consumed.")
            return none
        if e.name in ("cond", "while", "scan"):
            return {"cond": self._cond, "while": self._while, "scan": self._scan}[e.name](e, xs)
        if e.name == "name" and p.get("name") == CLONED:
            return none
        if e.name in _SAME and len(xs) == len(e.outputs):
            return xs
        if keys and e.name in _VIEWS and len(e.outputs) == 1:
            return [_VIEWS[e.name](p, keys)]
        inner = next((p[k] for k in ("jaxpr", "call_jaxpr") if isinstance(
            p.get(k), Program)), None)
        if inner is None or len(inner.inputs) != len(xs) or len(inner.outputs) != len(e.outputs):
            return none
        before, gone = self.inside, set(self.gone)
        self.inside = before or bool(e.name == "checkpoint" and p.get("differentiated"))
        outs = self.run(inner, [*self._constants(inner), *xs])
        self.inside = before
        if e.name == "checkpoint":
            self.again |= self.gone - gone
        return outs

    def _constants(self, p: Program) -> list[Numbers | None]:
        return [self._new(v.aval) if _is_key(v.aval) else None for v in p.const_vars]

    def _cond(self, e: Equation, xs: list[Numbers | None]) -> Sequence[Numbers | None]:
        """What one of the branches uses up."""
        before, after = set(self.gone), set(self.gone)
        outs: list[list[Numbers | None]] = []
        for branch in e.params["branches"]:
            self.gone = set(before)
            outs.append(self.run(branch, [*self._constants(branch), *xs[1:]]))
            after |= self.gone
        self.gone = after
        return [column[0] if all(n is not None and np.array_equal(n, column[0]) for n in column)
                else self._joined(column) for column in zip(*outs)]

    def _joined(self, column: Sequence[Numbers | None]) -> Numbers | None:
        """New numbers for one of several arrays; used up where one of them is."""
        first = next((n for n in column if n is not None), None)
        if first is None:
            return None
        made = np.arange(self.next, self.next + first.size).reshape(first.shape)
        self.next += first.size
        for n in column:
            if n is not None and n.shape == made.shape:
                self.gone.update(made[np.isin(n, list(self.gone))].tolist())
        return made

    def _step(self, body: Program, consts: Sequence[Numbers | None], carry: Sequence[Any],
              rows: Sequence[Any], times: int | None, what: str) -> list[Numbers | None]:
        """Runs a body once; times: how often it runs, None where that is not known."""
        again = times is None or times > 1
        before = set(self.gone)
        outs = self.run(body, [*self._constants(body), *consts, *carry, *rows])
        taken = self.gone - before
        for n in consts if again else ():
            if n is not None and not taken.isdisjoint(n.flat):
                raise KeyReuseError(explain(
                    f"{what} leads to key reuse when repeatedly executed, because key constants "
                    "are repeatedly consumed.", fix="carry a key, and split it in each step."))
        for n in outs[:len(carry)] if again else ():
            if n is not None and not self.gone.isdisjoint(n.flat):
                raise KeyReuseError(explain(
                    f"{what} leads to key reuse when repeatedly executed: a key that it hands on "
                    "is consumed.", fix="hand on a key that was split off."))
        return outs

    def _scan(self, e: Equation, xs: list[Numbers | None]) -> Sequence[Numbers | None]:
        p = e.params
        n, m = p["num_consts"], p["num_consts"] + p["num_carry"]
        rows = [None if x is None else self._new(v.aval) for x, v in zip(
            xs[m:], p["jaxpr"].inputs[m:])]
        outs = self._step(p["jaxpr"], xs[:n], xs[n:m], rows, p["length"],
                          "scan body function")
        for x, row in zip(xs[m:], rows):
            if x is not None and row is not None and not self.gone.isdisjoint(row.flat):
                self._use(x, "scan, an array of keys is already consumed.")
        return [*outs[:m - n], *[None] * (len(e.outputs) - (m - n))]

    def _while(self, e: Equation, xs: list[Numbers | None]) -> Sequence[Numbers | None]:
        p = e.params
        n, m = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
        before = set(self.gone)
        self.run(p["cond_jaxpr"], [*self._constants(p["cond_jaxpr"]), *xs[:n], *xs[m:]])
        if self.gone != before:
            raise KeyReuseError(explain(
                "while_loop cond function leads to key reuse when repeatedly executed: it consumes "
                "a key.", fix="draw in the body, and carry what was drawn."))
        return self._step(p["body_jaxpr"], xs[n:m], xs[m:], [], None,
                          "while_loop body function")


def called(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
           run: Callable[[], Any]) -> Any:
    """run(), an eager call of f, with the keys among its arguments checked and noted."""
    leaves, tree = tree_util.flatten((args, kwargs))
    keys = [i for i, x in enumerate(leaves) if type(x) is Array and _is_key(x.aval)]
    if not keys:
        return run()

    def of_keys(*values: Any) -> Any:
        places = dict(zip(keys, values))
        a, k = tree.unflatten([places.get(i, x) for i, x in enumerate(leaves)])
        return f(*a, **k)

    avals = [leaves[i].aval for i in keys]
    program = trace_to_program(of_keys, tree_util.flatten((tuple(avals), {}))[1], avals,
                               name_of(f), "key_reuse")[0]
    note = check(program, [*program.consts, *[leaves[i] for i in keys]])
    out = run()
    note(tree_util.tree_leaves(out))
    return out


__all__ = ["CLONED", "called", "check", "used"]
