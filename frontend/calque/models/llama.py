"""A Llama-shaped model as a module: prefill and decode with caches of fixed capacity.

Norms, rotary positions, grouped heads and SwiGLU as the papers have them (Touvron et al., 2023; Su
et al., 2021; Ainslie et al., 2023; Shazeer, 2020).  Products read weights as they lie, (outputs,
inputs), so that an archive is the model's own file.  Everything between is float32.

Start reading at `Llama`.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque import aot, lax, nn, random
from calque.api.batching import vmap
from calque.core.errors import explain
from calque.lowering.target.targets import Target
from calque.models.config import LlamaConfig
from calque.models.sampling import sample
from calque.models.settings import ModelError, WeightsModule
from calque.nn.quantized import QuantizedArray


class Llama(WeightsModule):
    """A Llama-shaped model for several sequences, each of its own length.

    State, by name: `cache[layer]['k']` and `['v']`, `lengths` (tokens in the caches), `last` (the
    token that is decoded next), `logits` (of the position before it), `temperature`, `top_k`,
    `top_p` and `seed` (how each sequence is sampled); `capacity` and `stop` are there to be read.

    Args:
      config: its sizes.
      weights: name -> array or QuantizedArray, as in the model's files (`models.load`).
      sequences: how many there are.
      capacity: tokens that each may have, prompt included.
      chunks: numbers of tokens for which there are programs of prefill; longer prompts are given
        in several pieces.

    Raises:
      ModelError: weights and configuration disagree, or a number is not positive.

    Example:
      >>> import numpy as np
      >>> from calque import aot, models
      >>> config = models.LlamaConfig(vocabulary=32, width=16, layers=1, heads=2, kv_heads=1,
      ...                             head_size=8, hidden=32, tied=True)
      >>> rng = np.random.default_rng(0)
      >>> weights = {n: rng.normal(0, 0.3, s).astype(np.float32)
      ...            for n, s in config.shapes().items()}
      >>> model = models.Llama(config, weights, sequences=2, capacity=16, chunks=(4,))
      >>> session = aot.load(model.compile()).session()
      >>> tokens = list(models.generate(session, [1, 2, 3, 4, 5], most=4))
      >>> len(tokens), session.read("lengths").tolist()
      (4, [8, 0])
    """

    def __init__(self, config: LlamaConfig, weights: Mapping[str, Any], sequences: int = 1,
                 capacity: int = 512, chunks: Sequence[int] = (16, 128)) -> None:
        config.check({n: tuple(w.shape) for n, w in weights.items()}, "the weights given to Llama")
        chunks = sorted({*chunks})
        for what, value in (("sequences", sequences), ("capacity", capacity),
                            ("chunks", chunks[0] if chunks else 0)):
            if value < 1:
                raise ModelError(explain(f"{what} is {value}.", "models.Llama",
                                         "give a number of 1 or more."))
        self.config, self.sequences, self.chunks = config, sequences, tuple(chunks)
        self.limit = capacity
        factors = weights.get(config.name("rope_factors")) if config.gguf else None
        self.angles = tuple(config.frequencies(factors).tolist())
        self.weights = {n: w for n, w in weights.items() if not n.endswith(config.ignored)
                        and n != config.name("rope_factors")
                        and not (config.tied and n == config.name("head"))}
        # room for a whole chunk behind the last token: dynamic_update_slice would move its start
        shape = (sequences, config.kv_heads, capacity + chunks[-1], config.head_size)
        self.cache = [{"k": jnp.zeros(shape), "v": jnp.zeros(shape)} for _ in range(config.layers)]
        self.lengths = jnp.zeros(sequences, jnp.int32)
        self.last = jnp.zeros(sequences, jnp.int32)
        self.logits = jnp.zeros((sequences, config.vocabulary))
        self.temperature = jnp.zeros(sequences)
        self.top_k = jnp.zeros(sequences, jnp.int32)
        self.top_p = jnp.ones(sequences)
        self.seed = jnp.zeros(sequences, jnp.int32)
        self.capacity = np.array(capacity, np.int32)
        self.stop = np.array(config.stop, np.int32)

    def compile(self, path: str | Path | None = None, *,
                arguments: Mapping[str, Any] | None = None,
                targets: str | Target | Sequence[str | Target] = ("cpu",),
                parameters: bool | None = None, constraints: Sequence[str] = ()) -> aot.Artifact:
        """Compile `prefill` (for each number of chunks), `decode` and `clear`; as Module.compile.

        Args:
          path: where to save it.
          arguments: other types of arguments than those that follow from the sizes.
          targets: what to compile for.
          parameters: whether weights go to an archive beside the file, under the names that they
            have in the model's own file; None: where they are 1 MiB and more.
          constraints: of sizes, where arguments have names for them.

        Returns:
          The Artifact.
        """
        own = {"prefill": [(f"i32[{n}]", "i32", "i32") for n in self.chunks],
               "decode": (f"bool[{self.sequences}]",), "clear": ("i32",)}
        return super().compile(path, arguments={**own, **(arguments or {})}, targets=targets,
                               parameters=parameters, constraints=constraints)

    # ---- entry points
    @aot.export()
    def prefill(self, tokens: Any, count: Any, sequence: Any) -> Any:
        """Put tokens behind those of a sequence.

        Args:
          tokens: int32[n]; the first `count` are taken.
          count: int32[], 1 to n.
          sequence: int32[], its number.

        Returns:
          int32[], the token that comes next; -1 where the cache has not so much room, or a number
          is out of range, and nothing has changed.
        """
        start = lax.dynamic_index_in_dim(self.lengths, sequence, keepdims=False)
        fits = (sequence >= 0) & (sequence < self.sequences) & (count >= 1) & (
            count <= tokens.shape[0]) & (start + count <= self.limit)
        positions = start + jnp.arange(tokens.shape[0], dtype=jnp.int32)
        turn, seen = self._turn(positions), self._seen(positions)
        x = self._embed(tokens)
        for layer in range(self.config.layers):
            q, k, v = self._projected(x, layer, turn)  # (n, heads, head)
            cache = self.cache[layer]
            for name, value in (("k", k), ("v", v)):
                cache = {**cache, name: lax.dynamic_update_slice(
                    cache[name], value.transpose(1, 0, 2)[None], (sequence, 0, start, 0))}
            self.cache = [*self.cache[:layer], cache, *self.cache[layer + 1:]]
            k, v = (lax.dynamic_index_in_dim(cache[n], sequence, keepdims=False) for n in "kv")
            x = self._behind(x, self._attend(q.swapaxes(0, 1), k, v, seen), layer)
        x = lax.dynamic_slice_in_dim(x, count - 1, 1)
        logits = self._logits(x)
        old = lax.dynamic_slice_in_dim(self.logits, sequence, 1)
        self.logits = lax.dynamic_update_slice_in_dim(
            self.logits, jnp.where(fits, logits, old), sequence, 0)
        length = jnp.where(fits, start + count, start)
        row = [lax.dynamic_slice_in_dim(s, sequence, 1) for s in (
            self.temperature, self.top_k, self.top_p, self.seed)]
        token = sample(logits, self._keys(row[3], length[None]), *row[:3])
        before = lax.dynamic_slice_in_dim(self.last, sequence, 1)
        self.last = lax.dynamic_update_slice_in_dim(
            self.last, jnp.where(fits, token, before), sequence, 0)
        self.lengths = lax.dynamic_update_slice_in_dim(
            self.lengths, length[None], sequence, 0)
        return jnp.where(fits, token[0], -1)

    @aot.export()
    def decode(self, active: Any) -> Any:
        """One more token for each sequence: the last one is put into the caches, the next chosen.

        Args:
          active: bool[sequences], which to go on with.

        Returns:
          int32[sequences], the tokens; -1 for those that are not active, or whose cache is full,
          and which have not changed.
        """
        goes = active & (self.lengths < self.limit) & (self.lengths > 0)
        positions = self.lengths
        turn = self._turn(positions)
        x = self._embed(self.last)
        for layer in range(self.config.layers):
            q, k, v = self._projected(x, layer, turn)
            cache = self.cache[layer]
            for name, value in (("k", k), ("v", v)):
                held = cache[name]
                for i in range(self.sequences):
                    held = lax.dynamic_update_slice(held, value[i][None, :, None, :],
                                                    (i, 0, positions[i], 0))
                cache = {**cache, name: held}
            self.cache = [*self.cache[:layer], cache, *self.cache[layer + 1:]]
            mixed = nn.dot_product_attention(  # (of keys as they lie, as far as there are some)
                q[:, None], cache["k"].swapaxes(1, 2), cache["v"].swapaxes(1, 2),
                key_value_seq_lengths=positions + 1)
            x = self._behind(x, mixed.reshape(self.sequences, -1), layer)
        logits = self._logits(x)
        self.logits = jnp.where(goes[:, None], logits, self.logits)
        self.lengths = jnp.where(goes, positions + 1, positions)
        tokens = sample(logits, self._keys(self.seed, self.lengths), self.temperature, self.top_k,
                        self.top_p)
        self.last = jnp.where(goes, tokens, self.last)
        return jnp.where(goes, tokens, -1)

    @aot.export()
    def clear(self, sequence: Any) -> None:
        """Forget the tokens of a sequence.

        Args:
          sequence: int32[], its number.
        """
        here = jnp.arange(self.sequences, dtype=jnp.int32) == sequence
        self.lengths = jnp.where(here, 0, self.lengths)

    # ---- its parts
    def _weight(self, role: str, layer: int | None = None) -> Any:
        return self.weights[self.config.name(role, layer)]

    def _product(self, x: Any, role: str, layer: int | None = None) -> Any:
        """x (n, inputs) times a matrix as it lies, (outputs, inputs)."""
        matrix = self._weight(role, layer)
        if isinstance(matrix, QuantizedArray):
            return x @ matrix.T
        w = lax.convert_element_type(matrix, jnp.float32)
        return lax.dot_general(x, w, (((1,), (1,)), ((), ())))

    def _norm(self, x: Any, role: str, layer: int | None = None) -> Any:
        scale = lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + self.config.epsilon)
        return x * scale * lax.convert_element_type(self._weight(role, layer), jnp.float32)

    def _embed(self, tokens: Any) -> Any:
        matrix = self._weight("embedding")
        if isinstance(matrix, QuantizedArray):
            return matrix.rows(tokens)
        rows = lax.gather(  # (jnp.take would capture a copy of the array)
            matrix, tokens[:, None], lax.GatherDimensionNumbers(
                offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)),
            slice_sizes=(1, self.config.width), mode="clip")
        return rows.astype(jnp.float32)

    def _logits(self, x: Any) -> Any:
        return self._product(self._norm(x, "norm"), "embedding" if self.config.tied else "head")

    def _keys(self, seeds: Any, positions: Any) -> Any:
        """A random key for each sequence and position: what is drawn depends on nothing else."""
        return vmap(lambda seed, at: random.fold_in(random.PRNGKey(seed), at))(seeds, positions)

    def _projected(self, x: Any, layer: int, turn: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values: (n, heads, head_size) each."""
        c, n = self.config, x.shape[0]
        x = self._norm(x, "attention_norm", layer)
        q, k, v = (self._product(x, role, layer).reshape(n, -1, c.head_size) for role in "qkv")
        return self._turned(q, *turn), self._turned(k, *turn), v

    def _turn(self, positions: Any) -> tuple[Any, Any]:
        """What the first and the second of each pair of elements are multiplied by, to give both:
        cosine and sine of the angle by which the position turns them, and -sine and cosine; (n, 1,
        2, head_size / 2), or (n, 1, head_size / 2, 2) where pairs lie side by side."""
        angle = positions.astype(jnp.float32)[:, None, None] * jnp.array(self.angles, jnp.float32)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        axis = -1 if self.config.interleaved else -2
        return jnp.stack([cos, sin], axis), jnp.stack([-sin, cos], axis)

    def _seen(self, positions: Any) -> Any:
        """Which places of a cache each position sees, itself and those before: (n, room)."""
        room = self.cache[0]["k"].shape[2]
        return jnp.arange(room, dtype=jnp.int32)[None, :] <= positions[:, None]

    def _turned(self, x: Any, first: Any, second: Any) -> Any:
        """Rotary positions (Su et al., 2021): one pass, without halves to be put together."""
        n, heads, size = x.shape
        if self.config.interleaved:
            pairs = x.reshape(n, heads, size // 2, 2)
            made = first * pairs[..., :1] + second * pairs[..., 1:]
        else:
            pairs = x.reshape(n, heads, 2, size // 2)
            made = first * pairs[..., :1, :] + second * pairs[..., 1:, :]
        return made.reshape(x.shape)

    def _attend(self, q: Any, k: Any, v: Any, seen: Any) -> Any:
        """Of one sequence: q (heads, n, head), k and v (kv_heads, room, head), seen (n, room) ->
        (n, heads * head)."""
        c, n, room = self.config, q.shape[1], k.shape[1]
        shared = c.heads // c.kv_heads
        q = q.reshape(c.kv_heads, shared * n, c.head_size)
        scores = lax.dot_general(q, k, (((2,), (2,)), ((0,), (0,))))  # (kv, shared * n, room)
        scores = scores.reshape(c.kv_heads, shared, n, room) * (c.head_size ** -0.5)
        scores = jnp.where(seen, scores, -jnp.inf)
        weights = nn.softmax(scores, axis=-1).reshape(c.kv_heads, shared * n, room)
        mixed = lax.dot_general(weights, v, (((2,), (1,)), ((0,), (0,))))
        return mixed.reshape(c.heads, n, c.head_size).swapaxes(0, 1).reshape(n, -1)

    def _behind(self, x: Any, mixed: Any, layer: int) -> Any:
        """What a layer does with what its heads have found."""
        x = x + self._product(mixed, "o", layer)
        y = self._norm(x, "mlp_norm", layer)
        gate = nn.silu(self._product(y, "gate", layer))
        return x + self._product(gate * self._product(y, "up", layer), "down", layer)
