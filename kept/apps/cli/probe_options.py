"""Options of `kept probe`, declared once."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from kept.bounds import MAX_COUNT, MAX_SEED, MAX_THREADS, MAX_WEIGHT
from kept.errors import ConfigError
from kept.help_texts import FORCE_FILES, SEED, THREADS
from kept.lab.probing.results import Likelihood
from kept.training.config import RunConfig
from kept.training.options import option


class ProbeOptions(RunConfig):
    """What `kept probe` is given; a field is an option, its description the help."""

    model: str = Field(
        description="A masked language model (a folder or a name on the Hugging Face hub), a "
        "decoder (a folder, or smollm2), or the folder of a run.",
        json_schema_extra={"check": "local or hub"},
    )
    kg: Path | None = option(
        "Folder of the knowledge graph. Its triples are the questions, unless "
        "--collection is given."
    )
    collection: str = option(
        "Use the questions of this collection in the folder of LAMA: trex, pararel, squad, …",
        default="",
    )
    data: Path | None = option("Folder of LAMA, for --collection.")
    relations: str = option(
        "Relations to probe, separated by commas, such as P19,P36 (default: all).", default=""
    )
    templates: Path | None = option(
        'File with a sentence for each relation: TSV with lines such as P19<TAB>"[X] '
        'was born in [Y] .", or JSON lines in the form of LAMA. A relation without a '
        'sentence becomes "[X] LABEL [Y] .".'
    )
    mode: str = option(
        "weights: the model alone. graph: the model with links and facts of the graph. "
        "both: one after the other.",
        default="weights",
    )
    show_asked: bool = option(
        "With --mode graph: also give the model the facts that are the answers.", default=False
    )
    vocabulary: Path | None = option(
        "File with the words to rank, one per line (default: all words of one piece)."
    )
    max_items: int | None = option(
        "Largest number of triples per relation; more are sampled with --seed (default: all).",
        bounds=(1, MAX_COUNT),
    )
    edits: int = option(
        "With --mode graph: change this many facts, one at a time, and report which "
        "answers change.",
        default=0,
        bounds=(0, MAX_COUNT),
    )
    one_by_one: bool = option(
        "Score answers of several word pieces by filling one mask at a time (slow).", default=False
    )
    truth: bool = option(
        "Rank answers by how true the model judges the sentence with each of them. "
        "Needs a run trained with the objective mention_truth (WKLM); slow, one pass "
        "per answer.",
        default=False,
    )
    first_word: float = option(
        "With --truth: weight of the probability of the answer's first word piece, "
        "which is added to the score.",
        default=0.0,
        bounds=(0.0, MAX_WEIGHT),
    )
    output: Path | None = option("Folder for scores (JSON) and answers (JSON lines).", short="-o")
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    threads: int | None = option(THREADS, bounds=(1, MAX_THREADS))
    force: bool = option(FORCE_FILES, default=False)

    @property
    def relation_names(self) -> tuple[str, ...]:
        """The relations to probe, each once; empty for all."""
        names = (name.strip() for name in self.relations.split(","))
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def likelihood(self) -> Likelihood:
        """How objects are scored.

        Raises `ConfigError` for options that contradict one another.
        """
        if self.one_by_one and self.truth:
            raise ConfigError("--one-by-one and --truth are two ways to score an object; give one")
        if self.first_word and not self.truth:
            raise ConfigError("--first-word adds to the score of --truth; give both, or neither")
        return "truth" if self.truth else "one_by_one" if self.one_by_one else "at_once"
