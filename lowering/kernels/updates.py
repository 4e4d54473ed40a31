"""A window of an array replaced: `x.at[i].set(row)`, a block, a column, the interior.

IREE writes a window on one thread, after a copy of the array where that must stay as it is, and a
program with such an update among kernels would go through all of its stages.  Here the array is
copied and the window written in one dispatch.  Start reading at `update`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calque.core.dims import is_static
from calque.core.program import Atom, Literal
from calque.core.types import Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.dispatch import copied, dispatch, executable, insert, lanes_of, share
from calque.lowering.plan.switches import off

WORTH = 16384  # elements that a workgroup should have
GROUPS = 16


def takes(ctx: Context, x: Value, new: Value) -> bool:
    """Whether a program is to consist of kernels alone, and this one knows such arrays."""
    return (ctx.closing and ctx.module is not None and not ctx.regions and not off("moves")
            and is_static(x.shape) and 0 < math.prod(new.shape) < math.prod(x.shape)
            and x.dtype.kind != "c" and x.dtype.itemsize in (1, 2, 4, 8))


def update(ctx: Context, x: Value, new: Value, starts: Sequence[tuple[Atom, Value]]) -> Value:
    """x with a window replaced, in its own memory where that is ours; starts are clamped here."""
    in_place = ctx.aliases.is_owned(x)
    if in_place:
        new = ctx.aliases.copy_if_shared(new, [x])
    asked = [v for a, v in starts if not isinstance(a, Literal)]
    places = [int(a.value) if isinstance(a, Literal) else (f"i{8 * v.dtype.itemsize}", v.dtype.kind)
              for a, v in starts]
    places += [0] * (x.ndim - len(starts))  # (keys have one axis more in memory)
    window = _Window(x.shape, new.shape, 8 * x.dtype.itemsize, tuple(places), in_place)
    if window not in ctx.sources:
        ctx.kernels += 1
        ctx.sources[window] = name = f"update_{ctx.kernels}"
        insert(ctx.module, _executable(name, window))
    (out,) = dispatch(ctx, "move", str(ctx.sources[window]), ctx.entering([new, *asked, x]),
                      [(x.shape, x.dtype)], into=1 + len(asked) if in_place else -1,
                      groups=window.groups)
    if in_place:
        ctx.aliases.write(out, x)
    else:
        ctx.aliases.add_new([out])
    return out


@dataclass(frozen=True, slots=True)
class _Window:
    """What decides a kernel: the shapes of the array and the window, bits of an element, where the
    window starts (numbers, or types of what is read), and whether the array is there already."""

    shape: Shape
    of: Shape
    bits: int
    places: tuple[int | tuple[str, str], ...]
    in_place: bool

    @property
    def axis(self) -> int:
        """From which axis on elements lie side by side in both."""
        return max((i for i, n in enumerate(self.shape) if self.of[i] < n), default=0)

    @property
    def strides(self) -> list[int]:
        return [math.prod(self.shape[i + 1:]) for i in range(len(self.shape))]

    @property
    def extent(self) -> int:
        """Elements of the array from the window's first to its last one."""
        return 1 + sum((n - 1) * s for n, s in zip(self.of, self.strides))

    @property
    def groups(self) -> int:
        work = math.prod(self.of if self.in_place else self.shape)
        return max(1, min(GROUPS, work // WORTH))


def _executable(name: str, w: _Window) -> str:
    """Its bindings are the window, a start for each axis where it is no number, the array, and the
    result unless that is the array.  Each workgroup has a range of the array, copies it and writes
    what lies in it of the window, run by run."""
    rows = [i for i in range(w.axis) if w.of[i] > 1]
    run, total = math.prod(w.of[w.axis:]), math.prod(w.shape)
    outer = w.of[rows[0]] if rows else 1
    inner = math.prod(w.of[i] for i in rows[1:])
    step = w.strides[rows[0]] if rows else total
    deep = w.extent - (outer - 1) * step  # of the window's extent in a step of the outermost axis
    given = sum(isinstance(p, tuple) for p in w.places)
    source, target = f"memref<{outer * inner * run}xi{w.bits}>", f"memref<{total}xi{w.bits}>"
    out = given + 1 + (not w.in_place)
    return executable(name, out + 1, w.groups, f"""
      %u = stream.binding.subspan %b0[%c0] : !stream.binding -> {source}
      %x = stream.binding.subspan %b{given + 1}[%c0] : !stream.binding -> {target}
      %y = stream.binding.subspan %b{out}[%c0] : !stream.binding -> {target}
      %next = arith.addi %group, %c1 : index
      {_first(w)}
      {share("part", w.extent if w.in_place else total, w.groups)}
      %low = arith.addi %part_begin, {"%first" if w.in_place else "%c0"} : index
      %high = arith.addi %part_end, {"%first" if w.in_place else "%c0"} : index
      %part = arith.subi %high, %low : index
      {"" if w.in_place else copied("part", "%part", ("%x", target, "%low"), ("%y", target, "%low"),
                                    lanes_of(total, w.bits), w.bits)}
      %run = arith.constant {run} : index
      %inner = arith.constant {inner} : index
      %step = arith.constant {step} : index
      %deep = arith.constant {deep} : index
      %outer = arith.constant {outer} : index
      %ends = arith.addi %first, %deep : index
      %from_low = arith.subi %low, %ends : index
      %from_high = arith.subi %high, %first : index
      %below = arith.floordivsi %from_low, %step : index
      %behind = arith.ceildivsi %from_high, %step : index
      %begin0 = arith.addi %below, %c1 : index
      %begin = arith.maxsi %begin0, %c0 : index
      %end = arith.minsi %behind, %outer : index
      scf.for %i = %begin to %end step %c1 {{
        %base = arith.muli %i, %inner : index
        %slab = arith.muli %i, %step : index
        %slab_to = arith.addi %first, %slab : index
        scf.for %row = %c0 to %inner step %c1 {{
          %number = arith.addi %base, %row : index
          %from = arith.muli %number, %run : index
          {_row([(w.of[i], w.strides[i]) for i in rows[1:]])}
          %last = arith.addi %to, %run : index
          %a = arith.maxsi %to, %low : index
          %b = arith.minsi %last, %high : index
          %skipped = arith.subi %a, %to : index
          %source = arith.addi %from, %skipped : index
          %span = arith.subi %b, %a : index
          %seen = arith.maxsi %span, %c0 : index
          {copied("run", "%seen", ("%u", source, "%source"), ("%y", target, "%a"),
                  lanes_of(run, w.bits), w.bits)}
        }}
      }}""")


def _first(w: _Window) -> str:
    """%first: where the window's first element goes."""
    lines, total, binding = ["%f = arith.constant 0 : index"], "%f", 0
    for i, (place, stride) in enumerate(zip(w.places, w.strides)):
        last = w.shape[i] - w.of[i]
        if isinstance(place, int):
            lines.append(f"%w{i} = arith.constant {min(max(place, 0), last) * stride} : index")
        else:
            kind, sign = place
            cast, binding = "index_castui" if sign == "u" else "index_cast", binding + 1
            lines.append(f"""%m{i} = stream.binding.subspan %b{binding}[%c0]
        : !stream.binding -> memref<1x{kind}>
      %k{i} = memref.load %m{i}[%c0] : memref<1x{kind}>
      %n{i} = arith.{cast} %k{i} : {kind} to index
      %z{i} = arith.{"addi" if sign == "u" else "maxsi"} %n{i}, %c0 : index
      %l{i} = arith.constant {last} : index
      %t{i} = arith.constant {stride} : index
      %s{i} = arith.minui %z{i}, %l{i} : index
      %w{i} = arith.muli %s{i}, %t{i} : index""")
        lines.append(f"%g{i} = arith.addi {total}, %w{i} : index")
        total = f"%g{i}"
    return "\n      ".join([*lines, f"%first = arith.addi {total}, %c0 : index"])


def _row(axes: Sequence[tuple[int, int]]) -> str:
    """%to: where a row of runs goes, %row of those in a slab: sizes and strides of the axes."""
    lines, rest, total = list[str](), "%row", "%slab_to"
    for i, (n, stride) in reversed(list(enumerate(axes))):
        lines.append(f"""%d{i} = arith.constant {n} : index
          %i{i} = arith.remui {rest}, %d{i} : index
          %q{i} = arith.divui {rest}, %d{i} : index
          %e{i} = arith.constant {stride} : index
          %o{i} = arith.muli %i{i}, %e{i} : index
          %r{i} = arith.addi {total}, %o{i} : index""")
        rest, total = f"%q{i}", f"%r{i}"
    return "\n          ".join([*lines, f"%to = arith.addi {total}, %c0 : index"])


__all__ = ["takes", "update"]
