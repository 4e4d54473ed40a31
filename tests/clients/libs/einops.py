"""Rearrangements, reductions and products by their axes' names."""
import einops
import jax
import jax.numpy as jnp

_X = jnp.sin(jnp.arange(240.0)).reshape(2, 4, 5, 6)


def forms():
    return (einops.rearrange(_X, "b (h a) w c -> (b h) w (c a)", a=2),
            einops.reduce(_X, "b h w c -> b c", "max"),
            einops.repeat(_X[0], "h w c -> h w c r", r=2),
            einops.einsum(_X, _X, "b h w c, b h w d -> c d"), einops.pack([_X, _X], "b * w c")[0])


@jax.jit
def _patches(x):
    return einops.reduce(einops.rearrange(x, "b (h p) w c -> b h w (p c)", p=2), "b h w d -> b d",
                         "mean")


def step():
    return _patches(_X)
