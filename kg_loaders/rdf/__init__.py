"""RDF in every serialisation: documents, their bases and budgets, records of their triples."""
