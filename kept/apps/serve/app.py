"""The service as an ASGI application: `POST` for questions, `/health`, `/metrics`, `/docs`."""

from __future__ import annotations

import html
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from entity_linking.errors import LinkingError
from kept.apps.serve.answers import Answer, streamed, unforeseen
from kept.apps.serve.batching import Batcher
from kept.apps.serve.errors import NotServedError
from kept.apps.serve.guard import Guard, memory_bytes
from kept.apps.serve.limits import LATE, MAX_TEXTS, Limits
from kept.apps.serve.metrics import Metrics
from kept.apps.serve.requests import (
    AskRequest,
    CompleteRequest,
    EncodeRequest,
    FactsRequest,
    PredictRequest,
    ProbeRequest,
    ShowRequest,
    Texts,
)
from kept.apps.serve.service import Service
from kept.errors import ConfigError, KeptError, MissingExtraError
from kg_loaders.errors import KgError


def make_app(
    service: Service, *, token: str, hosts: frozenset[str], limits: Limits | None = None
) -> Guard:
    """Return the application behind its guard; `hosts` are the Host headers that are answered."""
    bounds, metrics = limits or Limits(), Metrics()
    batcher = Batcher(
        {
            "link": service.link,
            "show": service.show,
            "encode": service.encode,
            "encode_mentions": service.encode_mentions,
            "probe": service.probe,
            "complete": service.complete,
            "facts": service.facts,
            "ask": service.ask,
            "predict": service.predict,
        },
        bounds,
        metrics.batch,
    )
    app = _routes(service, batcher, bounds, metrics)
    return Guard(app, token=token, hosts=hosts, limits=bounds, metrics=metrics)


def _routes(service: Service, batcher: Batcher, limits: Limits, metrics: Metrics) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await batcher.stop()

    app = FastAPI(
        title="kept", version=version("kept"), lifespan=lifespan, docs_url=None, redoc_url=None,
        description="A knowledge graph, its linker and models of kept.",
    )  # fmt: skip
    for kind, answer in _FAILURES.items():
        app.add_exception_handler(kind, answer)

    async def enqueue(kind: str, questions: Sequence[Any]) -> list[Any]:
        return await batcher.submit(kind, questions)

    def sent(answers: Any) -> Response:
        answer = Answer(answers)
        if len(answer.body) > limits.result_bytes:
            return _failure(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"the answer has {len(answer.body):,} bytes, more than {limits.result_bytes:,}; "
                "ask about fewer or shorter texts",
            )
        return answer

    @app.post("/link", summary="Link texts to the graph")
    async def link(texts: Texts) -> Response:
        return sent({"texts": await enqueue("link", texts.texts)})

    @app.post("/show", summary="What a method or a run reads of a text")
    async def show(body: ShowRequest) -> Response:
        return sent((await enqueue("show", [body]))[0])

    @app.post("/encode", summary="Vectors of texts, and of their linked mentions")
    async def encode(body: EncodeRequest) -> Response:
        kind = "encode_mentions" if body.mentions else "encode"
        return sent({"texts": await enqueue(kind, body.texts)})

    @app.post("/probe", summary="Answers of a masked language model to cloze questions")
    async def probe(body: ProbeRequest) -> Response:
        pairs = [(question, body.n) for question in body.questions]
        return sent({"questions": await enqueue("probe", pairs)})

    @app.post("/complete", summary="Answers for the slot ? of a triple")
    async def complete(body: CompleteRequest) -> Response:
        return sent((await enqueue("complete", [body]))[0])

    @app.post("/facts", summary="Who a name is, and its facts")
    async def facts(body: FactsRequest) -> Response:
        return sent((await enqueue("facts", [body]))[0])

    @app.post("/ask", summary="Answers of the graph to questions")
    async def answer_questions(body: AskRequest) -> Response:
        questions = [(question, body.least_confidence) for question in body.questions]
        if body.stream:
            return await streamed(batcher, "ask", questions, limits)
        _require_few(questions)
        return sent({"answers": await enqueue("ask", questions)})

    @app.post("/predict", summary="Predictions of a run")
    async def predict(body: PredictRequest) -> Response:
        items = [(body.run, item) for item in body.items]
        if body.stream:
            return await streamed(batcher, "predict", items, limits)
        _require_few(items)
        return sent({"predictions": await enqueue("predict", items)})

    @app.get("/health", summary="Whether the service answers")
    async def health() -> Response:
        return sent({"status": "ok", "version": app.version})

    @app.get("/metrics", summary="Counters in Prometheus' text format")
    async def counters() -> Response:
        text = metrics.text(n_waiting=batcher.n_waiting, memory=memory_bytes())
        return Response(text, media_type="text/plain; version=0.0.4")

    @app.get("/docs", summary="This page", include_in_schema=False)
    async def docs() -> Response:
        return Response(_page(app.openapi()), media_type="text/html")

    return app


def _require_few(questions: Sequence[Any]) -> None:
    """Raise `ConfigError` for more questions than are answered at once."""
    if len(questions) > MAX_TEXTS:
        raise ConfigError(
            f"{len(questions)} questions in one request, at most {MAX_TEXTS} are allowed; "
            f"send them "
            'with "stream": true'
        )


DESCRIBED = "/docs describes the requests"


# ---- failures ------------------------------------------------------------------------------------
def _failure(status: HTTPStatus, message: str) -> Response:
    return Answer({"error": message}, int(status))


async def _invalid(_: Request, error: Exception) -> Response:
    """What is wrong with a question, without the question."""
    assert isinstance(error, RequestValidationError)
    faults = [_in_words(fault) for fault in error.errors()[:5]]
    return _failure(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(faults))


def _in_words(fault: Mapping[str, Any]) -> str:
    """A fault that pydantic finds, for someone who writes the request."""
    field = ".".join(str(part) for part in fault["loc"][1:])[:100] or "body"
    match fault["type"]:
        case "json_invalid":
            reason = str(fault.get("ctx", {}).get("error", ""))[:100].lower()
            return f"the body is no JSON (near character {field}: {reason})"
        case "missing":
            return f"{field} is missing; {DESCRIBED}"
        case "extra_forbidden":
            return f"there is no field {field}; {DESCRIBED}"
        case "list_type":
            return f"{field} must be a list: [...]"
        case _:
            return f"{field}: {fault['msg'][:200]}"


async def _refused(_: Request, error: Exception) -> Response:
    is_missing = isinstance(error, NotServedError | MissingExtraError)
    status = HTTPStatus.NOT_IMPLEMENTED if is_missing else HTTPStatus.UNPROCESSABLE_ENTITY
    return _failure(status, str(error))


async def _late(_: Request, __: Exception) -> Response:
    return _failure(HTTPStatus.GATEWAY_TIMEOUT, LATE)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    reasons = {
        HTTPStatus.NOT_FOUND: f"there is no such path; {DESCRIBED}",
        HTTPStatus.METHOD_NOT_ALLOWED: f"this path takes another method; {DESCRIBED}",
    }
    return _failure(status, reasons.get(status, str(error.detail)))


async def _unforeseen(_: Request, error: Exception) -> Response:
    return _failure(HTTPStatus.INTERNAL_SERVER_ERROR, unforeseen(error))


_FAILURES: dict[type[Exception], Any] = {
    RequestValidationError: _invalid,
    KeptError: _refused,
    LinkingError: _refused,
    KgError: _refused,
    TimeoutError: _late,
    HTTPException: _http,
    Exception: _unforeseen,
}


# ---- the page ------------------------------------------------------------------------------------
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color-scheme:light dark}pre{overflow:auto;padding:.5rem;border:1px solid #8888}"
    "h2{margin-top:2rem}"
)


def _page(schema: dict[str, Any]) -> str:
    """The API in words, made of the schema; it loads nothing and runs no script."""
    parts = []
    schemas = schema.get("components", {}).get("schemas", {})
    for path, ways in schema["paths"].items():
        for way, about in ways.items():
            parts.append(f"<h2>{way.upper()} {html.escape(path)}</h2>"
                         f"<p>{html.escape(about.get('summary', ''))}.</p>")  # fmt: skip
            content = about.get("requestBody", {}).get("content", {})
            name = str(content.get("application/json", {}).get("schema", {}).get("$ref", ""))
            body = schemas.get(name.rpartition("/")[2])
            if body is not None:
                described = {"description": body.get("description"), "fields": body["properties"],
                         "required": body.get("required", [])}  # fmt: skip
                parts.append(f"<pre>{html.escape(json.dumps(described, indent=1))}</pre>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>kept: the service</title>'
        f"<style>{STYLE}</style><h1>kept {html.escape(schema['info']['version'])}</h1>"
        "<p>Every request but /health, /docs and /openapi.json carries "
        "<code>Authorization: Bearer TOKEN</code>; questions are application/json. The whole "
        'schema: <a href="/openapi.json">/openapi.json</a>.</p>' + "".join(parts) + "</html>"
    )
