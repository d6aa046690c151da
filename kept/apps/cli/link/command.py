"""`kept link`: find the entities of a knowledge graph in text.

`kept link FILE|TEXT` links (`kept.apps.cli.link.run`); the other commands of the group are modules
`link_*` of this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from kept.apps.cli.declared import argument, option, required, switch, takes
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


@dataclass(frozen=True, kw_only=True)
class LinkOptions:
    """What the command is given; a field is an option."""

    source: str = argument("A file of texts, or the text itself.", metavar="FILE|TEXT")
    kg: Path = required(KG_OR_FILE)
    labels: list[Path] | None = option(
        "With a file as --kg: TSV file of names, id and label.", metavar="FILE"
    )
    aliases: list[Path] | None = option(
        "With a file as --kg: TSV file of further names, id and alias.", metavar="FILE"
    )
    index: Path | None = option(INDEX)
    method: str = option(LINK_METHOD, default="prior")
    model: Path | None = option(LINK_MODEL)
    format: str | None = option(
        "Format of FILE, one of {kept.apps.cli.link.inputs:FORMATS} (default: by "
        "the name of "
        "the file)."
    )
    output: Path | None = option("Write JSON lines to this file.", "--output", "-o")
    as_json: bool = switch("Print JSON lines instead of a table.", "--json")
    explain: bool = switch("Also print the second-best candidate and why it was not chosen.")
    resume: bool = switch(RESUME_OUTPUT)
    workers: int = option(
        "Number of processes. It does not change the result.", default=1, bounds=(1, MAX_THREADS)
    )
    cluster: str | None = option(
        "Run the processes of --workers on a Ray cluster: local, auto, or its address.",
        metavar="ADDRESS",
    )
    force: bool = switch(FORCE_OUTPUT)
    cache: Path | None = option(
        "Folder in which links are cached, so that the same text is linked once."
    )
    candidates: str = option(
        "Number of candidates to write per link, best first. Write all for pre-training "
        "KnowBERT and other methods that choose among candidates.",
        default="3",
        metavar="N|all",
    )
    damage: str = option(
        "What to do at a line that cannot be read: stop, or skip it.", default="stop"
    )
    decision: Path | None = option(
        "File made by `kept link calibrate`, with temperature, NIL and threshold."
    )
    tagger: str | None = option(
        "Also find names with a tagger: a folder made by `kept link train-tagger`, "
        "ready:names (of the package kept-weights), spacy:NAME, or gliner:NAME=type,type "
        "(types: default the graph's)."
    )
    pronouns: bool = switch(
        "With --tagger: also link words such as he, it and the town to the entity that "
        "they refer to."
    )
    misspelt: bool = switch("Also find names with a misspelt word (slower).")
    capitals: bool = switch(
        "Only link what is written as a name, with capitals; such words next to each other are one "
        "name. For news and articles over a graph of people, places and works. Texts in small "
        "letters, or all in capitals, are linked as without it."
    )
    case: LinkCase = None
    min_prior: float = option(
        "Drop candidates whose prior is lower, from 0 to 1.", default=0.0, bounds=(0, 1)
    )
    nil_below: float = option(
        "Link to NIL if the confidence is lower, from 0 to 1.", default=0.0, bounds=(0, 1)
    )
    nil_from: float | None = option(
        "With --method trained or --tagger: link to NIL if its probability is at least "
        "this, from 0 to 1. 0.5 means where NIL is likelier than not (default: NIL is "
        "not predicted).",
        bounds=(0, 1),
    )
    min_length: int = option(
        "Length of the shortest name that is matched, in characters.", default=2, bounds=(1, 1000)
    )
    languages: list[str] | None = option(
        "Use names in this language (default: all). May be repeated.", "--language"
    )
    deprecated: bool = switch("Also link to terms that their source calls deprecated.")

    def inputs(self) -> list[str | Path]:
        """Return what is read, which no output may replace."""
        one_each = (self.source, self.kg, self.index, self.model, self.decision)
        several = (*(self.labels or ()), *(self.aliases or ()))
        return [path for path in (*one_each, *several) if path is not None]


@app.command(DEFAULT, cls=KeptCommand)
@takes(LinkOptions)
def link(options: LinkOptions) -> None:
    """Link text: find the entities of a graph in it. This needs no training and no network.

    FILE has one text per line, JSON lines with `text`, or annotated texts of another format
    (--format). If a line has `mentions`, only these are linked.

    Example: kept link "Paris lies on the Seine." --kg kg/ --explain
    """
    from entity_linking.errors import LinkingError
    from kept.apps.cli.link.run import LinkRun, items_of, tell_damage
    from kept.linking.linkers import settings_from
    from kept.linking.stream import Work
    from kg_loaders.damage import DamagePolicy, DamageReport
    from kg_loaders.disk.writing import refuse_file

    if options.damage not in ("stop", "skip"):
        raise LinkingError(f"--damage is {options.damage!r}; choose stop or skip")
    if (options.resume or options.force) and options.output is None:
        raise LinkingError("--resume and --force are about a file; name it with -o")
    if options.resume and options.force:
        raise LinkingError("--resume continues a run and --force starts anew; give one of them")
    settings = settings_from(options)
    inputs = options.inputs()
    if options.output is not None:
        refuse_file(options.output, force=options.resume or options.force, inputs=inputs)
    report = DamageReport(
        policy=DamagePolicy(options.damage), remedy="mend the line, or link with --damage skip"
    )
    items, n_expected = items_of(options.source, options.format, report)
    cache = None if options.cache is None else str(options.cache)
    work = Work(settings, cache, _most(options.candidates))
    run = LinkRun(work, options.workers, n_expected, options.cluster)
    if options.output is not None:
        run.write(items, options.output, resume=options.resume, force=options.force, inputs=inputs)
    elif options.as_json:
        run.print_json(items)
    else:
        run.print_table(items, explain=options.explain)
    tell_damage(report)
