"""`penstock transactions`: transactions as an administrator sees them."""
