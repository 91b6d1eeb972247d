"""`penstock groups`: consumer groups as an administrator sees them."""
