"""What a loop computes anew in every step from its consts alone is computed before it; calls with
rules of their own, which no transformation will see any more, become plain ones.

What every step hands on as it got it is a const, too.  Spread scalars and counts stay, and what is
computed of them element by element: they cost a register in the loop and memory before it; but
counts move where all else runs in registers.  What moves has its own.  Start at `hoist`.
"""
from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from calque.core.dims import guess
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.lowering.passes.clients import expanded, is_const
from calque.lowering.passes.cost import is_callback
from calque.lowering.passes.flat import flat
from calque.lowering.passes.loops import is_map, lanes
from calque.lowering.passes.parts import direct
from calque.lowering.passes.same import merged

# Calls that transformations treat in ways of their own are plain calls here: name -> its Program.
CALLS = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
         "custom_vmap_call": "call_jaxpr",
         "checkpoint": "jaxpr"}  # (but for a second computation: it stays one)
# what they are on whole arrays is a call
EXPANDED = ("shard_map", "pallas_call", "custom_partitioning")
MARKS = frozenset((
    "sharding_constraint", "layout_constraint", "shard_alike", "pvary", "inspect_sharding",
    "preduced", "reduced_invary_cast", "reduced_vary_cast", "vary_unreduced_cast"))
LARGEST = 1 << 24  # elements of a value that is worth keeping


def hoist(p: Program) -> Program:
    """p with the invariant equations of its loops, at any depth, moved out of them."""
    return p.derived("hoist", lambda: _hoist(p))


def _unmarked(p: Program) -> Program:
    """p without the equations that only say where a value is, or that its type is not weak."""
    results = set(p.outputs)
    marks = {id(e) for e in p.equations if e.name in MARKS or (
        e.name == "convert_element_type" and e.outputs[0] not in results
        and e.inputs[0].aval.dtype == e.outputs[0].aval.dtype)}
    if not marks:
        return p
    env: dict[Atom, Atom] = {}
    equations = []
    for e in p.equations:
        ins = tuple(env.get(a, a) for a in e.inputs)
        if id(e) in marks:
            env.update(zip(e.outputs, ins))
        else:
            equations.append(e.replace(inputs=ins))
    return p.replace(equations=equations, outputs=[env.get(o, o) for o in p.outputs])


def _hoist(p: Program) -> Program:
    p = direct(_unmarked(p))
    equations: list[Equation] = []
    same: dict[Atom, Atom] = {}  # results of loops that are what they began with
    for e in p.equations:
        if same:
            e = e.reading(same)
        e = _inner_hoisted(e)
        if e.name == "scan" and e.params["length"] == 1:
            equations += _one_step(e, same)
            continue
        if e.name in ("scan", "while"):
            e = _constant_carries(e, same)
        if e.name == "scan":
            equations += _outside(e, {"jaxpr": (0, e.params["num_consts"], "num_consts")})
        elif e.name == "while":
            k, n = e.params["cond_nconsts"], e.params["body_nconsts"]
            equations += _outside(e, {"cond_jaxpr": (0, k, "cond_nconsts"),
                                      "body_jaxpr": (k, k + n, "body_nconsts")})
        else:
            equations.append(e)
    if tuple(equations) == p.equations:
        return p
    outputs = [same.get(o, o) for o in p.outputs]
    return Program(p.inputs, equations, outputs, p.const_vars, p.consts, p.name)


def _one_step(e: Equation, same: dict[Atom, Atom]) -> list[Equation]:
    """The equations of a scan of one step, whose number is known then.  same: gets what stands for
    its results."""
    p, body = e.params, flat(e.params["jaxpr"])
    given, made = p["num_consts"] + p["num_carry"], list[Equation]()

    def reshaped(a: Atom, shape: Sequence[int]) -> Var:
        out = Var(a.aval.update(shape=tuple(shape)))
        made.append(Equation(registry["reshape"], (a,), (out,), {
            "new_sizes": tuple(shape), "dimensions": None, "sharding": None}, e.source, e.scope))
        return out

    env: dict[Atom, Atom] = dict(zip(body.inputs, (*e.inputs[:given], *[
        reshaped(a, a.aval.shape[1:]) for a in e.inputs[given:]])))
    for q in body.equations:
        fresh = tuple(Var(v.aval) for v in q.outputs)
        made.append(q.replace(inputs=tuple(env.get(a, a) for a in q.inputs), outputs=fresh))
        env.update(zip(q.outputs, fresh))
    outputs = [env.get(o, o) for o in body.outputs]
    carried = p["num_carry"]
    same.update(zip(e.outputs, [*outputs[:carried], *[
        reshaped(o, (1, *o.aval.shape)) for o in outputs[carried:]]]))
    return made


def _constant_carries(e: Equation, same: dict[Atom, Atom]) -> Equation:
    """The loop e with what every step hands on as it got it among its consts: a matrix that is
    carried along only to be read was copied into the loop's result.  same: gets what stands for
    results that e has no more."""
    params, loops = e.params, e.name == "while"
    name = "body_jaxpr" if loops else "jaxpr"
    body: Program = flat(params[name])
    k = params["body_nconsts"] if loops else params["num_consts"]
    before = params["cond_nconsts"] if loops else 0
    carry = len(e.outputs) if loops else params["num_carry"]
    if loops and params["cond_jaxpr"].out_avals[0].ndim:  # (of vmap: elements end by themselves)
        return e
    inputs = body.inputs[k:k + carry]
    kept = [v is not o for v, o in zip(inputs, body.outputs)]
    if all(kept) or not any([*kept, *e.outputs[carry:]]):
        return e
    start = e.inputs[before + k:before + k + carry]
    same.update((v, x) for v, x, here in zip(e.outputs, start, kept) if not here)
    body, fixed = _with_consts(body.replace(outputs=[
        *compress(body.outputs, kept), *body.outputs[carry:]]), k, kept)
    outputs = (*compress(e.outputs, kept), *e.outputs[carry:])
    mine = compress(start, kept)
    ours = [start[i] for i in fixed]
    if not loops:
        params = {**params, "jaxpr": body, "num_consts": k + len(ours), "num_carry": sum(kept)}
        return e.replace(params=params, outputs=outputs, inputs=(
            *e.inputs[:k], *ours, *mine, *e.inputs[k + carry:]))
    test, tested = _with_consts(params["cond_jaxpr"], before, kept)
    params = {**params, "cond_jaxpr": test, "cond_nconsts": before + len(tested),
              "body_jaxpr": body, "body_nconsts": k + len(ours)}
    return e.replace(params=params, outputs=outputs, inputs=(
        *e.inputs[:before], *[start[i] for i in tested], *e.inputs[before:before + k], *ours,
        *mine))


def _with_consts(p: Program, k: int, kept: Sequence[bool]) -> tuple[Program, list[int]]:
    """p, whose inputs from k on are a carry, with those that are not kept among its consts, and
    which of them it reads; the others are gone."""
    carry, rest = p.inputs[k:k + len(kept)], p.inputs[k + len(kept):]
    read = {a for e in p.equations for a in e.inputs} | set(p.outputs)
    fixed = [i for i, (v, here) in enumerate(zip(carry, kept)) if not here and v in read]
    return p.replace(inputs=[*p.inputs[:k], *[carry[i] for i in fixed],
                             *compress(carry, kept), *rest]), fixed


def _inner_hoisted(e: Equation) -> Equation:
    if e.primitive.client:
        e = expanded(e)
    if e.name in EXPANDED:
        assert e.primitive.program is not None
        return e.replace(primitive=registry["jit"], params={
            "jaxpr": hoist(e.primitive.program(**e.params)), "name": e.name})
    again = e.name == "checkpoint" and e.params["differentiated"] and e.params["prevent_cse"]
    if e.name in CALLS and not again:
        called = e.params[CALLS[e.name]]
        return e.replace(primitive=registry["jit"], params={
            "jaxpr": hoist(called), "name": e.name})
    if e.name == "custom_linear_solve":
        counts = e.params["counts"]
        first, end = sum(counts[:2]), sum(counts)
        return e.replace(primitive=registry["jit"], params={
            "jaxpr": hoist(e.params["solve"]), "name": e.name}, inputs=(
                *e.inputs[first:first + counts[2]], *e.inputs[end:]))
    return e.with_inner(hoist)


def _outside(e: Equation, bodies: dict[str, tuple[int, int, str]]) -> list[Equation]:
    """The equations moved out of e, and e without them."""
    before: list[Equation] = []
    inputs, params, shift = list(e.inputs), dict(e.params), 0
    counts = not e.is_dynamic and lanes(e) is None and lanes(e, counts=True) is not None
    for name, (first, last, count) in bodies.items():
        body = merged(flat(e.params[name]))
        known, free = _invariant(body, body.inputs[:last - first], counts)
        moved = _read(known, free)
        if not moved:
            continue
        env: dict[Var, Atom] = dict(zip(body.inputs, e.inputs[first:last]))
        for m in moved:
            fresh = tuple(Var(v.aval) for v in m.outputs)
            before.append(m.replace(outputs=fresh, inputs=tuple(
                a if isinstance(a, Literal) else env[a] for a in m.inputs)))
            env.update(zip(m.outputs, fresh))
        gone = {id(m) for m in moved if m not in free}
        kept = eliminate_dead_code(body.replace(
            equations=[q for q in body.equations if id(q) not in gone])).equations
        read = {a for q in kept for a in q.inputs} | set(body.outputs)
        n = last - first
        made = [v for m in moved if m not in free for v in m.outputs]
        consts = [v for v in (*body.inputs[:n], *made) if v in read]
        params[name] = Program([*consts, *body.inputs[n:]], kept, body.outputs, name=body.name)
        params[count] = len(consts)
        inputs[first + shift:last + shift] = [env[v] for v in consts]
        shift += len(consts) - n
    return [*before, e.replace(inputs=tuple(inputs), params=params) if before else e]


def _read(known: Sequence[Equation], free: set[Equation]) -> list[Equation]:
    """What moves: all but the free ones that nothing which moves reads."""
    found: list[Equation] = []
    read: set[Atom] = set()
    for e in reversed(known):
        if e not in free or any(v in read for v in e.outputs):
            found.append(e)
            read.update(e.inputs)
    return found[::-1]


def _invariant(body: Program, consts: Sequence[Var], counts: bool
               ) -> tuple[list[Equation], set[Equation]]:
    """What depends on consts alone, and what of it is free (positions but where `counts`); not
    calls of Python, as the loop may take no step.  What is too large to keep moves with all that
    reads it, such as comparisons of every pair that are counted."""
    staying: set[Equation] = set()
    while True:
        found, free = _depending_on(body, consts, staying, counts)
        moving, before = set(found), len(staying)
        read = {a for e in body.equations if e not in moving for a in e.inputs} | set(body.outputs)
        for e in reversed(found):
            if _is_large(e) and any(v in read for v in e.outputs):
                staying.add(e)
                read.update(e.inputs)
        if len(staying) == before:
            return found, free


def _is_large(e: Equation) -> bool:
    return any(guess(v.aval.size) > LARGEST for v in e.outputs)


def _depending_on(body: Program, consts: Sequence[Var], staying: set[Equation], counts: bool
                  ) -> tuple[list[Equation], set[Equation]]:
    known: set[Atom] = set(consts)
    cheap: set[Atom] = set()
    spread: set[Atom] = set()
    found, free = [], set()
    for e in body.equations:
        if is_callback(e) or e in staying or not all(
                isinstance(a, Literal) or a in known for a in e.inputs):
            continue
        if _is_free(e, cheap) and not (counts and e.name == "iota"):
            free.add(e)
            cheap.update(e.outputs)
        elif _spreads(e, spread):
            free.add(e)
            spread.update(e.outputs)
        elif not (is_const(e) or e.name in ("iota", "random_seed") or any(
                isinstance(a, Var) for a in e.inputs)):
            continue
        found.append(e)
        known.update(e.outputs)
    return found, free


def _is_free(e: Equation, cheap: set[Atom]) -> bool:
    """Whether it counts, spreads a number, or computes of such, which are `cheap`, and numbers."""
    if e.name == "iota":
        return True
    if e.name == "broadcast_in_dim":
        return not e.inputs[0].aval.shape or e.inputs[0] in cheap
    return is_map(e) and all(not a.aval.shape or a in cheap for a in e.inputs) and (
        any(a in cheap for a in e.inputs) or all(isinstance(a, Literal) for a in e.inputs))


def _spreads(e: Equation, spread: set[Atom]) -> bool:
    """Whether it repeats an array, which costs memory before the loop and nothing where it is read;
    or gives what does another weak type."""
    if e.name == "convert_element_type":
        return e.inputs[0] in spread and e.inputs[0].aval.dtype == e.outputs[0].aval.dtype
    return e.name == "broadcast_in_dim" and (
        guess(e.outputs[0].aval.size) > guess(e.inputs[0].aval.size))
