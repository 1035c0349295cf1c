"""EPL, Esper's language; the modules are named in the terms of Esper's manual."""
