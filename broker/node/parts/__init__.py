"""The makers of a node's parts: each module makes one part over those below it, wired by name."""
