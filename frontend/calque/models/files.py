"""Weights and settings of models from their files: .safetensors beside config.json, or .gguf.

Arrays are mapped, not read; matrices of a GGUF file in Q8_0, Q4_0, Q4_1 and Q4_K are multiplied by
as they lie, those in other blocks are widened to float32 by the gguf package.
Start reading at `load`.
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from calque import runtime
from calque.core import dtypes
from calque.core.blocks import KINDS, check_activations
from calque.core.errors import explain
from calque.core.types import Ndarray
from calque.models.bert import BertConfig
from calque.models.config import LlamaConfig
from calque.models.settings import MissingPackage, ModelError
from calque.nn.quantized import QuantizedArray
from calque.runtime import archives
from calque.runtime.parameters import load_arrays

_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model as its files have it.

    Attributes:
      config: its sizes.
      weights: arrays, some of them a calque.QuantizedArray, by the names that they have there.
      path: the file, or the folder.
      settings: what a GGUF file says besides, {} of others.

    Example:
      >>> from pathlib import Path
      >>> from calque import models
      >>> config = models.BertConfig(vocabulary=8, width=4, layers=1, heads=2, hidden=8)
      >>> models.Loaded(config, {}, Path("model"), {}).config.width
      4
    """

    config: LlamaConfig | BertConfig
    weights: Mapping[str, Ndarray | QuantizedArray]
    path: Path
    settings: Mapping[str, Any]


def load(path: str | Path, dtype: Any = None, activations: str = "int8") -> Loaded:
    """Read a Llama-shaped model, or an encoder of BERT's shape.

    Args:
      path: a .gguf file; a folder with config.json and model.safetensors (or several with an
        index); or a .safetensors file beside a config.json.
      dtype: what to convert matrices to; by default they stay as they are in the file: float32,
        float16, bfloat16, and blocks of kinds that QuantizedArray has; of others float32.
      activations: of a .gguf file's QuantizedArrays: 'int8', by which such files are computed
        elsewhere, or 'float32' (`QuantizedArray`).

    Returns:
      Its configuration and its weights, compared with each other.

    Raises:
      ModelError: the configuration is of another model, or disagrees with the arrays.
      ValueError: activations is another word.
      ArtifactError: a file cannot be read.
      MissingPackage: a .gguf file, and the package gguf is not installed.

    Example:
      >>> import json, tempfile
      >>> from pathlib import Path
      >>> import numpy as np
      >>> from calque import aot, models
      >>> raw = {"model_type": "bert", "vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1,
      ...        "num_attention_heads": 2, "intermediate_size": 8}
      >>> shapes = models.BertConfig.from_json(raw).shapes()
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = Path(folder, "config.json").write_text(json.dumps(raw))
      ...     _ = aot.save_parameters(folder + "/model.safetensors", {
      ...         name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
      ...     found = models.load(folder)
      >>> found.config.layers, len(found.weights)
      (1, 21)
    """
    path = Path(path)
    check_activations("models.load", activations)
    settings: dict[str, Any] = {}
    config: LlamaConfig | BertConfig
    if path.suffix == ".gguf":
        settings, weights = _read_gguf(path, activations)
        said = LlamaConfig.from_gguf(settings, str(path))
        config = replace(said, tied=said.name("head") not in weights)
    else:
        folder = path if path.is_dir() else path.parent
        raw, where = _json(folder / "config.json"), str(folder / "config.json")
        config = (BertConfig.from_json(raw, where) if raw.get("model_type") == "bert" else
                  LlamaConfig.from_json(raw, where))
        weights = _read_safetensors(path)
    config.check({n: w.shape for n, w in weights.items()}, str(path))
    for name, w in weights.items():
        if not (isinstance(w, QuantizedArray) or w.dtype.kind == "f"
                or w.dtype == dtypes.bfloat16 or name.endswith(config.ignored)):
            raise ModelError(explain(f"{name} is {w.dtype}, no floating point.", str(path),
                                     "give weights of float32, float16 or bfloat16."))
    if dtype is not None:
        weights = {n: np.asarray(w).astype(dtypes.canonical(dtype)) if w.ndim == 2 else w
                   for n, w in weights.items()}
    return Loaded(config, weights, path, settings)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        made = json.loads(path.read_text("utf-8"))
        if not isinstance(made, dict):
            raise ValueError("it holds no dictionary")
        return made
    except (OSError, ValueError, RecursionError) as error:
        text = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(explain(f"{path} cannot be read: {text}.", "models.load",
                                 "put the model's config.json beside its weights.")) from None


def _read_safetensors(path: Path) -> dict[str, Ndarray]:
    if not path.is_dir():
        return load_arrays(path)
    if not (path / _INDEX).is_file():
        return load_arrays(path / "model.safetensors")
    parts = _json(path / _INDEX).get("weight_map")
    if not isinstance(parts, dict) or not all(
            isinstance(n, str) and Path(n).name == n for n in parts.values()):
        raise ModelError(explain(f"{_INDEX} has no weight_map of names of files.", str(path),
                                 "copy the file again."))
    made: dict[str, Ndarray] = {}
    for part in dict.fromkeys(parts.values()):
        made.update(load_arrays(path / part))
    return made


def _read_gguf(path: Path, activations: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings, and arrays with (outputs, inputs) axes."""
    found = archives.read(path, "models.load")  # every number of its tables is compared with it
    try:
        import gguf
    except ModuleNotFoundError:
        raise MissingPackage(explain(
            "reading a model from .gguf takes the package gguf.", str(path),
            "pip install 'calque[models]'."), name="gguf") from None
    try:
        reader = gguf.GGUFReader(path)
        settings = {name: field.contents() for name, field in reader.fields.items()
                    if not name.startswith("GGUF.")}
        arrays: dict[str, Any] = {}
        for tensor in reader.tensors:
            shape = tuple(int(d) for d in reversed(tensor.shape.tolist()))
            entry = found.entries[tensor.name]
            if entry.type is not None:
                flat = np.frombuffer(found.bytes(tensor.name), np.uint8)
                arrays[tensor.name] = flat.view(entry.type[0]).reshape(shape)
            elif len(shape) == 2 and (kind := tensor.tensor_type.name.lower()) in KINDS:
                flat = np.frombuffer(found.bytes(tensor.name), np.uint8)
                arrays[tensor.name] = QuantizedArray(flat.reshape(shape[0], -1), kind,
                                                     activations=activations)
            else:
                with np.errstate(all="ignore"):  # damaged scales
                    wide = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
                arrays[tensor.name] = wide.astype(np.float32).reshape(shape)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, NotImplementedError,
            UnicodeDecodeError) as error:
        raise runtime.ArtifactError(explain(
            f"{path} cannot be read: {error}.", "models.load",
            "copy it again, or write it again in a type that the gguf package widens (F32, F16, "
            "BF16, Q8_0, Q4_0, Q4_K, ...).")) from error
    return settings, arrays
