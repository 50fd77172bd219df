"""A bar that shows how far a long run is, on a terminal only, and leaves nothing behind."""

import shutil
import time
from typing import TextIO

WIDTH = 24
ERASE = "\r\033[K"  # back to the start of the line, clear it


class Progress:
    """Counts steps on a stream; silent unless it is a terminal."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream, self._total, self._done = stream, total, 0
        self._shown = stream.isatty()
        self._start = time.monotonic()

    def show(self, what: str) -> None:
        """Say which step is being worked on."""
        if self._shown:
            columns = shutil.get_terminal_size().columns
            filled = WIDTH * self._done // max(self._total, 1)
            bar = "#" * filled + "." * (WIDTH - filled)
            text = f"[{bar}] {self._done}/{self._total}{self._left()}  {what}"
            self._stream.write(ERASE + text[: columns - 1])
            self._stream.flush()

    def step(self) -> None:
        """Count one step as done."""
        self._done += 1

    def clear(self) -> None:
        """Take the bar away, before something else is printed or at the end."""
        if self._shown:
            self._stream.write(ERASE)
            self._stream.flush()

    def _left(self) -> str:
        if not self._done:
            return ""
        seconds = (time.monotonic() - self._start) / self._done * (self._total - self._done)
        return f"  {seconds // 60:.0f}:{seconds % 60:02.0f} left"
