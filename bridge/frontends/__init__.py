"""Query text becomes query objects: one package per language, over one cursor."""
