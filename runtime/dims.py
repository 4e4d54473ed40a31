"""Dimensions that are known at the call only, as a record writes them: `b`, `2*b + 1`,
`floordiv(b, 2)`, and constraints such as `b >= 8`.

`Expression` evaluates one; `bind` finds the variables from the shapes of arguments.  C++ reads the
same texts (runtime/cpp/src/artifact/dims.cc).  Imports nothing of ours.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

LARGEST = 2**31 - 1  # of a variable: the compiler counted on it
LARGEST_EXPONENT = 64
_TOKENS = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(\S))")
_LINEAR = re.compile(r"(- )?(?:(\d+)\*)?([A-Za-z_]\w*)(?: ([+-]) (\d+))?")
_CALLS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}
_SIGNS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
}

Evaluator = Callable[[Mapping[str, int]], int]


@dataclass(frozen=True, slots=True)
class Expression:
    """A size as an expression of variables; equal to its text.

    Attributes:
      text: as in the record.
      linear: (variable, factor, offset) where it is factor * variable + offset.
      variables: their names.
    """

    text: str
    linear: tuple[str, int, int] | None = field(compare=False)
    variables: frozenset[str] = field(compare=False)
    evaluate: Evaluator = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Expression:
    """The Expression of a text; ValueError if it is none."""
    parser = _Parser(text)
    evaluate = parser.sum()
    if parser.peek():
        raise ValueError(f"{text!r} is no dimension")
    found = _LINEAR.fullmatch(text)
    linear = None
    if found is not None and found[2] != "0":
        factor = int(found[2] or 1) * (-1 if found[1] else 1)
        linear = found[3], factor, int(found[5] or 0) * (-1 if found[4] == "-" else 1)
    return Expression(text, linear, frozenset(parser.names), evaluate)


class _Parser:
    """Sums of products of powers; calls of two sums."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [m.group().strip() for m in _TOKENS.finditer(text)]
        self.at = 0
        self.depth = 0
        self.names: set[str] = set()

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or wanted and token != wanted:
            raise ValueError(f"{self.text!r} is no dimension")
        self.at += 1
        return token

    def sum(self) -> Evaluator:
        terms: list[tuple[int, Evaluator]] = []
        sign = 1
        if self.peek() == "-":
            self.take()
            sign = -1
        terms.append((sign, self.product()))
        while self.peek() in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            terms.append((sign, self.product()))
        if len(terms) == 1 and terms[0][0] == 1:
            return terms[0][1]
        return lambda sizes: sum(s * f(sizes) for s, f in terms)

    def product(self) -> Evaluator:
        factors = [self.power()]
        while self.peek() == "*":
            self.take()
            factors.append(self.power())
        if len(factors) == 1:
            return factors[0]

        def value(sizes: Mapping[str, int]) -> int:
            result = 1
            for f in factors:
                result *= f(sizes)
            return result

        return value

    def power(self) -> Evaluator:
        base = self.atom()
        if self.peek() != "^":
            return base
        self.take()
        exponent = int(self.take())
        if exponent > LARGEST_EXPONENT:  # a damaged record: a call would never end
            raise ValueError(f"{self.text!r} is no dimension")
        return lambda sizes: base(sizes) ** exponent

    def atom(self) -> Evaluator:
        token = self.take()
        if token.isdigit():
            number = int(token)
            return lambda sizes: number
        if not token.isidentifier():
            raise ValueError(f"{self.text!r} is no dimension")
        if self.peek() != "(":
            self.names.add(token)
            return lambda sizes: sizes[token]
        apply = _CALLS.get(token)
        self.depth += 1
        if apply is None or self.depth > 50:
            raise ValueError(f"{self.text!r} is no dimension")
        self.take("(")
        left = self.sum()
        self.take(",")
        right = self.sum()
        self.take(")")
        self.depth -= 1
        return lambda sizes: apply(left(sizes), right(sizes))


@dataclass(frozen=True, slots=True)
class Constraint:
    """left >= right, left <= right or left == right, at every call."""

    sign: str
    left: Expression
    right: Expression

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return _SIGNS[self.sign](self.left.evaluate(sizes), self.right.evaluate(sizes))

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


def parse_constraint(sign: str, left: str, right: str) -> Constraint:
    """The Constraint of a record's entry; ValueError if it is none."""
    if sign not in _SIGNS:
        raise ValueError(f"{sign!r} is no comparison")
    return Constraint(sign, parse(left), parse(right))


def fits(size: int, expected: int | Expression, sizes: dict[str, int]) -> bool | None:
    """Whether a size is what is expected; a variable that is met first takes its value.  None: the
    variables are not known yet."""
    if not isinstance(expected, Expression):
        return size == expected
    if expected.linear is not None:
        name, factor, offset = expected.linear
        known = sizes.get(name)
        if known is not None:
            return factor * known + offset == size
        value, rest = divmod(size - offset, factor)
        if rest or not 0 <= value <= LARGEST:
            return False
        sizes[name] = value
        return True
    if any(name not in sizes for name in expected.variables):
        return None
    try:
        return expected.evaluate(sizes) == size
    except ZeroDivisionError:
        return False
