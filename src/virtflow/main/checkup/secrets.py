"""Do secrets stand sealed in the database, and can we open them?"""

from collections.abc import Iterator, Mapping, Sequence

from virtflow.config import Config
from virtflow.control.sealing import IN_THE_CLEAR, count_by_key
from virtflow.model.errors import InvalidSetting, VirtflowError
from virtflow.model.finding import Finding, bad, ok, warn
from virtflow.store.open import open_store
from virtflow.store.vault import Vault, missing_keys, open_vault

PART = "secrets"


async def check_secrets(config: Config) -> Sequence[Finding]:
    try:
        vault = open_vault(config.secrets_key_file)
    except InvalidSetting as error:
        return [bad(PART, error.detail, error.remedy)]
    try:
        store = open_store(config.database_url.reveal(), reading=True)
        await store.open()
    except VirtflowError:
        return []  # said where the database is looked at
    try:
        return list(judge_secrets(await count_by_key(store), vault))
    finally:
        await store.close()


def judge_secrets(counts: Mapping[str, int], vault: Vault) -> Iterator[Finding]:
    """`counts`: secrets by the name of the key that sealed them."""
    if unknown := set(counts) - vault.opens_with - {IN_THE_CLEAR}:
        error = missing_keys(unknown)
        yield bad(PART, error.detail, error.remedy)
    clear, today = counts.get(IN_THE_CLEAR, 0), counts.get(vault.seals_with, 0)
    if not vault.opens_with:
        if clear:
            text = f"{clear} secrets of webhooks stand in the clear in the database, and in its backups"
            yield warn(PART, text, "VIRTFLOW_SECRETS_KEY_FILE seals them: docs/webhooks.md")
        elif not unknown:
            yield ok(PART, "there are none in the database")
        return
    how = f"sealed with the key {vault.seals_with}" if vault.seals_with else "in the clear, as the key file says"
    yield ok(PART, f"{today} are {how}")
    for name in sorted((set(counts) & vault.opens_with | {IN_THE_CLEAR} & set(counts)) - {vault.seals_with}):
        former = f"sealed with the key {name}" if name else "in the clear"
        yield warn(
            PART, f"{counts[name]} are still {former}", "they are sealed anew when a relay starts, or takes the office"
        )
