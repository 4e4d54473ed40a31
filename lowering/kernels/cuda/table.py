"""Which kernels there are for CUDA, and which of them a product is given.

What `make.py` compiles and `products.py` chooses from.  A tile's two times are those of one step
(BK numbers of every sum of a tile), fitted to a sweep over 24 sizes on an H100: `alone`, where a
multiprocessor has one tile, and `full`, where it has many (docs/cuda_kernels.md has the figures and
how they are made again).  Start reading at `PRODUCTS`.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

PROCESSORS = 132  # multiprocessors of an H100; an A100 has 108
LAUNCH, AGAIN = 3.2, 2.5  # us: of a product's first launch, and of one more
BANDWIDTH = 2.5e6  # bytes a us
UNIT = 128  # a part of a sum is a multiple of it: of every depth
PARTS = 16  # of a sum, at most
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}  # bytes
LAYOUTS = ("nn", "nt", "tn")  # of both operands: n as they are multiplied, t transposed


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of a result, by whom it is computed, and what a step takes in microseconds."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    alone: float
    full: float
    function: str = "matmul"

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}-{self.warps}w{self.stages}s"


@dataclass(frozen=True, slots=True)
class Family:
    """Tiles of the products of one dtype and precision: for rows of multiples of 16 bytes, for any
    (`odd`), and for compute capability 9 where they gain by instructions of its own."""

    tiles: tuple[Tile, ...]
    odd: tuple[Tile, ...]
    hopper: tuple[Tile, ...] = ()
    hopper_layouts: tuple[str, ...] = LAYOUTS


_HALVES = Family(
    tiles=(Tile(128, 64, 64, 4, 4, 0.2, 0.394), Tile(16, 64, 128, 4, 4, 0.2, 0.233),
           Tile(128, 128, 64, 4, 3, 0.33, 0.658), Tile(32, 32, 128, 2, 5, 0.18, 0.254)),
    odd=(Tile(128, 128, 32, 8, 3, 0.45, 0.6), Tile(32, 64, 64, 4, 4, 0.3, 0.4),
         Tile(16, 64, 128, 4, 3, 0.35, 0.4)),
    hopper=(Tile(128, 128, 64, 4, 4, 0.27, 0.397), Tile(128, 64, 64, 4, 4, 0.24, 0.297),
            Tile(128, 256, 64, 8, 3, 0.5, 0.759), Tile(64, 64, 128, 4, 4, 0.313, 0.455)))

PRODUCTS = {
    ("float32", "tf32"): Family(
        tiles=(Tile(128, 64, 32, 4, 4, 0.405, 0.401), Tile(64, 128, 32, 4, 4, 0.383, 0.410),
               Tile(128, 128, 32, 4, 3, 0.640, 0.687), Tile(32, 32, 64, 2, 5, 0.256, 0.219),
               Tile(16, 64, 128, 4, 3, 0.445, 0.35)),
        odd=(Tile(128, 128, 32, 8, 3, 0.75, 0.9), Tile(32, 64, 64, 4, 4, 0.35, 0.4),
             Tile(16, 64, 64, 4, 4, 0.3, 0.2)),
        # (IREE passes no descriptors of the copy engine, so kernels make them in work space)
        hopper=(Tile(128, 256, 32, 8, 3, 0.7, 0.78, "matmul_tma"),
                Tile(128, 128, 32, 8, 4, 0.33, 0.4, "matmul_tma")),
        hopper_layouts=("nt",)),  # wgmma takes TF32 with sums along rows alone
    ("float32", "tf32x3"): Family(
        tiles=(Tile(128, 128, 16, 8, 4, 1.35, 1.35), Tile(64, 64, 32, 4, 4, 0.800, 0.686),
               Tile(32, 64, 64, 4, 3, 0.876, 0.695), Tile(16, 64, 64, 4, 4, 0.816, 0.546)),
        odd=(Tile(64, 64, 16, 4, 3, 0.5, 0.4), Tile(32, 64, 32, 4, 3, 0.5, 0.4),
             Tile(16, 64, 64, 4, 4, 0.85, 0.6))),
    ("float32", "ieee"): Family(
        tiles=(Tile(64, 128, 16, 4, 3, 0.840, 0.786), Tile(64, 64, 16, 4, 3, 0.506, 0.415),
               Tile(128, 128, 16, 8, 3, 1.519, 1.572), Tile(32, 32, 32, 4, 3, 0.417, 0.293),
               Tile(16, 64, 64, 4, 3, 0.994, 0.5)),
        odd=(Tile(64, 64, 16, 4, 3, 0.55, 0.45), Tile(32, 32, 32, 4, 3, 0.45, 0.32),
             Tile(16, 64, 64, 4, 3, 1.0, 0.55))),
    ("bfloat16", "tf32"): _HALVES,
    ("float16", "tf32"): _HALVES,
}


@dataclass(frozen=True, slots=True)
class Spec:
    """What Triton compiles: a function of triton_kernels.py, the dtypes of its pointers in order,
    its constants, what numbers and pointers are known to be divided by; `space`: it takes a pointer
    to work space, whether it uses it or not."""

    function: str
    pointers: Mapping[str, str]
    constants: Mapping[str, object]
    divisible: Mapping[str, int]
    warps: int
    stages: int
    space: bool = False
    floats: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Product:
    """One kernel of a family."""

    dtype: str
    out: str
    precision: str
    layout: str
    tile: Tile
    aligned: bool
    sm: int

    @property
    def name(self) -> str:
        words = [self.dtype, self.out, self.precision, self.layout, str(self.tile),
                 "" if self.aligned else "odd", f"sm{self.sm}"]
        return "-".join(w for w in words if w)

    @property
    def archive(self) -> str:
        """The file whose part it is: what a program loads together."""
        return f"product-{self.dtype}-{self.precision}-sm{self.sm}"

    def spec(self) -> Spec:
        size = 16 // SIZES[self.dtype]
        known = {"a_ptr": 16, "b_ptr": 16, "c_ptr": 16} if self.aligned else {}
        if self.aligned:
            known |= dict.fromkeys(("k", "n", "lda", "ldb", "a_outer", "a_inner", "b_outer",
                                    "b_inner", *("m" * (self.layout[0] == "t"))), size)
            known["span"] = 16
        tile = self.tile
        return Spec(
            tile.function, {"a_ptr": self.dtype, "b_ptr": self.dtype, "c_ptr": self.out},
            {"TA": self.layout[0] == "t", "TB": self.layout[1] == "t", "BM": tile.rows,
             "BN": tile.columns, "BK": tile.depth, "PRECISION": self.precision},
            known, tile.warps, tile.stages, self.aligned and has_space(
                PRODUCTS[self.dtype, self.precision], self.layout))


def has_space(family: Family, layout: str) -> bool:
    """Whether kernels of a layout take work space: those of compute capability 9 need some."""
    return layout in family.hopper_layouts and any(t.function != "matmul" for t in family.hopper)


def products() -> Iterator[Product]:
    """Every kernel of a product."""
    for (dtype, precision), family in PRODUCTS.items():
        outs = ["float32"] if dtype == "float32" else [dtype, "float32"]
        for out in outs:
            for layout in LAYOUTS:
                for tile in family.tiles:
                    yield Product(dtype, out, precision, layout, tile, True, 80)
                for tile in family.odd:
                    yield Product(dtype, out, precision, layout, tile, False, 80)
            for layout in family.hopper_layouts if family.hopper else ():
                for tile in family.hopper:
                    yield Product(dtype, out, precision, layout, tile, True, 90)


TURNED = 64  # rows and columns of a tile that is turned round


@dataclass(frozen=True, slots=True)
class Turn:
    """What turns matrices of numbers of `size` bytes round."""

    size: int
    aligned: bool
    sm: int = 80
    archive: str = "moves"

    @property
    def name(self) -> str:
        return f"turn-{self.size}{'' if self.aligned else '-odd'}-sm80"

    def spec(self) -> Spec:
        kind = f"i{8 * self.size}"
        known = {"x_ptr": 16, "y_ptr": 16, **dict.fromkeys(("m", "n", "apart"), 16 // self.size)}
        return Spec("turn", {"x_ptr": kind, "y_ptr": kind}, {"B": TURNED},
                    known if self.aligned else {}, 4, 2)


CONVOLUTIONS = (("float32", "tf32"), ("float32", "ieee"), ("bfloat16", "tf32"),
                ("float16", "tf32"))


@dataclass(frozen=True, slots=True)
class Convolution:
    """One kernel of convolutions: of results (`weights` False) or of the window's gradient;
    `aligned`: of channels and features that are multiples of 16 bytes."""

    dtype: str
    out: str
    precision: str
    weights: bool
    rows: int
    columns: int
    aligned: bool
    sm: int = 80

    @property
    def name(self) -> str:
        words = ["weights" if self.weights else "convolve", self.dtype, self.out, self.precision,
                 f"{self.rows}x{self.columns}", "" if self.aligned else "odd", f"sm{self.sm}"]
        return "-".join(w for w in words if w)

    @property
    def archive(self) -> str:
        return f"convolution-{self.dtype}-{self.precision}-sm{self.sm}"

    @property
    def depth(self) -> int:
        return 16 if self.precision == "ieee" else 32

    def spec(self) -> Spec:
        first, second = ("x_ptr", "g_ptr") if self.weights else ("x_ptr", "w_ptr")
        known: dict[str, int] = {}
        if self.aligned:
            known = {first: 16, second: 16, "y_ptr": 16,
                     **dict.fromkeys(("c", "k"), 16 // SIZES[self.dtype])}
        if self.weights:
            known["span"] = 16
        large = self.rows * self.columns > 128 * 64
        return Spec("convolve_weights" if self.weights else "convolve",
                    {first: self.dtype, second: self.dtype, "y_ptr": self.out},
                    {"BM": self.rows, "BN": self.columns, "BK": self.depth,
                     "PRECISION": self.precision}, known, 8 if large else 4, 3)


def convolutions() -> Iterator[Convolution]:
    """Every kernel of a convolution."""
    for dtype, precision in CONVOLUTIONS:
        for aligned in (True, False):
            for out in sorted({dtype, "float32"}):
                for rows, columns in ((128, 128), (128, 64), (64, 64)) if aligned else (
                        (64, 64), (64, 32)):
                    for sm in (80, 90) if aligned and dtype != "float32" and rows > 64 else (80,):
                        yield Convolution(dtype, out, precision, False, rows, columns, aligned, sm)
            for rows, columns in ((64, 64), (128, 64)) if aligned else ((64, 64),):
                yield Convolution(dtype, "float32", precision, True, rows, columns, aligned)


def kernels() -> Iterator[Product | Turn | Convolution]:
    """All that make.py compiles."""
    yield from products()
    yield from convolutions()
    for size in (1, 2, 4, 8):
        for aligned in (True, False):
            yield Turn(size, aligned)


@dataclass(frozen=True, slots=True)
class Plan:
    """A tile, how many parts the sums fall into, and how many numbers a part has."""

    tile: Tile
    parts: int
    span: int
    time: float


def plan(tiles: Sequence[Tile], batch: int, m: int, n: int, k: int, size: int,
         parts: int | None = None) -> Plan:
    """The tile that is estimated to be the fastest; `parts` where another plan fixed them."""
    plans = []
    for tile in tiles:
        for count in ([parts] if parts else _parts(tile, batch, m, n, k)):
            span = _whole(-(-k // count), UNIT)
            plans.append(Plan(tile, parts or -(-k // span), span,
                              _time(tile, batch, m, n, k, size, count, span)))
    return min(plans, key=lambda p: p.time)


def _parts(tile: Tile, batch: int, m: int, n: int, k: int) -> list[int]:
    blocks = batch * -(-m // tile.rows) * -(-n // tile.columns)
    most = min(PARTS, k // (2 * UNIT))
    wanted = {1, *(min(waves * PROCESSORS // blocks, most) for waves in (1, 2, 4))}
    return sorted(p for p in wanted if p >= 1)


def _time(tile: Tile, batch: int, m: int, n: int, k: int, size: int, parts: int, span: int
          ) -> float:
    """Microseconds, by a model of two numbers a tile."""
    blocks = batch * -(-m // tile.rows) * -(-n // tile.columns) * parts
    each = blocks / PROCESSORS
    each = math.ceil(each) if each <= 8 else each
    steps = -(-min(span, k) // tile.depth) + 1.5  # the first loads are waited for
    moved = (batch * (m * k + k * n) * size + parts * batch * m * n * 4) / BANDWIDTH
    again = AGAIN + (parts + 1) * batch * m * n * 4 / BANDWIDTH if parts > 1 else 0
    return LAUNCH + max(steps * tile.alone, each * steps * tile.full, moved) + again


def _whole(n: int, unit: int) -> int:
    return -(-n // unit) * unit
