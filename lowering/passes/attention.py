"""Products, what is computed of their rows, and products of that, block of rows by block of rows:
softmax(q k^T) v and its gradient without a square matrix in memory.

The middle is a group of passes/rows whose folds go along the last axis of its space.  What it reads
of the whole space are products (scores), what it gives of the whole space is read by products
alone, which sum along its last axis (one row of the result a row) or along the one before it (each
block of rows adds to the result).  A softmax that others read, too, such as the products of a
gradient, is computed once more beside them: a product and an exponential of what is in a core's
cache cost less than writing and reading it (Dao et al., "FlashAttention", NeurIPS 2022).  Rows are
whole, so that nothing has to be corrected by a maximum that is found later.  Start reading at
`attention`, then `_Region.close`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

from calque.core.lists import other_axes
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Program, Var
from calque.core.types import Axes
from calque.lowering.emit.dtypes import F32, F64, HALVES
from calque.lowering.passes.graph import Graph
from calque.lowering.passes.rows import Rows, with_unit_axes

LEAST_ROWS, LEAST_COLUMNS = 16, 128
LEAST, LEAST_AGAIN = 1 << 16, 1 << 20  # elements of the space; of what is computed once more
DEEP, LONG = 32, 512  # products of an element, or columns, from which on vectors are full
MOST_DEPTH = 256  # products that an element of a square is the sum of
MOST_AGAIN = 128  # the same of one that is computed once more
MOST_PACKED = 1 << 22  # numbers of what all rows of a matrix are multiplied by
SUMMED, ALONE = -2, -3  # what an axis of an operand is that no axis of the space is: -1, of size 1


@dataclass(frozen=True, slots=True)
class Product:
    """A product that a region takes.

    left, right: its operands' positions among the region's inputs; -1 of what the middle gives.
    left_axes, right_axes, axes: of the operands and of the result, for each axis the one of the
      space that it is, or SUMMED, ALONE (of one operand and the result), -1 (of size 1).
    middle: the position among the middle's inputs that it is, or among its outputs that it reads.
    result: the position among the region's outputs, -1 of what the middle reads.
    """

    left: int
    right: int
    left_axes: Axes
    right_axes: Axes
    axes: Axes
    middle: int
    result: int = -1


@dataclass(frozen=True, slots=True)
class Attention:
    """How a region lies: the middle and its space, where the middle's inputs are among the region's
    (-1: a product) and its outputs (-1: read by products alone)."""

    middle: Program
    rows: Rows
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scores: tuple[Product, ...]
    products: tuple[Product, ...]


def attention(graph: Graph, results: set[Var]) -> bool:
    """Make regions of the groups of a program, where that pays; whether there was one."""
    found = False
    for i in sorted(graph.live, key=graph.position.__getitem__):
        if i not in graph.live or not _is_middle(graph.equations[i]):
            continue
        regions = _plan(graph, i, results)
        for region in regions:
            region.contract()
        found |= bool(regions)
    return found


def _is_middle(e: Equation) -> bool:
    rows = e.params.get("rows")
    if not isinstance(rows, Rows) or len(rows.sizes) < 2:
        return False
    if any(q.name == "gather" for q in e.params["jaxpr"].equations):
        return False  # (what a tile has is not at places of its own)
    last = len(rows.sizes) - 1
    return (rows.folded == {last} and rows.sizes[-1] >= LEAST_COLUMNS
            and rows.sizes[-2] >= LEAST_ROWS and math.prod(rows.sizes) >= LEAST)


def _plan(graph: Graph, i: int, results: set[Var]) -> list[_Region]:
    """The region around a group, and the one that computes it once more for those who read it
    later; none where a square stays in memory."""
    e = graph.equations[i]
    first = _Region(graph, e, i, results)
    if not first.open():
        return []
    left = first.close()
    if left is None:
        return []
    if not left:
        first.members |= set(first.views)
        return [first] if first.products else []
    others = [u for u in left if _is_middle(graph.equations[u])]
    if len(others) != 1 or math.prod(first.rows.sizes) < LEAST_AGAIN:
        return []
    second = _Region(graph, graph.equations[others[0]], others[0], results, again=e)
    if not second.open() or second.close(left - set(others)) is None:
        return []
    taken = first.members | set(first.views) | set(second.views)
    inside = {v for u in taken for v in graph.equations[u].outputs} - set(first.small)
    computed = {v for _, v, _ in second.scores}
    if not second.complete or not inside.isdisjoint(set(second.given) - computed):
        return []  # (a product that is too deep to be computed once more, or a view of a square)
    # each view goes with one of them
    if first.products:
        first.members |= set(first.views)
        second.members |= set(second.views) - set(first.views)
        return [first, second]
    second.members |= first.members | set(first.views) | set(second.views)  # the gradient alone
    for v in first.small:  # numbers of a row that others read
        if v in results or not graph.users.get(v, set()) <= second.members:
            second.small.add(v)
            second.wanted.append(v)
    return [second] if graph.is_convex(second.members) else []


class _Region:
    """A middle and the products around it."""

    def __init__(self, graph: Graph, e: Equation, i: int, results: set[Var],
                 again: Equation | None = None) -> None:
        self.graph, self.e, self.results, self.again = graph, e, results, again
        self.rows: Rows = e.params["rows"]
        self.members = {i}
        inner: Program = e.params["jaxpr"]
        self.equations, self.made, self.reads = list(inner.equations), *map(list, (
            self.rows.made, self.rows.reads))
        self.given = list(inner.inputs)
        self.wanted = [v for v in inner.outputs if isinstance(v, Var)]
        self.copied: list[Equation] = []  # equations of others, which are computed here once more
        self.scores: list[tuple[Equation, Var, Axes]] = []
        # what they read of the middle, and as what, whose axes are these
        self.products: list[tuple[Equation, Var, Var, Axes]] = []
        self.views: dict[int, Equation] = {}  # between the middle and products
        self.complete = False
        self.small = {v for v in e.outputs if not self._is_full(self._axes_of(v))}

    def _is_full(self, axes: Axes) -> bool:
        return {a for a in axes if a >= 0} == set(range(len(self.rows.sizes)))

    def open(self) -> bool:
        """Find the products that the middle reads."""
        if self.again is not None and not self._repeat(self.again):
            return False
        known: dict[Atom, set[Axes]] = {}
        for q, reads in zip(self.equations, self.reads):
            for a, axes in zip(q.inputs, reads):
                known.setdefault(a, set()).add(axes)
        for v in self.given:
            every = known.get(v, set())
            if len(every) != 1 or not self._is_full(next(iter(every))):
                continue
            found = self._score(v, next(iter(every)))
            if found is not None:
                self.scores.append((found[0], v, found[1]))
        return bool(self.scores)

    def _repeat(self, e: Equation) -> bool:
        """Take the equations of another group over the same space before one's own."""
        rows: Rows = e.params["rows"]
        if (rows.sizes, rows.folded) != (self.rows.sizes, self.rows.folded):
            return False
        inner: Program = e.params["jaxpr"]
        made = {v for q in inner.equations for v in q.outputs}
        self.given = list(dict.fromkeys([*inner.inputs, *[v for v in self.given if v not in made]]))
        self.equations = [*inner.equations, *self.equations]
        self.made, self.reads = [*rows.made, *self.made], [*rows.reads, *self.reads]
        return True

    def _score(self, v: Var, axes: Axes) -> tuple[Equation, Axes] | None:
        """The product that a value of the whole space is, maybe with its axes in another order,
        and the axes of the space that its own are."""
        graph, members, copied = self.graph, list[int](), list[int]()
        while True:
            i = graph.producer.get(v, -1)
            if i < 0:
                return None
            e = graph.equations[i]
            alone = (i in graph.live and v not in self.results
                     and graph.users.get(v, set()) <= self.members | set(members)
                     and graph.is_convex({*self.members, *members, i}))
            (members if alone else copied).append(i)
            if e.name == "dot_general":
                break
            before = _through(e, axes, back=True)
            if before is None:
                return None
            (a,), axes = e.inputs, before
            if not isinstance(a, Var):
                return None
            v = a
        if not _is_plain(e) or e.outputs[0].aval.dtype not in (F32, F64):
            return None
        sides, last = _sides(e, axes), len(self.rows.sizes) - 1
        if sorted((last - 1 in s) - (last in s) for s in sides) != [-1, 1]:
            return None  # (one operand has rows, the other columns)
        (xc, _), _ = e.params["dimension_numbers"]
        sizes = [e.inputs[0].aval.shape[k] for k in xc]
        if math.prod(sizes) != max(sizes, default=1) or copied and self.again is None:
            return None
        if not _is_small(max(sizes, default=1), self.rows.sizes[-1],
                         MOST_AGAIN if copied else MOST_DEPTH):
            return None
        self.members |= set(members)
        self.copied += [graph.equations[j] for j in (*copied, *members)]
        return e, axes

    def close(self, rest: Set[int] = frozenset()) -> set[int] | None:
        """Take the products that read what the middle gives, maybe with its axes in another order;
        those who read the whole space and are not taken.  None where a value of the whole space
        stays in memory.  `rest`: those who read what is computed once more."""
        graph, missing = self.graph, set[int]()
        shared = [] if self.again is None else [
            v for v in self.again.outputs if self._is_full(self._axes_of(v))]
        own = [v for v in self.e.outputs if v not in self.small]
        if not own:
            return None
        waiting = [(v, v, self._axes_of(v)) for v in (*shared, *own)]
        while waiting:
            source, v, axes = waiting.pop()
            if v in self.results:
                return None
            for u in sorted(graph.users.get(v, set()), key=graph.position.__getitem__):
                e = graph.equations[u]
                after = _through(e, axes)
                if after is not None:
                    self.views[u] = e
                    waiting.append((source, e.outputs[0], after))
                elif source in shared and u not in rest:
                    continue
                elif self._take(u, v, axes):
                    self.products.append((e, source, v, axes))
                    if source in shared and source not in self.wanted:
                        self.wanted.append(source)
                else:
                    missing.add(u)
        self.complete = not missing
        return missing

    def _axes_of(self, v: Var) -> Axes:
        return next(made for q, made in zip(self.equations, self.made) if q.outputs[0] is v)

    def _take(self, u: int, v: Var, axes: Axes) -> bool:
        """Take a product that reads a value of the middle, where it is one that a block of rows
        gives rows of, or adds to."""
        e, last = self.graph.equations[u], len(self.rows.sizes) - 1
        if e.name != "dot_general" or not _is_plain(e) or sum(a is v for a in e.inputs) != 1:
            return False
        side = 0 if e.inputs[0] is v else 1
        (c, b) = e.params["dimension_numbers"]
        summed = {axes[i] for i in c[side] if axes[i] >= 0}
        other = e.inputs[1 - side]
        free = [i for i in other_axes(other.aval.ndim, c[1 - side], b[1 - side])
                if other.aval.shape[i] > 1]
        if len(free) > 1 or not _is_small(math.prod(other.aval.shape[i] for i in free),
                                          self.rows.sizes[-1], MOST_DEPTH):
            return False
        shape = [axes[i] for i in b[side]]
        own = [axes[i] for i in other_axes(len(axes), c[side], b[side])]
        if last - 1 in shape or last in shape or not (
                summed == {last} or last - 1 in summed and {a for a in own if a >= 0} == {last}):
            return False
        made = [a for a in _result_axes(e, v, axes) if a != -1]
        if ALONE in made and made[-1] not in (ALONE, last - 1 if summed == {last} else last):
            return False  # neither its rows nor its columns lie side by side
        if not self.graph.is_convex({*self.members, *self.views, u}):
            return False
        self.members.add(u)
        return True

    def _needed(self, products: Sequence[Equation]) -> set[Atom]:
        """What products read, and the views that make it."""
        found = {a for e in products for a in e.inputs}
        for u in sorted(self.views, key=self.graph.position.__getitem__, reverse=True):
            if self.views[u].outputs[0] in found:
                found.update(self.views[u].inputs)
        return found

    def contract(self) -> None:
        """Put one equation for the region."""
        graph = self.graph
        taken = [e for e, *_ in self.products]
        kept = [v for v in self.wanted if v in self.small]
        read_by = {source for _, source, _, _ in self.products}
        self.wanted = [v for v in self.wanted if v in self.small or v in read_by]
        outputs = [*kept, *[e.outputs[0] for e in taken]]
        computed = {v for _, v, _ in self.scores}
        operands = [a for e, _, _ in self.scores for a in e.inputs]
        values = {v for q in (*self.equations, *self.views.values()) for v in q.outputs}
        read = [*operands, *[v for v in self.given if v not in computed],
                *[a for e in taken for a in e.inputs if a not in values]]
        inputs = [a for a in dict.fromkeys(read) if isinstance(a, Var)]
        middle = Program(self.given, self.equations, self.wanted, name="rows")
        rows = Rows(self.rows.sizes, self.rows.folded, tuple(self.reads), tuple(self.made))
        call = Equation(registry["jit"], tuple(self.given), tuple(self.wanted), {
            "jaxpr": middle, "name": "rows", "rows": rows}, self.e.source, self.e.scope)
        place: dict[Atom, int] = {v: k for k, v in enumerate(inputs)}

        def product(e: Equation, axes: Axes, k: int, read: tuple[Var, Axes] | None = None
                    ) -> Product:
            left, right = map(list, _sides(e, axes))
            if read is not None:  # of an operand from the middle the axes are known
                v, own = read
                c, _ = e.params["dimension_numbers"]
                mine = 0 if e.inputs[0] is v else 1
                for i, j in zip(*c):
                    left[i] = right[j] = own[(i, j)[mine]]
            x, y = (-1 if read is not None and a is read[0] else place[a] for a in e.inputs)
            return Product(x, y, tuple(left), tuple(right), axes, k,
                           -1 if read is None else outputs.index(e.outputs[0]))

        how = Attention(
            middle, rows,
            tuple(-1 if v in computed else place[v] for v in self.given),
            tuple(outputs.index(v) if v in kept else -1 for v in self.wanted),
            tuple(product(e, axes, self.given.index(v)) for e, v, axes in self.scores),
            tuple(product(e, _result_axes(e, v, axes), self.wanted.index(source), (v, axes))
                  for e, source, v, axes in self.products))
        before = sorted({id(q): q for q in self.copied}.values(),
                        key=lambda q: graph.position[graph.producer[q.outputs[0]]])
        between = [self.views[u] for u in sorted(self.views, key=graph.position.__getitem__)
                   if self.views[u].outputs[0] in self._needed(taken)]
        inner = Program(inputs, [*before, call, *between, *taken], outputs, name="attention")
        graph.contract(sorted(self.members, key=graph.position.__getitem__), Equation(
            registry["jit"], tuple(inputs), tuple(outputs), {
                "jaxpr": inner, "name": "attention", "rows": how}, self.e.source, self.e.scope), ())


def _is_plain(e: Equation) -> bool:
    """Whether a product is one of two arrays of one type of floats, with sums of float32 or 64."""
    x, y = (a.aval.dtype for a in e.inputs)
    return x == y and x in (F32, F64, *HALVES) and all(isinstance(a, Var) for a in e.inputs)


def _sides(e: Equation, axes: Axes) -> tuple[Axes, Axes]:
    """The axes of a product's operands, by those of its result."""
    (xc, yc), (xb, yb) = e.params["dimension_numbers"]
    x, y = (a.aval.shape for a in e.inputs)
    xf, yf = other_axes(len(x), xc, xb), other_axes(len(y), yc, yb)
    left, right = [-1] * len(x), [-1] * len(y)
    for place, axis in enumerate(axes):
        if place < len(xb):
            left[xb[place]] = right[yb[place]] = axis
        elif place < len(xb) + len(xf):
            left[xf[place - len(xb)]] = axis
        else:
            right[yf[place - len(xb) - len(xf)]] = axis
    for i, j in zip(xc, yc):
        left[i] = right[j] = SUMMED if x[i] > 1 else -1
    return tuple(left), tuple(right)


def _is_small(depth: int, columns: int, most: int) -> bool:
    """Whether what all rows of a matrix are multiplied by stays in a cache, and computing with
    it block by block costs no more than memory does."""
    return (depth <= most and depth * columns <= MOST_PACKED
            and (depth >= DEEP or columns >= LONG))


def _result_axes(e: Equation, v: Var, axes: Axes) -> Axes:
    """The axes of a product of a value of the middle."""
    side = 0 if e.inputs[0] is v else 1
    (c, b) = e.params["dimension_numbers"]
    other = e.inputs[1 - side].aval.shape
    own = [axes[i] for i in other_axes(len(axes), c[side], b[side])]
    alien = [ALONE if other[i] > 1 else -1
             for i in other_axes(len(other), c[1 - side], b[1 - side])]
    return (*[axes[i] for i in b[side]], *(own + alien if side == 0 else alien + own))


def _through(e: Equation, axes: Axes, back: bool = False) -> Axes | None:
    """The axes of a view's result, by those of its operand, or `back`; None of what is no view."""
    if e.name == "transpose":
        order = e.params["permutation"]
        return tuple(axes[order.index(i) if back else order[i]] for i in range(len(axes)))
    if e.name in ("reshape", "squeeze"):
        old, new = e.inputs[0].aval.shape, e.outputs[0].aval.shape
        if [n for n in old if n > 1] == [n for n in new if n > 1]:
            return with_unit_axes(axes, old if back else new)
    return None
