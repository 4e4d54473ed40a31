"""Artifacts that are served; without the packages that serving takes, nothing is collected."""
from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque.numpy as jnp
from calque import aot, models, runtime

W = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
collect_ignore_glob = [] if all(map(importlib.util.find_spec, (
    "aiohttp", "prometheus_client"))) else ["test_*.py"]


@pytest.fixture(scope="session")
def artifact() -> runtime.Artifact:
    """Functions of several kinds in one file."""
    def scores(x: Any) -> Any:
        return jnp.tanh(x @ W)

    def scaled(x: Any, k: Any) -> Any:
        return {"product": x * k, "sum": x.sum(1)}

    def centred(x: Any) -> Any:
        return x - x.mean(0)

    def kinds(a: Any, b: Any, c: Any) -> Any:
        return ~a, b / 2, c * 2

    made = [aot.compile(scores, "f32[b,4]", name="scores", buckets=(1, 8)),
            aot.compile(scaled, "i32[b,n]", "i32", name="scaled"),
            aot.compile(centred, "f32[b,2]", name="centred"),
            aot.compile(kinds, "bool[2]", "f32[2]", "bf16[2]", name="kinds")]
    return runtime.load(aot.link(*made).vmfb)


@pytest.fixture(scope="session")
def model_file(tmp_path_factory) -> Path:
    """A language model of random weights."""
    config = models.LlamaConfig(vocabulary=32, width=16, layers=1, heads=2, kv_heads=1,
                                head_size=8, hidden=32, tied=True)
    draw = np.random.default_rng(3)
    weights = {n: draw.normal(0, 0.5, s).astype(np.float32) for n, s in config.shapes().items()}
    path = tmp_path_factory.mktemp("model") / "model.vmfb"
    models.Llama(config, weights, sequences=3, capacity=24, chunks=(4,)).compile(path)
    return path


@pytest.fixture(scope="session")
def model(model_file) -> runtime.Artifact:
    """The same, loaded."""
    return runtime.load(model_file)
