"""What the lexical studies read: WordNet as a graph, linked texts, lexicons true and false.

Sizes are `files` of a study; what is there is not made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from entity_linking.annotations import write_jsonl
from entity_linking.dictionary import DictionaryLinker
from experiments.stages import StagedStudy
from kept.inputs.controls.conditions import controlled_text, random_entities
from kept.objectives.lexical.terms import graph_pairs
from kept.randomness import generator
from kept.tasks.datasets.conllu import read_conllu
from kept.tasks.datasets.public_files import lines
from kg_loaders import KnowledgeGraph, Source, load
from kg_loaders.disk.writing import write_lines
from kg_loaders.formats.wordnet import find_wordnet

TREES = "linguistic/ud_english_ewt/train_from_sources.conllu.gz"
STARS = "sentiment/sst5/sst_train.txt"
LEXICON = "sentiment/sentiwordnet3/swn3_by_synset.tsv"
REVIEWS = ("amazon_cells_labelled.txt", "yelp_labelled.txt", "imdb_labelled.txt")
LABEL = "__label__"


def sample(n: int, size: int, name: str) -> list[int]:
    """Return `size` of `n` numbers, drawn under a name, in order."""
    return sorted(generator(0, name).permutation(n)[:size].tolist())


def write_linked(graph: KnowledgeGraph, texts: Sequence[str], folder: Path) -> None:
    """Write `linked.jsonl`."""
    write_jsonl(DictionaryLinker(graph).link(texts), folder / "linked.jsonl", force=True)


def wordnet(folder: Path) -> KnowledgeGraph:
    """WordNet's graph in `made`/wn."""
    if not (folder / "wn").exists():
        load([Source(find_wordnet(), "wordnet")], out=folder / "wn")
    return KnowledgeGraph.open(folder / "wn")


def write_tsv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Lines of cells with a TAB between."""
    write_lines(path, ("\t".join(row).encode() + b"\n" for row in rows), force=True)


def senses(study: StagedStudy, root: Path, folder: Path) -> None:
    """`linked.jsonl`: sentences of a treebank, linked; `strangers.jsonl`: every synset another."""
    graph = wordnet(folder)
    if (folder / "strangers.jsonl").exists():
        return
    sentences = [s.text for s in read_conllu(root / TREES) if len(s.words) > 5]
    chosen = sample(len(sentences), study.files["n_texts"], "sentences of senses")
    linked = DictionaryLinker(graph).link([sentences[i] for i in chosen])
    write_jsonl(linked, folder / "linked.jsonl", force=True)
    others = random_entities(graph, 0)
    moved = [controlled_text(text, "random-entity", others) for text in linked]
    write_jsonl(moved, folder / "strangers.jsonl", force=True)


def reviews(study: StagedStudy, root: Path, folder: Path) -> None:
    """Rated sentences, linked; SentiWordNet and one with its scores shuffled; the task's files."""
    graph = wordnet(folder)
    if (folder / "test.tsv").exists():
        return
    rated = [line.split("\t", 1) for line in lines(root / STARS)]
    numbers = sample(len(rated), study.files["n_texts"], "rated sentences")
    chosen = [rated[i] for i in numbers]
    write_tsv(folder / "ratings.tsv", [(star.removeprefix(LABEL), text) for star, text in chosen])
    write_linked(graph, [text for _, text in chosen], folder)
    _, *entries = (line.split("\t") for line in lines(root / LEXICON))
    turn = generator(0, "shuffled polarities").permutation(len(entries)).tolist()
    for name, places in (("swn.txt", range(len(entries))), ("shuffled.txt", turn)):
        rows = [
            (part, offset, *entries[position][3:5], terms, "")
            for (part, offset, _, _, _, terms), position in zip(entries, places, strict=True)
        ]
        write_tsv(folder / name, rows)
    labelled = sorted({row for name in REVIEWS for row in _labelled(root, name)})
    order = generator(0, "reviews").permutation(len(labelled))
    n_train, n_test = study.files["n_train"], study.files["n_test"]
    for name, part in (("train", order[:n_train]), ("test", order[n_train : n_train + n_test])):
        rows = [labelled[i] for i in sorted(part.tolist())]
        write_tsv(folder / f"{name}.tsv", [("label", "text"), *rows])


def similarity(study: StagedStudy, root: Path, folder: Path) -> None:
    """`linked.jsonl`: reviews; WordNet's pairs, and the same with their second terms shuffled."""
    graph = wordnet(folder)
    if (folder / "shuffled.txt").exists():
        return
    texts = [text for name in REVIEWS[:2] for _, text in _labelled(root, name)]
    write_linked(graph, texts[: study.files["n_texts"]], folder)
    pairs = sorted({(one, other) for one, other in graph_pairs(graph)})
    order = generator(0, "shuffled pairs").permutation(len(pairs)).tolist()
    false = [(one, pairs[i][1]) for (one, _), i in zip(pairs, order, strict=True)]
    for name, rows in (("pairs.txt", pairs), ("shuffled.txt", false)):
        lines = (f"{_joined(one)} {_joined(other)}\n".encode() for one, other in rows)
        write_lines(folder / name, lines, force=True)


def _joined(term: str) -> str:
    return term.replace(" ", "_")


def _labelled(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """Label and text of a file of sentences, whose head, if any, has no label."""
    content = (root / "sentiment/uci_sentences" / name).read_text("utf-8")
    for line in content.splitlines():  # breaks at NEL too
        text, _, label = line.rpartition("\t")
        if label in ("0", "1"):
            yield label, " ".join(text.split())


PREPARATIONS = {"senses": senses, "reviews": reviews, "similarity": similarity}
"""By the name of a study's file: what writes what it reads."""
