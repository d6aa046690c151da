"""A graph of drugs and diseases from public tables, and a task whose answer stands in it.

Which kind of disease is a drug for? The graph says which diseases a drug modifies; their kinds are
the classes. A drug of the development set is in no training text.

    python .ci/journeys/medical.py KEPT_DATA/medical
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

RELATIONS = {"DM": "modifies", "SYM": "relieves symptoms of", "NOT": "is not indicated for"}
KINDS = (
    "cancer", "cardiovascular system disease", "nervous system disease",
    "respiratory system disease", "disease of metabolism", "musculoskeletal system disease",
)  # fmt: skip
TEXTS = ("{} was prescribed.", "The patient takes {} daily.", "Treatment with {} began.")
N_DEV = 4
"""Every fourth drug is held out."""


def main(folder: str) -> None:
    path = Path(folder) / "indications" / "indications.tsv"
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    facts, labels = [], dict[str, str]()
    for row in rows:
        facts.append(f"{row['drugbank_id']}\t{RELATIONS[row['category']]}\t{row['doid_id']}")
        labels[row["drugbank_id"]], labels[row["doid_id"]] = row["drug"], row["disease"]
    _write("facts.tsv", facts)
    _write("labels.tsv", [f"{name}\t{label}" for name, label in sorted(labels.items())])
    kinds = drug_kinds(rows, parents(Path(folder) / "disease_ontology" / "HumanDO.tsv.gz"))
    drugs = sorted(kinds)
    train = [d for i, d in enumerate(drugs) if i % N_DEV]
    dev = [d for i, d in enumerate(drugs) if not i % N_DEV]
    _write("train.tsv", [f"{kinds[d]}\t{text.format(d)}" for d in train for text in TEXTS])
    _write("dev.tsv", [f"{kinds[d]}\t{TEXTS[0].format(d)}" for d in dev])
    _write("notes.txt", [TEXTS[0].format(dev[0])])
    sys.stdout.write(f"{len(train)} drugs to learn from, {len(dev)} to ask about\n")


def parents(path: Path) -> dict[str, set[str]]:
    """The direct kinds of each disease, by name."""
    found: dict[str, set[str]] = defaultdict(set)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            found[row["label"]].add(row["subClassOf"])
    return found


def drug_kinds(rows: list[dict[str, str]], above: Mapping[str, set[str]]) -> dict[str, str]:
    """The kind of each drug all of whose diseases are of one."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["category"] != "DM":
            continue
        met, waiting = set[str](), [row["disease"]]
        while waiting:
            name = waiting.pop()
            if name not in met:
                met.add(name)
                waiting += above.get(name, ())
        counts[row["drug"]].update(kind for kind in KINDS if kind in met)
    return {drug: next(iter(count)) for drug, count in counts.items() if len(count) == 1}


def _write(name: str, lines: list[str]) -> None:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
