"""einsum: sums of products named by labels.  The plan (labels, order of the pairs) depends on the
subscripts and shapes alone and is kept; every pair is one dot_general, or one product where
nothing is summed.  Start reading at `_plan` and `_pair`.
"""
from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Hashable, Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import shape_of
from calque.core.dims import guess
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.types import Shape
from calque.dispatch.sharded.placing import resharded
from calque.lax.contract import canonical_precision
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.primitives import contract as ct
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh

Labels = tuple[Hashable, ...]
Path = list[tuple[int, ...]]
EXHAUSTIVE = 7  # operands up to which every order is compared


# ---- labels
def _parse(subscripts: Any, operands: Sequence[Any]) -> tuple[list[Any], Any, list[Any]]:
    """(labels of every operand, labels of the result or None, operands); ... stands for itself."""
    if isinstance(subscripts, str):
        text = subscripts.replace(" ", "")
        left, arrow, right = text.partition("->")
        terms = [_letters(t) for t in left.split(",")]
        out = _letters(right) if arrow else None
        values = list(operands)
    else:
        rest = [subscripts, *operands]
        pairs = len(rest) // 2
        values = [rest[2 * i] for i in range(pairs)]
        terms = [tuple(rest[2 * i + 1]) for i in range(pairs)]
        out = tuple(rest[-1]) if len(rest) % 2 else None
    if len(terms) != len(values):
        raise ValueError(explain(
            "Number of einsum subscripts must be equal to the number of operands: got "
            f"{len(terms)} and {len(values)}.", fix="separate the operands' labels by commas."))
    return terms, out, values


def _letters(text: str) -> Labels:
    head, dots, tail = text.partition("...")
    for c in head + tail:
        if c in ".->,":  # (any other is a label: flax writes '...kh1d')
            raise ValueError(explain(
                f"Character '{c}' is not a valid symbol in the subscripts '{text}'.",
                fix="label axes by letters, and the others by '...'."))
    return (*head, Ellipsis, *tail) if dots else tuple(head)


def _expand(terms: Sequence[Labels], out: Labels | None,
            shapes: Sequence[Shape]) -> tuple[list[Labels], Labels]:
    """Ellipses replaced by labels counted from the right; the implicit result filled in."""
    expanded, longest = [], 0
    for i, (term, shape) in enumerate(zip(terms, shapes)):
        named = len(term) - (Ellipsis in term)
        hidden = len(shape) - named
        if term.count(Ellipsis) > 1 or hidden < 0 or (hidden and Ellipsis not in term):
            raise ValueError(explain(
                f"Einstein sum subscript '{_text(term)}' does not contain the correct number of "
                f"indices for operand {i}, whose shape is {shape}.",
                fix="give a label for every axis, or '...' for the others."))
        longest = max(longest, hidden) if Ellipsis in term else longest
        expanded.append(_fill(term, hidden))
    if out is None:
        counts = [x for t in expanded for x in t if not _is_hidden(x)]
        once = sorted({x for x in counts if counts.count(x) == 1})  # type: ignore[type-var]
        return expanded, (*_fill((Ellipsis,), longest), *once)
    result = _fill(out, longest)
    known = {x for t in expanded for x in t}
    for x in result:
        if x not in known:
            raise ValueError(explain(f"Output character '{x}' did not appear in the input.",
                                     fix="a label of the result needs an operand that has it."))
    if len(set(result)) < len(result):
        raise ValueError(explain(
            f"Output character appears more than once in the output of einsum: '{_text(out)}'."))
    return expanded, result


def _fill(term: Labels, hidden: int) -> Labels:
    return tuple(itertools.chain.from_iterable(
        [("...", k) for k in range(hidden, 0, -1)] if x is Ellipsis else [x] for x in term))


def _is_hidden(label: Any) -> bool:
    return type(label) is tuple


def _text(term: Sequence[Any]) -> str:
    return "".join("..." if x is Ellipsis else str(x) for x in term)


def _sizes(terms: Sequence[Labels], shapes: Sequence[Shape]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes)):
        for label, n in zip(term, shape):
            before = found.setdefault(label, n)
            if before == 1:
                found[label] = n
            elif n not in (1, before):
                name = "..." if _is_hidden(label) else label
                raise ValueError(explain(
                    f"Size of label '{name}' for operand {i} ({n}) does not match previous terms "
                    f"({before}).", fix="axes with one label have one size."))
    return found


# ---- the order of the pairs
@dataclasses.dataclass(frozen=True)
class _Plan:
    terms: tuple[Labels, ...]  # labels of every operand, repeated ones included
    out: Labels
    sizes: dict[Any, int]
    path: tuple[tuple[int, ...], ...]


@functools.lru_cache(maxsize=1024)
def _plan(terms: tuple[Labels, ...], out: Labels | None, shapes: tuple[Shape, ...],
          optimize: Any) -> _Plan:
    expanded, result = _expand(terms, out, shapes)
    sizes = _sizes(expanded, shapes)
    sets = [frozenset(t) for t in expanded]
    return _Plan(tuple(expanded), result, sizes, tuple(_path(sets, frozenset(result), sizes,
                                                             optimize)))


def _path(sets: list[frozenset[Any]], out: frozenset[Any], sizes: dict[Any, int],
          optimize: Any) -> Path:
    if isinstance(optimize, tuple):
        return _given(optimize, len(sets))
    sizes = {label: guess(n) for label, n in sizes.items()}
    if len(sets) <= 2:
        return [tuple(range(len(sets)))]
    if optimize is False:
        return [tuple(range(len(sets)))]
    if optimize in ("auto", "optimal", True) and len(sets) <= EXHAUSTIVE:
        return _optimal(sets, out, sizes)
    return _greedy(sets, out, sizes)


def _given(path: tuple[Any, ...], count: int) -> Path:
    steps = [tuple(p) for p in path if p != "einsum_path"]
    for step in steps:
        if any(not 0 <= i < count for i in step) or len(set(step)) < len(step):
            raise ValueError(explain(
                f"einsum: the step {step} of optimize is not possible: {count} operands are left.",
                fix="use a path of einsum_path for these operands."))
        count += 1 - len(step)
    return steps + ([tuple(range(count))] if count > 1 else [])


def _kept(left: frozenset[Any], right: frozenset[Any], others: Any,
          out: frozenset[Any]) -> frozenset[Any]:
    return (left | right) & out.union(*others)


def _size(labels: Any, sizes: dict[Any, int]) -> int:
    return math.prod(sizes[x] for x in labels)


def _optimal(sets: list[frozenset[Any]], out: frozenset[Any], sizes: dict[Any, int]) -> Path:
    """The order with the fewest multiplications, from the best orders of all subsets."""
    n = len(sets)
    everything = (1 << n) - 1
    labels = {}
    for part in range(1, everything + 1):
        inside = frozenset().union(*[s for i, s in enumerate(sets) if part >> i & 1])
        outside = [s for i, s in enumerate(sets) if not part >> i & 1]
        labels[part] = inside & out.union(*outside) if part & (part - 1) else inside
    best: dict[int, tuple[int, Any]] = {1 << i: (0, i) for i in range(n)}
    for part in sorted(labels, key=lambda p: p.bit_count()):
        if part in best:
            continue
        half = (part - 1) & part
        while half:
            other = part ^ half
            if half > other:
                cost = (best[half][0] + best[other][0]
                        + _size(labels[half] | labels[other], sizes))
                if part not in best or cost < best[part][0]:
                    best[part] = cost, (half, other)
            half = (half - 1) & part
    positions = [1 << i for i in range(n)]
    path: Path = []

    def visit(part: int) -> None:
        how = best[part][1]
        if isinstance(how, int):
            return
        for half in how:
            visit(half)
        step = sorted(positions.index(h) for h in how)
        for i in reversed(step):
            del positions[i]
        positions.append(part)
        path.append(tuple(step))

    visit(everything)
    return path


def _greedy(sets: list[frozenset[Any]], out: frozenset[Any], sizes: dict[Any, int]) -> Path:
    """Again and again the pair whose result is smallest against what it replaces."""
    left = list(sets)
    path: list[tuple[int, ...]] = []

    def growth(pair: tuple[int, int]) -> tuple[int, int]:
        i, j = pair
        others = [s for k, s in enumerate(left) if k not in pair]
        made = _kept(left[i], left[j], others, out)
        return (_size(made, sizes) - _size(left[i], sizes) - _size(left[j], sizes),
                _size(left[i] | left[j], sizes))

    while len(left) > 1:
        i, j = min(itertools.combinations(range(len(left)), 2), key=growth)
        others = [s for k, s in enumerate(left) if k not in (i, j)]
        left = [*others, _kept(left[i], left[j], others, out)]
        path.append((i, j))
    return path


# ---- the work
def _diagonals(x: Any, term: Labels) -> tuple[Any, Labels]:
    """Axes with one label become one: x[i, i]."""
    while len(set(term)) < len(term):
        label = next(x for x in term if term.count(x) > 1)
        i = term.index(label)
        j = term.index(label, i + 1)
        rest = [k for k in range(len(term)) if k not in (i, j)]
        x = sh.transpose(x, (*rest, i, j))
        shape = shape_of(x)
        lead, n = shape[:-2], shape[-1]
        if shape[-2] != n:  # one of them is 1 and repeats
            n = max(shape[-2:])
            x = sh.broadcast_in_dim(x, (*lead, n, n), tuple(range(len(shape))))
        # n + 1 apart in the flattened square
        x = sh.reshape(x, (*lead, n * n))
        zeros = (0,) * len(lead)
        x = sh.slice_(x, (*zeros, 0), (*lead, n * n), (*[1] * len(lead), n + 1))
        term = (*[term[k] for k in rest], label)
    return x, term


def _only_ones(x: Any, term: Labels, sizes: dict[Any, int]) -> tuple[Any, Labels]:
    """Axes of size 1 that broadcast against other operands are taken out."""
    drop = tuple(i for i, (label, n) in enumerate(zip(term, shape_of(x)))
                 if n == 1 != sizes[label])
    if not drop:
        return x, term
    return sh.squeeze(x, drop), without(term, drop)


def _summed(x: Any, term: Labels, keep: frozenset[Any], dtype: Any) -> tuple[Any, Labels]:
    axes = tuple(i for i, label in enumerate(term) if label not in keep)
    if not axes:
        return x, term
    return (rd.sum(util.cast(x, dtype), axes, dtype),
            without(term, axes))


def _pair(x: Any, a: Labels, y: Any, b: Labels, keep: frozenset[Any], precision: Any,
          dtype: Any) -> tuple[Any, Labels]:
    shared = [t for t in a if t in b]
    contracted = [t for t in shared if t not in keep]
    batch = [t for t in shared if t in keep]
    out = (*batch, *[t for t in a if t not in shared], *[t for t in b if t not in shared])
    if not contracted:  # nothing is summed: one elementwise product
        x, y = util.cast(x, dtype), util.cast(y, dtype)
        x, y = _spread(x, a, out, y, b), _spread(y, b, out, x, a)
        return (ew.and_p if dtype == dtypes.bool_ else ew.mul_p).bind(x, y), out
    numbers = ((tuple(a.index(t) for t in contracted), tuple(b.index(t) for t in contracted)),
               (tuple(a.index(t) for t in batch), tuple(b.index(t) for t in batch)))
    return ct.dot_general_p.bind(
        x, y, dimension_numbers=numbers, precision=precision, preferred_element_type=dtype,
        out_sharding=None), out


def _spread(x: Any, own: Labels, out: Labels, other: Any, theirs: Labels) -> Any:
    """x over the axes of the product; a scalar stays one."""
    if not own:
        return x
    sizes = {**dict(zip(theirs, shape_of(other))), **dict(zip(own, shape_of(x)))}
    order = sorted(range(len(own)), key=lambda i: out.index(own[i]))
    x = sh.transpose(x, order)
    return sh.broadcast_in_dim(x, tuple(sizes[t] for t in out),
                               tuple(out.index(own[i]) for i in order))


def _run(plan: _Plan, values: Sequence[Any], precision: Any, dtype: Any) -> Any:
    have = []
    for x, term in zip(values, plan.terms):
        x, term = _diagonals(util.array(x), term)
        have.append(_only_ones(x, term, plan.sizes))
    out = frozenset(plan.out)
    for step in plan.path:
        chosen = [have[i] for i in step]
        have = [h for i, h in enumerate(have) if i not in step]
        rest = out.union(*[frozenset(t) for _, t in have])
        later = [rest.union(*[t for _, t in chosen[i + 1:]]) for i in range(len(chosen))]
        x, a = chosen[0]
        x, a = _summed(x, a, later[0], dtype)
        for (y, b), keep in zip(chosen[1:], later[1:]):
            y, b = _summed(y, b, keep | frozenset(a), dtype)
            x, a = _summed(x, a, keep | frozenset(b), dtype)
            x, a = _pair(x, a, y, b, keep, precision, dtype)
        have.append(_summed(x, a, rest, dtype))
    (x, term), = have
    x = util.cast(x, dtype)
    return sh.transpose(x, [term.index(t) for t in plan.out])


def _checked(optimize: Any) -> Any:
    if isinstance(optimize, (list, tuple)):
        return tuple(p if isinstance(p, str) else tuple(p) for p in optimize)
    return optimize


@util.planned
def einsum(subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto",
           precision: Any = None, preferred_element_type: Any = None, _dot_general: Any = None,
           out_sharding: Any = None) -> Any:
    """Sums of products of arrays whose axes are named by labels.

    Args:
      subscripts: labels such as "ij,jk->ik"; "..." stands for axes that broadcast; without "->"
        the labels that appear once, sorted.  Or: array, list of ints, array, list of ints, ...
        and at last the list of ints of the result.
      *operands: arrays; dtypes are promoted.
      out: not supported.
      optimize: "auto" or "optimal" (the order with the fewest multiplications of up to 7
        operands), "greedy", False (from left to right), or a path as einsum_path returns it.
      precision: None, 'default', 'high', 'highest', a lax.Precision or a pair of them.
      preferred_element_type: the dtype of the result and of its accumulation.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array with the axes of the result's labels.

    Raises:
      TypeError: an operand is not an array.
      ValueError: labels do not fit the operands' axes, sizes differ, or a label of the result is
        unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.einsum("ij,j->i", jnp.ones((2, 3)), jnp.arange(3.0))
      Array([3., 3.], dtype=float32)
    """
    util.refuse_out("einsum", out)
    if out_sharding is not None:
        return resharded("einsum", out_sharding, einsum, subscripts, *operands, optimize=optimize,
                         precision=precision, preferred_element_type=preferred_element_type)
    terms, result, values = _parse(subscripts, operands)
    if not values:
        raise ValueError(explain("einsum: at least one operand is needed."))
    values = list(util.check_arrays("einsum", *values))
    plan = _plan(tuple(terms), result, tuple(shape_of(v) for v in values),
                 _checked(optimize))
    with util.lazy_eval("einsum"):
        dtype, weak = util.joined(values)
        values = [util.cast(v, dtype) for v in values]
        if preferred_element_type is not None:
            dtype, weak = util.user_dtype("einsum", preferred_element_type), False
        made = _run(plan, values, canonical_precision(precision), dtype)
        return ew.convert(made, dtype, weak) if weak else made


@dataclasses.dataclass(frozen=True)
class PathInfo:
    """What einsum_path says about its path: the multiplications of it and of one loop nest."""

    path: Path
    size_dict: dict[Any, int]
    naive_cost: int
    opt_cost: int
    largest_intermediate: int

    def __str__(self) -> str:
        return (f"          Naive multiplications: {self.naive_cost:.3e}\n"
                f"      Optimized multiplications: {self.opt_cost:.3e}\n"
                f"   Largest intermediate: {self.largest_intermediate:.3e} elements\n"
                f"   Path: {self.path}")


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto"
                ) -> tuple[Path, PathInfo]:
    """The order in which einsum takes its operands, without computing anything.

    Args:
      subscripts: as of einsum.
      *operands: arrays; only their shapes count.
      optimize: as of einsum.

    Returns:
      A list of positions per step (the result of a step goes to the end of the list), and an
      object that prints its cost.

    Raises:
      ValueError: labels do not fit the operands' axes.

    Example:
      >>> import calque.numpy as jnp
      >>> x = jnp.ones((2, 2))
      >>> jnp.einsum_path("ij,jk,kl->il", x, x, jnp.ones((2, 1)))[0]
      [(1, 2), (0, 1)]
    """
    terms, result, values = _parse(subscripts, operands)
    plan = _plan(tuple(terms), result, tuple(shape_of(v) for v in values),
                 _checked(optimize))
    have = [frozenset(t) for t in plan.terms]
    out, cost, largest = frozenset(plan.out), 0, _size(plan.out, plan.sizes)
    for step in plan.path:
        inside = frozenset().union(*[have[i] for i in step])
        have = [h for i, h in enumerate(have) if i not in step]
        made = inside & out.union(*have)
        have.append(made)
        cost += _size(inside, plan.sizes) * max(len(step) - 1, 1)
        largest = max(largest, _size(made, plan.sizes))
    everything = frozenset().union(*[frozenset(t) for t in plan.terms])
    naive = _size(everything, plan.sizes) * max(len(plan.terms) - 1, 1)
    path = [tuple(p) for p in plan.path]
    return path, PathInfo(path, plan.sizes, naive, cost, largest)


__all__ = ["einsum", "einsum_path"]
