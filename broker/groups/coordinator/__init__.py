"""The driver of the groups' cores: loads, appends, answers after the commit, and finds the coordinator of a group."""
