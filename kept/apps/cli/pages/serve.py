"""`kept serve`: a graph, its linker and models, over HTTP or the Model Context Protocol."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from kept.apps.cli.errors import mark_interrupted
from kept.apps.cli.options import LinkCase, Threads, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_COUNT
from kept.errors import ConfigError
from kept.help_texts import INDEX, KG, PORT, RERANKER, TOKENIZER

if TYPE_CHECKING:
    from entity_linking.names.rules.case import Case


def serve(
    kg: Annotated[Path, typer.Option("--kg", help=KG)],
    mcp: Annotated[
        bool,
        typer.Option(
            "--mcp",
            help="Offer tools to language models over standard input and output (MCP) instead of "
            "HTTP.",
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            callback=local_or_hub,
            help="Model behind /encode: the folder of a run, minilm, another folder, or a name "
            "on the Hugging Face hub.",
        ),
    ] = None,
    backend: Annotated[
        Literal["torch", "openvino", "onnx"],
        typer.Option(help="Library that computes --model; the last two are extras of kept."),
    ] = "torch",
    precision: Annotated[
        Literal["fp32", "bf16", "int8", "auto"],
        typer.Option(
            help="Precision of --model: bf16 and int8 change its vectors, as the log says with the "
            "first batch. With auto the fastest of them whose vectors agree.",
        ),
    ] = "fp32",
    run: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of a run of `kept fit` or `kept finetune`, behind /predict and /show. "
            "May be repeated."
        ),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            callback=local_or_hub,
            help="Model behind /probe: a masked language model, or the folder of a run.",
        ),
    ] = None,
    kgc: Annotated[
        Path | None, typer.Option(help="Folder of a scorer of `kept kgc train`, behind /complete.")
    ] = None,
    index: Annotated[Path | None, typer.Option(help=INDEX)] = None,
    case: LinkCase = None,
    reranker: Annotated[Path | None, typer.Option(help=RERANKER)] = None,
    tokenizer: Annotated[
        str,
        typer.Option(callback=local_or_hub, help=TOKENIZER),
    ] = "minilm",
    address: Annotated[
        str,
        typer.Option(
            help="IP address to listen on. The default can be reached from this machine alone."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help=PORT)] = 8000,
    fd: Annotated[
        int | None,
        typer.Option(
            min=3,
            max=MAX_COUNT,
            help="Number of an open socket to use instead of --address and --port.",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Host name under which clients reach the service, such as kept.example.org. "
            "Requests for other names are refused. May be repeated."
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="KEPT_TOKEN",
            help="Secret that every request must carry (default: a new one, printed at the start).",
        ),
    ] = None,
    batch_texts: Annotated[
        int,
        typer.Option(
            min=1,
            max=1024,
            help="Largest number of texts, of several requests together, in one batch of the "
            "model.",
        ),
    ] = 64,
    max_requests: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            help="Largest number of requests at a time, waiting ones included. Further ones get "
            "status 503.",
        ),
    ] = 64,
    max_seconds: Annotated[
        float,
        typer.Option(
            min=0.001, max=3600, help="Largest number of seconds for a request, waiting included."
        ),
    ] = 60.0,
    max_memory: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1e6,
            help="Memory of this process in GiB above which requests get status 503 (default: no "
            "limit).",
        ),
    ] = None,
    threads: Threads = None,
) -> None:
    """Serve a graph and models over HTTP, or as tools for language models (--mcp).

    HTTP has /link, /facts and /ask, and with models /predict, /show, /encode, /probe and /complete.
    Only this machine can reach the service; /docs describes the requests, /metrics is for
    Prometheus. --mcp offers link, facts, query and ask, and with --kgc complete. After SIGTERM or
    Ctrl-C open requests are answered first.

    Example: kept serve --kg kg/ --run runs/people
    """
    import secrets

    from kept.apps.serve import require_extra

    linking = (index, reranker, cast("Case | None", case))
    if mcp:
        of_http = {"--model": model, "--run": run, "--probe": probe, "--fd": fd, "--name": name}
        for option, value in of_http.items():
            if value:
                raise ConfigError(f"{option} is for HTTP; leave it out with --mcp")
        require_extra("mcp")
        _serve_tools(kg, kgc, *linking, max_requests, max_seconds)
        return
    require_extra()
    from kept.apps.serve.limits import Limits
    from kept.apps.serve.opening import open_service
    from kept.apps.serve.server import listen, make_server, require_address

    require_address(address, token)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    service = open_service(
        kg, model=model, runs=run or (), probe=probe, kgc=kgc, index=index, reranker=reranker,
        tokenizer=tokenizer, case=linking[2], backend=backend, precision=precision,
    )  # fmt: skip
    listening = listen(address, port) if fd is None else socket.socket(fileno=fd)
    limits = Limits(
        batch_texts=batch_texts,
        n_requests=max_requests,
        answer_seconds=max_seconds,
        memory_bytes=None if max_memory is None else int(max_memory * 1024**3),
    )
    secret = secrets.token_urlsafe(32) if token is None else token
    host, bound = listening.getsockname()[:2]
    echo(f"http://{f'[{host}]' if ':' in host else host}:{bound}/docs")
    if token is None:
        echo(f"Authorization: Bearer {secret}")
    server = make_server(service, listening, token=secret, names=name or (), limits=limits)
    # uvicorn raises them again once it has stopped
    signal.signal(signal.SIGINT, lambda *_: mark_interrupted())
    signal.signal(signal.SIGTERM, lambda *_: None)
    server.run(sockets=[listening])
    echo("stopped; all requests were answered")


def _serve_tools(
    kg: Path,
    kgc: Path | None,
    index: Path | None,
    reranker: Path | None,
    case: Case | None,
    max_calls: int,
    max_seconds: float,
) -> None:
    """Serve the tools over standard input and output; nothing else is written to the latter."""
    from kept.apps.serve.limits import Limits
    from kept.apps.serve.mcp_server import make_mcp_server, open_tools
    from kept.apps.serve.stdio import output_for_protocol, run_stdio
    from kept.linking.linkers import settings_of

    limits = Limits(n_requests=max_calls, answer_seconds=max_seconds)
    with output_for_protocol():
        settings = settings_of(kg, index=index, reranker=reranker, case=case)
        tools = open_tools(settings, kgc, limits)
    server = make_mcp_server(tools)
    fault = run_stdio(
        server, lambda: tools.n_calls > 0, seconds=max_seconds, on_interrupt=mark_interrupted
    )
    if fault:
        raise ConfigError(fault)
