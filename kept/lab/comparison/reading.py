"""Whether the method of a comparison's row has been shown to read a fact, at that row's budget."""

from __future__ import annotations

from kept.lab.comparison.experiment import Experiment, RunRecord
from kept.lab.reading.measures import DOES_NOT_READ
from kept.lab.reading.verdicts import stored_verdict

DEFAULT_HOST = "minilm"


def does_not_read(experiment: Experiment, name: str, record: RunRecord) -> bool:
    """Whether the committed reading controls say that the row `name` reads no fact in its steps.

    False where no control was run on the row's host, or none that long, or where the record does
    not say how many steps there were (docs/explanations/reading.md).
    """
    if "steps" not in record.costs:
        return False
    fields = experiment.row(name)
    verdict = stored_verdict(
        experiment.variant_of(name),
        int(record.costs["steps"]),
        fields,
        host=str(fields.get("host", DEFAULT_HOST)),
    )
    return verdict == DOES_NOT_READ
