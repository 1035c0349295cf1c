"""Event processing inside an application: no server, no files."""

import bridge

cep = bridge.connect("sqlite://")
cep.register_stream("readings", {"sensor": "VARCHAR", "celsius": "DOUBLE"})
cep.create_query(
    "overheated",
    "SELECT sensor, AVG(celsius) AS mean FROM readings WINDOW(RANGE 10 S) GROUP BY sensor HAVING AVG(celsius) > 80",
)
cep.add_output_processor("overheated", lambda event: print(event.timestamp, event.payload))

for second, celsius in enumerate([75.0, 79.0, 83.0, 91.0, 88.0, 70.0]):
    cep.push_event("readings", {"sensor": "boiler", "celsius": celsius}, second * 1000)
cep.close()
