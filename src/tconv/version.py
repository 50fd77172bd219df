"""The version, in the one place that packaging and programs read."""

__version__ = "0.1.0"
