"""A noisy Singer target on the Meltano SDK."""

import noise
from files import NoisyTarget

noise.make("before")
try:
    NoisyTarget.cli()
finally:
    noise.make("after")
