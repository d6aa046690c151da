"""`kept serve`: a graph, its linker and models, over HTTP or the Model Context Protocol."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kept.apps.cli.errors import mark_interrupted
from kept.apps.cli.options import LinkCase, Threads, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_COUNT
from kept.errors import ConfigError

if TYPE_CHECKING:
    from entity_linking.names.rules.case import Case


def serve(
    kg: Annotated[Path, typer.Option("--kg", help="Folder of the knowledge graph.")],
    mcp: Annotated[
        bool,
        typer.Option(
            "--mcp",
            help="No HTTP: tools for language models over standard input and output (MCP).",
        ),
    ] = False,
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
        Path | None, typer.Option(help="Folder of `kept kgc train`, to complete triples.")
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
    """Serve a graph and models over HTTP, or as tools for language models (--mcp).

    Over HTTP: /link, /facts, /ask, and with models /predict, /show, /encode, /probe, /complete. It
    listens on this machine alone; /docs describes the requests, /metrics is for Prometheus. With
    --mcp: link, facts, query, ask, and with --kgc complete. SIGTERM or Ctrl-C stops either once
    everything that was asked is answered.

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
        tokenizer=tokenizer, case=linking[2],
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
