"""Descriptions of machines that are not there: only that of the one that is."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from calque.core.errors import explain
from calque.core.mesh import AxisType, Mesh
from calque.dispatch.devices import devices as all_devices
from calque.experimental.mesh_utils import create_device_mesh


@dataclass(frozen=True)
class TopologyDescription:
    """Devices of a machine.

    Example:
      >>> from calque.experimental import topologies
      >>> topologies.get_attached_topology().devices
      [CpuDevice(id=0)]
    """

    devices: list[Any]


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices that are there.

    Args:
      platform: 'cpu', 'cuda' or 'vulkan'; None: the default one.

    Returns:
      A TopologyDescription.

    Raises:
      RuntimeError: there is no device of this platform.

    Example:
      >>> from calque.experimental import topologies
      >>> len(topologies.get_attached_topology("cpu").devices)
      1
    """
    return TopologyDescription(list(all_devices(platform)))


def get_topology_desc(topology_name: str = "", platform: str | None = None, **kwargs: Any
                      ) -> NoReturn:
    """Refused: machines are not described by names of XLA's topologies here.

    Args:
      topology_name, platform: as JAX's.
      **kwargs: as JAX's.

    Raises:
      NotImplementedError: always.

    Example:
      >>> from calque.experimental import topologies
      >>> topologies.get_topology_desc("v5e:2x2", "tpu")
      Traceback (most recent call last):
        ...
      NotImplementedError: topologies: 'v5e:2x2' of platform 'tpu' is XLA's name of a machine.
      ...
    """
    raise NotImplementedError(explain(
        f"topologies: {topology_name!r} of platform {platform!r} is XLA's name of a machine.",
        fix="compile for machines that are not there with calque.aot.compile(f, ..., "
            "targets=['cpu:x86-64-v3', 'cuda:sm_80'])."))


def make_mesh(topo: TopologyDescription, mesh_shape: Sequence[int], axis_names: Sequence[str], *,
              axis_types: Sequence[AxisType] | None = None, **kwargs: Any) -> Mesh:
    """A mesh of the devices of a description.

    Args:
      topo: the description.
      mesh_shape: sizes of the axes.
      axis_names: their names.
      axis_types: their types; None: Auto.
      **kwargs: for create_device_mesh.

    Returns:
      A Mesh.

    Raises:
      ValueError: there are fewer devices.

    Example:
      >>> from calque.experimental import topologies
      >>> topologies.make_mesh(topologies.get_attached_topology(), (1,), ("x",)).shape["x"]
      1
    """
    return Mesh(create_device_mesh(mesh_shape, list(topo.devices), **kwargs), axis_names,
                axis_types)


__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


def __dir__() -> list[str]:
    return __all__
