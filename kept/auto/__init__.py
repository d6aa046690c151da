"""`AutoEncoder`: any saved run, host or hub name, from texts to vectors in one call."""

from kept.auto.encoded import Encoded, EncodedText, Entities
from kept.auto.encoder import AutoEncoder
from kept.auto.saved import saved_builder, saved_encoder, saved_tokenizer, saved_view

__all__ = [
    "AutoEncoder",
    "Encoded",
    "EncodedText",
    "Entities",
    "saved_builder",
    "saved_encoder",
    "saved_tokenizer",
    "saved_view",
]
