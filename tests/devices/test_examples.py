"""The examples for many devices, at small size: what one device computes is the oracle."""
from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

from calque.sharding import PartitionSpec as P

ROOT = Path(__file__).parents[2]


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return importlib.import_module(name)


def printed(module: Any, *words: str) -> str:
    app = Typer()
    app.command()(module.main)
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_data_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    found = example("data_parallel", monkeypatch).run(rows=64, width=8, n=50)
    alone = found["curves"]["one device"]
    assert alone[-1] < 0.8 * alone[0]
    for name in ("jit", "shard_map"):
        np.testing.assert_allclose(found["curves"][name], alone, rtol=1e-4)
        assert found[name][0]["W"].sharding.spec == P()
    assert found["parts"] == [(8, 2)] * 8


@pytest.mark.slow
def test_tensor_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("tensor_parallel", monkeypatch)
    found = module.run(width=32, heads=4, window=8, batch=4)
    for name in ("jit", "shard_map"):
        assert module.difference(found["one device"], found[name]) < 1e-5
        out, grads = found[name]
        assert out.sharding.is_equivalent_to(out.sharding.update(spec=module.BATCH), 3)
        for weight, spec in module.SPECS.items():
            assert grads[weight].sharding.is_equivalent_to(
                out.sharding.update(spec=spec), grads[weight].ndim), weight
    assert found["local"]["up"] == (32, 64)


@pytest.mark.slow
def test_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("chains", monkeypatch)
    found = module.run(chains=8, draws=500)
    assert found["sharding"].num_devices == 8
    assert len(set(found["sizes"].tolist())) == 1  # all devices agree
    assert found["rhat"].max() < 1.05 and 0.7 < found["accepted"].mean() < 0.9
    for name, exact in module.hmc.EXACT.items():
        assert found["moments"][name] == pytest.approx(exact, abs=0.2)
    assert "8 devices x 2 chains" in printed(module, "--chains", "2", "--draws", "100")


def test_table_of_collectives_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "scripts"))
    import collectives
    text = collectives.PAGE.read_text("utf-8")
    assert collectives.replaced(text) == text, "run python docs/scripts/collectives.py"
