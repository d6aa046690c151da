"""`kept serve`: a graph, its linker and models, over HTTP or the Model Context Protocol."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from kept.apps.cli.declared import option, required, switch, takes
from kept.apps.cli.errors import mark_interrupted
from kept.apps.cli.options import LinkCase, Threads, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_COUNT
from kept.errors import ConfigError
from kept.help_texts import INDEX, KG, PORT, RERANKER, TOKENIZER

if TYPE_CHECKING:
    from entity_linking.names.rules.case import Case


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What the command is given; a field is an option."""

    kg: Path = required(KG)
    mcp: bool = switch(
        "Offer tools to language models over standard input and output (MCP) instead of HTTP."
    )
    model: str | None = option(
        "Model behind /encode: the folder of a run, minilm, another folder, or a name "
        "on the Hugging Face hub.",
        callback=local_or_hub,
    )
    backend: Literal["torch", "openvino", "onnx"] = option(
        "Library that computes --model; the last two are extras of kept.", default="torch"
    )
    precision: Literal["fp32", "bf16", "int8", "auto"] = option(
        "Precision of --model: bf16 and int8 change its vectors, as the log says with the "
        "first batch. With auto the fastest of them whose vectors agree.",
        default="fp32",
    )
    run: list[Path] | None = option(
        "Folder of a run of `kept fit` or `kept finetune`, behind /predict and /show. "
        "May be repeated."
    )
    probe: str | None = option(
        "Model behind /probe: a masked language model, or the folder of a run.",
        callback=local_or_hub,
    )
    kgc: Path | None = option("Folder of a scorer of `kept kgc train`, behind /complete.")
    index: Path | None = option(INDEX)
    case: LinkCase = None
    reranker: Path | None = option(RERANKER)
    tokenizer: str = option(TOKENIZER, default="minilm", callback=local_or_hub)
    address: str = option(
        "IP address to listen on. The default can be reached from this machine alone.",
        default="127.0.0.1",
    )
    port: int = option(PORT, default=8000, bounds=(0, 65535))
    fd: int | None = option(
        "Number of an open socket to use instead of --address and --port.", bounds=(3, MAX_COUNT)
    )
    name: list[str] | None = option(
        "Host name under which clients reach the service, such as kept.example.org. "
        "Requests for other names are refused. May be repeated."
    )
    token: str | None = option(
        "Secret that every request must carry (default: a new one, printed at the start).",
        envvar="KEPT_TOKEN",
    )
    batch_texts: int = option(
        "Largest number of texts, of several requests together, in one batch of the model.",
        default=64,
        bounds=(1, 1024),
    )
    max_requests: int = option(
        "Largest number of requests at a time, waiting ones included. Further ones get status 503.",
        default=64,
        bounds=(1, 10_000),
    )
    max_seconds: float = option(
        "Largest number of seconds for a request, waiting included.",
        default=60.0,
        bounds=(0.001, 3600),
    )
    max_memory: float | None = option(
        "Memory of this process in GiB above which requests get status 503 (default: no limit).",
        bounds=(0.001, 1e6),
    )
    threads: Threads = None


@takes(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve a graph and models over HTTP, or as tools for language models (--mcp).

    HTTP has /link, /facts and /ask, and with models /predict, /show, /encode, /probe and /complete.
    Only this machine can reach the service; /docs describes the requests, /metrics is for
    Prometheus. --mcp offers link, facts, query and ask, and with --kgc complete. After SIGTERM or
    Ctrl-C open requests are answered first.

    Example: kept serve --kg kg/ --run runs/people
    """
    import secrets

    from kept.apps.serve import require_extra

    if options.mcp:
        for name in ("model", "run", "probe", "fd", "name"):
            if getattr(options, name):
                raise ConfigError(f"--{name} is for HTTP; leave it out with --mcp")
        require_extra("mcp")
        _serve_tools(options)
        return
    require_extra()
    from kept.apps.serve.limits import Limits
    from kept.apps.serve.opening import open_service
    from kept.apps.serve.server import listen, make_server, require_address

    require_address(options.address, options.token)
    if options.threads is not None:
        import torch

        torch.set_num_threads(options.threads)
    service = open_service(
        options.kg,
        model=options.model,
        runs=options.run or (),
        probe=options.probe,
        kgc=options.kgc,
        index=options.index,
        reranker=options.reranker,
        tokenizer=options.tokenizer,
        case=cast("Case | None", options.case),
        backend=options.backend,
        precision=options.precision,
    )
    fd = options.fd
    listening = listen(options.address, options.port) if fd is None else socket.socket(fileno=fd)
    limits = Limits(
        batch_texts=options.batch_texts,
        n_requests=options.max_requests,
        answer_seconds=options.max_seconds,
        memory_bytes=None if options.max_memory is None else int(options.max_memory * 1024**3),
    )
    secret = secrets.token_urlsafe(32) if options.token is None else options.token
    host, bound = listening.getsockname()[:2]
    echo(f"http://{f'[{host}]' if ':' in host else host}:{bound}/docs")
    if options.token is None:
        echo(f"Authorization: Bearer {secret}")
    server = make_server(service, listening, token=secret, names=options.name or (), limits=limits)
    # uvicorn raises them again once it has stopped
    signal.signal(signal.SIGINT, lambda *_: mark_interrupted())
    signal.signal(signal.SIGTERM, lambda *_: None)
    server.run(sockets=[listening])
    echo("stopped; all requests were answered")


def _serve_tools(options: ServeOptions) -> None:
    """Serve the tools over standard input and output; nothing else is written to the latter."""
    from kept.apps.serve.limits import Limits
    from kept.apps.serve.mcp_server import make_mcp_server, open_tools
    from kept.apps.serve.stdio import output_for_protocol, run_stdio
    from kept.linking.linkers import settings_of

    seconds = options.max_seconds
    limits = Limits(n_requests=options.max_requests, answer_seconds=seconds)
    with output_for_protocol():
        settings = settings_of(
            options.kg,
            index=options.index,
            reranker=options.reranker,
            case=cast("Case | None", options.case),
        )
        tools = open_tools(settings, options.kgc, limits)
    server = make_mcp_server(tools)
    fault = run_stdio(
        server, lambda: tools.n_calls > 0, seconds=seconds, on_interrupt=mark_interrupted
    )
    if fault:
        raise ConfigError(fault)
