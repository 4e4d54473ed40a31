"""Hidden Markov models and linear Gaussian state spaces."""
import jax
from dynamax.hidden_markov_model import GaussianHMM
from dynamax.linear_gaussian_ssm import LinearGaussianSSM

_model = GaussianHMM(3, 2)
_params, _props = _model.initialize(jax.random.key(0))
_, _SEEN = _model.sample(_params, jax.random.key(1), 50)


def smoother():
    posterior = _model.smoother(_params, _SEEN)
    return posterior.marginal_loglik, posterior.smoothed_probs


def most_likely():
    return _model.most_likely_states(_params, _SEEN)


def fit_em():
    return _model.fit_em(_params, _props, _SEEN, num_iters=5, verbose=False)[1]


_space = LinearGaussianSSM(2, 2)
_space_params, _ = _space.initialize(jax.random.key(0))
_filter = jax.jit(_space.filter)


def step():
    posterior = _filter(_space_params, _SEEN)
    return posterior.marginal_loglik, posterior.filtered_means
