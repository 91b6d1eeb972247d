"""Producer ids: a broker takes blocks of them from the controller, and gives each id once."""
