"""Everything stdout-guard raises or warns: the peer's fault is a value, ours is an exception.

Texts are lower case and say who, where, what and what next; attributes carry the data; every error can be pickled.
"""


class StdoutGuardError(Exception):
    """Base of all errors raised by this package."""


class StrayWriteError(StdoutGuardError):
    """Strict mode: something that is not the protocol writer wrote to stdout.

    ``stray`` is the ledger's record of the write (text, call site, source).
    """

    def __init__(self, message: str, stray: object = None) -> None:
        super().__init__(message, stray)
        self.message = message
        self.stray = stray

    def __str__(self) -> str:
        return self.message


class GuardStateError(StdoutGuardError):
    """The guard cannot do this now: bad setting, second install with other settings, lost or forked wire."""


class ProtocolError(StdoutGuardError):
    """Abstract: a frame breaks its protocol. Raised only as one of the two classes below."""


class LocalProtocolError(ProtocolError):
    """We were about to put something on the wire that is not one whole valid frame; nothing was written."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol, and the caller asked for an exception instead of a finding."""


class LateInstallWarning(RuntimeWarning):
    """The guard was installed after something else had already taken or used stdout."""
