"""Damaged files of every format, and what reads them."""

import bz2
import functools
import gzip
import io
import json
import lzma
import random
import re
import shutil
import struct
import zipfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kifu
import sevenzips
from catalogues import GAMES, table, write_catalogue
from evaluators import reported, scripted_engine
from example_sets import layout_for, random_batch
from fuzz_sgf import trap_records
from fuzzing import TOKENS, Fuzzer, damage, mutant
from kata_nets import as_arrays, random_rows, small_net
from kifu.assets import config_names, sample_path
from kifu.checksums import add_checksum
from kifu.config import config_text
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.export import rows_to_olf, rows_to_sgf
from kifu.corpus.ingest import ingest
from kifu.corpus.rows import rows_from_catalogue
from kifu.corpus.schema import EVALUATION, EVALUATIONS, MOVE_COLUMNS, SCHEMA
from kifu.corpus.splits import load_split
from kifu.corpus.update import append
from kifu.datasets.epoch_plan import LoaderConfig
from kifu.datasets.formats import open_writer
from kifu.datasets.manifest import read_manifest
from kifu.datasets.tokens import open_tokens
from kifu.katago.net_file import write_kata_net
from kifu.katago.npz import KataWriter
from kifu.learn.net import mix_members
from kifu.learn.net_format import MixFile, PoolWeights
from kifu.recipes.kgs import parse_index
from kifu.recipes.schema import load_recipe, load_training
from kifu.report.describe import describe
from kifu.search.build import build_index
from kifu.search.index import open_index
from naive_dat import random_file
from nets import tiny_net
from record_samples import OLF_LINE, SGF, TAIL, TYGEM_LINE, one_member_zip, small_archives, tar_entry

Files = dict[str, bytes]

CONFIG = LoaderConfig(seed=1, jobs=1)


def on_disk(folder: Path, read: Callable[[Path], object]) -> Callable[[Files], None]:
    """Return a check that writes files into an empty folder and reads the only file, or else the folder."""

    def check(files: Files) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        read(folder / name if len(files) == 1 else folder)

    return check


def content(folder: Path) -> Files:
    if folder.is_file():
        return {folder.name: folder.read_bytes()}
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def one_damaged(seeds: Sequence[Files]) -> Callable[[random.Random], Files]:
    def make(draw: random.Random) -> Files:
        files = draw.choice(seeds)
        victim = draw.choice(list(files))
        data = files[victim]
        inner = zipfile.is_zipfile(io.BytesIO(data)) and draw.random() < 0.7
        return files | {victim: damaged_member(draw, data) if inner else mutant(draw, data)}

    return make


def damaged_member(draw: random.Random, data: bytes) -> bytes:
    """Return a zip whose checksums are right, though one member is a mutant."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    victim = draw.choice(list(members))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, mutant(draw, member) if name == victim else member)
    return made.getvalue()


def read_printable(path: Path) -> None:
    for line in str(describe(path)).splitlines():
        assert line.isprintable(), f"control characters: {line!r}"


# Containers of records

COMPRESSIONS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
RECORD_NAMES = ("a.sgf", "b.olf", "c.index", "d", "tygem.txt")


def damaged_sevenzip(draw: random.Random, name: str, record: bytes) -> bytes:
    """Return a 7z archive with a damaged header or content, but with the right checksum of its header."""
    data = sevenzips.made(
        [(name, record), ("b.sgf", SGF)], draw.choice(list(sevenzips.codecs().values())), plain_header=True
    )
    (begin,) = struct.unpack_from("<Q", data, 12)
    content, header = data[32 : 32 + begin], data[32 + begin :]
    if draw.random() < 0.2:
        content = mutant(draw, content)
    if draw.random() < 0.8:
        header = mutant(draw, header)
    return sevenzips.encoded(header) if draw.random() < 0.2 else sevenzips.packed_with(header, content)


def container_fuzzer(kind: str, folder: Path) -> Fuzzer:
    """Return the fuzzer of archives of a kind (zip, tar, 7z, compressed), of which some members are damaged, too."""

    def make(draw: random.Random) -> Files:
        name = draw.choice(RECORD_NAMES)
        record = mutant(draw, draw.choice([*trap_records(), OLF_LINE * 5, TYGEM_LINE * 5]))
        if kind == "zip":
            data, path = one_member_zip(record, draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))), "a.zip"
        elif kind == "tar":
            changes = ((draw.randrange(512), draw.randbytes(draw.randint(1, 8))),) if draw.random() < 0.5 else ()
            data, path = tar_entry(name.encode(), record, draw.choice((b"0", b"x", b"g", b"L", b"5")), changes), "a.tar"
            data += TAIL
        elif kind == "7z":
            data, path = damaged_sevenzip(draw, name, record), "a.7z"
        else:
            suffix = draw.choice(list(COMPRESSIONS))
            archive = draw.choice((small_archives()["tar"], record))
            path = draw.choice((f"a.tar.{suffix}", f"{name}.{suffix}", "a"))
            data = COMPRESSIONS[suffix](mutant(draw, archive))
        return {path: mutant(draw, data) if draw.random() < 0.6 else data}

    def read(path: Path) -> None:
        read_printable(path)
        ingest(path, folder / "out.parquet", clean="training", jobs=1)

    return Fuzzer(make, on_disk(folder / "tried", read))


# Catalogues

EXTREMES: dict[str, tuple[Any, ...]] = {
    "uint8": (0, 1, 2, 3, 19, 25, 26, 255),
    "uint16": (0, 1, 2, 360, 361, 0x4000, 0x8000, 0x8001, 0xC000, 0x7FFF, 0xFFFF),
    "int16": (-32768, -1, 0, 1, 2, 9, 32767),
    "int32": (-(2**31), -1, 0, 1, 3, 2**31 - 1),
    "uint64": (0, 1, 2**63, 2**64 - 1),
    "float": (float("nan"), float("inf"), -float("inf"), 3.4e38, -1e-45, 0.0, 6.5),
    "date32[day]": (-(2**31), -719163, 0, 2932896, 2932897, 2**31 - 1),
    "bool": (False, True),
    "string": (
        "", "sgf", "B", "tie", "\x1b[31m", "a\nb", "\x00", "9d", "x" * 3000, "\u202e", "柯洁", "utf-8", "hex", "ko",
    ),
}  # fmt: skip


def extreme_catalogue(draw: random.Random) -> bytes:
    """Return a catalogue with the right columns, of which some have extreme values."""
    count = draw.randint(1, 6)
    rows = GAMES.take([draw.randrange(len(GAMES)) for _ in range(count)])
    share = draw.choice((0.02, 0.1, 0.5))
    columns = [extreme(draw, field, count) if draw.random() < share else rows.column(field.name) for field in SCHEMA]
    file = io.BytesIO()
    pq.write_table(pa.table(columns, schema=SCHEMA), file)
    return file.getvalue()


def extreme(draw: random.Random, field: pa.Field, count: int) -> pa.Array:
    if field.name in MOVE_COLUMNS:
        kinds = [str(kind) for kind in ([part.type for part in EVALUATION] if field.type == EVALUATIONS else ["float"])]
        picked = [
            [[draw.choice(EXTREMES[kind]) for kind in kinds] for _ in range(draw.choice((1, 3)))] for _ in range(count)
        ]
        values = [[dict(zip(EVALUATION.names, each)) if len(kinds) > 1 else each[0] for each in row] for row in picked]
    elif pa.types.is_list(field.type):
        values = [draw.choices(EXTREMES["uint16"], k=draw.choice((0, 1, 2, 3, 400))) for _ in range(count)]
    else:
        values = [draw.choice(EXTREMES[str(field.type)]) for _ in range(count)]
    if field.nullable:
        values = [None if draw.random() < 0.2 else value for value in values]
    if pa.types.is_date32(field.type):
        return pa.array(values, pa.int32()).view(pa.date32())
    return pa.array(values, field.type)


def plain_catalogues() -> list[Files]:
    """Return catalogues without compression and mostly without footer, where changed bytes are changed values."""
    many = pa.concat_tables([table()] * 40).combine_chunks()
    made = []
    for options in ({}, {"use_dictionary": False}, {"use_dictionary": False, "data_page_version": "2.0"}):
        file = io.BytesIO()
        pq.write_table(many, file, compression="none", write_statistics=False, store_schema=False, **options)
        made.append({"a.parquet": file.getvalue()})
    return made


def use_catalogue(path: Path) -> None:
    read_printable(path)
    for batch in open_catalogue(path).batches():
        for rules in all_rules():
            rows = rows_from_catalogue(batch, rules)
            rows.batch(rows.drop).validate(full=True)
        rows_to_olf(batch)
        rows_to_sgf(batch)
    repr(kifu.stats(path, jobs=1))
    ingest(path, path.with_name("out.parquet"), clean="training", jobs=1)
    for planes in ("agz17", "alphago48"):
        for _ in islice(kifu.load(path, planes, batch_size=64, pad=True, config=CONFIG), 2):
            pass


@functools.cache
def all_rules() -> list[Any]:
    return [load_cleaning_rules(name) for name in config_names("cleaning")]


def catalogue_fuzzer(folder: Path) -> Fuzzer:
    written = {"a.parquet": write_catalogue(folder / "a.parquet", GAMES).read_bytes()}
    by_byte = one_damaged([written, *plain_catalogues()])

    def make(draw: random.Random) -> Files:
        return {"a.parquet": extreme_catalogue(draw)} if draw.random() < 0.6 else by_byte(draw)

    return Fuzzer(make, on_disk(folder / "tried", use_catalogue))


def catalogue_folder_fuzzer(folder: Path) -> Fuzzer:
    folder.joinpath("a.sgf").write_bytes(b"(;GM[1]SZ[19]DT[2001-01-01];B[pd];W[dp])(;SZ[9];B[aa])")
    kifu.ingest(folder / "a.sgf", folder / "parts", jobs=1)

    def read(path: Path) -> None:
        try:
            use_catalogue(path)
        finally:
            ingest(folder / "a.sgf", path, jobs=1)

    return Fuzzer(one_damaged([content(folder / "parts")]), on_disk(folder / "tried", read))


# Data sets


def written_sets(name: str, folder: Path) -> list[Files]:
    """Return small data sets of a format on two boards: one whose planes fill their bytes, and one with unused bits."""
    if name in ("dat1@1", "dat2@1"):
        return [{"a.dat": random_file(name, rows)} for rows in (0, 1, 3)]
    made = []
    for width, height in ((4, 4), (19, 19)):
        path = folder / f"{width}" / f"a{kifu.FORMATS[name].suffix}"
        if name == "katago-npz@1":
            with KataWriter(path, rows_per_file=2, compression="fast", meta=True) as kata:
                kata.write(random_rows(3))
                kata.commit({})
        else:
            with open_writer(name, path, layout_for(name, width, height)) as writer:
                writer.write(random_batch(writer.layout, 7))
                writer.commit({})
        made.append(content(path))
    return made


def uncompressed(files: Files) -> Files:
    """Return a Parquet data set without compression, where changed bytes are changed values."""
    file = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(files["a.parquet"])), file, compression="none", use_dictionary=False)
    return {"a.parquet": file.getvalue()}


def use_dataset(path: Path) -> None:
    with kifu.open(path) as data:
        data.to_numpy()
    read_printable(path)
    for _ in islice(kifu.load(path, batch_size=32, config=CONFIG), 3):
        pass


def dataset_fuzzer(name: str, folder: Path) -> Fuzzer:
    seeds = written_sets(name, folder)
    if name == "parquet@1":
        seeds += [uncompressed(files) for files in seeds] * 3
    elif name == "katago-npz@1":
        file = io.BytesIO()
        np.savez(file, **as_arrays(random_rows(2)))
        seeds.append({"theirs.npz": file.getvalue()})
    return Fuzzer(one_damaged(seeds), on_disk(folder / "tried", use_dataset))


# Nets and runs

RUN = json.dumps({"recipe": {"a": [1, None]}, "inputs": {}, "counts": {"games": 3}}).encode()
METRICS = b"step,epoch,loss\n1,0,5.5\n2,0,nan\n"


def net_fuzzer(folder: Path) -> Fuzzer:
    from kifu.learn.net import describe_net, open_net

    seeds = [content(tiny_net(folder / "a.safetensors", heads=heads, games=(1, 2))) for heads in ((), ("value",))]

    def make(draw: random.Random) -> Files:
        if draw.random() < 0.5:
            return one_damaged(seeds)(draw)
        ((name, data),) = draw.choice(seeds).items()
        end = 8 + int.from_bytes(data[:8], "little")
        header = damage(draw, bytearray(data[8:end]), (*WORDS, b"9" * 20, b"null", b'"I8"', b"b1c8", b"\xc3\x28"))
        return {name: struct.pack("<Q", len(header)) + header + data[end:]}

    def read(path: Path) -> None:
        open_net(path)
        assert describe_net(path).replace("\n", "").isprintable()

    return Fuzzer(make, on_disk(folder / "tried", read))


def run_fuzzer(folder: Path) -> Fuzzer:
    import torch

    from kifu.learn.run_dir import read_checkpoint, read_metrics, read_run

    checkpoint = io.BytesIO()
    torch.save({"state_dict": {"a": torch.zeros(2)}, "optimizer_states": [{}], "kifu": {"steps": 1}}, checkpoint)
    seeds = [{"run.json": RUN}, {"metrics.csv": METRICS}, {"last.ckpt": checkpoint.getvalue()}]

    def read(path: Path) -> None:
        if path.name == "run.json":
            run = read_run(path.parent)
            assert run is not None
            assert run.summary().isprintable()
        elif path.name == "metrics.csv":
            read_metrics(path)
        else:
            read_checkpoint(path)

    return Fuzzer(one_damaged(seeds), on_disk(folder / "tried", read))


# Whole files that kifu wrote: after any damage the same answer, or an error


def _contents(dataset: Any) -> Any:
    return [batch.columns() for batch in dataset.batches(64)], dataset.about


def read_set(path: Path) -> Any:
    with kifu.open(path) as data:
        return _contents(data), read_manifest(path)


def read_token_set(path: Path) -> Any:
    games = open_tokens(path)
    return games.tokens, games.offsets, games.games, read_manifest(path)


def read_index_arrays(path: Path) -> Any:
    index = open_index(path)
    return [index.read(name) for name in index.header.arrays()]


def read_rows(path: Path) -> Any:
    catalogue = open_catalogue(path)
    return [batch.to_pylist() for batch in catalogue.batches()], catalogue.metadata


def read_policy(path: Path) -> Any:
    from kifu.learn.net import open_net
    from kifu.learn.positions import NetPositions

    net = open_net(path)
    predicted = net.evaluate(NetPositions.from_moves([[40, 41 | 0x8000]], *net.board))
    return predicted.policy, predicted.value, net.games


def _build(recipe: str, *options: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        ingest(sample_path(), folder / "g.parquet", jobs=1)
        *_, report = kifu.build(
            load_recipe(recipe, ["clean=legal", *options]),
            folder / "g.parquet",
            folder,
            sets=["val" if recipe == "katago" else "test"],
            jobs=1,
        )
        (folder / "g.parquet").unlink()
        return str(report.path.name)

    return make


def _indexed(folder: Path) -> str:
    write_catalogue(folder / "a.parquet", *[GAMES] * 40)
    build_index(folder / "a.parquet", jobs=1)
    return "a.parquet"


def _net(write: Callable[[Path], object], name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        write(folder / name)
        return name

    return make


def _onnx(path: Path) -> None:
    from kifu.learn.export import export_net

    export_net(tiny_net(path.with_name("b.safetensors"), heads=("value",)), path)
    path.with_name("b.safetensors").unlink()


def _mix(path: Path) -> None:
    nets = [
        tiny_net(path.with_name(name), heads=("value",), seed=k)
        for k, name in enumerate(("a.safetensors", "b.safetensors"))
    ]
    table = PoolWeights.of_table(np.full((PoolWeights.rows(), 2), 0.25))
    mix = MixFile(
        members=mix_members(nets, path), policy=table, value=table, positions=10, accounts=2, figures=(), games="",
    )  # fmt: skip
    path.write_bytes(add_checksum(mix.model_dump_json()))


WHOLE: dict[str, tuple[Callable[[Path], str], Callable[[Path], Any]]] = {
    "catalogue": (_net(lambda path: write_catalogue(path, *[GAMES] * 40), "a.parquet"), read_rows),
    "folder": (_net(lambda path: append(sample_path(), path, jobs=1), "parts"), read_rows),
    "index": (_indexed, read_index_arrays),
    "npy": (_build("agz17", "format=npy"), read_set),
    "book-npy": (_build("book-seven"), read_set),
    "hdf5": (_build("agz17", "format=hdf5", "positions.passes=false"), read_set),
    "parquet": (_build("agz17"), read_set),
    "katago": (_build("katago"), read_set),
    "tokens": (_build("tokens"), read_token_set),
    "net": (_net(lambda path: tiny_net(path, heads=("value",), games=(1, 2)), "a.safetensors"), read_policy),
    "onnx": (_net(_onnx, "a.onnx"), read_policy),
    "mix": (_net(_mix, "a.mix"), read_policy),
    "kata-net": (_net(lambda path: write_kata_net(path, small_net()), "a.bin.gz"), read_policy),
}
"""By kind, a function that writes files into an empty folder, and one that reads the path that this returns."""


def damaged_bytes(draw: random.Random, data: bytes) -> bytes:
    """Return data with a bit, a byte or a block changed, two blocks exchanged, or the end lost."""
    at, size = draw.randrange(len(data)), draw.choice((1, 1, 8, 512, 70_000))
    kind, rest = draw.randrange(5), data[at + size :]
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + draw.randbytes(min(size, len(data) - at)) + rest
    if kind == 2:
        return data[:at] + bytes(min(size, len(data) - at)) + rest
    if kind == 3:
        return data[:at]
    return rest[:size] + data[size : at + size] + data[:size] + rest[size:] if at >= size else data[:at] + rest


def whole_fuzzer(kind: str, folder: Path) -> Fuzzer:
    """Return the fuzzer of files of a kind, which are compared with the undamaged ones."""
    make, read = WHOLE[kind]
    made = folder / "made"
    made.mkdir()
    name = make(made)
    files, expected = content(made), read(made / name)

    def draw_files(draw: random.Random) -> tuple[str, bytes]:
        victim = draw.choice(list(files))
        return victim, damaged_bytes(draw, files[victim])

    def check(damaged: tuple[str, bytes]) -> None:
        target = made / damaged[0]
        target.write_bytes(damaged[1])
        try:
            np.testing.assert_equal(read(made / name), expected)
        finally:
            target.write_bytes(files[damaged[0]])

    return Fuzzer(draw_files, check)


# Text files and commands

WORDS = (
    *TOKENS, b"\n", b"[", b"]", b"=", b'"', b"1e999", b"-1", b"nan", b"{", b"\xff", b"\x1b[31m", b"\x00", b"#", b".",
)  # fmt: skip


def config_fuzzer(folder: Path) -> Fuzzer:
    kinds: dict[str, tuple[Callable[[Path], object], list[str]]] = {
        "recipes": (load_recipe, config_names("recipes")),
        "cleaning": (load_cleaning_rules, config_names("cleaning")),
        "splits": (load_split, config_names("splits")),
    }
    seeds = [
        {f"{kind}-{name}.toml": config_text(kind, kind, name).encode()}
        for kind, (_, names) in kinds.items()
        for name in names
    ]

    def make(draw: random.Random) -> Files:
        ((name, data),) = draw.choice(seeds).items()
        return {name: damage(draw, bytearray(data), WORDS)}

    def read(path: Path) -> None:
        kind = path.name.partition("-")[0]
        kinds[kind][0](path)
        if kind == "recipes":
            load_training(path)

    return Fuzzer(make, on_disk(folder / "tried", read))


PAGE = b"""<html><!-- <a href="KGS-1999-19-1-.zip"> --><body><table>
<tr><td>2006</td><td><a href='https://example.org/KGS-2006-19-10388-.zip'>zip</a></td>
<td><a href="KGS-2006-19-10388-.tar.gz">tar</a><a href="../KGS-2019_04-19-1255-.tar.bz2"></td></tr></table></html>"""


def index_page_fuzzer(_: Path) -> Fuzzer:
    pieces = (
        *WORDS, b"<a ", b"<!--", b"-->", b"href=", b"&#", b"&#x110000;", b"KGS-", b"-19-", b".zip", b"<", b">", b"'",
    )  # fmt: skip
    return Fuzzer(lambda draw: damage(draw, bytearray(PAGE * draw.randint(1, 3)), pieces), parse_index)


ANSWER = re.compile(r"[=?]\d*(?: [^\n]+)?(?:\n[^\n]+)*\n\n")
COMMANDS = (
    b"boardsize 5", b"clear_board", b"komi 6.5", b"play b c3", b"play w pass", b"genmove b", b"undo", b"showboard",
    b"final_score", b"fixed_handicap 2", b"place_free_handicap 2", b"set_free_handicap a1 b2", b"loadsgf x.sgf 3",
    b"known_command play", b"kata-analyze 1", b"lz-analyze 1", b"time_left b 1 1", b"list_commands", b"7 name",
    b"final_status_list dead", b"kata-set-rules japanese", b"protocol_version", b"reg_genmove w",
    b"kgs-time_settings none",
)  # fmt: skip


def gtp_fuzzer(_: Path) -> Fuzzer:
    pieces = (*WORDS, b" ", b"\t", b"\r", b"b", b"w", b"z26", b"99999999999999999999", b"pass", b"resign")

    def make(draw: random.Random) -> bytes:
        return damage(draw, bytearray(b"\n".join(draw.choices(COMMANDS, k=draw.randint(1, 25))) + b"\n"), pieces)

    def check(sent: bytes) -> None:
        answers = reported(scripted_engine(), sent)
        assert "".join(ANSWER.findall(answers)) == answers
        assert "internal error" not in answers, answers
        assert answers.replace("\n", "").replace("\t", "").isprintable(), repr(answers)

    return Fuzzer(make, check)
