"""Choices between an array and what some elements of it were changed to, as a change that is made
or not: `jnp.where(done, x, x.at[i].set(v))`, a `cond` with a mapped predicate whose branches write.

As a choice it reads both arrays and writes a third, in each step of a loop.  So the elements that
are written get what is there already where the other array is chosen (primitives/guarded), and
nothing is chosen.  Of several branches each writes into what the one before it left: at most one of
them changes a row.  What a branch reads beside that is of its own rows, which the others leave as
they are, where all that follows from it is chosen by the same number; else the choice stays, as it
does where a loop, which could wait for another row, reads it.
Start reading at `with_choices_written`, then `_Choice`.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.core.types import Axes
from calque.core.words import forms
from calque.lowering.emit.dtypes import BOOL
from calque.lowering.passes.flat import flat
from calque.lowering.passes.replacement import Replacement
from calque.lowering.passes.same import merged
from calque.lowering.plan.switches import off

UPDATES = frozenset((
    "dynamic_update_slice", "scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min",
    "scatter-max"))
LEAST = 64  # elements of an array
MOST = 64  # choices of one Program
LONGEST = 16  # updates of one

Uses = dict[Atom, list[tuple[int, int]]]  # (equation, which operand)


def with_choices_written(p: Program) -> Program:
    """p without such choices, at any depth."""
    if "select_n" not in p.names() or UPDATES.isdisjoint(p.names()) or off("moves"):
        return p
    return p.derived("choices", lambda: _with_choices_written(p))


def _with_choices_written(p: Program) -> Program:
    equations = [e.with_inner(with_choices_written) for e in p.equations]
    made = p if tuple(equations) == p.equations else p.replace(equations=equations)
    whole = flat(made)
    if not any(map(_may_choose, whole.equations)):
        return made
    whole = merged(eliminate_dead_code(whole))
    found, stay = None, set[Var]()
    for _ in range(MOST):
        changed = _without_one(whole, stay)
        if changed is None:
            break
        found = whole = changed
    return made if found is None else eliminate_dead_code(found)


def _may_choose(e: Equation) -> bool:
    return e.name == "select_n" and not e.is_dynamic and e.outputs[0].aval.size >= LEAST


def _without_one(p: Program, stay: set[Var]) -> Program | None:
    """p without one of them; None where there is none.  `stay`: results of those that stay."""
    graph = _Graph(p)
    for e in p.equations:
        if _may_choose(e) and e.outputs[0] not in stay:
            choice = graph.choice(e)
            changed = None if choice is None else graph.without(choice)
            if changed is not None:
                return changed
            stay.add(e.outputs[0])
    return None


@dataclass(slots=True)
class _Choice:
    """An equation that chooses: by `root`, whose axes are these of the result, among `base` and
    what equations, by their number, make of it; of each, which case it is for."""

    e: Equation
    root: Var
    axes: Axes
    base: Atom
    updates: dict[int, int]


class _Graph:
    """Who makes and uses the values of a Program."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.maker: dict[Atom, int] = {v: i for i, e in enumerate(p.equations) for v in e.outputs}
        self.uses: Uses = {}
        for i, e in enumerate(p.equations):
            for k, a in enumerate(e.inputs):
                self.uses.setdefault(a, []).append((i, k))
        self.results = set(p.outputs)
        self.owned: dict[Var, dict[int, int]] = {}

    def made_by(self, a: Atom) -> Equation | None:
        i = self.maker.get(a, -1)
        return None if i < 0 else self.p.equations[i]

    def root(self, e: Equation) -> tuple[Var, Axes] | None:
        """What chooses, before it is spread, and where its axes are."""
        which = e.inputs[0]
        axes = tuple(range(which.aval.ndim))
        while True:
            maker = self.made_by(which)
            if maker is None or maker.name != "broadcast_in_dim":
                break
            source, places = maker.inputs[0], maker.params["broadcast_dimensions"]
            kept = [axes[i] for i in places]
            if any(n != e.outputs[0].aval.shape[k] for n, k in zip(source.aval.shape, kept)):
                break  # (one number for all of an axis)
            which, axes = source, tuple(kept)
        return None if isinstance(which, Literal) else (which, axes)

    def choice(self, e: Equation) -> _Choice | None:
        """What an equation chooses among, where it can be written."""
        found = self.root(e)
        if found is None:
            return None
        root, axes = found
        chains = [list(self.chain(a)) for a in e.inputs[1:]]
        base = next((a for a in chains[0] if all(a in chain for chain in chains)), None)
        if base is None or all(chain[0] is base for chain in chains):
            return None
        owned, updates = self.owned_by(root), dict[int, int]()
        for case, chain in enumerate(chains):
            for a in chain[:chain.index(base)]:
                i = self.maker[a]
                if owned.get(i) != case:
                    return None
                updates[i] = case
        return _Choice(e, root, axes, base, updates) if len(updates) <= LONGEST else None

    def chain(self, a: Atom) -> Iterator[Atom]:
        """A value, what it was made of by a change of some elements, and so on."""
        yield a
        e = self.made_by(a)
        while e is not None and e.name in UPDATES:
            yield e.inputs[0]
            e = self.made_by(e.inputs[0])

    def owned_by(self, root: Var) -> dict[int, int]:
        """The equations that one case only needs of what `root` chooses, and which."""
        if root not in self.owned:
            found = self.owned[root] = {}
            for i in reversed(range(len(self.p.equations))):
                case = self.case_of(i, root, found)
                if case is not None:
                    found[i] = case
        return self.owned[root]

    def case_of(self, i: int, root: Var, found: dict[int, int]) -> int | None:
        e, cases = self.p.equations[i], set[int]()
        if e.primitive.has_effects(e.params):
            return None
        for v in e.outputs:
            if v in self.results:
                return None
            for j, k in self.uses.get(v, ()):
                user = self.p.equations[j]
                if user.name == "select_n" and k and (self.root(user) or (None,))[0] is root:
                    cases.add(k - 1)
                elif j in found:
                    cases.add(found[j])
                else:
                    return None
        return cases.pop() if len(cases) == 1 else None

    def before(self, a: Var) -> set[int]:
        """The equations that a value follows from."""
        found, waiting = set[int](), [a]
        while waiting:
            i = self.maker.get(waiting.pop(), -1)
            if i >= 0 and i not in found:
                found.add(i)
                waiting += [a for a in self.p.equations[i].inputs if isinstance(a, Var)]
        return found

    def without(self, choice: _Choice) -> Program | None:
        """The Program with changes that are made or not; None where an update has no such form."""
        equations = self.p.equations
        first = self.before(choice.root)
        later = [i for i in range(len(equations)) if i not in first]
        if self.p.has_effects() and sorted(first) + later != list(range(len(equations))) and any(
                equations[i].primitive.has_effects(equations[i].params) for i in first):
            return None
        owned = self.owned_by(choice.root)
        if any("while" in (e.name, *[n for q in e.inner for n in q.names()])
               for e in map(equations.__getitem__, owned)):
            return None
        made = [equations[i] for i in sorted(first)]
        count = len(choice.e.inputs) - 1
        goes = [self.goes(choice, case, made) for case in range(count)]
        names: dict[Atom, Atom] = {}  # of what is chosen
        # for each case, what its rows are in, of each value that it makes; and the last such value
        states: list[dict[Atom, Atom]] = [{choice.base: choice.base} for _ in range(count)]
        last, state = [choice.base] * count, choice.base
        for i in later:
            e = equations[i]
            if e is choice.e:
                names[e.outputs[0]] = state
                continue
            if i in owned:
                e = e.reading({**names, **states[owned[i]]})
            elif e.name == "select_n" and (self.root(e) or (None,))[0] is choice.root:
                which, *cases = e.reading(names).inputs
                e = e.replace(inputs=(which, *[
                    to.get(a, a) for a, to in zip(cases, states)]))
            else:
                e = e.reading(names)
            if i not in choice.updates:
                made.append(e)
                continue
            own = choice.updates[i]
            changes = _guarded(e, goes[own], choice.axes)
            if changes is None:
                return None
            made += changes
            last[own] = state = e.outputs[0]
            for to, a in zip(states, last):
                to[a] = state
        return self.p.replace(equations=made, outputs=[names.get(o, o) for o in self.p.outputs])

    def goes(self, choice: _Choice, case: int, made: list[Equation]) -> Var:
        """Whether a case is chosen, for each row."""
        root = choice.root
        to = Replacement(choice.e)
        if root.aval.dtype != BOOL:
            number = Literal(root.aval.dtype.type(case), root.aval.update(shape=()))
            spread = to.spread(number, root.aval.shape, ())
            found = to.emit("eq", [root, spread], root.aval.shape, BOOL)
        else:
            found = root if case else to.emit("not", [root], root.aval.shape, BOOL)
        made += to.made
        return found


def _guarded(e: Equation, go: Var, axes: Axes) -> list[Equation] | None:
    """An update that leaves what is there where `go` is not."""
    p = forms.guarded(e, axes)
    if p is None:
        return None
    names: dict[Atom, Atom] = dict(zip(p.inputs, (go, *e.inputs)))
    made = [q.reading(names) for q in p.equations]
    return [*made, e.replace(inputs=(e.inputs[0], *[names.get(o, o) for o in p.outputs]))]


__all__ = ["with_choices_written"]
