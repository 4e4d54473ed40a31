"""Random Llama-shaped models from one GGUF file, calque beside llama.cpp (llama-cpp-python).

    python benchmarks/llama_cpp.py --peer PYTHON [--write]

PYTHON has llama-cpp-python, which builds from source.  Both read the same file, in processes of
their own and in turn, with as many threads: a prompt of 512 tokens, then 100 tokens one after
another, the most likely each; the best of `--rounds`.  Checked: the logits behind the prompt.
--write puts the table into docs/models.md.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

PROMPT, MORE, VOCABULARY = 512, 100, 32_000
KINDS = ("F32", "BF16", "Q8_0", "Q4_0")
PEER = """
import sys, time, json
import numpy as np
import llama_cpp
path, prompt, more, rounds = sys.argv[1], *map(int, sys.argv[2:5])
model = llama_cpp.Llama(path, n_ctx=prompt + more + 92, n_batch=prompt, n_threads=%d,
                        n_threads_batch=%d, verbose=False)
count = %d
tokens = np.random.default_rng(1).integers(3, count, prompt).tolist()


def logits():
    return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model.ctx, -1), shape=(count,))


reads, steps = [], []
for _ in range(rounds):
    model.reset()
    begin = time.perf_counter()
    model.eval(tokens)
    first = logits().copy()
    reads.append(time.perf_counter() - begin)
    token = int(first.argmax())
    begin = time.perf_counter()
    for _ in range(more):
        model.eval([token])
        token = int(logits().argmax())
    steps.append((time.perf_counter() - begin) / more)
np.save(sys.argv[5], first)
print(json.dumps([min(reads), min(steps)]))
"""


def write(path: Path, kind: str, width: int, layers: int) -> None:
    """A file of random weights; tied embeddings."""
    import gguf
    quants = gguf.GGMLQuantizationType[kind]
    heads, hidden = width // 64, width * 8 // 3 // 256 * 256
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(VOCABULARY)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(64)
    writer.add_eos_token_id(2)
    writer.add_bos_token_id(1)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([f"<{i}>" for i in range(VOCABULARY)])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([3 if i < 3 else 1 for i in range(VOCABULARY)])
    draw = np.random.default_rng(0)

    def matrix(name: str, rows: int, columns: int) -> None:
        x = draw.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(columns))
        if kind == "F32":
            writer.add_tensor(name, x)
        else:
            writer.add_tensor(name, gguf.quants.quantize(x, quants), raw_dtype=quants)

    matrix("token_embd.weight", VOCABULARY, width)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for i in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", np.ones(width, np.float32))
        for name, rows, columns in (
                ("attn_q", width, width), ("attn_k", width // 2, width),
                ("attn_v", width // 2, width), ("attn_output", width, width),
                ("ffn_gate", hidden, width), ("ffn_up", hidden, width),
                ("ffn_down", width, hidden)):
            matrix(f"blk.{i}.{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def calque(path: Path, rounds: int) -> tuple[list[float], Any]:
    """Seconds of the prompt and of a token, and the logits behind the prompt."""
    from calque import aot, models
    found = models.load(path)
    session = aot.load(models.Llama(found.config, found.weights, capacity=PROMPT + MORE + 92,
                                    chunks=(PROMPT,)).compile()).session()
    tokens = np.random.default_rng(1).integers(3, VOCABULARY, PROMPT).tolist()
    reads, steps, first = [], [], None
    for _ in range(rounds):
        session.clear(np.int32(0))
        begin = time.perf_counter()
        made = models.generate(session, tokens, most=MORE + 1, stop=())
        next(made)
        reads.append(time.perf_counter() - begin)
        first = session.read("logits")[0] if not steps else first
        begin = time.perf_counter()
        steps.append(sum(1 for _ in made) / (time.perf_counter() - begin))
    return [min(reads), 1 / max(steps)], first


def peer(python: str, path: Path, rounds: int) -> tuple[list[float], Any]:
    """The same of llama.cpp."""
    count = len(os.sched_getaffinity(0))
    logits = path.with_suffix(".npy")
    done = subprocess.run([python, "-c", PEER % (count, count, VOCABULARY), path, str(PROMPT),
                           str(MORE), str(rounds), logits], text=True, check=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout), np.load(logits)


def row(kind: str, size: int, ours: list[float], theirs: list[float]) -> str:
    return (f"| {kind} | {size / 1e6:.0f} MB | {ours[0]:.2f} s | {theirs[0]:.2f} s | "
            f"{ours[0] / theirs[0]:.2f} | {1 / ours[1]:.1f} | {1 / theirs[1]:.1f} | "
            f"{theirs[1] / ours[1]:.2f} |")


def main(peer_python: Annotated[str, typer.Option("--peer")], width: int = 768, layers: int = 12,
         kinds: str = ",".join(KINDS), rounds: int = 3,
         write_table: Annotated[bool, typer.Option("--write")] = False, one: str = "") -> None:
    if one:  # calque's part, in a process of its own
        took, logits = calque(Path(one), rounds)
        np.save(Path(one).with_suffix(".own.npy"), logits)
        print(json.dumps(took))
        return
    lines = ["| weights | size | prompt of 512 | llama.cpp's | calque / llama.cpp | tokens a "
             "second | llama.cpp's | calque / llama.cpp |", "|---|---|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds.split(","):
            path = Path(folder) / f"{kind}.gguf"
            write(path, kind, width, layers)
            ours, theirs = [], []
            for _ in range(2):
                done = subprocess.run(
                    [sys.executable, __file__, "--peer", peer_python, "--rounds", str(rounds),
                     "--one", path], text=True, check=True, stdout=subprocess.PIPE)
                ours.append(json.loads(done.stdout))
                took, logits = peer(peer_python, path, rounds)
                theirs.append(took)
            own = np.load(path.with_suffix(".own.npy"))
            away = np.abs(own - logits).max() / np.abs(logits).max()
            lines.append(row(kind, path.stat().st_size, *[
                [min(c) for c in zip(*x, strict=True)] for x in (ours, theirs)]))
            print(lines[-1], f"logits differ by {away:.1e} of the largest", flush=True)
            path.unlink()
    if write_table:
        from suite import put
        put("models.md", "llama.cpp", lines)


if __name__ == "__main__":
    typer.run(main)
