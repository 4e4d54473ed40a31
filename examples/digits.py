"""Handwritten digits (scikit-learn's 1,797 bundled images, 8 x 8): a network with dropout, Adam.

    python examples/digits.py --epochs 60 --plot digits.png
"""
from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from report import adam, adam_init, plot, steps

import calque
import calque.numpy as jnp
from calque import lax, nn, random

BATCH = 64


def data(seed: int = 0) -> tuple[Any, ...]:
    """Images in [0, 1] and labels, four fifths for training."""
    from sklearn.datasets import load_digits
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    x, y = (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)
    cut = len(y) * 4 // 5
    return jnp.asarray(x[:cut]), jnp.asarray(y[:cut]), jnp.asarray(x[cut:]), jnp.asarray(y[cut:])


def init(key: Any, widths: tuple[int, ...]) -> Any:
    keys = random.split(key, len(widths) - 1)
    return [{"w": nn.initializers.he_normal()(k, (n, m)), "b": jnp.zeros(m)}
            for k, n, m in zip(keys, widths[:-1], widths[1:])]


def logits(params: Any, x: Any, key: Any = None, keep: float = 0.8) -> Any:
    *hidden, last = params
    for layer in hidden:
        x = nn.relu(x @ layer["w"] + layer["b"])
        if key is not None:
            key, sub = random.split(key)
            x = jnp.where(random.bernoulli(sub, keep, x.shape), x / keep, 0)
    return x @ last["w"] + last["b"]


def loss(params: Any, x: Any, y: Any, key: Any) -> Any:
    rows = nn.log_softmax(logits(params, x, key))
    return -jnp.mean(jnp.take_along_axis(rows, y[:, None], axis=1))


@calque.jit
def epoch(params: Any, state: Any, x: Any, y: Any, rate: Any, key: Any) -> Any:
    """All batches once, in a new order: (params, state, mean loss)."""
    shuffle, drop = random.split(key)
    count = len(y) // BATCH
    order = random.permutation(shuffle, len(y))[:count * BATCH].reshape(count, BATCH)

    def step(carry: Any, batch: Any) -> Any:
        params, state = carry
        rows, key = batch
        value, grads = calque.value_and_grad(loss)(params, x[rows], y[rows], key)
        return adam(params, grads, state, rate), value

    (params, state), values = lax.scan(step, (params, state), (order, random.split(drop, count)))
    return params, state, values.mean()


@calque.jit
def guesses(params: Any, x: Any) -> Any:
    return logits(params, x).argmax(1)


def run(epochs: int = 60, widths: tuple[int, ...] = (64, 256, 128, 10), seed: int = 0
        ) -> dict[str, Any]:
    start = time.perf_counter()
    x, y, test_x, test_y = data(seed)
    params = init(random.key(seed), widths)
    state = adam_init(params)
    losses, scores = [], []
    for i in steps(epochs, "epochs"):
        rate = 1e-3 * (0.5 + 0.5 * np.cos(np.pi * i / epochs))
        params, state, value = epoch(params, state, x, y, rate, random.key(100 + i))
        losses.append(value)
        scores.append(guesses(params, test_x))
    truth = np.asarray(test_y)
    accuracy = [float(np.mean(np.asarray(g) == truth)) for g in scores]
    return {"losses": np.array([float(v) for v in losses]), "accuracy": np.array(accuracy),
            "images": np.asarray(test_x), "truth": truth, "guess": np.asarray(scores[-1]),
            "seconds": time.perf_counter() - start}


def main(epochs: Annotated[int, typer.Option()] = 60,
         width: Annotated[int, typer.Option(help="of the first hidden layer")] = 256,
         seed: Annotated[int, typer.Option(help="of the split and of the network")] = 0,
         path: Annotated[Path | None, typer.Option("--plot", help="PNG")] = None) -> None:
    """Classify digits."""
    found = run(epochs, (64, width, width // 2, 10), seed)
    wrong = np.flatnonzero(found["truth"] != found["guess"])
    print(f"test accuracy {found['accuracy'][-1]:.2%} ({len(wrong)} of {len(found['truth'])} "
          f"wrong), {epochs} epochs in {found['seconds']:.1f} s")

    def draw(curve: Any, table: Any, bad: Any) -> None:
        curve.semilogy(found["losses"], label="training loss")
        curve.semilogy(1 - found["accuracy"] + 1e-4, label="test errors")
        curve.set(xlabel="epoch", ylabel="cross entropy (nats); share of errors", title="training")
        curve.legend()
        counts = np.zeros((10, 10), int)
        np.add.at(counts, (found["truth"], found["guess"]), 1)
        table.imshow(counts, cmap="Blues")
        for i, j in np.ndindex(10, 10):
            if counts[i, j]:
                table.text(j, i, counts[i, j], ha="center", va="center", fontsize=8,
                           color="w" if counts[i, j] > 20 else "k")
        table.set(xlabel="guess", ylabel="truth", xticks=range(10), yticks=range(10),
                  title=f"test, {found['accuracy'][-1]:.2%}")
        tiles = np.zeros((9 * max(1, -(-len(wrong[:12]) // 4)), 4 * 9))
        for n, k in enumerate(wrong[:12]):
            i, j = n // 4 * 9, n % 4 * 9
            tiles[i:i + 8, j:j + 8] = found["images"][k].reshape(8, 8)
            bad.text(j - 0.4, i + 8.4, f"{found['truth'][k]} as {found['guess'][k]}", color="C1",
                     fontsize=11, weight="bold")
        bad.imshow(tiles, cmap="gray")
        bad.set(title="wrong ones: what it is, as what it was read", xticks=[], yticks=[])
    plot(path, draw, 14, 4.2, 3)


if __name__ == "__main__":
    typer.run(main)
