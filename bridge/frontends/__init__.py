"""Turns query text into query objects: one package per language, over a shared cursor."""
