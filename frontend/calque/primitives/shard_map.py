"""shard_map: a Program of one device's part of each array, mapped over axes of a mesh.

A spec says which mesh axes split which dimensions.  The mapped axes are batch axes in the end
(`expanded`, which lowering asks for): the operands' split dimensions are taken apart, the body runs
under nested vmaps with the axes' names, and the results' dimensions are joined again.  With
`check_vma` the body's values carry the axes over which they vary (core/avals), and cotangents of
what varies less than its uses are summed where `pvary` stands; without, a cotangent is summed over
the axes that an operand's spec does not mention.  Start reading at `_abstract`, then `expanded`.
"""
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from calque.core.avals import Reduced, ShapedArray, Unreduced, shape_of
from calque.core.errors import explain
from calque.core.lists import flagged, replaced, types_of, without
from calque.core.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    OwnRows,
    _abstract,
    get_abstract_mesh,
)
from calque.core.primitive import Primitive, is_linear
from calque.core.program import Equation, Literal, Program, Var
from calque.core.sharding import IndivisibleError, PartitionSpec
from calque.core.trace import axes_mapped
from calque.core.zeros import nonzero_mask, nonzeros
from calque.primitives import collectives as co
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.call import cotangents, known_of, unmask
from calque.primitives.casts import CASTS, COLLECTIVES
from calque.primitives.device_sums import merged
from calque.transforms.explicit import resolved
from calque.transforms.jvp import jvp_program
from calque.transforms.linearize import linearize_program
from calque.transforms.stage import closed, replay, stage
from calque.transforms.transpose import transpose_program
from calque.transforms.vmap import (
    batch_program,
    broadcast_axis,
    front_axes,
    split_by_vmap,
    spmd_axes,
    to_front,
    vmap_flat,
)

P = PartitionSpec
Specs = tuple[PartitionSpec, ...]

shard_map_p = Primitive("shard_map", multiple_results=True, higher_order=True,
                        effects=lambda params: params["jaxpr"].has_effects())


def bind(program: Program, args: Sequence[Any], *, mesh: Mesh | AbstractMesh, in_specs: Specs,
         out_specs: Specs, check_vma: bool, newly_manual_axes: frozenset[Any]) -> list[Any]:
    program, consts = closed(program)
    return shard_map_p.bind(
        *consts, *args, jaxpr=program, mesh=mesh, in_specs=(*[P() for _ in consts], *in_specs),
        out_specs=tuple(out_specs), check_vma=check_vma, newly_manual_axes=newly_manual_axes)


def order(mesh: Mesh | AbstractMesh, manual: frozenset[Any]) -> tuple[Any, ...]:
    """The mapped axes in the mesh's order."""
    return tuple(n for n in mesh.axis_names if n in manual)


@contextlib.contextmanager
def inside(mesh: Mesh | AbstractMesh, manual: frozenset[Any], check_vma: bool) -> Iterator[None]:
    """The names, and the mesh, that a body sees."""
    mesh = _every(mesh)
    sizes = mesh.shape
    mapped = manual | {n for n in get_abstract_mesh().manual_axes if n in sizes}
    kinds = {n: AxisType.Manual for n in mapped}
    token = _abstract.set(mesh.abstract_mesh.update_axis_types(kinds))
    try:
        with axes_mapped([(n, sizes[n]) for n in order(mesh, manual)], check_vma):
            yield
    finally:
        _abstract.reset(token)


def _every(mesh: Mesh | AbstractMesh) -> Mesh | AbstractMesh:
    """The mesh whose axes a body's names mean."""
    return mesh.every if isinstance(mesh, OwnRows) else mesh


def _parts(mesh: Any, spec: PartitionSpec, ndim: int) -> list[int]:
    sizes = mesh.shape
    return [math.prod(sizes[n] for n in axes) for axes in spec.of_rank(ndim).axes()]


def local(aval: ShapedArray, mesh: Any, spec: PartitionSpec, check_vma: bool) -> ShapedArray:
    """The type of one device's part."""
    shape = tuple(d // p for d, p in zip(aval.shape, _parts(mesh, spec, aval.ndim)))
    made = aval.of_shape(shape)
    if not check_vma:
        return made
    return made.marked(None, made.vma | set(spec.names()) | set(map(Unreduced, spec.unreduced))
                       | set(map(Reduced, spec.reduced)))


def whole(aval: ShapedArray, mesh: Any, spec: PartitionSpec, manual: frozenset[Any]) -> ShapedArray:
    """The type of an array of such parts."""
    shape = tuple(d * p for d, p in zip(aval.shape, _parts(mesh, spec, aval.ndim)))
    left = frozenset(n for n in aval.vma if getattr(n, "axis", n) not in manual)
    return aval.of_shape(shape).marked(None, left)


def _abstract_rule(*avals: ShapedArray, jaxpr: Program, mesh: Any, in_specs: Specs,
                   out_specs: Specs, check_vma: bool, newly_manual_axes: frozenset[Any]
                   ) -> list[ShapedArray]:
    have = [(local(a, mesh, s, False).shape, a.dtype) for a, s in zip(avals, in_specs)]
    assert have == types_of(jaxpr.in_avals), (have, jaxpr.in_avals)
    return [whole(a, mesh, s, newly_manual_axes) for a, s in zip(jaxpr.out_avals, out_specs)]


# ---- derivatives
def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Program, in_specs: Specs,
         out_specs: Specs, mesh: Any, check_vma: bool, newly_manual_axes: frozenset[Any]) -> Any:
    nonzero = nonzero_mask(tangents)
    with inside(mesh, newly_manual_axes, check_vma):
        program, mask = jvp_program(jaxpr, nonzero)
    values = bind(
        program, [*primals, *nonzeros(tangents)], mesh=mesh,
        in_specs=(*in_specs, *flagged(in_specs, nonzero)),
        out_specs=(*out_specs, *flagged(out_specs, mask)),
        check_vma=check_vma, newly_manual_axes=newly_manual_axes)
    n = len(jaxpr.outputs)
    return values[:n], unmask(values[n:], mask, values)


def _linearize(nonzero: Sequence[bool], primals: Sequence[Any], *, jaxpr: Program, in_specs: Specs,
               out_specs: Specs, mesh: Any, check_vma: bool, newly_manual_axes: frozenset[Any]
               ) -> tuple[list[Any], Callable[..., list[Any]]]:
    """Residuals leave the map joined along a new leading dimension; those that are operands stay
    operands, and those that are the same everywhere are kept once."""
    common = {"mesh": mesh, "check_vma": check_vma, "newly_manual_axes": newly_manual_axes}
    n = len(jaxpr.outputs)
    with inside(mesh, newly_manual_axes, check_vma):
        forward, tangent, mask, sources = linearize_program(jaxpr, nonzero)
        made = [i for i, s in enumerate(sources) if s < 0]
        names = [order(mesh, newly_manual_axes & forward.out_avals[n + i].vma if check_vma
                       else newly_manual_axes - split_by_vmap()) for i in made]
        first = forward.derived(("residuals out", tuple(names)), lambda: stage(
            lambda *xs: _with_axis(replay(forward, *xs), n, made, names), forward.in_avals,
            forward.name))
        kinds = [forward.out_avals[n + i].mat for i in made]
    specs = [P(*[axes] if axes else [], unreduced=kind.unreduced, reduced=kind.reduced)
             for axes, kind in zip(names, kinds)]
    outs = bind(first, primals, in_specs=in_specs, out_specs=(*out_specs, *specs), **common)
    kept = dict(zip(made, outs[n:]))
    residuals = [kept[i] if s < 0 else primals[s] for i, s in enumerate(sources)]
    residual_specs = [specs[made.index(i)] if s < 0 else in_specs[s]
                      for i, s in enumerate(sources)]
    split = [s < 0 and bool(names[made.index(i)]) for i, s in enumerate(sources)]

    def second(*xs: Any) -> list[Any]:
        given = [sh.reshape(x, shape_of(x)[1:]) if cut else x for x, cut in zip(xs, split)]
        return replay(tangent, *given, *xs[len(split):])

    def apply(*tangents: Any) -> list[Any]:
        avals = [a.of_shape((1, *a.shape)) if cut else a
                 for a, cut in zip(tangent.in_avals, split)]
        with inside(mesh, newly_manual_axes, check_vma):
            program = tangent.derived(("residuals in", tuple(split)), lambda: stage(
                second, [*avals, *tangent.in_avals[len(split):]], tangent.name))
        result = bind(
            program, [*residuals, *tangents],
            in_specs=(*residual_specs, *flagged(in_specs, nonzero)),
            out_specs=tuple(flagged(out_specs, mask)), **common)
        return unmask(result, mask, outs)

    return outs[:n], apply


def _with_axis(outs: list[Any], n: int, made: list[int], names: Sequence[tuple[Any, ...]]
               ) -> list[Any]:
    return [*outs[:n], *[broadcast_axis(outs[n + i], 1, 0) if axes else outs[n + i]
                         for i, axes in zip(made, names)]]


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: Program, in_specs: Specs, out_specs: Specs,
               mesh: Any, check_vma: bool, newly_manual_axes: frozenset[Any]) -> list[Any]:
    linear, given = [is_linear(a) for a in args], nonzero_mask(cts)
    sizes = _every(mesh).shape
    by_vmap = split_by_vmap()  # specs are to mention these

    def rest(spec: PartitionSpec) -> tuple[Any, ...]:
        return order(mesh, newly_manual_axes - set(spec.names()) - spec.unreduced - by_vmap)

    with inside(mesh, newly_manual_axes, check_vma):
        program, mask, uses = transpose_program(jaxpr, linear, given)
        if uses is not None:
            raise NotImplementedError(explain(
                "a backward rule inside shard_map uses the reference of type "
                f"{uses.closed[0].abstract}, whose value cannot be passed there.",
                fix="return the value as a cotangent or an output."))
        known = len(args) - sum(linear)
        out_of = flagged(in_specs, linear)
        wanted = [s.turned() for s in flagged(out_of, mask)]
        ct_specs = [s.turned() for s in flagged(out_specs, given)]
        if not check_vma:  # a result is one of its copies, an operand all of them
            shares = [math.prod(sizes[n] for n in rest(s)) for s in ct_specs]
            summed = [rest(s) for s in wanted]

            def run(*xs: Any) -> list[Any]:
                parts = [x if k == 1 else ew.mul(x, ew.const(x, 1 / k))
                         for x, k in zip(xs[known:], shares)]
                outs = replay(program, *xs[:known], *parts)
                return [co.psum_p.bind(o, axes=axes) if axes else o
                        for o, axes in zip(outs, summed)]

            inner = program
            program = inner.derived(("shared", tuple(shares), tuple(summed)), lambda: stage(
                run, inner.in_avals, inner.name))
    values = bind(
        program, [*known_of(args), *nonzeros(cts)], mesh=mesh,
        in_specs=(*[s for s, n in zip(in_specs, linear) if not n], *ct_specs),
        out_specs=tuple(wanted), check_vma=check_vma, newly_manual_axes=newly_manual_axes)
    return cotangents(values, mask, args)


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program,
           in_specs: Specs, out_specs: Specs, **params: Any) -> Any:
    mesh, manual = params["mesh"], params["newly_manual_axes"]
    spmd = spmd_axes.get() if set(spmd_axes.get()) <= manual else ()
    parts = math.prod(mesh.shape[n] for n in spmd)
    if any(n in s.names() for s in (*in_specs, *out_specs) for n in spmd):
        raise ValueError(explain(
            f"vmap spmd_axis_name cannot appear in shard_map in_specs or out_specs: {spmd}. Where "
            "arrays are mapped over a dimension that Explicit axes split, jax.shard_map requires "
            f"axis_names={set(manual)} to be a subset of the others.",
            fix="map over another mesh axis, or leave spmd_axis_name out."))
    if size % parts:
        raise IndivisibleError(explain(
            f"vmap over an axis of size {size} with spmd_axis_name {spmd} of a mesh of shape "
            f"{tuple(mesh.shape.values())}: {parts} does not evenly divide {size}.",
            fix="pad the mapped axis, or leave spmd_axis_name out."))
    with inside(mesh, manual, params["check_vma"]):
        program, mask = batch_program(jaxpr, size // parts, dims,
                                      vma=frozenset(spmd if params["check_vma"] else ()))
    entry = spmd or None
    moved = [s if d is None else _inserted(s, d, entry) for s, d in zip(in_specs, dims)]
    outs = bind(program, args, in_specs=tuple(moved), out_specs=tuple(
        s.update(partitions=(entry, *s.partitions)) if m else s
        for s, m in zip(out_specs, mask)), **params)
    return outs, front_axes(mask)


shard_map_p.abstract, shard_map_p.jvp, shard_map_p.linearize = _abstract_rule, _jvp, _linearize
shard_map_p.transpose, shard_map_p.batch = _transpose, _batch


def _inserted(spec: PartitionSpec, d: int, entry: Any) -> PartitionSpec:
    """The spec of a value with a dimension more."""
    if d >= len(spec) and entry is None:
        return spec
    return spec.update(partitions=(*spec.of_rank(d)[:d], entry, *spec[d:]))


# ---- what it is without the mesh
def expanded(jaxpr: Program, mesh: Any, in_specs: Specs, out_specs: Specs,
             newly_manual_axes: frozenset[Any], **_: Any) -> Program:
    """The Program of whole arrays: the mapped axes are batch axes."""
    names = order(mesh, newly_manual_axes)

    def make() -> Program:
        body = unmarked(jaxpr)

        def run(*xs: Any) -> list[Any]:
            return by_devices(lambda *parts: replay(body, *parts), xs, in_specs, lambda: out_specs,
                              mesh, newly_manual_axes, False)

        avals = [whole(a.plain, mesh, s, newly_manual_axes).plain
                 for a, s in zip(jaxpr.in_avals, in_specs)]
        token = resolved.set(True)  # what is moved here nobody wrote
        try:
            return merged(stage(run, avals, jaxpr.name))
        finally:
            resolved.reset(token)

    return jaxpr.derived(("expanded", tuple(mesh.shape_tuple), in_specs, out_specs, names), make)


def by_devices(body: Callable[..., list[Any]], values: Sequence[Any], in_specs: Sequence[Any],
               out_specs: Callable[[], Sequence[Any]], mesh: Any, manual: frozenset[Any],
               check: bool) -> list[Any]:
    """Whole results of a body of parts, which runs once, each mapped axis a batch axis; out_specs
    are asked for when it has run.  check: ValueError where a result varies over an axis that its
    spec does not mention."""
    names, sizes = order(mesh, manual), mesh.shape
    pairs = [_taken_apart(x, spec, sizes) for x, spec in zip(values, in_specs)]
    outs = _nested(body, names, sizes, [x for x, _ in pairs], [at for _, at in pairs], out_specs,
                   check)
    return [_joined(o, spec, names) for o, spec in zip(outs, out_specs())]


shard_map_p.program = lambda *avals, **params: expanded(**params)


def _taken_apart(x: Any, spec: PartitionSpec, sizes: dict[Any, int]
                 ) -> tuple[Any, dict[Any, int]]:
    """x with a dimension for each mesh axis that splits it, and where these are."""
    shape: list[int] = []
    where: dict[Any, int] = {}
    before = shape_of(x)
    for d, axes in zip(before, spec.of_rank(len(before)).axes()):
        for n in axes:
            where[n] = len(shape)
            shape.append(sizes[n])
        shape.append(d // math.prod(sizes[n] for n in axes))
    return (sh.reshape(x, tuple(shape)) if where else x), where


def _nested(body: Callable[..., list[Any]], names: Sequence[Any], sizes: dict[Any, int],
            values: Sequence[Any], where: Sequence[dict[Any, int]],
            out_specs: Callable[[], Sequence[Any]], check: bool) -> list[Any]:
    """The body's results, with a leading dimension for each axis that their specs mention."""
    if not names:
        return body(*values)
    name, size = names[0], sizes[names[0]]
    axes = [at.get(name) for at in where]
    inner = [{n: k - (d is not None and k > d) for n, k in at.items() if n != name}
             for at, d in zip(where, axes)]
    outs, dims = vmap_flat(
        lambda *xs: _nested(body, names[1:], sizes, xs, inner, out_specs, check), size, values,
        axes, name, devices=True)
    made = []
    for o, d, spec in zip(outs, dims, out_specs()):
        if check and d is not None and name not in spec.names():
            raise ValueError(explain(
                "shard_map was given out_specs which require replication which can't be statically "
                f"inferred given the mesh: out_specs has {spec}, and the result varies over "
                f"{name!r}.",
                fix="mention the axis in out_specs, or say check_vma=False."))
        if name in spec.names():
            made.append(to_front(o, d, size))
        else:  # the first device's: they are equal, or the user said that they are
            made.append(o if d is None else _first(o, d))
    return made


def _first(x: Any, axis: int) -> Any:
    shape = shape_of(x)
    limits = replaced(shape, axis, 1)
    part = sh.slice_(x, (0,) * len(shape), limits)
    return sh.reshape(part, without(shape, [axis]))


def _joined(x: Any, spec: PartitionSpec, names: Sequence[Any]) -> Any:
    """Mapped dimensions moved before those that they split, and joined with them."""
    mentioned = [n for n in names if n in spec.names()]
    if not mentioned:
        return x
    shape, count = shape_of(x), len(mentioned)
    permutation: list[int] = []
    joined: list[int] = []
    for d, axes in enumerate(spec.of_rank(len(shape) - count).axes()):
        at = [*[mentioned.index(n) for n in axes], count + d]
        permutation += at
        joined.append(math.prod(shape[i] for i in at))
    if permutation != list(range(len(shape))):
        x = sh.transpose(x, permutation)
    return sh.reshape(x, tuple(joined))


def unmarked(p: Program) -> Program:
    """A body without the axes over which values vary, inner programs included."""
    return p.derived("unmarked", lambda: _unmarked(p))


def _unmarked(p: Program) -> Program:
    env: dict[Var, Any] = {}

    def plain(v: Var) -> Var:
        env[v] = v if v.aval is v.aval.plain else Var(v.aval.plain)
        return env[v]

    def read(a: Any) -> Any:
        return a if isinstance(a, Literal) else env[a]

    inputs = [plain(v) for v in p.inputs]
    consts = [plain(v) for v in p.const_vars]
    equations: list[Equation] = []
    for e in p.equations:
        if e.primitive in CASTS:
            env[e.outputs[0]] = read(e.inputs[0])
            continue
        params = {k: unmarked(v) if isinstance(v, Program) else
                  tuple(unmarked(q) for q in v) if isinstance(v, tuple) and v
                  and all(isinstance(q, Program) for q in v) else v
                  for k, v in e.params.items()}
        if e.primitive is shard_map_p:
            params["check_vma"] = False
        ins = tuple(read(a) for a in e.inputs)
        equations.append(e.replace(
            primitive=COLLECTIVES.get(e.primitive, e.primitive), inputs=ins,
            outputs=tuple(plain(v) for v in e.outputs), params=params))
    return Program(inputs, equations, [read(o) for o in p.outputs], consts, p.consts, p.name)
