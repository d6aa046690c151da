"""Parts that encoders, objectives and heads share."""
