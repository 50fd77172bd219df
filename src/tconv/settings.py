"""Every environment variable, read once into a frozen record."""

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tconv.errors import ProblemError

ENGINES = ("compiled", "numpy")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user can decide outside the program.

    >>> Settings.read({"TCONV_NUM_THREADS": "3"}).threads
    3
    """

    engine: str = ENGINES[0]
    threads: int | None = None
    cache_dir: Path = Path()
    cpu: str | None = None

    @staticmethod
    def read(environment: Mapping[str, str]) -> "Settings":
        """Read ``TCONV_ENGINE``, ``TCONV_NUM_THREADS``, ``TCONV_CACHE_DIR`` and ``TCONV_CPU``."""
        engine = environment.get("TCONV_ENGINE", "").lower() or ENGINES[0]
        if engine not in ENGINES:
            raise _wrong("TCONV_ENGINE", engine, f"one of: {', '.join(ENGINES)}")
        threads = environment.get("TCONV_NUM_THREADS", "")
        if threads and not (re.fullmatch("[0-9]{1,9}", threads) and int(threads) >= 1):
            raise _wrong("TCONV_NUM_THREADS", threads, "a whole number of at least 1")
        folder = environment.get("TCONV_CACHE_DIR", "")
        return Settings(
            engine=engine,
            threads=int(threads) if threads else None,
            cache_dir=Path(folder) if folder else _user_cache(environment) / "tconv",
            cpu=environment.get("TCONV_CPU") or None,
        )


def _wrong(name: str, value: str, rule: str) -> ProblemError:
    return ProblemError(
        "tconv settings",
        f"the environment variable {name} is {value!r:.60}.",
        got={name: f"{value!r:.60}"},
        rule=f"{name} is {rule}",
        fix=f"unset {name}, or set it to {rule}",
    )


def _user_cache(environment: Mapping[str, str]) -> Path:
    """Return the folder where this platform keeps what can be rebuilt."""
    if os.name == "nt":
        return Path(environment.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if environment.get("XDG_CACHE_HOME"):
        return Path(environment["XDG_CACHE_HOME"])
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir())


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return the settings of this process, read when first needed."""
    return Settings.read(os.environ)
