"""Every bound of the package in one table; reaching one is recorded as an event or raised."""

from __future__ import annotations

LEDGER_EVENTS = 100_000  # events in one ledger, then LedgerFull
JOURNAL_LINE_BYTES = 4 * 1024 * 1024  # one journal line; longer values are cut and say so
BODY_BYTES = 8 * 1024 * 1024  # one request body kept by a server; the rest is counted and dropped
HEAD_BYTES = 64 * 1024  # one request head
SSE_EVENT_BYTES = 1024 * 1024  # one event in our own decoder
REQUESTS = 200  # requests of one run that an endpoint serves, then the ceiling
COUNTED_REQUESTS = 10_000  # requests that a counting server answers, then the ceiling
COUNTED_BODY_BYTES = 16 * 1024  # what a counting server keeps of a request body in its facts
REPLY_QUEUE = 10_000  # scripted replies of one endpoint
CONNECTIONS = 512  # open connections of one listener
HOLD_SECONDS = 5.0  # the longest that a held response stays held, unless the limit under test is longer
HOLD_FACTOR = 10.0  # … then this many times the limit under test
DRIP_SECONDS = 5.0  # the longest that a drip goes on
FLOOD_BYTES = 64 * 1024 * 1024  # the larger of the two sizes of a memory scenario
RUN_SECONDS = 20.0  # hard deadline of one run of the battery
CONTROL_SECONDS = 20.0  # hard deadline of one control
IMPORT_SECONDS = 60.0  # how long an agent may take to import
WATCH_SECONDS = 0.5  # how long a run is watched after its end
WATCH_LATE_EFFECT_SECONDS = 1.5  # … where a late-effect canary is set
PROCESS_GRACE_SECONDS = 2.0  # how long a process may take to go away
RUN_MEMORY_BYTES = 2 * 1024 * 1024 * 1024  # address space growth that ends a run
ORIGINS = 4096  # files, sockets, threads and commands, each, of which it is remembered who asked for them
OUTPUT_BYTES = 256 * 1024  # what is kept of a run's stdout and stderr, each
TEXT_SHOWN = 300  # characters of a body or prompt that a report shows
EVENTS_SHOWN = 400  # facts of a ledger that a story shows, then only their number
REPORT_TEXT = 4096  # characters of one text in the evidence of the JSON report
JOBS = 32  # independent runs at a time
MEMORY_GROWTH_BYTES = 24 * 1024 * 1024  # growth between n and 8 n that a bounded agent stays below
FORMS = 1024  # replies of which it is remembered that they were planned
FORM_BYTES = 32 * 1024 * 1024  # forms of replies that were planned twice, all together
CLIENT_BACKLOG = 1024  # connects that wait to be accepted by one listener
PIPELINE_BYTES = 1024 * 1024  # read ahead while a request is being answered
DRAIN_SECONDS = 0.5  # how long unread input is read away before a connection is closed
RESET_SECONDS = 1.0  # how long a reset waits for the bytes before it to leave
SIGNAL_SECONDS = 10.0  # how long `await` waits for something that a witness is to see
TIME_SECONDS = 24 * 3600.0  # the longest time that a route or a reply may say
SELECT_SECONDS = 3600.0  # the longest that the engine sleeps at a time
ENGINE_SECONDS = 5.0  # how long a call into the engine may take
