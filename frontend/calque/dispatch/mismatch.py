"""Messages about trees of arrays that should have equal types: which leaves differ, and the casts
that would mend them.  Built only when something is wrong.
"""
from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray, same_type
from calque.core.errors import explain
from calque.core.naming import signature_of
from calque.core.types import Function
from calque.transforms.explicit import is_explicit
from calque.trees import differences as trees
from calque.trees import util as tree_util

Difference = tuple[str, ShapedArray, ShapedArray]


def leaf_paths(tree: Any) -> list[str]:
    """The path of every leaf of a structure as text: "[0]['w']", "" for a single leaf."""
    marks = tree.unflatten(range(tree.num_leaves))
    return [tree_util.keystr(path) for path, _ in tree_util.tree_leaves_with_path(marks)]


def argument_names(fun: Function, args: Any, kwargs: Any) -> list[str]:
    """A name for every leaf of (args, kwargs), by fun's signature: params['w'], or args[0]['w']."""
    names = [f"args[{i}]" for i in range(len(args))]
    signature = signature_of(fun)
    if signature is not None:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        named = [n for n, p in signature.parameters.items() if p.kind in kinds]
        rest = [n for n, p in signature.parameters.items()
                if p.kind is inspect.Parameter.VAR_POSITIONAL]
        names = [*named[:len(args)],
                 *[f"{rest[0] if rest else 'args'}[{i}]" for i in range(len(args) - len(named))]]
    found = []
    for root, part in [*zip(names, args), *[(k, kwargs[k]) for k in sorted(kwargs)]]:
        found += [root + p for p in leaf_paths(tree_util.tree_structure(part))]
    return found


def differences(names: Sequence[str], have: Sequence[ShapedArray], got: Sequence[ShapedArray]
                ) -> list[Difference]:
    """The leaves whose shapes or dtypes differ, that vary over more axes of a shard_map, or that
    are spread in another way over Explicit axes."""
    return [(n, a, b) for n, a, b in zip(names, have, got)
            if not same_type(a, b) or b.vma - a.vma or _moved(a, b)]


def _moved(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether two types over Explicit axes are spread in different ways."""
    return is_explicit(a) and is_explicit(b) and a.ndim == b.ndim and (
        a.placement.spec.of_rank(a.ndim) != b.placement.spec.of_rank(b.ndim))


def _reason(a: ShapedArray, b: ShapedArray) -> str:
    parts = [word for word, same in (("shapes", a.shape == b.shape), ("dtypes", a.dtype == b.dtype),
                                     ("manual axis types", a.vma == b.vma),
                                     ("shardings", not _moved(a, b)))
             if not same]
    return f"so the {' and '.join(parts)} do not match"


def _first_parameter(fun: Function, fallback: str) -> str:
    signature = signature_of(fun)
    names = list(signature.parameters) if signature is not None else []
    return names[0] if names else fallback


def carry_error(loop: str, fun: Function, tree: Any, have: Sequence[ShapedArray],
                got: Sequence[ShapedArray]) -> TypeError | None:
    """The error of a loop whose body changes the types of its carry; None if it does not."""
    root = _first_parameter(fun, "carry")
    wrong = differences([root + p for p in leaf_paths(tree)], have, got)
    if not wrong:
        return None
    rows = [f"the input carry {n if n == root else f'component {n}'} has type {a} but the "
            f"corresponding output carry component has type {b}, {_reason(a, b)}"
            for n, a, b in wrong]
    fixes = [_carry_fix(n, a, b) for n, a, b in wrong]
    hints = [f"applying `jax.lax.pcast(..., {tuple(sorted(b.vma - a.vma, key=str))}, to='varying')"
             f"`, to the initial carry value corresponding to the input carry component {n}"
             for n, a, b in wrong if same_type(a, b) and b.vma - a.vma]
    return TypeError(explain(
        f"{loop} body function carry input and carry output must have equal types, but they "
        f"differ:\n\n{_listed(rows)}\n{_hints(hints)}",
        fix=";\n    ".join(fixes) + "."))


def carry_structure_error(loop: str, fun: Function, tree: Any, out: Any) -> TypeError:
    """The error of a loop whose body changes the structure of its carry."""
    root = _first_parameter(fun, "carry")
    rows = [f"the input carry {f'component {root}{tree_util.keystr(path)}' if path else root} is "
            f"{a} but the corresponding component of the carry output is {b}, so {why}"
            for path, a, b, why in _structures(tree, out)]
    return TypeError(explain(
        f"{loop} body function carry input and carry output must have the same pytree structure, "
        f"but they differ:\n\n{_listed(rows)}\n",
        fix="return a carry with the structure of the initial value."))


def _structures(tree: Any, out: Any) -> list[tuple[Any, str, str, str]]:
    try:
        found = list(trees.differences(*(t.unflatten([0] * t.num_leaves) for t in (tree, out))))
    except Exception:  # a class of the user's that takes no numbers
        found = []
    return found or [
        ((), f"of structure {tree}", f"of structure {out}", "the structures do not match")]


def _listed(rows: Sequence[str]) -> str:
    """One sentence, or a list."""
    if len(rows) == 1:
        return f"{'The' if rows[0].startswith('the ') else rows[0][:3]}{rows[0][3:]}."
    return ";\n".join(f"  * {row}" for row in rows) + "."


def _carry_fix(name: str, a: ShapedArray, b: ShapedArray) -> str:
    if same_type(a, b) and _moved(a, b):
        return f"return {name} with calque.sharding.reshard({name}, {a.placement.spec})"
    if same_type(a, b):
        axes = tuple(sorted(b.vma - a.vma, key=str))
        return f"start {name} with jax.lax.pcast({name}, {axes}, to='varying')"
    if a.shape == b.shape:
        return (f"start {name} as {b.dtype.name} (jnp.asarray(..., jnp.{b.dtype.name})), or return "
                f"it with .astype(jnp.{a.dtype.name})")
    if a.size == b.size:
        return f"return {name} with .reshape({a.shape})"
    return f"start {name} with shape {b.shape}, or return it with shape {a.shape}"


def branch_error(name: str, labels: Sequence[str], structures: Sequence[Any],
                 types: Sequence[Sequence[ShapedArray]]) -> TypeError | None:
    """The error of branches whose results differ in structure or types; None if they agree."""
    for label, tree, avals in zip(labels[1:], structures[1:], types[1:]):
        if tree != structures[0]:
            differ = [
                f"{labels[0]} output{at} is {a} but {label} output{at} is {b}, so {why}"
                for path, a, b, why in _structures(structures[0], tree)
                for at in [path and f" at path {tree_util.keystr(path)}" or ""]]
            return TypeError(explain(
                f"{name} branch outputs must have the same pytree structure, but they differ:\n\n"
                f"{_listed(differ)}\n",
                fix="return the same structure from all branches."))
        wrong = [(n, a, b) for n, a, b in zip(leaf_paths(tree), types[0], avals)
                 if (a.shape, a.dtype, a.vma) != (b.shape, b.dtype, b.vma) or _moved(a, b)]
        if wrong:
            rows = [f"the output of {labels[0]}{' at path ' + n if n else ''} has type {a} but "
                    f"the corresponding output of {label} has type {b}, {_reason(a, b)}"
                    for n, a, b in wrong]
            casts = [_branch_fix(n and " " + n, labels[0], label, a, b) for n, a, b in wrong]
            return TypeError(explain(
                f"{name} branches must have equal output types but they differ.\n\n"
                + _listed(rows) + "\n" + _hints([
                    f"applying `jax.lax.pcast(..., {tuple(sorted(more, key=str))}, to='varying')` "
                    f"to the output of {which}" for _, a, b in wrong
                    for which, more in ((labels[0], b.vma - a.vma), (label, a.vma - b.vma)) if more
                ]), fix=";\n    ".join(casts) + "."))
    return None


def _hints(rows: Sequence[str]) -> str:
    """JAX's words for what would make types agree."""
    if len(rows) < 2:
        return "".join(f"\nThis might be fixed by {row}.\n" for row in rows)
    return "\nThis might be fixed by:\n" + ";\n".join(f"  * {row}" for row in rows) + ".\n"


def _branch_fix(name: str, first: str, label: str, a: ShapedArray, b: ShapedArray) -> str:
    if a.shape != b.shape:
        return f"return{name} from {label} with shape {a.shape}"
    if a.dtype != b.dtype:
        return f"return{name} from {label} with .astype(jnp.{a.dtype.name})"
    if _moved(a, b):
        return f"return{name} from {label} with calque.sharding.reshard(..., {a.placement.spec})"
    casts = [f"return jax.lax.pcast(..., {tuple(sorted(more, key=str))}, to='varying')"
             f"{name and ' as' + name} from {which}"
             for which, more in ((first, b.vma - a.vma), (label, a.vma - b.vma)) if more]
    return ", and ".join(casts)


def sizes_error(names: Sequence[str], avals: Sequence[ShapedArray], axes: Sequence[int],
                given: int | None) -> ValueError:
    """vmap's error of sizes that differ: each size with an argument that has it, the odd ones last;
    names: of arguments, with the word where they are passed by position."""
    mapped = [(a.shape[d], d, n, a) for n, a, d in zip(names, avals, axes)]
    counts = Counter(size for size, *_ in mapped)
    rows = [] if given is None else [f"  * the `axis_size` argument was {given}"]
    for k, (size, count) in enumerate(counts.most_common()):
        _, d, n, a = next(m for m in mapped if m[0] == size)
        many = f"{'some' if k or given is not None else 'most'} axes ({count} of them)"
        rows.append(f"  * {'one axis' if count == 1 else many} had size {size}"
                    f"{':' if count == 1 else ', e.g.'} axis {d} of {n} of type {a}")
    usual = given if given is not None else counts.most_common(1)[0][0]
    odd = [n for size, _, n, _ in mapped if size != usual]
    return ValueError(explain(
        "vmap got inconsistent sizes for array axes to be mapped:\n" + ";\n".join(rows),
        fix=f"give {', '.join(n.removeprefix('argument ') for n in odd)} size {usual} along the "
            "mapped axis, or None in in_axes."))
