# SPDX-License-Identifier: Apache-2.0
"""An HTTP server with OpenAI's API: /v1/chat/completions, /v1/completions and /v1/models, whole or as a stream. A page
at / talks to it.

It needs the packages starlette and uvicorn (`pip install baracuda[serve]`). A request that is wrong gets 400 and a text
that names the field; one whose client leaves is cancelled, and its pages are free before the next step.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from baracuda.serve import protocol
from baracuda.serve.engine import BusyError, Engine
from baracuda.serve.errors import RequestError
from baracuda.serve.protocol import Answer, Job
from baracuda.serve.request import Delta

MAX_BODY = 8 << 20  # bytes
CLIENT_LEFT = 499  # the status in logs; nobody reads it


def application(engine: Engine) -> Starlette:
    """The ASGI application that serves an engine."""
    return _Service(engine).application()


def run(engine: Engine, host: str, port: int) -> None:
    """Serve until the process is interrupted."""
    import uvicorn

    try:
        uvicorn.run(application(engine), host=host, port=port, log_level="info")
    finally:
        engine.close()


class _Service:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name = re.sub(r"[^a-z0-9.]+", "-", engine.name.lower()).strip("-") or "model"
        self.names = (self.name, engine.name)
        self._page = importlib.resources.files("baracuda.serve").joinpath("page.html").read_text("utf-8")

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/completions", self.complete, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/v1/models/{name:path}", self.model),
                Route("/health", self.health),
            ],
            exception_handlers={404: _not_found, 405: _not_allowed, RequestError: _refuse},
        )

    async def chat(self, request: Request) -> Response:
        body = await _body(request)
        longest = self.engine.scheduler.longest
        return await self._answer(
            request, await asyncio.to_thread(protocol.chat_job, body, self.engine.chat, self.names, longest)
        )

    async def complete(self, request: Request) -> Response:
        body = await _body(request)
        return await self._answer(
            request, await asyncio.to_thread(protocol.completion_job, body, self.engine.tokenizer, self.names)
        )

    async def page(self, request: Request) -> Response:
        return HTMLResponse(self._page)

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._description()]})

    async def model(self, request: Request) -> Response:
        if request.path_params["name"] not in self.names:
            raise protocol.UnknownModelError(f"the model {request.path_params['name']!r} does not exist", "model")
        return JSONResponse(self._description())

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", **self.engine.state()})

    def _description(self) -> dict[str, Any]:
        return {"id": self.name, "object": "model", "created": self.engine.started, "owned_by": "baracuda"}

    async def _answer(self, request: Request, job: Job) -> Response:
        try:
            running = _Running(self.engine, job)
        except BusyError as busy:
            return _error(str(busy), 503, "server_error", headers={"Retry-After": "1"})
        if job.streams:
            return StreamingResponse(self._stream(job, running), media_type="text/event-stream")
        answers = [Answer(job.echo or "") for _ in running.requests]
        leaving = asyncio.ensure_future(_left(request))
        collecting = asyncio.ensure_future(_collect(running, answers))
        try:
            await asyncio.wait([leaving, collecting], return_when=asyncio.FIRST_COMPLETED)
            if not collecting.done():
                return Response(status_code=CLIENT_LEFT)
            failure = collecting.result()
            if failure:
                return _error(failure, 500, "server_error")
        finally:
            leaving.cancel()
            collecting.cancel()
            running.cancel()
        return JSONResponse(protocol.whole(job, self.name, answers, running.reused, self.engine.tokenizer))

    async def _stream(self, job: Job, running: _Running) -> AsyncIterator[str]:
        """Server-sent events. The generator is closed when the client leaves."""
        answers = [Answer() for _ in running.requests]
        tokenizer = self.engine.tokenizer
        try:
            for index in range(len(answers)):
                if job.is_chat or job.echo:
                    yield _event(protocol.chunk(job, self.name, index, job.echo or "", tokenizer, is_first=True))
            async for index, delta in running.deltas():
                if delta.error:
                    yield _event(_error_body(delta.error, "server_error"))
                    return
                _extend(answers[index], delta)
                if delta.text or delta.finish or delta.logprobs:
                    yield _event(
                        protocol.chunk(
                            job, self.name, index, delta.text, tokenizer, logprobs=delta.logprobs, finish=delta.finish
                        )
                    )
            if job.has_usage:
                yield _event(protocol.usage_chunk(job, self.name, answers, running.reused))
            yield "data: [DONE]\n\n"
        finally:
            running.cancel()


class _Running:
    """The requests of a job, whose deltas come from the engine's thread."""

    def __init__(self, engine: Engine, job: Job) -> None:
        self._engine = engine
        self._queue: asyncio.Queue[tuple[int, Delta]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def sink(index: int, delta: Delta) -> None:
            try:
                loop.call_soon_threadsafe(self._queue.put_nowait, (index, delta))
            except RuntimeError:  # the loop is closed: the server is going away
                return

        self.requests = engine.submit_all(job.requests, sink)

    @property
    def reused(self) -> int:
        return sum([request.reused for request in self.requests])

    async def deltas(self) -> AsyncIterator[tuple[int, Delta]]:
        """Index and delta of each choice, until all have finished."""
        left = len(self.requests)
        while left:
            index, delta = await self._queue.get()
            left -= delta.finish is not None
            yield index, delta

    def cancel(self) -> None:
        for request in self.requests:
            self._engine.cancel(request)


async def _collect(running: _Running, answers: Sequence[Answer]) -> str | None:
    """Gather all deltas; the text of an error, or None."""
    async for index, delta in running.deltas():
        if delta.error:
            return delta.error
        _extend(answers[index], delta)
    return None


def _extend(answer: Answer, delta: Delta) -> None:
    answer.text += delta.text
    answer.tokens += len(delta.tokens)
    answer.logprobs += delta.logprobs
    answer.finish = delta.finish


async def _left(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> Any:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            raise RequestError(f"the body is longer than {MAX_BODY} bytes")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from None


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


def _error_body(message: str, kind: str, parameter: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def _error(
    message: str, status: int, kind: str, parameter: str | None = None, code: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:  # fmt: skip
    return JSONResponse(_error_body(message, kind, parameter, code), status_code=status, headers=headers)


async def _refuse(request: Request, error: Exception) -> Response:
    is_unknown = isinstance(error, protocol.UnknownModelError)
    parameter = getattr(error, "parameter", None)
    code = "model_not_found" if is_unknown else None
    return _error(str(error), 404 if is_unknown else 400, "invalid_request_error", parameter, code)


async def _not_found(request: Request, error: Exception) -> Response:
    return _error(f"there is no {request.url.path}", 404, "invalid_request_error")


async def _not_allowed(request: Request, error: Exception) -> Response:
    return _error(f"{request.url.path} does not take {request.method}", 405, "invalid_request_error")
