"""Formats: a layout in memory beside a sharding, as jax.experimental.layout has them.

Arrays are row-major here, so that is the layout that every array has; a Format of another one is
refused where arrays would have to take it.  Start reading at `Format`.
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


def format_of(ndim: int, sharding: Any) -> Format:
    """The format of an array: row-major."""
    return Format(Layout(tuple(range(ndim)), ()), sharding)


def sharding_in(what: str, given: Any, shape: Any = None) -> Any:
    """The sharding of a Format whose layout arrays have; anything else as it is."""
    if not isinstance(given, Format):
        return given
    if what in ("ShapeDtypeStruct", "make_array_from_callback"):
        if given.layout is AUTO:
            raise TypeError(explain(
                "`Layout.AUTO` cannot be used in place of a device-local layout in a "
                f"`{what}`, got {given}.", fix="give a Layout, or None."))
        if what != "ShapeDtypeStruct" and given.sharding is None:
            raise TypeError(explain(
                f"{what}: sharding should be an instance of `jax.sharding`, got {given}.",
                fix="pass NamedSharding(mesh, spec)."))
    check_layout(what, given.layout, shape)
    return given.sharding


def check_layout(what: str, layout: Any, shape: Any = None) -> None:
    """NotImplementedError for a layout that arrays do not have."""
    if not isinstance(layout, Layout):
        return
    if shape is not None:
        layout.check_compatible_aval(shape)
    if layout.major_to_minor != tuple(range(len(layout.major_to_minor))) or layout.tiling:
        raise NotImplementedError(explain(
            f"{what}: arrays are row-major, got {layout}.",
            fix="transpose the array, or leave the layout to Layout.AUTO."))


__all__ = ["AUTO", "Format", "Layout", "check_layout", "format_of", "sharding_in"]
