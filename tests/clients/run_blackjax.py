"""HMC, NUTS, random walks, MALA, window adaptation."""

import blackjax
import jax
import jax.numpy as jnp


def ld(q):
    return -0.5 * jnp.sum((q["x"] - jnp.arange(3.0)) ** 2 * jnp.array([1.0, 4.0, 0.5]))


q0 = {"x": jnp.zeros(3)}


def run(alg, n=50, seed=0):
    s = alg.init(q0)

    def body(s, k):
        s, i = alg.step(k, s)
        return s, s.position["x"]

    return jax.lax.scan(body, s, jax.random.split(jax.random.PRNGKey(seed), n))[1]


print("hmc", run(blackjax.hmc(ld, 0.2, jnp.ones(3), 8)).mean(0))
print("nuts", run(blackjax.nuts(ld, 0.3, jnp.ones(3))).mean(0))
print(
    "rmh",
    run(
        blackjax.rmh(
            ld, lambda k, p: jax.tree.map(lambda v: v + 0.5 * jax.random.normal(k, v.shape), p)
        )
    ).mean(0),
)
print("mala", run(blackjax.mala(ld, 0.1)).mean(0))
w = blackjax.window_adaptation(blackjax.nuts, ld)
(st, par), _ = w.run(jax.random.PRNGKey(1), q0, num_steps=60)
print("window", float(par["step_size"]), par["inverse_mass_matrix"], st.position["x"])
