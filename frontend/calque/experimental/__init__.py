"""Names that JAX keeps under jax.experimental: buffer_callback.py (functions of the host that write
into memory), checkify.py (checks.py is what it makes of a function), colocated_python.py,
compilation_cache/, compute_on.py, custom_partitioning.py (sharding_rules.py: which dimensions are
the same), jet.py (series.py: what Taylor mode makes of operations), key_reuse.py, layout.py,
mesh_utils.py, multihost_utils.py, ode.py (dormand_prince.py: the steps), pallas/ (kernels over a
grid of blocks), pjit.py, random.py (generators with a state), rnn.py (LSTM layers),
scheduling_groups.py, serialize_executable.py, shard_alike.py, shard_map.py, sparse/ (arrays whose
zeros are not stored), topologies.py, xla_metadata.py."""
from calque.api.callbacks import io_callback as io_callback
from calque.experimental import buffer_callback as buffer_callback
from calque.experimental import checkify as checkify
from calque.experimental import colocated_python as colocated_python
from calque.experimental import compilation_cache as compilation_cache
from calque.experimental import compute_on as compute_on
from calque.experimental import custom_partitioning as custom_partitioning
from calque.experimental import jet as jet
from calque.experimental import key_reuse as key_reuse
from calque.experimental import layout as layout
from calque.experimental import mesh_utils as mesh_utils
from calque.experimental import multihost_utils as multihost_utils
from calque.experimental import ode as ode
from calque.experimental import pallas as pallas
from calque.experimental import pjit as pjit
from calque.experimental import random as random
from calque.experimental import rnn as rnn
from calque.experimental import scheduling_groups as scheduling_groups
from calque.experimental import shard_alike as shard_alike
from calque.experimental import shard_map as shard_map
from calque.experimental import sparse as sparse
from calque.experimental import topologies as topologies
from calque.experimental import xla_metadata as xla_metadata

__all__ = ["buffer_callback", "checkify", "colocated_python", "compilation_cache", "compute_on",
           "custom_partitioning", "io_callback", "jet",
           "key_reuse", "layout", "mesh_utils", "multihost_utils", "ode", "pallas", "pjit",
           "random", "rnn", "scheduling_groups", "shard_alike", "shard_map", "sparse", "topologies",
           "xla_metadata"]


def __dir__() -> list[str]:
    return __all__
