"""The public methods of a bridge, by what they are about: definitions, pushes, destinations, inspection, watching."""
