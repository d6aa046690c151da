"""transformers' Trainer trains an encoder of kept and a head on texts with their facts."""

from transformers import Trainer, TrainingArguments

from kept import AutoEncoder, atlas
from kept.apps.integrations.hf_trainer import KnowledgeClassifier, KnowledgeDataset

kg, texts = atlas.graph(), ["Rain fell in Paris.", "The Seine rose.", "Bonn slept.", "The Elbe!"]
encoder = AutoEncoder.from_host("kbert", "minilm", kg)
data = KnowledgeDataset(encoder, kg, texts, ["city", "river"] * 2, classes=["city", "river"])
model = KnowledgeClassifier(encoder, ["city", "river"])
arguments = TrainingArguments("trainer", max_steps=2, use_cpu=True, report_to=[])
trainer = Trainer(model, arguments, data.collator, data, data)
trainer.train()
print(f"{len(data)} texts, loss {trainer.evaluate()['eval_loss']:.2f}")
