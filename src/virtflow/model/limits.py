"""Every bound has a name. Documented in docs/limits.md; a test keeps the two equal."""

NAME_LENGTH_MAX = 63
LABELS_MAX = 64
LABEL_VALUE_LENGTH_MAX = 253
TEXT_LENGTH_MAX = 253

#: Room is counted in signed 64-bit integers; one amount stays far below, so that sums never wrap.
AMOUNT_MAX = 2**40
CUSTOM_DIMENSIONS_MAX = 8
OVERCOMMIT_MAX = 100.0

BODY_BYTES_MAX = 8 * 2**20
BODY_DEPTH_MAX = 16
BULK_ITEMS_MAX = 10_000
PAGE_ITEMS_DEFAULT = 100
PAGE_ITEMS_MAX = 1_000
IDEMPOTENCY_KEY_LENGTH_MAX = 255
IDEMPOTENCY_KEEP_S = 24 * 3600

PRIORITY_MAX = 1_000
DEADLINE_S_MAX = 30 * 24 * 3600
RETRIES_MAX = 3

#: One decision round: larger rounds share an fsync better, smaller ones answer sooner.
BATCH_LIMIT = 10_000
#: Requests taken in but not yet written down. Beyond that: 429 and Retry-After.
ACCEPT_QUEUE_MAX = 50_000
COMMIT_TRIES_MAX = 5
#: whoever ordered VMs is answered by then, whatever hangs
ANSWER_S_MAX = 10.0
EVENTS_PER_CHUNK_MAX = 1_000
STREAMS_MAX = 256

#: Of a message that carries knocks: ids, and bytes.
IDS_PER_MESSAGE_MAX = 1_000
MESSAGE_BYTES_MAX = 2**17
#: Tasks to be called out at the broker; beyond that the oldest calls are dropped, and the log brings those tasks.
CALLS_MAX = 100_000
PUBLISH_TRIES_MAX = 3
#: Letters of messages that nobody has read; of more only the broker keeps the rest.
DEAD_MESSAGES_MAX = 10_000
URL_LENGTH_MAX = 2_048
WEBHOOKS_MAX = 100
WEBHOOK_EVENTS_MAX = 32
#: Messages that wait for one receiver; beyond that its place in the log stays where it is.
WEBHOOK_QUEUE_MAX = 500
#: Messages under way to one receiver at a time, each about another thing.
WEBHOOK_LANES_MAX = 8
#: From the first packet to the status of the answer.
WEBHOOK_TIMEOUT_S = 10
WEBHOOK_ANSWER_BYTES_MAX = 64 * 1024
WEBHOOK_OVERLAP_S_MAX = 30 * 24 * 3600
#: What was delivered to one receiver, and what was given up: as many of each are remembered.
WEBHOOK_HISTORY_MAX = 1_000
