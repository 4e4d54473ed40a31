"""Looking at shardings: drawn as a table in the terminal, or told to a function."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.errors import explain
from calque.core.sharding import Sharding
from calque.core.trace import Tracer
from calque.dispatch.array import Array
from calque.primitives.placement import inspect_sharding_p

__all__ = ["inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"]

_COLORS = ("red", "green", "blue", "magenta", "cyan", "yellow", "bright_black", "white")


def visualize_sharding(shape: Sequence[int], sharding: Sharding, *, use_color: bool = True,
                       scale: float = 1.0, min_width: int = 9, max_width: int = 80) -> None:
    """Print which devices have which part of an array of a shape.

    Args:
      shape: of the array, one or two dimensions.
      sharding: how it is spread.
      use_color: color parts by their devices.
      scale: of the drawing.
      min_width: fewest characters of a part.
      max_width: most characters of a part.

    Returns:
      None.

    Raises:
      ValueError: the shape has no dimension or more than two, or rich is not installed.

    Example:
      >>> import calque
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> where = NamedSharding(Mesh(calque.devices()[:1], ("x",)), P("x"))
      >>> calque.debug.visualize_sharding((4,), where, use_color=False)
      ┌───────┐
      │ CPU 0 │
      └───────┘
    """
    try:
        import rich.box
        import rich.console
        import rich.table
    except ImportError:
        raise ValueError(explain("`visualize_sharding` requires `rich` to be installed.",
                                 fix="pip install rich.")) from None

    if len(shape) not in (1, 2):
        raise ValueError(explain(
            "`visualize_sharding` only works for shapes with 1 and 2 dimensions.",
            fix="index or reshape the array first."))
    cells: dict[tuple[int, int], list[Any]] = {}
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        starts = [s.start or 0 for s in index]
        cells.setdefault((0, starts[0]) if len(starts) == 1 else (starts[0], starts[1]),
                         []).append(device)
    rows, columns = (sorted({key[i] for key in cells}) for i in (0, 1))
    # as high as ten lines and, a line being 2.5 characters high, as wide as the shape says
    whole = 25 * scale * (shape[1] if len(shape) == 2 else 1) / max(shape[0], 1)
    width = min(max(int(whole / len(columns)), min_width), max_width) - 2
    width = max(width, max(len(_names(d)) for d in cells.values()))
    lines = max(int(10 * scale / len(rows)) - 1, 1) if len(shape) == 2 else 1
    table = rich.table.Table(show_header=False, show_lines=True, padding=0, pad_edge=False,
                             box=rich.box.SQUARE)
    for _ in columns:
        table.add_column(justify="center", width=width, no_wrap=True)
    for r in rows:
        table.add_row(*["\n" * ((lines - 1) // 2) + _cell(cells[r, c], use_color)
                        + "\n" * (lines // 2) for c in columns])
    rich.console.Console(width=max(max_width, (width + 1) * len(columns) + 1)).print(table)


def _names(devices: Sequence[Any]) -> str:
    ids = ",".join(str(d.id) for d in sorted(devices, key=lambda d: d.id))
    return f"{devices[0].platform.upper()} {ids}"


def _cell(devices: Sequence[Any], use_color: bool) -> str:
    color = _COLORS[min(d.id for d in devices) % len(_COLORS)]
    return f"[{color}]{_names(devices)}[/{color}]" if use_color else _names(devices)


def visualize_array_sharding(arr: Array, **options: Any) -> None:
    """Print which devices have which part of an array.

    Args:
      arr: an array of one or two dimensions.
      **options: of visualize_sharding.

    Returns:
      None.

    Raises:
      ValueError: the array has no dimension or more than two.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.debug.visualize_array_sharding(jnp.ones(4), use_color=False)
      ┌───────┐
      │ CPU 0 │
      └───────┘
    """
    if isinstance(arr, Tracer):
        inspect_array_sharding(arr, callback=lambda s: visualize_sharding(arr.shape, s, **options))
        return
    visualize_sharding(arr.shape, arr.sharding, **options)


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Tell a function how an array is spread; inside jit, what propagation chose.

    Args:
      value: an array or a traced value.
      callback: called with a Sharding: at once, or when the function around has been traced.

    Returns:
      None.

    Raises:
      Nothing.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.debug.inspect_array_sharding(jnp.ones(2), callback=print)
      SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
    """
    if isinstance(value, Tracer):
        inspect_sharding_p.bind(value, callback=callback)
    else:
        callback(value.sharding)
