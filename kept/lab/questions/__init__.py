"""Questions to a decoder, answered from a graph's facts: rows, conditions and runs of a comparison.

The runs are those of `kept.lab.study.run`, so that folders, resuming, intervals and
verdicts are the engine's; what a row trains, if anything, and what it is shown is here.
"""
