"""What to send and when: messages, views, acknowledgements. Pure logic: knows nothing of wgpu, widgets or event loops.

No clock but the ``now`` (seconds, any origin, never going back) that callers pass in.
"""

from .acks import Views
from .inbox import Inbox
from .protocol import PROTOCOL_VERSION, ProtocolError, parse_message

__all__ = ["PROTOCOL_VERSION", "Inbox", "ProtocolError", "Views", "parse_message"]
