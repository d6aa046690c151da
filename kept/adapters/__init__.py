"""Adapters: small networks beside a host that is left as it is, each trained on its own task."""

from kept.adapters.adapter import Adapter, AdapterOptions, AdapterStates

__all__ = ["Adapter", "AdapterOptions", "AdapterStates"]
