"""Devices in a grid, for Mesh."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.core.types import Ndarray
from calque.dispatch.devices import devices as all_devices

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
                       contiguous_submeshes: bool = False,
                       allow_split_physical_axes: bool = False) -> Ndarray:
    """The devices in an array of a shape, in their order.

    Args:
      mesh_shape: sizes of the axes.
      devices: which ones; None: all of the default backend.
      contiguous_submeshes, allow_split_physical_axes: accepted for compatibility.

    Returns:
      A NumPy array of Devices.

    Raises:
      ValueError: the shape does not take all of the devices.

    Example:
      >>> import calque
      >>> from calque.experimental import mesh_utils
      >>> mesh_utils.create_device_mesh((1, 1), calque.devices()[:1])
      array([[CpuDevice(id=0)]], dtype=object)
    """
    found = list(all_devices() if devices is None else devices)
    shape = tuple(map(int, mesh_shape))
    if math.prod(shape) != len(found):
        raise ValueError(explain(
            f"Number of devices {len(found)} must equal the product of mesh_shape {shape}",
            fix="pass devices=calque.devices()[:n], or another shape."))
    grid = np.empty(len(found), object)
    grid[:] = found
    return grid.reshape(shape)


def create_hybrid_device_mesh(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int],
                              devices: Sequence[Any] | None = None, *,
                              process_is_granule: bool = False,
                              **options: Any) -> Ndarray:
    """A mesh within processes times one across them: of one process the former.

    Args:
      mesh_shape: sizes of the axes within a process.
      dcn_mesh_shape: their sizes across processes, as many: all 1 here.
      devices: which ones; None: all of the default backend.
      process_is_granule, options: accepted for compatibility.

    Returns:
      A NumPy array of Devices of shape mesh_shape * dcn_mesh_shape.

    Raises:
      ValueError: there is one process, and dcn_mesh_shape wants more; or the shapes do not fit.

    Example:
      >>> import calque
      >>> from calque.experimental import mesh_utils
      >>> mesh_utils.create_hybrid_device_mesh((1, 1), (1, 1), calque.devices()[:1]).shape
      (1, 1)
    """
    if len(mesh_shape) != len(dcn_mesh_shape):
        raise ValueError(explain(
            f"mesh_shape {tuple(mesh_shape)} and dcn_mesh_shape {tuple(dcn_mesh_shape)} must have "
            "the same length.", fix="use 1 for an axis that is not split on that level."))
    if math.prod(dcn_mesh_shape) != 1:
        raise ValueError(explain(
            f"Number of slices 1 must equal the product of dcn_mesh_shape {tuple(dcn_mesh_shape)}: "
            "there is one process.", fix="pass ones."))
    return create_device_mesh(mesh_shape, devices)
