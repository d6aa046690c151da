"""`kept explore`: one page in the browser, served to this machine alone, or written as a file."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, cast

import typer

from kept.apps.cli.errors import mark_interrupted
from kept.apps.cli.options import LinkCase, local_or_hub
from kept.apps.cli.terminal import echo
from kept.help_texts import INDEX, KG, PORT, RERANKER, TOKENIZER


def explore(
    kg: Annotated[Path, typer.Option("--kg", help=KG)],
    model: Annotated[
        list[Path] | None,
        typer.Option(
            "--model",
            help="Folder of a run of `kept finetune`, to show what it predicts. May be repeated.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text", metavar="FILE|TEXT", help="A file with one text per line, or the text itself."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the page to this .html file instead of serving it."
        ),
    ] = None,
    corrections: Annotated[
        Path,
        typer.Option(
            "--gold",
            help="File to which links that you correct are added, in the form that `kept link "
            "train` reads.",
        ),
    ] = Path("gold.jsonl"),
    reranker: Annotated[Path | None, typer.Option(help=RERANKER)] = None,
    index: Annotated[Path | None, typer.Option(help=INDEX)] = None,
    case: LinkCase = None,
    tokenizer: Annotated[
        str,
        typer.Option(callback=local_or_hub, help=TOKENIZER),
    ] = "minilm",
    port: Annotated[int, typer.Option(min=0, max=65535, help=PORT)] = 0,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="With -o: replace the file even if kept did not write it."),
    ] = False,
) -> None:
    """Explore a text in the browser: links, facts, answers, and what changes them.

    On the page you can correct links, see what each method reads, leave facts out and change them.
    The page can be reached from this machine alone, under a secret address. Ctrl-C ends the server.

    Example: kept explore --kg kg/ --model runs/types --text notes.txt --open
    """
    import webbrowser

    from entity_linking.names.rules.case import Case
    from kept.apps.explorer.opening import open_explorer, read_texts
    from kept.apps.explorer.page import refuse_page, static_page
    from kept.apps.explorer.server import ExplorerServer
    from kg_loaders.disk.writing import write_text

    if output is not None:
        refuse_page(output, force=force, inputs=[kg, *(model or ())])
    texts = [] if text is None else read_texts(text)
    explorer = open_explorer(
        kg, model or (), tokenizer=tokenizer, reranker=reranker, index=index, gold=corrections,
        case=cast(Case | None, case),
    )  # fmt: skip
    if output is not None:
        write_text(output, static_page(explorer, texts), force=True)
        echo(f"{output}: {len(texts) or 1} texts; it works without a server and a network")
        if open_page:
            webbrowser.open(output.resolve().as_uri())
        return
    server = ExplorerServer(explorer, texts, port=port)
    echo(server.url)
    echo(f"for you on this machine alone; corrected links go to {corrections}; Ctrl-C ends it")
    if open_page:
        webbrowser.open(server.url)
    received: list[int] = []

    def stop(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        echo("ended")
        if signal.SIGINT in received:
            mark_interrupted()
    finally:
        server.server_close()
