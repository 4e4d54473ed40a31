"""How IREE's own kernels for CUDA are cut into blocks, where its choice is behind.

Between two stages of the compiler every dispatch says in attributes into which tiles it falls and
by which pipeline it is compiled; `configure` writes others. Elementwise kernels get blocks of 256
threads for IREE's 32 (tanh of 1e7 numbers on an H100: 50 to 30 us) and vectors also where rows are
spread (bias), sums along rows that 32 does not divide a block a row for a thread a row (1000 rows
of 1000: 8.3 to 4.6 us).  docs/cuda_kernels.md has the figures.  It imports nothing of calque: the
compiler's process reads it.  Start reading at `configure`.
"""
from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Sequence
from typing import Any

THREADS = 256  # of a block
SPREAD = 1 << 15  # vectors of a kernel: smaller ones stay as they are, spread over blocks of 32
LINE = 16  # bytes that a thread reads at once
LANES = 32
WARPS = 8  # of a block that reduces a row,
MANY_WARPS = 32  # where rows are fewer than
FEW_ROWS = 132

_INNER = ("linalg.yield", "linalg.index", "iree_linalg_ext.yield")  # of what loops compute

_pointer = ctypes.c_void_p
_ELEMENTWISE = re.compile(
    r"#iree_gpu\.lowering_config<\{thread = \[([\d, ]+)\], workgroup = \[([\d, ]+)\]\}>")
_THREAD = re.compile(r"thread = \[(?:\d+, )*(\d+)\]")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(complex<f|[a-z]+)(\d+)>?>")
_DIMENSIONS = re.compile(r"d\d+")


class _Handle(ctypes.Structure):
    _fields_ = [("ptr", _pointer)]  # MlirOperation, MlirAttribute, MlirType, ...


class _Walked(ctypes.Structure):
    _fields_ = [("data", _pointer), ("length", ctypes.c_size_t)]  # MlirStringRef


_SINK = ctypes.CFUNCTYPE(None, _Walked, _pointer)
_VISIT = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, _pointer)


def _string(text: str) -> _Walked:
    data = text.encode()
    made = _Walked(ctypes.cast(ctypes.c_char_p(data), _pointer), len(data))
    made.kept = data  # (it points there)
    return made


class _Ir:
    """What is read and written of a module, by MLIR's C interface."""

    def __init__(self, library: Any) -> None:
        self.library = library
        for name, result, *arguments in (
                ("mlirOperationWalk", None, _Handle, _VISIT, _pointer, ctypes.c_int),
                ("mlirOperationGetName", _Handle, _Handle), ("mlirIdentifierStr", _Walked, _Handle),
                ("mlirOperationGetContext", _Handle, _Handle),
                ("mlirOperationGetNumOperands", ctypes.c_ssize_t, _Handle),
                ("mlirOperationGetOperand", _Handle, _Handle, ctypes.c_ssize_t),
                ("mlirValueGetType", _Handle, _Handle),
                ("mlirTypePrint", None, _Handle, _SINK, _pointer),
                ("mlirAttributePrint", None, _Handle, _SINK, _pointer),
                ("mlirAttributeParseGet", _Handle, _Handle, _Walked),
                ("mlirOperationGetAttributeByName", _Handle, _Handle, _Walked),
                ("mlirOperationSetAttributeByName", None, _Handle, _Walked, _Handle),
                ("mlirOperationRemoveAttributeByName", ctypes.c_bool, _Handle, _Walked)):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments

    def operations(self, module: _Handle) -> list[_Handle]:
        """All operations, an outer one before what is in it."""
        found = []

        def visit(pointer: int, _: Any) -> int:
            found.append(_Handle(pointer))
            return 0
        self.library.mlirOperationWalk(module, _VISIT(visit), None, 0)
        return found

    def name(self, op: _Handle) -> str:
        text = self.library.mlirIdentifierStr(self.library.mlirOperationGetName(op))
        return ctypes.string_at(text.data, text.length).decode()

    def attribute(self, op: _Handle, name: str) -> str:
        """An attribute as text; nothing where there is none."""
        found = self.library.mlirOperationGetAttributeByName(op, _string(name))
        return self._printed(self.library.mlirAttributePrint, found) if found.ptr else ""

    def set(self, op: _Handle, name: str, text: str) -> None:
        made = self.library.mlirAttributeParseGet(
            self.library.mlirOperationGetContext(op), _string(text))
        if not made.ptr:
            raise ValueError(f"not an attribute: {text}")
        self.library.mlirOperationSetAttributeByName(op, _string(name), made)

    def remove(self, op: _Handle, name: str) -> None:
        self.library.mlirOperationRemoveAttributeByName(op, _string(name))

    def operands(self, op: _Handle) -> list[str]:
        """The types of the operands, as text."""
        count = self.library.mlirOperationGetNumOperands(op)
        return [self._printed(self.library.mlirTypePrint, self.library.mlirValueGetType(
            self.library.mlirOperationGetOperand(op, i))) for i in range(count)]

    def _printed(self, print_: Any, handle: _Handle) -> str:
        parts: list[bytes] = []
        sink = _SINK(lambda text, _: parts.append(ctypes.string_at(text.data, text.length)))
        print_(handle, sink, None)
        return b"".join(parts).decode()


def configure(library: Any, module: Any) -> int:
    """Write better configurations into a module after the stage that made them; how many."""
    ir, count = _Ir(library), 0
    function: _Handle | None = None
    inside: list[Operation] = []
    cuda = False
    every = [(op, ir.name(op)) for op in ir.operations(_Handle(module.ptr))]
    for op, name in [*every, (_Handle(None), "func.func")]:
        if name == "hal.executable.variant":
            cuda = "cuda-nvptx-fb" in ir.attribute(op, "target")
        elif name == "func.func":
            if function is not None and inside:
                count += _configure(ir, function, inside)
            function, inside = op if cuda else None, []
        elif name.startswith(("linalg.", "iree_linalg_ext.")) and name not in _INNER:
            inside.append((op, name, []))
        elif inside:
            inside[-1][2].append(name)
    return count


Operation = tuple[_Handle, str, list[str]]  # its name, and of those in it and behind it


def _configure(ir: _Ir, function: _Handle, inside: Sequence[Operation]) -> bool:
    info = ir.attribute(function, "translation_info")
    generics = [(op, body) for op, name, body in inside if name == "linalg.generic"]
    if not generics or any(name not in ("linalg.generic", "linalg.fill") for _, name, _ in inside):
        return False
    loops = [_Loop(ir, op, body) for op, body in generics]
    if any(loop.sizes is None for loop in loops):
        return False
    if len(loops) == 1 and "reduction" not in loops[0].kinds:
        made = _elementwise(loops[0]) if "TileAndFuse" in info else None
    elif any(loop.subtracts or loop.complex or loop.results > 1 for loop in loops):
        made = _threads(loops) if "VectorDistribute" in info else None
    elif len(loops) == 1 and loops[0].sums_columns():
        made = _columns(loops[0]) if "VectorDistribute" in info else None
    else:
        made = _rows(loops)
    if made is None:
        return False
    configurations, threads, pipeline = made
    for (op, _), configuration in zip(generics, configurations):
        if configuration:
            ir.set(op, "lowering_config", f"#iree_gpu.lowering_config<{{{configuration}}}>")
        else:
            ir.remove(op, "lowering_config")
    options = ("" if pipeline == "TileAndFuse" else ", {gpu_pipeline_options = #iree_gpu."
               "pipeline_options<no_reduce_shared_memory_bank_conflicts = false, "
               "use_igemm_convolution = false>}")
    ir.set(function, "translation_info", "#iree_codegen.translation_info<pipeline = "
           f"#iree_gpu.pipeline<{pipeline}> workgroup_size = [{threads}, 1, 1] "
           f"subgroup_size = {LANES}{options}>")
    for op, name, _ in inside:
        if name == "linalg.fill":
            ir.remove(op, "lowering_config")
    return True


class _Loop:
    """A linalg.generic: its sizes (None where one is not known), kinds of loops and maps."""

    def __init__(self, ir: _Ir, op: _Handle, body: Sequence[str]) -> None:
        body = body[:body.index("linalg.yield")] if "linalg.yield" in body else body
        self.picks = "tensor.extract" in body
        # Of a sum of what is negated MLIR makes a subtraction, for which IREE knows no zero; of
        # several results and of complex numbers it makes blocks, and dies.
        self.subtracts = body[-1:] in (["arith.subf"], ["arith.subi"])
        self.configuration = ir.attribute(op, "lowering_config")
        segments = re.findall(r"\d+", ir.attribute(op, "operandSegmentSizes").partition(":")[2])
        self.results = int(segments[-1]) if segments else 1
        self.kinds = re.findall(r"iterator_type<(\w+)>", ir.attribute(op, "iterator_types"))
        self.maps = [re.search(r"-> \((.*)\)", m)[1].split(", ")  # type: ignore[index]
                     for m in re.findall(r"affine_map<([^<]*)>", ir.attribute(op, "indexing_maps"))]
        types = [_TENSOR.fullmatch(t) for t in ir.operands(op)]
        self.complex = any(t is not None and t[2].startswith("complex") for t in types)
        self.sizes: list[int] | None = None
        self.bytes = self.widest = 0  # of an element of the result, of the widest operand
        if len(types) != len(self.maps) or not all(types):
            return
        known: dict[str, int] = {}
        for found, places in zip(types, self.maps):
            assert found is not None
            shape = [int(n) for n in found[1].split("x") if n]
            known |= {p: n for p, n in zip(places, shape) if _DIMENSIONS.fullmatch(p)}
        names = [f"d{i}" for i in range(len(self.kinds))]
        if all(n in known for n in names):
            self.sizes = [known[n] for n in names]
        widths = [max(1, int(t[3]) // 8) for t in types if t is not None]  # (one bit: a byte)
        self.bytes, self.widest = widths[-1], max(widths[:-1], default=4)
        self.inputs = self.maps[:len(self.maps) - self.results]

    def last(self) -> str:
        return f"d{len(self.kinds) - 1}"

    def sums_last(self) -> bool:
        return (self.kinds.count("reduction") == 1 and self.kinds[-1] == "reduction"
                and len(self.maps) == len(self.inputs) + 1)

    def along(self) -> bool:
        """Whether what has the last loop at all lies in one piece along it."""
        return all(self.last() not in m or m[-1] == self.last() for m in self.maps)

    def sums_columns(self) -> bool:
        """Whether its last loop goes across what lies in one piece along another."""
        whole = [m for m in self.inputs if self.last() in m]
        return self.sums_last() and len(self.kinds) > 1 and bool(whole) and all(
            m[-1] == f"d{len(self.kinds) - 2}" for m in [*whole, self.maps[-1]])


Made = tuple[list[str], int, str]  # configurations, threads of a block, pipeline


def _elementwise(loop: _Loop) -> Made | None:
    """Blocks of 256 threads, each of which reads 16 bytes at once."""
    sizes = loop.sizes
    if (not _ELEMENTWISE.fullmatch(loop.configuration) or not sizes or not loop.along()
            or not all(_DIMENSIONS.fullmatch(p) or p.isdigit() for m in loop.maps for p in m)):
        return None
    # (of places that are computed LLVM makes vectors of 16 bits, and dies: "Cannot select: v2i16")
    vector = 1 if loop.picks else _vector(sizes[-1], LINE // loop.bytes)
    if math.prod(sizes) // vector < SPREAD and not loop.picks:
        return None
    across = _divisor(sizes[-1] // vector, THREADS)
    if len(sizes) == 1 and across < LANES:  # no whole blocks: numbers one by one, the rest masked
        vector, across = 1, THREADS
    down = _divisor(sizes[-2], THREADS // across) if len(sizes) > 1 else 1
    if across * down < LANES and not loop.picks:
        return None
    lead = [1] * (len(sizes) - 2)
    thread = [*lead, 1, vector] if len(sizes) > 1 else [vector]
    block = [*lead, down, across * vector] if len(sizes) > 1 else [across * vector]
    return [f"thread = {thread}, workgroup = {block}"], across * down, "TileAndFuse"


def _threads(loops: Sequence[_Loop]) -> Made | None:
    """A thread a row."""
    sums = [x for x in loops if "reduction" in x.kinds]
    if len(sums) != 1 or sums[0].kinds.count("reduction") != 1 or not sums[0].sizes or (
            sums[0].kinds[-1] != "reduction"):
        return None
    *lead, n = sums[0].sizes
    across = _divisor(lead[-1], LANES) if lead else 1
    ones, zeros = [1] * max(0, len(lead) - 1), [0] * len(lead)
    config = (f"reduction = {[*zeros, _divisor(n, 4)]}, thread = {[*ones, *[1] * bool(lead), 0]}, "
              f"workgroup = {[*ones, *[across] * bool(lead), 0]}")
    return [config if x is sums[0] else "" for x in loops], across, "TileAndFuse"


def _columns(loop: _Loop) -> Made | None:
    """A thread for four columns: IREE's lanes go down one, each in another line of memory."""
    sizes = loop.sizes
    assert sizes is not None
    columns, n = sizes[-2:]
    vector = _vector(columns, 4)
    across = _divisor(columns // vector, 64)
    if across < LANES:
        return None
    lead = [1] * (len(sizes) - 2)
    zeros = [0] * (len(sizes) - 1)
    return ([f"reduction = {[*zeros, _divisor(n, 4)]}, thread = {[*lead, vector, 0]}, "
             f"workgroup = {[*lead, across * vector, 0]}"], across, "TileAndFuse")


def _rows(loops: Sequence[_Loop]) -> Made | None:
    """A block a row, for reductions along rows and what is done with their results on the way."""
    first = next((x for x in loops if x.sums_last()), None)
    if first is None or not first.along() or not first.sizes or first.sizes[-1] < LANES:
        return None
    of_rows = [x.sizes == first.sizes[:-1] and "reduction" not in x.kinds for x in loops]
    if any(not of_row and (x.sizes != first.sizes or not x.along() or not (
            x.sums_last() or "reduction" not in x.kinds)) for x, of_row in zip(loops, of_rows)):
        return None
    rows, n = math.prod(first.sizes[:-1]), first.sizes[-1]
    vector = _vector(n, LINE // max(2, first.widest))
    theirs = _THREAD.search(first.configuration)
    if "lane_basis" in first.configuration and theirs is not None and int(theirs[1]) >= vector:
        return None  # IREE has a block a row, too
    most = MANY_WARPS if rows < FEW_ROWS else WARPS
    warps = 1
    while 2 * warps <= most and 2 * warps * LANES * vector <= n:
        warps *= 2
    p = len(first.sizes) - 1
    ones, zeros, order = [1] * p, [0] * p, list(range(p + 1))
    bases = (f"lane_basis = [{[*ones, LANES]}, {order}], "
             f"subgroup_basis = [{[*ones, warps]}, {order}], thread = {[*zeros, vector]}")
    tile = [*zeros, LANES * vector * warps]
    made = ["" if of_row else bases
            + (f", partial_reduction = {tile}" if x.sums_last() else f", serial = {tile}")
            + (f", workgroup = {[*ones, 0]}" if x is first else "")
            for x, of_row in zip(loops, of_rows)]
    return made, LANES * warps, "VectorDistribute"


def _vector(n: int, most: int) -> int:
    """How many numbers are read at once: a power of two that divides n."""
    return next(v for v in (16, 8, 4, 2, 1) if v <= max(1, most) and n % v == 0)


def _divisor(n: int, most: int) -> int:
    """The largest divisor of n up to a number."""
    return next(d for d in range(min(n, most), 0, -1) if n % d == 0)
