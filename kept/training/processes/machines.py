"""Whether processes on several machines can find each other."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address

from kept.errors import ConfigError
from kept.training.processes.launch import rank_and_size


def require_reachable() -> None:
    """Raise `ConfigError` where processes are on several machines, and gloo would tell the others
    an address of this one that leads them to themselves.

    gloo takes the first address of the machine's own name, for which Debian and Ubuntu write
    127.0.1.1; `GLOO_SOCKET_IFNAME` names a network interface in its place.
    """
    on_this = int(os.environ.get("LOCAL_WORLD_SIZE", rank_and_size().n))
    if on_this == rank_and_size().n or os.environ.get("GLOO_SOCKET_IFNAME"):
        return
    name = socket.gethostname()
    try:
        address = str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        fault = f"cannot be resolved ({error.strerror or error})"
    else:
        if not ip_address(address.partition("%")[0]).is_loopback:
            return
        fault = f"resolves to {address}, where other machines cannot reach it"
    interfaces = [each for _, each in socket.if_nameindex() if each != "lo"]
    raise ConfigError(
        f"this machine's own name, {name}, {fault}: on each machine name the network "
        "interface that reaches the others, as "
        f"GLOO_SOCKET_IFNAME={next(iter(interfaces), 'eth0')} (here: "
        f"{', '.join(interfaces)}), or write its address and its name into /etc/hosts"
    )
