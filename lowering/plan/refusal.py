"""Why something did not go a faster way: the equation that was in the way, and the fact of it.

What decides gives a `Refusal`, or None where nothing is in the way; a sentence is made of it only
when somebody asks (`Refusal.text`).  A fact is the key of a row of `_TEXTS`.
"""
from __future__ import annotations

from typing import NamedTuple

from calque.core.program import Equation

# {e}: the equation with its operands; {n}: the number that was met, {limit}: the largest that goes
_TEXTS = {
    "open size": "a size of {e} is known at the call only",
    "dtype": "{e}: kernels have no numbers of that type",
    "empty": "{e}: an array without elements",
    "no form": "{e} has no form in a kernel",
    "width": "{e} sees bits as numbers of another width",
    "matrix": "{e}: matrices up to {limit} x {limit} are decomposed in a kernel",
    "mixed product": "{e}: operands and result are of different types",
    "bool product": "{e}: a product of bools",
    "predicate of rows": "{e}: each row ends by itself",
    "device": "loops are kernels on CPUs only",
    "written out": "{e} is written out: {limit} operations at most after that",
    "work of a step": "a step does about {n:,} element operations, and one workgroup takes a loop "
                      "of up to {limit:,}",
    "numbers": "a row computes more than {limit:,} numbers in a step, too many for registers",
    "array of a row": "{e}: a row holds an array of more than {limit} numbers, too many for "
                      "registers",
    "not by numbers": "{e} has no form in registers",
    "functions": "a step has {n} functions such as exp; over memory they run as vectors",
    "choices": "a loop within chooses {n} times; memory is addressed instead",
    "rows meet": "rows meet in {e}",
    "no rows": "no axis of what the loop carries has independent rows",
    "switched off": "kernels are switched off (CALQUE_OFF=kernels)",
    "few rows": "{n} rows are too few to share among workgroups",
    "arrays": "{n} arrays come in and go out, and one kernel takes {limit}",
    "work": "about {n:,} element operations; one kernel takes a program of up to {limit:,}",
    "equations": "{n:,} operations; one kernel takes a program of up to {limit:,}",
    "fold alone": "a reduction is a kernel of its own",
    "decomposition": "{e} has a kernel in C",
    "small product": "{e}: {n:,} multiply-adds; the packed kernel pays from {limit:,} on",
    "thin product": "{e}: a side is shorter than {limit}",
    "product of types": "{e}: the packed kernel multiplies two operands of one type, with sums of "
                        "float32, or float64",
    "no kernel in C": "the kernels in C are not there for this target (calque doctor)",
    "short rows": "{e}: fewer than {limit} elements lie side by side along what is folded or kept",
    "wide row": "{e}: what is folded at a time takes more than {limit:,} bytes",
    "nothing to join": "{e}: nothing that follows reads the whole row once more, or what it reads "
                       "is computed on the way, which IREE does",
}


class Refusal(NamedTuple):
    """Why a way was not taken.

    Attributes:
      equation: what was in the way; None where it is the whole.
      fact: which fact of it, a key of the table above.
      n, limit: the number that was met, and the largest (least) that goes.
    """

    equation: Equation | None
    fact: str
    n: int = 0
    limit: int = 0

    @property
    def text(self) -> str:
        """The sentence, without its end."""
        e = "the loop" if self.equation is None else short(self.equation)
        return _TEXTS[self.fact].format(e=e, n=self.n, limit=self.limit)

    @property
    def place(self) -> str:
        """The user's line, "" where there is none."""
        return place(self.equation)


def short(e: Equation) -> str:
    """An equation's name and what it takes: eigh of f32[40,40]."""
    operands = [a.aval.str_short() for a in e.inputs]
    shown = [*operands[:3], *(["..."] if len(operands) > 3 else [])]
    return f"{e.name} of {', '.join(shown)}" if operands else e.name


def place(e: Equation | None) -> str:
    """file:line of the user's code that an equation comes from; "" where that is not known."""
    from calque.core.source import UNKNOWN
    return "" if e is None or e.source is UNKNOWN else f"{e.source.file}:{e.source.line}"
