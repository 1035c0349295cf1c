"""Values, schemas, windows and databases: what every other package builds on."""
