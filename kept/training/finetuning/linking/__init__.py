"""Entity linking as a task: questions about mentions, and how their answers become links."""
