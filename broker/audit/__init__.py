"""The audit log: who did what from where, who was refused, and who has logged in."""
