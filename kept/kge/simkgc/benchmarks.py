"""The released preprocessing of WN18RR, FB15k-237 and Wikidata5M: raw lines to names and texts.

Wang et al. 2022, "SimKGC" (ACL), section 4.1; released code intfloat/SimKGC. Relations are known by
their text from here on, so two relations of equal text stop the reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kept.errors import ConfigError

N_WORDS = {"wn18rr": None, "fb15k237": 50, "wiki5m_trans": 30, "wiki5m_ind": 30}
"""Words of a description that are kept, by benchmark; all of WordNet's."""
N_NAME_WORDS = 10
N_PARTS_BACK = 3
Rows = list[tuple[str, str, str]]
Lines = Sequence[str]


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Names and descriptions of entities, texts of relations, and triples by split.

    `names` lists entities in the order in which triples name them; those in no triple are missing.
    """

    names: Mapping[str, str]
    descriptions: Mapping[str, str]
    relations: Mapping[str, str]
    splits: Mapping[str, Rows]


def read_benchmark(task: str, files: Mapping[str, Lines]) -> Benchmark:
    """Return the benchmark `task` from the lines of its files, by their published names.

    Raises `ConfigError` for an unknown task and for two relations with one text.
    """
    if task not in N_WORDS:
        raise ConfigError(f"benchmark {task!r} is unknown; take one of {', '.join(N_WORDS)}")
    read = {"wn18rr": _of_wordnet, "fb15k237": _of_freebase}.get(task, _of_wikidata)
    names, descriptions, relations = read(files)
    rows = {name: list(_columns(files[f"{name}.txt"])) for name in ("train", "valid", "test")}
    if task.startswith("wiki5m"):
        rows["train"] = [row for row in rows["train"] if _is_known(row, names, relations)]
    else:
        used = dict.fromkeys(row[1] for part in rows.values() for row in part)
        relations = {name: _relation(task, name) for name in used}
    _require_distinct(relations)
    splits = {
        name: [(head, relations.get(relation, ""), tail) for head, relation, tail in part]
        for name, part in rows.items()
    }
    present = dict.fromkeys(
        end for part in splits.values() for head, _, tail in part for end in (head, tail)
    )
    return Benchmark(
        {end: names.get(end, "") for end in present},
        {end: first_words(descriptions.get(end, ""), N_WORDS[task]) for end in present},
        relations,
        splits,
    )


def freebase_relation(name: str) -> str:
    """The words of a Freebase relation, its last part first; a blank stays at the end.

    >>> freebase_relation("/film/film/film_format")
    'film format film '
    """
    kept: list[str] = []
    for part in name.replace("./", "/").replace("_", " ").strip().split("/"):
        if part not in kept[-N_PARTS_BACK:]:
            kept.append(part)
    backwards = kept[::-1]
    distinct = [part for i, part in enumerate(backwards) if i == 0 or part != backwards[i - 1]]
    return " ".join(distinct)


def first_words(text: str, n_words: int | None) -> str:
    """The first `n_words` of the text, single blanks between them; None: the text as it is.

    >>> first_words("a  b c", 2)
    'a b'
    """
    return text if n_words is None else " ".join(text.split()[:n_words])


def _relation(task: str, name: str) -> str:
    return freebase_relation(name) if task == "fb15k237" else name.replace("_", " ").strip()


def _columns(lines: Lines) -> Iterator[tuple[str, str, str]]:
    for line in lines:
        head, relation, tail = line.strip().split("\t")
        yield head, relation, tail


def _is_known(
    row: tuple[str, str, str], names: Mapping[str, str], relations: Mapping[str, str]
) -> bool:
    return row[0] in names and row[2] in names and row[1] in relations


def _of_wordnet(files: Mapping[str, Lines]) -> tuple[dict[str, str], ...]:
    rows = [line.strip().split("\t") for line in files["wordnet-mlj12-definitions.txt"]]
    names = {row[0]: row[1].replace("__", "") for row in rows}
    return names, {row[0]: row[2] for row in rows}, {}


def _of_freebase(files: Mapping[str, Lines]) -> tuple[dict[str, str], ...]:
    names = dict(_pairs(files["FB15k_mid2name.txt"]))
    names = {entity: name.replace("_", " ").strip() for entity, name in names.items()}
    return names, dict(_pairs(files["FB15k_mid2description.txt"])), {}


def _of_wikidata(files: Mapping[str, Lines]) -> tuple[dict[str, str], ...]:
    texts = [
        {key: first_words(text, N_NAME_WORDS) for key, text in _pairs(files[name])}
        for name in ("wikidata5m_entity.txt", "wikidata5m_relation.txt")
    ]
    return texts[0], dict(_pairs(files["wikidata5m_text.txt"])), texts[1]


def _pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        fields = line.strip().split("\t")
        yield fields[0], fields[1]


def _require_distinct(relations: Mapping[str, str]) -> None:
    first: dict[str, str] = {}
    for name, text in relations.items():
        other = first.setdefault(text, name)
        if other != name:
            raise ConfigError(
                f"relations {other!r} and {name!r} have one text, {text!r}; SimKGC knows relations "
                "by their text: give one of them another"
            )
