"""What the embedded mode starts on one machine: a Valkey server, child processes, and proof of who still lives."""

from config.devstack.broker import EmbeddedBroker
from config.devstack.liveness import LifeLock
from config.devstack.processes import die_with_parent, spawn, stop_process

__all__ = ["EmbeddedBroker", "LifeLock", "die_with_parent", "spawn", "stop_process"]
