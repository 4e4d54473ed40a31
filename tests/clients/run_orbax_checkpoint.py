"""orbax: trees, a manager of steps; flax's checkpoints of a TrainState."""

import pathlib
import tempfile

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax.training import checkpoints, train_state

folder = pathlib.Path(tempfile.mkdtemp())
tree = {"w": jnp.arange(6.0).reshape(2, 3), "b": [jnp.ones(3), np.arange(4)], "step": 3}
checkpointer = ocp.StandardCheckpointer()
checkpointer.save(folder / "one", tree)
checkpointer.wait_until_finished()
found = checkpointer.restore(folder / "one", tree)
print("restored", *[float(np.asarray(x).sum()) for x in jax.tree.leaves(found)])
options = ocp.CheckpointManagerOptions(max_to_keep=2)
with ocp.CheckpointManager(folder / "many", options=options) as manager:
    for step in range(3):
        manager.save(step, args=ocp.args.StandardSave(tree))
    manager.wait_until_finished()
    print("steps", *manager.all_steps(), manager.latest_step())
    found = manager.restore(2, args=ocp.args.StandardRestore(tree))
    print("managed", float(np.asarray(found["w"]).sum()))
model = nn.Dense(3)
state = train_state.TrainState.create(
    apply_fn=model.apply, params=model.init(jax.random.key(0), jnp.ones((1, 4))),
    tx=optax.adam(1e-3))
checkpoints.save_checkpoint(folder / "flax", state, 0)
found = checkpoints.restore_checkpoint(folder / "flax", state)
print("flax", *[bool(np.allclose(a, b)) for a, b in zip(
    jax.tree.leaves(found), jax.tree.leaves(state), strict=True)])
