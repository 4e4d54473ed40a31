"""Artifacts of functions over meshes: the record names mesh and specs, and the file runs."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calque_cli.app import app
from meshes import mesh_of
from typer.testing import CliRunner

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.runtime import ArtifactError
from calque.runtime.aot import parse_record, read_records
from calque.sharding import NamedSharding
from calque.sharding import PartitionSpec as P

MESH = mesh_of(x=2, y=4)
X = np.arange(64, dtype=np.float32).reshape(8, 8)
W = np.arange(32, dtype=np.float32).reshape(8, 4)


def where(*entries: Any) -> NamedSharding:
    return NamedSharding(MESH, P(*entries))


def test_record_of_a_jitted_function_and_what_inspect_shows(tmp_path: Path) -> None:
    def layer(x: Any, w: Any) -> Any:
        return jnp.tanh(x) @ w, w

    made = calque.jit(layer).lower(
        calque.device_put(X, where("x")),
        calque.ShapeDtypeStruct((8, 4), "float32", sharding=where(None, "y")))
    path = aot.compile(made).save(tmp_path / "layer.vmfb")
    (record,) = read_records(path)
    assert record.mesh == (("x", 2), ("y", 4))
    assert [a.spec for a in record.args] == [(("x",), ()), ((), ("y",))]
    assert [r.spec for r in record.results] == [(("x",), ("y",)), ((), ("y",))]
    assert parse_record(record.text, record.entry) == record
    product, same = aot.load(path)["layer"](X, W)
    np.testing.assert_allclose(product.numpy(), np.tanh(X) @ W, rtol=1e-5)
    np.testing.assert_array_equal(same.numpy(), W)
    shown = CliRunner().invoke(app, ["inspect", str(path)]).output
    for line in ("argument x: float32[8,8]  (P(x, None))", "argument w: float32[8,4]  (P(None, y))",
                 "result [0]: float32[8,4]  (P(x, y))",
                 "result [1]: float32[8,4]  (P(None, y), argument w itself)", "mesh: x 2, y 4"):
        assert f"    {line}\n" in shown
    whole = json.loads(CliRunner().invoke(app, ["inspect", "--json", str(path)]).output)
    assert whole["functions"][0]["mesh"] == [["x", 2], ["y", 4]]


def test_record_of_a_shard_map() -> None:
    """What its specs say of arguments that nobody placed."""
    total = calque.shard_map(lambda x: lax.psum(x, "x"), mesh=MESH, in_specs=P("x", "y"),
                             out_specs=P(None, "y"))
    run = aot.load(aot.compile(total, "f32[8,8]", name="total").vmfb)["total"]
    assert run.record.mesh == (("x", 2), ("y", 4))
    assert run.record.args[0].spec == (("x",), ("y",))
    assert run.record.results[0].spec == ((), ("y",))
    np.testing.assert_array_equal(run(X)[0].numpy(), X[:4] + X[4:])
    raw = json.loads(run.record.text)
    raw["args"][0]["spec"] = [["z"], []]
    with pytest.raises(ArtifactError, match="spread over(.|\n)*Fix: "):
        parse_record(json.dumps(raw))


def test_functions_of_plain_arrays_have_no_mesh() -> None:
    run = aot.load(aot.compile(lambda x: x + 1, "f32[2]", name="f").vmfb)["f"]
    assert run.record.mesh == () and run.record.args[0].spec is None
    assert "mesh" not in json.loads(run.record.text)
