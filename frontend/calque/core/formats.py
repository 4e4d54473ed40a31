"""Formats: a layout in memory beside a sharding, as jax.experimental.layout has them.

An order is what of a layout is left of use here: the axes of an array from the one with the largest
stride to the one with the smallest; None: row-major, as nearly all arrays are.  The memory of an
array that lies in another order is that of its transposition by the order (dispatch/laid.py).
Tiles are refused.  Start reading at `Format`, then `order_of`.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from calque.core.errors import explain
from calque.core.sharding import NamedSharding, Sharding, SingleDeviceSharding


class _AutoLayout:
    """A layout that the compiler chooses."""

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> str:
        return "AUTO"


AUTO = _AutoLayout()


@dataclass(frozen=True)
class Layout:
    """The order in which the elements of an array lie in memory.

    Attributes:
      major_to_minor: the axes from the one with the largest stride to that with the smallest.
      tiling: tiles within that; None: not said.
      sub_byte_element_size_in_bits: of elements smaller than a byte; 0 for others.

    Example:
      >>> from calque.experimental.layout import Layout
      >>> Layout((0, 1)).major_to_minor
      (0, 1)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    AUTO: ClassVar[_AutoLayout] = AUTO

    def __post_init__(self) -> None:
        object.__setattr__(self, "major_to_minor", tuple(self.major_to_minor))

    def check_compatible_aval(self, aval_shape: Any) -> None:
        """ValueError where the shape has another number of axes."""
        if len(self.major_to_minor) != len(aval_shape):
            raise ValueError(explain(
                "Length of major_to_minor and the rank of the value should match. Got "
                f"major_to_minor={self.major_to_minor} and shape={tuple(aval_shape)}",
                fix="name every axis once."))


class Format:
    """A layout and a sharding.

    Args:
      layout: a Layout, Layout.AUTO, or None.
      sharding: a Sharding, or None.

    Raises:
      TypeError: one of them is none of these.
      ValueError: a Layout is given without a sharding.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ones((2, 3)).format.layout
      Layout(major_to_minor=(0, 1), tiling=(), sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Any = None, sharding: Sharding | None = None) -> None:
        if not (layout is None or layout is AUTO or isinstance(layout, Layout)):
            raise TypeError(explain(
                "Invalid value received for the layout argument. Expected values are `None`, "
                f"`Layout.AUTO` or an instance of `Layout`. Got {layout} of type {type(layout)}",
                fix="Layout((0, 1))."))
        if not (sharding is None or isinstance(sharding, Sharding)):
            raise TypeError(explain(
                "Invalid value received for the sharding argument. Expected values are `None` or "
                f"an instance of `jax.Sharding`. Got {sharding} of type {type(sharding)}",
                fix="NamedSharding(mesh, spec)."))
        if isinstance(layout, Layout) and not isinstance(
                sharding, (NamedSharding, SingleDeviceSharding)):
            raise ValueError(explain(
                f"Sharding has to be concrete when layout is of type {Layout}. Please pass a "
                "`jax.sharding.NamedSharding` or `jax.sharding.SingleDeviceSharding` to the "
                f"sharding argument. Got sharding {sharding}", fix="Format(layout, x.sharding)."))
        self.layout, self.sharding = layout, sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (
            other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The type of an array that lies in another order, in keys of signatures; AUTO: nobody said in
    which order an argument that is only described lies."""

    aval: Any
    order: Any

    @property
    def weak_type(self) -> bool:
        return bool(self.aval.weak_type)

    def short(self) -> str:
        """f32[2,3] laid out (1, 0)"""
        return f"{self.aval.short()} laid out {self.order}"


def layout_in(order: Order | None, ndim: int) -> Layout:
    """The layout of arrays that lie in an order."""
    return Layout(tuple(range(ndim)) if order is None else order, ())


def format_of(ndim: int, sharding: Any, order: Order | None = None) -> Format:
    """The format of an array."""
    return Format(layout_in(order, ndim), sharding)


def order_of(what: str, layout: Any, shape: Any) -> Order | None:
    """The order that a layout says of an array of this shape: None of no layout and of AUTO.

    ValueError where the layout is of another rank or no permutation; NotImplementedError for tiles.
    """
    if not isinstance(layout, Layout):
        return None
    layout.check_compatible_aval(shape)
    order = layout.major_to_minor
    if sorted(order) != list(range(len(order))):
        raise ValueError(explain(
            f"{what}: major_to_minor names each axis once, got {order} for shape {tuple(shape)}.",
            fix=f"Layout({tuple(range(len(order)))})."))
    if layout.tiling:
        raise NotImplementedError(explain(
            f"{what}: arrays do not lie in tiles, got {layout}.", fix="leave tiling out."))
    return None if order == tuple(range(len(order))) else tuple(order)


def check_format(what: str, given: Any) -> None:
    """TypeError for a Format that does not say what an array's must."""
    if not isinstance(given, Format):
        return
    if given.layout is AUTO:
        raise TypeError(explain(
            "`Layout.AUTO` cannot be used in place of a device-local layout in a "
            f"`{what}`, got {given}.", fix="give a Layout, or None."))
    if what != "ShapeDtypeStruct" and given.sharding is None:
        raise TypeError(explain(
            f"{what}: sharding should be an instance of `jax.sharding`, got {given}.",
            fix="pass NamedSharding(mesh, spec)."))


def sharding_in(given: Any) -> Any:
    """The sharding of a Format; anything else as it is."""
    return given.sharding if isinstance(given, Format) else given


def layout_of(given: Any) -> Any:
    """The layout of a Format (a Layout, AUTO or None); None of anything else."""
    return given.layout if isinstance(given, Format) else None


__all__ = ["AUTO", "Format", "LaidOut", "Layout", "Order", "check_format", "format_of", "layout_in",
           "layout_of", "order_of", "sharding_in"]
