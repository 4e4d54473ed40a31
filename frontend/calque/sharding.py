"""Shardings: meshes, PartitionSpecs and who has which part of an array (jax.sharding)."""
from calque.core.avals import ManualAxisType
from calque.core.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)
from calque.core.sharding import (
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)
from calque.parallel.mesh_tools import auto_axes, explicit_axes, reshard

__all__ = ["AbstractMesh", "AxisType", "ManualAxisType", "Mesh", "NamedSharding", "PartitionSpec",
           "Sharding", "SingleDeviceSharding", "auto_axes", "explicit_axes", "get_abstract_mesh",
           "get_mesh", "make_single_device_sharding", "reshard", "set_mesh", "use_abstract_mesh"]


def __dir__() -> list[str]:
    return __all__
