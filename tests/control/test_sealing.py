"""Secrets in the database: none in the clear where there is a key, and all under the key of today."""

import base64
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.control.conftest import host, order, wish
from tests.control.test_dead import fail, letters
from tests.control.test_schedule import create, register

from virtflow.control.sealing import count_by_key, require_keys, reseal
from virtflow.main import Service
from virtflow.main.checkup.secrets import check_secrets
from virtflow.model.errors import InvalidSetting
from virtflow.model.finding import Verdict
from virtflow.model.secret import Secret
from virtflow.model.webhook import Callback, Delivery, DeliveryState, SigningSecret, Webhook
from virtflow.store.contract import Store
from virtflow.store.open import open_store
from virtflow.store.secrets import Place
from virtflow.store.vault import open_vault

ONE, TWO = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
WORD = "whsec_" + "bm90IGZvciB5b3Vy" * 2
SECRET = Secret(WORD)
Start = Callable[..., AbstractAsyncContextManager[Service]]


async def opened(url: str, keys: str, tmp_path: Path) -> Store:
    file = None
    if keys:
        file = tmp_path / f"keys-{keys[:6]}-{len(keys)}"
        file.write_text(keys)
    store = open_store(url, vault=open_vault(file))
    await store.open()
    return store


async def fill(store: Store) -> None:
    """A secret in each place where one can stand."""
    async with store.transaction() as tx:
        await tx.add_webhook(Webhook(name="ops", url="http://x/", secrets=(SigningSecret(SECRET),)), most=9)
        delivery = Delivery(
            id=b"d" * 16, line="http://x:80", seq=1, type="task.failed", subject="task/x", message_id="m", body=b"{}",
            url="http://x/", secret=SECRET, state=DeliveryState.WAITING,
        )  # fmt: skip
        await tx.add_deliveries([delivery])


async def stored(store: Store) -> str:
    """All of it, as it stands in the tables."""
    found = []
    for place in Place:
        after: str | bytes = "" if place in (Place.WEBHOOK, Place.DEAD) else b""
        found += await store.secrets_at_rest(place, after=after, limit=100)
    return str(found)


async def secrets(store: Store) -> list[str]:
    [webhook], [delivery] = await store.webhooks(), await store.deliveries(None, limit=9)
    return [webhook.secrets[0].text.reveal(), delivery.secret.reveal()]


async def test_secrets_come_under_the_key_of_today_whatever_they_were_under(url: str, tmp_path: Path) -> None:
    store = await opened(url, "", tmp_path)
    await fill(store)
    assert WORD in await stored(store)
    await store.close()
    for keys, rows in ((f"plain\n{ONE}", 0), (ONE, 2), (f"{ONE}\n{TWO}", 0), (f"{TWO}\n{ONE}", 2), (TWO, 0)):
        store = await opened(url, keys, tmp_path)
        await require_keys(store)
        assert await reseal(store) == rows, keys
        assert await secrets(store) == [WORD, WORD]
        assert (WORD in await stored(store)) == keys.startswith("plain")
        assert await count_by_key(store) == {store.vault.seals_with: 2}
        await store.close()
    store = await opened(url, ONE, tmp_path)
    with pytest.raises(InvalidSetting, match="VIRTFLOW_SECRETS_KEY_FILE lacks a key"):
        await require_keys(store)
    await store.close()
    store = await opened(url, f"plain\n{TWO}", tmp_path)
    assert await reseal(store) == 2
    assert WORD in await stored(store)
    await store.close()


async def test_no_secret_of_a_running_process_stands_in_the_clear(start: Start, url: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(ONE)
    waiting = Callback("http://127.0.0.1:9/placed", SECRET)
    async with start(webhook_allow="127.0.0.0/8", secrets_key_file=str(keys)) as service:
        await register(service, host("bm-1", cores=2))
        await create(service, order(want=wish(cores=3), callback=waiting))
        failed = await fail(service, "web", callback=waiting)
        await fill(service.store)
        everything = await stored(service.store)
        assert WORD not in everything
        assert len(re.findall("sealed:", everything)) >= 4
        [letter] = await letters(service)
        assert letter.failed.callback_of(letter.id) == waiting
        assert failed.hex() in letter.id.replace("-", "")
    with pytest.raises(InvalidSetting, match="lacks a key"):
        async with start():
            pass


async def test_the_doctor_counts_what_stands_under_which_key(start: Start, url: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(ONE)

    async def said(config: object) -> list[tuple[Verdict, str]]:
        return [(one.verdict, one.text) for one in await check_secrets(config)]  # type: ignore[arg-type]

    async with start() as service:
        await fill(service.store)
        [(verdict, text)] = await said(service.config)
        assert (verdict, text.partition(" stand")[0]) == (Verdict.WARN, "2 secrets of webhooks")
    async with start(secrets_key_file=str(keys)) as service:
        await reseal(service.store)  # or the relay was faster
        key = service.store.vault.seals_with
        assert await said(service.config) == [(Verdict.OK, f"2 are sealed with the key {key}")]
        sealed = service.config
        keys.write_text(f"{TWO}\n{ONE}")
        assert [verdict for verdict, _ in await said(sealed)] == [Verdict.OK, Verdict.WARN]
        keys.write_text(TWO)
        [(verdict, text), _] = await said(sealed)
        assert (verdict, key in text) == (Verdict.BAD, True)
        keys.write_text("hunter2")
        [(verdict, text)] = await said(sealed)
        assert (verdict, "hunter2" in text) == (Verdict.BAD, False)
