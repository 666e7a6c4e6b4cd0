"""A noisy Singer tap on the Meltano SDK."""

import noise
from people import NoisyTap

noise.make("before")
try:
    NoisyTap.cli()
finally:
    noise.make("after")
