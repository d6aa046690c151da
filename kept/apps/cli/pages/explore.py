"""`kept explore`: one page in the browser, served to this machine alone, or written as a file."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kept.apps.cli.declared import option, required, switch, takes
from kept.apps.cli.errors import mark_interrupted
from kept.apps.cli.options import LinkCase, local_or_hub
from kept.apps.cli.terminal import echo
from kept.help_texts import INDEX, KG, PORT, RERANKER, TOKENIZER
from kg_loaders.counting import counted

if TYPE_CHECKING:
    from kept.apps.explorer.server import ExplorerServer


@dataclass(frozen=True, kw_only=True)
class ExploreOptions:
    """What the command is given; a field is an option."""

    kg: Path = required(KG)
    model: list[Path] | None = option(
        "Folder of a run of `kept finetune`, to show what it predicts. May be repeated."
    )
    text: str | None = option(
        "A file with one text per line, or the text itself.", metavar="FILE|TEXT"
    )
    output: Path | None = option(
        "Write the page to this .html file instead of serving it.", "--output", "-o"
    )
    corrections: Path = option(
        "File to which links that you correct are added, in the form that `kept link train` reads.",
        "--gold",
        default=Path("gold.jsonl"),
    )
    reranker: Path | None = option(RERANKER)
    index: Path | None = option(INDEX)
    case: LinkCase = None
    tokenizer: str = option(TOKENIZER, default="minilm", callback=local_or_hub)
    port: int = option(PORT, default=0, bounds=(0, 65535))
    open_page: bool = switch("Open the page in the browser.", "--open")
    force: bool = switch("With -o: replace the file even if kept did not write it.")


@takes(ExploreOptions)
def explore(options: ExploreOptions) -> None:
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

    output, models = options.output, options.model or ()
    if output is not None:
        refuse_page(output, force=options.force, inputs=[options.kg, *models])
    texts = [] if options.text is None else read_texts(options.text)
    explorer = open_explorer(
        options.kg,
        models,
        tokenizer=options.tokenizer,
        reranker=options.reranker,
        index=options.index,
        gold=options.corrections,
        case=cast(Case | None, options.case),
    )
    if output is not None:
        write_text(output, static_page(explorer, texts), force=True)
        echo(
            f"{output}: {counted(len(texts) or 1, 'texts')}; it works without a server and a "
            "network"
        )
        if options.open_page:
            webbrowser.open(output.resolve().as_uri())
        return
    server = ExplorerServer(explorer, texts, port=options.port)
    echo(server.url)
    gold = options.corrections
    echo(f"for you on this machine alone; corrected links go to {gold}; Ctrl-C ends it")
    if options.open_page:
        webbrowser.open(server.url)
    _serve_until_stopped(server)


def _serve_until_stopped(server: ExplorerServer) -> None:
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
