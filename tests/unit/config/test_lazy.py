from __future__ import annotations

import threading
from dataclasses import dataclass

from config.lazy import lazy


@dataclass(frozen=True)
class Page:
    number: int
    met: threading.Barrier | None = None

    @lazy
    def double(self) -> list[int]:
        """Twice the number."""
        if self.met is not None:
            self.met.wait(timeout=5.0)
        return [2 * self.number]


def test_a_value_is_computed_once_and_kept_by_its_object() -> None:
    one, other = Page(1), Page(2)
    assert one.double is one.double
    assert (one.double, other.double) == ([2], [4])
    assert Page.double.__doc__ == "Twice the number."


def test_threads_that_look_at_different_objects_compute_side_by_side() -> None:
    both = threading.Barrier(2)
    pages = [Page(1, both), Page(2, both)]
    threads = [threading.Thread(target=lambda page=page: page.double) for page in pages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [page.double for page in pages] == [[2], [4]]
    assert not both.broken
