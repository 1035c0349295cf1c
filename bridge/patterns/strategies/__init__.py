"""Ways to find the matches of a clause: all give what the plain machine (`machine`) gives, each faster for its kind."""
