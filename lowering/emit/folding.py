"""Keeps IREE from folding what a reduction reads to a constant.

Where the element that a loop adds up has become a constant of the loop's body, IREE's vectorizer
(MLIR's `reduceIfNeeded`) adds it once a vector and not once a lane: the sum of seven halves is 0.5.
Values that are constant when compiled come to that, and so do arguments whose values folding drops:
`(u >= 0).sum()` of unsigned u, `(x == x).sum()`.  What has no argument in it is written to memory
first.  What may be folded is combined with a zero, `(x << 1) & 1` of an argument's bits, that MLIR
does not see through and LLVM does, behind the vectorizer, so that it costs nothing.  The same hides
from StableHLO that operands of unknown size are equal (`unequal`).
tests/lowering/test_folding.py tells when IREE no longer needs it.  Start reading at `guarded`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calque.lowering.emit import mlir
from calque.lowering.emit.dtypes import BOOL, I32, I64, signed, unsigned
from calque.lowering.emit.value import Value

if TYPE_CHECKING:
    from calque.lowering.emit.builder import Builder

_MOVES = frozenset(("reshape", "broadcast_in_dim", "transpose", "reverse", "slice"))
_JOINS = frozenset(("concatenate", "pad", "complex"))
_BRANCHES = frozenset(("case", "if"))
_KEEPS = frozenset(("real", "imag", "convert", "bitcast_convert", "negate"))
_DROPS = frozenset(("select", "power", "clamp"))
_COMPUTES = frozenset((
    "dot_general", "reduce", "reduce_window", "convolution", "sort", "fft", "while", "custom_call",
    "gather", "scatter", "dynamic_slice", "dynamic_update_slice", "dynamic_gather", "cholesky",
    "triangular_solve"))
_BARRIERS = ("iree_tensor_ext.compute_barrier.start", "stablehlo.optimization_barrier")


@dataclass(frozen=True, slots=True)
class _Origin:
    """What folding can make of a value.

    kind: 'data' stays what it is; 'foldable' may become a constant, and `leaf` is data of the same
    shape in the same loop; 'constant' may too, and no such leaf is at hand.
    """

    kind: str
    leaf: Value | None = None


_DATA, _CONSTANT = _Origin("data"), _Origin("constant")


def guarded(x: Value) -> Value:
    """x for a reduction to read: the same bits, and no constant to IREE."""
    found = _origin(x.b, x.ir)
    if found is _DATA or 0 in x.shape:
        return x
    if found.leaf is None:
        return x.b.barrier(x)[0]
    leaf = Value(x.b, found.leaf.ir, x.shape, found.leaf.dtype)  # (with x's Dims)
    return with_zero(x, _hidden_zero(leaf))


def guarded_one(x: Value, *others: Value) -> list[Value]:
    """Operands of a product that is summed: one that is no constant is enough."""
    every = [x, *others]
    return every if any(_origin(v.b, v.ir) is _DATA for v in every) else [guarded(x), *others]


def kept_unsigned(x: Value) -> Value:
    """x for a product or a convolution to read, whose shape is known; the same bits.

    IREE reads the operands of these in the type that they are widened from, past what only moves
    them, and as signed whatever they are.  A mask on the way, which LLVM drops, ends that."""
    waiting, seen = [x.ir], set[Any]()
    while waiting and len(seen) < 200:
        v = waiting.pop()
        name = (mlir.made_by(v.owner) or "").removeprefix("stablehlo.")
        if v in seen or name not in _MOVES | _JOINS | {"convert"}:
            continue
        seen.add(v)
        source, result = mlir.spec(v.owner.operands[0]), mlir.spec(v)
        if (name == "convert" and source is not None and result is not None
                and source[1].kind == "u" and source[1].itemsize < result[1].itemsize):
            with mlir.ir().InsertionPoint(v.owner):
                narrow = Value(x.b, v.owner.operands[0], *source)
                bits = 8 * narrow.dtype.itemsize
                wide = narrow.astype(I32 if bits < 32 else I64)
                v.owner.operands[0] = (wide & x.b.like(wide, (1 << bits) - 1)).ir
        else:
            waiting += v.owner.operands
    return x


def guarded_from_one_number(operands: Sequence[Value]) -> list[Value]:
    """Operands of elementwise operations with several results.  Where each of these becomes one
    number throughout, IREE reads the first for the second (`3 / 2` of complex numbers was
    1.5+1.5j); where an operand counts its elements they do not."""
    if operands[0].shape.count(1) < len(operands[0].shape) and any(
            _counts(v.b, v.ir) for v in operands):
        return list(operands)
    return guarded_one(*operands)


def _counts(b: Builder, v: Any) -> bool:
    """Whether a value that is no data is made of an iota."""
    return _origin(b, v) is not _DATA and v in b.counting


def computes_positions(x: Value) -> bool:
    """Whether a loop that reads x would compute positions on the way: x is made of an iota, with
    nothing between that is written to memory."""
    seen: set[Any] = set()
    waiting = [x.ir]
    while waiting and len(seen) < 200:
        v = waiting.pop()
        full = mlir.made_by(v.owner)
        if full == "stablehlo.iota":
            return True
        if v in seen or full is None or full in _BARRIERS or full.partition(".")[2] in _COMPUTES:
            continue
        seen.add(v)
        waiting += _sources(v)
    return bool(waiting)


def unequal(x: Value, y: Value) -> Value:
    """y for a comparison with x, or a difference, of integers whose number is known at the call
    only: the same bits, not known to be x's.  Of equal ones StableHLO's folder makes a constant of
    that shape, and constants have known shapes."""
    return y if x.dtype.kind not in "biu" else with_zero(y, _hidden_zero(y))


def with_zero(x: Value, zero: Value) -> Value:
    """x combined with a zero of an unsigned dtype: the same bits."""
    b = x.b
    if x.dtype.kind == "c":
        return b.complex(with_zero(b.real(x), zero), with_zero(b.imag(x), zero))
    if x.dtype == BOOL:
        return x ^ zero.ne(0)
    bits = unsigned(x.dtype)
    return (x.view(bits) ^ zero.astype(bits)).view(x.dtype)


def _hidden_zero(x: Value) -> Value:
    if x.dtype.kind == "c":
        x = x.b.real(x)
    bits = unsigned(x.dtype)
    raw = x.astype(bits) if x.dtype == BOOL else x.view(bits)
    one = raw.b.like(raw, 1)
    return raw.b.binary("shift_left", raw, one) & one


def _origin(b: Builder, v: Any) -> _Origin:
    waiting = [v]
    while waiting:  # (chains of thousands: no recursion)
        u = waiting[-1]
        if u in b.origins:
            waiting.pop()
            continue
        sources = _sources(u)
        new = [o for o in sources if o not in b.origins]
        if new:
            waiting += new
            continue
        b.origins[u] = _look(b, u)
        if mlir.made_by(u.owner) == "stablehlo.iota" or any([o in b.counting for o in sources]):
            b.counting.add(u)
    return b.origins[v]


def _sources(v: Any) -> list[Any]:
    """The values, not sizes, on which one depends; of a loop's carry what it starts from."""
    if mlir.made_by(v.owner) is not None:
        return [o for o in v.owner.operands if str(o.type) != "index"]
    parent = v.owner.owner.operation
    at = mlir.ir().BlockArgument(v).arg_number
    return [parent.operands[at]] if parent.name == "stablehlo.while" and at < len(
        parent.operands) else []


def _look(b: Builder, v: Any) -> _Origin:
    op = v.owner
    full = mlir.made_by(op)
    if full is None:
        return _argument(b, v)
    if full == "tensor.empty":  # what nobody wrote has no bits to hide a zero in
        return _CONSTANT
    dialect, _, name = full.partition(".")
    operands = [o for o in op.operands if str(o.type) != "index"]  # (sizes)
    found = [_origin(b, o) for o in operands]
    if all(o is _CONSTANT for o in found):  # (flow: kernels of ours, util: parameters of a file)
        return _DATA if dialect in ("flow", "util", "hal") else _CONSTANT
    if full in _BARRIERS or dialect not in ("stablehlo", "linalg") or name in _COMPUTES:
        return _DATA
    if name in _JOINS:
        return _DATA if all(o is _DATA for o in found) else _CONSTANT
    if name in _BRANCHES:
        return _CONSTANT
    if full == "linalg.generic" and _only_moves(op):  # (an axis more, of arrays of unknown size)
        return _DATA if found[0] is _DATA else _CONSTANT
    if name in _MOVES:
        return _moved(b, v, op, found[0])
    return _computed(b, v, name, [o for o in operands if mlir.is_tensor(o)], found)


def _only_moves(op: Any) -> bool:
    """Whether a linalg.generic yields an element that it reads."""
    body = list(op.regions[0].blocks[0].operations)
    return len(body) == 1 and mlir.made_by(body[0].operands[0].owner) is None


def _argument(b: Builder, v: Any) -> _Origin:
    """Of a block: the function's arguments are data, a loop's carry is what it starts from."""
    block = v.owner
    parent = block.owner.operation
    if parent.name == "func.func":
        return _DATA
    at = mlir.ir().BlockArgument(v).arg_number
    if parent.name != "stablehlo.while" or at >= len(parent.operands):
        return _CONSTANT
    return _DATA if _origin(b, parent.operands[at]) is _DATA else _CONSTANT


def _moved(b: Builder, v: Any, op: Any, source: _Origin) -> _Origin:
    """The leaf goes the same way."""
    spec = mlir.spec(v)
    if source.leaf is None:
        return source
    if spec is None or -1 in spec[0] or -1 in source.leaf.shape:
        return _CONSTANT
    attributes = {name: str(op.attributes[name]) for name in op.attributes}
    name, leaf = op.name.partition(".")[2], source.leaf
    kind = signed(leaf.dtype) if name == "reverse" else leaf.dtype  # as Builder.reverse
    with mlir.ir().InsertionPoint(op):
        leaf = b.emit(name, [leaf.view(kind)], spec[0], kind, attributes).view(leaf.dtype)
    return _Origin("foldable", leaf)


def _computed(b: Builder, v: Any, name: str, operands: list[Any],
              found: list[_Origin]) -> _Origin:
    """Elementwise: arithmetic of floats keeps what it reads, all else may drop it."""
    spec = mlir.spec(v)
    data = [o for o, origin in zip(operands, found) if origin is _DATA]
    if data and name in _KEEPS:
        return _DATA
    if name == "select" and all(o is _DATA for o in found[1:]):
        return _DATA
    if name not in _DROPS and mlir.is_inexact(v) and any(map(mlir.is_inexact, data)):
        return _DATA
    if spec is None:
        return _CONSTANT
    for o, origin in zip(operands, found):
        if origin is _DATA and (there := mlir.spec(o)) is not None and there[0] == spec[0]:
            return _Origin("foldable", Value(b, o, *there))
    leaf = next((o.leaf for o in found if o.leaf is not None and o.leaf.shape == spec[0]), None)
    return _CONSTANT if leaf is None else _Origin("foldable", leaf)
