"""HOW it is asked: one specification a file, its words, defaults and versions."""
