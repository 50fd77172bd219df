"""Open pages in Debian's Chromium, headless, through Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engines import require

NAMES = ("chromium", "chromium-browser", "google-chrome")


def unavailable() -> str | None:
    """Return why no browser can be driven here, or None."""
    try:
        import playwright.sync_api  # noqa: F401, PLC0415 - only whether it is there
    except ImportError as error:
        return f"playwright cannot be imported: {error}"
    if not any(map(shutil.which, NAMES)):
        return "there is no Chromium: apt-get install chromium"
    return None


@contextmanager
def opened() -> Iterator[Any]:
    """Yield a browser, or skip or fail the calling test where there is none."""
    require.usable(unavailable())
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - known to be there by now

    program = next(found for name in NAMES if (found := shutil.which(name)))
    with sync_playwright() as driver:
        # Without a sandbox, since CI runs as root; the pages are our own.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
