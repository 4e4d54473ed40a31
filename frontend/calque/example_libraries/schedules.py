"""Step sizes that change with the step: functions of its number."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque.core.errors import explain

Schedule = Callable[[Any], Any]


def constant(step_size: float) -> Schedule:
    """The same step size at every step.

    Args:
      step_size: a number.

    Returns:
      A function of the step's number.

    Raises:
      Nothing.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.constant(0.1)(5)
      0.1
    """
    return lambda step: step_size


def exponential_decay(step_size: float, decay_steps: int, decay_rate: float) -> Schedule:
    """step_size * decay_rate ** (step / decay_steps).

    Args:
      step_size: at step 0.
      decay_steps: after how many steps it is multiplied by decay_rate.
      decay_rate: a number.

    Returns:
      A function of the step's number.

    Raises:
      Nothing.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.exponential_decay(1.0, 2, 0.5)(4)
      0.25
    """
    return lambda step: step_size * decay_rate ** (step / decay_steps)


def inverse_time_decay(step_size: float, decay_steps: int, decay_rate: float,
                       staircase: bool = False) -> Schedule:
    """step_size / (1 + decay_rate * step / decay_steps).

    Args:
      step_size: at step 0.
      decay_steps, decay_rate: numbers.
      staircase: whole multiples of decay_steps only.

    Returns:
      A function of the step's number.

    Raises:
      Nothing.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.inverse_time_decay(1.0, 2, 1.0)(2)
      0.5
    """
    if staircase:
        return lambda step: step_size / (1 + decay_rate * jnp.floor(step / decay_steps))
    return lambda step: step_size / (1 + decay_rate * step / decay_steps)


def polynomial_decay(step_size: float, decay_steps: int, final_step_size: float,
                     power: float = 1.0) -> Schedule:
    """From step_size to final_step_size within decay_steps, along a power.

    Args:
      step_size, final_step_size: first and last size.
      decay_steps: steps in between.
      power: 1 is a straight line.

    Returns:
      A function of the step's number.

    Raises:
      Nothing.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> print(optimizers.polynomial_decay(1.0, 4, 0.0)(1))
      0.75
    """
    def schedule(step: Any) -> Any:
        part = jnp.minimum(step, decay_steps) / decay_steps
        return (1 - part) ** power * (step_size - final_step_size) + final_step_size
    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """values[i] while i of the boundaries are smaller than the step.

    Args:
      boundaries: n growing step numbers.
      values: n + 1 sizes.

    Returns:
      A function of the step's number.

    Raises:
      ValueError: they are no vectors of n and n + 1 elements.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> print(optimizers.piecewise_constant([10, 20], [3.0, 2.0, 1.0])(15))
      2.0
    """
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError(explain("piecewise_constant: boundaries and values must be sequences.",
                                 fix="pass lists of numbers."))
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError(explain(
            "piecewise_constant: boundaries length must be one shorter than values length, got "
            f"{boundaries.shape[0]} and {values.shape[0]}.", fix="add a value or drop a boundary."))
    return lambda step: values[jnp.sum(step > boundaries)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule from a number or a schedule.

    Args:
      scalar_or_schedule: either.

    Returns:
      A function of the step's number.

    Raises:
      TypeError: it is neither.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.make_schedule(0.1)(3)
      0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if np.ndim(scalar_or_schedule) == 0:  # (a list, too, which jnp.ndim warns of)
        return constant(scalar_or_schedule)
    raise TypeError(explain(f"make_schedule: {type(scalar_or_schedule)} is no step size.",
                            fix="pass a number or a function of the step."))


__all__ = [
    "constant", "exponential_decay", "inverse_time_decay", "make_schedule", "piecewise_constant",
    "polynomial_decay"]
