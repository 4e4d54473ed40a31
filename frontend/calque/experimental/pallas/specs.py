"""What a kernel is given of each array: BlockSpec and GridSpec, and the words in them."""
from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.errors import explain
from calque.core.types import Function, Shape


@dataclass(frozen=True)
class Blocked:
    """An axis whose index counts blocks: what a plain int in a block_shape means.

    Args:
      block_size: elements of a block.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.Blocked(4)
      Blocked(block_size=4)
    """

    block_size: int


@dataclass(frozen=True)
class Element:
    """An axis whose index counts elements: blocks may overlap.

    Args:
      block_size: elements of a block.
      padding: elements that are added before and after the axis; what is in them is not set.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> def kernel(x_ref, o_ref):
      ...     o_ref[0] = x_ref[...].max()
      >>> pl.pallas_call(kernel, calque.ShapeDtypeStruct((3,), "float32"), grid=3,
      ...                in_specs=[pl.BlockSpec((pl.Element(3),), lambda i: i)],
      ...                out_specs=pl.BlockSpec((1,), lambda i: i))(jnp.array([3., 1, 4, 1, 5, 9]))
      Array([4., 4., 5.], dtype=float32)
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Squeezed:
    """An axis of which a cell sees one element and no axis: what None in a block_shape means.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.squeezed
      Squeezed()
    """


class RevisitMode(enum.Enum):
    """How Buffered blocks are seen again (accepted; blocks may always be).

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.RevisitMode.ANY.name
      'ANY'
    """

    IMMEDIATE = "immediate"
    ANY = "any"


@dataclass(frozen=True)
class Buffered:
    """How a block is buffered on its way to a kernel: accepted, without a meaning here.

    Args:
      buffer_count: number of buffers.
      use_lookahead: whether blocks are fetched ahead.
      revisit: a RevisitMode.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.BlockSpec((4,), lambda i: i, pipeline_mode=pl.Buffered(2)).pipeline_mode.buffer_count
      2
    """

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None


@dataclass(frozen=True)
class CostEstimate:
    """What a kernel costs, for a scheduler: accepted, without a meaning here.

    Args:
      flops: operations.
      transcendentals: functions.
      bytes_accessed: memory traffic.
      remote_bytes_transferred: traffic between devices.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.CostEstimate(flops=1, transcendentals=0, bytes_accessed=8).flops
      1
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


@dataclass(frozen=True)
class MemoryRef:
    """The type of a scratch array.

    Args:
      shape: sizes of its axes.
      dtype: of its elements.
      memory_space: where it lies.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.ANY((2, 3), "float32").shape
      (2, 3)
    """

    shape: Shape
    dtype: Any
    memory_space: Any = None


class MemorySpace(enum.Enum):
    """Where an array lies: accepted; a compiler places them.  Called, the type of a scratch array.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.MemorySpace.ANY((4,), "int32").dtype
      dtype('int32')
    """

    ANY = "any"
    DEFAULT = "default"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"
    HOST = "host"

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        """The type of a scratch array of this shape and dtype."""
        kind = dtype if dtypes.is_key(dtype) else dtypes.canonical(np.dtype(dtype))
        return MemoryRef(tuple(shape), kind, self)


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST
squeezed = Squeezed()


class NoBlockSpec:
    """Says that no block was named: the whole array is seen."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = NoBlockSpec()


@dataclass(frozen=True)
class BlockSpec:
    """Which part of an array a cell of the grid sees.

    Args:
      block_shape: for each axis of the array a size, None (one element, and no axis in the kernel),
        or a Blocked, Element or Squeezed; None in all: the whole array.
      index_map: f(*place in the grid) -> which block, an int for each axis (one int where there is
        one axis), computed by arithmetic; default: the first one.
      pipeline_mode, memory_space: accepted, without a meaning here.

    Raises:
      Nothing: pallas_call, which knows the array, does.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> def kernel(x_ref, o_ref):
      ...     o_ref[...] = x_ref[...].sum()
      >>> rows = pl.pallas_call(kernel, calque.ShapeDtypeStruct((3,), "int32"), grid=(3,),
      ...     in_specs=[pl.BlockSpec((None, 2), lambda i: (i, 0))],
      ...     out_specs=pl.BlockSpec((None,), lambda i: (i,)))
      >>> rows(jnp.arange(6).reshape(3, 2))
      Array([1, 5, 9], dtype=int32)
    """

    block_shape: Sequence[Any] | None = None
    index_map: Function | None = None
    pipeline_mode: Buffered | None = None
    memory_space: Any = None

    def __init__(self, block_shape: Sequence[Any] | None = None,
                 index_map: Function | None = None,
                 pipeline_mode: Buffered | None = None, *, memory_space: Any = None) -> None:
        if block_shape is not None and not isinstance(block_shape, Sequence):
            raise TypeError(explain(
                f"BlockSpec: block_shape must be a sequence, got {block_shape!r} of type "
                f"{type(block_shape).__name__}.", fix="write (n,) for one axis."))
        for name, value in (("block_shape", None if block_shape is None else tuple(block_shape)),
                            ("index_map", index_map), ("pipeline_mode", pipeline_mode),
                            ("memory_space", memory_space)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class GridSpec:
    """The grid of a pallas_call and what its cells see, together.

    Args:
      grid: numbers of cells along the axes; an int is one axis.
      in_specs: a BlockSpec for each argument.
      out_specs: a BlockSpec for each result.
      scratch_shapes: types of scratch arrays.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.GridSpec(grid=2).grid
      (2,)
    """

    grid: Any = ()
    in_specs: Any = no_block_spec
    out_specs: Any = no_block_spec
    scratch_shapes: Any = ()

    def __post_init__(self) -> None:
        grid = self.grid
        if isinstance(grid, (int, np.integer)):
            grid = (int(grid),)
        object.__setattr__(self, "grid", tuple(grid) if isinstance(grid, Sequence) else grid)
