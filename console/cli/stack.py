"""How a command ends what it runs: politely, at once, or by force, one step each time it is interrupted (rule U1)."""

from __future__ import annotations

import signal

from console.cli.children import Crew, Say
from console.cli.interrupts import Interrupts

_LOOK_EVERY_SEC = 0.25
_STEPS = (
    (signal.SIGTERM, "stopping: crawls go on to their next stop point and keep their checkpoints; "
                     "interrupt again to stop at once"),
    (signal.SIGQUIT, "stopping at once: what a crawl was reading is read again next time; interrupt again to kill"),
    (signal.SIGKILL, "killed"),
)


class Ending:
    """Carries out one step for each interrupt that came; `begun` once there was one."""

    def __init__(self, crew: Crew, interrupts: Interrupts, say: Say) -> None:
        self._crew, self._interrupts, self._say = crew, interrupts, say
        self._taken = 0

    @property
    def begun(self) -> bool:
        """Whether the command is ending."""
        return self._taken > 0

    @property
    def over(self) -> bool:
        """Whether it is ending and nothing runs any more."""
        return self.begun and not self._crew.lives

    def park(self, because: str) -> None:
        """Take the first step without an interrupt."""
        if not self.begun:
            self._say(because)
            self._interrupts.number += 1
            self.look()

    def look(self) -> None:
        """Take the steps that are due."""
        while self._taken < min(self._interrupts.number, len(_STEPS)):
            number, sentence = _STEPS[self._taken]
            self._taken += 1
            self._say(sentence)
            self._crew.send(number)


def run_until_interrupted(crew: Crew, interrupts: Interrupts, say: Say) -> None:
    """Keep everything running until the command is interrupted and all of it has ended."""
    ending = Ending(crew, interrupts, say)
    while not ending.over:
        ending.look()
        crew.look()
        interrupts.wait(_LOOK_EVERY_SEC)
