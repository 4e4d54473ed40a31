"""flax and optax: a convolutional network that reads handwritten digits, as their guides write it.

Nothing here is calque's: `python -m calque.compat` runs it, and plain Python with jax.
Lines that begin with #> are what jax 0.10.2 prints;
tests/clients/tutorials.py (`make clients`) compares.
"""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import nnx
from flax.training import train_state
from sklearn.datasets import load_digits

# ---- 1797 images of 8 x 8 pixels, 1500 of them to learn from
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
seen, unseen = (images[:1500], labels[:1500]), (images[1500:], labels[1500:])
print(images.shape, images.dtype, labels[:10])
#> (1797, 8, 8, 1) float32 [0 1 2 3 4 5 6 7 8 9]


# ---- linen: modules are descriptions, parameters live outside
class Network(nn.Module):
    """Two convolutions, a normalization of the batch, dropout."""

    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.relu(nn.Conv(16, (3, 3))(x))
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.avg_pool(nn.relu(nn.Conv(32, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.Dropout(0.2, deterministic=not train)(x.reshape(x.shape[0], -1))
        return nn.Dense(10)(x)


network = Network()
variables = network.init(jax.random.key(0), seen[0][:1], train=False)
print(jax.tree.map(jnp.shape, variables["params"]["Conv_1"]))
#> {'bias': (32,), 'kernel': (3, 3, 16, 32)}
print(sum(leaf.size for leaf in jax.tree.leaves(variables["params"])))
#> 9962


class State(train_state.TrainState):
    """The trained parameters, the optimizer's state, and the running averages."""

    averages: dict


state = State.create(apply_fn=network.apply, params=variables["params"], tx=optax.adam(2e-3),
                     averages=variables["batch_stats"])


@jax.jit
def step(state, images, labels, key):
    """One step of Adam on a batch; the new state and the loss."""
    def loss(params):
        logits, new = state.apply_fn({"params": params, "batch_stats": state.averages}, images,
                                     train=True, rngs={"dropout": key}, mutable=["batch_stats"])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), new["batch_stats"]

    (value, averages), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads, averages=averages), value


@jax.jit
def accuracy(state, images, labels):
    """The part of the images that is read right."""
    logits = state.apply_fn({"params": state.params, "batch_stats": state.averages}, images,
                            train=False)
    return (logits.argmax(-1) == labels).mean()


def trained(state, epochs, batch=100):
    """The state after so many passes over the images, and the mean loss of the last."""
    for epoch in range(epochs):
        key = jax.random.key(epoch)
        order = np.asarray(jax.random.permutation(key, len(seen[0])))
        losses = []
        for first in range(0, len(order), batch):
            rows = order[first:first + batch]
            state, value = step(state, seen[0][rows], seen[1][rows], jax.random.fold_in(key, first))
            losses.append(value)
    return state, float(np.mean(losses))


state, last = trained(state, 1)
print(round(last, 2))
#> 1.6
state, last = trained(state, 7)
print(last < 0.1, float(accuracy(state, *unseen)) > 0.9)
#> True True

# ---- what was learned, written and read again
from flax import serialization  # noqa: E402

data = serialization.to_bytes(state.params)
again = serialization.from_bytes(variables["params"], data)
print(jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), again, state.params)))
#> True


# ---- nnx: modules hold their parameters
class Block(nnx.Module):
    """A layer with a normalization and a way around both."""

    def __init__(self, features: int, rngs: nnx.Rngs):
        self.norm = nnx.LayerNorm(features, rngs=rngs)
        self.layer = nnx.Linear(features, features, rngs=rngs)

    def __call__(self, x):
        return x + nnx.relu(self.layer(self.norm(x)))


class Reader(nnx.Module):
    """Pixels to ten numbers through two blocks."""

    def __init__(self, rngs: nnx.Rngs):
        self.first = nnx.Linear(64, 48, rngs=rngs)
        self.blocks = nnx.List([Block(48, rngs), Block(48, rngs)])
        self.last = nnx.Linear(48, 10, rngs=rngs)

    def __call__(self, images):
        x = self.first(images.reshape(images.shape[0], -1))
        for block in self.blocks:
            x = block(x)
        return self.last(x)


reader = Reader(nnx.Rngs(0))
optimizer = nnx.Optimizer(reader, optax.adamw(3e-3), wrt=nnx.Param)


@nnx.jit
def learn(reader, optimizer, images, labels):
    """One step, which changes both in place; the loss."""
    def loss(reader):
        return optax.softmax_cross_entropy_with_integer_labels(reader(images), labels).mean()

    value, grads = nnx.value_and_grad(loss)(reader)
    optimizer.update(reader, grads)
    return value


values = [float(learn(reader, optimizer, *seen)) for _ in range(60)]
print(round(values[0], 3), values[-1] < 0.2)
#> 2.785 True
right = (reader(unseen[0]).argmax(-1) == unseen[1]).mean()
print(float(right) > 0.85)
#> True
