"""Groups of equations over rows that do not know each other: softmax, a layer's norm, their
gradients, and folds alone.  IREE makes a dispatch of each reduction and writes what lies between
them to memory; a group becomes one kernel (kernels/rows) that keeps a row in the cache.

All arrays of a group lie over one index space, the axes of what is folded first: `Axes` says of an
array which axis of the space each of its own is (-1: of size 1), in rising order.  The axes that
folds go over are the same for all of them; the others are the rows.  A group grows from a fold to
its neighbours, as long as no path leaves it and comes back.  Start reading at `grouped`, then
`Group.infer`.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calque.core.lists import other_axes, without
from calque.core.primitive import Primitive, registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Axes, Shape
from calque.lowering.emit.dtypes import BOOL, F32, HALVES, WIDENED
from calque.lowering.passes import cost, loops, picks, strided
from calque.lowering.passes.graph import Graph
from calque.lowering.passes.strided import Layout
from calque.lowering.plan.refusal import Refusal
from calque.lowering.plan.switches import off

EXTREMA = frozenset(("argmax", "argmin"))
VIEWS = ("broadcast_in_dim", "reshape", "squeeze")
FUSED = frozenset((loops.BITS, "pad", "iota", "gather", "concatenate", "real", "imag", "complex"))
MOST_EQUATIONS = 300  # of a group
MOST_WEIGHT = 150  # of its elementwise equations: compiling long ones takes time (10 sines)
CHEAP = 4  # price of those that come along all the same: a group that is cut reads more
MOST_ARRAYS = 20  # that a group reads and writes
ROW_BYTES = 1 << 20  # of a row, or of columns side by side: a core's cache, nearly
FAR_BYTES = 1 << 24  # the same where there are FEW of them, for as many cores (suite.py batchnorm)
FEW = 4
SHORTEST = 6  # elements along vectors: IREE is ahead below (softmax of 40,000 x 5: 1.4)
VECTOR = 64  # bytes
AGAIN = 6  # what computing an element again may cost, rather than writing and reading it
SLOW = {"div": 3, "sqrt": 3, "rsqrt": 4, "rem": 9}  # of a vector, where weights are of memory


@dataclass(frozen=True, slots=True)
class Rows:
    """How a group lies over its space: sizes of the axes, which of them folds go over, and for each
    equation the axes of its operands and of its result; which equations are views of operands,
    through which others read (passes/strided)."""

    sizes: Shape
    folded: frozenset[int]
    reads: tuple[tuple[Axes, ...], ...]
    made: tuple[Axes, ...]
    views: frozenset[int] = frozenset()


def is_map(p: Primitive) -> bool:
    return p.kernel == "map"


def is_fold(p: Primitive) -> bool:
    return p.kernel == "fold" or p.name in EXTREMA


def is_fused(p: Primitive) -> bool:
    """Whether IREE computes it where it is read."""
    return p.kernel in ("map", "view") or p.name in FUSED


def sees(p: Primitive) -> bool:
    """Whether it fuses with what it reads."""
    return is_map(p) or p.kernel == "fold" or p.name in VIEWS


class Finder(Graph):
    """The equations of a program, and the groups among them."""

    def __init__(self, equations: Sequence[Equation], results: set[Var]) -> None:
        super().__init__(equations)
        self.results = results
        self.through = False  # whether groups read through views of arrays
        self.closing = False  # whether IREE is to compute nothing (passes/remainder)
        self.row_forms: dict[int, bool] = {}
        self.widened = {i for i, e in enumerate(equations) if self._is_widened(e)}  # stay alone

    def _is_widened(self, e: Equation) -> bool:
        """Whether products widen what e does, as they read it (kernels/gemm)."""
        if e.name != "convert_element_type" or (
                e.inputs[0].aval.dtype not in WIDENED or e.outputs[0].aval.dtype != F32):
            return False
        return self._is_multiplied(e.outputs[0], e.inputs[0].aval.dtype in HALVES)

    def _is_multiplied(self, wide: Var, of_halves: bool, axes: Axes = (0, 1)) -> bool:
        """Whether only products read a matrix that they widen, or its transposition, whose axes are
        these of it."""
        users = [self.equations[u] for u in self.users.get(wide, ())]
        return bool(users) and wide not in self.results and all(
            self._is_multiplied(u.outputs[0], of_halves, tuple(
                axes[i] for i in u.params["permutation"])) if (
                    u.name == "transpose" and wide.aval.ndim == 2) else
            _is_by_vector(u, wide) or of_halves and _is_by_rows(u, wide, axes) for u in users)

    def is_at_hand(self, v: Var) -> bool:
        """Whether a value is in memory, and not what IREE computes where it is read."""
        e = self.equations[self.producer[v]] if v in self.producer else None
        while e is not None and e.name in ("reshape", "squeeze"):
            (a,) = e.inputs
            e = self.equations[self.producer[a]] if a in self.producer else None
        return e is None or not is_fused(e.primitive)

    def neighbours(self, i: int) -> Iterator[int]:
        for a in self.equations[i].inputs:
            if a in self.producer:
                yield self.producer[a]
        for v in self.equations[i].outputs:
            yield from self.users.get(v, ())

    def grow(self, seed: int, picks: bool = True) -> Group | None:
        """The group around a fold; None where one does not pay.  Between products (attention) it
        reads nothing at places of its own."""
        group = Group.around(self.equations[seed], seed)
        if group is None:
            return None
        group.picks = picks
        self.take_beside(group, seed)
        self.spread(group)
        self.trim(group)
        if group.outside and any(map(self.is_product, self.operands(group))):
            return self.grow(seed, False)
        return group if group.pays(self) else None

    def take_beside(self, group: Group, seed: int) -> None:
        """Take the other folds of what a group's first one folds over the same axes: it is read
        once for all of them."""
        first, (reads, _) = group.members[seed]
        axes = sorted(first.params["axes"])
        for i in sorted(self.users.get(first.inputs[0], ())):
            e = self.equations[i]
            if i not in group.members and is_fold(e.primitive) and _has_row_form(e) and (
                    sorted(e.params["axes"]) == axes and self.is_convex({*group.members, i})):
                found = group.infer(e, (reads[0],))
                if found is not None:
                    self.put(group, i, found)

    def spread(self, group: Group) -> None:
        """Take the neighbours of members into their group, and theirs, as far as it goes."""
        waiting = {n for i in group.members for n in self.neighbours(i)}
        later: dict[int, int] = {}  # what has to come before
        span = self.span(group.members)
        while waiting:
            fresh, inside = set[int](), span.inside
            for i in sorted(waiting, key=self.position.__getitem__):
                found = self.found(group, i)
                if found is None:
                    continue
                more = span.joined(self.span((i,)))
                later[i] = self.between(more)
                if not later[i] and self.put(group, i, found):
                    span = more
                    fresh.update(self.neighbours(i))
            waiting = {i for i in fresh if i not in group.members} | {
                i for i, missing in later.items() if i not in group.members
                and (not missing or missing & span.inside & ~inside)} if fresh else set()

    def is_product(self, v: Var) -> bool:
        """Whether a value is a product, maybe in another shape."""
        e = self.equations[self.producer[v]] if v in self.producer else None
        while e is not None and e.name in ("reshape", "squeeze", "transpose"):
            (a,) = e.inputs
            e = self.equations[self.producer[a]] if a in self.producer else None
        return e is not None and e.name == "dot_general"

    def add(self, group: Group, i: int) -> bool:
        """Take an equation into a group, where that is possible."""
        found = self.found(group, i)
        return (found is not None and self.is_convex({*group.members, i})
                and self.put(group, i, found))

    def found(self, group: Group, i: int) -> Found | None:
        """The axes that an equation would have in a group, as far as it and its neighbours tell."""
        e = self.equations[i]
        if i in group.members or i in self.widened or e.name == "gather" and not group.picks:
            return None
        if i not in self.row_forms:
            self.row_forms[i] = _has_row_form(e) or (
                self.through and e.name in ("slice", "rev") and loops.has_kernel_form(e))
        if not self.row_forms[i] or len(group.members) >= MOST_EQUATIONS or (
                is_map(e.primitive) and price(e.primitive) > CHEAP
                and group.weight > MOST_WEIGHT):
            return None
        found = group.infer(e)
        return None if found is None or e.name == "transpose" and not self.through and (
            not self.turns_what_it_picks(group, e, found)) else found

    def put(self, group: Group, i: int, found: Found) -> bool:
        """Take an equation, where a dispatch has so many arrays."""
        e = self.equations[i]
        group.members[i] = e, found
        most = group.most_arrays + len(e.inputs) + len(e.outputs)
        if most > MOST_ARRAYS:
            most = len(self.operands(group)) + len(self.outputs(group))
        if most > MOST_ARRAYS:
            del group.members[i]
            return False
        group.most_arrays = most
        group.take(e, found)
        return True

    def turns_what_it_picks(self, group: Group, e: Equation, found: Found) -> bool:
        """Whether an equation turns round what a gather picks for it alone, which a group reads in
        any order of axes."""
        (a,) = e.inputs
        i = self.producer.get(a, -1)
        if i < 0 or a in self.results or len(self.users[a]) > 1 or not group.picks or (
                self.equations[i].name != "gather") or not _has_row_form(self.equations[i]):
            return False
        return group.infer(self.equations[i], made=found[0][0]) is not None

    def sorted(self, group: Group) -> list[int]:
        """The members, each behind what it reads."""
        return sorted(group.members, key=self.position.__getitem__)

    def operands(self, group: Group) -> list[Var]:
        made = {v for e, _ in group.members.values() for v in e.outputs}
        return list(dict.fromkeys(a for i in self.sorted(group)
                                  for a in self.equations[i].inputs
                                  if isinstance(a, Var) and a not in made))

    def outputs(self, group: Group) -> list[Var]:
        return [v for i in self.sorted(group) for v in self.equations[i].outputs
                if v in self.results or any(
                    u not in group.members for u in self.users.get(v, ()))]

    def spreads(self, e: Equation) -> bool:
        """Whether it writes a smaller array several times into a result (psum over devices)."""
        return e.name in VIEWS and self.is_result(e.outputs[0]) and any(
            isinstance(a, Var) and a.aval.size < e.outputs[0].aval.size for a in e.inputs)

    def is_result(self, v: Var) -> bool:
        """Whether a value is a result, maybe in another shape, and nothing else."""
        users = self.users.get(v, ())
        return not users if v in self.results else bool(users) and all(
            self.equations[u].name in ("reshape", "squeeze")
            and self.is_result(self.equations[u].outputs[0]) for u in users)

    def trim(self, group: Group) -> None:
        """Without views that only others read: they are free there, and arrays here."""
        for i in reversed(self.sorted(group)):
            e = self.equations[i]
            if self.spreads(e):
                continue
            if e.name in (*VIEWS, "iota") and all(
                    u not in group.members for v in e.outputs for u in self.users.get(v, ())):
                del group.members[i]

    def join(self, group: Group, written: tuple[list[Var], set[int]] | None = None) -> bool:
        """Put one equation for the members of a group; not where it reads no array: of a dispatch
        without operands IREE makes constants, and takes one result for the other.  `written`: as
        `handed_out` says, where another rule does."""
        outputs, again = written or self.handed_out(group)
        members = self.sorted(group)
        live: set[Atom] = set(outputs)
        for i in reversed(members):
            if live.isdisjoint(self.equations[i].outputs):
                del group.members[i]
            else:
                live.update(self.equations[i].inputs)
        kept, inputs, seed = self.sorted(group), self.operands(group), self.equations[group.seed]
        if not inputs:
            return False
        views = [k for k, i in enumerate(kept) if self.equations[i].outputs[0] in group.views]
        rows = Rows(group.sizes, group.folded, tuple(group.members[i][1][0] for i in kept),
                    tuple(group.members[i][1][1] for i in kept), frozenset(views))
        inner = Program(inputs, [self.equations[i] for i in kept], outputs, name="rows")
        self.contract(members, Equation(registry["jit"], tuple(inputs), tuple(outputs), {
            "jaxpr": inner, "name": "rows", "rows": rows}, seed.source, seed.scope),
            sorted(again, key=self.position.__getitem__))
        return True

    def handed_out(self, group: Group) -> tuple[list[Var], set[int]]:
        """What a group writes to memory, and its equations that are computed outside once more:
        what follows cheaply from numbers of a row and what is in memory anyway, and constants."""
        maker: dict[Atom, int] = {v: i for i in group.members for v in self.equations[i].outputs}
        kept, again = dict[Var, None](), set[int]()

        def follow(v: Atom, found: set[int], numbers: list[Var], full: set[Atom]) -> int:
            """What it costs to compute v outside, by the equations found."""
            i = maker.get(v, -1)
            if i in found:
                return 0
            if i < 0 or v in kept:
                if isinstance(v, Var) and v.aval.size >= math.prod(group.sizes):
                    full.add(v)
                return 0
            e, (_, made) = group.members[i]
            if e.name not in VIEWS and not group.folded & set(made) and (
                    group.rows <= set(made)):
                numbers.append(e.outputs[0])
                return 0
            found.add(i)
            own = 0 if e.name in VIEWS else price(e.primitive)
            return own + sum(follow(a, found, numbers, full) for a in e.inputs)

        for v in self.outputs(group):
            found, numbers, full = set[int](), list[Var](), set[Atom]()
            users = {self.equations[u].primitive for u in self.users.get(v, ())
                     if u not in group.members}
            cost = follow(v, found, numbers, full)
            if not group.rows <= set(group.members[maker[v]][1][1]) or (
                    not (v in self.results or self.is_result(v))
                    and all(map(sees, users)) and found and cost <= AGAIN
                    and len(full) <= 2):
                again |= found
                kept.update(dict.fromkeys(numbers))
            else:
                kept[v] = None
        return sorted(kept, key=lambda v: self.position[maker[v]]), again


def price(p: Primitive) -> int:
    """What a primitive costs in registers."""
    return SLOW.get(p.name, p.weight)


def _is_by_vector(e: Equation, matrix: Var) -> bool:
    """Whether e is a product of a matrix and a vector."""
    if e.name != "dot_general":
        return False
    contracted, batch = e.params["dimension_numbers"]
    return any(x is not matrix and math.prod(
        x.aval.shape[i] for i in other_axes(x.aval.ndim, c, b)) == 1
        for x, c, b in zip(e.inputs, contracted, batch))


def _is_by_rows(e: Equation, matrix: Var, axes: Axes) -> bool:
    """Whether e is a product of rows with those of a matrix; axes: where its own are in memory."""
    if e.name != "dot_general" or e.inputs[1] is not matrix or e.inputs[0] is matrix:
        return False
    (xc, yc), (xb, _) = e.params["dimension_numbers"]
    x = e.inputs[0].aval
    return not xb and matrix.aval.ndim == 2 and xc == (x.ndim - 1,) and (
        axes[yc[0]] == 1 and x.dtype == F32)


def is_elementwise(e: Equation) -> bool:
    """Whether a kernel computes an equation element by element."""
    return is_map(e.primitive) and _has_row_form(e)


def _has_row_form(e: Equation) -> bool:
    p, name = e.primitive, e.name
    if name in ("gather", "transpose") and not off("picks"):
        return not e.is_dynamic and (name == "transpose" or picks.is_picked(e, True))
    if e.is_dynamic or not (is_map(p) or is_fold(p) or name in (*VIEWS, "iota")):
        return False
    return loops.is_plain(e) if name in EXTREMA else loops.has_kernel_form(e)


def refusal(e: Equation) -> Refusal:
    """Why a fold is in no group, as far as it tells by itself."""
    if e.is_dynamic:
        return Refusal(e, "open size")
    missing = loops.refusal(e) if e.name not in EXTREMA else None
    if missing is not None:
        return missing
    if not _has_row_form(e) or e.inputs[0].aval.dtype == BOOL:
        return Refusal(e, "no form")
    shape = e.inputs[0].aval.shape
    axes = numbered(shape)
    folded = frozenset(axes[i] for i in e.params["axes"] if axes[i] >= 0)
    alone = Group(tuple(n for n in shape if n > 1), folded, 0)
    return (alone.distance(e) if folded else None) or Refusal(e, "nothing to join")


Found = tuple[tuple[Axes, ...], Axes]  # axes of an equation's operands, and of its result


class Group:
    """A group that grows."""

    def __init__(self, sizes: Shape, folded: frozenset[int], seed: int) -> None:
        self.sizes, self.folded, self.seed = sizes, folded, seed
        self.rows = frozenset(range(len(sizes))) - folded
        self.members: dict[int, tuple[Equation, Found]] = {}
        self.made: dict[Atom, Axes] = {}
        self.few = False  # workgroups, for work that is much
        self.views: dict[Atom, Layout] = {}  # of arrays in memory
        self.through = False  # whether it reads through such
        self.most_arrays = 0  # it reads and writes so many at most
        self.weight = 0
        self.used: dict[Atom, set[Axes]] = {}
        self.outside: set[Atom] = set()  # what is read at places of its own: from memory
        self.picks = True

    @classmethod
    def around(cls, e: Equation, seed: int) -> Group | None:
        if not _has_row_form(e) or e.inputs[0].aval.dtype == BOOL:
            return None
        shape = e.inputs[0].aval.shape
        axes = numbered(shape)
        sizes = tuple(n for n in shape if n > 1)
        folded = frozenset(axes[i] for i in e.params["axes"] if axes[i] >= 0)
        group = cls(sizes, folded, seed)
        found = group.infer(e, (axes,))
        if not folded or found is None or group.distance(e) is not None:
            return None
        group.members[seed] = e, found
        group.take(e, found)
        return group

    def distance(self, e: Equation) -> Refusal | None:
        """Why what one workgroup has in hand at a time of a fold's operand is no vectors, or does
        not stay in a core's cache, nearly."""
        itemsize = e.inputs[0].aval.dtype.itemsize
        last = len(self.sizes) - 1
        row = math.prod(self.sizes[i] for i in self.folded) * itemsize
        units = math.prod(self.sizes[i] for i in self.rows)
        if last not in self.folded:
            lanes = min(VECTOR // itemsize, self.sizes[last])
            row, units = row * lanes, units // lanes
        self.few = units < FEW
        along = 1
        for i in range(last, -1, -1):
            if (i in self.folded) != (last in self.folded):
                break
            along *= self.sizes[i]
        if along < SHORTEST:
            return Refusal(e, "short rows", along, SHORTEST)
        most = ROW_BYTES if self.few else FAR_BYTES
        return Refusal(e, "wide row", row, most) if row > most else None

    def take(self, e: Equation, found: Found) -> None:
        reads, made = found
        self.weight += price(e.primitive)
        seen = self.view(e)
        if seen is not None:
            self.views.update(seen)
            self.outside.add(e.inputs[0])
            return
        self.made[e.outputs[0]] = made
        if e.name == "gather":
            self.outside.update(e.inputs[:1] if picks.is_single(e) else e.inputs)
        for a, axes in zip(e.inputs, reads):
            self.used.setdefault(a, set()).add(axes)

    def pays(self, finder: Finder) -> bool:
        """Whether a kernel is ahead: always where something is computed of whole rows after they
        were folded, or the place of an extremum is found (of two results at once IREE makes no
        vectors); else where IREE would not compute what is folded on the way.  Few rows are no work
        for many cores."""
        ready: dict[Atom, int] = {}
        work, always = 0, False
        for i in finder.sorted(self):
            e, (reads, made) = self.members[i]
            level = max((ready.get(a, 0) for a in e.inputs), default=0)
            folds = is_fold(e.primitive) and not self.folded.isdisjoint(set(reads[0]) - set(made))
            if folds or is_map(e.primitive) and self.folded <= set(made):
                always |= level > 0 or e.name in EXTREMA
                work += price(e.primitive)
            ready[e.outputs[0]] = level + folds
        if self.few and work * math.prod(self.sizes) > cost.MOST_WORK:
            return False
        return always or finder.closing or all(
            finder.is_at_hand(v) for v in finder.operands(self)
            if v.aval.size >= math.prod(self.sizes) and v not in self.outside)

    def view(self, e: Equation) -> dict[Atom, Layout] | None:
        """The layout that an equation gives to an array in memory, and those of views of that,
        where all of them are views."""
        if not self.through or e.name not in strided.NAMES or e.inputs[0] in self.made or (
                isinstance(e.inputs[0], Literal)):  # (a number is in no memory)
            return None
        a = e.inputs[0]
        return strided.through(e, self.views.get(a) or strided.dense(a.aval.shape), [
            m for m, _ in self.members.values() if m.outputs[0] in self.views])

    # ---- axes
    def infer(self, e: Equation, reads: Sequence[Axes | None] | None = None,
              made: Axes | None = None) -> Found | None:
        """The axes of an equation's operands and result, by those that are known."""
        out = e.outputs[0]
        if reads is None:
            reads = [self.made.get(a) for a in e.inputs]
        wanted = self.used.get(out, set())
        if self.view(e) is not None and (wanted or made or out in self.outside):
            made = next(iter(wanted), made)
            return (((),), made or ()) if len(wanted) <= 1 and (
                made is None or self._fits(out.aval.shape, made)) else None
        if len(wanted) > 1 or out in self.outside or e.name in ("slice", "rev"):
            return None
        made = next(iter(wanted), made)
        name = e.name
        if not out.aval.shape and is_map(e.primitive) and self.rows:
            # a number: only what follows from constants
            if not all(isinstance(a, Literal) or a in self.made for a in e.inputs):
                return None
            return ((),) * len(e.inputs), ()
        form = self._elementwise if is_map(e.primitive) else (
            self._fold if is_fold(e.primitive) else getattr(self, f"_{name}"))
        found = form(e, list(reads), made)
        if found is None:
            return None
        if name == "gather":  # (in any order: that of what turns it round)
            if not self._fits(tuple(out.aval.shape[i] for i in _rising(found[1])), tuple(
                    found[1][i] for i in _rising(found[1]))):
                return None
        elif not self._fits(out.aval.shape, found[1]) or name != "transpose" and not all(
                self._fits(a.aval.shape, axes) for a, axes in zip(e.inputs, found[0])):
            return None
        if name == "iota":
            return found
        inside = set(found[1])
        whole = self.folded <= inside or self.folded.isdisjoint(inside)
        return found if self.rows <= inside and whole else None

    def _fits(self, shape: Shape, axes: Axes) -> bool:
        real = [i for i in axes if i >= 0]
        return len(shape) == len(axes) and real == sorted(set(real)) and all(
            n == (1 if i < 0 else self.sizes[i]) for n, i in zip(shape, axes))

    def _elementwise(self, e: Equation, reads: list[Axes | None], made: Axes | None
                     ) -> Found | None:
        known = {r for r, a in zip(reads, e.inputs) if r is not None and a.aval.shape}
        if made is not None:
            known.add(made)
        shape = e.outputs[0].aval.shape
        axes = next(iter(known), None) or self._filled(shape, {})
        if len(known) > 1 or axes is None:
            return None
        return tuple(axes if a.aval.shape else () for a in e.inputs), axes

    def _fold(self, e: Equation, reads: list[Axes | None], made: Axes | None) -> Found | None:
        x, gone = e.inputs[0].aval, e.params["axes"]
        if x.dtype == BOOL:
            return None
        axes = reads[0]
        if axes is None:
            if made is None:
                return None
            kept, folded = iter(made), iter(sorted(self.folded))
            axes = tuple((-1 if n == 1 else next(folded, -1)) if i in gone else next(kept)
                         for i, n in enumerate(x.shape))
        if {axes[i] for i in gone} - {-1} not in (set(), set(self.folded)):
            return None
        result = without(axes, gone)
        return None if made is not None and made != result else ((axes,), result)

    def _broadcast_in_dim(self, e: Equation, reads: list[Axes | None], made: Axes | None
                          ) -> Found | None:
        shape, to = e.outputs[0].aval.shape, e.params["broadcast_dimensions"]
        source = e.inputs[0].aval.shape
        if made is None:
            axes = () if not source else reads[0]
            if axes is None:
                return None
            at = {k: a for k, a, n in zip(to, axes, source) if n > 1}
            made = self._filled(shape, at)
            if made is None:
                return None
        back = tuple(-1 if n == 1 else made[k] for k, n in zip(to, source))
        return None if reads[0] is not None and reads[0] != back else ((back,), made)

    def _filled(self, shape: Shape, at: dict[int, int]) -> Axes | None:
        """Axes of a shape of which some are known: the only ones of these sizes in rising order."""
        def fill(i: int, low: int) -> list[Axes]:
            if i == len(shape):
                return [()]
            if shape[i] == 1:
                return [(-1, *rest) for rest in fill(i + 1, low)]
            found = [at[i]] if i in at else range(low, len(self.sizes))
            return [(k, *rest) for k in found if k >= low and self.sizes[k] == shape[i]
                    for rest in fill(i + 1, k + 1)]
        every = fill(0, 0)
        return every[0] if len(every) == 1 else None

    def _reshape(self, e: Equation, reads: list[Axes | None], made: Axes | None) -> Found | None:
        """Axes of size 1 come and go."""
        old, new = e.inputs[0].aval.shape, e.outputs[0].aval.shape
        if [n for n in old if n > 1] != [n for n in new if n > 1]:
            return None
        known = reads[0] if reads[0] is not None else made
        if known is None:
            return None
        back, out = with_unit_axes(known, old), with_unit_axes(known, new)
        return None if made not in (None, out) else ((back,), out)

    _squeeze = _reshape

    def _gather(self, e: Equation, reads: list[Axes | None], made: Axes | None) -> Found | None:
        if made is None or e.inputs[0] in self.made:
            return None
        x, ids = picks.operand_axes(e, made)
        real, single = [i for i in x if i >= 0], picks.is_single(e)
        if real != sorted(set(real)) or e.inputs[1] in self.made and (
                reads[1] != ids or not single):
            return None
        if not single and len(self.sizes) - 1 in ids:  # IREE keeps one address for an element
            return None
        return (x, ids), made

    def _transpose(self, e: Equation, reads: list[Axes | None], made: Axes | None
                   ) -> Found | None:
        if made is None or e.inputs[0] in self.made:
            return None
        back = dict(zip(e.params["permutation"], made))
        return (tuple(back[i] for i in range(len(made))),), made

    def _iota(self, e: Equation, reads: list[Axes | None], made: Axes | None) -> Found | None:
        return None if made is None else ((), made)


def _rising(axes: Axes) -> list[int]:
    """Positions in an order in which the axes rise."""
    return sorted(range(len(axes)), key=axes.__getitem__)


def numbered(shape: Sequence[int]) -> Axes:
    at = iter(range(len(shape)))
    return tuple(next(at) if n > 1 else -1 for n in shape)


def with_unit_axes(axes: Axes, shape: Shape) -> Axes:
    """The axes of a shape with the same sizes but 1."""
    real = iter([a for a in axes if a >= 0])
    return tuple(next(real) if n > 1 else -1 for n in shape)
