"""Several hosts, one program: processes, local and global devices, a sum over all of them.

Each process runs this file, on hosts of their own or all on this one:

    calque run-many -n 2 examples/multi_host.py
    python examples/multi_host.py localhost:23456 2 0 &
    python examples/multi_host.py localhost:23456 2 1

Lines that begin with #> are what process 0 of two prints, compared by
tests/processes/test_values.py.
"""
import sys

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from calque.experimental import multihost_utils
from calque.sharding import Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

calque.config.update("jax_num_cpu_devices", 2)  # of each process

# ---- initialize comes first: MPI_Init's part.  Launchers say the rest; by hand it is given.
if len(sys.argv) == 4:
    calque.distributed.initialize(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
else:
    calque.distributed.initialize()


def say(*what: object) -> None:
    if calque.process_index() == 0:
        print(*what, flush=True)


# ---- MPI's rank and size
say(calque.process_index(), "of", calque.process_count(), calque.process_indices())
#> 0 of 2 [0, 1]

# ---- local devices are this process's, global ones everybody's; numbers tell whose they are
say([d.id for d in calque.local_devices()], [d.id for d in calque.devices()])
#> [0, 1] [0, 1, 2048, 2049]
say(set(calque.local_devices()) < set(calque.devices()), calque.local_device_count(),
    calque.device_count())
#> True 2 4

# ---- each process has its own rows; together they are one array over all devices
mesh = Mesh(np.array(calque.devices()), ("i",))
rows = 10 * calque.process_index() + np.arange(4, dtype=np.float32)
x = calque.make_array_from_process_local_data(NamedSharding(mesh, P("i")), rows)
say(x.shape, [s.data.tolist() for s in x.addressable_shards], x.is_fully_addressable)
#> (8,) [[0.0, 1.0], [2.0, 3.0]] False

# ---- what other processes hold is not here to read
try:
    np.asarray(x)
except RuntimeError as error:
    say("process_allgather" in str(error))
#> True
say(multihost_utils.process_allgather(x, tiled=True))
#> [ 0.  1.  2.  3. 10. 11. 12. 13.]

# ---- psum goes over local and other devices alike; so does what jit makes of a whole array
total = calque.jit(calque.shard_map(lambda v: lax.psum(v.sum(), "i"), mesh=mesh,
                                    in_specs=P("i"), out_specs=P()))
say(total(x), calque.jit(jnp.sum)(x))
#> 52.0 52.0

# ---- pmap takes and gives this process's rows, one for each of its devices
local = np.arange(2.0) + calque.process_index()
say(calque.pmap(lambda v: lax.psum(v, "i"), axis_name="i")(local))
#> [4. 4.]

# ---- values outside of programs: one process's for all, all of them for everybody, and waiting
say(multihost_utils.broadcast_one_to_all(np.int32(7 + calque.process_index())))
#> 7
say(multihost_utils.process_allgather(np.int32(calque.process_index())))
#> [0 1]
multihost_utils.sync_global_devices("the end")
calque.distributed.shutdown()
