"""PPMd in a process of its own, as the only library that decodes it, pyppmd, crashes on some damaged data.

Run as a program, it serves one decoder: requests and answers are lengths and bytes on standard input and output.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from contextlib import suppress
from typing import BinaryIO

_REQUEST, _ANSWER = struct.Struct("<LL"), struct.Struct("<L")
_TIMEOUT_S = 60  # for one request, of at most 1 MiB of output, which takes about 0.1 s


class PpmdProcess:
    """A decoder with the interface of py7zr's `PpmdDecompressor`."""

    def __init__(self, properties: bytes) -> None:
        """Start the process. properties: order and size of the model."""
        command = [sys.executable, "-P", __file__, properties.hex()]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return at most `max_length` bytes. Raises ValueError if the process has ended, as it does on damage."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(_REQUEST.pack(len(data), max_length) + data)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ValueError("the PPMd data is damaged") from None
        head = self._process.stdout.read(_ANSWER.size)
        size = _ANSWER.unpack(head)[0] if len(head) == _ANSWER.size else 1
        answer = self._process.stdout.read(size)
        if len(answer) < size:
            raise ValueError("the PPMd data is damaged")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with suppress(BrokenPipeError), self._process:  # which closes its pipes
            pass


def _set_alarm(seconds: int) -> None:
    """End the process after some seconds, or no longer if 0; Windows has no alarms."""
    if sys.platform != "win32":
        signal.alarm(seconds)


def _serve(properties: bytes, requests: BinaryIO, answers: BinaryIO) -> None:
    from py7zr.compressor import PpmdDecompressor

    decoder = PpmdDecompressor(properties)
    while len(head := requests.read(_REQUEST.size)) == _REQUEST.size:
        size, limit = _REQUEST.unpack(head)
        _set_alarm(_TIMEOUT_S)
        answer = decoder.decompress(requests.read(size), limit)
        answers.write(_ANSWER.pack(len(answer)) + answer)
        answers.flush()
        _set_alarm(0)


if __name__ == "__main__":
    _serve(bytes.fromhex(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
