"""kept pretrain and kept finetune."""
