"""Quality and diversity: MAP-Elites on a sphere."""
import functools

import jax
from qdax.core.containers.mapelites_repertoire import compute_euclidean_centroids
from qdax.core.emitters.mutation_operators import isoline_variation
from qdax.core.emitters.standard_emitters import MixingEmitter
from qdax.core.map_elites import MAPElites


def _score(x, key=None):
    return -(x ** 2).sum(-1), jax.nn.sigmoid(x[:, :2]), {}


_emitter = MixingEmitter(None, functools.partial(isoline_variation, iso_sigma=0.05, line_sigma=0.1),
                         1.0, 32)
_search = MAPElites(_score, _emitter, lambda r: {"best": r.fitnesses.max()})
_CENTRES = compute_euclidean_centroids(grid_shape=(8, 8), minval=0.0, maxval=1.0)
_START = _search.init(jax.random.normal(jax.random.key(0), (32, 4)), _CENTRES, jax.random.key(1))
_update = jax.jit(_search.update)


def step():
    repertoire, _, metrics = _update(_START[0], _START[1], jax.random.key(2))
    return metrics["best"], repertoire.fitnesses.max()
