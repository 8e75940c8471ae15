"""What to send, when and how fine: messages, views, acknowledgements, links; and who is in control.

Pure logic: knows nothing of wgpu, widgets or event loops. No clock but the ``now`` (seconds, any origin, never going back) that
callers pass in.
"""

from .acks import Views
from .codec import CodecChoice
from .control import Control
from .inbox import Inbox
from .protocol import PROTOCOL_VERSION, ProtocolError, parse_message
from .quality import QualityPolicy, Settings

__all__ = [
    "PROTOCOL_VERSION",
    "CodecChoice",
    "Control",
    "Inbox",
    "ProtocolError",
    "QualityPolicy",
    "Settings",
    "Views",
    "parse_message",
]
