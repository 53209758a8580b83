"""Transports: the only code that opens sockets towards providers. One request leaves per attempt, never two."""
