"""The driver of the core: performs each `Ready` in order, sends questions, and applies what is committed."""
