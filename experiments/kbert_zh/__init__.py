"""K-BERT fine-tuned on Chinese sentiment with its own graphs, beside the controls."""
