"""Data stores read and written from within queries (PaaS-CEP, section 4)."""
