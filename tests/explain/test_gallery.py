"""The gallery of docs/ is what the library draws today."""

from pathlib import Path

from tconv.explain.gallery import GALLERY, gallery

DOCS = Path(__file__).parents[2] / "docs"


def test_the_gallery_is_freshly_generated() -> None:
    """`make gallery` would change nothing, and no old picture lies about."""
    files = gallery()
    found = {f"gallery/{path.name}" for path in (DOCS / "gallery").iterdir()}
    stale = [name for name, text in files.items() if (DOCS / name).read_text("utf-8") != text]

    assert stale == []
    assert found | {"gallery.md"} == set(files)
    assert len(files) == len(GALLERY) + 1
