"""Folders of mapped columns, written whole or not at all, and sealed."""
