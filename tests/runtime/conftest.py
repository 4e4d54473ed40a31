"""Fixtures of the runtime's tests: small programs, compiled once for this machine."""
from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calque.lowering.compiler.compile import compile_module
from calque.lowering.target.targets import parse_target
from calque.runtime import Buffer, CallSpec, Device, Executable, devices

F32 = np.dtype(np.float32)

# One module, many entry points: compiling dominates.
PROGRAMS = """
func.func @add(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8xf32>
  return %0 : tensor<8xf32> }
func.func @identity(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }
func.func @reshape(%a: tensor<8xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.reshape %a : (tensor<8xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32> }
func.func @twice(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.add %a, %a : tensor<8xf32>
  return %0, %0 : tensor<8xf32>, tensor<8xf32> }
func.func @two(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<2xi32>) {
  %0 = stablehlo.add %a, %a : tensor<8xf32>
  %1 = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
  return %0, %1 : tensor<8xf32>, tensor<2xi32> }
func.func @put(%a: tensor<8xf32>, %u: tensor<2xf32>) -> tensor<8xf32> {
  %at = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %a, %u, %at
     : (tensor<8xf32>, tensor<2xf32>, tensor<i32>) -> tensor<8xf32>
  return %0 : tensor<8xf32> }
func.func @repeat(%n: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32>
    cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         %z = stablehlo.add %y, %y : tensor<8xf32>
         stablehlo.return %j, %z : tensor<i32>, tensor<8xf32> }
  return %r#1 : tensor<8xf32> }
func.func @scalar(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %a : tensor<f32>
  return %0 : tensor<f32> }
func.func @empty(%a: tensor<0x3xf32>) -> tensor<0x3xf32> {
  %0 = stablehlo.add %a, %a : tensor<0x3xf32>
  return %0 : tensor<0x3xf32> }
func.func @double(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.add %a, %a : tensor<?xf32>
  return %0 : tensor<?xf32> }
func.func @matmul(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
     : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32> }
func.func @big(%a: tensor<25000000xf32>) -> tensor<25000000xf32> {
  %0 = stablehlo.add %a, %a : tensor<25000000xf32>
  return %0 : tensor<25000000xf32> }
"""

RESULTS: dict[str, list[tuple[tuple[int, ...], np.dtype[Any]]] | None] = {
    "add": [((8,), F32)], "identity": [((8,), F32)], "reshape": [((2, 4), F32)],
    "twice": [((8,), F32), ((8,), F32)], "two": [((8,), F32), ((2,), np.dtype(np.int32))],
    "put": [((8,), F32)], "repeat": [((8,), F32)], "scalar": [((), F32)],
    "empty": [((0, 3), F32)], "double": None, "matmul": [((512, 512), F32)],
    "big": [((25000000,), F32)],
}


@functools.cache
def compiled(source: str = PROGRAMS) -> bytes:
    return compile_module(source, parse_target("cpu"))


@pytest.fixture(scope="session")
def vmfb() -> bytes:
    return compiled()


@pytest.fixture
def device() -> Device:
    return devices("cpu")[0]


@pytest.fixture
def program(vmfb: bytes, device: Device) -> Callable[..., Executable]:
    """program(name, run_inline=True, ...) -> Executable of one of the entry points."""
    def make(name: str, *, run_inline: bool = True, **how: Any) -> Executable:
        return Executable(vmfb, device, CallSpec(RESULTS[name], run_inline, **how), name)
    return make


@pytest.fixture
def pending(device: Device) -> Callable[..., tuple[Buffer, Any]]:
    """pending(array) -> (a buffer behind a fence, the semaphore that the test signals or fails)."""
    def make(array: np.ndarray[Any, Any]) -> tuple[Buffer, Any]:
        buffer = Buffer.from_numpy(array, device)
        buffer.fence = device.task.create_semaphore(0)
        return buffer, buffer.fence
    return make


def poll(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """True as soon as the condition holds; False after the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


@pytest.fixture(name="poll")
def poll_fixture() -> Callable[..., bool]:
    return poll


@pytest.fixture
def run_python(tmp_path: Any, vmfb: bytes) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in a fresh interpreter; VMFB in it is the path of the programs above."""
    path = tmp_path / "programs.vmfb"
    path.write_bytes(vmfb)

    def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", f"VMFB = {str(path)!r}\n{script}"], cwd=tmp_path, text=True,
            capture_output=True, timeout=120, env={**os.environ, **environment}, check=False)
    return run
