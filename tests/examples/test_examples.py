"""The examples run at small size, and what they compute is right.

Values come from closed forms, from known moments, from jax 0.10.2 (recorded) or from the tutorials.
"""
from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(name)


def command(name: str, *words: str) -> str:
    """What an example prints when it is run with these words."""
    app = Typer()
    app.command()(sys.modules[name].main)
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def plotted(name: str, path: Path, *words: str) -> str:
    """The same with a plot, where matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return command(name, *words)
    output = command(name, *words, "--plot", str(path))
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000
    return output


def test_regressions_reach_their_minima(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = example("regression", monkeypatch).run(rows=200, n=1000)
    # float32 sums of 200 terms; lasso's descent keeps jumping over the kinks by rate * strength
    assert found["linear"][2] < 1e-4 and found["ridge"][2] < 1e-4 and found["lasso"][2] < 0.02
    out = plotted("regression", tmp_path / "plot.png", "--rows", "200", "--steps", "1000")
    assert "lasso" in out


def test_network_has_the_tutorials_losses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = example("mlp", monkeypatch).run()
    # the tutorial prints five decimals, from another machine: one unit of the last
    assert found["losses"][0] == pytest.approx(5.64001, abs=2e-5)
    assert found["losses"][-1] == pytest.approx(0.01788, abs=1e-5)
    assert found["shapes"] == [{"W": (1, 128), "b": (128,)}, {"W": (128, 128), "b": (128,)},
                               {"W": (128, 1), "b": (1,)}]
    assert "loss before 5.64" in plotted("mlp", tmp_path / "plot.png", "--steps", "100")


def test_network_learns_the_parabola(monkeypatch: pytest.MonkeyPatch) -> None:
    found = example("mlp", monkeypatch).run(n=5000, rate=1e-2)  # main's
    assert np.abs(found["fit"] - found["x"] ** 2).max() < 0.05


def test_option_price_of_a_loop_is_jaxs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps as a loop, as the plot has them: written out they are long to compile."""
    import calque
    module = example("option_price", monkeypatch)
    for seed in (1, 2, 3):
        with calque.enable_x64(True):
            last = np.asarray(module.histories(calque.random.PRNGKey(seed), paths=20_000))[-1]
        price = module.BETA ** module.STEPS * np.maximum(last - module.STRIKE, 0).mean()
        assert price == pytest.approx(module.RECORDED[seed, 20_000], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("paths", [20_000, 1_000_000, 10_000_000])
def test_option_price_is_jaxs(paths: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("option_price", monkeypatch)
    assert module.run(paths, seed)[0] == pytest.approx(module.RECORDED[seed, paths], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 20])
def test_option_price_prints(n: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import calque
    calque.clear_caches()  # what was traced has another number of steps in it
    monkeypatch.setattr(example("option_price", monkeypatch), "STEPS", n)
    out = plotted("option_price", tmp_path / "plot.png", "--paths", "20000", "--seed", "2",
                  "--volatility", "1")
    assert "relative difference" in out and "standard error" in out
    calque.clear_caches()


def test_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the data are scikit-learn's (pip install "
                                          "'calque[examples]')")
    found = example("digits", monkeypatch).run(epochs=16)
    assert found["accuracy"][-1] >= 0.97 and found["seconds"] < 60
    assert found["losses"][-1] < found["losses"][0] / 10
    assert "test accuracy" in plotted("digits", tmp_path / "plot.png", "--epochs", "2")


@pytest.mark.slow
def test_transformer_learns_more_than_frequencies(monkeypatch: pytest.MonkeyPatch,
                                                  tmp_path: Path) -> None:
    module = example("transformer", monkeypatch)
    found = module.run(n=100, width=32, layers=1, window=32, batch=8)
    codes, alphabet = module.text(200_000)
    share = found["letters"][found["letters"] > 0]
    assert found["losses"][0] == pytest.approx(math.log(len(alphabet)), rel=0.25)
    assert found["losses"][-20:].mean() < -np.sum(share * np.log(share))
    assert found["text"].startswith("The ") and len(found["text"]) == 204
    assert "nats" not in plotted("transformer", tmp_path / "plot.png", "--steps", "25", "--width",
                                 "32", "--layers", "1", "--window", "32", "--batch", "8")


def test_transformer_is_causal(monkeypatch: pytest.MonkeyPatch) -> None:
    import calque
    module = example("transformer", monkeypatch)
    params = module.init(calque.random.key(0), 10, 32, 1, 32)
    codes = np.arange(32, dtype=np.int32) % 10
    other = codes.copy()
    other[20:] = 3
    logits = calque.jit(calque.vmap(lambda c: module.logits(params, c, 4)))
    scores = logits(np.stack([codes, other]))
    np.testing.assert_array_equal(np.asarray(scores[0, :20]), np.asarray(scores[1, :20]))
    assert np.abs(np.asarray(scores[0, 20:] - scores[1, 20:])).max() > 1e-3


@pytest.mark.slow
def test_neural_ode_follows_unseen_trajectories(monkeypatch: pytest.MonkeyPatch,
                                                tmp_path: Path) -> None:
    found = example("neural_ode", monkeypatch).run(n=200, width=16)
    assert found["losses"][-10:].mean() < found["losses"][0] / 50
    # the angle moves by 3 in that time
    assert np.abs(found["truth"] - found["learned"])[:, :40].max() < 0.4
    # the energy of the true pendulum falls: an oracle for the solver
    angle, speed = np.moveaxis(found["truth"].astype(float), -1, 0)
    assert (np.diff(speed ** 2 / 2 - np.cos(angle), axis=1) < 1e-6).all()
    assert "unseen" in plotted("neural_ode", tmp_path / "plot.png", "--steps", "25", "--width",
                               "16")


@pytest.mark.slow
def test_hmc_has_the_moments_of_the_density(monkeypatch: pytest.MonkeyPatch,
                                            tmp_path: Path) -> None:
    module = example("hmc", monkeypatch)
    found = module.run(chains=64, draws=300)
    # standard errors with 19,200 draws, some correlated: 0.02 for E x, 0.06 for var y
    for name, wide in (("E x", 0.06), ("var x", 0.09), ("E y", 0.06), ("var y", 0.2)):
        assert found["moments"][name] == pytest.approx(module.EXACT[name], abs=wide), name
    assert found["accepted"] > 0.8 and (found["rhat"] < 1.03).all()
    out = plotted("hmc", tmp_path / "plot.png", "--chains", "64", "--draws", "100")
    assert "R-hat" in out
