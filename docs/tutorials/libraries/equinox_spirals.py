"""equinox: models are trees of arrays; a recurrent network that tells spirals apart, and an ODE.

Nothing here is calque's: `python -m calque.compat` runs it, and plain Python with jax.
Lines that begin with #> are what jax 0.10.2 prints;
tests/clients/tutorials.py (`make clients`) compares.
"""
import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


# ---- spirals that turn left or right, of 32 points, with noise
def spirals(count, seed):
    """Points (count, 32, 2) and which way they turn (count,)."""
    random = np.random.default_rng(seed)
    way = random.integers(0, 2, count)
    angle = np.linspace(0, 3 * np.pi, 32) + random.uniform(0, 2 * np.pi, (count, 1))
    angle = angle * np.where(way, 1, -1)[:, None]
    radius = np.linspace(0.2, 1, 32)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    return (points + random.normal(0, 0.05, points.shape)).astype(np.float32), way


points, ways = spirals(512, 0)
print(points.shape, points.dtype, ways[:8])
#> (512, 32, 2) float32 [1 1 1 0 0 0 0 0]


# ---- a model: its fields are arrays, numbers, functions
class Turns(eqx.Module):
    """A GRU over the points, and one number out of its last state."""

    cell: eqx.nn.GRUCell
    readout: eqx.nn.Linear

    def __init__(self, width, key):
        first, second = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(2, width, key=first)
        self.readout = eqx.nn.Linear(width, "scalar", key=second)

    def __call__(self, points):
        def step(state, point):
            return self.cell(point, state), None

        state, _ = jax.lax.scan(step, jnp.zeros(self.cell.hidden_size), points)
        return self.readout(state)


model = Turns(16, jax.random.key(0))
print(eqx.tree_pformat(model.readout))
#> Linear(
#>   weight=f32[1,16],
#>   bias=f32[1],
#>   in_features=16,
#>   out_features='scalar',
#>   use_bias=True
#> )
print(sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array))))
#> 945


@eqx.filter_value_and_grad
def loss(model, points, ways):
    """The mean cross entropy."""
    return optax.sigmoid_binary_cross_entropy(jax.vmap(model)(points), ways).mean()


tx = optax.adam(1e-2)
state = tx.init(eqx.filter(model, eqx.is_inexact_array))


@eqx.filter_jit
def step(model, state, points, ways):
    """One step of Adam: model, state, loss."""
    value, grads = loss(model, points, ways)
    updates, state = tx.update(grads, state, model)
    return eqx.apply_updates(model, updates), state, value


values = []
for i in range(120):
    rows = np.random.default_rng(i).integers(0, 512, 64)
    model, state, value = step(model, state, points[rows], ways[rows])
    values.append(float(value))
print(round(values[0], 3), values[-1] < 0.3)
#> 0.704 True
unseen, answers = spirals(256, 1)
right = ((jax.vmap(model)(unseen) > 0) == answers).mean()
print(float(right) > 0.9)
#> True

# ---- a leaf exchanged; what is trained, and what is not
frozen = eqx.tree_at(lambda m: m.readout.bias, model, jnp.zeros(1))
print(frozen.readout.bias, jax.tree.structure(frozen) == jax.tree.structure(model))
#> [0.] True
trained, static = eqx.partition(model, eqx.is_inexact_array)
print(len(jax.tree.leaves(trained)), eqx.tree_equal(eqx.combine(trained, static), model))


#> 6 True

# ---- an error of the values, out of a compiled function
@eqx.filter_jit
def root(x):
    """The square root, of what has one."""
    return jnp.sqrt(eqx.error_if(x, x < 0, "x must not be negative"))


print(root(jnp.array(4.0)))
#> 2.0
try:
    root(jnp.array(-1.0)).block_until_ready()
except Exception as error:
    print("x must not be negative" in str(error))
#> True


# ---- the rate of an oscillator, by gradients through an adaptive solver
@jax.jit
def solved(rate):
    """Where a damped oscillator is at ten times."""
    def field(t, y, rate):
        return jnp.stack([y[1], -rate * y[0] - 0.1 * y[1]])

    return diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Tsit5(), t0=0, t1=5, dt0=0.05, y0=jnp.array([1.0, 0.0]),
        args=rate, saveat=diffrax.SaveAt(ts=jnp.linspace(0, 5, 10)),
        stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-6)).ys[:, 0]


measured = solved(2.0)
print(np.round(np.asarray(measured), 3))
#> [ 1.     0.712  0.034 -0.627 -0.895 -0.638 -0.031  0.561  0.801  0.571]
slope = jax.jit(jax.value_and_grad(lambda rate: ((solved(rate) - measured) ** 2).sum()))
rate = jnp.array(1.7)
for _ in range(25):
    value, change = slope(rate)
    rate = rate - 0.02 * change
print(round(float(rate), 3))
#> 1.991
