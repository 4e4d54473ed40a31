"""Guards of transfers: what moves between Python's memory and a device's, and who asked for it."""
import logging

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.errors import JaxRuntimeError

HOST = np.ones(3, np.float32)
IMPLICIT = {
    "argument of jit": lambda x: calque.jit(lambda x: x + 1)(HOST),
    "number": lambda x: calque.jit(lambda x: x + 1)(2.5), "asarray": lambda x: jnp.asarray(HOST),
    "list": lambda x: jnp.array([1, 2]), "operand": lambda x: x + HOST,
    "argument": lambda x: jnp.sin(HOST), "planned": lambda x: jnp.linalg.norm(HOST),
    "filled": lambda x: jnp.ones(3)}
ALLOWED = {
    "arrays": lambda x: calque.jit(lambda x: x + HOST)(x) * x, "arange": lambda x: jnp.arange(3),
    "mean": lambda x: jnp.mean(x) + jnp.sum(x), "softmax": lambda x: calque.nn.softmax(x),
    "random": lambda x: calque.random.split(KEY), "grad": lambda x: calque.vjp(jnp.sin, x)[1](x),
    "to the host": lambda x: (np.asarray(x), float(jnp.sum(x)), str(x))}
KEY = calque.random.key(0)


@pytest.fixture
def x():
    return jnp.asarray(HOST)


@pytest.mark.parametrize("name", IMPLICIT)
def test_implicit_transfers_are_refused(name, x):
    f = IMPLICIT[name]
    f(x)
    for level in ("disallow", "disallow_explicit"):
        with calque.transfer_guard(level), pytest.raises(
                JaxRuntimeError, match="Disallowed host-to-device transfer"):
            f(x)
    with calque.transfer_guard("disallow"), calque.transfer_guard_host_to_device("allow"):
        f(x)
    with calque.transfer_guard_device_to_device("disallow"):
        f(x)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_moves_nothing(name, x):
    with calque.transfer_guard("disallow_explicit"):
        ALLOWED[name](x)


def test_what_is_asked_for(x):
    with calque.transfer_guard("disallow"):
        np.testing.assert_array_equal(calque.device_put({"a": HOST, "b": 2.0})["a"], HOST)
        np.testing.assert_array_equal(calque.device_get(x), HOST)
    with calque.transfer_guard("disallow_explicit"), pytest.raises(
            JaxRuntimeError, match=r"float32\[3\](.|\n)*transfer_guard_host_to_device\('allow'\)"):
        calque.device_put(HOST)


def test_transfers_are_logged(caplog):
    with calque.transfer_guard("log"), caplog.at_level(logging.WARNING, "calque.transfers"):
        jnp.asarray(HOST)
        calque.device_put(HOST)  # asked for
    assert [r.message for r in caplog.records] == ["host-to-device transfer: float32[3]"]
    with pytest.raises(ValueError, match="takes one of"):
        calque.config.update("jax_transfer_guard", "never")


def test_reading_from_a_device(x, monkeypatch):
    """As of a card: there is none here, so its memory says that it is none of the host's."""
    monkeypatch.setattr(type(x._buffer.device), "is_host", False)
    with calque.transfer_guard_device_to_host("disallow"):
        for read in (np.asarray, str, lambda x: x.tolist()):
            with pytest.raises(JaxRuntimeError, match="device-to-host transfer"):
                read(x)
        np.testing.assert_array_equal(calque.device_get(x), HOST)


def test_for_the_whole_process(x):
    calque.config.update("jax_transfer_guard", "disallow")
    try:
        with pytest.raises(JaxRuntimeError, match="host-to-device"):
            jnp.asarray(HOST)
        with calque.transfer_guard("allow"):
            jnp.asarray(HOST)
    finally:
        calque.config.update("jax_transfer_guard", None)
    jnp.asarray(HOST)
