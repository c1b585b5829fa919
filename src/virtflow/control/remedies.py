"""How to mend a part that is unwell: what health says beside the cause."""

#: the beginning of a part's name -> what whoever runs it may do
REMEDIES = {
    "database": "see whether it runs and can be reached; virtflow doctor says what it refuses",
    "mirror": "it follows again as soon as the database answers",
    "scheduler": "it starts again by itself; when that does not help, report what the log says of scheduler.failed",
    "broker": "see whether it runs and what VIRTFLOW_BROKER_URL names; meanwhile the database carries the tasks",
    "courier nats": "see whether it runs and what VIRTFLOW_EVENTS_NATS_URL names; events wait for it",
    "courier kafka": "see whether the brokers run and what VIRTFLOW_EVENTS_KAFKA_SERVERS names; events wait for them",
    "courier amqp": "see whether it runs and what VIRTFLOW_EVENTS_AMQP_URL names; events wait for it",
    "courier webhooks": "it goes on as soon as the database answers",
    "courier": "see whether the bus takes events, and what VIRTFLOW_EVENTS_PLUGIN names; events wait for it",
    "election": "see whether who counts the votes (VIRTFLOW_ELECTION) can be reached; virtflow doctor asks",
    "strategy_file": "write the name of a strategy into the file of VIRTFLOW_STRATEGY_FILE (virtflow get strategies)",
    "inventory": "see whether it answers (virtflow doctor asks it); meanwhile its last good answer stands",
    "inventories": "wait for their first answer",
    "traces": "see whether somebody takes traces at VIRTFLOW_OTEL_ENDPOINT; meanwhile they are dropped",
    "process": "ask another one",
}
_ANY_LOOP = "it starts again by itself; when that does not help, restart this process and report what its log says"


def remedy_for(part: str) -> str:
    """The longest beginning knows best; loops and offices have their names in common with nobody."""
    known = [beginning for beginning in REMEDIES if f"{part} ".startswith(f"{beginning} ")]
    return REMEDIES[max(known, key=len)] if known else _ANY_LOOP
