"""Themes: what they bring comes surely, and what lasts outlives the bad time."""

from random import Random

from virtflow.testing.simulation.theme import THEMES, draw
from virtflow.testing.simulation.weather import FAULTS, Weather
from virtflow.testing.simulation.world import World


def test_a_theme_brings_faults_that_there_are() -> None:
    assert {fault for theme in THEMES.values() for fault in theme.faults} <= set(FAULTS)


def test_every_theme_comes_in_some_seeds_and_some_seeds_have_none() -> None:
    drawn = [draw(Random(number)) for number in range(100)]
    assert frozenset().union(*drawn) == frozenset(THEMES)
    assert frozenset() in drawn


def test_the_faults_of_a_theme_come_surely_at_its_rates() -> None:
    for number in range(20):
        rate = Weather(Random(number), ["crowd"]).rates["database call late"]
        low, high = THEMES["crowd"].faults["database call late"]
        assert low <= rate <= high


def test_who_is_deaf_stays_deaf_in_peace_and_all_else_is_well() -> None:
    weather = Weather(Random(1), ["deaf", "doubt"])
    weather.clear()
    assert weather.rates == {"news lost": 1.0}


def test_the_shape_of_a_seed_heeds_its_themes() -> None:
    for number in range(1, 60):
        world = World(number)
        if "narrow" in world.themes:
            assert world.hosts <= 2
            assert world.processes_count >= 3
        if "crowd" in world.themes:
            assert world.clients_count >= 5
