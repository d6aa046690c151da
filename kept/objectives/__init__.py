"""Objectives: what a model is trained to predict. Each returns named, unweighted losses."""
