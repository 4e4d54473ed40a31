"""The record that an artifact carries of each function: JSON that runtime/aot.py and C++ read.

Start reading at `record_of`.
"""
from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from calque import runtime
from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.dims import Dim, SymbolicScope, max_dim, scope_of
from calque.core.program import Program
from calque.core.sharding import PartitionSpec
from calque.lowering.compiler.compile import compiler_version
from calque.lowering.driver.module import Lowered
from calque.lowering.rules import physical
from calque.lowering.target.targets import Target
from calque.trees import util as tree_util

if TYPE_CHECKING:
    from calque.aot.artifacts import Traced


@dataclass(frozen=True, slots=True)
class State:
    """Which arguments and results of a function are leaves of a module's state, by position.

    Attributes:
      args: (position, name); those that are donated are written, too.
      results: (position, name).
      initial: the function takes nothing and gives the whole state as a session begins with it.
    """

    args: tuple[tuple[int, str], ...]
    results: tuple[tuple[int, str], ...]
    initial: bool = False

    def to_json(self) -> dict[str, Any]:
        """As the record says it."""
        made: dict[str, Any] = {"args": [[i, n] for i, n in self.args],
                                "results": [[i, n] for i, n in self.results]}
        return made | {"initial": True} if self.initial else made


def record_of(traced: Traced, target: Target, lowered: Lowered) -> str:
    """The artifact's description of itself.

    `passed` are the arguments that the module takes, in its order (an unused or empty argument is
    not passed); `call` is how it is called (runtime/call_spec.py); `from` says where a result comes
    from: the module's k-th result, an argument, or nowhere (it is empty).
    """
    p = traced.program
    args = [{"path": path, **_type(a)}
            for path, a in zip(traced.paths, p.in_avals, strict=True)]
    results = [{"path": path, **_type(a), "from": _origin(r.kind, r.position)}
               for path, a, r in zip(_result_paths(traced), p.out_avals,
                                     lowered.results, strict=True)]
    record = {
        "version": runtime.aot.RECORD_VERSION, "name": p.name, "args": args, "results": results,
        "passed": list(lowered.arguments), "donated": list(traced.donated),
        "call": lowered.call.to_json(), "target": _of_target(target, lowered),
        "versions": {"calque": version("calque"), "iree": compiler_version()},
        "in_tree": tree_json(traced.in_tree), "out_tree": tree_json(traced.out_tree)}
    if traced.placement is not None:
        record["mesh"] = [[str(n), size] for n, size in traced.placement.mesh]
        for entry, a, spec in zip(
                [*args, *results], [*p.in_avals, *p.out_avals],
                [*traced.placement.args, *traced.placement.results], strict=True):
            entry["spec"] = _spec(a, spec)
    if traced.stored:
        record["parameters"] = [
            {"name": x.name, "dtype": x.value.dtype.name, "shape": list(x.value.shape),
             "digest": x.digest}
            for x in sorted({x.name: x for x in traced.stored.values()}.values(),
                            key=lambda x: x.name)]
    if traced.state is not None:
        record["state"] = traced.state.to_json()
    scope = scope_of([a.shape for a in p.in_avals])
    if scope is not None:
        record |= _of_sizes(p, scope)
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _of_target(target: Target, lowered: Lowered) -> dict[str, object]:
    """What the code may use; kernels of the user's may ask for more."""
    found = target.record()
    if lowered.needs:
        found["features"] = [*target.uses(), *lowered.needs]
    return found


def _of_sizes(p: Program, scope: SymbolicScope) -> dict[str, Any]:
    """What the record says of dimensions that are known at the call only."""
    used = {n for a in p.in_avals for d in a.shape if isinstance(d, Dim) for n in d.variables()}  # type: ignore[attr-defined]
    constraints = [[">=", str(max_dim(d, -d)), "1"] if kind == "!=" else [kind, str(d), "0"]
                   for d, kind in scope.needs(used)]
    constraints += [[kind, str(left), str(right)] for kind, left, right in scope.constraints]
    constraints += [[">=", name, "1"] for name in sorted(scope.positive & used)]
    return {"constraints": constraints} if constraints else {}


def _origin(kind: str, position: int) -> list[Any]:
    return [kind] if kind == "empty" else [kind, position]


def _type(a: ShapedArray) -> dict[str, Any]:
    memory = physical(a)
    entry: dict[str, Any] = {"shape": [str(d) if isinstance(d, Dim) else d for d in memory.shape],
                             "dtype": memory.dtype.name}
    if dtypes.is_key(a.dtype):
        entry["key"] = a.dtype.name  # its words are the last axis
    return entry


def _spec(a: ShapedArray, spec: PartitionSpec) -> list[list[str]]:
    """For each dimension in memory the mesh axes that split it."""
    return [[str(n) for n in axes] for axes in spec.of_rank(physical(a).ndim).axes()]


def _result_paths(traced: Traced) -> list[str]:
    """Of the results; a method gives (its own, the state), and the state's have their names."""
    tree = traced.out_tree
    marks = tree.unflatten(list(range(tree.num_leaves)))
    paths = [path for path, _ in tree_util.tree_leaves_with_path(marks)]
    if traced.state is None:
        return [tree_util.keystr(path) for path in paths]
    named = dict(traced.state.results)
    return [named.get(i) or tree_util.keystr(path[1:]) for i, path in enumerate(paths)]


def tree_json(tree: Any, counter: list[int] | None = None) -> Any:
    """A structure as JSON: a leaf is its number, a node {"tuple": [...]}, {"list": [...]},
    {"dict": [[key, child], ...]} or {"node": type, "children": [...]}, None is null."""
    counter = [0] if counter is None else counter
    if tree_util.treedef_is_leaf(tree):
        counter[0] += 1
        return counter[0] - 1
    children = [tree_json(c, counter) for c in tree_util.treedef_children(tree)]
    kind = tree.type
    if kind is type(None):
        return None
    if kind is tuple or kind is list:
        return {kind.__name__: children}
    if kind is dict:
        return {"dict": [[k if isinstance(k, str | int) else repr(k), c]
                         for k, c in zip(tree.entries(), children, strict=True)]}
    return {"node": f"{kind.__module__}.{kind.__qualname__}", "children": children}
