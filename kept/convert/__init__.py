"""Key tables: released checkpoints of other projects into ours and back."""
