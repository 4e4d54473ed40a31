"""Checkpoints: written, read back, and managed."""
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

_TREE = {"w": jnp.arange(6.0).reshape(2, 3), "n": jnp.array(3), "b": jnp.ones(4, jnp.bfloat16)}


def standard():
    path = pathlib.Path(tempfile.mkdtemp()) / "one"
    with ocp.StandardCheckpointer() as writer:
        writer.save(path, _TREE)
        writer.wait_until_finished()
        found = writer.restore(path, jax.tree.map(ocp.utils.to_shape_dtype_struct, _TREE))
    return jax.tree.map(lambda x: np.asarray(x, np.float32), found)


def managed():
    with ocp.CheckpointManager(pathlib.Path(tempfile.mkdtemp()),
                               options=ocp.CheckpointManagerOptions(max_to_keep=2)) as manager:
        for i in range(3):
            manager.save(i, args=ocp.args.StandardSave({"x": jnp.ones(2) * i}))
        manager.wait_until_finished()
        return manager.all_steps(), manager.restore(2)["x"]
