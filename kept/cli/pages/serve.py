"""`kept serve`: a graph, its linker and models, over HTTP or the Model Context Protocol."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Annotated, cast

import typer

from kept.bounds import MAX_COUNT
from kept.cli.errors import mark_interrupted
from kept.cli.options import LinkCase, Threads, local_or_hub
from kept.cli.terminal import echo


def serve(
    kg: Annotated[Path, typer.Option("--kg", help="Folder of the knowledge graph.")],
    model: Annotated[
        str | None,
        typer.Option(
            callback=local_or_hub,
            help="Encoder for /encode: the folder of a run, minilm, a folder or a hub name.",
        ),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of a run of `kept fit` or `kept finetune`, for /predict and /show; may be "
            "repeated."
        ),
    ] = None,
    probe: Annotated[
        str | None, typer.Option(callback=local_or_hub, help="Masked LM or run for /probe.")
    ] = None,
    kgc: Annotated[
        Path | None, typer.Option(help="Folder of `kept kgc train` for /complete.")
    ] = None,
    index: Annotated[Path | None, typer.Option(help="Folder made by `kept link index`.")] = None,
    case: LinkCase = None,
    reranker: Annotated[
        Path | None, typer.Option(help="Link with a re-ranker of `kept link train`.")
    ] = None,
    tokenizer: Annotated[
        str,
        typer.Option(callback=local_or_hub, help="Of /show: minilm, a folder or a hub name."),
    ] = "minilm",
    address: Annotated[
        str, typer.Option(help="IP address to listen on; the default is this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    fd: Annotated[
        int | None,
        typer.Option(min=3, max=MAX_COUNT, help="A socket that listens already, by its number."),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Host header to answer, such as kept.example.org; may be repeated."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="KEPT_TOKEN", help="What requests carry (default: a new one)."),
    ] = None,
    batch_texts: Annotated[
        int, typer.Option(min=1, max=1024, help="Texts of several requests in one batch.")
    ] = 64,
    max_requests: Annotated[
        int, typer.Option(min=1, max=10_000, help="Requests in work or waiting; others get 503.")
    ] = 64,
    max_seconds: Annotated[
        float, typer.Option(min=0.001, max=3600, help="Until an answer, waiting included.")
    ] = 60.0,
    max_memory: Annotated[
        float | None,
        typer.Option(min=0.001, max=1e6, help="GiB of this process; above, requests get 503."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Serve a graph and models over HTTP: /link, /show, /encode, /probe, /complete.

    Listens on this machine alone. /docs describes the requests, /metrics is for Prometheus.
    SIGTERM or Ctrl-C stops it once everything that was asked is answered.

    Example: kept serve --kg kg/ --model runs/ernie
    """
    import secrets

    from kept.serve import require_extra

    require_extra()
    from entity_linking.names.rules.case import Case
    from kept.serve.limits import Limits
    from kept.serve.opening import open_service
    from kept.serve.server import listen, make_server, require_address

    require_address(address, token)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    service = open_service(
        kg, model=model, runs=run or (), probe=probe, kgc=kgc, index=index, reranker=reranker,
        tokenizer=tokenizer, case=cast(Case | None, case),
    )  # fmt: skip
    listening = listen(address, port) if fd is None else socket.socket(fileno=fd)
    limits = Limits(
        batch_texts=batch_texts,
        n_requests=max_requests,
        answer_seconds=max_seconds,
        memory_bytes=None if max_memory is None else int(max_memory * 1024**3),
    )
    own = secrets.token_urlsafe(32) if token is None else token
    place, bound = listening.getsockname()[:2]
    echo(f"http://{f'[{place}]' if ':' in place else place}:{bound}/docs")
    if token is None:
        echo(f"Authorization: Bearer {own}")
    server = make_server(service, listening, token=own, names=name or (), limits=limits)
    # uvicorn raises them again once it has stopped
    signal.signal(signal.SIGINT, lambda *_: mark_interrupted())
    signal.signal(signal.SIGTERM, lambda *_: None)
    server.run(sockets=[listening])
    echo("ended; everything that was asked is answered")
