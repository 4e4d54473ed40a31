"""Builds StableHLO operations: `Builder` emits named operations on Values (lowering/emit/value.py).

StableHLO has no Python op classes in the wheel, so every op goes through `Builder.op` by name.
Broadcasting here is only scalar-to-tensor (Python numbers and rank-0 values): rules do the rest.
Where shapes may hold Dims (core.dims), lowering.dynamic's Builder is taken.
Start reading at `Builder.op`.  Imports lowering.mlir, sizes and value.
"""
from __future__ import annotations

import contextvars
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.dtypes import is_signed, is_small, is_whole, real_dtype
from calque.core.types import Dtype, Ndarray, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.dtypes import BF16, BOOL, F16, F32, I32, I64, U16, U32, U64, signed
from calque.lowering.emit.sizes import Sizes
from calque.lowering.emit.value import Scalar
from calque.lowering.emit.value import Value as Value

ARITHMETIC = frozenset(("add", "subtract", "multiply", "divide"))
SOFT_BF16 = frozenset(("add", "subtract", "multiply", "divide", "negate", "abs", "floor", "ceil"))
ROUNDED = frozenset(("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum"))
# Whether f32 to f16 is to be done by bits in the module that is being emitted.
soft_f16: contextvars.ContextVar[bool] = contextvars.ContextVar("soft_f16", default=False)


_MEMORY = ("iree_tensor_ext.compute_barrier.start", "flow.dispatch")
_BRANCHES = ("stablehlo.case", "stablehlo.if")
_LOOKED_AT = 100  # values
_SLICES = ("stablehlo.slice", "stablehlo.dynamic_slice")
_REDUCTIONS = ("stablehlo.reduce", "stablehlo.dot_general", "linalg.generic")
_SEEN = ("stablehlo.reshape", "stablehlo.bitcast_convert", "iree_tensor_ext.compute_barrier.start")


def _repeats_one(x: Value) -> bool:
    """Whether all elements are one number."""
    if mlir.made_by(x.ir.owner) != "stablehlo.broadcast_in_dim":
        return False
    return not mlir.ir().RankedTensorType(x.ir.owner.operands[0].type).shape


class Builder:
    """Emits operations at the current insertion point of one function.

    `relaxed`: the target's compiler reorders float additions (Vulkan drivers do).
    `f64_ok`: the target computes in f64 (decides which form of a decomposition is emitted).
    `bodies`: elementwise decompositions become linalg.generic bodies; False: StableHLO only.
    """

    extents: Sizes  # of dimensions that are known at the call only
    # whether every dispatch must read something: where loops from the host carry buffer views, one
    # that reads nothing and is read by a loop or a branch alone is lost, or rejected (docs/iree.md)
    keeps_reads = False

    def __init__(self, f64_ok: bool = True, bodies: bool = True, relaxed: bool = False) -> None:
        self.f64_ok, self.bodies, self.relaxed = f64_ok, bodies, relaxed
        self.origins: dict[Any, Any] = {}  # what folding can make of values (lowering.folding),
        self.counting: set[Any] = set()  # and those with an iota in them

    @property
    def soft_f16(self) -> bool:
        """Whether the module that is being emitted converts f32 to f16 by bits."""
        return soft_f16.get()

    # ---- the one place where operations are made
    def op(self, name: str, operands: Sequence[Value],
           results: Sequence[tuple[tuple[int, ...], Dtype]],
           attributes: dict[str, str] | None = None, regions: int = 0) -> Any:
        """Create `name` (dialect included); attributes are MLIR text. Returns the operation."""
        return mlir.operation(name, [mlir.tensor_type(s, d) for s, d in results],
                              [v.ir for v in operands], attributes, regions)

    def emit(self, name: str, operands: Sequence[Value], shape: Shape, dtype: Dtype,
             attributes: dict[str, str] | None = None) -> Value:
        """One StableHLO op (`name` without the dialect) with one result."""
        if self.soft_f16 and dtype == F16 and name in ROUNDED:
            return self._widened(name, operands, shape)
        if self.relaxed and dtype == BF16 and name in SOFT_BF16:
            return self._by_bits(name, operands, shape)
        op = self.op(f"stablehlo.{name}", operands, [(shape, dtype)], attributes)
        return Value(self, op.results[0], shape, dtype)

    # ---- constants
    def constant(self, array: Any, dtype: Any = None) -> Value:
        """A dense constant of a NumPy array (a splat when all elements are the same bits)."""
        a = np.asarray(array, dtype=dtype)
        return self.splat(a[()], (), a.dtype) if a.ndim == 0 else self._dense(a)

    def _dense(self, a: Ndarray) -> Value:
        if a.dtype.kind == "c":  # the bindings cannot cast a complex elements attribute
            return self.complex(self._dense(a.real), self._dense(a.imag))
        if a.size == 0:
            return self._const_op("", a.shape, a.dtype)
        made = mlir.value("stablehlo.constant", mlir.tensor_type(a.shape, a.dtype),
                          value=mlir.elements(a))
        return Value(self, made, a.shape, a.dtype)

    def _const_op(self, elements: str, shape: Shape, dtype: Dtype) -> Value:
        made = mlir.value("stablehlo.constant", mlir.tensor_type(shape, dtype),
                          value=f"dense<{elements}> : {mlir.type_text(shape, dtype)}")
        return Value(self, made, shape, dtype)

    def splat(self, value: Any, shape: Shape, dtype: Any) -> Value:
        """A constant tensor with one value everywhere; bits are kept (NaN, -0, denormals)."""
        dtype = np.dtype(dtype)
        a = np.asarray(value).astype(dtype)
        if dtype.kind == "c":
            part = real_dtype(dtype)
            real, imag = self.splat(a.real, shape, part), self.splat(a.imag, shape, part)
            return self.complex(self._cut(real) if self.keeps_reads else real, imag)
        if 0 in shape:
            body = ""
        elif dtype == BOOL:
            body = "true" if a else "false"
        else:
            body = f'"0x{a.tobytes().hex().upper()}"'
        return self._const_op(body, shape, dtype)

    def empty(self, shape: Shape, dtype: Dtype) -> Any:
        """Memory without a value (an ir.Value), for operations that write all of it."""
        return mlir.value("tensor.empty", mlir.tensor_type(shape, dtype), self.lengths(shape))

    def lengths(self, shape: Shape) -> list[Any]:
        """The sizes of a shape that are operands (ir.Values)."""
        return []

    def given(self, value: Any, shape: Shape, dtype: Dtype) -> Value:
        """A splat whose number a dispatch is given when it runs, instead of having it in its code
        (floats and signed integers of 32 and 64 bits)."""
        kind = mlir.ir().Type.parse(mlir.element_name(dtype))
        bits = f"0x{np.asarray(value).astype(dtype).view(f'u{dtype.itemsize}').item():X}"
        constant = mlir.value("arith.constant", kind, value=f"{bits} : {kind}")
        hidden = mlir.value("util.optimization_barrier", kind, [constant])
        return Value(self, mlir.fill(hidden, self.empty(shape, dtype)), shape, dtype)

    def number(self, size: Any, dtype: Any) -> Value:
        """A size as an array of rank 0."""
        return self.splat(size, (), dtype)

    def like(self, x: Value, value: Any) -> Value:
        """A splat of `value` with x's shape and dtype."""
        return self.splat(value, x.shape, x.dtype)

    def match(self, x: Value | Scalar, y: Value | Scalar) -> tuple[Value, Value]:
        """Both operands as values of one shape; Python numbers take the other's dtype."""
        if not isinstance(x, Value):
            assert isinstance(y, Value)
            return self.like(y, x), y
        if not isinstance(y, Value):
            return x, self.like(x, y)
        if x.shape != y.shape:
            if x.shape == ():
                x = self.broadcast(x, y.shape, ())
            elif y.shape == ():
                y = self.broadcast(y, x.shape, ())
        assert x.shape == y.shape and x.dtype == y.dtype, (x, y)
        return x, y

    # ---- elementwise
    def unary(self, name: str, x: Value) -> Value:
        return self.emit(name, [x], x.shape, x.dtype)

    def binary(self, name: str, x: Value, y: Value) -> Value:
        return self.emit(name, [x, y], x.shape, x.dtype)

    def maximum(self, x: Value, y: Value | Scalar) -> Value:
        return self.binary("maximum", *self.match(x, y))

    def minimum(self, x: Value, y: Value | Scalar) -> Value:
        return self.binary("minimum", *self.match(x, y))

    def abs(self, x: Value) -> Value:
        if is_whole(x.dtype) and not is_signed(x.dtype):
            return x
        return self.emit("abs", [x], x.shape, real_dtype(x.dtype))

    def floor(self, x: Value) -> Value:
        return self.unary("floor", x)

    def round_even(self, x: Value) -> Value:
        return self.unary("round_nearest_even", x)

    def sqrt(self, x: Value) -> Value:
        return self.unary("sqrt", x)

    def exp(self, x: Value) -> Value:
        """IREE's exponential as it comes (accuracy and f64 cures: lowering/math)."""
        return self.unary("exponential", x)

    def log(self, x: Value) -> Value:
        """IREE's logarithm as it comes."""
        return self.unary("log", x)

    def compare(self, direction: str, x: Value, y: Value | Scalar) -> Value:
        """EQ NE LT LE GT GE; floats compare as IEEE (NaN unequal), integers by their sign."""
        x, y = self.match(x, y)
        kind = "SIGNED" if is_signed(x.dtype) else "UNSIGNED" if is_whole(x.dtype) else "FLOAT"
        attrs = {
            "comparison_direction": f"#stablehlo<comparison_direction {direction}>",
            "compare_type": f"#stablehlo<comparison_type {kind}>",
        }
        return self.emit("compare", [x, y], x.shape, BOOL, attrs)

    def select(self, pred: Value, x: Value | Scalar, y: Value | Scalar) -> Value:
        """x where pred else y; pred may be rank 0.

        A number that chooses between arrays is spread over them: IREE reads one that it computes
        alone on the host, in the middle of the call, and local-task may then start what follows
        before its memory is there ("transient buffer has not been committed").
        """
        x, y = self.match(x, y)
        if pred.shape == () != x.shape:
            pred = self.broadcast(pred, x.shape, ())
        return self.emit("select", [pred, x, y], x.shape, x.dtype)

    def isnan(self, x: Value) -> Value:
        return x.ne(x)

    def isinf(self, x: Value) -> Value:
        return abs(x).eq(np.inf)

    def convert(self, x: Value, dtype: Dtype) -> Value:
        """x as IREE converts it: lowering/math/convert has what it does wrong."""
        assert x.dtype == dtype or not is_small(x.dtype) and not is_small(dtype), (x.dtype, dtype)
        if x.dtype == BOOL and dtype.kind in "iu" and dtype.itemsize == 1:
            # a byte that IREE does not take for the boolean's own: of the two in one dispatch it
            # keeps one and writes it twice, once outside of the loops over workgroups
            # (tests/lowering/test_refusals.py)
            return -self.select(x, self.splat(-1, x.shape, dtype), self.splat(0, x.shape, dtype))
        if dtype == BF16 != x.dtype and (self.relaxed or self.bodies and x.dtype in (F16, F32)):
            return self.bfloat16(x)
        if self.soft_f16 and dtype == F16 != x.dtype:
            return self.float16(x)
        return x if x.dtype == dtype else self.emit("convert", [x], x.shape, dtype)

    def bfloat16(self, x: Value) -> Value:
        """x as bf16, to nearest even, by the bits of f32.

        IREE makes nothing of f32 to bf16 to f32 (it marks its own forms of bf16 as `contract`); a
        rounding by bits it keeps (tests/lowering/test_math_needs_cures.py).  For SPIR-V: MLIR
        makes one conversion of an integer's to f32 and then to bf16, which IREE's bf16 there (an
        integer with the upper half of an f32's bits) has no form for
        (tests/lowering/test_vulkan_needs_cures.py).  NaN is known by its bits: drivers take x != x
        for false, and NVIDIA's NaN of 31 bits, rounded as a number, became -0.
        """
        wide = self.convert(x, F32)
        u = self.bitcast(wide, U32)
        upper = (u + (((u >> 16) & 1) + 0x7FFF)) >> 16
        upper = self.select((u & 0x7FFFFFFF) > 0x7F800000, 0x7FC0, upper)
        return self.bitcast(self.convert(upper, U16), BF16)

    def _by_bits(self, name: str, operands: Sequence[Value], shape: Shape) -> Value:
        """An operation of bf16 in f32, narrowed by `bfloat16`: IREE's form tests x != x."""
        return self.bfloat16(self.emit(name, [self.convert(v, F32) for v in operands], shape, F32))

    def _widened(self, name: str, operands: Sequence[Value], shape: Shape) -> Value:
        """An operation of f16 in f32, rounded by `float16`."""
        f32, u16 = F32, U16
        wide = [self.convert(v, f32) for v in operands]
        if name not in ("maximum", "minimum"):
            return self.float16(self.emit(name, wide, shape, f32))
        # LLVM takes these back to f16: the bits of an operand are chosen; of zeros, their signs
        (p, q), (x, y) = wide, [self.bitcast(v, u16) for v in operands]
        first = self.compare("GT" if name == "maximum" else "LT", p, q) | self.isnan(p)
        same = x & y if name == "maximum" else x | y
        return self.bitcast(self.select(first, x, self.select(p.eq(q), same, y)), F16)

    def float16(self, x: Value) -> Value:
        """x as f16, to nearest even, by the bits of f32.

        For CPUs without the instruction (before x86-64-v3): IREE's function makes 0 of what is a
        denormal f16.  Those are rounded by an addition that leaves their bits at the end of the
        mantissa of 0.5 and more; of others the mantissa is rounded as an integer (Giesen 2016).
        """
        f32, u32 = F32, U32
        u = self.bitcast(self.convert(x, f32), u32)
        sign = u & 0x80000000
        size = u ^ sign
        denormal = self.bitcast(self.bitcast(size, f32) + 0.5, u32) - 0x3F000000
        normal = (size + 0xC8000FFF + ((size >> 13) & 1)) >> 13
        out = self.select(size < 0x38800000, denormal, normal)
        out = self.select(size < 0x47800000, out, self.select(
            size > 0x7F800000, self.like(size, 0x7E00), self.like(size, 0x7C00)))
        return self.bitcast(self.convert(out | (sign >> 16), U16), F16)

    def bitcast(self, x: Value, dtype: Dtype) -> Value:
        if x.dtype == dtype:
            return x
        assert x.dtype.itemsize == dtype.itemsize
        if mlir.element_name(x.dtype) == mlir.element_name(dtype):
            return Value(self, x.ir, x.shape, dtype)
        return self.emit("bitcast_convert", [x], x.shape, dtype)

    def complex(self, re: Value, im: Value) -> Value:
        dtype = np.dtype(f"c{2 * re.dtype.itemsize}")
        return self.emit("complex", [re, im], re.shape, dtype)

    def real(self, x: Value) -> Value:
        return self.emit("real", [x], x.shape, real_dtype(x.dtype))

    def imag(self, x: Value) -> Value:
        return self.emit("imag", [x], x.shape, real_dtype(x.dtype))

    # ---- shape
    def reshape(self, x: Value, shape: Shape) -> Value:
        if x.shape == shape:
            return x
        if len(shape) > 1 and set(shape) == {1}:
            x = self._cut_out_of(_origin(x, _SEEN), len(shape), x)
        return self.emit("reshape", [x], shape, x.dtype)

    def _cut_out_of(self, op: Any, rank: int, x: Value) -> Value:
        """The only element x of a slice, cut out of an operand of `rank` axes: IREE would give the
        slice of a vector more axes than the vector has (tests/lowering/test_refusals.py)."""
        if op is None or op.name not in _SLICES or len(op.operands[0].type.shape) >= rank:
            return x
        whole, *starts = op.operands
        size = tuple(whole.type.shape)
        dtype = x.dtype
        if str(whole.type.element_type) != mlir.element_name(dtype):  # cut by a barrier
            dtype = signed(dtype)
        more = rank - len(size)
        wide = self.emit("reshape", [Value(self, whole, size, dtype)], (*size, *[1] * more), dtype)
        if not starts:
            at = [*mlir.ir().DenseI64ArrayAttr(op.attributes["start_indices"]), *[0] * more]
            return self.slice(wide, at, [i + 1 for i in at]).view(x.dtype)
        zero = self.splat(0, (), I32 if "i32" in str(starts[0].type) else I64)
        places = [*[Value(self, i, (), zero.dtype) for i in starts], *[zero] * more]
        return self.dynamic_slice(wide, places, (1,) * rank).view(x.dtype)

    def broadcast(self, x: Value, shape: Shape, dims: Sequence[int]) -> Value:
        """broadcast_in_dim: operand axis i becomes result axis dims[i]."""
        if x.shape == shape and tuple(dims) == tuple(range(len(shape))):
            return x
        owner = x.ir.owner
        if shape and not x.shape and mlir.made_by(owner) == "stablehlo.reshape":
            # of a scalar that is broadcast twice and then changed, IREE moves both changes to the
            # scalar and fails where that is a reshape (tests/lowering/test_refusals.py)
            whole = tuple(owner.operands[0].type.shape)
            source = Value(self, owner.operands[0], whole, x.dtype)
            if whole != (1,):
                source = self.emit("reshape", [source], (1,), x.dtype)
            x, dims = source, [len(shape) - 1]
        return self.emit("broadcast_in_dim", [x], shape, x.dtype,
                         {"broadcast_dimensions": int_array(dims)})

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        shape = tuple(x.shape[p] for p in perm)
        if tuple(perm) == tuple(range(len(shape))):
            return x
        return self.emit("transpose", [x], shape, x.dtype, {"permutation": int_array(perm)})

    def slice(self, x: Value, start: Sequence[int], limit: Sequence[int],
              strides: Sequence[int] | None = None) -> Value:
        strides = strides or [1] * len(start)
        shape = tuple(max(0, -(-(e - s) // t)) for s, e, t in zip(start, limit, strides))
        return self.emit("slice", [x], shape, x.dtype, {
            "start_indices": int_array(start), "limit_indices": int_array(limit),
            "strides": int_array(strides)})

    def slice_in_dim(self, x: Value, start: int, limit: int, axis: int) -> Value:
        """A part of x along one axis."""
        starts, limits = [0] * x.ndim, list(x.shape)
        starts[axis], limits[axis] = start, limit
        return self.slice(x, starts, limits)

    def index_in_dim(self, x: Value, index: int, axis: int) -> Value:
        """What lies at one place of an axis, without that axis."""
        return self.reshape(self.slice_in_dim(x, index, index + 1, axis),
                            (*x.shape[:axis], *x.shape[axis + 1:]))

    def cropped(self, x: Value, shape: Shape) -> Value:
        """The first elements of x along each axis."""
        return self.slice(x, [0] * x.ndim, shape)

    def dynamic_slice(self, x: Value, starts: Sequence[Value], sizes: Shape) -> Value:
        """A window whose place, within x, is known at run time."""
        return self.emit("dynamic_slice", [x, *starts], sizes, x.dtype,
                         {"slice_sizes": int_array(sizes)})

    def dynamic_update_slice(self, x: Value, update: Value, starts: Sequence[Value]) -> Value:
        return self.emit("dynamic_update_slice", [x, update, *starts], x.shape, x.dtype)

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        first = xs[0]
        size = sum(x.shape[axis] for x in xs)
        shape = first.shape[:axis] + (size,) + first.shape[axis + 1:]
        return self.emit("concatenate", xs, shape, first.dtype, {"dimension": f"{axis} : i64"})

    def reverse(self, x: Value, axes: Sequence[int]) -> Value:
        if _repeats_one(x):  # (IREE would fuse it, into running sums with too large a stack)
            return x
        if x.dtype.kind == "u":  # IREE does not compile the reversal of unsigned integers
            return self.reverse(x.view(signed(x.dtype)), axes).view(x.dtype)
        return self.emit("reverse", [self.materialize_slice(x)], x.shape, x.dtype,
                         {"dimensions": int_array(axes)})

    def pad(self, x: Value, value: Value | Scalar,
            config: Sequence[tuple[int, int, int]]) -> Value:
        """x with (low, high, between its elements) of a value around it."""
        if all(c == (0, 0, 0) for c in config):
            return x
        if not isinstance(value, Value) and x.dtype.kind in "iuf" and x.dtype.itemsize == 8:
            bits = int(np.asarray(value).astype(x.dtype).view(U64))
            if bits >> 32 != bits & 0xFFFFFFFF:
                # IREE fills memory with 8 different bytes by a dispatch, and takes one of those
                # for two pads at places where it cannot (tests/lowering/test_refusals.py)
                padded = self.pad(x.view(U64) ^ bits, 0, config)
                return (padded ^ bits).view(x.dtype)
        if not isinstance(value, Value):
            value = self.splat(value, (), x.dtype)
        return self.padded(x, value, config)

    def padded(self, x: Value, value: Value, config: Sequence[tuple[int, int, int]]) -> Value:
        shape = tuple(lo + hi + n + i * max(0, n - 1) for n, (lo, hi, i) in zip(x.shape, config))
        return self.emit("pad", [x, value], shape, x.dtype, {
            "edge_padding_low": int_array([c[0] for c in config]),
            "edge_padding_high": int_array([c[1] for c in config]),
            "interior_padding": int_array([c[2] for c in config])})

    def iota(self, shape: Shape, dtype: Any, axis: int) -> Value:
        return self.emit("iota", [], shape, np.dtype(dtype), {"iota_dimension": f"{axis} : i64"})

    def barrier(self, *xs: Value) -> list[Value]:
        """Each of xs, written to memory: IREE fuses nothing across, the call stays asynchronous.

        (optimization_barrier does the first, but IREE then waits for the work inside the call.)
        """
        return [self._cut(x) for x in xs]

    def _cut(self, x: Value) -> Value:
        if x.dtype.kind == "c":
            return self.complex(self._cut(self.real(x)), self._cut(self.imag(x)))
        if x.dtype.kind == "u":  # the operation takes no unsigned tensors
            return self._cut(x.view(signed(x.dtype))).view(x.dtype)
        made = mlir.value("iree_tensor_ext.compute_barrier.start",
                          mlir.tensor_type(x.shape, x.dtype), [x.ir, *self.lengths(x.shape)])
        return Value(self, made, x.shape, x.dtype)

    def materialize(self, *xs: Value) -> list[Value]:
        """What a reduction, a product or a running sum gives, and what products and windows read:
        for SPIR-V, written to memory.

        A consumer of more axes, such as x - sum(x, 0), IREE fuses with a reduction along any axis
        but the last, and spreads the two over threads in different ways: a third of the results are
        wrong (tests/lowering/test_vulkan_needs_cures.py).  Windows of halves, widened there, and
        products of two functions of one value come out wrong likewise.
        """
        return self.barrier(*xs) if self.relaxed else list(xs)

    def materialize_slice(self, x: Value) -> Value:
        """x, to be read at computed positions: written to memory if it is a part of something, or
        folding may find that it is (IREE does not compile steps between such elements:
        tests/lowering/test_refusals.py)."""
        return self._cut(x) if _may_be_slice(x) else x

    def materialize_reduced(self, x: Value) -> Value:
        """Positions x (n,), where elements are read: written to memory if it is one and comes of a
        reduction.  In a loop IREE may make one dispatch of the two, whose vectors it then mixes
        with scalars (tests/lowering/test_refusals.py)."""
        return self._cut(x) if x.shape == (1,) and _comes_of(x, _REDUCTIONS) else x

    def optimization_barrier(self, *xs: Value) -> list[Value]:
        """Keeps IREE from merging across, too; the call waits for the work before it."""
        op = self.op("stablehlo.optimization_barrier", xs, [(x.shape, x.dtype) for x in xs])
        return [self.tied(Value(self, r, x.shape, x.dtype)) for r, x in zip(op.results, xs)]

    def tied(self, x: Value) -> Value:
        """x, its sizes said again where they are known at the call only."""
        return x


def _origin(x: Value, through: Sequence[str]) -> Any:
    """The operation that x comes from, through these; None for an argument."""
    owner = x.ir.owner
    while (name := mlir.made_by(owner)) in through:  # a block has no name
        owner = owner.operands[0].owner
    return None if name is None else owner


def _count(v: Any) -> int:
    """The number of elements; negative where it is known at the call only."""
    spec = mlir.spec(v)
    return 0 if spec is None else math.prod(spec[0])


def _may_be_slice(x: Value) -> bool:
    """Whether x is a slice, seen again or computed by what may fold: x * 1, min(x, x)."""
    return _comes_of(x, (*_SLICES, *_BRANCHES))


def _is_parallel(op: Any) -> bool:
    return "reduction" not in str(op.attributes["iterator_types"])


def _comes_of(x: Value, names: Sequence[str]) -> bool:
    """Whether one of these operations gives x, or something of as many elements that x is computed
    of without being written to memory between (or too much was computed to tell)."""
    seen: set[Any] = set()
    waiting = [x.ir]
    while waiting and len(seen) < _LOOKED_AT:
        v = waiting.pop()
        name = mlir.made_by(v.owner)  # a block has none
        if v in seen or name is None or name in _MEMORY or _count(v) != _count(x.ir):
            continue
        if name in names and not (name == "linalg.generic" and _is_parallel(v.owner)):
            return True
        seen.add(v)
        waiting += v.owner.operands
    return bool(waiting)


def int_array(values: Sequence[int]) -> str:
    """MLIR text of a DenseI64ArrayAttr."""
    body = ", ".join(str(int(v)) for v in values)
    return f"array<i64: {body}>" if body else "array<i64>"
