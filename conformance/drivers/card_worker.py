"""The process of the CUDA driver: one launch after another on the card, until a fault.

    python -m tileproof.conformance.drivers.card_worker DESCRIPTOR

Answers over the connection: ("card", CardFacts) or ("none", why) first; then per launch ("ran", Ran),
("refused", why) or, before it ends, ("card-fault", why).
"""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from tileproof.conformance.drivers.card import Card, CardError, NotAssembled, NotOnCard


def serve(pipe: Connection) -> None:
    """Until the other side closes, or the context breaks."""
    try:
        card = Card()
    except (CardError, ImportError, RuntimeError) as error:
        pipe.send(("none", str(error)))
        return
    pipe.send(("card", card.facts))
    while True:
        try:
            launch = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("ran", card.run_written(launch)))
        except NotAssembled as error:
            pipe.send(("refused", f"assemble: {error}"))
        except NotOnCard as error:
            pipe.send(("refused", str(error)))
        except CardError as error:
            pipe.send(("card-fault" if error.broken else "refused", str(error)))
            if error.broken:
                return


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
