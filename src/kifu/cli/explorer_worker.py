"""Screens of `kifu explore` that search in threads, so that keys never wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from textual import on
from textual.message import Message
from textual.screen import Screen
from textual.worker import WorkerCancelled, get_current_worker

from kifu.errors import KifuError
from kifu.progress import Progress, Silence

T = TypeVar("T")


class Answered(Message):
    """Some work in a thread is done; `take` handles its result in the thread of the screen."""

    def __init__(self, take: Callable[[], None]) -> None:
        super().__init__()
        self.take = take


class _SearchProgress(Silence):
    """Counts the games searched, and ends the search once its worker is cancelled."""

    def __init__(self, show: Callable[[float], None], total: int | None) -> None:
        self._show, self._total, self._done = show, total, 0

    def advance(self, n: int = 1) -> None:
        """Count games."""
        if get_current_worker().is_cancelled:
            raise WorkerCancelled
        self._done += n
        if self._total:
            self._show(self._done / self._total)


class SearchScreen(Screen[None]):
    """A screen that does work in threads, one piece at a time.

    Attributes:
        searched: The share of the games that the present search has covered, 0 to 1.
    """

    def __init__(self) -> None:
        """Begin without work."""
        super().__init__()
        self.searched = 0.0
        self._working = threading.Lock()

    def ask(self, group: str, work: Callable[[], T], take: Callable[[T], None], fail: Callable[[str], None]) -> None:
        """Do some work in a thread, in place of earlier work of the same group.

        Args:
            take: Called with the result in the thread of the screen, unless other work has replaced this.
            fail: Called likewise with the message of an error of kifu. Other errors end the program.
        """

        def run() -> None:
            worker = get_current_worker()
            with self._working:
                if worker.is_cancelled:
                    return
                try:
                    answer = partial(take, work())
                except WorkerCancelled:
                    return
                except KifuError as error:
                    answer = partial(fail, str(error))
                except Exception as error:
                    answer = partial(self.app.exit, error)
            if not worker.is_cancelled:
                self.post_message(Answered(answer))

        self.run_worker(run, group=group, exclusive=True, thread=True)

    @on(Answered)
    def _take_answer(self, event: Answered) -> None:
        event.take()

    @contextmanager
    def progress(self, label: str, total: int | None, unit: str) -> Iterator[Progress]:
        """Show the progress of a search; a `ProgressFactory` for work in a thread."""
        yield _SearchProgress(self._set_searched, total)

    def _set_searched(self, share: float) -> None:
        self.searched = share
