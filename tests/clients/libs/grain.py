"""Pipelines of data into a jitted step."""
import grain
import jax
import jax.numpy as jnp
import numpy as np


class _Square:
    def __call__(self, x):
        return {"x": np.float32(x) ** 2}


_DATA = grain.MapDataset.range(64).shuffle(seed=3).map(_Square()).batch(8)


def batches():
    return [jnp.asarray(b["x"]).sum() for b in _DATA]


def loader():
    loaded = grain.DataLoader(
        data_source=grain.sources.RangeDataSource(0, 16, 1),
        sampler=grain.samplers.IndexSampler(16, shuffle=True, seed=1, num_epochs=1),
        operations=[grain.transforms.Batch(4)], worker_count=0)
    return [jnp.asarray(b) for b in loaded]


_total = jax.jit(lambda b: jnp.sqrt(b["x"]).sum())


def step():
    return [_total(b) for b in _DATA]
