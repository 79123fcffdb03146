"""A configured run from start to finish: a run file becomes its parts, is simulated or served, and leaves a folder."""
