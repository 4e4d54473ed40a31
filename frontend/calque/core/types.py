"""Names for the types of what is passed about everywhere.  Imports nothing of ours."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Shape = tuple[int, ...]  # sizes of axes
Axes = tuple[int, ...]  # positions of axes
Params = dict[str, Any]  # of a primitive, by name
Dtype = np.dtype[Any]
Ndarray = np.ndarray[Any, Any]
Function = Callable[..., Any]
