"""Reading controls: tasks whose answer is in the graph alone, to test whether a method reads it."""
