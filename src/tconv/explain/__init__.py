"""Pictures of what the operators do."""
