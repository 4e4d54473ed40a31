"""pallas_call: from a kernel of references to an operation on arrays.

The kernel is traced once, on references to blocks; what it leaves in them are the results of the
Program that primitives/pallas.py runs in every cell.  Start reading at `pallas_call`, then at
`_traced`.
"""
from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of
from calque.core.config import config
from calque.core.dims import is_static
from calque.core.errors import explain
from calque.core.lists import as_tuple
from calque.core.naming import name_of
from calque.core.program import Program, Var
from calque.core.refs import AbstractRef
from calque.core.source import called
from calque.core.trace import Tracer, at_bottom
from calque.core.tracebacks import boundary
from calque.core.types import Function, Params, Shape
from calque.dispatch.eager import lazy_eval
from calque.dispatch.jit import jit
from calque.dispatch.tracing import (
    check_arguments,
    check_callable,
    trace_to_program,
    trace_with_refs,
)
from calque.experimental.pallas.helpers import check_scratch, in_cell
from calque.experimental.pallas.specs import (
    Blocked,
    BlockSpec,
    Element,
    GridSpec,
    NoBlockSpec,
    Squeezed,
    no_block_spec,
)
from calque.primitives import elementwise as ew
from calque.primitives.grid import Block
from calque.primitives.layout import layout_of
from calque.primitives.pallas import GridMapping, pallas_call_p
from calque.trees import util as tree_util
from calque.trees.differences import differences

INDEX = ShapedArray((), np.int32)
MOST_CELLS = 1 << 24
MOST_ELEMENTS = 1 << 31  # of an array with what is added to it for whole blocks


def pallas_call(kernel: Callable[..., None], out_shape: Any, *, grid_spec: GridSpec | None = None,
                grid: Any = (), in_specs: Any = no_block_spec, out_specs: Any = no_block_spec,
                scratch_shapes: Any = (), input_output_aliases: Mapping[int, int] = {},  # noqa: B006
                debug: bool = False, interpret: Any = False, name: str | None = None,
                compiler_params: Any = None, cost_estimate: Any = None,
                metadata: Mapping[str, str] | None = None) -> Function:
    """A function of arrays that runs a kernel in every cell of a grid, on blocks of them.

    Args:
      kernel: f(*input references, *output references, *scratch references) -> None, which reads and
        writes them; scratch given as a dict is passed by name.
      out_shape: an object with shape and dtype for each result, or a tree of them.
      grid_spec: a GridSpec, instead of grid, in_specs, out_specs and scratch_shapes.
      grid: numbers of cells along the axes; an int is one axis; (): one cell; (name, n) names an
        axis, for lax.axis_size and lax.axis_index in the kernel.
      in_specs: a BlockSpec for each argument; default: the whole arrays.
      out_specs: a BlockSpec for each result, in out_shape's structure; default: the whole arrays.
      scratch_shapes: types of arrays that cells hand on: pl.ANY(shape, dtype).
      input_output_aliases: argument -> result, counted without structure: what the result holds
        before it is written.
      debug: print the kernel's Program when it is traced.
      name: for messages and printed programs.
      interpret, compiler_params, cost_estimate, metadata: accepted: kernels are always compiled.

    Returns:
      A function of the arrays that returns the tree of results.

    Raises:
      ValueError: specs that do not fit the arrays, index maps with other than an integer for each
        axis, a kernel that returns something or uses arrays that are not its arguments, aliases of
        other types.
      TypeError: the kernel takes another number of references.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> def add(x_ref, y_ref, o_ref):
      ...     o_ref[...] = x_ref[...] + y_ref[...]
      >>> block = pl.BlockSpec((2,), lambda i: (i,))
      >>> f = pl.pallas_call(add, calque.ShapeDtypeStruct((4,), "float32"), grid=(2,),
      ...                    in_specs=[block, block], out_specs=block)
      >>> calque.jit(f)(jnp.arange(4.), jnp.ones(4))
      Array([1., 2., 3., 4.], dtype=float32)
    """
    check_callable(kernel)
    if grid_spec is not None:
        for what, value, empty in (("grid", grid, ()), ("in_specs", in_specs, no_block_spec),
                                   ("out_specs", out_specs, no_block_spec),
                                   ("scratch_shapes", scratch_shapes, ())):
            if value is not empty and value != empty:
                said = "`()`" if empty == () else "`no_block_spec`"
                raise ValueError(explain(
                    f"If `grid_spec` is specified, then `{what}` must be {said}. It is {value}",
                    fix="say it in the GridSpec."))
    else:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    label = name or name_of(kernel)
    if not isinstance(grid_spec.in_specs, (tuple, list, NoBlockSpec)):
        raise ValueError(explain(
            f"`in_specs` must be a tuple or a list. Found: {grid_spec.in_specs}",
            fix="write [spec] for one argument."))
    outs = _out_shapes(out_shape)
    names, sizes = _named(grid_spec.grid)
    call = _Call(kernel, label, _grid(label, sizes), names, _listed(grid_spec.in_specs), outs,
                 _listed(grid_spec.out_specs), _listed(grid_spec.scratch_shapes),
                 tuple(input_output_aliases.items()), bool(debug), name)
    found: dict[Any, _Traced] = {}

    @boundary
    def run(*args: Any) -> Any:
        leaves, in_tree = tree_util.flatten(args)
        check_arguments(f"pallas_call {label}", leaves, tree_util.flatten((args, {}))[1])
        avals = [aval_of(x) for x in leaves]
        key = (in_tree, config.key(), *[a.plain for a in avals])
        if key not in found:
            found[key] = _traced(call, in_tree, [a.plain for a in avals])
        made = found[key]
        if at_bottom():  # a call outside of jit is one of jit
            results = made.jitted(*leaves)
        else:
            with lazy_eval("pallas_call"):
                results = made.bound(*leaves)
        return made.out_tree.unflatten(results)

    run.__name__ = run.__qualname__ = f"pallas_call_{label}"
    return run


@dataclass(frozen=True)
class _Call:
    kernel: Callable[..., None]
    label: str
    grid: Shape
    names: tuple[Any, ...]  # of the grid's axes; None: none
    in_specs: Any
    out_shape: Any
    out_specs: Any
    scratch: Any
    aliases: tuple[tuple[int, int], ...]
    debug: bool
    name: str | None


@dataclass(frozen=True)
class _Traced:
    params: Params
    out_tree: Any

    def bound(self, *leaves: Any) -> list[Any]:
        """The results for arrays, or for numbers of such types."""
        values = [ew.convert(x, dtype_of(x)) for x in leaves]
        made: list[Any] = pallas_call_p.bind(*values, **self.params)
        return made[:self.out_tree.num_leaves]

    @functools.cached_property
    def jitted(self) -> Function:
        """The same, compiled."""
        return jit(self.bound)


def _listed(tree: Any) -> Any:
    return tuple(tree) if isinstance(tree, list) else tree


def _out_shapes(out_shape: Any) -> Any:
    for leaf in tree_util.tree_leaves(out_shape):
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            raise ValueError(explain(
                f"pallas_call: Invalid out_shape type: {type(leaf)}",
                fix="pass calque.ShapeDtypeStruct(shape, dtype), or a tree of them."))
    return _listed(out_shape)


def _named(grid: Any) -> tuple[tuple[Any, ...], Any]:
    """The names of a grid's axes, None for one that has none, and their sizes."""
    if not isinstance(grid, tuple):
        return (), grid
    named = [g if isinstance(g, tuple) and len(g) == 2 else (None, g) for g in grid]
    return tuple(n for n, _ in named), tuple(g for _, g in named)


def _grid(label: str, grid: Any) -> tuple[int, ...]:
    if isinstance(grid, tuple) and all(
            isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in grid):
        made = tuple(max(int(n), 0) for n in grid)
        if math.prod(made) > MOST_CELLS:
            raise ValueError(explain(
                f"pallas_call {label}: the grid {made} has {math.prod(made)} cells, at most "
                f"{MOST_CELLS} are taken.", fix="let a cell take a larger block."))
        return made
    why = "integers"
    if isinstance(grid, tuple) and any(isinstance(n, Tracer) or not is_static((n,)) for n in grid):
        why = "integers that are known when the kernel is traced"
    raise ValueError(explain(
        f"pallas_call {label}: Grid must be a tuple of {why}, got {grid}",
        fix="compute it from shapes; let a loop in the kernel have an end that is traced."))


# ---- tracing
def _traced(call: _Call, in_tree: Any, avals: Sequence[ShapedArray]) -> _Traced:
    """The operation for arguments of these types."""
    outs, out_tree = tree_util.flatten(call.out_shape)
    out_avals = [ShapedArray(tuple(o.shape), dtypes.canonical(np.dtype(o.dtype))) if not
                 dtypes.is_key(o.dtype) else ShapedArray(tuple(o.shape), o.dtype) for o in outs]
    ins = [ShapedArray(a.shape, a.dtype) for a in avals]
    _check_arrays(call, ins, out_avals)
    specs = _matched("in_specs", "inputs", call.in_specs, in_tree) + _matched(
        "out_specs", "out_shape", call.out_specs, out_tree)
    paths = [f"args{tree_util.keystr(p)}" for p, _ in tree_util.tree_leaves_with_path(
        in_tree.unflatten(list(range(len(ins)))))]
    paths += [f"outputs{tree_util.keystr(p)}" for p, _ in tree_util.tree_leaves_with_path(
        out_tree.unflatten(list(range(len(outs)))))]
    arrays = [*ins, *out_avals]
    blocks = [_block(s, a, path) for s, a, path in zip(specs, arrays, paths)]
    maps = [_index_map(call, s, a, path)
            for s, a, b, path in zip(specs, arrays, blocks, paths)]
    for b, m in zip(blocks, maps):
        if 0 not in call.grid:
            layout_of(b, m, call.grid)  # it is known
    body, written = _body(call, in_tree, out_tree, arrays, blocks)
    aliases = [*call.aliases, *[(i, len(outs) + j) for j, i in enumerate(written)]]
    params = {
        "jaxpr": body, "grid_mapping": GridMapping(
            call.grid, (*blocks, *[blocks[i] for i in written])),
        "index_maps": (*maps, *[maps[i] for i in written]),
        "out_avals": (*out_avals, *[ins[i] for i in written]),
        "input_output_aliases": tuple(aliases), "name": call.name}
    if call.debug:
        print(f"The kernel of pallas_call {call.label}:\n{body}")
    return _Traced(params, out_tree)


def _check_arrays(call: _Call, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> None:
    for a in (*ins, *outs):
        if dtypes.is_key(a.dtype):
            raise NotImplementedError(explain(
                f"pallas_call {call.label}: PRNG keys ({a.short()}) are no arrays of a kernel.",
                fix="pass random.key_data(key), and random.wrap_key_data in the kernel."))
        if not is_static(a.shape):
            raise NotImplementedError(explain(
                f"pallas_call {call.label}: {a.short()} has a size that is known at the call only.",
                fix="compile it for the sizes that there are."))
    for i, o in call.aliases:
        for index, what, count in ((i, "input", len(ins)), (o, "output", len(outs))):
            if not 0 <= index < count:
                raise ValueError(explain(
                    f"input_output_aliases contains the mapping '{i}:{o}' with {what} index "
                    f"{index} outside the range [0, {count})", fix="count from 0."))
        if ins[i] is not outs[o]:
            raise ValueError(explain(
                f"input_output_aliases contains the mapping '{i}:{o}' referring to input[{i}] with "
                f"abstract value {ins[i]} and to output[{o}] with a different abstract value "
                f"{outs[o]}.", fix="give both one shape and dtype."))
    if len({o for _, o in call.aliases}) < len(call.aliases):
        raise ValueError(explain(
            f"pallas_call {call.label}: input_output_aliases names a result twice: "
            f"{dict(call.aliases)}.", fix="name each result once."))


def _matched(what: str, of: str, specs: Any, tree: Any) -> list[Any]:
    """A spec for each array."""
    if isinstance(specs, NoBlockSpec):
        return [no_block_spec] * tree.num_leaves
    leaves, found = tree_util.flatten(specs)
    if found != tree:
        raise ValueError(explain(
            f"Pytree for `{what}` and `{of}` do not match. {_mismatches(what, specs, of, tree)}",
            fix="give a BlockSpec for each array, in the same structure (arguments are a tuple)."))
    for spec in leaves:
        if not isinstance(spec, (BlockSpec, NoBlockSpec)):
            raise TypeError(explain(
                f"pallas_call: `{what}` must hold BlockSpecs, got {spec!r} of type "
                f"{type(spec).__name__}.", fix="write pl.BlockSpec(block_shape, index_map)."))
    return list(leaves)


def _mismatches(what: str, specs: Any, of: str, tree: Any) -> str:
    """Where the structure of the specs is not that of the arrays."""
    found = list(differences(specs, tree.unflatten([0] * tree.num_leaves)))
    rows = [f"    * {f'at {tree_util.keystr(path)}, ' if path else ''}`{what}` is {a} but `{of}` "
            f"is {b}, so {why}" for path, a, b, why in found]
    return f"There are {len(rows)} mismatches, including:\n" + "\n".join(rows)


def _block(spec: Any, aval: ShapedArray, path: str) -> Block:
    shape = None if isinstance(spec, NoBlockSpec) else spec.block_shape
    if shape is None:
        return Block(aval.shape, aval.shape, "b" * aval.ndim, ((0, 0),) * aval.ndim)
    if len(shape) != aval.ndim:
        raise ValueError(explain(
            f"Block shape for {path} (= {tuple(shape)}) must have the same number of dimensions as "
            f"the array shape {aval.shape}.", fix="name each axis; None is an axis of size 1 that "
            "the kernel does not see."))
    sizes, kinds, padding = [], "", []
    for entry, n in zip(shape, aval.shape):
        pad = entry.padding if isinstance(entry, Element) else (0, 0)
        if entry is None or isinstance(entry, Squeezed):
            size, kind = 1, "s"
        elif isinstance(entry, (Blocked, Element)):
            size, kind = entry.block_size, "e" if isinstance(entry, Element) else "b"
        elif isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            size, kind = int(entry), "b"
        else:
            raise ValueError(explain(
                f"Unsupported block dim type: {type(entry)} in the block shape {tuple(shape)} for "
                f"{path}.", fix="use an int, None, pl.Blocked or pl.Element."))
        if size < 0 or (size == 0 and n) or min(pad) < 0:
            raise ValueError(explain(
                f"Block shape for {path} (= {tuple(shape)}) has a size below 1.",
                fix="use sizes from 1 on, and padding from 0 on."))
        sizes.append(size)
        kinds += kind
        padding.append((int(pad[0]), int(pad[1])))
    made = Block(aval.shape, tuple(sizes), kinds, tuple(padding))
    if math.prod(made.whole) > max(MOST_ELEMENTS, aval.size):
        raise ValueError(explain(
            f"Block shape for {path} (= {tuple(shape)}) is larger than makes sense for an array of "
            f"shape {aval.shape}: with whole blocks it has {math.prod(made.whole)} elements.",
            fix="name sizes of blocks; the index map says which block."))
    return made


def _index_map(call: _Call, spec: Any, aval: ShapedArray, path: str) -> Program:
    """Of int32 places along the grid to an int32 for each axis."""
    given = None if isinstance(spec, NoBlockSpec) or spec.block_shape is None else spec.index_map

    def index(*place: Any) -> Any:
        if given is None:
            return (np.int32(0),) * aval.ndim
        found = given(*place)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(found) != aval.ndim:
            raise ValueError(explain(
                f"{_defined(given)} for {path} must return {aval.ndim} values to "
                f"match block_shape={tuple(spec.block_shape)}. Currently returning {len(found)} "
                "values.", fix="return one integer for each axis."))
        made = []
        for k, x in enumerate(found):
            kind = aval_of(x) if hasattr(x, "aval") or isinstance(
                x, (int, float, np.generic, np.ndarray)) else None
            if kind is None or kind.shape or not dtypes.is_integer(kind.dtype):
                raise ValueError(explain(
                    f"{_defined(given)} for {path} must return integer scalars. "
                    f"Output[{k}] has type {kind or type(x).__name__}.",
                    fix="return ints, or computed ones without fractions: // divides."))
            made.append(ew.convert(x, np.int32))
        return tuple(made)

    places = [INDEX] * len(call.grid)
    if given is not None:
        _check_arity(f"{_defined(given)} for {path}", given, len(places), {},
                     "place along the grid")
    tree = tree_util.flatten((tuple(places), {}))[1]
    program = _with_numbers(trace_to_program(index, tree, places, "index_map")[0])
    if program.consts and given is not None:
        raise ValueError(explain(
            f"{_defined(given)} for {path} must not capture constants: "
            f"{[aval_of(c).short() for c in program.consts]}",
            fix="use Python numbers and the place only."))
    return program


def _defined(f: Function) -> str:
    """An index map, and where it is written."""
    code = getattr(f, "__code__", None)
    place = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
    return f"Index map function {name_of(f)}{place}"


def _check_arity(what: str, f: Function, count: int, named: Mapping[str, Any],
                 unit: str) -> None:
    try:
        inspect.signature(f).bind(*[None] * count, **dict.fromkeys(named))
    except TypeError as error:
        more = f" and {', '.join(named)} by name" if named else ""
        raise TypeError(explain(
            f"{what} is called with {count} arguments{more}, one for each {unit}: "
            f"{_as_called(f, count) or error}.",
            where=str(called(f)), fix="let it take as many.")) from None
    except ValueError:  # no signature is known
        return


def _as_called(f: Function, count: int) -> str:
    """What Python says of a call with so many arguments; nothing where keywords are amiss."""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [p for p in inspect.signature(f).parameters.values() if p.kind in kinds]
    missing = [repr(p.name) for p in found[count:] if p.default is p.empty]
    if count > len(found):
        s, were = "" if len(found) == 1 else "s", "was" if count == 1 else "were"
        return (f"{name_of(f)}() takes {len(found)} positional argument{s} but {count} {were} "
                "given")
    if not missing:
        return ""
    listed = missing[0] if len(missing) == 1 else (
        f"{', '.join(missing[:-1])}{',' if len(missing) > 2 else ''} and {missing[-1]}")
    return (f"{name_of(f)}() missing {len(missing)} required positional "
            f"argument{'s' if len(missing) > 1 else ''}: {listed}")


def _with_numbers(p: Program) -> Program:
    """Captured numbers written into the Program."""
    return p.with_numbers({v: np.asarray(c)[()] for v, c in zip(p.const_vars, p.consts)
                           if not v.aval.shape and not isinstance(c, Tracer)
                           and not dtypes.is_key(v.aval.dtype)})


def _body(call: _Call, in_tree: Any, out_tree: Any, arrays: Sequence[ShapedArray],
          blocks: Sequence[Block]) -> tuple[Program, list[int]]:
    """The kernel as a Program of blocks, and the arguments whose blocks it writes into: these are
    further results, whose arrays hold the argument before."""
    n_in, grid = in_tree.num_leaves, call.grid
    scratch, scratch_tree = tree_util.flatten(call.scratch)
    for kind in scratch:
        check_scratch(f"pallas_call {call.label}", kind)
    refs = [AbstractRef(ShapedArray(b.seen, a.dtype)) for b, a in zip(blocks, arrays)]
    refs += [AbstractRef(ShapedArray(k.shape, k.dtype)) for k in scratch]
    places = [INDEX] * len(grid)

    def run(*flat: Any) -> Any:
        place, rest = flat[:len(grid)], flat[len(grid):]
        first = in_tree.unflatten(rest[:n_in])
        second = out_tree.unflatten(rest[n_in:len(arrays)])
        third = scratch_tree.unflatten(rest[len(arrays):])
        positional = [*first, *as_tuple(second)]
        named = third if isinstance(third, dict) else {}
        positional += () if isinstance(third, dict) else as_tuple(third)
        _check_arity(f"pallas_call {call.label}: the kernel", call.kernel, len(positional), named,
                     "reference")
        with in_cell(grid, place, call.names):
            return call.kernel(*positional, **named)

    avals = [*places, *refs]
    tree = tree_util.flatten((tuple(range(len(avals))), {}))[1]
    program, result, uses = trace_with_refs(run, tree, avals, call.label, "pallas_call")
    where = f"The kernel function in the pallas_call {call.label} at {called(call.kernel)}"
    if result != tree_util.flatten(None)[1]:
        raise ValueError(explain(f"{where} should return None. It returns a PyTree: {result}",
                                 fix="write results into the output references."))
    program = _with_numbers(program)
    captured = [aval_of(c).short() for c in program.consts]
    captured += [r.abstract.short() for r in uses.closed]
    if captured:
        raise ValueError(explain(
            f"{where} captures constants [{', '.join(captured)}]. You should pass them as inputs.",
            fix="make them arguments of the call; numbers may be Python's."))
    left = dict(zip(uses.stored, program.outputs))
    first = len(grid)
    written = [i for i in range(n_in) if first + i in left]
    inputs = list(program.inputs)
    ends = [left.get(first + n_in + i, inputs[first + n_in + i])
            for i in range(len(refs) - n_in)]
    n_out = len(arrays) - n_in
    if not written:
        return program.replace(outputs=ends), []
    # a written argument is read where it is written
    unused = [Var(inputs[first + i].aval) for i in written]
    own = [inputs[first + i] for i in written]
    swapped = dict(zip(own, unused))
    return program.replace(
        inputs=[*[swapped.get(v, v) for v in inputs[:first + len(arrays)]], *own,
                *inputs[first + len(arrays):]],
        outputs=[*ends[:n_out], *[left[first + i] for i in written], *ends[n_out:]]), written
