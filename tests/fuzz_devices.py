"""Random programs over random meshes of eight devices: `python tests/fuzz_devices.py --count 200`.

The programs are fuzz.py's.  Each is run in two ways:

* as what each device does to its part (shard_map with random specs), followed by random collectives
  of its results: every device's results are those of NumPy on its part, and the collectives those
  of NumPy on all devices' results;
* as a whole, on arrays with random shardings: the results are those of plain arrays and carry the
  sharding that propagation promises, which divides them; over Explicit axes it is their type.

Everything follows from the seed.  Start reading at `mapped` and `placed`.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

if __name__ == "__main__":
    os.environ["CALQUE_CHECK"] = "1"
    os.environ.setdefault("CALQUE_CACHE", "0")  # no program comes twice

import fuzz
import fuzz_search
from support.harness import Case, Failure, outputs

import calque
from calque import lax
from calque.core.program import Program
from calque.dispatch.sharded import labels
from calque.sharding import AxisType, Mesh, NamedSharding
from calque.sharding import PartitionSpec as P
from calque.transforms.explicit import resolved
from calque.transforms.stage import replay

GROUP = 6
DEVICES = 8
MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (8, 1)]


def mesh_of(sizes: Sequence[int], kind: AxisType = AxisType.Auto) -> Mesh:
    return Mesh(np.array(calque.devices()[:DEVICES]).reshape(tuple(sizes)),
                tuple("abc"[:len(sizes)]), (kind,) * len(sizes))


def draw_spec(rng: Any, mesh: Mesh, shape: Sequence[int], whole: bool) -> P:
    """Which axes split which dimensions; of a whole array only such as divide it."""
    entries: list[list[str]] = [[] for _ in shape]
    left = list(shape)
    for n in rng.permutation(mesh.axis_names):
        d = int(rng.integers(0, len(shape) + 1))
        size = mesh.shape[n]
        if d < len(shape) and not (whole and (left[d] % size or not left[d])):
            entries[d].append(str(n))
            left[d] //= size
    return P(*[tuple(e) or None for e in entries])


# ---- what each device does
@dataclass(frozen=True, slots=True)
class Collective:
    """Of the local result at a position."""

    name: str
    axes: tuple[str, ...]
    position: int
    pairs: tuple[tuple[int, int], ...] = ()  # of ppermute

    def run(self, x: Any) -> Any:
        if self.name == "ppermute":
            return lax.ppermute(x, self.axes, self.pairs)
        return getattr(lax, self.name)(x, self.axes)

    def of_all(self, x: np.ndarray[Any, Any], mesh: Mesh) -> tuple[Any, Any]:
        """(what it is, how far off it may be) of the results of all devices, along axis 0."""
        names = [n for n in mesh.axis_names if n not in self.axes] + list(self.axes)
        order = [mesh.axis_names.index(n) for n in names]
        count = int(np.prod([mesh.shape[n] for n in self.axes]))
        rank = len(order)
        grid = x.reshape(*mesh.axis_sizes, *x.shape[1:])
        grid = grid.transpose(*order, *range(rank, grid.ndim))
        # the axes of the collective along 1
        rows = grid.reshape(mesh.size // count, count, *x.shape[1:])
        away: Any = 0
        if self.name == "psum":
            kind = np.float64 if x.dtype.kind in "fV" else x.dtype
            with np.errstate(all="ignore"):
                made = rows.astype(kind).sum(1, keepdims=True, dtype=kind)
                if x.dtype.kind in "fV":
                    away = 4 * count * float(calque.numpy.finfo(x.dtype).eps) * np.abs(
                        rows.astype(kind)).sum(1, keepdims=True)
                    away = self._back(np.broadcast_to(away, rows.shape), mesh, order)
                made = np.broadcast_to(made.astype(x.dtype), rows.shape)
        elif self.name in ("pmax", "pmin"):
            best = np.maximum if self.name == "pmax" else np.minimum
            made = np.broadcast_to(best.reduce(rows, 1)[:, None], rows.shape)
        elif self.name == "all_gather":
            made = np.broadcast_to(rows[:, None], (rows.shape[0], count, *rows.shape[1:]))
        else:
            made = np.zeros_like(rows)
            for source, target in self.pairs:
                made[:, target] = rows[:, source]
        return self._back(made, mesh, order), away

    @staticmethod
    def _back(rows: Any, mesh: Mesh, order: Sequence[int]) -> Any:
        """Devices in the order of the mesh again."""
        grid = rows.reshape(*[mesh.axis_sizes[i] for i in order], *rows.shape[2:])
        inverse = np.argsort(order)
        grid = grid.transpose(*inverse, *range(len(order), grid.ndim))
        return grid.reshape(mesh.size, *rows.shape[2:])


def draw_collective(rng: Any, mesh: Mesh, outs: Sequence[Any]) -> Collective:
    position = int(rng.integers(len(outs)))
    kind = outs[position].dtype.kind
    names = ["all_gather", "ppermute"] + ["psum"] * (kind in "iufV") + ["pmax", "pmin"] * (
        kind in "iuf")
    axes = tuple(str(n) for n in rng.permutation(mesh.axis_names))
    axes = axes[:int(rng.integers(1, len(axes) + 1))]
    name = str(rng.choice(names))
    if name == "ppermute":
        axes = tuple(n for n in mesh.axis_names if n in axes)  # in the mesh's order
        count = int(np.prod([mesh.shape[n] for n in axes]))
        some = rng.permutation(count)[:int(rng.integers(0, count + 1))]
        pairs = tuple(zip(some.tolist(), rng.permutation(count)[:len(some)].tolist()))
        return Collective(name, axes, position, pairs)
    return Collective(name, axes, position)


CONTEXTS = ("plain", "jit inside", "vmap", "vmap over a mesh axis", "scan")


def mapped(seed: int) -> Case:
    """The program of a seed on each device's part, in one of the contexts."""
    program, local = fuzz.draw(seed)
    rng = np.random.default_rng([seed, 1])
    full = mesh = mesh_of(MESHES[rng.integers(len(MESHES))])
    context = CONTEXTS[rng.integers(len(CONTEXTS))]
    spmd = full.axis_names[0] if context == CONTEXTS[3] and len(full.axis_names) > 1 else None
    if spmd is not None:  # this axis splits the copies, the others the arrays
        mesh = Mesh(full.devices[0], full.axis_names[1:])
    copies = 1 if context in CONTEXTS[:2] else 2 if spmd is None else 2 * full.shape[spmd]
    specs = [draw_spec(rng, mesh, a.shape, False) for a in local]
    every = [[_spread(rng, a, NamedSharding(mesh, s)) for a, s in zip(local, specs)]
             for _ in range(copies)]
    made = [draw_collective(rng, mesh, [o.aval for o in program.outputs])
            for _ in range(rng.integers(0, 4))]
    check_vma = bool(rng.integers(2)) and not any(e.primitive.higher_order
                                                  for e in program.equations)

    def body(*xs: Any) -> list[Any]:
        outs = replay(program, *xs)
        outs += [c.run(outs[c.position]) for c in made]
        return [lax.expand_dims(o, (0,)) for o in outs]

    def check(outs: Sequence[Any]) -> str:
        if copies == 1:
            return one(every[0], outs)
        return next(filter(None, (one(whole, [o[k] for o in outs])
                                  for k, whole in enumerate(every))), "")

    def one(whole: Sequence[Any], outs: Sequence[Any]) -> str:
        parts = [NamedSharding(mesh, s).devices_indices_map(w.shape)
                 for s, w in zip(specs, whole)]
        count = len(program.outputs)
        for i, device in enumerate(mesh.devices.flat):
            mine = [w[p[device]] for w, p in zip(whole, parts)]
            wrong = fuzz.checked("", program, mine).check([o[i] for o in outs[:count]])
            if wrong:
                return (f"{context}: device {i} of {mesh}, specs {specs}, check_vma={check_vma}: "
                        f"{wrong}")
        for c, got in zip(made, outs[count:]):
            want, away = c.of_all(np.asarray(outs[c.position]), mesh)
            if not _near(got, want, away):
                return f"{context}: {c} over {mesh}: {got} instead of {want}\n{program}"
        return ""

    f = calque.shard_map(calque.jit(body) if context == CONTEXTS[1] else body, mesh=full,
                         in_specs=tuple(specs), out_specs=P(mesh.axis_names), check_vma=check_vma)
    if context in CONTEXTS[2:4]:
        f = calque.vmap(f, spmd_axis_name=spmd)
    elif context == "scan":
        step = f

        def f(*xs: Any) -> Any:
            return lax.scan(lambda c, x: (c, step(*x)), np.int32(0), xs)[1]

    args = every[0] if copies == 1 else [np.stack(xs) for xs in zip(*every)]
    return Case(f"seed {seed}", f, args, check)


def _spread(rng: Any, part: Any, sharding: NamedSharding) -> Any:
    """An array whose parts hold a part's values, in another order each."""
    parts = sharding.parts(part.ndim)
    whole = np.empty([d * n for d, n in zip(part.shape, parts)], part.dtype)
    for index in sharding.devices_indices_map(whole.shape).values():
        whole[index] = rng.permutation(part.reshape(-1)).reshape(part.shape)
    return whole


def _near(got: Any, want: Any, away: Any) -> bool:
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind == "V":
        got, want = got.astype(np.float32), want.astype(np.float32)
    with np.errstate(all="ignore"):
        same = (got == want) | ((got != got) & (want != want))
        if np.ndim(away):
            same |= np.abs(got.astype(np.float64) - want.astype(np.float64)) <= away
            same |= ~np.isfinite(got) & ~np.isfinite(want)
    return bool(same.all())


# ---- whole arrays that are spread
def placed(seeds: Sequence[int]) -> list[str]:
    """What goes wrong when these programs run on arrays with shardings, all in one."""
    wrong, programs, plain, spread = [], [], [], []
    for seed in seeds:
        program, args = fuzz.draw(seed)
        rng = np.random.default_rng([seed, 2])
        mesh = mesh_of(MESHES[rng.integers(len(MESHES))])
        given = [NamedSharding(mesh, draw_spec(rng, mesh, a.shape, True)) for a in args]
        programs.append((seed, program, mesh))
        plain.append([calque.device_put(a) for a in args])
        spread.append([calque.device_put(a, s) if rng.integers(4) else calque.device_put(a)
                       for a, s in zip(args, given)])
        wrong += [f"seed {seed}: {w}" for w in typed(program, args, given)]

    def run(every: Any) -> Any:
        return [replay(p, *xs) for (_, p, _), xs in zip(programs, every)]

    whole = calque.jit(run)
    try:
        pairs = list(zip(whole(spread), whole(plain)))
    except Exception as error:  # any error of calque is a result here
        if len(seeds) == 1:
            return [*wrong, f"seed {seeds[0]}: {type(error).__name__}: {str(error)[:600]}"]
        return [w for s in seeds for w in placed([s])]
    for (seed, program, mesh), xs, (got, same) in zip(programs, spread, pairs):
        promised = _promised(program, [x.aval for x in xs])
        for k, (g, plainly) in enumerate(zip(got, same)):
            if np.asarray(g).tobytes() != np.asarray(plainly).tobytes():
                wrong.append(f"seed {seed}: result {k} is another one on spread arrays: {program}")
            want = promised[k].placement if promised is not None else None
            if want is not None and not g.sharding.is_equivalent_to(want, g.ndim):
                wrong.append(f"seed {seed}: result {k} is {g.sharding}, {want} was promised over "
                             f"{mesh}: {program}")
            if len(g.addressable_shards) != g.sharding.num_devices:
                wrong.append(f"seed {seed}: result {k} has not all its parts")
            for part in g.addressable_shards[:3]:
                if part.data.shape != g.sharding.shard_shape(g.shape):
                    wrong.append(f"seed {seed}: part {part.index} of result {k}: {program}")
    return wrong


def _promised(program: Program, avals: Sequence[Any]) -> list[Any] | None:
    if not labels.any_of(avals):
        return None
    return labels.of_program(program, avals, lambda i: f"args[{i}]")


def typed(program: Program, args: Sequence[Any], given: Sequence[NamedSharding]) -> list[str]:
    """Over Explicit axes: types divide, and what is traced at once is what is traced in jit."""
    mesh = mesh_of(given[0].mesh.axis_sizes, AxisType.Explicit)
    structs = [calque.ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(mesh, s.spec))
               for a, s in zip(args, given)]

    def run(*xs: Any) -> list[Any]:
        token = resolved.set(True)
        try:
            return replay(program, *xs)
        finally:
            resolved.reset(token)

    found = calque.eval_shape(run, *structs)
    wrong = []
    for k, o in enumerate(found):
        if o.sharding is not None:
            try:
                o.sharding.shard_shape(o.shape)
            except ValueError as error:
                wrong.append(f"type of result {k}: {error}\n{program}")
    return wrong


def failures(seeds: Sequence[int], group: int = GROUP) -> list[str]:
    """What goes wrong with the programs of these seeds, in this process."""
    calque.config.update("jax_num_cpu_devices", DEVICES)
    wrong = []
    with calque.enable_x64(True):
        for i in range(0, len(seeds), group):
            cases = [mapped(s) for s in seeds[i:i + group]]
            for c, out in zip(cases, outputs(cases)):
                text = out if isinstance(out, Failure) else c.check(out)
                if text:
                    wrong.append(f"{c.name}: {text}")
            wrong += placed(seeds[i:i + group])
    return wrong


def main() -> int:
    options = fuzz_search.arguments(__doc__).parse_args()
    if options.worker:
        fuzz_search.work(failures)
        return 0
    if os.environ.get("CALQUE_CPU") != options.level:  # it is read at import
        os.execve(sys.executable, [sys.executable, *sys.argv],
                  {**os.environ, "CALQUE_CPU": options.level})
    return fuzz_search.run(__file__, "fuzz_devices.py", options, GROUP)


if __name__ == "__main__":
    sys.exit(main())
