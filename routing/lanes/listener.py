"""The listener: a thread that wakes the scout when somebody has stored work (rule J5).

It only wakes: what there is, the scout finds out, and its poll finds what nobody was told of. A burst of notifications
wakes the scout at the pace of `News.pace_sec` until it is over and once more behind its end, because a fold passes over
rows that somebody else holds at that moment.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing

from config.logs import get_logger, log_event
from models.listening import News, news_of
from routing.lanes.desk import Desk

log = get_logger("ratelane.listener")
#: how long to wait for news before asking whether the desk has closed
LISTEN_SEC = 0.5
LONGEST_PAUSE_SEC = 5.0


class Listener(threading.Thread):
    """Hears of new work, listens again after an outage, and ends with the desk."""

    def __init__(self, desk: Desk, news: News | None = None) -> None:
        super().__init__(name="ratelane-listener", daemon=True)
        self.desk = desk
        url = desk.settings.database_url
        self._news = news or news_of(url if url.startswith("sqlite") else desk.settings.listen_url or url)
        self._tries = 0

    def run(self) -> None:
        """Listen until the desk closes."""
        while not self.desk.over.is_set():
            try:
                with closing(self._news):
                    self._news.open()
                    # whatever was stored while nobody listened
                    self.desk.hear()
                    self._listen()
            except Exception as error:
                # polling goes on meanwhile; one line an outage is enough
                self._tries += 1
                if self._tries == 1:
                    log_event(log, "listener.away", level=logging.WARNING, error=(str(error) or repr(error)).splitlines()[0])
                self.desk.over.wait(min(LONGEST_PAUSE_SEC, 0.1 * 2 ** min(self._tries, 6)))

    def _listen(self) -> None:
        while not self.desk.over.is_set():
            heard = self._news.heard(LISTEN_SEC)
            if self._tries:
                log_event(log, "listener.back", tries=self._tries)
                self._tries = 0
            if heard:
                self.desk.hear()
            while heard and not self.desk.over.wait(self._news.pace_sec):
                heard = self._news.heard(0)
                self.desk.hear()
