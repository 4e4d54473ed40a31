"""What the settings of every model share: their errors, and that they and the arrays agree.

Start reading at `Settings`.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from calque import aot
from calque.core.errors import explain


class ModelError(ValueError):
    """A model's file lacks something, or its parts disagree.

    Example:
      >>> from calque.models import LlamaConfig, ModelError
      >>> try:
      ...     LlamaConfig.from_json({"model_type": "mamba"})
      ... except ModelError as error:
      ...     print(error)
      the model is a 'mamba', which is none that calque.models has.
        In config.json.
        Fix: give a Llama-shaped model (model_type llama or mistral).
    """


class MissingPackage(ModuleNotFoundError):
    """A package that is not installed is needed: gguf or tokenizers.

    Example:
      >>> from calque.models import MissingPackage
      >>> issubclass(MissingPackage, ModuleNotFoundError)
      True
    """


class Settings:
    """The sizes of a model, and the arrays that go with them."""

    __slots__ = ()
    ignored: ClassVar[tuple[str, ...]] = ()  # ends of names of arrays that are not needed

    def _check_sizes(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**31:
                raise ModelError(explain(f"{name} is {value!r}, no positive number.",
                                         "the model's configuration", "correct it."))

    def _wanted(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes, one after another: a damaged file may say millions of layers."""
        raise NotImplementedError

    def _optional(self) -> set[str]:
        return set()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays of the model and their shapes, as they lie: matrices are (outputs, inputs).

        Returns:
          name -> shape.
        """
        return dict(self._wanted())

    def check(self, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
        """Compare the arrays that there are with those of the configuration.

        Args:
          shapes: name -> shape, of the file.
          where: the file's name, for messages.

        Raises:
          ModelError: one is missing, of another shape, or not known.
        """
        wanted = set()
        for name, shape in self._wanted():
            wanted.add(name)
            if name not in shapes:
                raise ModelError(explain(
                    f"the configuration wants an array {name} of shape {shape}, and there is none.",
                    where, "copy the file again, or correct the configuration (layers, tied "
                           "embeddings)."))
            if tuple(shapes[name]) != shape:
                raise ModelError(explain(
                    f"{name} has the shape {tuple(shapes[name])}, the configuration wants {shape}.",
                    where, "give the configuration that belongs to these weights."))
        optional = self._optional()
        odd = [n for n in shapes if n not in wanted and n not in optional
               and not n.endswith(self.ignored)]
        if odd:
            raise ModelError(explain(
                f"there is an array {min(odd)} that a model of this configuration has not.", where,
                "give the configuration that belongs to these weights; models with biases or more "
                "layers than it says are not run."))


class WeightsModule(aot.Module):
    """A module whose arrays are in `weights` under the names of the model's file."""

    constants = ("weights",)
    weights: Mapping[str, Any]

    def parameter_name(self, name: str) -> str:
        """The name of an array in the model's files.

        Args:
          name: weights['model.norm.weight'], or weights['token_embd.weight'].blocks of a matrix of
            a few bits.

        Returns:
          model.norm.weight, token_embd.weight.
        """
        return name.removeprefix("weights['").removesuffix(".blocks").removesuffix("']")
