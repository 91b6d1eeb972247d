"""Commands that need the code of a node, without running one: format, check, recover."""
