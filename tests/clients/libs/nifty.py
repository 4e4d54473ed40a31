"""Information field theory: a correlated field, its likelihood, a variational fit."""
import jax
import jax.numpy as jnp
import nifty.re as jft

jax.config.update("jax_enable_x64", True)
_maker = jft.CorrelatedFieldMaker("cf")
_maker.set_amplitude_total_offset(offset_mean=0.0, offset_std=(1e-1, 3e-2))
_maker.add_fluctuations((32,), distances=1 / 32, fluctuations=(0.5, 0.1), loglogavgslope=(-3, 0.3),
                        flexibility=(0.5, 0.1), asperity=None, prefix="ax",
                        non_parametric_kind="power")
_field = _maker.finalize()
_POSITION = jax.tree.map(lambda x: 0.1 * jnp.cos(jnp.arange(x.size, dtype=float)).reshape(x.shape),
                         jft.zeros_like(_field.domain))
_DATA = jnp.sin(jnp.linspace(0, 6, 32))
_likelihood = jft.Gaussian(_DATA, noise_cov_inv=lambda x: x / 0.01).amend(_field)


def field():
    return _field(_POSITION)


def metric():
    return jax.tree.leaves(_likelihood.metric(_POSITION, _POSITION))


def fit():
    samples, _ = jft.optimize_kl(
        _likelihood, jft.Vector(_POSITION), key=jax.random.key(1), n_total_iterations=1,
        n_samples=1,
        draw_linear_kwargs={"cg_name": None, "cg_kwargs": {"absdelta": 1e-8, "maxiter": 60}},
        nonlinearly_update_kwargs={"minimize_kwargs": {"name": None, "xtol": 1e-6,
                                                       "cg_kwargs": {"name": None}, "maxiter": 4}},
        kl_kwargs={"minimize_kwargs": {"name": None, "xtol": 1e-6, "cg_kwargs": {"name": None},
                                       "maxiter": 5}}, sample_mode="linear_resample")
    return _likelihood(samples.pos)


_slope = jax.jit(jax.value_and_grad(_likelihood))


def step():
    return jax.tree.leaves(_slope(_POSITION))
