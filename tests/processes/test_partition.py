"""The partitioner: what it sends, over processes that are only said to be there, and the values of
real ones."""
from __future__ import annotations

from typing import Any

import partitioned
import pytest
from jobs import TESTS, by_hand

import calque
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.messages import combined
from calque.runtime.device import Device
from calque.sharding import NamedSharding


def messages(p: Program) -> int:
    """Messages that a program has, those of loops counted once."""
    return sum(e.primitive.name.startswith("message_") + sum(
        messages(q) for v in e.params.values() for q in (v if isinstance(v, tuple) else (v,))
        if isinstance(q, Program)) for e in p.equations)


@pytest.fixture
def four() -> list[Any]:
    return [*calque.devices()[:1], *[Device("cpu", 0, "cpu", process=p) for p in (1, 2, 3)]]


@pytest.mark.parametrize("name", partitioned.CASES)
def test_messages(name: str, four: list[Any]) -> None:
    """No more than XLA sends (of the first eight), and JAX's shardings of results."""
    f, _, _, sizes, most, results = partitioned.CASES[name]
    mesh = partitioned.mesh_of(four, sizes)
    partitioned.meshes[:] = [mesh]
    lowered = calque.jit(f).lower(*partitioned.placed(name, mesh))
    own = combined(hoist(eliminate_dead_code(lowered.entry.own_program())))
    assert messages(own) <= most
    for aval, spec in zip(lowered.entry.out_avals, results or ()):
        assert aval.placement.is_equivalent_to(NamedSharding(mesh, spec), aval.ndim)


def test_bytes_and_the_log(four: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    mesh = partitioned.mesh_of(four, {"d": 4})
    x = calque.device_put(partitioned.N(8, 1 << 15), NamedSharding(mesh, partitioned.P("d")))
    monkeypatch.setenv("CALQUE_LOG", "compile")
    entry = calque.jit(lambda v: calque.numpy.cumsum(v, 0) + v).lower(x).entry
    assert messages(entry.own_program()) == 1
    assert "gather of 1 MiB over d: replicated because cumsum has no sharded form (" in (
        capsys.readouterr().err)
    from calque.dispatch import costs
    assert costs.analysis(entry.own_program())["bytes sent"] == 8 // 4 * (4 << 15)


VALUES = """
    import pickle
    sys.path[:0] = [os.environ["TESTS"], os.path.join(os.environ["TESTS"], "processes")]
    import partitioned
    mine = [k for k, c in partitioned.CASES.items() if len(c[3]) == (2 if size == 4 else 1)]
    want = pickle.dumps({k: partitioned.expected(k) for k in mine}) if rank == 0 else b""
    want = pickle.loads(mu.broadcast_one_to_all(np.frombuffer(want.ljust(
        int(mu.broadcast_one_to_all(len(want)))), np.uint8)).tobytes())
    mesh = partitioned.mesh_of(jax.devices(), partitioned.CASES[mine[0]][3])
    partitioned.meshes[:] = [mesh]
    run = jax.jit(lambda every: {k: partitioned.CASES[k][0](*a) for k, a in every.items()})
    outs = run({k: partitioned.placed(k, mesh) for k in mine})  # all in one program
    for name in mine:
        for o, w in zip(jax.tree.leaves(outs[name]), want[name], strict=True):
            w = np.asarray(w)
            for s in o.addressable_shards:
                np.testing.assert_allclose(np.asarray(s.data), w[s.index], rtol=2e-5,
                                           atol=2e-5 * np.abs(w).max(), err_msg=name)
    print("all is well", rank, flush=True)
"""


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_values(size: int) -> None:
    for done in by_hand(VALUES, size, TESTS=TESTS):
        assert (done.code, "all is well" in done.out) == (0, True), done.out
