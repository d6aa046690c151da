"""Intervals for the tests of pages."""

from kept.evaluation.statistics import Interval


def number(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate, low, high, confidence=0.95, n=10, method="given")
