"""An executable of kernels of ours for CUDA: one for every card, and one for its own.

A `hal.executable` has a variant for each; the device is asked for its compute capability when the
program is loaded, and only the first that fits is.  All take the same arrays and numbers.
Start reading at `launch`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.cuda.store import Code
from calque.lowering.kernels.dispatch import Spec, dispatch, insert

PTX = "ptx=8.0"  # of drivers of CUDA 12

_CONDITION = """
    hal.executable.condition(%device: !hal.device) -> i1 {{
      %ok, %v = hal.device.query<%device : !hal.device> key("cuda.device" :: "compute_capability_major") : i1, i32 = 0 : i32
      %c = arith.constant {major} : i32
      %is = arith.cmpi eq, %v, %c : i32
      hal.return %is : i1
    }}"""  # noqa: E501
_VARIANT = """
  hal.executable.variant public @{name} target(<"cuda", "cuda-nvptx-fb">) objects([#hal.executable.object<{{path = "{path}"}}>]) {{{condition}
    "hal.executable.export"() <{{sym_name = "{entry}", sym_visibility = "public", ordinal = 0 : index, workgroup_size = [{block} : index, 1 : index, 1 : index], workgroup_local_memory = {shared} : index, layout = {layout}}}> ({{
    ^bb0(%device: !hal.device):
      %x = arith.constant {grid[0]} : index
      %y = arith.constant {grid[1]} : index
      %z = arith.constant {grid[2]} : index
      hal.return %x, %y, %z : index, index, index
    }}, {{}}) : () -> ()
  }}"""  # noqa: E501
_BINDING = "#hal.pipeline.binding<storage_buffer"


@dataclass(frozen=True, slots=True)
class Variant:
    """Code and its grid; major: the compute capability that it is for, 0: every card's."""

    code: Code
    grid: tuple[int, int, int]
    major: int = 0


def launch(ctx: Context, label: str, variants: Sequence[Variant], operands: Sequence[Value],
           results: Sequence[Spec], numbers: Sequence[int]) -> list[Value]:
    """Results of a kernel; the last of `variants` is every card's."""
    ctx.needs |= {PTX}
    key = (label, len(operands), len(results), len(numbers),
           *[(v.code.path, v.code.entry, v.grid, v.major) for v in variants])
    if key not in ctx.sources:
        ctx.kernels += 1
        ctx.sources[key] = f"{label}_{ctx.kernels}"
        bindings = ", ".join([_BINDING + ", ReadOnly>"] * len(operands)
                             + [_BINDING + ">"] * len(results))
        layout = f"#hal.pipeline.layout<constants = {len(numbers)}, bindings = [{bindings}]>"
        insert(ctx.module, f"hal.executable private @{ctx.sources[key]} {{" + "".join(
            _VARIANT.format(
                name=_name(v), path=v.code.path.as_posix(), entry=v.code.entry, block=v.code.block,
                shared=v.code.shared, layout=layout, grid=v.grid,
                condition=_CONDITION.format(major=v.major) if v.major else "")
            for v in variants) + "\n}")
    return dispatch(ctx, "cuda", ctx.sources[key], ctx.entering(operands), results,
                    [f"@{_name(v)}::@{v.code.entry}" for v in variants], numbers=numbers)


def _name(variant: Variant) -> str:
    return f"sm_{10 * variant.major or 80}"
