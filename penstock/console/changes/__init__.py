"""The changes that the console makes with `--allow-changes`, each with its plan and its command."""
