"""PaaS-CEP's billing example in an application: plans are read from a table, bills are written back, in one transaction."""

import pathlib

import bridge

DAY = 86_400_000
SCRIPT = (pathlib.Path(__file__).parent / "plans.cpl").read_text(encoding="utf-8")

with bridge.connect("sqlite://") as cep:
    for statement in (
        "CREATE TABLE plans (id VARCHAR, a_second INTEGER, a_call INTEGER)",
        "CREATE TABLE clients (idclient VARCHAR, idplan VARCHAR, due INTEGER)",
        "INSERT INTO plans VALUES ('standard', 10, 10), ('talker', 2, 100)",
        "INSERT INTO clients VALUES ('ann', 'standard', 0), ('bob', 'talker', 0)",
    ):
        cep.database.execute(statement)
    cep.create_query("billing", SCRIPT, language="cpl")
    cep.add_output_processor("dailybill", lambda event: print("bill", event.payload["idcaller"], event.payload["bill"]))
    calls = [("cdr1", "ann", 10), ("cdr2", "bob", 9), ("cdr2", "bob", 100), ("cdr1", "ann", 20)]
    for second, (stream, caller, duration) in enumerate(calls):
        cep.push_event(stream, [caller, "eve", duration, second], second * 1000)
    cep.advance_time(DAY)
    print("clients", cep.database.fetch("SELECT idclient, due FROM clients ORDER BY idclient"))
    print("bills", cep.database.fetch("SELECT ts, idcaller, bill FROM bills ORDER BY idcaller"))
