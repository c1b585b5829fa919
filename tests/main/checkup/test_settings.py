"""Wrong settings hide nothing about the right ones."""

from pathlib import Path

import pytest

from virtflow.config import Config
from virtflow.main.checkup.settings import check_settings, readable_config
from virtflow.model.finding import Finding, Verdict

HOME = {"HOME": "/nowhere"}


def found(config: Config | None) -> list[Finding]:
    assert config is not None
    return list(check_settings(config))


def test_right_settings_are_counted() -> None:
    config, wrong = readable_config({**HOME, "VIRTFLOW_PORT": "9"}, {"simulate": "3"})

    assert wrong == []
    assert [finding.text.partition(",")[0] for finding in found(config)] == ["2 given"]


def test_every_wrong_one_is_named_and_the_others_hold(tmp_path: Path) -> None:
    environ = {
        **HOME,
        "VIRTFLOW_PORT": "x",
        "VIRTFLOW_TICK_S": "0.5",
        "VIRTFLOW_PROT": "1",
        "POSTGRES_CONN": "mysql://x",
    }

    config, wrong = readable_config(environ, {"lease_s": "0", "strategy": "besser"})

    assert sorted(finding.text.partition("=")[0] for finding in wrong) == [
        "VIRTFLOW_PROT", "database_url", "lease_s", "port", "strategy",
    ]  # fmt: skip
    assert all(finding.verdict is Verdict.BAD and finding.remedy for finding in wrong)
    assert config is not None
    assert (config.tick_s, config.port) == (0.5, 8080)


def test_a_file_that_cannot_be_read_is_named_once(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("port = [")

    config, wrong = readable_config({**HOME, "VIRTFLOW_CONFIG": str(file)}, {})

    assert [finding.text.partition("=")[0] for finding in wrong] == ["config"]
    assert config is not None


def test_a_contradiction_is_found_behind_a_wrong_value() -> None:
    _, wrong = readable_config({**HOME, "VIRTFLOW_HOST": "0.0.0.0", "VIRTFLOW_PORT": "x"}, {})

    assert sorted(finding.text.partition("=")[0] for finding in wrong) == ["host", "port"]


@pytest.mark.parametrize(("content", "verdict"), [("best_fit", Verdict.OK), ("besser", Verdict.BAD)])
def test_the_strategy_file_is_read(tmp_path: Path, content: str, verdict: Verdict) -> None:
    (tmp_path / "strategy").write_text(content)

    config, _ = readable_config(HOME, {"strategy_file": str(tmp_path / "strategy")})

    assert found(config)[-1].verdict is verdict


def test_what_is_right_alone_and_useless_together_is_warned_of() -> None:
    config, _ = readable_config(HOME, {"election": "kubernetes", "kubernetes_url": "https://10.0.0.1"})
    assert "elects nobody" in found(config)[-1].text
    config, _ = readable_config(HOME, {"database_url": "postgresql://u@h/n"})
    assert "carry virtflow" in found(config)[-1].text
    config, _ = readable_config(HOME, {"database_url": "postgresql://u@h/n", "self_label": "role=seed"})
    assert [finding.verdict for finding in found(config)] == [Verdict.OK]
