"""A graph of drugs and diseases from public tables, and sentences about them.

python .ci/journeys/medical.py KEPT_DATA/medical
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

RELATIONS = {"DM": "modifies", "SYM": "relieves symptoms of", "NOT": "is not indicated for"}


def main(folder: str) -> None:
    path = Path(folder) / "indications" / "indications.tsv"
    facts, labels = [], {}
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            facts.append(f"{row['drugbank_id']}\t{RELATIONS[row['category']]}\t{row['doid_id']}")
            labels[row["drugbank_id"]], labels[row["doid_id"]] = row["drug"], row["disease"]
    Path("facts.tsv").write_text("\n".join(facts) + "\n", encoding="utf-8")
    rows = [f"{name}\t{label}" for name, label in sorted(labels.items())]
    Path("labels.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    notes = [
        "Metformin was given for type 2 diabetes mellitus.",
        "Sumatriptan helped the migraine.",
    ]
    Path("notes.txt").write_text("\n".join(notes) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
