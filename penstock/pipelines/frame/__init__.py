"""The frame of all jobs: conf, checks, figures, errors, and the run of a stream."""
