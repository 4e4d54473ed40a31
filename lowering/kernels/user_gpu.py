"""Kernels of the user's own on GPUs: CUDA's and Vulkan's code, put into the program as it is.

IREE takes code that others wrote as `hal.executable.source`, one executable for each kernel and
grid; arrays are its bindings, scalars its push constants of 32 bits.  IREE looks at nothing in it,
so what the code says of itself (spirv.py, ptx.py) is compared with the call and the target here.
Start reading at `call_gpu`.
"""
from __future__ import annotations

from collections.abc import Sequence

from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.dispatch import dispatch, insert
from calque.lowering.kernels.user import Call, Code
from calque.lowering.kernels.user_cuda import cuda_code
from calque.lowering.kernels.user_vulkan import vulkan_code

_SOURCE = """
"hal.executable.source"() <{{sym_name = "{name}", sym_visibility = "private",
    objects = #hal.executable.objects<{{#hal.executable.target<{kind}> =
      [#hal.executable.object<{{path = "{path}"}}>]}}>}}> ({{
  "hal.executable.export"() <{{sym_name = "{entry}", sym_visibility = "public",
      ordinal = 0 : index, {more}layout = #hal.pipeline.layout<constants = {constants},
      bindings = [{bindings}]>}}> ({{
    ^bb0(%device: !hal.device):
      %x = arith.constant {grid[0]} : index
      %y = arith.constant {grid[1]} : index
      %z = arith.constant {grid[2]} : index
      hal.return %x, %y, %z : index, index, index
  }}, {{}}) : () -> ()
  "hal.executable.source_end"() : () -> ()
}}) : () -> ()"""
_KINDS = {"vulkan-spirv": '"vulkan-spirv", "vulkan-spirv-fb"', "cuda": '"cuda", "cuda-nvptx-fb"'}


def call_gpu(ctx: Context, call: Call, operands: Sequence[Value]) -> list[Value]:
    """The results of a kernel, and its work space.

    Args:
      operands: bool as int8, an empty one as one element; the aliased ones to be written into.
    """
    assert ctx.target is not None
    if ctx.target.backend == "vulkan-spirv":
        code = vulkan_code(call, ctx.target)
    else:
        code = cuda_code(call, ctx.target)
    ctx.needs |= code.needs
    name = _declared(ctx, call, code, ctx.target.backend)
    return dispatch(ctx, "user", name, ctx.entering(operands), call.memory, code.entry,
                    numbers=code.words, into=call.into)


def _declared(ctx: Context, call: Call, code: Code, backend: str) -> str:
    """The executable of a kernel and grid, in the module once."""
    grid = (*call.grid, 1, 1, 1)[:3]
    bindings = [*["" if i in call.aliases else "ReadOnly" for i in range(len(call.ins))],
                *[""] * len(call.new)]
    key = (code.path, code.entry, code.block, code.shared, grid, len(code.words), *bindings)
    if key not in ctx.sources:
        ctx.kernels += 1
        name = ctx.sources[key] = f"kernel_{ctx.kernels}_{code.path.stem}"
        more = ""
        if code.block:
            more += f"workgroup_size = [{', '.join(f'{n} : index' for n in code.block)}], "
        if code.shared:
            more += f"workgroup_local_memory = {code.shared} : index, "
        insert(ctx.module, _SOURCE.format(
            name=name, kind=_KINDS[backend], path=code.path.as_posix(), entry=code.entry, more=more,
            constants=len(code.words), grid=grid, bindings=", ".join(
                f"#hal.pipeline.binding<storage_buffer{', ' * bool(b)}{b}>" for b in bindings)))
    return ctx.sources[key]
