"""What an operator may do, once for command line, API and pages; the answers are the contract's documents.

Whatever changes something takes who acts, through what, and why, and is written into the log of operations.
"""

from console.actions.checking import check
from console.actions.jobs import cancel, cancel_matching, requeue, requeue_matching, submit
from console.actions.lanes import pause, pause_all, resume, resume_all
from console.actions.names import require_group, require_site, require_target
from console.actions.stored import assign_group, disable_target, enable_target, groups, interval, reset_interval

__all__ = [
    "assign_group", "cancel", "cancel_matching", "check", "disable_target", "enable_target", "groups", "interval", "pause",
    "pause_all", "requeue", "requeue_matching", "require_group", "require_site", "require_target", "reset_interval",
    "resume", "resume_all", "submit",
]
