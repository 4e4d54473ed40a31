"""Rules that say which dimension of an operand is which of a result: custom_partitioning's.

A rule names the factors of each dimension, as `einsum` names axes: 'i j, j k -> i k'; '(i k)' is a
dimension of two factors, the first the major one, and '...' stands for leading dimensions.  Start
reading at `parsed`, then `factors_of`.
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.errors import explain

BATCHING = "…"
_TOKEN = re.compile(rf"{BATCHING}\d*|\w+|[(),]")
_KINDS = ("reduction_factors", "need_replication_factors", "permutation_factors")
_EXAMPLE = "write a rule like 'i j, j k -> i k'."


def _wrong(message: str, fix: str = _EXAMPLE) -> ValueError:
    return ValueError(explain(message, fix=fix))


def _is_batching(factor: str) -> bool:
    return factor[:1] == BATCHING and (len(factor) == 1 or factor[1:].isdigit())


def _check_name(factor: str) -> None:
    if not factor[:1].isalpha():
        raise _wrong(f"Factor names have to start with a letter, but got '{factor[:1]}'")
    for c in factor:
        if not (c == "_" or c.isalnum()):
            raise _wrong(f"Unknown character '{c}' in factor {factor!r}.")


class CompoundFactor(tuple[str, ...]):
    """The factors of one dimension, the major one first.

    Args:
      *factors: two names or more.

    Raises:
      ValueError: there are fewer, or one is no name.

    Example:
      >>> from calque.experimental.custom_partitioning import CompoundFactor
      >>> CompoundFactor("i", "k")
      ('i', 'k')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise _wrong("A compound factor should contain at least two factors",
                         "write the name alone.")
        for f in factors:
            if not isinstance(f, str):
                raise _wrong(f"Each element of CompoundFactor must be a str, but got {type(f)}",
                             "give names.")
            if _is_batching(f):
                raise _wrong("Ellipsis can't be used in a compound factor",
                             "let it stand for leading dimensions.")
            _check_name(f)
        return tuple.__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """The factors of each dimension of one array.

    Args:
      *dim_mappings: a name or a CompoundFactor for each dimension; the first may be BATCHING, which
        stands for any number of leading dimensions.

    Raises:
      ValueError: one is none of these, or BATCHING is not the first.

    Example:
      >>> from calque.experimental.custom_partitioning import ArrayMapping, BATCHING
      >>> ArrayMapping(BATCHING, "i")
      ('…', 'i')
    """

    __slots__ = ()

    def __new__(cls, *dim_mappings: Any) -> ArrayMapping:
        for i, d in enumerate(dim_mappings):
            if isinstance(d, CompoundFactor):
                continue
            if not isinstance(d, str):
                raise _wrong("Each element of ArrayMapping must be a str or CompoundFactor, but "
                             f"got {type(d)}", "give names.")
            if not _is_batching(d):
                _check_name(d)
            elif i:
                raise _wrong("Ellipsis can only be used at the beginning of a dimension",
                             "put it first.")
        return tuple.__new__(cls, dim_mappings)


class SdyShardingRule:
    """Which dimensions of operands and results are the same.

    Args:
      operand_mappings: for each operand an ArrayMapping, or a tuple like it.
      result_mappings: the same of the results.
      reduction_factors: factors that operands have and results have not, over which devices' parts
        are summed.
      need_replication_factors: factors whose dimensions the implementation wants whole.
      permutation_factors: factors along which devices pass on their parts.
      **factor_sizes: sizes of the factors that only stand in CompoundFactors.

    Raises:
      ValueError: a factor's size is missing or needless, or a factor that is named is not in the
        rule, stands twice, or in two of the lists.

    Example:
      >>> from calque.experimental.custom_partitioning import SdyShardingRule
      >>> rule = SdyShardingRule((("i", "j"), ("j", "k")), (("i", "k"),), reduction_factors=("j",))
      >>> rule.reduction_factors
      ('j',)
    """

    def __init__(self, operand_mappings: tuple[Any, ...], result_mappings: tuple[Any, ...], *,
                 reduction_factors: tuple[str, ...] = (),
                 need_replication_factors: tuple[str, ...] = (),
                 permutation_factors: tuple[str, ...] = (), **factor_sizes: int) -> None:
        self.operand_mappings, self.result_mappings = operand_mappings, result_mappings
        self.factor_sizes = factor_sizes
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        dims = [d for m in (*operand_mappings, *result_mappings) for d in m]
        whole = {d for d in dims if isinstance(d, str)}
        every = whole.union(*[d for d in dims if not isinstance(d, str)])
        self._check_sizes(every, whole)
        seen: set[str] = set()
        for kind in _KINDS:
            self._check_special(kind, every, seen)

    def _check_sizes(self, every: set[str], whole: set[str]) -> None:
        for f in self.factor_sizes:
            if f not in every:
                raise _wrong(f"Factor {f} is not used in the rule, but size is provided",
                             "leave its size out.")
            if f in whole:
                raise _wrong(f"Factor {f} represents a whole dimension; do not specify its size",
                             "leave its size out.")
        for f in sorted(every - whole):
            if f not in self.factor_sizes:
                raise _wrong(f"Factor {f} is only used in compound factors; must specify its size",
                             f"pass {f}=size.")

    def _check_special(self, kind: str, every: set[str], seen: set[str]) -> None:
        factors = getattr(self, kind)
        if not isinstance(factors, tuple):
            raise _wrong(f"{kind} must be a tuple of factors, got {factors!r}", "write ('i',).")
        if len(set(factors)) < len(factors):
            raise _wrong(f"{kind} contains duplicated factors", "name each once.")
        for f in factors:
            if f not in every:
                raise _wrong(f"Factor {f} in {kind} is not used in the rule", "name one of it.")
            if f in seen:
                raise _wrong(f"Factor {f} can only be in one of the reduction, need replication, "
                             "or permutation factor sets.", "choose one.")
            seen.add(f)

    def __str__(self) -> str:
        special = "".join(f" {kind}={getattr(self, kind)}" for kind in _KINDS
                          if getattr(self, kind))
        return (f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, "
                f"{self.factor_sizes}{special})")

    __repr__ = __str__


# ---- rules as text
def parsed(rule: str, **options: Any) -> SdyShardingRule:
    """The rule that a text says; options: as of SdyShardingRule."""
    sizes = {k: v for k, v in options.items() if k not in _KINDS}
    if any(not isinstance(v, int) for v in sizes.values()):
        raise TypeError(explain(f"factor_sizes must be a dict of str to int, but got {sizes}",
                                fix="pass numbers."))
    if BATCHING in rule:
        raise _wrong(f"Unknown character '{BATCHING}' in rule {rule!r}", "write three dots.")
    text = rule.replace("...", BATCHING)
    if "." in text:
        raise _wrong("Character '.' must be used inside ellipsis '...'", "write three dots.")
    if text.count("->") != 1:
        raise _wrong(f"There is no -> in rule: '{rule}'" if "->" not in text else
                     f"There is more than one -> in rule: '{rule}'")
    operands, results = text.split("->")
    return SdyShardingRule(_mappings(operands, rule), _mappings(results, rule), **options)


def _mappings(text: str, rule: str) -> tuple[ArrayMapping, ...]:
    """One side of a rule."""
    if left := _TOKEN.sub(" ", text).strip():
        raise _wrong(f"Unknown character '{left[0]}' in rule: '{rule}'")
    arrays: list[list[Any]] = [[]]
    inside: list[str] | None = None  # of brackets
    for token in _TOKEN.findall(text):
        if token == "(":
            if inside is not None:
                raise _wrong("Compound factors should be one level, nested brackets are not "
                             f"allowed: '{rule}'")
            inside = []
        elif token == ")":
            if inside is None:
                raise _wrong(f"Brackets are not balanced in rule: '{rule}'")
            if len(inside) < 2:
                raise _wrong(f"Brackets should contain at least two factors: '{rule}'")
            arrays[-1].append(CompoundFactor(*inside))
            inside = None
        elif token == ",":
            if inside is not None:
                raise _wrong(f"Brackets are not balanced in rule: '{rule}'")
            arrays.append([])
        elif inside is not None:
            if _is_batching(token):
                raise _wrong("Ellipsis can only be used at the beginning of a dimension")
            inside.append(token)
        else:
            arrays[-1].append(token)
    if inside is not None:
        raise _wrong(f"Brackets are not balanced in rule: '{rule}'")
    return tuple(ArrayMapping(*a) for a in arrays)


# ---- rules as factors of the dimensions
class _Factors:
    """The factors of arrays, numbered, with their sizes."""

    def __init__(self, rule: SdyShardingRule) -> None:
        self.rule = rule
        self.numbers: dict[Any, int] = {}
        self.sizes: dict[int, int] = {}
        self.leading: dict[str, int] = {}  # dimensions that '...' of a group stands for

    def number(self, name: Any, size: int | None) -> int:
        """A factor's; its size is the least of its dimensions'."""
        n = self.numbers.setdefault(name, len(self.numbers))
        if size is not None:
            have = self.sizes.setdefault(n, size)
            if isinstance(name, tuple) and have != size:
                raise _wrong(f"Batching dimension {name[0]}_{name[1]} corresponds to two sizes: "
                             f"{have} and {size}", "give arrays whose leading dimensions agree.")
            self.sizes[n] = min(have, size)
        return n

    def of(self, what: str, mapping: Sequence[Any], shape: Sequence[Any]) -> list[tuple[int, ...]]:
        """The factors of each dimension of one array."""
        dims, lead = list(mapping), 0
        found: list[tuple[int, ...]] = []
        if dims and isinstance(dims[0], str) and _is_batching(dims[0]):
            group = dims.pop(0)[1:].lstrip("0") or "0"
            lead = max(len(shape) - len(dims), 0)
            if self.leading.setdefault(group, lead) != lead:
                raise _wrong("Ellipsis represents different number of leading dimensions "
                             f"{self.leading[group]} and {lead}", "give arrays of equal ranks.")
            found += [(self.number((group, i), shape[i]),) for i in range(lead)]
        if len(dims) + lead != len(shape):
            raise _wrong(f"Sharding rule {what} has rank {len(dims) + lead}, but the operation "
                         f"{what} has rank {len(shape)}", "name a factor for each dimension.")
        for d, size in zip(dims, shape[lead:]):
            if isinstance(d, str):
                found.append((self.number(d, size),))
            else:
                found.append(tuple(self.number(f, self.rule.factor_sizes.get(f)) for f in d))
        return found

    def check(self, what: str, mapping: Sequence[Any], dims: Sequence[tuple[int, ...]],
              shape: Sequence[Any]) -> None:
        for factors, size in zip(dims, shape):
            made = math.prod(self.sizes.get(f, 1) for f in factors)
            if len(factors) > 1 and made != size:
                names = next(d for d in mapping if not isinstance(d, str) and tuple(
                    self.numbers[f] for f in d) == factors)
                raise _wrong(f"{what} actual size {size} doesn't match the size {made} derived "
                             f"from the compound factors {tuple(names)}", "mend their sizes.")


def factors_of(rule: SdyShardingRule, operands: Sequence[Any], results: Sequence[Any]) -> Any:
    """(factors of operands' dimensions, of results', sizes), for arrays of these types."""
    rows = []
    for kind, mappings, types in (("operand", rule.operand_mappings, operands),
                                  ("result", rule.result_mappings, results)):
        if len(mappings) != len(types):
            raise _wrong(f"Sharding rule has {len(mappings)} {kind}s, but the operation has "
                         f"{len(types)} {kind}s", "let it name each array.")
        rows += [(f"{i}th {kind}", m, t.shape) for i, (m, t) in enumerate(zip(mappings, types))]
    known = _Factors(rule)
    dims = [known.of(*row) for row in rows]
    for (what, mapping, shape), found in zip(rows, dims):
        known.check(what, mapping, found, shape)
    return dims[:len(operands)], dims[len(operands):], known.sizes


Rule = SdyShardingRule | Callable[..., Any] | None


def as_rule(given: Any, options: dict[str, Any]) -> Rule:
    """What def_partition is given, as a rule or a function that gives one."""
    if isinstance(given, str):
        return parsed(given, **options)
    rest = {k: v for k, v in options.items() if v or k not in _KINDS}
    if rest:
        raise _wrong(f"Unknown keyword arguments: {rest}",
                     "a rule that is no text has them itself.")
    if given is None or isinstance(given, SdyShardingRule) or callable(given):
        return given
    raise TypeError(explain(f"rule must be a str, but got {type(given)}", fix=_EXAMPLE))


def produced(given: Any) -> SdyShardingRule:
    """The rule that a function gave: one, a text, or a text and its options."""
    options: dict[str, Any] = {}
    if isinstance(given, (tuple, list)) and len(given) == 2:
        given, options = given
    if isinstance(given, str):
        return parsed(given, **options)
    if isinstance(given, SdyShardingRule):
        return given
    raise _wrong("sharding_rule callable must produce either an SdyShardingRule object or an "
                 f"Einsum-like notation string, it gave {given!r}.")


__all__ = ["BATCHING", "ArrayMapping", "CompoundFactor", "Rule", "SdyShardingRule", "as_rule",
           "factors_of", "parsed", "produced"]
