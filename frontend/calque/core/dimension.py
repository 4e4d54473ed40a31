"""Arithmetic of dimensions that are known at the call only: integer polynomials over named
variables, with floordiv, mod, max and min as further factors; what is known of their values.

Arithmetic that gives a constant gives an int.  `==` says whether two are equal for every value
(undecided: False); order is decided from bounds and constraints, or
InconclusiveDimensionOperation is raised.  Variables are at least 1, as in JAX; unlike there, 0 is
allowed at the call as long as no comparison needed more, which the scope notes
(`SymbolicScope.positive`; divisors that may be 0: `.noted`).  Start reading at `Dim`; all others
import core.dims.  Imports core.errors, core.dtypes and core.avals (for a dimension as a value).
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calque.core.errors import InconclusiveDimensionOperation, explain

if TYPE_CHECKING:
    from calque.core.dims import SymbolicScope

T = TypeVar("T")


def _no_primitives(d: Any, dtype: Any) -> Any:
    raise RuntimeError("calque.core has no primitives installed; import calque.")


# How a dimension becomes a traced integer (of a dtype): set once by primitives/shape.
as_value: list[Callable[[Any, Any], Any]] = [_no_primitives]
OPERATIONS = ("floordiv", "mod", "max", "min")
LARGEST = 2**31 - 1  # no variable is larger: checked at the call
PLAUSIBLE = 512  # what an unknown size is taken for where only speed depends on it


@dataclass(frozen=True, slots=True)
class Operation:
    """floordiv, mod, max or min of two dimensions, a factor of a monomial."""

    name: str
    left: Dim | int
    right: Dim | int

    def __str__(self) -> str:
        return f"{self.name}({self.left}, {self.right})"


Factor = str | Operation
Monomial = tuple[tuple[Factor, int], ...]  # factors with exponents, ascending; () is 1


def _size(x: Factor | Dim | int) -> int:
    if isinstance(x, str):
        return 1
    if isinstance(x, Operation):
        return 1 + _size(x.left) + _size(x.right)
    if isinstance(x, Dim):
        return sum(max(1, sum(_size(f) * n for f, n in m)) for m, _ in x.terms)
    return 1


def _factor_key(f: Factor) -> tuple[Any, ...]:
    return (isinstance(f, Operation), str(f))


def _monomial_key(m: Monomial) -> tuple[Any, ...]:
    return (sum(_size(f) * n for f, n in m), [(_factor_key(f), n) for f, n in reversed(m)])


class Dim:
    """An integer expression of dimension variables, in normal form; hashable, immutable."""

    __slots__ = ("terms", "scope", "_hash", "_text")

    __array_priority__ = 100  # NumPy arrays leave arithmetic with one to it
    aval: Any  # int64 or int32, as canonical: set by core.avals
    terms: tuple[tuple[Monomial, int], ...]  # descending; never a constant alone
    scope: SymbolicScope

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], scope: SymbolicScope) -> None:
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "_hash", hash((terms, id(scope))))
        object.__setattr__(self, "_text", None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("dimensions are immutable")

    # ---- identity and text
    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Dim)
            and self.scope is other.scope
            and self._hash == other._hash  # type: ignore[attr-defined]
            and self.terms == other.terms
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __str__(self) -> str:
        if self._text is None:  # type: ignore[attr-defined]
            object.__setattr__(self, "_text", _text(self))
        return self._text  # type: ignore[attr-defined]

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise TypeError(explain(f"the symbolic dimension {self} cannot be pickled.",
                                fix="make it anew with symbolic_shape."))

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self

    # ---- structure
    def factors(self) -> Iterator[Factor]:
        """Every variable and operation, also inside of operations."""
        for monomial, _ in self.terms:
            for f, _ in monomial:
                yield f
                if isinstance(f, Operation):
                    for x in (f.left, f.right):
                        if isinstance(x, Dim):
                            yield from x.factors()

    def variables(self) -> set[str]:
        """The names of its variables."""
        return {f for f in self.factors() if isinstance(f, str)}

    def linear(self) -> tuple[str, int, int] | None:
        """(name, factor, offset) of factor * name + offset; None for anything else."""
        rest = [(m, c) for m, c in self.terms if m]
        offset = next((c for m, c in self.terms if not m), 0)
        if len(rest) == 1 and len(rest[0][0]) == 1:
            ((((f, n),), c),) = rest
            if isinstance(f, str) and n == 1:
                return f, c, offset
        return None

    def compute(
        self,
        variable: Callable[[str], T],
        number: Callable[[int], T],
        apply: Callable[[str, T, T], T],
    ) -> T:
        """Its value in any arithmetic; apply(name, x, y) knows add, mul and OPERATIONS."""

        def value(x: Dim | int) -> T:
            return x.compute(variable, number, apply) if isinstance(x, Dim) else number(x)

        total: T | None = None
        for monomial, c in self.terms:
            term: T | None = None if c != 1 and monomial else number(c) if not monomial else None
            for f, n in monomial:
                one = (
                    variable(f)
                    if isinstance(f, str)
                    else apply(f.name, value(f.left), value(f.right))
                )
                for _ in range(n):
                    term = one if term is None else apply("mul", term, one)
            assert term is not None
            if c != 1 and monomial:
                term = apply("mul", term, number(c))
            total = term if total is None else apply("add", total, term)
        assert total is not None
        return total

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Its value where the variables have these values."""
        return self.compute(
            lambda name: sizes[name], lambda n: n, lambda name, x, y: int(_PYTHON[name](x, y))
        )

    # ---- arithmetic
    def _combine(self, other: Any, what: str, sign: int = 1) -> Any:
        if isinstance(other, Dim):
            _same_scope(self, other, what)
            more: Sequence[tuple[Monomial, int]] = other.terms
        else:
            more = [((), other)]
        total = dict(self.terms)
        for m, c in more:
            total[m] = total.get(m, 0) + sign * c
        return build(total, self.scope)

    def __add__(self, other: Any) -> Any:
        number = _integer(other)
        return self._value("__add__", other) if number is None else self._combine(
            number, "addition")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        number = _integer(other)
        return self._value("__sub__", other) if number is None else self._combine(
            number, "subtraction", -1)

    def __rsub__(self, other: Any) -> Any:
        number = _integer(other)
        return self._value("__rsub__", other) if number is None else (-self) + number

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __mul__(self, other: Any) -> Any:
        number = _integer(other)
        if number is None:
            return self._value("__mul__", other)
        if isinstance(number, int):
            return build({m: c * number for m, c in self.terms}, self.scope)
        _same_scope(self, number, "multiplication")
        total: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in number.terms:
                product = _times(m, n)
                total[product] = total.get(product, 0) + c * d
        return build(total, self.scope)

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, int):
            return self._value("__pow__", power)
        if power < 0:
            raise ValueError(explain(
                f"Symbolic dimension cannot be raised to negative powers: '{self}' ** '{power}'.",
                fix="convert it first: jnp.float32(d) ** power."))
        result: Any = 1
        for _ in range(power):
            result = self * result
        return result

    def __rpow__(self, other: Any) -> Any:
        return self._value("__rpow__", other)

    def __floordiv__(self, other: Any) -> Any:
        number = _integer(other)
        return self._value("__floordiv__", other) if number is None else floordiv(self, number)

    def __rfloordiv__(self, other: Any) -> Any:
        number = _integer(other)
        return self._value("__rfloordiv__", other) if number is None else floordiv(number, self)

    def __mod__(self, other: Any) -> Any:
        number = _integer(other)
        return self._value("__mod__", other) if number is None else mod(self, number)

    def __rmod__(self, other: Any) -> Any:
        number = _integer(other)
        return self._value("__rmod__", other) if number is None else mod(number, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._value("__truediv__", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._value("__rtruediv__", other)

    def _value(self, method: str, other: Any) -> Any:
        """Arithmetic with what is no dimension: this one becomes an array."""
        if isinstance(other, Dim):
            other = other.dimension_as_value()
        elif not hasattr(other, "dtype") and not isinstance(other, int | float | complex):
            return NotImplemented
        return getattr(self.dimension_as_value(), method)(other)

    def dimension_as_value(self) -> Any:
        """This dimension as a traced integer."""
        return as_value[0](self, None)

    __jax_array__ = dimension_as_value

    # ---- order
    def _compare(self, other: Any, sign: str) -> bool:
        number = _integer(other)
        if number is None:
            return NotImplemented
        left, right = (self, number) if sign in (">=", ">") else (number, self)
        difference = as_dim(left, self.scope) - right - (sign in (">", "<"))
        found = is_nonnegative(difference)
        if found is None:
            bound = number + {">": 1, "<": -1}.get(sign, 0)
            raise InconclusiveDimensionOperation(
                explain(
                    f"Symbolic dimension comparison '{self}' {sign} '{other}' is inconclusive"
                    f"{_given(self.scope)}.",
                    fix="make the code not depend on it, or give a constraint, such as "
                    f"constraints=['{self} {sign[0]}= {bound}'] to symbolic_shape.",
                )
            )
        return found

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, ">=")

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, ">")

    def __le__(self, other: Any) -> bool:
        return self._compare(other, "<=")

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, "<")

    def __bool__(self) -> bool:
        return True  # not provably 0

    def __index__(self) -> int:
        raise InconclusiveDimensionOperation(explain(
            f"Symbolic dimension '{self}' used in a context that requires a constant.",
            fix="give a number for that dimension, or use it in arithmetic with arrays only."))

    __int__ = __float__ = __complex__ = __index__


_PYTHON: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}


def _integer(x: Any) -> Dim | int | None:
    """x as a dimension; None if it is none."""
    if isinstance(x, Dim) or type(x) is int:
        return x
    return int(x) if isinstance(x, int | np.integer) else None


def _given(scope: SymbolicScope) -> str:
    """What a scope says of its variables, for messages."""
    said = str(scope)[len("SymbolicScope("):-1]
    return f" with constraints {said}" if said else ""


def as_dim(x: Dim | int, scope: SymbolicScope) -> Any:
    """x in a form whose arithmetic stays here."""
    return x if isinstance(x, Dim) else _Number(x, scope)


class _Number(int):
    """An int that knows a scope, for arithmetic that begins with a number."""

    def __new__(cls, value: int, scope: SymbolicScope) -> _Number:
        return super().__new__(cls, value)

    def __sub__(self, other: Any) -> Any:
        return -other + int(self) if isinstance(other, Dim) else int(self) - other


def _same_scope(x: Dim, y: Dim, what: str) -> None:
    if x.scope is not y.scope:
        raise ValueError(
            explain(
                f"Invalid mixing of symbolic scopes for {what}: '{x}' and '{y}' were made apart.",
                fix="make both with one call of symbolic_shape, or pass it scope=other.scope.",
            )
        )


def _times(m: Monomial, n: Monomial) -> Monomial:
    powers: dict[Factor, int] = dict(m)
    for f, k in n:
        powers[f] = powers.get(f, 0) + k
    return tuple(sorted(powers.items(), key=lambda pair: _factor_key(pair[0])))


def divided(m: Monomial, n: Monomial) -> Monomial | None:
    """m / n where that is a monomial."""
    powers = dict(m)
    for f, k in n:
        powers[f] = powers.get(f, 0) - k
    if min(powers.values(), default=0) < 0:
        return None
    return tuple(pair for pair in powers.items() if pair[1])


def build(total: Mapping[Monomial, int], scope: SymbolicScope) -> Any:
    """The Dim or int of monomials with coefficients; equalities of the scope are applied."""
    for left, (k, right) in scope.rewrites.items():
        for m, c in total.items():
            others = divided(m, left) if c and c % k == 0 else None
            if others is not None:
                rest = build({n: v for n, v in total.items() if n != m}, scope)
                return build({others: c // k}, scope) * right + rest
    terms = sorted(((m, c) for m, c in total.items() if c),
                   key=lambda t: _monomial_key(t[0]), reverse=True)
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    return Dim(tuple(terms), scope)


def variable(name: str, scope: SymbolicScope) -> Any:
    """The dimension of a variable."""
    return build({((name, 1),): 1}, scope)


def operation(name: str, x: Dim | int, y: Dim | int) -> Any:
    scope = x.scope if isinstance(x, Dim) else y.scope  # type: ignore[union-attr]
    return build({((Operation(name, x, y), 1),): 1}, scope)


def _text(d: Dim) -> str:
    parts: list[str] = []
    for m, c in d.terms:
        factors = [str(f) if n == 1 else f"{f}^{n}" for f, n in m]
        if abs(c) != 1 or not m:
            factors.insert(0, str(abs(c)))
        sign = "-" if c < 0 else "+"
        body = "*".join(factors)
        parts.append(f"{sign} {body}" if parts or c < 0 else body)
    return " ".join(parts)


# ---- division
def _exact(x: Dim, y: Dim | int) -> Any:
    """The quotient of polynomials, None where a remainder is left."""
    if isinstance(y, int):
        if any(c % y for _, c in x.terms):
            return None
        return build({m: c // y for m, c in x.terms}, x.scope)
    quotient: Any = 0
    rest: Any = x
    leading, factor = y.terms[0]
    while isinstance(rest, Dim):
        monomial, c = rest.terms[0]
        powers = dict(monomial)
        for f, n in leading:
            powers[f] = powers.get(f, 0) - n
        if c % factor or any(n < 0 for n in powers.values()):
            return None
        q = build({tuple((f, n) for f, n in powers.items() if n): c // factor}, x.scope)
        quotient, rest = quotient + q, rest - y * q
    return quotient if rest == 0 else None


def quotient(x: Dim | int, y: Dim | int) -> Any:
    """x / y where it is whole for every value (also at y == 0, where any is right), else None."""
    if isinstance(x, Dim):
        return _exact(x, y) if not isinstance(y, int) or y else None
    if isinstance(y, Dim):
        return 0 if x == 0 else None
    return x // y if y and x % y == 0 else None


def floordiv(x: Any, y: Any) -> Any:
    """x // y of dimensions."""
    if not isinstance(x, Dim) and not isinstance(y, Dim):
        return x // y
    if isinstance(y, int):
        if y == 0:
            raise ZeroDivisionError(f"division of the dimension {x} by zero")
        whole = {m: c // y for m, c in x.terms if c % y == 0}
        rest = build({m: c for m, c in x.terms if c % y}, x.scope)
        front = build(whole, x.scope)
        low, high = bounds(rest, 0)
        if low > -math.inf and high < math.inf and low // y == high // y:
            return front + int(low // y)
        return front + operation("floordiv", rest, y)
    note_divisor(y)
    if isinstance(x, Dim):
        _same_scope(x, y, "division")
        found = _exact(x, y)
        if found is not None:
            return found
    elif x == 0:
        return 0
    return operation("floordiv", x, y)


def mod(x: Any, y: Any) -> Any:
    """x % y of dimensions."""
    if not isinstance(x, Dim) and not isinstance(y, Dim):
        return x % y
    if isinstance(y, int):
        if y == 0:
            raise ZeroDivisionError(f"the dimension {x} modulo zero")
        rest = build({m: c for m, c in x.terms if c % y}, x.scope)
        if not isinstance(rest, Dim):
            return rest % y
        low, high = bounds(rest, 0)
        if low >= 0 and high < y:
            return rest
        return operation("mod", rest, y)
    note_divisor(y)
    if isinstance(x, Dim) and _exact(x, y) is not None or not isinstance(x, Dim) and x == 0:
        return 0
    return operation("mod", x, y)


def note_divisor(y: Dim) -> None:
    """Divisors are not 0: noted, for calls to check, where bounds do not say so."""
    if is_nonnegative(y - 1) is not True and is_nonnegative(-y - 1) is not True:
        y.scope.noted[y] = "!="


# ---- bounds
def bounds(d: Any, lowest: int) -> tuple[float, float]:
    """An interval that holds d's values if every variable is at least `lowest`."""
    if not isinstance(d, Dim):
        return d, d
    low = high = 0.0
    for m, c in d.terms:
        span = (1.0, 1.0)
        for f, n in m:
            one = factor_bounds(f, d.scope, lowest)
            for _ in range(n):
                span = _product(span, one)
        a, b = _product(span, (float(c), float(c)))
        low, high = low + a, high + b
    return low, high


def _product(x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
    ends = [0.0 if 0 in (a, b) else a * b for a in x for b in y]
    return min(ends), max(ends)


def factor_bounds(f: Factor, scope: SymbolicScope, lowest: int) -> tuple[float, float]:
    if isinstance(f, str):
        low, high = float(lowest), float(LARGEST)
        for e in scope.inequalities:
            found = e.linear()
            if found is not None and found[0] == f:
                _, c, offset = found
                if c > 0:
                    low = max(low, float(-(offset // c)))
                else:
                    high = min(high, float(offset // -c))
        return low, high
    a, b = bounds(f.left, lowest)
    least, most = bounds(f.right, lowest)
    if f.name == "max":
        return max(a, least), max(b, most)
    if f.name == "min":
        return min(a, least), min(b, most)
    if least < 0 < most:
        return -math.inf, math.inf
    if f.name == "mod":
        return (0.0, most - 1) if least >= 0 else (least + 1, 0.0)
    if least < 0:
        a, b, least, most = -b, -a, -most, -least
    least = max(least, 1.0)  # no divisor is 0 (note_divisor)
    ends = [_floor(x, y) for x in (a, b) for y in (least, most)]
    return min(ends), max(ends)


def _floor(x: float, y: float) -> float:
    """x // y for a positive y."""
    if math.isinf(x):
        return x
    if math.isinf(y):
        return 0.0 if x >= 0 else -1.0
    return x // y


def is_nonnegative(d: Any) -> bool | None:
    """Whether d >= 0 for every value of its variables; None if it depends on them.

    Decided with variables from 0 on where that is possible; else from 1 on, which is noted.
    """
    if not isinstance(d, Dim):
        return bool(d >= 0)
    for lowest in (0, 1):
        if proved(d, lowest, 2):
            found = True
        elif proved(-d - 1, lowest, 2):
            found = False
        else:
            continue
        if lowest:
            d.scope.positive |= d.variables()
        return found
    return None


def proved(d: Any, lowest: int, depth: int) -> bool:
    """Whether d >= 0 follows from the bounds and up to `depth` constraints."""
    if bounds(d, lowest)[0] >= 0:
        return True
    if not depth or not isinstance(d, Dim):
        return False
    for left, (n, _) in d.scope.rewrites.items():  # n times a part of d is known otherwise
        if n > 1 and any(divided(m, left) is not None and abs(c) < 2**40 for m, c in d.terms):
            return proved(d * n, lowest, depth)
    for e in [*d.scope.inequalities, *_implied(d, lowest)]:
        theirs = dict(e.terms)
        for m, c in d.terms:
            k = theirs.get(m, 0)
            if m and k and (c < 0) == (k < 0):
                rest = d * abs(k) - e * abs(c)
                if proved(rest, lowest, depth - 1):
                    return True
    return False


def _implied(d: Dim, lowest: int) -> Iterator[Dim]:
    """What holds for the operations in d."""
    for f in set(d.factors()):
        if isinstance(f, Operation):
            it = build({((f, 1),): 1}, d.scope)
            if f.name in ("max", "min"):
                for x in (f.left, f.right):
                    e = it - x if f.name == "max" else -it + x
                    if isinstance(e, Dim):
                        yield e
            elif bounds(f.right, lowest)[0] >= 0:
                found = [-it - 1 + f.right] if f.name == "mod" else [
                    -(it * f.right) + f.left, it * f.right + f.right - 1 - f.left]
                yield from (e for e in found if isinstance(e, Dim))
