"""EPL, Esper's language; the modules bear the words of Esper's manual."""
