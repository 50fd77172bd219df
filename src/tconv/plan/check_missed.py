"""What a gather leaves out, as its kernel finds it: bits of segments that each point meets."""

from collections.abc import Sequence

from tconv.plan.check_record import Reads, Record, Region, Scratch, demand
from tconv.plan.gather import MISSED
from tconv.plan.missed import BITS, SPARE, TILE, list_entries


def check_lists(r: Record, scratch: Scratch, tile_rows: int) -> None:
    """Look whether there is room to sort points, and to list what tiles read."""
    if not r.words:
        unread = {name: r.scalars[name] for name in MISSED if name in r.scalars}
        demand(not any(unread.values()), "what is read whole has lists of segments", unread)
        demand(r.arrays["met_start"] + r.arrays["met"] == (), "likewise", r.arrays["met"])
        return
    demand(r.words >= 0 and not r.together, "points that list taps list elements", r.words)
    demand(r.unpacked in {0, 1}, "blocks are packed in other ways than there are", r.unpacked)
    depth = max(r.arrays["segment_depth"])
    demand(r.most_depth >= depth, "there are fewer zeros than a segment reads", r.most_depth)
    scratch.touch("nothing", r.most_depth)
    lines = 1
    for size in r.outer_of("outer_block"):
        lines *= size
    scratch.touch_table("classes", lines * (r.words + 4) + r.block * (r.words + 2))
    scratch.touch_table("bits", r.points * r.phases * r.words + SPARE)
    parts = zip(r.arrays["segment_count"], r.arrays["part_segments"], strict=True)
    most = max(map(min, parts))
    needed, pitch = list_entries(most), r.listed_pitch
    demand(pitch == 0 or pitch >= needed, "lists of two tiles overlap", pitch)
    tiles = -(-lines * r.block // min(tile_rows, TILE)) if pitch else 1
    scratch.touch_table("listed", (tiles - 1) * pitch + needed)


def met_reads(
    r: Record, both: int, point: Sequence[int], reads: Reads, where: tuple[Region, int]
) -> Reads:
    """Return what a point of a phase reads, if it leaves out what its bits say.

    Unpacked it must lie in the picture: there are no zeros around it.
    """
    if not r.words:
        return reads
    steps = [*r.outer_of("steps_in"), r.step_in]
    sizes = [*r.outer_of("sizes_in"), r.size_in]
    place, bits = r.at("met_start", both), -1
    for coordinate, step, size in zip(point, steps, sizes, strict=True):
        count = r.at("met", place)
        demand(count >= 0, "an axis has fewer taps than none", count)
        mine = 0 if count else -1
        for tap in range(count):
            entry = place + 1 + tap * (r.words + 1)
            if 0 <= coordinate * step + r.at("met", entry) < size:
                words = (r.at("met", entry + 1 + word) for word in range(r.words))
                mine |= sum((word % (1 << BITS)) << (BITS * n) for n, word in enumerate(words))
        bits &= mine
        place += 1 + count * (r.words + 1)
    count = r.at("segment_count", both)
    demand(count <= BITS * r.words, "segments have no bits", count)
    each = len(reads) // max(1, count)
    met = [reads[n] for n in range(len(reads)) if bits >> (n // each) & 1]
    region, row = where
    outside = r.unpacked and [tap for tap, start in met if region.get(row + start) is None]
    demand(not outside, "a point reads outside the picture", outside)
    return met
