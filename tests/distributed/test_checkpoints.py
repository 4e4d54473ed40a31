"""Checkpoints in one process; tests/processes has several."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.distributed import checkpoints
from calque.sharding import Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

pytest.importorskip("tensorstore")
DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64",
          "complex64", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)


def test_every_dtype_and_shape(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with calque.enable_x64(True):
        tree = {f"{np.dtype(t).name} {shape}": jnp.asarray(np.asarray(
            rng.normal(size=shape) * 9).astype(t)) for t in DTYPES
            for shape in ((), (1,), (3, 2), (0, 4))}
        tree["more"] = [3, 2.5, True, np.float32(0.25), np.arange(3), (None,), 1j]
        tree["special"] = jnp.array([np.nan, -0.0, np.inf, -np.inf])
        assert checkpoints.save(tmp_path / "a" / "b", tree).done()
        got = checkpoints.load(tmp_path / "a" / "b", tree)
    assert calque.tree.structure(got) == calque.tree.structure(tree)
    for g, w in zip(calque.tree.leaves(got), calque.tree.leaves(tree)):
        assert type(g) is type(w) and np.asarray(g).dtype == np.asarray(w).dtype
        assert np.asarray(g).tobytes() == np.asarray(w).tobytes()


def test_keys_weak_types_and_places(tmp_path: Path) -> None:
    mesh = Mesh(calque.devices()[:1], ("x",))
    where = NamedSharding(mesh, P("x"))
    tree = {"key": calque.random.split(calque.random.key(7), 3), "weak": jnp.asarray(2.0),
            "placed": calque.device_put(jnp.arange(4.0), where)}
    checkpoints.save(tmp_path, tree)
    got = checkpoints.load(tmp_path, tree)
    assert got["key"].dtype == tree["key"].dtype and got["weak"].weak_type
    np.testing.assert_array_equal(calque.random.key_data(got["key"]),
                                  calque.random.key_data(tree["key"]))
    assert got["placed"].sharding == where
    specs = calque.tree.map(lambda x: calque.ShapeDtypeStruct(x.shape, x.dtype), tree)
    np.testing.assert_array_equal(checkpoints.load(tmp_path, specs)["placed"], np.arange(4.0))


def test_the_last_one_counts(tmp_path: Path) -> None:
    """Saved again in the background, of arrays that are donated meanwhile."""
    x = jnp.arange(1 << 16, dtype=jnp.float32)
    checkpoints.save(tmp_path, [x])
    step = calque.jit(lambda v: v + 1, donate_argnums=0)
    y = x + 1
    writing = checkpoints.save(tmp_path, [y], background=True)
    for _ in range(3):
        y = step(y)
    writing.wait()
    again = checkpoints.save(tmp_path, [y], background=True)
    checkpoints.save(tmp_path, [y])  # waits for the one before
    assert again.done() and writing.done()
    np.testing.assert_array_equal(checkpoints.load(tmp_path, [x])[0], np.arange(1 << 16) + 4)
    assert len(list(tmp_path.iterdir())) == 2  # the index and one data folder


@pytest.mark.parametrize("like, words", [
    ({"w": np.ones((2, 3), np.float32)}, ["['b']: in the checkpoint, not in `like`"]),
    ({"w": np.ones((2, 3), np.float32), "c": 1.0, "b": np.ones(3, np.float32)},
     ["['c']: not in the checkpoint"]),
    ({"w": np.ones((3, 2), np.float32), "b": np.ones(3, np.int32)},
     ["['w']: float32[2, 3] in the checkpoint, float32[3, 2] in `like`",
      "['b']: float32[3] in the checkpoint, int32[3] in `like`"])])
def test_another_tree(tmp_path: Path, like: Any, words: list[str]) -> None:
    checkpoints.save(tmp_path, {"w": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="is not like") as error:
        checkpoints.load(tmp_path, like)
    assert all(w in str(error.value) for w in words) and "Fix: " in str(error.value)


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no checkpoint"):
        checkpoints.load(tmp_path, [1.0])
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        checkpoints.load(tmp_path, [1.0])
    (tmp_path / "index.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(ValueError, match="of another version"):
        checkpoints.load(tmp_path, [1.0])
    with pytest.raises(TypeError, match=r"\['name'\] is a str"):
        checkpoints.save(tmp_path, {"name": "model"})


def test_without_tensorstore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    for call in (checkpoints.save, checkpoints.load):
        with pytest.raises(RuntimeError, match=r"Fix: pip install 'calque\[checkpoint\]'"):
            call(tmp_path, [1.0])
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_leaves_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                               ) -> None:
    checkpoints.save(tmp_path, [np.float32(1)])

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_fill", full)
    with pytest.raises(OSError, match="could not be written: OSError.*No space left"):
        checkpoints.save(tmp_path, [np.float32(2)])
    writing = checkpoints.save(tmp_path, [np.float32(2)], background=True)
    with pytest.raises(OSError, match="could not be written"):
        writing.wait()
    checkpoints._last.clear()
    monkeypatch.undo()
    assert checkpoints.load(tmp_path, [np.float32(0)]) == [np.float32(1)]
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="could not be made"):
        checkpoints.save(tmp_path / "file", [1.0])


@pytest.mark.parametrize("failing", ["published", "unlink"])
def test_a_failure_after_the_index_was_replaced_keeps_the_new(
        failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is lost at the very end, and an old file that cannot be deleted."""
    checkpoints.save(tmp_path, {"w": jnp.zeros(3)})
    (tmp_path / "index.json.data-old").write_text("left by a killed process")
    if failing == "published":
        real = checkpoints._all_well

        def lost(error: str, what: str, *rest: Any) -> None:
            real(error, what, *rest)
            if what == "published":
                raise RuntimeError("a process is lost")

        monkeypatch.setattr(checkpoints, "_all_well", lost)
        with pytest.raises(RuntimeError, match="lost"):
            checkpoints.save(tmp_path, {"w": jnp.ones(3)})
    else:
        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError

        monkeypatch.setattr(Path, "unlink", refuse)
        checkpoints.save(tmp_path, {"w": jnp.ones(3)})
    np.testing.assert_array_equal(checkpoints.load(tmp_path, {"w": jnp.zeros(3)})["w"], 1)


def test_what_is_written_behind_may_be_donated(tmp_path: Path) -> None:
    x = jnp.arange(4_000_000.0)
    writing = checkpoints.save(tmp_path, {"w": x}, background=True)
    y = calque.jit(lambda x: x.at[:].add(1), donate_argnums=0)(x)
    z = calque.jit(lambda x: x.at[:].add(1), donate_argnums=0)(y)
    writing.wait()
    np.testing.assert_array_equal(
        checkpoints.load(tmp_path, {"w": z})["w"], np.arange(4_000_000, dtype=np.float32))
    np.testing.assert_array_equal(z, np.arange(4_000_000, dtype=np.float32) + 2)
