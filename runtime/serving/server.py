"""A server's life: it listens, and ends when it is told to, with what is under way finished.

Start reading at `serve`; `running` is the same on a thread.
"""
from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from aiohttp import web

from calque.runtime.errors import explain
from calque.runtime.serving.app import App
from calque.runtime.serving.served import Served
from calque.runtime.serving.settings import SettingsError


class _Listening:
    """A server that listens, on the running event loop."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.app = App(served)
        self.url = ""
        self._runner = web.AppRunner(self.app.application(), handle_signals=False,
                                     access_log=None, handler_cancellation=True, shutdown_timeout=1)

    async def start(self) -> None:
        settings = self.served.settings
        await self._runner.setup()
        site = web.TCPSite(self._runner, settings.host, settings.port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise SettingsError(explain(
                f"{settings.host}:{settings.port} cannot be listened at: "
                f"{error.strerror or error}.", "calque serve --host --port",
                "give a port that is free, or 0 for any.")) from error
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def stop(self, seconds: float) -> bool:
        """Refuse new requests, finish the others, let go of everything; whether all ended."""
        finished = await self.app.drained(seconds)
        await self._runner.cleanup()
        await asyncio.to_thread(self.served.close)
        return finished


def serve(served: Served, ready: Callable[[str], None] | None = None) -> bool:
    """Serve until a signal (SIGTERM, SIGINT) says to end; a second one does not wait any more.

    Args:
      served: what to serve.
      ready: called with the address when it listens.

    Returns:
      Whether all requests that were under way have been answered.

    Raises:
      SettingsError: the address cannot be listened at.

    Example:
      >>> import os, signal
      >>> from calque import aot, runtime
      >>> import calque.numpy as jnp
      >>> from calque.runtime import serving
      >>> artifact = runtime.load(aot.compile(jnp.negative, "f32[b,2]").vmfb)
      >>> served = serving.Served(artifact, "model", serving.Settings(port=0))
      >>> def ended(url):
      ...     os.kill(os.getpid(), signal.SIGTERM)
      >>> serving.serve(served, ended)
      True
    """
    return asyncio.run(_until_signal(served, ready))


async def _until_signal(served: Served, ready: Callable[[str], None] | None) -> bool:
    loop = asyncio.get_running_loop()
    listening, asked, hurried = _Listening(served), asyncio.Event(), asyncio.Event()

    def told() -> None:
        (hurried if asked.is_set() else asked).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, told)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(told))
    try:
        await listening.start()
    except BaseException:
        served.close()
        raise
    if ready is not None:
        ready(listening.url)
    await asked.wait()
    stopping = asyncio.create_task(listening.stop(served.settings.grace_s))
    hurry = asyncio.create_task(hurried.wait())
    await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        listening.app.give_up()
    hurry.cancel()
    return await stopping


class Running:
    """A server on a thread of its own; made by `running`.

    Attributes:
      url: where it listens.
      served: what it serves.

    Args:
      served: what to serve.

    Example:
      >>> from calque import aot, runtime
      >>> import calque.numpy as jnp
      >>> from calque.runtime import serving
      >>> from calque.runtime.serving.server import Running
      >>> artifact = runtime.load(aot.compile(jnp.negative, "f32[b,2]").vmfb)
      >>> server = Running(serving.Served(artifact, "m", serving.Settings(port=0)))
      >>> server.stop()
      True
    """

    def __init__(self, served: Served) -> None:
        self.served = served
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._listening: _Listening | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="calque serve", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            self._loop.close()
            served.close()
            raise self._error

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._start())
        except BaseException as error:
            self._error = error
            return
        finally:
            self._started.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        self._listening = _Listening(self.served)
        await self._listening.start()
        self.url = self._listening.url

    def stop(self, seconds: float | None = None) -> bool:
        """Refuse new requests and finish the others.

        Args:
          seconds: how long they have; None: the settings' `grace_s`.

        Returns:
          Whether all have been answered.
        """
        if self._listening is None or not self._thread.is_alive():
            return True
        wait = self.served.settings.grace_s if seconds is None else seconds
        done = asyncio.run_coroutine_threadsafe(self._listening.stop(wait), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        return done


@contextlib.contextmanager
def running(served: Served) -> Iterator[Running]:
    """A server on a thread, for the time of a block.

    Args:
      served: what to serve.

    Returns:
      A context manager that gives a Running.

    Raises:
      SettingsError: the address cannot be listened at.

    Example:
      >>> from urllib.request import urlopen
      >>> from calque import aot, runtime
      >>> import calque.numpy as jnp
      >>> from calque.runtime import serving
      >>> artifact = runtime.load(aot.compile(jnp.negative, "f32[b,2]").vmfb)
      >>> settings = serving.Settings(port=0)
      >>> with serving.running(serving.Served(artifact, "m", settings)) as server:
      ...     urlopen(server.url + "/v2/health/live").read()
      b'{"live": true}'
    """
    server = Running(served)
    try:
        yield server
    finally:
        server.stop()
