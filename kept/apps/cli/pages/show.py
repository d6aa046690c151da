"""`kept show`: the word-knowledge graph of a text, as one offline page."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from kept.apps.cli.options import LinkCase, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import KG, TOKENIZER


def show(
    text: Annotated[str, typer.Argument(help="The text to link and to draw.")],
    kg: Annotated[Path, typer.Option("--kg", help=KG)],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File to write: an .html page, or with a name in .svg the picture alone.",
        ),
    ] = Path("graph.html"),
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser.")
    ] = False,
    tokenizer: Annotated[
        str,
        typer.Option(callback=local_or_hub, help=TOKENIZER),
    ] = "minilm",
    policy: Annotated[
        str, typer.Option(help="Order in which facts are chosen: file, random, degree.")
    ] = ("degree"),
    max_neighbours: Annotated[
        int, typer.Option(min=0, max=10**6, help="Largest number of facts per entity in the text.")
    ] = 4,
    directions: Annotated[
        str,
        typer.Option(
            help="head: only facts whose head is the entity in the text. both: also facts whose "
            "tail it is."
        ),
    ] = "head",
    keep_mentions: Annotated[
        bool,
        typer.Option("--keep-mentions", help="Draw the words of a mention as well as its entity."),
    ] = False,
    case: LinkCase = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_SEED, help="Number from which the order `--policy random` follows."
        ),
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file even if kept did not write it.")
    ] = False,
) -> None:
    """Draw the word-knowledge graph of a text: its links, their facts, and why they were chosen.

    The text is linked as by `kept link`. Facts that do not fit into the drawing are counted below
    it. A page that kept drew before is replaced.

    Example: kept show "Paris lies on the Seine." --kg kg/ -o graph.svg
    """
    from entity_linking.names.rules.case import Case
    from kept.errors import ConfigError
    from kept.graphs.builder import BuilderConfig, build
    from kept.graphs.drawing.draw import draw_html, draw_svg
    from kept.graphs.explain import ambiguous_links, left_out
    from kept.graphs.views import is_anchor
    from kept.hosts import load_tokenizer
    from kept.lab.report.page import is_kept_page
    from kept.linking.linkers import LinkerSettings, open_graph, open_linker
    from kept.randomness import generator
    from kg_loaders.disk.writing import refuse_file, write_text

    drawings = {".html": draw_html, ".htm": draw_html, ".svg": draw_svg}
    draw = drawings.get(output.suffix.lower())
    if draw is None:
        raise ConfigError(
            f"{output}: kept draws a page (.html, .htm) or a picture (.svg); choose such a name, "
            "or convert the .svg with another program"
        )
    force = force or is_kept_page(output)
    refuse_file(output, force=force, inputs=[kg])
    config = BuilderConfig(
        policy=policy,
        max_neighbours=max_neighbours,
        directions=cast(Literal["head", "both"], directions),
        replace_mentions=not keep_mentions,
    )
    linking = LinkerSettings(kg=str(kg), case=cast(Case | None, case))
    graph = open_graph(linking)
    pieces = load_tokenizer(tokenizer)
    (linked,) = open_linker(linking, graph).link([text])
    built = build(linked, pieces, graph, generator=generator(seed, "show"), config=config)
    write_text(output, draw(built, graph, pieces), force=force)
    if not is_anchor(built).any():
        echo("no entity of this graph was found in the text", fg="yellow", err=True)
    for sentence in (*ambiguous_links(built, graph), *left_out(built, graph)):
        echo(sentence, fg="yellow", err=True)
    echo(f"{built} in {output}")
    if open_page:
        webbrowser.open(output.resolve().as_uri())
