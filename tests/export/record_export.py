"""Records what jax.export writes: data/export_<name>.bin and the values in data/export_values.npz.

Run by hand where jax 0.10 is installed: python tests/export/record_export.py
test_export.py reads the files, without jax.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"


def cases() -> dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """name -> (function, arguments, options of export and serialize)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    x = jnp.linspace(-2.0, 2.0, 12).reshape(3, 4)
    square = jnp.eye(4) * 5 + jnp.arange(16.0).reshape(4, 4) % 3

    def elementwise(x: Any) -> Any:
        y = jnp.sin(x) * 2 + jnp.where(x > 0, jnp.log1p(jnp.abs(x)), jnp.tanh(x))
        return {"y": y, "z": [jax.scipy.special.erf(x), jnp.sinh(x), lax.round(x * 3),
                              jax.scipy.special.gammaln(x + 3)], "i": x.astype(jnp.int8)}

    def reductions(x: Any) -> Any:
        return (x.sum(0), x.max(1), jnp.argmax(x, 1), jnp.argmin(x), jnp.any(x > 1),
                jnp.cumsum(x, 1), jnp.cumprod(x, 0), jnp.median(x), lax.cummax(x, 1, True))

    def sorting(x: Any) -> Any:
        i = (x * 7).astype(jnp.int32) % 3
        return (lax.sort((i, x), num_keys=2, dimension=1), lax.top_k(x, 2),
                jnp.argsort(-x, axis=0), jnp.sort(x + 1j * x[::-1], axis=0))

    def indexing(x: Any, i: Any) -> Any:
        return (x[i], x.at[i].add(1.0), x.at[i, 0].max(0.5, mode="clip"), x[1:, ::2],
                lax.dynamic_slice(x, (i[0], i[0]), (2, 2)), jnp.pad(x, 1), x[:, i % 4])

    def control(x: Any, n: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            return c + row.sum(), c * row

        return (lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))[1],
                lax.scan(body, 0.5, x), lax.cond(n > 3, jnp.sin, jnp.cos, x),
                lax.switch(n, [lambda v: v + 1, lambda v: v * 2, lambda v: -v], x),
                lax.fori_loop(0, 3, lambda i, c: c + x[i], jnp.zeros(4)))

    def linalg(a: Any) -> Any:
        symmetric = a + a.T
        w, v = jnp.linalg.eigh(symmetric)
        u, s, vt = jnp.linalg.svd(a)
        q, r = jnp.linalg.qr(a)
        return (jnp.linalg.solve(a, a[0]), jnp.linalg.cholesky(symmetric + 20 * jnp.eye(4)),
                w, jnp.abs(v), s, jnp.abs(u), jnp.abs(vt), jnp.abs(q), jnp.abs(r),
                jnp.linalg.det(a), jnp.sort(jnp.abs(jnp.linalg.eigvals(a))))

    def transforms(x: Any) -> Any:
        return jnp.abs(jnp.fft.fft(x)), jnp.fft.irfft(jnp.fft.rfft(x, axis=1), axis=1)

    def random(key: Any) -> Any:
        a, b = jax.random.split(key)
        return (jax.random.key_data(b), jax.random.uniform(a, (5,)), jax.random.normal(b, (2, 3)),
                jax.random.bits(a, (3,), "uint8"))

    def windows(image: Any, kernel: Any) -> Any:
        def loss(k: Any) -> Any:
            y = lax.conv_general_dilated(image, k, (1, 1), "SAME")
            pooled = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            return (pooled**2).sum()
        return jax.value_and_grad(loss)(kernel)

    def loss(params: Any, x: Any) -> Any:
        return jnp.tanh(x @ params["w"] + params["b"]).sum()

    image = jnp.linspace(-1, 1, 50).reshape(1, 2, 5, 5) ** 2
    kernel = jnp.linspace(-1, 1, 24).reshape(3, 2, 2, 2)
    params = {"w": jnp.ones((4, 2)) * 0.1, "b": jnp.zeros(2)}
    b, = jax.export.symbolic_shape("b")
    spec = jax.ShapeDtypeStruct((b, 4), "float32")

    def symbolic(x: Any) -> Any:
        n = x.shape[0]
        return (jnp.concatenate([x, x]).reshape(2 * n, 2, 2).sum(1), x.mean(0), jnp.arange(n) * n,
                jnp.ones((n, 3)) @ jnp.ones((3, n)), jax.nn.softmax(x, 0), x[:1])

    return {
        "elementwise": (elementwise, (x,), {}), "reductions": (reductions, (x,), {}),
        "sorting": (sorting, (x,), {}), "indexing": (indexing, (x, jnp.array([2, 0])), {}),
        "control": (control, (x, jnp.int32(2)), {}), "linalg": (linalg, (square,), {}),
        "transforms": (transforms, (x,), {}), "random": (random, (jax.random.key(3),), {}),
        "windows": (windows, (image, kernel), {}),
        "vjp": (loss, (params, x), {"vjp_order": 2}),
        "platforms": (jnp.cos, (x,), {"platforms": ("cuda", "cpu")}),
        "symbolic": (symbolic, (x,), {"specs": (spec,)}),
    }


def main() -> None:
    import jax
    values: dict[str, np.ndarray[Any, Any]] = {}

    def kept(v: Any) -> Any:
        return np.asarray(jax.random.key_data(v) if v.dtype.name.startswith("key") else v)

    for name, (f, args, options) in cases().items():
        options = dict(options)
        order, specs = options.pop("vjp_order", 0), options.pop("specs", args)
        e = jax.export.export(jax.jit(f), **options)(*specs)
        blob = e.serialize(vjp_order=order)
        (DATA / f"export_{name}.bin").write_bytes(blob)
        for kind, tree in (("in", args), ("out", e.call(*args))):
            for i, v in enumerate(jax.tree.leaves(tree)):
                values[f"{name}/{kind}/{i}"] = kept(v)
        if order:
            grads = jax.grad(lambda *a, f=f: f(*a))(*args)
            for i, v in enumerate(jax.tree.leaves(grads)):
                values[f"{name}/grad/{i}"] = kept(v)
        print(name, len(blob))
    np.savez_compressed(DATA / "export_values.npz", **values)


if __name__ == "__main__":
    main()
