"""Reading controls: tasks whose answer stands in the graph alone, and whether a method reads it."""
