"""An encoder of sentences as a module: BERT's layers (Devlin et al., 2019), the mean over tokens,
and length 1, as sentence-transformers' models have it.

Start reading at `Bert`.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import calque.numpy as jnp
from calque import aot, lax, nn
from calque.core.errors import explain
from calque.lowering.target.targets import Target
from calque.models.settings import ModelError, Settings, WeightsModule


@dataclass(frozen=True, slots=True)
class BertConfig(Settings):
    """The sizes of a BERT-shaped encoder.

    Attributes:
      vocabulary, width, layers, heads, hidden: its sizes; `hidden` is of the feed-forward layers.
      positions: tokens that a text may have.
      kinds: of token types; all tokens are of the first.
      epsilon: of layer norms.

    Example:
      >>> from calque.models import BertConfig
      >>> BertConfig(vocabulary=64, width=16, layers=1, heads=2, hidden=32).shapes()[
      ...     "encoder.layer.0.intermediate.dense.weight"]
      (32, 16)
    """

    ignored = ("position_ids", "pooler.dense.weight", "pooler.dense.bias")

    vocabulary: int
    width: int
    layers: int
    heads: int
    hidden: int
    positions: int = 512
    kinds: int = 2
    epsilon: float = 1e-12

    def __post_init__(self) -> None:
        self._check_sizes("vocabulary", "width", "layers", "heads", "hidden", "positions", "kinds")
        if self.width % self.heads:
            raise ModelError(explain(
                f"{self.heads} heads cannot share a width of {self.width}.",
                "the model's configuration", "let heads divide width."))

    @staticmethod
    def from_json(raw: Mapping[str, Any], where: str = "config.json") -> BertConfig:
        """Of a model's config.json.

        Args:
          raw: the dictionary in it.
          where: its name, for messages.

        Returns:
          A BertConfig.

        Raises:
          ModelError: another kind of model, a setting that is missing or not supported.
        """
        if raw.get("model_type") != "bert":
            raise ModelError(explain(
                f"the model is a {raw.get('model_type')!r}, no encoder that calque.models has.",
                where, "give a BERT-shaped model (model_type bert)."))
        for name, usual in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
            if raw.get(name, usual) != usual:
                raise ModelError(explain(f"{name} is {raw[name]!r}, which is not supported.", where,
                                         f"give a model whose {name} is {usual!r}."))
        try:
            return BertConfig(raw["vocab_size"], raw["hidden_size"], raw["num_hidden_layers"],
                              raw["num_attention_heads"], raw["intermediate_size"],
                              raw.get("max_position_embeddings", 512),
                              raw.get("type_vocab_size", 2),
                              float(raw.get("layer_norm_eps", 1e-12)))
        except KeyError as error:
            raise ModelError(explain(f"{error.args[0]} is missing.", where,
                                     "add it, or copy the file again.")) from None
        except TypeError as error:
            raise ModelError(explain(f"a setting is of a wrong kind: {error}.", where,
                                     "correct it, or copy the file again.")) from None

    def _wanted(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        w, h = self.width, self.hidden
        yield "embeddings.word_embeddings.weight", (self.vocabulary, w)
        yield "embeddings.position_embeddings.weight", (self.positions, w)
        yield "embeddings.token_type_embeddings.weight", (self.kinds, w)
        yield "embeddings.LayerNorm.weight", (w,)
        yield "embeddings.LayerNorm.bias", (w,)
        products = {"attention.self.query": (w, w), "attention.self.key": (w, w),
                    "attention.self.value": (w, w), "attention.output.dense": (w, w),
                    "intermediate.dense": (h, w), "output.dense": (w, h)}
        for i in range(self.layers):
            for name, shape in products.items():
                yield f"encoder.layer.{i}.{name}.weight", shape
                yield f"encoder.layer.{i}.{name}.bias", shape[:1]
            for name in ("attention.output", "output"):
                yield f"encoder.layer.{i}.{name}.LayerNorm.weight", (w,)
                yield f"encoder.layer.{i}.{name}.LayerNorm.bias", (w,)


class Bert(WeightsModule):
    """An encoder: embeddings of texts, for any number and length of them.

    It has no state: `aot.load(...).embed(tokens, lengths)`.

    Args:
      config: its sizes.
      weights: name -> array, as in the model's file (`models.load`).

    Raises:
      ModelError: weights and configuration disagree.

    Example:
      >>> import numpy as np
      >>> from calque import aot, models
      >>> config = models.BertConfig(vocabulary=32, width=16, layers=1, heads=2, hidden=32)
      >>> rng = np.random.default_rng(0)
      >>> weights = {n: rng.normal(0, 0.3, s).astype(np.float32)
      ...            for n, s in config.shapes().items()}
      >>> made = aot.load(models.Bert(config, weights).compile())
      >>> tokens = np.array([[1, 2, 3], [4, 5, 0]], np.int32)  # the second text has two
      >>> made.embed(tokens, np.array([3, 2], np.int32))[0].shape
      (2, 16)
    """

    def __init__(self, config: BertConfig, weights: Mapping[str, Any]) -> None:
        config.check({n: tuple(w.shape) for n, w in weights.items()}, "the weights given to Bert")
        self.config = config
        self.weights = {n: w for n, w in weights.items() if not n.endswith(config.ignored)}

    def compile(self, path: str | Path | None = None, *,
                arguments: Mapping[str, Any] | None = None,
                targets: str | Target | Sequence[str | Target] = ("cpu",),
                parameters: bool | None = None, constraints: Sequence[str] = ()) -> aot.Artifact:
        """Compile `embed`; as Module.compile.

        Args:
          path: where to save it.
          arguments: {"embed": types}, by default of any number and length of texts.
          targets: what to compile for.
          parameters: whether weights go to an archive beside the file, under the names that they
            have in the model's own file; None: where they are 1 MiB and more.
          constraints: of sizes; by default that a text has no more tokens than the model positions.

        Returns:
          The Artifact.
        """
        own = () if arguments else (f"n <= {self.config.positions}",)
        return super().compile(path, arguments=arguments, targets=targets, parameters=parameters,
                               constraints=(*own, *constraints))

    @aot.export("i32[b,n]", "i32[b]")
    def embed(self, tokens: Any, lengths: Any) -> Any:
        """The embeddings of texts.

        Args:
          tokens: int32[b, n], a text in each row, with what is left at its end filled by any token.
          lengths: int32[b], how many tokens each text has.

        Returns:
          float32[b, width], of length 1.
        """
        c = self.config
        batch, n = tokens.shape
        places = jnp.arange(n, dtype=jnp.int32)
        x = (self._rows("word", tokens)
             + self._rows("position", places)
             + self._rows("token_type", jnp.zeros(1, jnp.int32)))
        x = self._norm(x, "embeddings.LayerNorm")
        there = places[None, :] < lengths[:, None]
        for i in range(c.layers):
            at = f"encoder.layer.{i}."
            x = self._norm(x + self._attend(x, at, there), at + "attention.output.LayerNorm")
            hidden = nn.gelu(self._product(x, at + "intermediate.dense"), approximate=False)
            x = self._norm(x + self._product(hidden, at + "output.dense"), at + "output.LayerNorm")
        total = jnp.sum(jnp.where(there[:, :, None], x, 0), axis=1)  # (the mean's direction)
        return total * lax.rsqrt(jnp.maximum(jnp.sum(total * total, axis=1, keepdims=True), 1e-24))

    def _rows(self, kind: str, places: Any) -> Any:
        rows = lax.gather(
            self.weights[f"embeddings.{kind}_embeddings.weight"], places[..., None],
            lax.GatherDimensionNumbers(offset_dims=(places.ndim,), collapsed_slice_dims=(0,),
                                       start_index_map=(0,)),
            slice_sizes=(1, self.config.width), mode="clip")
        return rows.astype(jnp.float32)

    def _weight(self, name: str) -> Any:
        return lax.convert_element_type(self.weights[name], jnp.float32)

    def _product(self, x: Any, name: str) -> Any:
        made = lax.dot_general(x, self._weight(name + ".weight"), (((2,), (1,)), ((), ())))
        return made + self._weight(name + ".bias")

    def _norm(self, x: Any, name: str) -> Any:
        x = x - jnp.mean(x, axis=-1, keepdims=True)
        scale = lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + self.config.epsilon)
        return x * scale * self._weight(name + ".weight") + self._weight(name + ".bias")

    def _attend(self, x: Any, at: str, there: Any) -> Any:
        c = self.config
        batch, n, size = x.shape[0], x.shape[1], c.width // c.heads
        q, k, v = (self._product(x, f"{at}attention.self.{name}").reshape(
            batch, n, c.heads, size).transpose(0, 2, 1, 3) for name in ("query", "key", "value"))
        batched = ((0, 1), (0, 1))
        scores = lax.dot_general(q * size ** -0.5, k, (((3,), (3,)), batched))
        weights = nn.softmax(jnp.where(there[:, None, None, :], scores, -jnp.inf), axis=-1)
        mixed = lax.dot_general(weights, v, (((3,), (2,)), batched))
        return self._product(mixed.transpose(0, 2, 1, 3).reshape(batch, n, c.width),
                             at + "attention.output.dense")
