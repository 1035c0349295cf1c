"""CPL, the language of PaaS-CEP: scripts of several operators."""
