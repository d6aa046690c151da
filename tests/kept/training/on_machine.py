"""`on_machine.py NAMESPACE NAME HOSTS MODULE ...`: run a module as on a machine of its own.

Its network is the namespace, its name is NAME, its /etc/hosts the file HOSTS.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import socket
import sys
from pathlib import Path

NEW_NETWORK, NEW_MOUNTS, NEW_NAME, BIND, PRIVATE = 0x40000000, 0x20000, 0x4000000, 0x1000, 0x44000


def enter(namespace: str, name: str, hosts: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def done(code: int) -> None:
        if code:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    with Path("/run/netns", namespace).open() as network:
        done(libc.setns(network.fileno(), NEW_NETWORK))
    done(libc.unshare(NEW_MOUNTS | NEW_NAME))
    socket.sethostname(name)
    done(libc.mount(b"none", b"/", None, PRIVATE, None))
    done(libc.mount(hosts.encode(), b"/etc/hosts", None, BIND, None))


if __name__ == "__main__":
    enter(*sys.argv[1:4])
    sys.argv = sys.argv[4:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
