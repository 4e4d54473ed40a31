"""The paths of a server and what they answer, as an application of aiohttp.

/v2/... is the Open Inference Protocol, /v1/... OpenAI's, /metrics Prometheus'.  Start reading at
`App.application`.
"""
from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from calque.runtime.serving import completions, tensors
from calque.runtime.serving.entries import Entry
from calque.runtime.serving.errors import RequestError, shown, wrong
from calque.runtime.serving.generating import told
from calque.runtime.serving.served import Served

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LARGE = 1 << 18  # bytes that another thread reads and writes, so that the loop goes on
RETRY_S = 5  # seconds after which another server is to be asked


class App:
    """What a server answers.

    Attributes:
      is_draining: whether new requests are refused.
      in_flight: how many are being answered.

    Args:
      served: the artifact and how it is run.

    Example:
      >>> from aiohttp import web
      >>> from calque import aot, runtime
      >>> import calque.numpy as jnp
      >>> from calque.runtime import serving
      >>> from calque.runtime.serving.app import App
      >>> artifact = runtime.load(aot.compile(jnp.negative, "f32[b,2]").vmfb)
      >>> served = serving.Served(artifact, "m", serving.Settings())
      >>> isinstance(App(served).application(), web.Application)
      True
      >>> served.close()
    """

    def __init__(self, served: Served) -> None:
        self.served = served
        self.is_draining = False
        self.in_flight = 0
        self._none_left = asyncio.Event()

    def application(self) -> web.Application:
        """The application, to be run by aiohttp."""
        made = web.Application(client_max_size=self.served.settings.max_body)
        add = made.router.add_route
        for method, path, handler in [
                ("GET", "/v2", self._server), ("GET", "/v2/health/live", self._live),
                ("GET", "/v2/health/ready", self._ready), ("GET", "/metrics", self._metrics),
                ("GET", "/v1/models", self._models)]:
            add(method, path, self._handled(handler, is_always=True))
        for base in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            add("GET", base, self._handled(self._model, is_always=True))
            add("GET", f"{base}/ready", self._handled(self._model_ready, is_always=True))
            add("POST", f"{base}/infer", self._handled(self._infer))
        add("POST", "/v1/completions", self._handled(self._complete))
        add("*", "/{rest:.*}", self._handled(self._nothing, is_always=True))
        return made

    async def drained(self, seconds: float) -> bool:
        """Refuse new requests, and wait for those under way; whether all have ended."""
        self.is_draining = True
        if not self.in_flight:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._none_left.wait(), seconds)
        return not self.in_flight

    def give_up(self) -> None:
        """Do not wait any more for requests under way."""
        self._none_left.set()

    # ---- around every answer
    def _handled(self, handler: Handler, is_always: bool = False) -> Handler:
        """A handler whose errors are answers, and which is counted."""
        async def handled(request: web.Request) -> web.StreamResponse:
            begin = time.perf_counter()
            self.in_flight += not is_always
            try:
                if self.is_draining and not is_always:
                    raise RequestError(503, "the server is ending.", "", "ask another one.",
                                       retry_after=RETRY_S)
                response = await handler(request)
            except Exception as error:
                response = _refused(request, _as_request_error(error, self.served))
            finally:
                if not is_always:
                    self.in_flight -= 1
                    if self.is_draining and not self.in_flight:
                        self._none_left.set()
            if not is_always:
                name = self._label(request)
                metrics = self.served.metrics
                metrics.requests.labels(name, str(response.status)).inc()
                metrics.latency.labels(name).observe(time.perf_counter() - begin)
                if self.is_draining:
                    response.force_close()
            return response
        return handled

    def _label(self, request: web.Request) -> str:
        """The model's name, one of few."""
        if request.path.startswith("/v1/"):
            return self.served.name
        with contextlib.suppress(RequestError):
            return self._entry(request).name
        return ""

    # ---- what there is
    async def _server(self, _: web.Request) -> web.Response:
        return _json({"name": "calque", "version": self.served.version,
                      "extensions": ["binary_tensor_data", "sequence"]})

    async def _live(self, _: web.Request) -> web.Response:
        return _json({"live": True})

    async def _ready(self, _: web.Request) -> web.Response:
        return _json({"ready": not self.is_draining}, 503 if self.is_draining else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.served.metrics.text(), headers={
            "Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _models(self, _: web.Request) -> web.Response:
        return _json({"object": "list", "data": [
            {"id": self.served.name, "object": "model", "created": self.served.created,
             "owned_by": "calque"}] if self.served.generator else []})

    async def _model(self, request: web.Request) -> web.Response:
        model, version = request.match_info["model"], request.match_info.get("version")
        entries = self.served.entries
        if model == self.served.name and model not in entries and version is None and (
                len(entries) != 1):
            return _json({"name": model, "versions": [*entries], "platform": "calque_vmfb",
                          "inputs": [], "outputs": []})
        return _json({**self._entry(request).metadata(), "name": model})

    async def _model_ready(self, request: web.Request) -> web.Response:
        if not (request.match_info["model"] == self.served.name
                and request.match_info.get("version") is None):
            self._entry(request)
        return _json({"name": request.match_info["model"], "ready": not self.is_draining},
                     503 if self.is_draining else 200)

    async def _nothing(self, request: web.Request) -> web.Response:
        raise RequestError(404, f"there is nothing at {request.method} {shown(request.path)}.", "",
                           "ask for POST /v2/models/NAME/infer, POST /v1/completions, GET "
                           "/v2/models/NAME, GET /v2/health/ready or GET /metrics.")

    def _entry(self, request: web.Request) -> Entry:
        """The function that a path names: its own name, or the file's and its as the version."""
        model, version = request.match_info.get("model", ""), request.match_info.get("version")
        entries = self.served.entries
        if model in entries and version in (None, "1", model):
            return entries[model]
        if model == self.served.name:
            if version in entries:
                return entries[str(version)]
            if version in (None, "1") and len(entries) == 1:
                return next(iter(entries.values()))
        known = f"name one of: {', '.join(entries)}." if entries else \
            "this server has POST /v1/completions only."
        raise RequestError(404, f"there is no model {shown(model)}" + (
            "." if version is None else f" of version {shown(version)}."), "the path", known)

    # ---- what is run
    async def _infer(self, request: web.Request) -> web.Response:
        served, entry = self.served, self._entry(request)
        body = await self._body(request)
        length = request.headers.get(tensors.HEADER)
        asked = (await asyncio.to_thread(tensors.parse, body, length, entry)
                 if len(body) > _LARGE else tensors.parse(body, length, entry))
        session, ended = (None, None) if not entry.has_state or served.sequences is None else \
            served.sequences.session(asked.parameters, entry.name)
        entry.check(asked.arrays)
        try:
            results = await served.scheduler.call(entry, asked.arrays, session)
        finally:
            if ended is not None and served.sequences is not None:
                served.sequences.end(ended)
        is_large = sum(r.nbytes for r in results) > _LARGE
        made, size = (await asyncio.to_thread(tensors.answer, entry, asked, results)
                      if is_large else tensors.answer(entry, asked, results))
        if size is None:
            return web.Response(body=made, content_type="application/json")
        return web.Response(body=made, content_type="application/octet-stream",
                            headers={tensors.HEADER: str(size)})

    async def _body(self, request: web.Request) -> bytes:
        limit = self.served.settings.max_body
        if (request.content_length or 0) > limit:
            raise _too_large(limit)
        return await request.read()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        generator = self.served.generator
        if generator is None:
            raise RequestError(404, f"{self.served.name} is no language model.",
                               "POST /v1/completions", "ask for POST /v2/models/NAME/infer, with "
                               f"one of: {', '.join(self.served.entries)}.")
        asked = completions.parse(await self._body(request), self.served.name)
        answer = completions.Answer.new(self.served.name)
        if not asked.is_stream:
            return _json(await generator.complete(asked, answer))
        generations = await generator.begin(asked)
        parts = generator.parts(asked, generations)
        first = await anext(parts)  # errors that come before it have a status
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream",
                                               "Cache-Control": "no-cache"})
        try:
            await response.prepare(request)
            count = 0
            part = first
            while True:
                count += len(part.tokens)
                if part.text or part.tokens or part.reason:
                    await response.write(completions.event(answer.body([completions.choice(
                        part.index, part.text, part.tokens, part.reason)])))
                try:
                    part = await anext(parts)
                except StopAsyncIteration:
                    break
            if asked.with_usage:
                await response.write(completions.event(answer.body([], completions.usage(
                    sum(len(g.prompt) for g in generations), count))))
            await response.write(completions.END)
            await response.write_eof()
        except RequestError as error:  # in the middle of an answer
            await response.write(completions.event(_body_of(request, error)))
            await response.write_eof()
        except ConnectionError:
            pass  # the client has gone
        finally:
            await parts.aclose()
        return response


def _json(body: Any, status: int = 200) -> web.Response:
    return web.Response(body=json.dumps(body).encode(), status=status,
                        content_type="application/json")


def _too_large(limit: int) -> RequestError:
    return RequestError(413, f"the body is larger than {limit / 2**20:g} MiB.", "the request",
                        "send less at once, or serve with a larger --max-body-mb.")


def _as_request_error(error: Exception, served: Served) -> RequestError:
    """What a client is told of whatever was raised; what nobody has foreseen is written, too."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return _too_large(served.settings.max_body)
    if isinstance(error, web.HTTPException):
        return RequestError(error.status, f"{error.reason}.", "the request", "correct it.")
    if isinstance(error, HttpProcessingError | web.RequestPayloadError):
        return wrong(f"the body cannot be read: {str(error)[:200]}.", "the request",
                     "send it as Content-Encoding and Content-Length say.")
    traceback.print_exception(error, file=sys.stderr)
    return told(error)


def _body_of(request: web.Request, error: RequestError) -> dict[str, Any]:
    if request.path.startswith("/v1/"):
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        return {"error": {"message": str(error), "type": kind, "param": None, "code": error.code}}
    return {"error": str(error), "code": error.code}


def _refused(request: web.Request, error: RequestError) -> web.Response:
    response = _json(_body_of(request, error), error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if error.status == 413:  # the rest of the body is not read
        response.force_close()
    return response
