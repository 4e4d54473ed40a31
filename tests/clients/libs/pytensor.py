"""Graphs of PyTensor that are compiled by jax, and a model of PyMC's: its density and gradient."""
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

_x, _m = pt.vector("x"), pt.matrix("m")
_f = pytensor.function([_x, _m], [pt.exp(_x).sum() + pt.dot(_m, _x), pt.linalg.det(_m), _x[::-1],
                                  pt.special.softmax(_x)], mode="JAX")
_X, _M = np.linspace(0, 1, 4), np.eye(4) + 0.1


def functions():
    return _f(_X, _M)


def gradients():
    loss = (pt.tanh(_m @ _x) ** 2).sum()
    return pytensor.function([_x, _m], pytensor.grad(loss, [_x, _m]), mode="JAX")(_X, _M)


def scans():
    n = pt.iscalar("n")
    states = pytensor.scan(lambda s: 0.5 * s + 1, outputs_info=_x, n_steps=5,
                           return_updates=False)
    del n
    return pytensor.function([_x], states, mode="JAX")(_X)


with pm.Model() as _model:
    _mu = pm.Normal("mu", 0, 1)
    _sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", _mu, _sigma, observed=np.sin(np.arange(20.0)))
_point = _model.initial_point()
_density = _model.compile_fn([_model.logp(), _model.dlogp()], mode="JAX")


def step():
    return _density(_point)
