"""A double pendulum in MuJoCo MJX, eight of them, and an environment of Brax."""

import jax
import jax.numpy as jnp
import mujoco
from brax import envs
from mujoco import mjx

ARM = """<mujoco><option timestep="0.01"/><worldbody><body pos="0 0 1">
<joint type="hinge" axis="0 1 0"/><geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5"/>
<body pos="0 0 -0.5"><joint type="hinge" axis="0 1 0"/>
<geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5"/></body></body></worldbody></mujoco>"""
model = mjx.put_model(mujoco.MjModel.from_xml_string(ARM))
data = mjx.make_data(model).replace(qpos=jnp.array([0.3, 0.2]))
step = jax.jit(mjx.step)
for _ in range(20):
    data = step(model, data)
print("arm", data.qpos)
starts = jnp.linspace(0, 1, 8)[:, None] * jnp.ones(2)
worlds = jax.vmap(lambda q: data.replace(qpos=q))(starts)
print("worlds", jax.jit(jax.vmap(mjx.step, in_axes=(None, 0)))(model, worlds).qpos[:3])
env = envs.get_environment("inverted_pendulum", backend="generalized")
state = jax.jit(env.reset)(jax.random.PRNGKey(0))
act = jax.jit(env.step)
for _ in range(5):
    state = act(state, jnp.ones(env.action_size) * 0.1)
print("brax", state.obs, state.reward)
