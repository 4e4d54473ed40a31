"""Statistics of high-energy physics: a fit and a hypothesis test."""
import jax
import jax.numpy as jnp
import pyhf

pyhf.set_backend("jax", pyhf.optimize.scipy_optimizer(), precision="64b")
_model = pyhf.simplemodels.uncorrelated_background([5.0, 10.0], [50.0, 60.0], [5.0, 12.0])
_DATA = [52.0, 68.0, *_model.config.auxdata]


def fit():
    return pyhf.infer.mle.fit(_DATA, _model)


def test():
    return pyhf.infer.hypotest(1.0, _DATA, _model, test_stat="qtilde", return_expected=True)


_slope = jax.jit(jax.grad(lambda p: _model.logpdf(p, jnp.array(_DATA))[0]))


def step():
    return _slope(jnp.array(_model.config.suggested_init()))
