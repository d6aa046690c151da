"""`kept link`: find the entities of a knowledge graph in text.

`kept link FILE|TEXT` links (`kept.apps.cli.link.run`); the other commands of the group are modules
`link_*` of this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from kept.apps.cli.link.calibrate import calibrate
from kept.apps.cli.link.corrupt import corrupt
from kept.apps.cli.link.encoder import train_encoder
from kept.apps.cli.link.index import index as index_command
from kept.apps.cli.link.score import score
from kept.apps.cli.link.tagger import train_tagger
from kept.apps.cli.link.train import train
from kept.apps.cli.options import KeptCommand, LinkCase
from kept.bounds import MAX_THREADS
from kept.help_texts import FORCE_OUTPUT, INDEX, KG_OR_FILE, LINK_METHOD, LINK_MODEL, RESUME_OUTPUT

DEFAULT = "text"


class LinksByDefault(TyperGroup):
    """A group whose command is `text` when the first argument names none of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command; `kept link --help` stays that of the group."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The commands, then everything about the default one."""
        super().format_help(ctx, formatter)
        default = self.commands[DEFAULT]
        default.format_help(type(ctx)(default, info_name=DEFAULT, parent=ctx), formatter)


app = typer.Typer(cls=LinksByDefault, no_args_is_help=True)
app.command("index", cls=KeptCommand)(index_command)
app.command("train", cls=KeptCommand)(train)
app.command("train-tagger", cls=KeptCommand)(train_tagger)
app.command("train-encoder", cls=KeptCommand)(train_encoder)
app.command("calibrate", cls=KeptCommand)(calibrate)
app.command("score", cls=KeptCommand)(score)
app.command("corrupt", cls=KeptCommand)(corrupt)


@app.callback()
def _group() -> None:
    """Link text to a knowledge graph. `kept link TEXT` is short for `kept link text TEXT`.

    Example: kept link notes.txt --kg kg/ -o linked.jsonl
    """


TextFiles = list[Path] | None
ALL = "all"


def _most(candidates: str) -> int | None:
    """The number of `--candidates`, None for all; raises `LinkingError` for anything else."""
    from entity_linking.errors import LinkingError

    if candidates == ALL:
        return None
    if not (candidates.isascii() and candidates.isdecimal() and 1 <= len(candidates) <= 6):
        raise LinkingError(f"--candidates is {candidates!r}; give a number from 1 on, or all")
    if not int(candidates):
        raise LinkingError("--candidates is 0; give a number from 1 on, or all")
    return int(candidates)


@app.command(DEFAULT, cls=KeptCommand)
def link(
    source: Annotated[
        str, typer.Argument(metavar="FILE|TEXT", help="A file of texts, or the text itself.")
    ],
    kg: Annotated[Path, typer.Option("--kg", help=KG_OR_FILE)],
    labels: Annotated[
        TextFiles,
        typer.Option(help="With a file as --kg: TSV file of names, id and label.", metavar="FILE"),
    ] = None,
    aliases: Annotated[
        TextFiles,
        typer.Option(
            help="With a file as --kg: TSV file of further names, id and alias.", metavar="FILE"
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help=INDEX),
    ] = None,
    method: Annotated[str, typer.Option(help=LINK_METHOD)] = "prior",
    model: Annotated[Path | None, typer.Option(help=LINK_MODEL)] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="Format of FILE, one of {kept.apps.cli.link.inputs:FORMATS} (default: by "
            "the name of "
            "the file)."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write JSON lines to this file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines instead of a table.")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Also print the second-best candidate and why it was not chosen."
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help=RESUME_OUTPUT)] = False,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_THREADS, help="Number of processes. It does not change the result."
        ),
    ] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Run the processes of --workers on a Ray cluster: local, auto, or its address.",
            metavar="ADDRESS",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_OUTPUT)] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which links are cached, so that the same text is linked once."
        ),
    ] = None,
    candidates: Annotated[
        str,
        typer.Option(
            metavar="N|all",
            help="Number of candidates to write per link, best first. Write all for pre-training "
            "KnowBERT and other methods that choose among candidates.",
        ),
    ] = "3",
    damage: Annotated[
        str, typer.Option(help="What to do at a line that cannot be read: stop, or skip it.")
    ] = "stop",
    decision: Annotated[
        Path | None,
        typer.Option(
            help="File made by `kept link calibrate`, with temperature, NIL and threshold."
        ),
    ] = None,
    tagger: Annotated[
        str | None,
        typer.Option(
            help="Also find names with a tagger: a folder made by `kept link train-tagger`, "
            "ready:names (of the package kept-weights), spacy:NAME, or gliner:NAME=type,type "
            "(types: default the graph's)."
        ),
    ] = None,
    pronouns: Annotated[
        bool,
        typer.Option(
            "--pronouns",
            help="With --tagger: also link words such as he, it and the town to the entity that "
            "they refer to.",
        ),
    ] = False,
    misspelt: Annotated[
        bool, typer.Option("--misspelt", help="Also find names with a misspelt word (slower).")
    ] = False,
    capitals: Annotated[
        bool,
        typer.Option(
            "--capitals",
            help="Only link what is written as a name, with capitals; such words next to each "
            "other are one name. For news and articles over a graph of people, places and works.",
        ),
    ] = False,
    case: LinkCase = None,
    min_prior: Annotated[
        float, typer.Option(min=0, max=1, help="Drop candidates whose prior is lower, from 0 to 1.")
    ] = 0.0,
    nil_below: Annotated[
        float,
        typer.Option(min=0, max=1, help="Link to NIL if the confidence is lower, from 0 to 1."),
    ] = 0.0,
    nil_from: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="With --method trained or --tagger: link to NIL if its probability is at least "
            "this, from 0 to 1. 0.5 means where NIL is likelier than not (default: NIL is "
            "not predicted).",
        ),
    ] = None,
    min_length: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Length of the shortest name that is matched, in characters."
        ),
    ] = 2,
    language: Annotated[
        list[str] | None,
        typer.Option(help="Use names in this language (default: all). May be repeated."),
    ] = None,
    deprecated: Annotated[
        bool,
        typer.Option("--deprecated", help="Also link to terms that their source calls deprecated."),
    ] = False,
) -> None:
    """Link text: find the entities of a graph in it. This needs no training and no network.

    FILE has one text per line, JSON lines with `text`, or annotated texts of another format
    (--format). If a line has `mentions`, only these are linked.

    Example: kept link "Paris lies on the Seine." --kg kg/ --explain
    """
    from entity_linking.errors import LinkingError
    from entity_linking.names.rules.case import Case
    from kept.apps.cli.link.run import LinkRun, items_of, tell_damage
    from kept.linking.linkers import LinkerSettings, Method
    from kept.linking.stream import Work
    from kg_loaders.damage import DamagePolicy, DamageReport
    from kg_loaders.disk.writing import refuse_file

    if damage not in ("stop", "skip"):
        raise LinkingError(f"--damage is {damage!r}; choose stop or skip")
    if (resume or force) and output is None:
        raise LinkingError("--resume and --force are about a file; name it with -o")
    if resume and force:
        raise LinkingError("--resume continues a run and --force starts anew; give one of them")
    settings = LinkerSettings(
        kg=str(kg),
        labels=tuple(map(str, labels or ())),
        aliases=tuple(map(str, aliases or ())),
        index=None if index is None else str(index),
        model=None if model is None else str(model),
        decision=None if decision is None else str(decision),
        method=cast(Method, method),
        case=cast(Case | None, case),
        min_prior=min_prior,
        nil_below=nil_below,
        nil_from=nil_from,
        min_length=min_length,
        languages=None if language is None else tuple(language),
        deprecated=deprecated,
        tagger=tagger,
        pronouns=pronouns,
        misspelt=misspelt,
        capitals=capitals,
    )
    named = (source, kg, index, model, decision, *(labels or ()), *(aliases or ()))
    inputs = [path for path in named if path is not None]
    if output is not None:
        refuse_file(output, force=resume or force, inputs=inputs)
    report = DamageReport(
        policy=DamagePolicy(damage), remedy="mend the line, or link with --damage skip"
    )
    items, n_expected = items_of(source, format, report)
    work = Work(settings, None if cache is None else str(cache), _most(candidates))
    run = LinkRun(work, workers, n_expected, cluster)
    if output is not None:
        run.write(items, output, resume=resume, force=force, inputs=inputs)
    elif as_json:
        run.print_json(items)
    else:
        run.print_table(items, explain=explain)
    tell_damage(report)
