"""Meshes over the first of the eight devices."""
from __future__ import annotations

import numpy as np

import calque
from calque.sharding import Mesh


def mesh_of(**sizes: int) -> Mesh:
    """A mesh with Auto axes of these names and sizes."""
    count = int(np.prod(list(sizes.values())))
    return Mesh(np.array(calque.devices()[:count]).reshape(tuple(sizes.values())), tuple(sizes))
