"""Cloze probing: what facts does a model recall, from its weights or from a graph it reads?"""
