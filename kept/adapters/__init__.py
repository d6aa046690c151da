"""Adapters: small networks beside a frozen host, each trained on its own task."""

from kept.adapters.adapter import Adapter, AdapterOptions, AdapterStates

__all__ = ["Adapter", "AdapterOptions", "AdapterStates"]
