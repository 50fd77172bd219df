"""Runs plans on arrays; knows nothing of documents."""
