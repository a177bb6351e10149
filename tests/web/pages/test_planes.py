"""Planes of positions in the web application, against `kifu.encode`."""

import numpy as np
import pytest

import kifu
from kifu.planes.registry import PLANE_SETS
from marks import slow
from web_site import ServedSite


def test_plane_sets_are_listed(site_server: ServedSite) -> None:
    assert [each["name"] for each in site_server.get("/api/plane-sets").json] == list(PLANE_SETS)


@pytest.mark.parametrize("name", ["one-plane@1", *slow("alphago48@1", "katago22@1")])
def test_planes_are_those_of_encode(site_server: ServedSite, name: str) -> None:
    game = next(iter(kifu.read(kifu.sample_path())))
    planes, labels = kifu.encode(game, name)
    shown = site_server.get("/api/games/0/0").json
    line, info = shown["line"], {key: shown["info"][key] for key in ("black_rank", "white_rank", "rules", "komi")}
    body = {key: line[key] for key in ("width", "height", "setup", "setup_ply", "moves", "to_play")}
    assert len(planes) == len(labels) == len(game)
    for ply in (0, 33, len(game) - 1):
        answer = site_server.post("/api/planes", {"line": body, "ply": ply, "planes": name, **info}).json
        found = np.array([plane["values"] for plane in answer["planes"]])
        np.testing.assert_allclose(found, planes[ply])
        assert [plane["name"] for plane in answer["planes"]] == list(PLANE_SETS[name].plane_names)
        features = [(each["name"], each["planes"]) for each in answer["features"]]
        assert features == [(each.name, len(each.planes)) for each in PLANE_SETS[name].features]
        assert all(each["definition"] for each in answer["features"])


def test_unknown_plane_sets_are_not_found(site_server: ServedSite) -> None:
    answer = site_server.post("/api/planes", {"line": {"width": 9, "height": 9}, "ply": 0, "planes": "own+opp"})
    assert "there is no plane set" in answer.error


def test_plies_beyond_the_line_are_refused(site_server: ServedSite) -> None:
    body = {"line": {"width": 9, "height": 9}, "ply": 1, "planes": "seven@1"}
    assert site_server.post("/api/planes", body).error == "ply must be 0 to 0, got 1"
