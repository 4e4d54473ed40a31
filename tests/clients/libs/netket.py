"""The ground state of an Ising chain by a restricted Boltzmann machine, and exactly."""
import netket as nk

_SPACE = nk.hilbert.Spin(0.5, 6)
_ENERGY = nk.operator.Ising(_SPACE, nk.graph.Chain(6), h=1.0)
_STATE = nk.vqs.FullSumState(_SPACE, nk.models.RBM(alpha=1), seed=1)


def exact():
    return nk.exact.lanczos_ed(_ENERGY)


def descent():
    nk.driver.VMC(_ENERGY, nk.optimizer.Sgd(0.1), variational_state=_STATE).run(
        5, show_progress=False)
    return _STATE.expect(_ENERGY).mean.real


def step():
    energy, slope = _STATE.expect_and_grad(_ENERGY)
    return energy.mean.real, slope
