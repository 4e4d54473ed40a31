"""Rigid bodies: steps of an arm, alone and in a batch of worlds."""
import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

_MODEL = mujoco.MjModel.from_xml_string("""
<mujoco><worldbody><body><joint name="a" type="hinge" axis="0 1 0"/>
<geom type="capsule" size="0.05" fromto="0 0 0 0.4 0 0"/><body pos="0.4 0 0">
<joint name="b" type="hinge" axis="0 1 0"/><geom type="capsule" size="0.04" fromto="0 0 0 0.3 0 0"/>
</body></body></worldbody></mujoco>""")
_model = mjx.put_model(_MODEL)
_data = mjx.make_data(_model)


def worlds():
    def one(q):
        return mjx.step(_model, _data.replace(qpos=q)).qpos
    return jax.vmap(one)(jnp.arange(8.0).reshape(4, 2) * 0.1)


_step = jax.jit(mjx.step)


def step():
    return _step(_model, _data).qpos
