"""Llama-shaped models against NumPy's float64: files, caches, sampling, text, the command."""
from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calque_cli import app
from support import oracle_llama as oracle
from support.blocks import rounded
from typer.testing import CliRunner

import calque.numpy as jnp
from calque import aot, models, random
from calque.dtypes import bfloat16
from calque.models import ModelError

RAW: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 48, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "eos_token_id": 47,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}
PLAIN = {k: v for k, v in RAW.items() if k != "rope_scaling"} | {
    "num_hidden_layers": 1, "tie_word_embeddings": True, "vocab_size": 64}
PROMPT = [3, 1, 4, 1, 5, 9, 2]


def written(folder: Path, raw: dict[str, Any], weights: dict[str, np.ndarray]) -> Path:
    """The files of a model, as others write them."""
    save_file = pytest.importorskip("safetensors.numpy").save_file
    folder.mkdir(exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return oracle.random_weights(RAW)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, weights) -> Path:
    return written(tmp_path_factory.mktemp("model"), RAW, weights)


@pytest.fixture(scope="module")
def artifact(folder) -> Path:
    """Compiled, with its weights beside it."""
    found = models.load(folder)
    path = folder / "model.vmfb"
    models.Llama(found.config, found.weights, sequences=2, capacity=24, chunks=(4,)).compile(
        path, parameters=True)
    return path


def test_tokens_and_logits_are_those_of_the_oracle(artifact, weights):
    session = aot.load(artifact).session()
    got = list(models.generate(session, PROMPT, most=8, stop=()))
    assert got == oracle.greedy(RAW, weights, PROMPT, 8)
    wanted = oracle.logits(RAW, weights, PROMPT + got[:-1])[-1]
    np.testing.assert_allclose(session.read("logits")[0], wanted, rtol=1e-4, atol=1e-4)


def test_sequences_go_on_together_each_with_its_own_length(artifact, weights):
    session = aot.load(artifact).session()
    prompts = [PROMPT, [7, 8]]
    first = [int(session.prefill(np.array([*p[:4], *[0] * (4 - len(p[:4]))], np.int32),
                                 np.int32(len(p[:4])), np.int32(i)).numpy())
             for i, p in enumerate(prompts)]
    first[0] = int(session.prefill(np.array([*PROMPT[4:], 0], np.int32), np.int32(3),
                                   np.int32(0)).numpy())
    made = [first]
    for active in ([True, True], [True, True], [False, True], [True, True]):
        made.append(session.decode(np.array(active)).numpy().tolist())
    assert [row[0] for row in made if row[0] >= 0] == oracle.greedy(RAW, weights, prompts[0], 4)
    assert [row[1] for row in made] == oracle.greedy(RAW, weights, prompts[1], 5)
    assert made[3][0] == -1 and session.read("lengths").tolist() == [10, 6]


def test_caches_stay_where_they_are_and_begin_anew_when_cleared(artifact, weights):
    session = aot.load(artifact).session()

    def address() -> int:
        return session._leaves["cache[1]['v']"].numpy().ctypes.data

    first = address()
    before = list(models.generate(session, PROMPT, most=3))
    assert address() == first
    session.clear(np.int32(0))
    assert list(models.generate(session, PROMPT, most=3)) == before and address() == first


def test_a_full_cache_says_so(artifact):
    session = aot.load(artifact).session()
    tokens = models.generate(session, list(range(20)), stop=())
    made = [next(tokens) for _ in range(5)]  # 20 and 4 are in the cache
    with pytest.raises(models.CacheFull) as error:
        next(tokens)
    assert "no room for a token; it holds 24" in str(error.value) and "  Fix: " in str(error.value)
    with pytest.raises(models.CacheFull, match="no room for 25 tokens behind 0"):
        models.generate(session, [1] * 25, sequence=1)
    full = np.array([1, 2, 3, 4], np.int32), np.int32(2)
    state = session.read("logits"), session.read("last")
    for sequence in (0, 2, -1):
        assert session.prefill(*full, np.int32(sequence)).numpy() == -1
    assert session.prefill(full[0], np.int32(5), np.int32(1)).numpy() == -1
    for old, name in zip(state, ("logits", "last")):
        np.testing.assert_array_equal(session.read(name), old)
    assert len(made) == 5 and session.read("lengths").tolist() == [24, 0]


def test_weights_are_the_models_own_file(folder, artifact, weights):
    """The archive's names are the file's: it takes the archive's place, also with other values."""
    assert {*aot.parameters(artifact)} == {*weights}
    other = oracle.random_weights(RAW, seed=1)
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file(other, folder / "other.safetensors")
    session = aot.load(artifact, parameters=folder / "other.safetensors").session()
    assert list(models.generate(session, PROMPT, most=4, stop=())) == oracle.greedy(
        RAW, other, PROMPT, 4)


def test_the_same_model_in_python_alone(weights):
    model = models.Llama(models.LlamaConfig.from_json(RAW), weights, capacity=8, chunks=(2,))
    for i in (0, 2):
        token = model.prefill(jnp.array(PROMPT[i:i + 2]), jnp.int32(2), jnp.int32(0))
    assert [int(token)] == oracle.greedy(RAW, weights, PROMPT[:4], 1)


# ---- files
def gguf_file(path: Path, raw: dict[str, Any], weights: dict[str, np.ndarray], kind: str,
              words: bool = False) -> dict[str, np.ndarray]:
    """Write a GGUF file by the gguf package; the weights as a reader of it gets them."""
    gguf = pytest.importorskip("gguf")
    quants = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(raw["vocab_size"])
    writer.add_context_length(64)
    writer.add_embedding_length(raw["hidden_size"])
    writer.add_block_count(raw["num_hidden_layers"])
    writer.add_feed_forward_length(raw["intermediate_size"])
    writer.add_head_count(raw["num_attention_heads"])
    writer.add_head_count_kv(raw["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(raw["rms_norm_eps"])
    writer.add_rope_dimension_count(8)
    writer.add_eos_token_id(raw["eos_token_id"])
    if words:
        letters = [chr(97 + i % 26) * (1 + i // 26) for i in range(raw["vocab_size"])]
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(letters)
        writer.add_token_types([1] * len(letters))
        writer.add_token_merges([f"{c} {c}" for c in letters[:26]])
    if raw.get("rope_scaling"):
        plain = {k: v for k, v in raw.items() if k != "rope_scaling"}
        writer.add_tensor("rope_freqs.weight", (oracle.inverse_frequencies(
            plain) / oracle.inverse_frequencies(raw)).astype(np.float32))
    seen = {}
    permuted = oracle.gguf_arrays(raw, weights)
    for name, value in permuted.items():
        if value.ndim == 2 and kind != "F32":
            data = gguf.quants.quantize(value, quants)
            writer.add_tensor(name, data, raw_dtype=quants)
            seen[name] = gguf.quants.dequantize(data, quants)
        else:
            writer.add_tensor(name, value)
            seen[name] = value
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    # the oracle's own: rows of q and k back as they were
    made = {}
    for name, value in weights.items():
        there = next(k for k in permuted if k in oracle.gguf_arrays(raw, {name: value}))
        value = seen[there]
        if "q_proj" in name or "k_proj" in name:
            heads = raw["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
            value = value.reshape(heads, -1, 2, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        made[name] = value
    return made


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
def test_gguf_files(tmp_path, kind):
    raw = {**RAW, "num_hidden_layers": 1} if kind == "F32" else PLAIN  # with Llama 3's factors,
    own = oracle.random_weights(raw)  # untied; without, tied
    stored = gguf_file(tmp_path / "m.gguf", raw, own, kind)
    found = models.load(tmp_path / "m.gguf", activations="float32")
    assert found.config.tied == (kind != "F32") and found.config.stop == (47,)
    q = found.weights["blk.0.attn_q.weight"]
    assert q.dtype == {"F16": np.float16, "BF16": bfloat16}.get(kind, np.float32)
    model = models.Llama(found.config, found.weights, capacity=16, chunks=(8,))
    token = int(model.prefill(jnp.array([*PROMPT, 0]), jnp.int32(7), jnp.int32(0)))
    np.testing.assert_allclose(model.logits[0], oracle.logits(raw, stored, PROMPT)[-1],
                               rtol=1e-3, atol=1e-3)
    assert token == oracle.greedy(raw, stored, PROMPT, 1)[0]
    if found.weights["blk.0.attn_q.weight"].dtype != np.float32 or kind == "F32":
        return
    found = models.load(tmp_path / "m.gguf")  # rounds what few rows are
    model = models.Llama(found.config, found.weights, capacity=16, chunks=(8,))
    model.prefill(jnp.array([*PROMPT, 0]), jnp.int32(7), jnp.int32(0))
    # (float32 may round what lies between two integers to the other one: a step of 1/127)
    np.testing.assert_allclose(model.logits[0], oracle.logits(raw, stored, PROMPT, rounded)[-1],
                               rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize("kind", [pytest.param("F32", marks=pytest.mark.slow), "Q4_0"])
def test_a_gguf_file_takes_the_archives_place(tmp_path, kind):
    raw = {**RAW, "num_hidden_layers": 1}
    stored = gguf_file(tmp_path / "m.gguf", raw, oracle.random_weights(raw), kind)
    found = models.load(tmp_path / "m.gguf")
    compiled = models.Llama(found.config, found.weights, capacity=16, chunks=(8,)).compile(
        parameters=True)
    for archive in (None, tmp_path / "m.gguf"):  # the file itself, in the archive's place
        session = aot.load(compiled, parameters=archive).session()
        assert list(models.generate(session, PROMPT, most=4, stop=())) == oracle.greedy(
            raw, stored, PROMPT, 4)


def test_weights_in_several_files_and_of_another_dtype(tmp_path, weights):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    names = sorted(weights)
    index = {}
    for i, part in enumerate((names[:9], names[9:])):
        save_file({n: weights[n] for n in part}, tmp_path / f"part{i}.safetensors")
        index |= dict.fromkeys(part, f"part{i}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (tmp_path / "config.json").write_text(json.dumps(RAW))
    found = models.load(tmp_path, dtype="bfloat16")
    assert {*found.weights} == {*weights} and found.weights[
        "lm_head.weight"].dtype == bfloat16
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../x"}}')
    with pytest.raises(ModelError, match="no weight_map of names"):
        models.load(tmp_path)


@pytest.mark.parametrize("change, words", [
    ({"num_hidden_layers": 3}, "wants an array model.layers.2.input_layernorm.weight"),
    ({"num_hidden_layers": 1}, "an array model.layers.1.input_layernorm.weight that a model"),
    ({"hidden_size": 64}, "has the shape (48, 32), the configuration wants (48, 64)"),
    ({"num_key_value_heads": 3}, "4 heads cannot share 3"),
    ({"model_type": "gpt2"}, "is a 'gpt2', which is none"),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "of the type 'yarn'"),
    ({"attention_bias": True}, "attention_bias is True"),
    ({"vocab_size": -1}, "vocabulary is -1"),
    ({"hidden_size": "x"}, "a setting is of a wrong kind"),
    ({"rms_norm_eps": None}, "a setting is of a wrong kind"), ({"head_dim": 7}, "head_size is 7"),
])
def test_a_configuration_that_disagrees_is_refused(tmp_path, weights, change, words):
    with pytest.raises(ModelError) as error:
        models.load(written(tmp_path, RAW | change, weights))
    text = str(error.value)
    assert words in text and "\n  In " in text and "\n  Fix: " in text, text


def test_damaged_gguf_files_are_refused(tmp_path):
    gguf_file(tmp_path / "m.gguf", PLAIN, oracle.random_weights(PLAIN), "Q8_0")
    whole = (tmp_path / "m.gguf").read_bytes()
    draw = np.random.default_rng(0)
    refused = 0
    for i in range(60):
        data = bytearray(whole[:draw.integers(len(whole))] if i % 3 == 0 else whole)
        for _ in range(3):
            data[draw.integers(min(len(data), 1500))] = draw.integers(256)
        (tmp_path / "d.gguf").write_bytes(data)
        try:
            models.load(tmp_path / "d.gguf")
        except (ModelError, aot.artifacts.ArtifactError) as error:
            assert "\n  Fix: " in str(error)
            refused += 1
    assert refused > 40


# ---- sampling
def test_tokens_are_drawn_from_what_is_left(weights):
    logits = np.random.default_rng(3).normal(size=12).astype(np.float32) * 2
    n = 3000
    keys = random.split(random.PRNGKey(1), n)
    for temperature, top_k, top_p in [(1.0, 0, 1.0), (0.7, 5, 1.0), (1.3, 0, 0.6), (1.0, 6, 0.5),
                                      (1.0, 1, 1.0), (1.0, 0, 1e-6), (0.0, 3, 0.9)]:
        got = models.sample(jnp.broadcast_to(jnp.array(logits), (n, 12)), keys,
                            jnp.full(n, temperature), jnp.full(n, top_k), jnp.full(n, top_p))
        z = logits.astype(float) / (temperature or 1)
        order = np.argsort(-z)
        order = order[:top_k or 12] if temperature else order[:1]
        p = np.exp(z[order] - z.max())
        p /= p.sum()
        left = order[:np.searchsorted(np.cumsum(p), top_p * (1 - 1e-9)) + 1]
        p = p[:len(left)] / p[:len(left)].sum()
        counts = Counter(np.asarray(got).tolist())
        assert {*counts} <= {*left.tolist()}
        seen = np.array([counts[t] / n for t in left.tolist()])
        np.testing.assert_allclose(seen, p, atol=5 * np.sqrt(0.25 / n))


def test_sampling_wants_a_value_for_each_row():
    with pytest.raises(ModelError) as error:
        models.sample(jnp.zeros((2, 4)), random.split(random.PRNGKey(0), 2), jnp.ones(1),
                      jnp.zeros(2, int), jnp.ones(2))
    assert "temperature has the shape (1,), and there are 2 rows" in str(error.value)


def test_what_is_drawn_depends_on_the_seed_alone(artifact):
    def drawn(**how: Any) -> list[int]:
        session = aot.load(artifact).session()
        return list(models.generate(session, PROMPT, most=8, temperature=1.0, stop=(), **how))

    assert drawn(seed=1) == drawn(seed=1) == drawn(seed=1, sequence=1) != drawn(seed=2)
    assert drawn(seed=5, top_k=1) == drawn(seed=6, top_p=1e-6)


@pytest.mark.parametrize("given, words", [
    ({"prompt": []}, "has no tokens"), ({"prompt": [48]}, "has the token 48"),
    ({"sequence": 2}, "no sequence 2"), ({"top_p": 0}, "out of range"),
    ({"temperature": float("nan")}, "out of range"), ({"top_k": -1}, "out of range")])
def test_a_prompt_or_setting_that_is_none_is_refused(artifact, given, words):
    session = aot.load(artifact).session()
    with pytest.raises(ModelError) as error:
        models.generate(session, **({"prompt": PROMPT} | given))
    assert words in str(error.value) and "\n  Fix: " in str(error.value)


# ---- text
def test_a_tokenizer_of_gguf_is_the_one_it_was_made_of(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    raw = PLAIN
    gguf_file(tmp_path / "m.gguf", raw, oracle.random_weights(raw), "F32", words=True)
    words = models.tokenizer(models.load(tmp_path / "m.gguf"))
    assert words.encode("aab").ids == [26, 1] and words.decode([26, 1]) == "aab"
    with pytest.raises(ModelError, match="there is no .*tokenizer.json"):
        models.tokenizer(tmp_path)
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    made.save(str(tmp_path / "tokenizer.json"))
    assert models.tokenizer(tmp_path).encode("a").ids == [0]


def test_pieces_of_sentencepiece():
    pytest.importorskip("tokenizers")
    pieces = ["<unk>", *[f"<0x{i:02X}>" for i in range(256)], "\u2581", "a", "b", "c", "ab", "bc",
              "\u2581ab"]
    scores = [0.0] * 261 + [-1.0, -2.0, -3.0]
    settings = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces,
                "tokenizer.ggml.scores": scores,
                "tokenizer.ggml.token_type": [2, *[6] * 256, *[1] * 7],
                "tokenizer.ggml.unknown_token_id": 0}
    config = models.LlamaConfig.from_json(RAW)
    words = models.tokenizer(models.Loaded(config, {}, Path("m.gguf"), settings))
    at = pieces.index
    assert words.encode("abc").ids == [at("\u2581ab"), at("c")]  # "ab" before "bc"
    assert words.encode("bcz").ids == [at("\u2581"), at("bc"), at("<0x7A>")]
    assert words.decode(words.encode("ab \u00e9b").ids) == "ab \u00e9b"


# ---- the command
def test_the_command_generates(folder, artifact, weights, tmp_path):
    def said(*words: object) -> str:
        done = CliRunner().invoke(app, ["generate", *map(str, words)])
        return f"{done.exit_code} {done.output}"

    tokens = ",".join(map(str, PROMPT))
    wanted = " ".join(map(str, oracle.greedy(RAW, weights, PROMPT, 4)))
    assert said(artifact, "--tokens", tokens, "--most", 4) == f"0 {wanted}\n"
    quantised = said(folder, "--tokens", tokens, "--most", 2, "--quantize", "q8_0")
    assert quantised.startswith("0 ") and len(quantised.split()) == 3
    assert "is compiled already" in said(artifact, "--tokens", tokens, "--quantize", "q8_0")
    assert "q5: it is none of q8_0" in said(folder, "--tokens", tokens, "--quantize", "q5")
    assert said(artifact) == ("2 calque: a prompt is wanted, as text or as tokens.\n"
                              "  Fix: give --prompt TEXT, or --tokens 1,15043.\n")
    assert "are no numbers" in said(artifact, "--tokens", "a")
    assert "there is no" in said(artifact, "--prompt", "a")
    assert "1 calque: the cache is full" in said(artifact, "--tokens", ",".join(["1"] * 25))
