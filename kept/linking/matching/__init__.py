"""A bi-encoder over a frozen host: one trained map for mentions in context and for cards."""
