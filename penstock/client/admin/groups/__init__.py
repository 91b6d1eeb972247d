"""Admin's calls about consumer groups: their members, committed offsets and lag."""
