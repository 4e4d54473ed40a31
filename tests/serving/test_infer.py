"""POST /v2/models/NAME/infer: results equal direct calls, batches, errors, a bounded queue."""
from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.serving import HEADER, Gate, Total, once, server, tensor, together

from calque import runtime
from calque.runtime import serving

F32 = np.float32


def rows(seed: int, count: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(F32)


@pytest.fixture(scope="module")
def client(artifact):
    with server(artifact, max_wait_ms=0, max_body_mb=.25) as (found, _):
        yield found


def binary(arrays: dict[str, np.ndarray], **parameters: Any) -> tuple[bytes, dict[str, str]]:
    """A body of binary tensors, and its header."""
    inputs = [{**tensor(n, a), "data": None, "parameters": {"binary_data_size": a.nbytes}}
              for n, a in arrays.items()]
    head = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
    return head + b"".join(a.tobytes() for a in arrays.values()), {
        HEADER.replace("-", "_"): str(len(head))}


def test_what_there_is(client):
    assert client.json("GET", "/v2")[1]["extensions"] == ["binary_tensor_data", "sequence"]
    assert client.json("GET", "/v2/health/live") == (200, {"live": True})
    assert client.json("GET", "/v2/health/ready") == (200, {"ready": True})
    assert client.json("GET", "/v2/models/file")[1]["versions"] == [
        "scores", "scaled", "centred", "kinds"]
    assert client.json("GET", "/v2/models/scores") == (200, {
        "name": "scores", "versions": ["1"], "platform": "calque_vmfb",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "result", "datatype": "FP32", "shape": [-1, 3]}]})
    assert client.json("GET", "/v2/models/file/versions/scaled")[1]["outputs"][0] == {
        "name": "['product']", "datatype": "INT32", "shape": [-1, -1]}
    assert client.json("GET", "/v2/models/scores/ready") == (200, {"name": "scores", "ready": True})


def test_json_gives_what_a_direct_call_gives(client, artifact):
    for count in (1, 3, 8, 20):
        x = rows(count, count)
        got = client.infer("scores", x=x)["result"]
        np.testing.assert_array_equal(got.astype(F32), artifact.scores(x)[0].numpy())
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    got = client.infer("file/versions/scaled", k=np.int32(3), x=x)
    np.testing.assert_array_equal(got["['product']"], 3 * x)
    np.testing.assert_array_equal(got["['sum']"], x.sum(1))


def test_binary_tensors_of_every_kind(client, artifact):
    arrays = {"a": np.array([True, False]), "b": np.array([np.nan, 3], F32),
              "c": np.array([1.5, 2], artifact.kinds.record.args[2].dtype)}
    body, header = binary(arrays, binary_data_output=True)
    status, data, headers = client.send("POST", "/v2/models/kinds/infer", body, **header)
    assert status == 200 and headers["Content-Type"] == "application/octet-stream"
    size = int(headers[HEADER])
    outputs, rest = json.loads(data[:size])["outputs"], data[size:]
    assert [o["datatype"] for o in outputs] == ["BOOL", "FP32", "BF16"]
    for output, wanted in zip(outputs, artifact.kinds(*arrays.values()), strict=True):
        nbytes = output["parameters"]["binary_data_size"]
        assert rest[:nbytes] == wanted.numpy().tobytes()
        rest = rest[nbytes:]
    body, header = binary(arrays)
    made = json.loads(client.send("POST", "/v2/models/kinds/infer", body, **header)[1])
    assert [o["data"] for o in made["outputs"]] == [[False, True], ["NaN", 1.5], [3, 4]]


def test_outputs_are_chosen_and_ids_repeated(client):
    asked = {"id": "seven", "inputs": [tensor("x", np.ones((1, 2), np.int32)),
                                       tensor("k", np.int32(2))]}
    status, made = client.json("POST", "/v2/models/scaled/infer",
                               {**asked, "outputs": [{"name": "['sum']"}]})
    assert status == 200 and made["id"] == "seven" and made["model_name"] == "scaled"
    assert [(o["name"], o["data"]) for o in made["outputs"]] == [("['sum']", [2])]


def test_waiting_requests_are_one_call_and_equal_to_calls_one_by_one(artifact):
    with server(artifact, threads=1, max_wait_ms=0) as (client, running):
        gate = Gate(running.served, "scores")
        inputs = [rows(i, 1 + i % 3) for i in range(9)]

        def ask(x):
            return lambda: once(running).infer("scores", x=x)["result"]
        calls = [ask(x) for x in inputs]

        def rest():
            once(running).wait_for("calque_running", 1)
            return together(calls[1:])

        def opener():
            once(running).wait_for("calque_queue_length", 8)
            gate.open.set()
        one, many, _ = together([calls[0], rest, opener])
        for x, got in zip(inputs, [one, *many], strict=True):
            np.testing.assert_allclose(got, artifact.scores(x)[0].numpy(), rtol=1e-6)
        assert client.metric("calque_requests_total") == 9
        assert client.metric("calque_runs_total") < 6  # 1 call, then 17 rows in batches of 8
        assert client.metric("calque_batch_rows_sum") == sum(map(len, inputs))


def test_only_calls_alike_are_one(artifact):
    """Other sizes and values of inputs without the axis are not mixed; rows that depend on each
    other are not batched at all."""
    with server(artifact, threads=1, max_wait_ms=50) as (client, running):
        assert {*running.served.batchings} == {"scores", "scaled"}
        assert "centred: one by one; its rows depend on each other" in running.served.notes
        inputs = [(np.full((1, n), n + k, np.int32), np.int32(k)) for n in (2, 3) for k in (1, 2)]

        def ask(x, k):
            return lambda: once(running).infer("scaled", x=x, k=k)
        calls = [ask(*a) for a in inputs for _ in range(3)]
        for (x, k), got in zip([a for a in inputs for _ in range(3)], together(calls), strict=True):
            np.testing.assert_array_equal(got["['product']"], x * k)
            np.testing.assert_array_equal(got["['sum']"], x.sum(1))
        assert 4 <= client.metric("calque_runs_total") < 12


def test_without_batching_each_request_is_a_call(artifact):
    with server(artifact, batching=False) as (client, running):
        def ask():
            return once(running).infer("scores", x=rows(0))
        together([ask] * 6)
        assert client.metric("calque_runs_total") == 6 and not running.served.batchings


def test_a_full_queue_and_a_large_body_are_refused(artifact, client):
    with server(artifact, threads=1, max_queue=2, batching=False) as (other, running):
        gate = Gate(running.served, "scores")

        def ask():
            return once(running).infer("scores", x=rows(0))["result"].shape

        def refused():
            other.wait_for("calque_queue_length", 2)
            try:
                return other.send("POST", "/v2/models/scores/infer", {
                    "inputs": [tensor("x", rows(1))]})
            finally:
                gate.open.set()
        *shapes, (status, body, headers) = together([ask, ask, ask, refused])
        assert shapes == [(1, 3)] * 3 and status == 429 and headers["Retry-After"] == "1"
        assert "--max-queue" in json.loads(body)["error"]
    for body in (b"x" * (1 << 19), [0] * (1 << 18)):
        status, data, _ = client.send("POST", "/v2/models/scores/infer", body)
        assert status == 413 and "--max-body-mb" in json.loads(data)["error"]


def test_a_call_that_fails_fails_alone(artifact):
    with server(artifact, threads=1, max_wait_ms=20) as (client, running):
        entry = running.served.entries["scores"]
        call = entry.call

        def fails(arrays, session=None):
            if any(np.isnan(a).any() for a in arrays):
                raise RuntimeError("no number")
            return call(arrays, session)
        entry.call = fails

        def ask(x):
            return lambda: once(running).json("POST", "/v2/models/scores/infer", {
                "inputs": [{**tensor("x", x), "data": x.ravel().tolist()}]})[0]
        bad = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4],
                           "data": ["NaN", 1, 2, 3]}]}

        def asks_badly():
            return once(running).json("POST", "/v2/models/scores/infer", bad)
        *good, (status, made) = together([*[ask(rows(i)) for i in range(4)], asks_badly])
        assert good == [200] * 4 and status == 500
        assert made["error"].startswith("the call failed: RuntimeError: no number")


def test_sequences_have_a_state_each():
    artifact = runtime.load(Total().compile().vmfb)
    with server(artifact, max_sessions=2) as (client, _):
        def add(value, **parameters):
            status, made = client.json("POST", "/v2/models/add/infer", {
                "parameters": parameters, "inputs": [tensor("x", np.full(2, value, F32))]})
            return made["outputs"][1]["data"] if status == 200 else (status, made["error"])
        assert add(1, sequence_id=1, sequence_start=True) == [1, 1]
        assert add(5, sequence_id="other", sequence_start=True) == [5, 5]
        assert add(2, sequence_id=1) == [3, 3]
        assert add(1, sequence_id=3, sequence_start=True)[0] == 429
        assert add(2, sequence_id="other", sequence_end=True) == [7, 7]
        assert "begin it" in add(2, sequence_id="other")[1]
        assert "sequence_id is None" in add(2)[1]
        assert add(1, sequence_id=3, sequence_start=True) == [1, 1]
        status, made = client.json("POST", "/v2/models/add/infer", {
            "parameters": {"sequence_id": 3}, "inputs": [tensor("x", np.ones(3, F32))]})
        assert status == 400 and "x must be float32[2]" in made["error"]
        assert add(1, sequence_id=3) == [2, 2]


GOOD = {"inputs": [tensor("x", np.ones((1, 4), F32))]}
WRONG: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "the body is no JSON"),
    "no UTF-8": (b"\xff\xfe", "the body is no JSON"),
    "no object": ([], "the body is [], no object"),
    "deep": (b"[" * 100_000, "the body is no JSON"),
    "no inputs": ({}, "inputs are None"),
    "inputs": ({"inputs": 3}, "inputs are 3"),
    "no input": ({"inputs": []}, "the input 'x' is missing"),
    "twice": ({"inputs": GOOD["inputs"] * 2}, "the input 'x' is there twice"),
    "id": ({**GOOD, "id": 3}, "id is 3"),
    "parameters": ({**GOOD, "parameters": 3}, "parameters are 3"),
    "output": ({**GOOD, "outputs": [{"name": "y"}]}, "there is no output 'y'"),
    "outputs": ({**GOOD, "outputs": "result"}, "outputs are 'result'"),
    "flag": ({**GOOD, "parameters": {"binary_data_output": 1}}, "binary_data_output is 1")}
TENSOR: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": "y"}, "there is no input 'y'"),
    "type": ({"datatype": "FP64"}, "x must be FP32, got datatype 'FP64'"),
    "no type": ({"datatype": None}, "x must be FP32, got datatype None"),
    "axes": ({"shape": [4]}, "must be float32[b,4], got the shape [4] of 1 axes"),
    "size": ({"shape": [1, 5], "data": [0] * 5}, "x of shape (1, 5)"),
    "negative": ({"shape": [-1, 4]}, "shape is [-1, 4]"),
    "absurd": ({"shape": [10**30, 4]}, "shape is ["),
    "large": ({"shape": [10**9, 4]}, "data has the shape [1, 4], and the shape is [1000000000, 4]"),
    "empty": ({"shape": [0, 2**39], "data": []}, "x of shape (0, 549755813888)"),
    "boolean": ({"shape": [True, 4]}, "shape is [True, 4]"),
    "float": ({"shape": [1.0, 4]}, "shape is [1.0, 4]"),
    "NaN": ({"shape": [float("nan"), 4]}, "shape is [nan, 4]"),
    "few": ({"data": [1, 2, 3]}, "data has 3 numbers"),
    "ragged": ({"data": [[1, 2], [3]]}, "no array of numbers"),
    "text": ({"data": ["1", 2, 3, 4]}, "no array of numbers"),
    "null": ({"data": [None, 2, 3, 4]}, "not all numbers"),
    "no list": ({"data": 3}, "data is 3"),
    "too large": ({"data": [1e39, 1, 1, 1]}, "too large for FP32"),
    "huge": ({"data": [10**400, 1, 1, 1]}, "numbers"),
    "no bytes": ({"data": None, "parameters": {"binary_data_size": 16}}, "ends 16 bytes before"),
    "bytes": ({"data": None, "parameters": {"binary_data_size": 15}}, "takes 16 bytes"),
    "count": ({"data": None, "parameters": {"binary_data_size": float("nan")}}, "takes 16 bytes")}


@pytest.mark.parametrize("body, said", [
    *WRONG.values(), *[({"inputs": [{**GOOD["inputs"][0], **change}]}, said)
                       for change, said in TENSOR.values()]], ids=[*WRONG, *TENSOR])
def test_what_is_wrong_is_said(client, body, said):
    status, data, _ = client.send("POST", "/v2/models/scores/infer", body)
    error = json.loads(data)["error"]
    assert status == 400 and said in error and "\n  In " in error and "\n  Fix: " in error


def test_wrong_numbers_of_integers_and_booleans(client):
    for name, tensors, said in [
            ("scaled", [tensor("x", np.ones((1, 1), np.int32)),
                        {**tensor("k", np.int32(1)), "data": [1.5]}], "not all whole numbers"),
            ("scaled", [tensor("x", np.ones((1, 1), np.int32)),
                        {**tensor("k", np.int32(1)), "data": [2**31]}], "from -2147483648 to"),
            ("kinds", [{**tensor("a", np.ones(2, bool)), "data": [1, 0]},
                       tensor("b", np.ones(2, F32)),
                       {"name": "c", "datatype": "BF16", "shape": [2], "data": [1, 2]}],
             "not all booleans")]:
        status, made = client.json("POST", f"/v2/models/{name}/infer", {"inputs": tensors})
        assert status == 400 and said in made["error"], made


def test_a_shape_that_no_array_has(client):
    """NumPy refuses it, though it has no elements."""
    from calque.runtime.serving.errors import RequestError
    from calque.runtime.serving.tensors import parse
    entry = SimpleNamespace(name="f", outputs=[], inputs=[("x", SimpleNamespace(
        dtype=np.dtype(F32), shape=(1, 1, 1)))])
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "data": [],
                                   "shape": [0, 2**39, 2**39]}]})
    with pytest.raises(RequestError, match="shape is"):
        parse(body.encode(), None, entry)


def test_a_function_that_cannot_be_tried_is_called_one_by_one(artifact, monkeypatch):
    def fails(batching):
        raise RuntimeError("no memory\nat all")
    monkeypatch.setattr("calque.runtime.serving.served.rows_are_independent", fails)
    with server(artifact) as (client, running):
        assert "scores: one by one; a batch could not be tried: no memory" in running.served.notes
        assert client.infer("scores", x=rows(0))["result"].shape == (1, 3)


def test_wrong_paths_and_lengths(client):
    for path in ("/v2/models/none/infer", "/v2/models/scores/versions/2/infer",
                 "/v2/models/file/infer", "/nothing", "/v1/completions"):
        status, made = client.json("POST", path, GOOD)
        assert status == 404, path
        assert "Fix: " in str(made["error"]), path
    assert client.json("GET", "/v2/models/scores/infer")[0] == 404
    for length in ("-1", "0", "x", "9" * 30, "1e3", "100000"):
        status, data, _ = client.send("POST", "/v2/models/scores/infer", GOOD,
                                      Inference_Header_Content_Length=length)
        assert status == 400 and HEADER in json.loads(data)["error"], length
    body, header = binary({"x": rows(0)})
    status, data, _ = client.send("POST", "/v2/models/scores/infer", body + b"more", **header)
    assert status == 400 and b"20 bytes follow the JSON" in data
    status, _, _ = client.send("POST", "/v2/models/scores/infer", b"no gzip",
                               Content_Encoding="gzip")
    assert status == 400


def mutated(draw: random.Random, body: bytes) -> bytes:
    """A body with some bytes changed, cut, doubled or replaced by what JSON has."""
    made = bytearray(body)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(made)) if made else 0
        kind = draw.randrange(4)
        if kind == 0 and made:
            made[at] = draw.randrange(256)
        elif kind == 1:
            del made[at:at + draw.randrange(1, 20)]
        elif kind == 2:
            made[at:at] = made[at:at + draw.randrange(1, 20)]
        else:
            made[at:at + draw.randrange(3)] = draw.choice(
                [b"null", b"-1", b"1e999", b"NaN", b"[]", b"{}", b"true", b'"', b"9" * 40, b"\0"])
    return bytes(made)


def test_mutated_bodies_never_end_the_server(client, artifact):
    draw = random.Random(0)
    body, header = binary({"x": rows(0, 2)})
    plain = json.dumps({**GOOD, "outputs": [{"name": "result"}], "id": "a"}).encode()
    seen = set()
    for i in range(400):
        whole = i % 2
        status, data, _ = client.send("POST", "/v2/models/scores/infer",
                                      mutated(draw, body if whole else plain),
                                      **(header if whole else {}))
        seen.add(status)
        assert status in (200, 400), data
    assert seen == {200, 400}
    x = rows(7)
    np.testing.assert_allclose(client.infer("scores", x=x)["result"],
                               artifact.scores(x)[0].numpy(), rtol=1e-6)


def test_settings_say_what_is_wrong():
    for name, value in (("port", 70000), ("threads", -1), ("max_wait_ms", float("nan")),
                        ("max_queue", 1.5), ("grace_s", -1)):
        with pytest.raises(serving.SettingsError, match=f"{name} is .*") as error:
            serving.Settings(**{name: value})
        assert "  Fix: give a" in str(error.value)
