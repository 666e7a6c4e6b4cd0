"""The Meltano SDK tap again, writing with the SDK's msgspec encoder instead of its plain one."""

import noise
from people import NoisyTap
from singer_sdk.contrib.msgspec import MsgSpecWriter

NoisyTap.message_writer_class = MsgSpecWriter
noise.make("before")
try:
    NoisyTap.cli()
finally:
    noise.make("after")
