"""Triples in tables: CSV and Parquet."""
