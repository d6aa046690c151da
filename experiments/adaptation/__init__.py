"""Ways to adapt an encoder to a task, each against plain fine-tuning over seeds."""
