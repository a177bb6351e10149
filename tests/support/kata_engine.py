"""KataGo's engine and net of the katrain wheel, as a witness of networks' outputs.

They are those of the installed package `katrain`, or of the unpacked wheel in the folder KIFU_KATRAIN. The engine needs
OpenCL, on CPUs for example Debian's pocl-opencl-icd. It is given parameters of its kernels, because its own search for
the fastest ones takes ten minutes there, and can crash.
"""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

_SETTINGS = {
    "rules": "tromp-taylor", "maxVisits": 1, "numSearchThreads": 1, "nnMaxBatchSize": 1, "openclUseFP16": "false",
    "allowResignation": "false", "resignThreshold": -0.9, "ponderingEnabled": "false", "lagBuffer": 1.0,
    "searchFactorAfterOnePass": 0.5, "searchFactorAfterTwoPass": 0.25, "searchFactorWhenWinning": 0.4,
    "searchFactorWhenWinningThreshold": 0.95, "logAllGTPCommunication": "false", "logSearchInfo": "false",
    "logToStderr": "false",
}  # fmt: skip

_TUNING = """VERSION=13
0
0
0
0
0
0
0
0
WGD=32 MDIMCD=8 NDIMCD=8 MDIMAD=8 NDIMBD=8 KWID=2 VWMD=2 VWND=2 PADA=1 PADB=1
MWG=8
MWG=16
MWG=16
MWG=16
INTILE_XSIZE=4
INTILE_XSIZE=6
XYSTRIDE=1
ATTN_BLOCK_Q=64 ATTN_BLOCK_KV=16 Q_PER_THREAD=4 USE_TILED_ATTN=1
WG_C_SIZE=64
ELTS_PER_THREAD=1
XY_ELTS_PER_THREAD=1
TILE_SIZE=32
"""
"""Parameters of the OpenCL kernels; the others are KataGo's defaults."""


def katrain() -> Path:
    """Return the folder of the katrain package; skip the test without it."""
    folder = os.environ.get("KIFU_KATRAIN")
    if folder is not None:
        return Path(folder) / "katrain"
    spec = find_spec("katrain")
    if spec is None or spec.origin is None:
        pytest.skip("katrain is not installed and KIFU_KATRAIN is not set")
    return Path(spec.origin).parent


def katrain_net() -> Path:
    return katrain() / "models" / "b10c384h6nbttflrs.bin.gz"


class RawOutput(NamedTuple):
    """KataGo's outputs for White: result [win, loss, no result], policy [points + 1] with NaN for illegal moves."""

    result: npt.NDArray[np.float64]
    lead: float
    score: float
    score_square: float
    policy: npt.NDArray[np.float64]
    ownership: npt.NDArray[np.float64]


class Gtp:
    def __init__(self, net: Path, folder: Path, **options: str) -> None:
        engine = katrain() / "KataGo" / "katago"
        engine.chmod(0o755)
        tuning = folder / "tuning.txt"
        tuning.write_text(_TUNING)
        settings = _SETTINGS | {"homeDataDir": folder, "logFile": folder / "log", "openclTunerFile": tuning} | options
        config = folder / "gtp.cfg"
        config.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        self._process = subprocess.Popen(
            [engine, "gtp", "-config", config, "-model", net], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env={**os.environ, "APPIMAGE_EXTRACT_AND_RUN": "1"},
        )  # fmt: skip

    def __enter__(self) -> Gtp:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def __call__(self, command: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if not line.strip() and lines:
                break
            lines += [line] if line.strip() else []
        else:
            raise RuntimeError(f"the engine ended at {command!r}")
        if not lines[0].startswith("="):
            raise RuntimeError(f"{command}: {' '.join(lines)}")
        return "".join(lines)[1:]

    def raw_output(self) -> RawOutput:
        """Return the outputs for the position on the board, without symmetry and without optimism."""
        head, _, rest = self("kata-raw-nn 0 0").partition("policy\n")
        policy, _, owners = rest.partition("whiteOwnership")
        values = dict(line.split() for line in head.splitlines() if line.strip())
        return RawOutput(
            np.array([float(values[key]) for key in ("whiteWin", "whiteLoss", "noResult")]),
            float(values["whiteLead"]), float(values["whiteScoreSelfplay"]), float(values["whiteScoreSelfplaySq"]),
            np.array(policy.replace("policyPass", "").split(), float), np.array(owners.split(), float),
        )  # fmt: skip
