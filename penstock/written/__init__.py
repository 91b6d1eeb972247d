"""Numbers and times as people write them, in options of commands and fields of pages."""
