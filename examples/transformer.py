"""A small transformer learns to write like Python's help pages (pydoc_data.topics), by characters.

Two layers of causal attention (Vaswani et al., 2017; norms first), trained with Adam. Training
runs in programs of 25 steps; the text is written by a scan whose carry is the window.

    python examples/transformer.py --steps 800 --plot transformer.png
"""
from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from report import adam, adam_init, plot, steps

import calque
import calque.numpy as jnp
from calque import lax, nn, random

EVERY = 25  # steps in one program
START = "The "


def text(letters: int) -> tuple[np.ndarray, str]:
    """Codes of the first characters of Python's help topics, and the alphabet."""
    from pydoc_data.topics import topics
    whole = "\n".join(topics[k] for k in sorted(topics))[:letters]
    alphabet = "".join(sorted(set(whole)))
    place = {c: i for i, c in enumerate(alphabet)}
    return np.array([place[c] for c in whole], np.int32), alphabet


def init(key: Any, letters: int, width: int, layers: int, window: int) -> dict[str, Any]:
    keys = iter(random.split(key, 4 * layers + 3))

    def matrix(n: int, m: int) -> Any:
        return random.normal(next(keys), (n, m)) / np.sqrt(n)

    return {"letters": 0.1 * random.normal(next(keys), (letters, width)),
            "places": 0.1 * random.normal(next(keys), (window, width)),
            "blocks": [{"qkv": matrix(width, 3 * width), "out": matrix(width, width) * 0.5,
                        "up": matrix(width, 4 * width), "down": matrix(4 * width, width) * 0.5,
                        "norms": jnp.ones((2, width))} for _ in range(layers)],
            "norm": jnp.ones(width), "head": matrix(width, letters)}


def normed(x: Any, scale: Any) -> Any:
    return nn.standardize(x, axis=-1) * scale


def attention(x: Any, qkv: Any, out: Any, heads: int) -> Any:
    """Causal self-attention of one sequence, (window, width)."""
    n, width = x.shape
    q, k, v = jnp.split((x @ qkv).reshape(n, heads, 3 * width // heads), 3, axis=-1)
    scores = jnp.einsum("ihd,jhd->hij", q, k) / np.sqrt(width // heads)
    weights = nn.softmax(jnp.where(jnp.tri(n, dtype=bool), scores, -1e9))
    return jnp.einsum("hij,jhd->ihd", weights, v).reshape(n, width) @ out


def logits(params: Any, codes: Any, heads: int) -> Any:
    """Scores of the next letter after each letter of one sequence."""
    x = params["letters"][codes] + params["places"]
    for b in params["blocks"]:
        x = x + attention(normed(x, b["norms"][0]), b["qkv"], b["out"], heads)
        x = x + nn.gelu(normed(x, b["norms"][1]) @ b["up"]) @ b["down"]
    return normed(x, params["norm"]) @ params["head"]


def loss(params: Any, rows: Any, heads: int) -> Any:
    """Mean cross entropy in nats per letter of rows, (batch, window + 1)."""
    scores = calque.vmap(lambda c: logits(params, c, heads))(rows[:, :-1])
    chosen = jnp.take_along_axis(nn.log_softmax(scores), rows[:, 1:, None], axis=2)
    return -jnp.mean(chosen)


@partial(calque.jit, static_argnames=("heads", "n", "batch"))
def train(params: Any, state: Any, codes: Any, rate: Any, key: Any, *, heads: int, n: int,
          batch: int) -> Any:
    window = params["places"].shape[0]
    starts = random.randint(key, (n, batch), 0, len(codes) - window)

    def step(carry: Any, starts: Any) -> Any:
        params, state = carry
        rows = codes[starts[:, None] + jnp.arange(window + 1)]
        value, grads = calque.value_and_grad(loss)(params, rows, heads)
        return adam(params, grads, state, rate), value

    (params, state), values = lax.scan(step, (params, state), starts)
    return params, state, values


@partial(calque.jit, static_argnames=("heads", "n"))
def write(params: Any, window: Any, filled: Any, key: Any, *, heads: int, n: int) -> Any:
    """n letters after the first `filled` ones of a window."""
    def letter(carry: Any, key: Any) -> Any:
        window, filled = carry
        scores = logits(params, window, heads)[filled - 1] / 0.7
        new = random.categorical(key, scores).astype(window.dtype)
        full = filled == len(window)
        window = jnp.where(full, jnp.roll(window, -1), window)
        filled = jnp.where(full, filled, filled + 1)
        return (window.at[filled - 1].set(new), filled), new

    return lax.scan(letter, (window, filled), random.split(key, n))[1]


def run(n: int = 800, width: int = 64, layers: int = 2, heads: int = 4, window: int = 64,
        batch: int = 16, letters: int = 200_000, write_letters: int = 200) -> dict[str, Any]:
    start = time.perf_counter()
    codes, alphabet = text(letters)
    data = jnp.asarray(codes)
    params = init(random.key(0), len(alphabet), width, layers, window)
    state, curve = adam_init(params), []
    for i in steps(-(-n // EVERY), "training"):
        rate = 3e-3 * min(1, (i + 1) / 4) * (1 - 0.9 * i * EVERY / n)
        params, state, values = train(params, state, data, rate, random.key(i + 1), heads=heads,
                                      n=min(EVERY, n - i * EVERY), batch=batch)
        curve.append(np.asarray(values))  # waits: the progress is that of the work
    blank = np.zeros(window, np.int32)
    blank[:len(START)] = [alphabet.index(c) for c in START]
    new = write(params, jnp.asarray(blank), jnp.int32(len(START)), random.key(7), heads=heads,
                n=write_letters)
    return {"losses": np.concatenate(curve),
            "letters": np.bincount(codes, minlength=len(alphabet)) / len(codes),
            "text": START + "".join(alphabet[i] for i in np.asarray(new)),
            "seconds": time.perf_counter() - start}


def main(n: Annotated[int, typer.Option("--steps")] = 800,
         width: Annotated[int, typer.Option()] = 64,
         layers: Annotated[int, typer.Option()] = 2,
         window: Annotated[int, typer.Option(help="letters that it sees")] = 64,
         batch: Annotated[int, typer.Option()] = 16,
         path: Annotated[Path | None, typer.Option("--plot", help="PNG")] = None) -> None:
    """A transformer that writes help pages."""
    found = run(n, width, layers, 4, window, batch)
    share = found["letters"][found["letters"] > 0]
    alone = -np.sum(share * np.log(share))
    last = found["losses"][-50:].mean()
    print(f"loss {found['losses'][0]:.2f} before, {last:.2f} after {n} steps "
          f"(letters by their frequency: {alone:.2f}), {found['seconds']:.0f} s")
    print(found["text"])

    def draw(axes: Any) -> None:
        axes.plot(found["losses"], lw=0.5)
        smooth = np.convolve(found["losses"], np.ones(25) / 25, "valid")
        axes.plot(np.arange(len(smooth)) + 12, smooth, label="mean of 25 steps")
        axes.axhline(alone, color="k", lw=1, ls=":", label="letters by their frequency")
        axes.set(xlabel="step", ylabel="nats per letter", title="training")
        axes.legend()
    plot(path, draw, 7, 4)


if __name__ == "__main__":
    typer.run(main)
