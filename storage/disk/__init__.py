"""Files and disks: the file system as a port, small files with a checksum, flushes, and disks that hang."""
