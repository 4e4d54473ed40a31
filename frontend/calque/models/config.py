"""Sizes of a Llama-shaped model, where they are read from, and which arrays go with them.

Start reading at `LlamaConfig`.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.models.settings import ModelError, Settings

# What an array is for -> its name in a .safetensors file and in a GGUF file.
_WHOLE = {"embedding": ("model.embed_tokens.weight", "token_embd.weight"),
          "norm": ("model.norm.weight", "output_norm.weight"),
          "head": ("lm_head.weight", "output.weight"),
          "rope_factors": ("", "rope_freqs.weight")}
_LAYER = {"attention_norm": ("input_layernorm.weight", "attn_norm.weight"),
          "q": ("self_attn.q_proj.weight", "attn_q.weight"),
          "k": ("self_attn.k_proj.weight", "attn_k.weight"),
          "v": ("self_attn.v_proj.weight", "attn_v.weight"),
          "o": ("self_attn.o_proj.weight", "attn_output.weight"),
          "mlp_norm": ("post_attention_layernorm.weight", "ffn_norm.weight"),
          "gate": ("mlp.gate_proj.weight", "ffn_gate.weight"),
          "up": ("mlp.up_proj.weight", "ffn_up.weight"),
          "down": ("mlp.down_proj.weight", "ffn_down.weight")}


@dataclass(frozen=True, slots=True)
class LlamaConfig(Settings):
    """The sizes and settings of a Llama-shaped model.

    Attributes:
      vocabulary, width, layers, heads, kv_heads, head_size, hidden: its sizes; `width` is of the
        embeddings, `hidden` of the feed-forward layers.
      epsilon: of RMSNorm.
      rope_theta: base of the rotary frequencies.
      rope_scaling: settings of `rope_type` llama3, None without.
      interleaved: whether pairs of rotated elements are neighbours (GGUF) or half a head apart.
      tied: the embeddings are the output's matrix, too.
      context: positions that it was trained for, 0 where nobody says.
      stop: tokens that end a text.
      bos: the token that begins one; None without.

    Example:
      >>> from calque.models import LlamaConfig
      >>> LlamaConfig(vocabulary=256, width=64, layers=2, heads=4, kv_heads=2, head_size=16,
      ...             hidden=128).shapes()["model.layers.0.self_attn.k_proj.weight"]
      (32, 64)
    """

    ignored = ("rotary_emb.inv_freq",)  # they follow from the settings

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    hidden: int
    epsilon: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: Mapping[str, Any] | None = None
    interleaved: bool = False
    tied: bool = False
    context: int = 0
    stop: tuple[int, ...] = ()
    bos: int | None = None
    gguf: bool = False  # whose names arrays have

    def __post_init__(self) -> None:
        self._check_sizes("vocabulary", "width", "layers", "heads", "kv_heads", "head_size",
                          "hidden")
        if self.heads % self.kv_heads:
            raise ModelError(explain(
                f"{self.heads} heads cannot share {self.kv_heads} heads of keys and values.",
                "the model's configuration", "let kv_heads divide heads."))
        if self.head_size % 2:
            raise ModelError(explain(
                f"head_size is {self.head_size}, and rotary positions turn pairs.",
                "the model's configuration", "give an even head_size."))

    @staticmethod
    def from_json(raw: Mapping[str, Any], where: str = "config.json") -> LlamaConfig:
        """Of a model's config.json.

        Args:
          raw: the dictionary in it.
          where: its name, for messages.

        Returns:
          A LlamaConfig.

        Raises:
          ModelError: another kind of model, a setting that is missing or not supported.

        Example:
          >>> from calque.models import LlamaConfig
          >>> LlamaConfig.from_json({
          ...     "model_type": "llama", "vocab_size": 256, "hidden_size": 64,
          ...     "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
          ...     "rms_norm_eps": 1e-5}).kv_heads
          4
        """
        kind = raw.get("model_type")
        if kind not in ("llama", "mistral"):
            raise ModelError(explain(
                f"the model is a {kind!r}, which is none that calque.models has.", where,
                "give a Llama-shaped model (model_type llama or mistral)."))
        for name, usual in (("hidden_act", "silu"), ("attention_bias", False), ("mlp_bias", False),
                            ("sliding_window", None)):
            if raw.get(name, usual) not in (usual, None):
                raise ModelError(explain(f"{name} is {raw[name]!r}, which is not supported.", where,
                                         f"give a model whose {name} is {usual!r}."))
        scaling = raw.get("rope_scaling")
        theta = raw.get("rope_theta", 10000.0)
        parameters = raw.get("rope_parameters")  # where newer files say both
        if isinstance(parameters, Mapping):
            theta = parameters.get("rope_theta", theta)
            scaling = parameters if _rope_type(parameters) != "default" else None
        if scaling is not None and _rope_type(scaling) == "default":
            scaling = None
        if scaling is not None and _rope_type(scaling) != "llama3":
            raise ModelError(explain(
                f"rope_scaling is of the type {_rope_type(scaling)!r}.", where,
                "give a model without rope_scaling, or of the type llama3."))
        eos = raw.get("eos_token_id")
        stop = () if eos is None else tuple(eos) if isinstance(eos, list) else (eos,)
        try:
            heads, width = raw["num_attention_heads"], raw["hidden_size"]
            return LlamaConfig(
                vocabulary=raw["vocab_size"], width=width, layers=raw["num_hidden_layers"],
                heads=heads, kv_heads=raw.get("num_key_value_heads") or heads,
                head_size=raw.get("head_dim") or width // max(1, heads),
                hidden=raw["intermediate_size"], epsilon=float(raw["rms_norm_eps"]),
                rope_theta=float(theta), rope_scaling=scaling,
                tied=bool(raw.get("tie_word_embeddings", False)),
                context=int(raw.get("max_position_embeddings") or 0),
                stop=tuple(int(t) for t in stop), bos=raw.get("bos_token_id"))
        except KeyError as error:
            raise ModelError(explain(f"{error.args[0]} is missing.", where,
                                     "add it, or copy the file again.")) from None
        except (TypeError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(explain(f"a setting is of a wrong kind: {error}.", where,
                                     "correct it, or copy the file again.")) from None

    @staticmethod
    def from_gguf(settings: Mapping[str, Any], where: str = "the GGUF file") -> LlamaConfig:
        """Of the settings (key-value pairs) in a GGUF file.

        Args:
          settings: their values by key.
          where: the file's name, for messages.

        Returns:
          A LlamaConfig; `tied` is not said by settings, but by the arrays (`files.load`).

        Raises:
          ModelError: another kind of model, a setting that is missing or not supported.
        """
        kind = settings.get("general.architecture")
        if kind != "llama":
            raise ModelError(explain(
                f"the model is a {kind!r}, which is none that calque.models has.", where,
                "give a GGUF file whose general.architecture is llama."))
        scaling = settings.get("llama.rope.scaling.type", "none")
        if scaling not in ("none", "", None):
            raise ModelError(explain(
                f"llama.rope.scaling.type is {scaling!r}.", where,
                "give a model without it (Llama 3's factors are an array, rope_freqs.weight)."))
        if settings.get("llama.expert_count"):
            raise ModelError(explain("the model is a mixture of experts.", where,
                                     "give a dense Llama-shaped model."))

        def number(key: str, default: Any = None) -> Any:
            value = settings.get(f"llama.{key}", default)
            if value is None:
                raise ModelError(explain(f"llama.{key} is missing.", where,
                                         "add it, or copy the file again."))
            if isinstance(value, bool | str | list):
                raise ModelError(explain(f"llama.{key} is {value!r}, no number.", where,
                                         "correct it, or copy the file again."))
            return value

        heads, width = int(number("attention.head_count")), int(number("embedding_length"))
        size = int(number("attention.key_length", width // max(1, heads)))
        for key in ("attention.value_length", "rope.dimension_count"):
            if int(number(key, size)) != size:
                raise ModelError(explain(
                    f"llama.{key} is {number(key)}, and heads have {size} elements.", where,
                    "give a model whose heads are of one size and rotated as a whole."))
        tokens = settings.get("tokenizer.ggml.tokens")
        eos, eot = (settings.get(f"tokenizer.ggml.{k}_token_id") for k in ("eos", "eot"))
        return LlamaConfig(
            vocabulary=int(number("vocab_size", None if tokens is None else len(tokens))),
            width=width, layers=int(number("block_count")), heads=heads,
            kv_heads=int(number("attention.head_count_kv", heads)), head_size=size,
            hidden=int(number("feed_forward_length")),
            epsilon=float(number("attention.layer_norm_rms_epsilon")),
            rope_theta=float(number("rope.freq_base", 10000.0)), interleaved=True,
            context=int(number("context_length", 0)),
            stop=tuple(dict.fromkeys(int(t) for t in (eos, eot) if t is not None)),
            bos=settings.get("tokenizer.ggml.bos_token_id"), gguf=True)

    # ---- arrays
    def name(self, role: str, layer: int | None = None) -> str:
        """The name of an array in the model's files.

        Args:
          role: what it is for: embedding, q, gate, ...
          layer: of which layer, where there is one for each.

        Returns:
          The name.
        """
        column = int(self.gguf)
        if layer is None:
            return _WHOLE[role][column]
        return f"{'blk' if self.gguf else 'model.layers'}.{layer}.{_LAYER[role][column]}"

    def _wanted(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """One after another: a damaged file may say millions of layers."""
        q, kv = self.heads * self.head_size, self.kv_heads * self.head_size
        w, h = self.width, self.hidden
        yield self.name("embedding"), (self.vocabulary, w)
        yield self.name("norm"), (w,)
        if not self.tied:
            yield self.name("head"), (self.vocabulary, w)
        layer = {"attention_norm": (w,), "q": (q, w), "k": (kv, w), "v": (kv, w), "o": (w, q),
                 "mlp_norm": (w,), "gate": (h, w), "up": (h, w), "down": (w, h)}
        for i in range(self.layers):
            for role, shape in layer.items():
                yield self.name(role, i), shape

    def _optional(self) -> set[str]:
        return {self.name("rope_factors"), self.name("head")}

    def frequencies(self, factors: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Angles by which the pairs of a head turn from one position to the next.

        Args:
          factors: of a GGUF file (rope_freqs.weight), which divide them.

        Returns:
          float64[head_size / 2].

        Raises:
          ModelError: rope_scaling lacks a setting.
        """
        made = self.rope_theta ** (-np.arange(0, self.head_size, 2) / self.head_size)
        if factors is not None:
            return made / np.asarray(factors, np.float64)
        if self.rope_scaling is None:
            return made
        try:
            factor, low, high, old = (float(self.rope_scaling[k]) for k in (
                "factor", "low_freq_factor", "high_freq_factor",
                "original_max_position_embeddings"))
        except KeyError as error:
            raise ModelError(explain(f"rope_scaling has no {error.args[0]}.", "config.json",
                                     "add it, or copy the file again.")) from None
        # long waves are stretched, short ones stay, those between are mixed (Llama 3.1)
        turns = old * made / (2 * math.pi)
        mixed = np.clip((turns - low) / (high - low), 0, 1)
        return made * (mixed + (1 - mixed) / factor)


def _rope_type(scaling: Mapping[str, Any]) -> str:
    return str(scaling.get("rope_type", scaling.get("type", "default")))
