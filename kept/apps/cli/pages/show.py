"""`kept show`: the word-knowledge graph of a text, as one offline page."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.options import LinkCase, local_or_hub
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import KG, TOKENIZER


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """What the command is given; a field is an option."""

    text: str = argument("The text to link and to draw.")
    kg: Path = required(KG)
    output: Path = option(
        "File to write: an .html page, or with a name in .svg the picture alone.",
        "--output",
        "-o",
        default=Path("graph.html"),
    )
    open_page: bool = switch("Open the page in the browser.", "--open")
    tokenizer: str = option(TOKENIZER, default="minilm", callback=local_or_hub)
    policy: str = option("Order in which facts are chosen: file, random, degree.", default="degree")
    max_neighbours: int = option(
        "Largest number of facts per entity in the text.", default=4, bounds=(0, 10**6)
    )
    directions: str = option(
        "head: only facts whose head is the entity in the text. both: also facts whose tail it is.",
        default="head",
    )
    keep_mentions: bool = switch("Draw the words of a mention as well as its entity.")
    case: LinkCase = None
    seed: int = option(
        "Number from which the order `--policy random` follows.", default=0, bounds=(0, MAX_SEED)
    )
    force: bool = switch("Replace the file even if kept did not write it.")


@takes(ShowOptions)
def show(options: ShowOptions) -> None:
    """Draw the word-knowledge graph of a text: its links, their facts, and why they were chosen.

    The text is linked as by `kept link`. Facts that do not fit into the drawing are counted below
    it. A page that kept drew before is replaced.

    Example: kept show "Paris lies on the Seine." --kg kg/ -o graph.svg
    """
    from kept.errors import ConfigError
    from kept.graphs.builder import BuilderConfig, build
    from kept.graphs.drawing.draw import draw_html, draw_svg
    from kept.graphs.explain import ambiguous_links, left_out
    from kept.graphs.views import is_anchor
    from kept.hosts import load_tokenizer
    from kept.lab.report.page import is_kept_page
    from kept.linking.linkers import open_graph, open_linker, settings_from
    from kept.randomness import generator
    from kg_loaders.disk.writing import refuse_file, write_text

    drawings = {".html": draw_html, ".htm": draw_html, ".svg": draw_svg}
    draw = drawings.get(options.output.suffix.lower())
    if draw is None:
        raise ConfigError(
            f"{options.output}: kept draws a page (.html, .htm) or a picture (.svg); choose such a "
            "name, or convert the .svg with another program"
        )
    force = options.force or is_kept_page(options.output)
    refuse_file(options.output, force=force, inputs=[options.kg])
    config = BuilderConfig(
        policy=options.policy,
        max_neighbours=options.max_neighbours,
        directions=cast(Literal["head", "both"], options.directions),
        replace_mentions=not options.keep_mentions,
    )
    linking = settings_from(options, "kg", "case")
    graph = open_graph(linking)
    pieces = load_tokenizer(options.tokenizer)
    (linked,) = open_linker(linking, graph).link([options.text])
    built = build(linked, pieces, graph, generator=generator(options.seed, "show"), config=config)
    write_text(options.output, draw(built, graph, pieces), force=force)
    if not is_anchor(built).any():
        echo("no entity of this graph was found in the text", fg="yellow", err=True)
    for sentence in (*ambiguous_links(built, graph), *left_out(built, graph)):
        echo(sentence, fg="yellow", err=True)
    echo(f"{built} in {options.output}")
    if options.open_page:
        webbrowser.open(options.output.resolve().as_uri())
