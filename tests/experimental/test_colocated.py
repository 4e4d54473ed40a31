"""colocated_python: what takes no arguments is told its devices; methods are specialized, too.

Oracle: JAX's colocated_python_test of release 0.10.2.
"""
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.experimental import colocated_python as cp


def test_without_arguments_it_is_specialized_first():
    zero = cp.colocated_python(lambda: jnp.array(0))
    with pytest.raises(ValueError, match="No devices found. colocated_python function without"):
        zero()
    assert int(zero.specialize(devices=cp.colocated_cpu_devices(calque.devices())[:1])()) == 0


def test_methods_share_their_object_and_are_specialized():
    made = []

    @cp.colocated_python_class
    class Counter:
        """Counts."""

        def __init__(self, start):
            made.append(start)
            self.total = start

        def add(self, x):
            self.total = self.total + x
            return self.total

        def read(self):
            return np.int32(self.total)

        def __call__(self, x):
            return x * 2

    counter = Counter(3)
    assert made == [] and Counter.__doc__ == "Counts."
    assert int(counter.add(jnp.array(4))) == 7
    with pytest.raises(ValueError, match="must be first specialized with devices"):
        counter.read()
    counter.read = counter.read.specialize(devices=calque.devices())
    assert (int(counter.read()), int(counter(jnp.array(5)))) == (7, 10)
    assert made == [3]
