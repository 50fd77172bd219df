"""What engines read of their surroundings when they are first used."""

from tconv.bench.tiles import keep_from_missing_tiles

keep_from_missing_tiles()
