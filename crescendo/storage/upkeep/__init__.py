"""Looking after what is on disk: checks that change nothing, copies of what is in use, and the room that is left."""
