"""Programs with states: a layer, transformations that find the states, a training step."""
import brainstate as bs
import jax
import jax.numpy as jnp

_X = jnp.sin(jnp.arange(24.0)).reshape(8, 3)


class _Net(bs.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = bs.nn.Linear(3, 8)
        self.second = bs.nn.Linear(8, 1)

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


bs.random.seed(0)
_net = _Net()
_weights = _net.states(bs.ParamState)


def forward():
    return _net(_X)


def counting():
    count = bs.State(jnp.zeros(()))

    @bs.transform.jit
    def add(x):
        count.value += x
        return count.value * 2
    add(1.0)
    return add(2.0), count.value


def loops():
    total = bs.State(jnp.zeros(3))

    def body(x):
        total.value = total.value * 0.5 + x
        return total.value.sum()
    return bs.transform.for_loop(body, _X), total.value


_grads = bs.transform.jit(bs.transform.grad(lambda: (_net(_X) ** 2).mean(), _weights))


def step():
    return jax.tree.leaves(_grads())
