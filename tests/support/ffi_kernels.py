"""Kernels of a user's in CUDA C and GLSL, one beside the other, with what they should give.

Used by tests/api/test_ffi_gpu.py and test_ffi_vulkan.py, and by tests/carry.py for a machine
with a GPU.  The numbers are small and whole, or halves: exact in every form.
"""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import calque
import calque.numpy as jnp
from calque import ffi, lax
from calque.api.ffi import METHODS

S = calque.ShapeDtypeStruct
HEAD = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
"""
FLAT = "layout(local_size_x = 64) in;\n"


def buffers(*rows: str) -> str:
    """The declarations of storage buffers: 'float x' is read, 'out float y' written."""
    made = []
    for i, row in enumerate(rows):
        *out, kind, name = row.split()
        made.append(f"layout(set = 0, binding = {i}, std430) {'' if out else 'readonly '}buffer "
                    f"B{i} {{ {kind} {name}[]; }};\n")
    return "".join(made)


def threads(ins: Any, outs: Any, **attributes: Any) -> int:
    return -(-outs[0].size // 64)


def size_and(*names: str) -> Any:
    return lambda ins, outs, **attributes: (outs[0].size, *[attributes[n] for n in names])


SCALE = {
    "vulkan": ffi.Kernel(HEAD + FLAT + buffers("float x", "out float y") + """
layout(push_constant) uniform P { int n; float by; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = by * x[i]; }
""", "main", scalars=size_and("by"), grid=threads),
    "cuda": ffi.Kernel("""
extern "C" __global__ void scale(const float *x, float *y, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = by * x[i];
}""", "scale", scalars=size_and("by"), grid=threads, block=64),
    "cpu": ffi.Kernel("""
void scale(const float *x, float *y, long n, double by) {
  for (long i = 0; i < n; ++i) y[i] = by * x[i];
}""", "scale", scalars=size_and("by"))}

# the least of each row and where it is, by way of work space
LEAST = {
    "vulkan": ffi.Kernel(HEAD + FLAT + buffers(
        "float x", "out float least", "out int at", "out float work") + """
layout(push_constant) uniform P { int rows; int width; };
void main() {
  int r = int(gl_GlobalInvocationID.x);
  if (r >= rows) return;
  at[r] = 0;
  for (int k = 0; k < width; ++k) {
    work[r * width + k] = 2 * x[r * width + k];
    if (work[r * width + k] < work[r * width + at[r]]) at[r] = k;
  }
  least[r] = work[r * width + at[r]] / 2;
}""", "main", scalars=lambda ins, outs: ins[0].shape, grid=threads,
        work=lambda ins, outs: [(ins[0].shape, "float32")]),
    "cuda": ffi.Kernel("""
extern "C" __global__ void least_of(const float *x, float *least, int *at, float *work, int rows,
                                    int width) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  at[r] = 0;
  for (int k = 0; k < width; ++k) {
    work[r * width + k] = 2 * x[r * width + k];
    if (work[r * width + k] < work[r * width + at[r]]) at[r] = k;
  }
  least[r] = work[r * width + at[r]] / 2;
}""", "least_of", scalars=lambda ins, outs: ins[0].shape, grid=threads, block=64,
        work=lambda ins, outs: [(ins[0].shape, "float32")])}


def tiles(ins: Any, outs: Any) -> tuple[int, int]:
    return -(-ins[0].shape[1] // 16), -(-ins[0].shape[0] // 16)


# transposed by tiles in shared memory; a grid of two axes
TURN = {
    "vulkan": ffi.Kernel(HEAD + "layout(local_size_x = 16, local_size_y = 16) in;\n" + buffers(
        "float x", "out float y") + """
layout(push_constant) uniform P { int rows; int width; };
shared float tile[16][17];
void main() {
  ivec2 me = ivec2(gl_LocalInvocationID.xy), at = ivec2(gl_WorkGroupID.xy) * 16;
  if (at.x + me.x < width && at.y + me.y < rows)
    tile[me.y][me.x] = x[(at.y + me.y) * width + at.x + me.x];
  barrier();
  if (at.y + me.x < rows && at.x + me.y < width)
    y[(at.x + me.y) * rows + at.y + me.x] = tile[me.x][me.y];
}""", "main", scalars=lambda ins, outs: ins[0].shape, grid=tiles),
    "cuda": ffi.Kernel("""
extern "C" __global__ void turn(const float *x, float *y, int rows, int width) {
  extern __shared__ float tile[];
  int mx = threadIdx.x, my = threadIdx.y, ax = blockIdx.x * 16, ay = blockIdx.y * 16;
  if (ax + mx < width && ay + my < rows) tile[my * 17 + mx] = x[(ay + my) * width + ax + mx];
  __syncthreads();
  if (ay + mx < rows && ax + my < width) y[(ax + my) * rows + ay + mx] = tile[mx * 17 + my];
}""", "turn", scalars=lambda ins, outs: ins[0].shape, grid=tiles, block=(16, 16),
        shared_memory=16 * 17 * 4)}

TYPES = {  # dtype -> (GLSL, CUDA C)
    "bool": ("uint8_t", "bool"), "int8": ("int8_t", "signed char"),
    "uint8": ("uint8_t", "unsigned char"), "int16": ("int16_t", "short"),
    "uint16": ("uint16_t", "unsigned short"), "int32": ("int", "int"),
    "uint32": ("uint", "unsigned"), "int64": ("int64_t", "long long"),
    "uint64": ("uint64_t", "unsigned long long"), "float16": ("float16_t", "short"),
    "bfloat16": ("uint16_t", "short"), "float32": ("float", "float"),
    "float64": ("double", "double"), "complex64": ("vec2", "float2"),
    "complex128": ("dvec2", "double2"), "float8_e4m3fn": ("uint8_t", "char"),
    "float8_e5m2": ("uint8_t", "char")}


def reverse(dtype: str) -> dict[str, ffi.Kernel]:
    """A kernel that reverses an array."""
    glsl, cuda = TYPES[dtype]
    return {
        "vulkan": ffi.Kernel(HEAD + FLAT + buffers(f"{glsl} x", f"out {glsl} y") + """
layout(push_constant) uniform P { uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = x[n - 1 - i]; }
""", "main", scalars=size_and(), grid=threads),
        "cuda": ffi.Kernel('extern "C" __global__ void reverse(const T *x, T *y, unsigned n) {\n'
                           "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "  if (i < n) y[i] = x[n - 1 - i];\n}".replace("T", cuda), "reverse",
                           scalars=size_and(), grid=threads, block=64)}


def register(platform: str) -> None:
    """Register all of them for a platform."""
    rows = {"scale": SCALE, "least": LEAST, "turn": TURN,
            **{f"reverse {t}": reverse(t) for t in TYPES}}
    for name, kernels in rows.items():
        if platform in kernels:
            ffi.register_ffi_target(f"gpu {name}", kernels[platform], platform)


def scale(x: Any, by: float = 2.5, vmap_method: str | None = None) -> Any:
    return ffi.ffi_call("gpu scale", S(x.shape, x.dtype), vmap_method=vmap_method)(x, by=by)


def least(x: Any) -> Any:
    rows = x.shape[:1]
    return ffi.ffi_call("gpu least", (S(rows, np.float32), S(rows, np.int32)))(x)


def turn(x: Any) -> Any:
    return ffi.ffi_call("gpu turn", S(x.shape[::-1], x.dtype))(x)


def cases() -> list[dict[str, Any]]:
    """name, f, args, wants, as tests/carry.py has them: kernels among other operations."""
    x = np.arange(1000, dtype=np.float32)
    m = ((np.arange(37 * 50) * 7919) % 1009).reshape(37, 50).astype(np.float32)
    steps = np.float32([1, 1.5, 1.75, 1.875])
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-30], np.float32)

    def loops(x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = scale(c, by=0.5) + x
            return c, c
        doubled = lax.while_loop(lambda y: y[0] < 100, lambda y: scale(y, by=2.0), x)
        chosen = lax.cond(x[0] > 0, lambda y: scale(y, by=3.0), lambda y: y, x)
        return lax.scan(step, jnp.zeros_like(x), jnp.stack([x] * 4))[1][:, 0], doubled, chosen

    def mapped(m: Any, method: str) -> Any:
        return calque.vmap(lambda r: scale(r, vmap_method=method), in_axes=1, out_axes=1)(m)

    @calque.custom_vjp
    def ruled(x: Any) -> Any:
        return scale(x)
    ruled.defvjp(lambda x: (scale(x), None), lambda _, ct: (scale(ct),))
    made = [
        ("between others", lambda x: [scale(scale(x + 1)[:10]) * 2], [x], [(x[:10] + 1) * 12.5]),
        ("one value twice", lambda x: [scale(x) + scale(x, by=-1.0)], [x], [x * np.float32(1.5)]),
        ("several results, work space", lambda m: list(least(m)), [m],
         [m.min(1), m.argmin(1).astype(np.int32)]),
        ("a grid of two axes, shared memory", lambda m: [turn(m), turn(turn(m[:1]))], [m],
         [m.T, m[:1]]),
        ("in loops and branches", lambda x: list(loops(x)), [np.ones(3, np.float32)],
         [steps, np.full(3, 128, np.float32), np.full(3, 3, np.float32)]),
        ("gradient", lambda x: [calque.grad(lambda x: (ruled(x) * x).sum())(x)], [x], [5 * x]),
        ("special numbers", lambda x: [scale(x, by=1.0), scale(x[:0]), scale(x[:1])], [special],
         [special, special[:0], special[:1] * np.float32(2.5)]),
        *[(f"vmap, {method}", lambda m, method=method: [mapped(m, method)], [m],
           [m * np.float32(2.5)]) for method in METHODS]]
    for dtype in TYPES:
        values = np.array([0, 1, 2, 3, 1.5 if "float" in dtype else 1]).astype(_numpy(dtype))
        made.append((f"reversed {dtype}", lambda x, dtype=dtype: [
            ffi.ffi_call(f"gpu reverse {dtype}", S(y.shape, y.dtype))(y) for y in (x, x[:1])],
            [values], [values[::-1], values[:1]]))
    return [{"name": name, "f": lambda *xs, f=f: f(*xs), "args": args, "wants": wants, "factor": 0,
             "normwise": False} for name, f, args, wants in made]


def _numpy(dtype: str) -> Any:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))
