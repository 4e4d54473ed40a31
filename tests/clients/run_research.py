"""One main use of each of many libraries: geometry, physics, planning, statistics."""

import importlib.metadata

import jax
import jax.numpy as jnp

KEY = jax.random.PRNGKey(0)


def jaxlie():
    import jaxlie
    pose = jaxlie.SE3.exp(jnp.array([0.1, 0.2, 0.3, 0.1, 0, 0.2]))
    slope = jaxlie.manifold.grad(lambda t: (t.apply(jnp.ones(3)) ** 2).sum())(pose)
    return pose.as_matrix(), slope


def e3nn():
    import e3nn_jax
    x = e3nn_jax.normal("2x0e+1o", KEY)
    harmonics = e3nn_jax.spherical_harmonics("1o+2e", jnp.array([1.0, 2.0, 3.0]), True)
    return e3nn_jax.tensor_product(x, x).array.sum(), harmonics.array


def jumanji():
    import jumanji
    env = jumanji.make("Snake-v1")
    state, _ = jax.jit(env.reset)(KEY)
    _, seen = jax.jit(env.step)(state, 1)
    return seen.reward, seen.observation.grid.sum()


def quax():
    import equinox
    import quax.examples.lora as lora
    layer = equinox.nn.Linear(10, 12, key=KEY)
    layer = lora.loraify(layer, rank=3, scale=0.01, key=jax.random.PRNGKey(1))
    import quax
    return quax.quaxify(lambda layer, x: layer(x))(layer, jnp.ones(10)).sum()


def netket():
    import netket
    space = netket.hilbert.Spin(0.5, 6)
    energy = netket.operator.Ising(space, netket.graph.Chain(6), h=1.0)
    state = netket.vqs.FullSumState(space, netket.models.RBM(alpha=1), seed=1)
    netket.driver.VMC(energy, netket.optimizer.Sgd(0.1), variational_state=state).run(
        5, show_progress=False)
    return state.expect(energy).mean.real


def pennylane():
    import pennylane

    @pennylane.qnode(pennylane.device("default.qubit", wires=2), interface="jax")
    def circuit(x):
        pennylane.RX(x[0], 0)
        pennylane.CNOT([0, 1])
        pennylane.RY(x[1], 1)
        return pennylane.expval(pennylane.PauliZ(1))
    x = jnp.array([0.3, 0.4])
    return circuit(x), jax.grad(circuit)(x)


def jax_md():
    from jax_md import energy, minimize, space
    move, shift = space.periodic(5.0)
    potential = energy.soft_sphere_pair(move)
    start, step = minimize.fire_descent(potential, shift)
    state = start(jax.random.uniform(KEY, (32, 2)) * 5)
    for _ in range(5):
        state = jax.jit(step)(state)
    return potential(state.position)


def distrax():
    import distrax
    return distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)).log_prob(jnp.ones(2))


def rlax():
    import rlax
    return rlax.lambda_returns(jnp.ones(4), jnp.full(4, 0.9), jnp.zeros(4) + 0.5, 0.8)


def dynamax():
    from dynamax.hidden_markov_model import GaussianHMM
    model = GaussianHMM(3, 2)
    params, _ = model.initialize(KEY)
    _, seen = model.sample(params, jax.random.PRNGKey(1), 50)
    return model.marginal_log_prob(params, seen)


def mctx():
    import mctx

    def recurrent(params, key, action, state):
        return mctx.RecurrentFnOutput(
            reward=action.astype(jnp.float32), discount=jnp.ones(2) * 0.9,
            prior_logits=jnp.zeros((2, 3)), value=jnp.zeros(2)), state
    root = mctx.RootFnOutput(prior_logits=jnp.zeros((2, 3)), value=jnp.zeros(2),
                             embedding=jnp.zeros((2, 1)))
    return mctx.muzero_policy({}, KEY, root, recurrent, num_simulations=8).action_weights


def tinygp():
    import tinygp
    x = jnp.linspace(0, 1, 10)
    kernels = (tinygp.kernels.Matern32(0.3), tinygp.kernels.quasisep.Matern32(0.3))
    return [tinygp.GaussianProcess(k, x, diag=0.1).log_probability(jnp.sin(x)) for k in kernels]


def flashbax():
    import flashbax
    buffer = flashbax.make_flat_buffer(max_length=32, min_length=2, sample_batch_size=4)
    state = buffer.init({"o": jnp.zeros(3)})
    for i in range(3):
        state = buffer.add(state, {"o": jnp.ones(3) * i})
    return buffer.sample(state, KEY).experience.first["o"]


def interpax():
    import interpax
    return interpax.interp1d(jnp.array([0.5, 1.5]), jnp.arange(4.0), jnp.arange(4.0) ** 2,
                             method="cubic")


def autoray():
    import autoray
    return autoray.infer_backend(jnp.ones(2)), autoray.do("sin", jnp.ones(2))


def pgx():
    import pgx
    env = pgx.make("tic_tac_toe")
    state = jax.jit(env.step)(jax.jit(env.init)(KEY), 4)
    return state.legal_action_mask


def evosax():
    from evosax.algorithms import CMA_ES
    search = CMA_ES(population_size=8, solution=jnp.zeros(2))
    params = search.default_params
    state = search.init(KEY, jnp.zeros(2), params)
    found, state = search.ask(KEY, state, params)
    return found.shape


for use in (jaxlie, e3nn, jumanji, pgx, quax, netket, pennylane, jax_md, distrax, rlax, dynamax,
            mctx, tinygp, flashbax, interpax, autoray, evosax):
    names = {"e3nn": "e3nn-jax", "jax_md": "jax-md"}
    version = importlib.metadata.version(names.get(use.__name__, use.__name__))
    print(use.__name__, version.replace(".", "_"), *jax.tree.leaves(use()))
