"""Recipes: what they may say, and that any file gives a recipe or one clear line."""

import dataclasses
import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.assets import config_names
from kifu.config import TEXT_LIMIT, check_config
from kifu.datasets.formats import find_format
from kifu.errors import KifuError, RecipeError
from kifu.recipes.schema import KgsgoRecipe, load_recipe, recipe_text

PLAIN = """
name = "mine"
title = "a recipe of my own"
format = "dat2@1"
seed = 7
until = 2019

[sets.test]
title = "a few games"
file = "few.dat"
games = 5

[sets.rest]
title = "the others"
file = "rest.dat"
without = "test"
"""


@pytest.fixture
def file(tmp_path):
    def make(content):
        path = tmp_path / "mine.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return make


def message_of(*arguments):
    with pytest.raises(RecipeError) as caught:
        load_recipe(*arguments)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 600
    return message


def test_the_recipes_that_come_with_kifu():
    assert config_names("recipes") == [
        "agz17", "alphago48", "blog", "book-large", "book-medium", "book-seven", "book-small", "clark-storkey",
        "human", "kata-human", "katago", "kgsgo-v1", "kgsgo-v2", "maddison", "olf-archive", "quick-cpu", "small",
        "strong", "tokens",
    ]  # fmt: skip
    for name, suffix in (("kgsgo-v1", ""), ("kgsgo-v2", "-v2")):
        recipe = load_recipe(name)
        assert (recipe.name, recipe.seed, recipe.until) == (name, 0, 2014)
        assert {key: (s.file, s.games, s.without) for key, s in recipe.sets.items()} == {
            "test": (f"kgsgo-test{suffix}.dat", 100, None),
            "train10k": (f"kgsgo-train10k{suffix}.dat", 10000, "test"),
            "trainall": (f"kgsgo-trainall{suffix}.dat", None, "test"),
            "archives": ("{archive}.dat" if name == "kgsgo-v1" else "{archive}v2.dat", None, None),
        }
        assert recipe.default_sets() == ["test", "train10k", "trainall"]
        assert find_format(recipe.format).name == recipe.format
        assert [key for key, s in recipe.sets.items() if s.by_archive] == ["archives"]


def test_a_recipe_of_one_s_own(file):
    recipe = load_recipe(file(PLAIN))
    assert (recipe.name, recipe.seed, recipe.sets["test"].games, recipe.sets["rest"].without) == ("mine", 7, 5, "test")
    assert recipe.default_sets() == ["test", "rest"]
    assert recipe_text(file(PLAIN)) == PLAIN


def test_a_recipe_survives_its_own_table(file):
    recipe = load_recipe(file(PLAIN))
    assert check_config(KgsgoRecipe, recipe.model_dump(), "recipe", "again") == recipe


def test_a_format_without_its_version_is_the_newest(file):
    assert load_recipe(file(PLAIN.replace("dat2@1", "dat2"))).format == "dat2@1"


def test_a_recipe_can_not_be_changed(file):
    recipe = load_recipe(file(PLAIN))
    with pytest.raises(ValueError, match="frozen"):
        recipe.seed = 3


# What a file may not say: what is changed in the plain one, and the message after the file's name

ERRORS = {
    "no name": ('name = "mine"\n', "", "name is missing"),
    "no sets": (PLAIN[PLAIN.index("[sets") :], "", "sets is missing"),
    "empty sets": (PLAIN[PLAIN.index("[sets") :], "[sets]", "a recipe needs at least one set"),
    "a number for sets": (PLAIN[PLAIN.index("[sets") :], "sets = 1",
        "sets must be a table, got 1"),
    "a list for a set": (PLAIN[PLAIN.index("[sets") :], "[sets]\ntest = []",
        "sets.test must be a table, got []"),
    "an unknown key": ("seed = 7", "seed = 7\nsed = 8", "sed: no such key; did you mean 'seed'?"),
    "an unknown key of a set": ("games = 5", "game = 5",
        "sets.test.game: no such key; did you mean 'sets.test.games'?"),
    "a key of two lines": ("seed = 7", 'seed = 7\n"a\\nb" = 1',
        r"a\nb: no such key; available: name, title, format, seed, until, sets"),
    "text for a number": ("seed = 7", 'seed = "7"', 'seed must be an integer, got "7"'),
    "a fraction": ("seed = 7", "seed = 7.0", "seed must be an integer, got 7.0"),
    "no finite number": ("seed = 7", "seed = inf", "seed must be an integer, got Infinity"),
    "yes for a number": ("seed = 7", "seed = true", "seed must be an integer, got true"),
    "a number for yes": ("games = 5", "default = 1", "sets.test.default must be true or false, got 1"),
    "a date": ("until = 2019", "until = 2019-01-01", 'until must be an integer, got "2019-01-01"'),
    "a number for text": ('title = "a few games"', "title = 3",
        "sets.test.title must be text, got 3"),
    "a title of two lines": ("a few games", "a few\\ngames",
        "sets.test.title: 'a few\\ngames' is not one line of printable characters"),
    "a title that paints": ("a few games", "\\u001b[31m",
        "sets.test.title: '\\x1b[31m' is not one line of printable characters"),
    "no title": ("a few games", "", 'sets.test.title must be text of 1 or more characters, got ""'),
    "a negative seed": ("seed = 7", "seed = -1", "seed must be >= 0, got -1"),
    "a seed beyond 64 bits": ("seed = 7", "seed = 9223372036854775808",
        "seed must be < 9223372036854775808, got 9223372036854775808"),
    "a seed of 40,000 bits": ("seed = 7", "seed = 0x" + "F" * 10000,
        "seed must be < 9223372036854775808, got a value too large to show"),
    "no games": ("games = 5", "games = 0", "sets.test.games must be >= 1, got 0"),
    "too many games": ("games = 5", "games = 1000000001",
        "sets.test.games must be <= 1000000000, got 1000000001"),
    "a year of five digits": ("2019", "12019", "until must be <= 9999, got 12019"),
    "an unknown format": ("dat2@1", "dat2@9",
        "format: unknown format 'dat2@9'; did you mean 'dat2@1'? available: dat1@1, dat2@1"),
    "without itself": ('without = "test"', 'without = "rest"',
        "set 'rest': without must name another set that has no without; got 'rest'"),
    "without a set that is not there": ('without = "test"', 'without = "tset"',
        "set 'rest': without must name another set that has no without; got 'tset'"),
    "without one that is without another": ("games = 5", 'without = "rest"',
        "set 'test': without must name another set that has no without; got 'rest'"),
    "one file for two sets": ("rest.dat", "FEW.dat", "set 'test': another set writes 'few.dat' too"),
    "games of whole archives": ("few.dat", "{archive}.dat",
        "sets.test: a set with one file per archive takes all games: it has neither games nor without"),
    "deep": ("seed = 7", "seed = " + "[" * 3000 + "]" * 3000, None),
    "deep by its keys": ("seed = 7", "seed = 7\n" + ".".join("a" * 1500) + " = 1",
        "a: no such key; available: name, title, format, seed, until, sets"),
    "long": ("seed = 7", 'seed = "' + "x" * 9999 + '"',
        'seed must be an integer, got "' + "x" * 75 + " ..."),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_what_does_not_fit_is_named(file, case):
    before, after, expected = ERRORS[case]
    assert PLAIN.count(before) == 1
    path = file(PLAIN.replace(before, after))
    if expected is None:
        assert message_of(path) == f"recipe {path} is nested too deeply"
    else:
        assert message_of(path) == f"recipe {path}: {expected}"


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".hidden", "../few.dat", "/etc/passwd", "a/b", "a\\\\b", "{}", "{nix}.dat", "{archive}{",
     "{archive}/x", "few.dat.manifest.json", "few.dat.manifest.parquet", "a\\u0000b", "a\\nb", "x" * 201],
)  # fmt: skip
def test_evil_file_names(file, name):
    message = message_of(file(PLAIN.replace("few.dat", name)))
    assert "sets.test.file" in message


@pytest.mark.parametrize("name", ["few", "few games.dat", "wenige-Spiele-ü.dat", "囲碁.dat", "-rf", "x" * 200])
def test_plain_file_names(file, name):
    assert load_recipe(file(PLAIN.replace("few.dat", name))).sets["test"].file == name


# Files that are not TOML, and missing files


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (PLAIN + "[sets.test]\n", "is not TOML: "),
        ("name", "is not TOML: "),
        ("\0", "is not TOML: "),
        ("\ufeff" + PLAIN, "is not TOML: "),
        (PLAIN.replace("7", "9" * 5000), "is not TOML: Exceeds the limit"),
        (b"GIF89a\xff\xff", "cannot read the recipe "),
        (PLAIN.encode("utf-16"), "cannot read the recipe "),
        (PLAIN + "#" * TEXT_LIMIT, f"larger than {TEXT_LIMIT:,} bytes"),
        ("", "name is missing"),
    ],
)
def test_files_that_are_no_recipe(file, content, expected):
    assert expected in message_of(file(content))


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    assert message_of(str(tmp_path / "folder.toml")).endswith("folder.toml: Is a directory")
    assert message_of(str(tmp_path / "none.toml")).endswith("none.toml: No such file or directory")
    assert message_of(str(tmp_path / "none" / "x.toml")).endswith("x.toml: No such file or directory")
    assert message_of("a\0.toml").endswith("No such file or directory")
    assert message_of("x" * 300 + ".toml").endswith("File name too long")


@pytest.mark.parametrize("name", ["kgsgo", "../kgsgo-v1", "", "kgsgo-v1.toml/", "schema.py"])
def test_names_that_are_no_recipe(name):
    message = message_of(name)
    assert message.startswith(f"unknown recipe {name!r}; ")
    assert message.endswith(f"available: {', '.join(config_names('recipes'))}, or a file that ends in .toml")


@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    with pytest.raises(RecipeError):
        load_recipe(str(path))


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@given(st.sampled_from(["name", "format", "seed", "until", "sets", "extra"]), VALUES)
def test_any_value_of_any_key(key, value):
    table = load_recipe("kgsgo-v1").model_dump() | {key: value}
    message = ""
    try:
        assert getattr(check_config(KgsgoRecipe, table, "recipe", "any"), key) == value
    except KifuError as error:
        message = str(error)
    assert message.isprintable()


# Overrides


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("until=2019", "until", 2019),
        (" until =2019", "until", 2019),
        ("sets.test.games=20", "sets.test.games", 20),
        ("sets.test.games = 1_000", "sets.test.games", 1000),
        ("sets.archives.default=true", "sets.archives.default", True),
        ("title=any text, not TOML = fine", "title", "any text, not TOML = fine"),
        ('title="quoted"', "title", "quoted"),
        ("sets.test.file=mine.dat", "sets.test.file", "mine.dat"),
        ("format=dat1@1", "format", "dat1@1"),
    ],
)
def test_overrides(override, path, value):
    found = load_recipe("kgsgo-v2", [override]).model_dump()
    for part in path.split("."):
        found = found[part]
    assert found == value


def paths_of(table, prefix=""):
    """Yield path and value of each entry of a table, with empty tables and without the entries that TOML lacks."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from paths_of(value, f"{prefix}{key}.")
        elif value is not None:
            yield prefix + key, value


@pytest.mark.parametrize("name", config_names("recipes"))
def test_each_value_of_each_packaged_recipe_can_be_set(name):
    recipe = load_recipe(name)
    file = tomllib.loads(recipe_text(name))
    references = [key for key in ("clean", "split") if isinstance(file.get(key), str)]  # names of other files
    dumped = {**recipe.model_dump(mode="json"), **{key: file[key] for key in references}}
    overrides = [f"{path}={json.dumps(value) if value != {} else '{}'}" for path, value in paths_of(dumped)]
    assert len(overrides) >= 4
    for override in overrides:
        assert load_recipe(name, [override]) == recipe, override
    assert load_recipe(name, overrides) == recipe


def kind_of(name):
    return tomllib.loads(recipe_text(name)).get("kind")


@pytest.mark.parametrize(
    "name", [name for name in config_names("recipes") if kind_of(name) in ("examples", "training")]
)
def test_positions_per_game_can_be_set(name):
    recipe = load_recipe(name)
    changed = load_recipe(name, ["positions.per_game=9"])
    assert changed.positions == dataclasses.replace(recipe.positions, per_game=9)


def test_an_override_of_an_inner_value_keeps_the_other_defaults():
    assert load_recipe("katago", ["trust.time=0.25"]).trust == {"score": 1.0, "resign": 1.0, "time": 0.25}
    assert load_recipe("blog", ["schedule.warm_up=0.1"]).schedule.kind == "constant"
    assert load_recipe("blog", ["heads.value=0.5"]).heads == {"value": 0.5}
    assert load_recipe("blog", ["positions.ply_weights.30=0.5"]).positions.ply_weights == {30: 0.5}


def test_later_overrides_win_and_the_recipe_stays():
    assert load_recipe("kgsgo-v2", ["seed=1", "seed=2"]).seed == 2
    assert load_recipe("kgsgo-v2").seed == 0


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("until", "--set takes key=value, not 'until'"),
        ("=5", "--set takes key=value, not '=5'"),
        ("", "--set takes key=value, not ''"),
        ("seed.x=1", "--set 'seed.x=1': seed of the recipe must be a table, got 0"),
        (
            "sets.test.file.x=1",
            "--set 'sets.test.file.x=1': sets.test.file of the recipe must be a table, got \"kgsgo-test-v2.dat\"",
        ),
        ("sets.nix.games=1", "recipe kgsgo-v2: sets.nix.title is missing"),
        ("nix.games=1", "recipe kgsgo-v2: nix: no such key; available: name, title, format, seed, until, sets"),
        ("sets..games=1", "--set takes key=value, not 'sets..games=1'"),
        (".=1", "--set takes key=value, not '.=1'"),
        ("sed=1", "recipe kgsgo-v2: sed: no such key; did you mean 'seed'?"),
        ("games=1", "recipe kgsgo-v2: games: no such key; did you mean 'sets.test.games'?"),
        ("seed=", 'recipe kgsgo-v2: seed must be an integer, got ""'),
        ("seed=x", 'recipe kgsgo-v2: seed must be an integer, got "x"'),
        ("sets.test=5", "recipe kgsgo-v2: sets.test must be a table, got 5"),
        ("seed=" + "[" * 5000, 'recipe kgsgo-v2: seed must be an integer, got "' + "[" * 75 + " ..."),
        ("seed=" + "9" * 5000, 'recipe kgsgo-v2: seed must be an integer, got "' + "9" * 75 + " ..."),
        ("seed=1\nuntil=3", 'recipe kgsgo-v2: seed must be an integer, got "1\\nuntil=3"'),
    ],
)
def test_overrides_that_do_not_fit(override, expected):
    assert message_of("kgsgo-v2", [override]) == expected


@given(st.text(max_size=30))
def test_any_override(text):
    message = ""
    try:
        load_recipe("kgsgo-v2", [text])
    except RecipeError as error:
        message = str(error)
    assert "\n" not in message
