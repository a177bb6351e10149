"""Opening and describing nets: files of both formats, run directories, packaged nets, and nets of one's own classes."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from kifu.assets import asset
from kifu.config import check_config, read_model
from kifu.errors import FormatError, RecipeError, first_line, join_lines, missing_extras
from kifu.go.rules import RECORD_RULES, Rules
from kifu.io import hash_file
from kifu.katago.checkpoint import read_network
from kifu.katago.net_file import CHECKPOINT, SUFFIXES, is_kata_net
from kifu.learn import BEST, MIX_SUFFIX, ONNX_SUFFIX, PACKAGED, SUFFIX, Precision, split_class, split_mix
from kifu.learn.backends import OnnxBackend
from kifu.learn.inference import Net
from kifu.learn.net_format import (
    PHASES,
    RANK_BANDS,
    MixFile,
    MixMember,
    kata_metadata,
    open_net_file,
    parse_metadata,
    read_onnx,
)
from kifu.text import format_seconds

if TYPE_CHECKING:
    from kifu.learn.networks import Network


def packaged_net(name: str = PACKAGED[0]) -> Path:
    """Return the path of a net that is packaged with kifu."""
    return Path(str(asset("nets", name + SUFFIX)))


def _find_net(path: str | os.PathLike[str] | None) -> tuple[Path, str | None]:
    """Return the path of a net, and the class that its name ends with; `path` as for `open_net`."""
    text, class_name = (PACKAGED[0], None) if path is None else split_class(os.fspath(path))
    packaged = text in PACKAGED and not (isinstance(path, os.PathLike) and Path(path).exists())
    return packaged_net(text) if packaged else Path(text), class_name


def net_file(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the file with the weights that `open_net` opens."""
    file, _ = _find_net(path)
    return file / BEST if file.is_dir() else file


def open_net(
    name: str | os.PathLike[str] | None = None,
    *,
    rules: Rules = RECORD_RULES,
    symmetries: bool = False,
    precision: Precision = "float32",
    threads: int | None = None,
) -> Net:
    """Open a net. Nothing in the file is executed, unpickled or imported.

    Args:
        name: A file, or a run directory for its best net; the name of a packaged net ("human" or "small"; files of
            these names are "./human" and "./small"); None for "human"; a network of KataGo (.bin.gz, .txt.gz, .ckpt,
            .onnx); or a mixture, which is a file of `kifu mix` or such names joined by "+". A net of a class of one's
            own requires that the program has imported its module, or "PATH@module:Class", which imports it.
        rules: The rules that define legal moves; the moves before a position must be legal, too.
        symmetries: Average over the 8 symmetries of the board (4 if it is not square).
        precision: Precision of `Net.stream`, see `kifu.learn.torch_backend.TorchBackend`.
        threads: Threads of onnxruntime; None for one per core.

    Raises:
        FormatError: The file is not a net, or its weights do not fit the architecture that it names, or that is a class
            whose module is not imported.
        RecipeError: The class that `name` names is missing or invalid.
    """
    names = [] if name is None else split_mix(name)
    if len(names) > 1:
        net = _mixture([open_net(each, threads=threads) for each in names], None, None)
    elif name is not None and os.fspath(name).endswith(MIX_SUFFIX):
        mix, files = read_mix(name)
        net = _mixture([open_net(each, threads=threads) for each in files], mix, Path(name).stem)
    else:
        net = _open_net(name, threads)
    return net.using(rules=rules, symmetries=symmetries, precision=precision)


def _mixture(members: Sequence[Net], fitted: MixFile | None, name: str | None) -> Net:
    name = name or "+".join(each.name for each in members)
    known = [each.games for each in members] + ([fitted.known_games()] if fitted else [])
    heads = tuple(dict.fromkeys(head for each in members for head in each.about.heads))
    about = members[0].about.model_copy(update={"net": "mixture", "heads": heads})

    def load() -> Network:
        raise FormatError(f"{name} is a mixture of nets, not one net")

    return Net(
        about, np.unique(np.concatenate(known)), name, any(each.any_size for each in members),
        sum(each.parameters for each in members), load, has_points=any(each.has_points for each in members),
        members=tuple(members), fitted=fitted,
    )  # fmt: skip


def _open_net(path: str | os.PathLike[str] | None, threads: int | None = None, *, imported: bool = True) -> Net:
    named, class_name = _find_net(path)
    file, name = (named / BEST, named.name) if named.is_dir() else (named, named.stem)
    if os.fspath(file).lower().endswith((*SUFFIXES, CHECKPOINT)):
        with missing_extras():
            from kifu.learn.torch_net import kata_net
        return kata_net(read_network(file))
    session = None if class_name else _open_session(file, threads)
    if session is not None:
        return _from_onnx(session, name, file)
    with missing_extras(), open_net_file(file, "numpy"):  # refuses other files before torch is loaded
        from kifu.learn.torch_net import read_net
    return read_net(file, name, class_name, imported=imported)


def _open_session(file: Path, threads: int | None) -> OnnxBackend | None:
    if file.suffix == ONNX_SUFFIX:
        return OnnxBackend(file, threads)
    beside = file.with_suffix(ONNX_SUFFIX)
    if not (beside.is_file() and file.is_file()):
        return None
    session = OnnxBackend(beside, threads)
    return session if session.metadata.get("weights") == hash_file(file) else None


def _from_onnx(session: OnnxBackend, name: str, file: Path) -> Net:
    """Return the net of a session; `file` holds its weights. Raise FormatError for invalid metadata."""

    def load() -> Network:
        if file.suffix == ONNX_SUFFIX:
            own = "KataGo's own" if session.kata else f"the {SUFFIX}"
            raise FormatError(f"{file} is an ONNX file, which torch cannot read; this requires {own} file")
        with missing_extras():
            from kifu.learn.torch_net import read_net
        return read_net(file, name).module

    if kata := session.kata:
        about, none = kata_metadata(kata.is_human), np.empty(0, np.uint64)
        return Net(about, none, kata.name, True, 0, load, session, has_points=about.has_points)
    about = parse_metadata(session.path, session.metadata)
    try:
        games = np.frombuffer(base64.b64decode(session.metadata["games"], validate=True), "<u8")
        parameters, any_size = int(session.metadata["parameters"]), json.loads(session.metadata["any_board"])
    except (KeyError, ValueError) as error:
        raise FormatError(f"{session.path}: invalid metadata: {first_line(error)}") from None
    return Net(about, games, name, any_size is True, parameters, load, session, has_points=about.has_points)


def net_hash(net: str | os.PathLike[str] | None) -> str:
    """Return the BLAKE3 hash of a net's file, or of the hashes of a mixture."""
    names = [] if net is None else split_mix(net)
    if len(names) > 1:
        return blake3("".join(map(net_hash, names)).encode()).hexdigest()
    path = net_file(net)
    try:
        return hash_file(path) if path.exists() else blake3(os.fsencode(str(net))).hexdigest()
    except OSError as error:
        raise FormatError(f"cannot read the net {path}: {error.strerror}") from None


def read_mix(path: str | os.PathLike[str]) -> tuple[MixFile, list[Path]]:
    """Read a fitted mixture, and find its nets: packaged ones, and files and run directories beside it.

    Raises FormatError if the file is damaged, or a net is missing or was changed.
    """
    mix = read_model(MixFile, path, "a mixture of nets")
    files = [_member_path(Path(path), member.name) for member in mix.members]
    for file, member in zip(files, mix.members):
        if not net_file(file).is_file():
            raise FormatError(f"{path} is a mixture with {member.name}, which is not beside it")
        if net_hash(file) != member.blake3:
            raise FormatError(f"{path} is a mixture with another {member.name}: the BLAKE3 of {file} differs")
    return mix, files


def _member_path(mix: Path, name: str) -> Path:
    return packaged_net(name) if name in PACKAGED else mix.parent / name


def mix_members(nets: Sequence[str | os.PathLike[str]], mix: Path) -> tuple[MixMember, ...]:
    """Return the nets of a mixture that will be written.

    Raises RecipeError for a net that `read_mix` would not find.
    """
    if not 2 <= len(nets) <= 16:
        raise RecipeError(f"a mixture requires two or more nets, 16 at most, got {len(nets)}")
    members = []
    for net in nets:
        name = Path(net).name
        file = net_file(net)
        if name.endswith(MIX_SUFFIX) or not file.is_file():
            raise RecipeError(f"a mixture is fitted from packaged nets, files and run directories, got {net}")
        beside = net_file(_member_path(mix, name))
        if not (beside.is_file() and beside.samefile(file)):
            raise RecipeError(f"a mixture must be in the folder of its nets: {mix} is not beside {net}")
        members.append(check_config(MixMember, {"name": name, "blake3": net_hash(net)}, "net", name))
    return tuple(members)


def _describe_mix(path: Path) -> str:
    """Return nets, weights and figures of a fitted mixture as lines of text."""
    mix, _ = read_mix(path)
    games = len(mix.known_games())
    lines = [
        f"{path}: {mix.format}, {len(mix.members)} nets, by kifu {mix.kifu}",
        f"  fitted on   {mix.positions:,} positions of {games:,} games, {mix.accounts:,} players",
    ]
    lines += [f"  net         {member.name}, blake3 {member.blake3}" for member in mix.members]
    for label, weights in (("policy", mix.policy), ("value", mix.value)):
        if weights is not None:
            common = np.array(weights.common)
            rows = {"": common} | {
                f" {name}": common + np.array(row)
                for name, row in zip((*PHASES, *RANK_BANDS), (*weights.phases, *weights.ranks))
            }
            lines += [f"  {label:12}{', '.join(f'{weight:.3f}' for weight in row)}{name}" for name, row in rows.items()]
    for each in mix.figures:
        value = "" if each.value is None else f", squared error of the value {each.value:.3f}"
        lines.append(f"  figures     {each.name}: top-1 {each.top1:.2%}, {each.nll:.4f} nats{value}")
    return join_lines(lines)


def check_net(name: str) -> None:
    """Check the header of a net, named as for `open_net`, or a network file of KataGo; packaged nets are not checked.

    Raises FormatError if the file is missing or not a net.
    """
    if name in PACKAGED:
        return
    names = split_mix(name)
    if len(names) > 1:
        for each in names:
            check_net(each)
        return
    file = net_file(name)
    if file.suffix == MIX_SUFFIX:
        read_mix(file)
    elif file.suffix == ONNX_SUFFIX:
        read_onnx(file)
    elif is_kata_net(name):
        read_network(name)
    else:
        with open_net_file(file, "numpy"):
            pass


def describe_net(path: Path) -> str:
    """Return the metadata of a net's file, of a run directory's best net, or of a fitted mixture, as lines of text.

    Nothing is imported: without the class of the network, its weights are counted, but not checked.
    """
    if path.suffix == MIX_SUFFIX:
        return _describe_mix(path)
    net, file = _open_net(path, imported=False), net_file(path)
    about, size, boards = net.about, f"{net.parameters:,}", "any board"
    if net.unchecked:
        size, boards = f"{size} with buffers; class not imported", f"trained on {about.width} x {about.height}"
    elif not net.any_size:
        boards = f"{about.width} x {about.height} only"
    lines = [f"{file}: kifu-net@{about.version}, {about.net} on {about.planes}, {boards}"]
    passes = "with passes" if about.passes else "without passes"
    lines += [f"  outputs     {', '.join([f'policy {passes}', *about.heads])}"]
    lines += [f"  inputs      {', '.join(about.inputs)}"] if about.inputs else []
    lines += [f"  parameters  {size}"]
    recipe = about.recipe.get("name")
    lines += [f"  recipe      {recipe[:80] if isinstance(recipe, str) else 'unknown'}, by kifu {about.kifu}"]
    length, *validation = _training_summary(about.trained)
    lines += [f"  training    {len(net.games):,} known games{length}", *validation]
    lines += [f"  bytes       {file.stat().st_size:,}", f"  blake3      {hash_file(file)}"]
    return join_lines(lines)


def _training_summary(trained: Mapping[str, Any]) -> list[str]:
    """Return the length of the training and a line about its validation, or [""] if the metadata are incomplete."""
    try:
        seconds = format_seconds(trained["seconds"])
        length = f": {trained['positions']:,} positions in {trained['steps']:,} steps, {seconds}"
        figures = trained["figures"]
        validation = f"top-1 {figures['validation_top1']:.2%}, loss {figures['validation_loss']:.4f} nats"
        validation += " with raw weights" if figures.get("averaged") == 0 else ""
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return [""]
    return [length, f"  validation  {validation}"]
