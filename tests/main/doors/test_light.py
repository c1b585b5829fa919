"""A start is what a user waits for after a crash: what is loaded for it is what is needed for it."""

import subprocess
import sys

#: the other command line, the terminal, and what only some settings need
NEEDLESS = {
    "rich", "pygments", "attr", "typer", "pydantic", "fastapi", "starlette", "yaml", "httpx", "numba", "aio_pika",
    "nats", "aiokafka", "opentelemetry",
}  # fmt: skip


def loaded_by(code: str) -> set[str]:
    code += "\nimport sys\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_a_server_loads_nothing_needless() -> None:
    loaded = loaded_by("import virtflow.main.doors.serve, virtflow.api.app, virtflow.api.server")
    assert {"structlog", "virtflow.control.schedule"} <= loaded
    assert loaded & NEEDLESS == set()


def test_who_needs_the_terminal_has_it_afterwards() -> None:
    assert "rich.console" in loaded_by("import virtflow.main.doors, rich.console")


def test_a_log_in_colours_needs_none_of_it() -> None:
    code = (
        "import virtflow.main.doors, structlog\n"
        "last = structlog.dev.ConsoleRenderer(colors=True)\n"
        "structlog.configure(processors=[structlog.processors.format_exc_info, last])\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: structlog.get_logger().exception('said')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ZeroDivisionError" in ran.stdout
