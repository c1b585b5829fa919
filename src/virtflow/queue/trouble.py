"""What can go wrong at a broker, in our words: the cause, and whether it is a mistake that waiting cannot mend."""

import ssl
from typing import Final

import pamqp.exceptions
from aio_pika import exceptions as amqp
from pamqp.commands import Connection

from virtflow.model.errors import InvalidSetting, VirtflowError
from virtflow.model.secret import Secret

SETTING = "VIRTFLOW_BROKER_URL"

#: everything that the library raises when a broker or the way there fails
FAILURES: Final = (
    amqp.AMQPError,
    amqp.ChannelInvalidStateError,
    pamqp.exceptions.PAMQPException,
    OSError,
    EOFError,
    TimeoutError,
    RuntimeError,  # "closed", from several places
)
_NOT_ALLOWED = 530
_ANOTHER = "and it is made anew; or name another virtual host"
_DELETE_QUEUE = f"delete it, since knocks may be lost (rabbitmqctl delete_queue -p <vhost> <name>), {_ANOTHER}"
_DELETE_EXCHANGE = f"delete it (rabbitmqadmin -V <vhost> delete exchange name=<name>), {_ANOTHER}"


class UnusableBroker(InvalidSetting):
    """The setting is well formed, and there is a broker; but not one that we can use."""

    def __init__(self, url: Secret, *, cause: str, remedy: str) -> None:
        VirtflowError.__init__(self, f"{SETTING}={str(url)!r} cannot be used: {cause}", remedy=remedy)
        self.setting = SETTING
        self.value = str(url)
        self.cause = cause


class Trouble(Exception):
    """It did not work this time. `reason` is a word for metrics."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason
        self.words = words


def judge(error: BaseException, url: Secret) -> Trouble | UnusableBroker:
    """Of the exceptions in FAILURES: a mistake of whoever set this up, or trouble that may pass."""
    match error:
        case amqp.ProbableAuthenticationError():
            return UnusableBroker(
                url,
                cause="the broker refuses this user or password",
                remedy="correct it, or make the user: rabbitmqctl add_user <name>, then set_permissions",
            )
        case amqp.ChannelPreconditionFailed():
            return UnusableBroker(
                url,
                cause=f"it is declared there already, with other arguments ({_text(error)})",
                remedy=_DELETE_EXCHANGE if " for exchange " in _text(error) else _DELETE_QUEUE,
            )
        case amqp.ChannelClosed() if "ACCESS_REFUSED" in _text(error):
            return UnusableBroker(
                url,
                cause=f"this user may not do what is needed ({_text(error)})",
                remedy="rabbitmqctl set_permissions -p <vhost> <user> '^task' '^task' '^task'",
            )
    if (goodbye := _goodbye(error)) and goodbye.reply_code == _NOT_ALLOWED and "limit" not in goodbye.reply_text:
        return UnusableBroker(
            url,
            cause=f"the broker does not let this user into the virtual host ({goodbye.reply_text})",
            remedy="rabbitmqctl add_vhost <name>, and set_permissions -p <name> <user> '.*' '.*' '.*'",
        )
    if certificate := _tls_mistake(error):
        return UnusableBroker(url, cause=certificate, remedy="amqp:// is without TLS, amqps:// with; see docs/queue.md")
    return _trouble(error)


def _trouble(error: BaseException) -> Trouble:
    if goodbye := _goodbye(error):
        return Trouble("network", f"it closed the connection ({goodbye.reply_text})")
    match error:
        case amqp.PublishError():
            return Trouble("unroutable", f"nothing takes messages of {error.args[-1]!r} there; it is declared anew")
        case amqp.DeliveryError():
            return Trouble("refused", "the broker refused the message: its queue is full, or its disk")
        case amqp.IncompatibleProtocolError():
            return Trouble("network", "it hangs up before it says who it is: a broker, and with or without TLS?")
        case TimeoutError():
            return Trouble("timeout", "it does not answer in time")
        case amqp.ConnectionClosed() | amqp.ChannelClosed() if _text(error):
            return Trouble("network", f"it closed the connection ({_text(error)})")
    return Trouble("network", str(error) or type(error).__name__)


def _tls_mistake(error: BaseException | None) -> str:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({error.verify_message})"
        if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
            return "it does not speak TLS at that port"
        error = error.__cause__
    return ""


def _goodbye(error: BaseException) -> Connection.Close | None:
    """What the broker said when it hung up at the door. The library keeps it where it raises, and nowhere else."""
    trace = error.__traceback__ if isinstance(error, amqp.InvalidFrameError) else None
    while trace is not None:
        frame = trace.tb_frame.f_locals.get("frame")
        if isinstance(frame, Connection.Close):
            return frame
        trace = trace.tb_next
    return None


def _text(error: BaseException) -> str:
    return str(error.args[-1]) if error.args and error.args[-1] else ""
