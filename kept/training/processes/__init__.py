"""The processes of one run: who started them, what they tell each other, whose gradients count."""
