"""Dimensions that are known at the call only: scopes with constraints, what the rest of calque
asks of sizes, and text.

A `Dim` (core.dimension) stands in shapes where an int stands otherwise.  Start reading at
`symbolic_shape`.  Imports core.dimension and core.errors.
"""
from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from calque.core.dimension import (
    OPERATIONS,
    PLAUSIBLE,
    Dim,
    Monomial,
    Operation,
    as_dim,
    as_value,
    bounds,
    build,
    divided,
    factor_bounds,
    floordiv,
    is_nonnegative,
    mod,
    operation,
    proved,
    quotient,
    variable,
)
from calque.core.errors import InconclusiveDimensionOperation, explain


class SymbolicScope:
    """Where the variables of some dimensions belong: variables of two scopes do not mix.

    Args:
      constraints: texts such as 'b >= 8', 'b <= 2*c', 'b == 2*c' that hold for every call; calls
        are checked.

    Raises:
      ValueError: a constraint cannot be read, or an equality cannot be solved for a term.

    Example:
      >>> from calque import export
      >>> scope = export.SymbolicScope(["b >= 8"])
      >>> (b,) = export.symbolic_shape("b", scope=scope)
      >>> b >= 5
      True
    """

    __slots__ = ("constraints", "rewrites", "inequalities", "positive", "noted", "_said",
                 "__weakref__")

    def __init__(self, constraints: Sequence[str] = ()) -> None:
        if isinstance(constraints, str):
            raise ValueError(
                explain(
                    "The symbolic constraints should be a sequence of strings. Got "
                    f"{constraints!r}",
                    fix=f"write constraints=[{constraints!r}].",
                )
            )
        self.rewrites: dict[Monomial, tuple[int, Dim | int]] = {}  # k * monomial is another
        self.inequalities: list[Dim] = []  # each is >= 0
        self.constraints: tuple[tuple[str, Dim | int, Dim | int], ...] = ()
        self.positive: set[str] = set()  # variables that were needed to be at least 1
        # what calls are checked for although nobody gave it: how a Dim compares with 0 (!=, of
        # divisors, >=, ==); each can be evaluated where those before it hold
        self.noted: dict[Dim, str] = {}
        for text in constraints:
            self._add(text)
        self._said = str(self)
        self._settle()

    def _add(self, text: str) -> None:
        if not isinstance(text, str):
            raise ValueError(
                explain(
                    f"The symbolic constraints should be a sequence of strings. Got {text!r}",
                    fix="write them like 'b >= 8'.",
                )
            )
        found = re.fullmatch(r"(.+?)(==|>=|<=)(.+)", text, re.DOTALL)
        if found is None:
            raise ValueError(
                explain(
                    "Constraint parsing error: must contain one of '==' or '>=' or '<=', got "
                f"{text!r}.",
                    fix="write it like 'b >= 8' or 'b == 2*c'.",
                )
            )
        left, right = (_Parser(found[k], self).whole() for k in (1, 3))
        kind = found[2]
        self.constraints = (*self.constraints, (kind, left, right))
        difference = as_dim(left, self) - as_dim(right, self)
        if kind == "==":
            if not self._read_to_the_right(left, right):
                self._solve(difference, text)
            self._note_quotient(left, right)
            return
        difference = difference if kind == ">=" else -difference
        if isinstance(difference, Dim):
            self.inequalities.append(difference)
        elif difference < 0:
            raise ValueError(
                explain(f"Unsatisfiable explicit constraint: {text}.", fix="leave it out.")
            )

    def needs(self, known: Set[str]) -> list[tuple[Dim, str]]:
        """What is noted of these variables; calls check it before the constraints."""
        return [(d, kind) for d, kind in self.noted.items() if d.variables() <= known]

    def _read_to_the_right(self, left: Dim | int, right: Dim | int) -> bool:
        """Note that what stands on the left, a product, is from now on what stands on the right."""
        if not isinstance(left, Dim) or len(left.terms) != 1:
            return False
        ((monomial, k),) = left.terms
        if isinstance(right, Dim) and (
                any(divided(m, monomial) is not None for m, _ in right.terms)
                or len(monomial) == 1 and monomial[0][0] in set(right.factors())):
            return False
        self.rewrites[monomial] = (k, right)
        return True

    def _note_quotient(self, left: Dim | int, right: Dim | int) -> None:
        """Of mod(x, k) == r note that k * floordiv(x, k) is x - r."""
        ((monomial, c),) = left.terms if isinstance(left, Dim) and len(left.terms) == 1 else (
            ((), 0),)
        factor = monomial[0][0] if len(monomial) == 1 and c == 1 else None
        if not isinstance(factor, Operation) or factor.name != "mod" or (
                not isinstance(factor.right, int) or factor.right < 1):
            return
        quotient = as_dim(factor.left, self) // factor.right
        if isinstance(quotient, Dim) and len(quotient.terms) == 1 and quotient.terms[0][1] == 1:
            self.rewrites[quotient.terms[0][0]] = (factor.right, as_dim(factor.left, self) - right)

    def _solve(self, zero: Dim | int, text: str) -> None:
        """Note that a term of `zero` is minus the others."""
        if not isinstance(zero, Dim):
            if zero:
                raise ValueError(
                    explain(f"Unsatisfiable explicit constraint: {text}.", fix="leave it out.")
                )
            return
        for monomial, c in zero.terms:
            if len(monomial) == 1 and monomial[0][1] == 1 and abs(c) == 1:
                factor = monomial[0][0]
                rest = build({m: -k * c for m, k in zero.terms if m != monomial}, self)
                if not isinstance(rest, Dim) or factor not in set(rest.factors()):
                    self.rewrites[monomial] = (1, rest)
                    return
        raise ValueError(
            explain(
                f"the constraint {text} cannot be solved for a variable.",
                fix="write it as a variable on the left, like 'b == 2*c', or as two inequalities.",
            )
        )

    def _settle(self) -> None:
        """Say the constraints of the variables that are left, where some equal others."""
        equal = {m[0][0]: right for m, (k, right) in self.rewrites.items()
                 if k == 1 and len(m) == 1 and m[0][1] == 1 and isinstance(m[0][0], str)}
        if not equal:
            return
        rules, said = self.rewrites, self.inequalities
        self.rewrites, self.inequalities = {}, []  # (each would make its own constraint true)

        def settled(x: Dim | int) -> Any:
            return x if not isinstance(x, Dim) else x.compute(
                lambda name: settled(equal[name]) if name in equal else variable(name, self),
                lambda n: n, lambda f, x, y: APPLY[f](x, y))

        found = [(kind, settled(left), settled(right)) for kind, left, right in self.constraints]
        for kind, left, right in found:
            if not isinstance(left, Dim) and not isinstance(right, Dim) and not (
                    _COMPARED[kind](left, right)):
                raise ValueError(explain(
                    f"Unsatisfiable explicit constraints: {self._said}.", fix="leave one out."))
        self.constraints = tuple(c for c in found if c[1] != c[2] and (
            isinstance(c[1], Dim) or isinstance(c[2], Dim)))
        known = [d for d in map(settled, said) if isinstance(d, Dim)]
        self.rewrites, self.inequalities = rules, known

    def __repr__(self) -> str:
        if hasattr(self, "_said"):
            return self._said
        rows = ", ".join(f"{left} {kind} {right}" for kind, left, right in self.constraints)
        return f"SymbolicScope({rows})"


# ---- extremes
def _extreme(name: str, x: Any, y: Any) -> Any:
    if not isinstance(x, Dim) and not isinstance(y, Dim):
        return max(x, y) if name == "max" else min(x, y)
    larger, smaller = (x, y) if name == "max" else (y, x)
    for lowest in (0, 1):  # without the need for sizes of at least 1 where that is possible
        for d, found in ((_difference(x, y), larger), (_difference(y, x), smaller)):
            if proved(d, lowest, 2):
                if lowest and isinstance(d, Dim):
                    d.scope.positive |= d.variables()
                return found
    if not isinstance(x, Dim):
        x, y = y, x
    return operation(name, x, y)


def _difference(x: Any, y: Any) -> Any:
    return x - y if isinstance(x, Dim) else -y + x


def max_dim(x: Any, y: Any) -> Any:
    """The larger of two dimensions or ints.

    Args:
      x, y: ints, or sizes that are known at the call only.

    Returns:
      An int, or such a size.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.core.max_dim(2, 3)
      3
    """
    return _extreme("max", x, y)


def min_dim(x: Any, y: Any) -> Any:
    """The smaller of two dimensions or ints.

    Args:
      x, y: ints, or sizes that are known at the call only.

    Returns:
      An int, or such a size.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.core.min_dim(2, 3)
      2
    """
    return _extreme("min", x, y)


APPLY: dict[str, Callable[[Any, Any], Any]] = {  # what Dim.compute applies
    "add": operator.add, "mul": operator.mul, "floordiv": floordiv, "mod": mod, "max": max_dim,
    "min": min_dim}
_COMPARED = {">=": operator.ge, "<=": operator.le, "==": operator.eq}


# ---- what others ask
def is_symbolic_dim(x: Any) -> bool:
    """Whether a size is known at the call only.

    Args:
      x: an entry of a shape.

    Returns:
      True for dimensions made by symbolic_shape and what is computed from them.

    Raises:
      Nothing.

    Example:
      >>> from calque import export
      >>> b, three = export.symbolic_shape("b, 3")
      >>> export.is_symbolic_dim(b), export.is_symbolic_dim(three)
      (True, False)
    """
    return isinstance(x, Dim)


def is_static(shape: Sequence[Any]) -> bool:
    """Whether all sizes are known."""
    return not any(isinstance(d, Dim) for d in shape)


def as_size(d: Any) -> Any:
    """An entry of a shape: an int or a Dim."""
    return d if isinstance(d, Dim) else int(d)


def guess(d: Any) -> Any:
    """A number for a size where only speed depends on it."""
    if not isinstance(d, Dim):
        return d
    return d.evaluate({name: _plausible(name, d.scope) for name in d.variables()})


def _plausible(name: str, scope: SymbolicScope) -> int:
    low, high = factor_bounds(name, scope, 1)
    return int(min(max(low, PLAUSIBLE), high))


def number(d: Any, dtype: Any) -> Any:
    """A size as a scalar of a dtype: a NumPy scalar, or traced."""
    return as_value[0](d, dtype) if isinstance(d, Dim) else np.dtype(dtype).type(d)


def slice_of(item: slice, size: Any) -> tuple[Any, Any, Any]:
    """(first position, how many, step) of a slice of an axis."""
    start, stop, step = item.start, item.stop, 1 if item.step is None else item.step
    if not any(isinstance(v, Dim) for v in (start, stop, step, size)):
        start, stop, step = item.indices(size)
        return start, len(range(start, stop, step)), step
    forward = sign(step) if isinstance(step, Dim) else step > 0

    def place(v: Any, default: Any, low: Any, high: Any) -> Any:
        if v is None:
            return default
        if is_nonnegative(v) is False:
            v = v + size
        return max_dim(min_dim(v, high), low)

    if forward:
        first, last = place(start, 0, 0, size), place(stop, size, 0, size)
        return first, max_dim(floordiv(last - first + step - 1, step), 0), step
    first, last = place(start, size - 1, -1, size - 1), place(stop, -1, -1, size - 1)
    return first, max_dim(floordiv(first - last - step - 1, -step), 0), step


def sign(step: Dim) -> bool:
    """Whether a step is positive; it is not 0."""
    if is_nonnegative(step - 1) is True or is_nonnegative(-step - 1) is True:
        return is_nonnegative(step) is True
    raise InconclusiveDimensionOperation(explain(
        f"The step {step} must be resolved statically if it is > 0 or < 0.",
        fix="give the step as an int, or a constraint on its variables to symbolic_shape."))


def in_int32(d: Any) -> bool:
    """Whether a size surely is an int32."""
    return bounds(d, 1)[1] < 2**31


def is_far(shape: Sequence[Any]) -> bool:
    """Whether int32 does not count the positions along an axis."""
    for n in shape:  # noqa: SIM110 (a generator costs as much as the rest of x[0])
        if type(n) is int and n > 0x7FFFFFFF:
            return True
    return False


def check_positions(name: str, size: Any, dtype: Any) -> None:
    """That int32 counts the positions along an axis, where it is the dtype of them."""
    if dtype == np.int32 and not isinstance(size, Dim) and size > 2**31:
        raise OverflowError(explain(
            f"{name}: an axis of {size} has positions that are too large to convert to int32.",
            fix="enable x64 (jax_enable_x64), or work on parts of the axis."))


def is_larger(d: Any, limit: int) -> bool:
    """Whether a size is surely above a limit, for choices that only speed depends on."""
    return guess(d) > limit


def scope_of(shapes: Sequence[Sequence[Any]]) -> SymbolicScope | None:
    """The scope of the first dimension in some shapes."""
    return next((d.scope for shape in shapes for d in shape if isinstance(d, Dim)), None)


# ---- text
_TOKENS = re.compile(
    r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<mark>\.\.\.|[-+*^(),])|(?P<other>\S))"
)


class _Parser:
    """Recursive descent: sum of products of powers; floordiv, mod, max, min of two sums."""

    def __init__(self, text: str, scope: SymbolicScope) -> None:
        self.text, self.scope = text, scope
        self.tokens = [
            (str(m.lastgroup), m[m.lastgroup or 0], m.start(m.lastgroup or 0))
            for m in _TOKENS.finditer(text)
        ]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, mark: str = "") -> tuple[str, str]:
        if self.at >= len(self.tokens) or mark and self.tokens[self.at][1] != mark:
            raise self.error(f"{mark!r} is expected" if mark else "more is expected")
        self.at += 1
        return self.tokens[self.at - 1][:2]

    def error(self, what: str) -> ValueError:
        at = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        return ValueError(
            explain(
                f"syntax error in symbolic shape {self.text!r}: {what} at "
                f"{self.text[at:] or 'the end'!r}.",
                fix="write dimensions as numbers and names, like 'b, 128', '2*b', 'b + 1', "
                "'floordiv(b, 2)'.",
            )
        )

    def whole(self) -> Any:
        found = self.sum()
        if self.peek():
            raise self.error("an operator is expected")
        return found

    def sum(self) -> Any:
        sign = -1 if self.peek() == "-" else 1
        if self.peek() in ("-", "+"):
            self.take()
        total = self.product() * sign
        while self.peek() in ("+", "-"):
            _, mark = self.take()
            more = self.product()
            total = total + more if mark == "+" else total + more * -1
        return total

    def product(self) -> Any:
        total = self.power()
        while self.peek() == "*":
            self.take()
            total = total * self.power()
        return total

    def power(self) -> Any:
        base = self.atom()
        if self.peek() == "^":
            self.take()
            kind, number = self.take()
            if kind != "number":
                raise self.error("a number is expected as the exponent")
            base = base ** int(number)
        return base

    def atom(self) -> Any:
        if self.peek() == "-":
            self.take()
            return self.atom() * -1
        kind, token = self.take()
        if kind == "number":
            return int(token)
        if token == "(":
            inner = self.sum()
            self.take(")")
            return inner
        if kind != "name":
            self.at -= 1
            raise self.error("a number or a name is expected")
        if token in OPERATIONS and self.peek() == "(":
            self.take("(")
            left = self.sum()
            self.take(",")
            right = self.sum()
            self.take(")")
            return {"floordiv": floordiv, "mod": mod, "max": max_dim, "min": min_dim}[token](
                left, right
            )
        return variable(token, self.scope)


def parse_dims(
    text: str, scope: SymbolicScope, like: Sequence[Any] | None = None
) -> tuple[Any, ...]:
    """The dimensions of a text, separated by commas; '_' and '...' are taken from `like`."""
    parser = _Parser(text, scope)
    closing = parser.peek() == "(" and parser.tokens[-1][1] == ")" and _one_pair(parser.tokens)
    if closing:
        parser.tokens = parser.tokens[1:-1]
    found: list[Any] = []
    while parser.peek():
        if parser.peek() in ("_", "..."):
            _, mark = parser.take()
            if like is None:
                parser.at -= 1
                raise parser.error(f"no 'like' shape was given for {mark!r}, which stands")
            left = len(like) - len(found)
            if left < 0 or mark == "_" and not left:
                raise parser.error(f"{mark!r} has no size because we parsed {len(found)} already "
                                   f"and 'like' shape has only {len(like)} dimensions, it stands")
            if mark == "...":
                if parser.peek() == ",":
                    parser.take()
                if parser.peek():
                    raise parser.error("'...' must be the last dimension, more stands")
                found += like[len(found) :]
                break
            found.append(like[len(found)])
        else:
            start = parser.at
            size = parser.sum()
            at = len(found)
            if like is not None and at < len(like) and is_static((size,)) and size != like[at]:
                parser.at = start
                raise parser.error(f"different size {size} for known dimension in dimension {at}; "
                                   f"like={tuple(like)}, it stands")
            found.append(size)
        if parser.peek():
            parser.take(",")
    if like is not None and len(found) != len(like):
        raise ValueError(
            explain(
                f"symbolic shape {text!r} has {len(found)} dimensions, and {tuple(like)} has "
                f"{len(like)}.",
                fix="give one dimension an axis, or end with '...'.",
            )
        )
    return tuple(found)


def _one_pair(tokens: Sequence[tuple[str, str, int]]) -> bool:
    """Whether the first parenthesis closes at the end."""
    depth = 0
    for i, (_, token, _) in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if not depth:
            return i == len(tokens) - 1
    return False


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[Any] | None = None,
) -> tuple[Any, ...]:
    """A shape with dimensions that are known at the call only.

    Args:
      shape_spec: text such as 'b, 128' or '2*b, b + 1, floordiv(c, 2)'; '_' and '...' take sizes
        from `like`; None is '...'.
      constraints: texts such as 'b >= 8', 'mod(b, 2) == 0' that every call fulfils (checked).
      scope: the scope of dimensions made before, to use their variables.
      like: a shape with the sizes for '_' and '...'.

    Returns:
      A tuple of ints and dimensions.

    Raises:
      ValueError: the text cannot be read, or a scope is given together with constraints.

    Example:
      >>> from calque import export
      >>> b, n = export.symbolic_shape("b, 128")
      >>> 2 * b + 1, n
      (2*b + 1, 128)
    """
    if scope is not None and constraints:
        raise ValueError(
            explain(
                "constraints belong to a scope, and a scope is given.",
                fix="give the constraints to SymbolicScope(...).",
            )
        )
    if isinstance(like, str):
        raise ValueError(explain(f"like must be a shape, got {like!r}."))
    made = scope if scope is not None else SymbolicScope(constraints)
    if shape_spec is not None and not isinstance(shape_spec, str):
        if isinstance(shape_spec, Sequence):  # a shape already
            return tuple(shape_spec)
        raise ValueError(
            explain(
                f"symbolic_shape takes a text, got {shape_spec!r}.", fix="write it like 'b, 128'."
            )
        )
    return parse_dims("..." if shape_spec is None else shape_spec, made, like)


__all__ = [
    "Dim",
    "SymbolicScope",
    "as_size",
    "bounds",
    "floordiv",
    "guess",
    "check_positions",
    "in_int32",
    "is_far",
    "is_larger",
    "is_nonnegative",
    "is_static",
    "is_symbolic_dim",
    "max_dim",
    "min_dim",
    "number",
    "operation",
    "parse_dims",
    "quotient",
    "scope_of",
    "sign",
    "slice_of",
    "symbolic_shape",
]
