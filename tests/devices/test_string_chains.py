"""Arrays of strings in random chains of what takes them, against NumPy.

A chain begins with random strings (empty, long, of any Unicode, with NUL inside) of a random shape
(sizes 0 and 1 too), and each step gives them back: put on devices or spread over a random mesh,
read part by part, copied, pickled, mapped as a whole, gone through Python on a device.  What would
compute with them is refused.  Start reading at `STEPS`.
"""
from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.experimental.colocated_python import colocated_python
from calque.sharding import Mesh, NamedSharding, SingleDeviceSharding
from calque.sharding import PartitionSpec as P

if not hasattr(getattr(np, "dtypes", None), "StringDType"):
    pytest.skip("NumPy 1 has no arrays of strings", allow_module_level=True)
TEXT = np.dtypes.StringDType()
Rng = np.random.Generator


def word(rng: Rng) -> str:
    letters = "aZ0 \0\n'\"\\\u00e9\u4e2d\U0001f600"
    size = int(rng.choice([0, 1, 3, 15, 16, 40]))
    return "".join(letters[i] for i in rng.integers(len(letters), size=size))


def words(rng: Rng) -> Any:
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 4, 8], size=rng.integers(0, 4)))
    flat = np.array([word(rng) for _ in range(int(np.prod(shape)))], TEXT)
    return flat.reshape(shape)


def placement(rng: Rng, shape: tuple[int, ...]) -> Any:
    """A device, or a sharding over some of them whose axes divide the shape."""
    devices = np.array(calque.devices()).reshape(2, 4)[:, :int(rng.choice([1, 2, 4]))]
    if rng.random() < 0.3:
        return rng.choice([SingleDeviceSharding(devices[-1, -1]), devices[0, -1]])
    mesh = Mesh(devices, ("x", "y"))
    left, spec = ["x", "y"], []
    for n in shape:
        axis = left[int(rng.integers(len(left)))] if left and rng.random() < 0.6 else None
        if axis and n % mesh.shape[axis] == 0:
            left.remove(axis)
            spec.append(axis)
        else:
            spec.append(None)
    return NamedSharding(mesh, P(*spec))


def parts(rng: Rng, x: Any) -> Any:
    """Taken apart and put together again."""
    if isinstance(x.sharding, SingleDeviceSharding) or 0 in x.shape:
        return x
    return calque.make_array_from_single_device_arrays(
        x.shape, x.sharding, [s.data for s in x.addressable_shards])


def by_callback(rng: Rng, x: Any) -> Any:
    read = np.asarray(x)
    return calque.make_array_from_callback(x.shape, placement_over(rng, x),
                                           lambda index: read[(*index, ...)])


def placement_over(rng: Rng, x: Any) -> Any:
    where = placement(rng, x.shape)
    return where if isinstance(where, NamedSharding) else SingleDeviceSharding(calque.devices()[1])


STEPS: dict[str, Callable[[Rng, Any], Any]] = {
    "device_put": lambda rng, x: calque.device_put(x, placement(rng, x.shape)),
    "asarray": lambda rng, x: jnp.asarray(x, device=placement(rng, x.shape)),
    "array": lambda rng, x: jnp.array(np.asarray(x), TEXT),
    "tree": lambda rng, x: calque.block_until_ready({"a": (x, 1.0)})["a"][0],
    "copy": lambda rng, x: rng.choice([copy.copy, copy.deepcopy])(x),
    "pickle": lambda rng, x: pickle.loads(pickle.dumps(x)),
    "parts": parts,
    "callback": by_callback,
    "device_get": lambda rng, x: calque.device_put(calque.device_get(x), x.sharding),
    "mapped whole": lambda rng, x: calque.vmap(lambda v: v)(x) if x.ndim else x,
    "unmapped": lambda rng, x: calque.vmap(lambda _, v: v, in_axes=(0, None), out_axes=None)(
        jnp.arange(2), x),
    "colocated": lambda rng, x: colocated_python(lambda v: v)(x)}

REFUSED: list[Callable[[Any], Any]] = [
    calque.jit(lambda v: v), calque.grad(lambda v: v), calque.jit(calque.vmap(lambda v: v)),
    lambda x: calque.jit(lambda c: (c, x))(1.0), lambda x: calque.jit(
        lambda c: lax.cond(c > 0, lambda: x, lambda: x))(1.0),
    lambda x: lax.cond(True, lambda v: v, lambda v: v, x), lambda x: lax.while_loop(
        lambda v: False, lambda v: v, x),
    lambda x: lax.scan(lambda c, _: (c, None), x, None, length=2), lambda x: calque.vjp(
        lambda v: v, x), lambda x: calque.hessian(lambda v: v)(x), calque.checkpoint(lambda v: v),
    lambda x: x + x, lambda x: jnp.stack([x]), calque.new_ref, lax.stop_gradient,
    lax.optimization_barrier]


@pytest.mark.parametrize("seeds", [range(0, 20), range(20, 40), range(40, 60)])
def test_chains_give_back_numpys(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        want = words(rng)
        x, told = calque.device_put(want.copy()), []
        for _ in range(6):
            name = str(rng.choice(list(STEPS)))
            told.append(name)
            x = STEPS[name](rng, x)
            assert isinstance(x, calque.Array) and x.dtype == TEXT and x.shape == want.shape, told
            np.testing.assert_array_equal(np.asarray(x), want, err_msg=f"{seed}: {told}")
            covered = np.zeros(want.shape, bool)
            for shard in x.addressable_shards:
                np.testing.assert_array_equal(np.asarray(shard.data), want[(*shard.index, ...)])
                covered[shard.index] = True
            assert covered.all() and x.tolist() == want.tolist()
        refused = REFUSED[seed % len(REFUSED)]
        with pytest.raises(TypeError, match="is not a valid JAX type"):
            refused(x)
