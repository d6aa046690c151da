"""The answers of a run and what they are worth, by kept's scores and by the official ones."""
