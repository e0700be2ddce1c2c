"""What a signal handler or a time limit raises in a check."""


class Stopped(BaseException):
    """Raised by a signal handler: what is known so far is the result."""
