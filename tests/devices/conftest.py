"""Eight CPU devices, set before their first use: these tests are a pytest command of their own
(python -m pytest tests/devices); a run of all tests does not enter this folder."""
from __future__ import annotations

import numpy as np
import pytest

import calque
from calque.sharding import Mesh

calque.config.update("jax_num_cpu_devices", 8)


def mesh_of(**sizes: int) -> Mesh:
    """A mesh with Auto axes of these names and sizes, over the first devices."""
    count = int(np.prod(list(sizes.values())))
    return Mesh(np.array(calque.devices()[:count]).reshape(tuple(sizes.values())), tuple(sizes))


@pytest.fixture
def eight() -> Mesh:
    return mesh_of(i=8)


@pytest.fixture
def square() -> Mesh:
    return mesh_of(a=2, b=2)
