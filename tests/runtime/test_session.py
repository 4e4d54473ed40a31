"""aot.Module and sessions: state by name, kept between calls, in files, without copies."""
from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import pytest

import calque.numpy as jnp
from calque import aot, lax, random
from calque.aot import ArgumentError
from calque.runtime import ArtifactError
from calque.runtime.aot import parse_record, read_records
from tests.cpp.models import Pair


class Trainer(aot.Module):
    """Least squares by gradient descent, with momentum."""

    constants = ("mask",)

    def __init__(self) -> None:
        self.params = {"b": jnp.zeros(()), "w": jnp.full(2, 0.5)}
        self.velocity = [jnp.zeros(2)]
        self.count = jnp.zeros((), jnp.int32)
        self.mask = jnp.array([1.0, 2.0])
        self.rate = 0.25  # a setting

    @aot.export("f32[4,2]", "f32[4]")
    def step(self, x: Any, y: Any) -> Any:
        error = (x * self.mask) @ self.params["w"] + self.params["b"] - y
        self.velocity = [0.5 * self.velocity[0] + (x * self.mask).T @ error / 4]
        self.params = {"b": self.params["b"] - self.rate * jnp.mean(error),
                       "w": self.params["w"] - self.rate * self.velocity[0]}
        self.count = self.count + 1
        return {"loss": jnp.mean(error ** 2), "error": error}

    @aot.export({"x": "f32[n,2]"})
    def predict(self, points: Any) -> Any:
        return (points["x"] * self.mask) @ self.params["w"] + self.params["b"]


X = np.arange(8, dtype=np.float32).reshape(4, 2) / 8
Y = np.array([1, -1, 2, 0], np.float32)


def by_numpy(steps: int) -> tuple[list[float], dict[str, np.ndarray]]:
    w, b, v = np.full(2, 0.5), 0.0, np.zeros(2)
    losses = []
    for _ in range(steps):
        z = X * [1, 2]
        error = z @ w + b - Y
        losses.append((error ** 2).mean())
        v = 0.5 * v + z.T @ error / 4
        w, b = w - 0.25 * v, b - 0.25 * error.mean()
    return losses, {"params['w']": w, "params['b']": b, "velocity[0]": v}


@pytest.fixture(scope="module")
def compiled() -> aot.Artifact:
    return Trainer().compile()


def test_a_session_computes_what_numpy_does(compiled):
    session = aot.load(compiled).session()
    losses, state = by_numpy(5)
    got = [session.step(X, Y) for _ in range(5)]
    np.testing.assert_allclose([g["loss"].numpy() for g in got], losses, rtol=1e-5)
    for name, value in state.items():
        np.testing.assert_allclose(session.read(name), value, rtol=1e-5, atol=1e-6)
    assert session.read("count") == 5 and [*session.leaves] == [
        "count", "params['b']", "params['w']", "velocity[0]"]
    for n in (1, 3):
        np.testing.assert_allclose(
            session.predict({"x": X[:n]}).numpy(),
            X[:n] * [1, 2] @ state["params['w']"] + state["params['b']"], rtol=1e-5)


def test_the_record_says_who_reads_and_writes(compiled):
    records = {r.name: r for r in read_records(compiled.vmfb)}
    step, predict = records["step"], records["predict"]
    assert {*step.state.args.values()} == {*step.state.results.values()} and [
        step.args[i].path for i in step.donated] == list(step.state.args.values())
    assert [*predict.state.args.values()] == ["params['b']", "params['w']"]
    assert not predict.donated and not predict.state.results
    assert records["initial_state"].state.initial
    assert [r.path for r in step.results] == ["['error']", "['loss']", *step.state.results.values()]


def test_the_class_runs_in_python_as_it_is():
    trainer = Trainer()
    losses = [float(trainer.step(X, Y)["loss"]) for _ in range(3)]
    np.testing.assert_allclose(losses, by_numpy(3)[0], rtol=1e-5)
    assert trainer.state()["count"] == 3


def test_sessions_of_one_artifact_are_apart(compiled):
    artifact = aot.load(compiled)
    one, other = artifact.session(), artifact.session()
    threads = [threading.Thread(target=lambda s=s: [s.step(X, Y) for _ in range(20)])
               for s in (one, one, other)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert one.read("count") == 40 and other.read("count") == 20
    np.testing.assert_allclose(other.read("params['w']"), by_numpy(20)[1]["params['w']"], rtol=1e-4)


@pytest.mark.parametrize("suffix", [".safetensors", ".irpa"])
def test_a_state_goes_to_a_file_and_back(compiled, tmp_path, suffix):
    artifact = aot.load(compiled)
    one, other = artifact.session(), artifact.session()
    one.step(X, Y)
    path = one.save(tmp_path / f"state{suffix}")
    assert aot.parameters(path)["count"] == 1
    other.restore(path)
    assert other.step(X, Y)["loss"].numpy() == one.step(X, Y)["loss"].numpy()
    if suffix == ".safetensors":  # as others read it
        safetensors = pytest.importorskip("safetensors.numpy")
        one.save(path)
        np.testing.assert_array_equal(safetensors.load_file(path)["params['w']"],
                                      one.read("params['w']"))


class Cache(aot.Module):
    def __init__(self) -> None:
        self.rows = jnp.zeros((1 << 12, 64))
        self.at = jnp.zeros((), jnp.int32)

    @aot.export("f32[64]")
    def put(self, row: Any) -> Any:
        self.rows = lax.dynamic_update_slice(self.rows, row[None], (self.at, 0))
        self.at = self.at + 1
        return jnp.sum(row)


def test_no_call_copies_the_state():
    session = aot.load(Cache().compile()).session()

    def address() -> int:
        return session._leaves["rows"].numpy().ctypes.data  # the view is dropped at once

    first = address()
    for i in range(5):
        session.put(np.full(64, i, np.float32))
        assert address() == first, "the rows lie elsewhere"
    assert session.read("rows")[:6, 0].tolist() == [0, 1, 2, 3, 4, 0]
    held = session.read("rows")  # a copy: the state goes on where it is
    session.put(np.full(64, 9, np.float32))
    assert address() == first and held[5, 0] == 0


def test_leaves_that_share_memory_change_alone():
    """Leaves that are one array, an argument's or a result's, before a call works in place."""
    session = aot.load(Pair().compile()).session()
    a = np.arange(5000, dtype=np.float32)
    b = 2 * a

    def step() -> None:
        nonlocal a, b
        a, b = a.copy(), 2 * b
        a[5:8] = 7
        session.step()
        np.testing.assert_array_equal(session.read("a"), a)
        np.testing.assert_array_equal(session.read("b"), b)

    session.swap()
    a, b = b, a
    step()
    session.same()
    b = a.copy()
    step()
    step()
    session.both()
    a = a + 1
    b = a.copy()
    step()
    x = np.ones(5000, np.float32)
    taken, given = session.take(x), session.give()
    a = x.copy()
    step()
    for held in (x, taken.numpy(), given.numpy()):
        assert (held == 1).all()


class Draws(aot.Module):
    def __init__(self) -> None:
        self.key = random.key(3)
        self.none = jnp.zeros((0, 2))  # an array without elements

    @aot.export()
    def draw(self) -> Any:
        self.key, key = random.split(self.key)
        return random.uniform(key, (2,))


def test_a_random_key_is_state():
    session, module = aot.load(Draws().compile()).session(), Draws()
    for _ in range(2):
        np.testing.assert_array_equal(session.draw().numpy(), np.asarray(module.draw()))
    assert session.read("key").dtype == np.uint32 and session.read("none").shape == (0, 2)


def test_constants_and_initial_values_lie_beside_the_file_by_name(tmp_path):
    Trainer().compile(tmp_path / "t.vmfb", parameters=True)
    found = aot.parameters(tmp_path / "t.irpa")
    assert sorted(found) == ["mask"]  # what is one value everywhere takes no room

    class Odd(Trainer):
        def __init__(self) -> None:
            super().__init__()
            self.params = {"b": jnp.zeros(()), "w": jnp.array([0.5, 0.25])}

    Odd().compile(tmp_path / "t.vmfb", parameters=True)
    found = aot.parameters(tmp_path / "t.irpa")
    assert sorted(found) == ["mask", "params['w']"]
    other = {**found, "params['w']": np.array([0.5, 0.5], np.float32)}
    session = aot.load(tmp_path / "t.vmfb", parameters=other).session()
    assert session.step(X, Y)["loss"].numpy() == pytest.approx(by_numpy(1)[0][0], rel=1e-5)


def of(error: Any) -> str:
    text = str(error.value.args[0])
    assert "\n  In " in text and "\n  Fix: " in text, text
    return text


def test_what_is_wrong_is_said_before_anything_runs(compiled, tmp_path):
    artifact = aot.load(compiled)
    session = artifact.session()
    for call, kind, words in [
            (lambda: session.read("w"), ArtifactError, "no leaf 'w'; it has count, params"),
            (lambda: session.write("count", np.ones(1, np.int32)), ValueError, "got shape (1,)"),
            (lambda: session.write("count", np.ones((), np.int64)), TypeError, "got dtype int64"),
            (lambda: session.call("walk"), ArtifactError, "no function 'walk'"),
            (lambda: session.step(X), TypeError, "takes 2 arguments besides the state, got 1"),
            (lambda: session.predict(X), TypeError, "ndarray is given where the function takes"),
            (lambda: session.predict({"y": X}), TypeError, "dict is given where"),
            (lambda: session.step(X, X), ValueError, "y must be float32[4]"),
            (lambda: session.step(X, Y.astype(int)), TypeError, "got dtype int64"),
            (lambda: aot.load(aot.compile(jnp.sin, "f32[2]")).session(), ArtifactError,
             "the artifact has no state")]:
        with pytest.raises(kind) as error:
            call()
        assert words in of(error)
    aot.save_parameters(tmp_path / "s.irpa", {"count": np.ones((), np.int32)})
    with pytest.raises(ArtifactError) as error:
        session.restore(tmp_path / "s.irpa")
    assert "has no leaf params['b']" in of(error) and session.read("count") == 0
    with pytest.raises(AttributeError, match="no function 'walk'"):
        session.walk()


def test_modules_that_cannot_be_compiled_say_why():
    class Without(aot.Module):
        pass

    class Half(aot.Module):
        def __init__(self) -> None:
            self.tree = {"a": jnp.zeros(2), "name": "x"}

        @aot.export()
        def go(self) -> None:
            pass

    class Grows(aot.Module):
        def __init__(self) -> None:
            self.a = jnp.zeros(2)

        @aot.export()
        def go(self) -> None:
            self.a = jnp.zeros(3)

    class Adds(Grows):
        @aot.export()
        def go(self) -> None:
            self.b = self.a + 1

    for cls, words in [(Without, "exports no method"), (Half, "tree['name'] is a str"),
                       (Grows, "makes f32[3] of the leaf a, which is f32[2]"),
                       (Adds, "adds the leaf b")]:
        with pytest.raises(ArgumentError) as error:
            cls().compile()
        assert words in of(error)

    class Reads(Grows):
        @aot.export()
        def read(self) -> None:
            pass

    with pytest.raises(ArgumentError) as error:
        Reads().compile()
    assert "cannot be exported as read" in of(error)
    with pytest.raises(ArgumentError) as error:
        Trainer().compile(arguments={"walk": ()})
    assert "exports no method walk" in of(error)


def test_records_that_lie_about_the_state_are_refused(compiled):
    step = json.loads(next(r for r in read_records(compiled.vmfb) if r.name == "step").text)
    for change in ({"args": [[99, "x"]], "results": []}, {"args": [[0, "x"]], "results": []}, {},
                   {"args": [[0, "x"], [1, "x"]], "results": [[2, "x"]]}, {"args": 3, "results": 4},
                   {"args": [[0, ""]], "results": []}, {"args": [["0", "x"]], "results": []},
                   {"args": [[1, "params['b']"]], "results": [[0, "params['b']"]]}, [], "state"):
        with pytest.raises(ArtifactError):
            parse_record(json.dumps({**step, "state": change}))
    assert parse_record(json.dumps({**step, "state": None})).state is None
