"""Elections that nobody's coming or going causes: an operator orders them, or the schedule gives leaderships back."""
