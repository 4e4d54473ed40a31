"""Which compiled form of a function is called: of several targets the one that asks most of the
device, and for each list of argument shapes one.

A function may be in an artifact for some known sizes and, behind them, for any.  Start reading at
`by_shapes`.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calque.runtime.cuda import capability_of
from calque.runtime.device import Device
from calque.runtime.errors import ArtifactError, explain
from calque.runtime.target import check_target

Found = tuple[Any, Any]  # a FunctionRecord and the module that has it
Shapes = tuple[tuple[Any, ...], ...]


def by_shapes(found: Sequence[Found], device: Device, source: str) -> list[Found]:
    """The forms of a function that a device runs, one for each list of argument shapes: those of
    sizes that are known at the call only come first."""
    groups: dict[Shapes, list[Found]] = {}
    for record, module in found:
        groups.setdefault(shapes_of(record), []).append((record, module))
    chosen, errors = [], []
    for group in groups.values():
        try:
            chosen.append(choose(group, device, source))
        except ArtifactError as error:
            errors.append(error)
    if not chosen:
        raise errors[0]
    chosen.sort(key=lambda pair: is_known(pair[0]))  # stable: as they lie in the file
    return chosen


def shapes_of(record: Any) -> Shapes:
    """The shapes of a function's arguments."""
    return tuple(a.shape for a in record.args)


def is_known(record: Any) -> bool:
    """Whether all sizes of its arguments are known."""
    return all(isinstance(n, int) for shape in shapes_of(record) for n in shape)


def known_sizes(records: Mapping[Shapes, Any]) -> str:
    """What the forms of a function take, for a message."""
    return " or ".join(", ".join(f"{a.path}: {a}" for a in f.record.args)
                       for f in records.values())


def choose(found: Sequence[Found], device: Device, source: str) -> Found:
    """The form of a function to run on a device: the one that asks most of it."""
    fitting, reasons = [], []
    for record, module in found:
        try:
            check_target(record.target, device, source)
        except ArtifactError as error:
            reasons.append((record.target.get("name", "?"), error))
        else:
            fitting.append((record, module))
    if fitting:
        def asked(pair: Found) -> tuple[int, tuple[int, int]]:
            words = list(map(str, pair[0].target.get("features", ())))
            return len(words), capability_of(words)
        return max(fitting, key=asked)
    if len(reasons) == 1:
        raise reasons[0][1]
    text = "; ".join(f"{name}: {str(error).splitlines()[0]}" for name, error in reasons)
    raise ArtifactError(explain(
        f"no form of {found[0][0].name} runs on {device}: {text}", source,
        "compile it for this device, too (calque compile --target ...)."))


__all__ = ["by_shapes", "choose", "is_known", "known_sizes", "shapes_of"]
